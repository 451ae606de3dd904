package lab

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prove"
)

// unknownField is a field that no api-version has.
const unknownField = "routekeeperProof"

func (t *trial) unknownFields() {
	for _, f := range []struct {
		fact string
		id   arm.ID
		path string
	}{
		{"subnet-unknown-field", t.spare(), "properties." + unknownField},
		{"route-unknown-field", t.large(), "properties.routes.0.properties." + unknownField},
	} {
		e := t.edit(t.ready(f.id), func(doc arm.Document) (edit, error) {
			return edited(doc.Raw, f.path, "kept")
		})
		reply := t.put(f.id, e.body, "")
		answer := answerOf(reply)
		after := t.after(reply, f.id)
		kept := e.shows(after)
		if kept { // the other trials work without the field
			t.write(f.id, t.changed(sjson.DeleteBytes(after.Raw, f.path)))
		}
		switch {
		case answer.Again:
			t.fact(f.fact, untested("it was refused for another reason: "+answer.String()))
		case !answer.OK():
			t.fact(f.fact, confirmed("refused: "+answer.String()))
		default:
			t.fact(f.fact, confirmedIf(kept, "it was kept", "it was accepted, and dropped"))
		}
	}
}

// fullTable is how many routes a table holds unless Azure Virtual Network Manager manages it.
const fullTable = 400

// patience is how long a write of routekeeper may take, with its operation.
const patience = 2 * time.Minute

func (t *trial) largeTables() {
	body := func(n int) []byte {
		return encode(object{"location": t.Location, "properties": object{"routes": routes(n)}})
	}
	reply := t.put(t.large(), body(fullTable), "")
	answer := answerOf(reply)
	if answer.Again {
		t.fail(refusedBy(reply.Fault()))
	}
	settled, took := false, time.Duration(0)
	for t.err == nil && answer.OK() && !settled && took <= settleWithin {
		if end := t.follow(reply); end.Code != "" {
			answer = prove.Answer{Status: http.StatusConflict, Code: end.Code}
			break
		}
		settled = inventory.Settled(t.get(t.large()).Raw)
		took = time.Since(reply.Sent)
		if !settled {
			t.pause(pollInterval)
		}
	}
	switch {
	case !answer.OK():
		t.fact("full-table", differs("it was refused: "+answer.String()))
		t.fact("route-limit", untested("400 routes were refused already"))
	case !settled:
		t.fact("full-table", differs("it was not settled after "+seconds(took)))
		t.fact("route-limit", untested("400 routes were not settled"))
	default:
		t.fact("full-table", confirmedIf(took <= patience, "settled after "+seconds(took),
			"settled only after "+seconds(took)))
		t.overLimit(body(fullTable + 1))
	}
}

// overLimit puts one route more than a table holds.
func (t *trial) overLimit(body []byte) {
	reply := t.put(t.large(), body, "")
	answer := answerOf(reply)
	doc := t.after(reply, t.large())
	routes := len(gjson.GetBytes(doc.Raw, "properties.routes").Array())
	switch {
	case answer.OK():
		t.fact("route-limit", confirmedIf(routes <= fullTable,
			"it was accepted, and 400 routes are there",
			"it was accepted"))
	case answer.Again:
		t.fact("route-limit", untested("it was refused for another reason: "+answer.String()))
	default:
		t.fact("route-limit", confirmed(answer.String()))
	}
}

// tableInUse tries to delete a table that a subnet uses.
func (t *trial) tableInUse() {
	subnet := t.ready(t.nodes())
	link := arm.ID(gjson.GetBytes(subnet.Raw, "properties.routeTable.id").String())
	if !link.Equal(t.table()) {
		t.fail(errors.New("the subnet has no table, after an earlier trial"))
	}
	reply := t.remove(t.table())
	answer := answerOf(reply)
	if answer.Again {
		t.fail(refusedBy(reply.Fault()))
	}
	if reply.Status == http.StatusAccepted { // it may be refused at the end
		if end := t.follow(reply); end.Code != "" {
			answer = prove.Answer{Status: http.StatusConflict, Code: end.Code}
		}
	}
	t.fact("table-in-use", confirmedIf(!answer.OK(), answer.Brief(), "it was accepted"))
}

// networkWrites puts the network without subnets, and then with a subnet without its table.
func (t *trial) networkWrites() {
	subnets := func(doc arm.Document) []gjson.Result {
		return gjson.GetBytes(doc.Raw, "properties.subnets").Array()
	}
	before := t.ready(t.network())
	body := t.changed(redeployed(before.Raw))
	had := subnets(before)
	left := subnets(t.write(t.network(), t.changed(sjson.DeleteBytes(body, "properties.subnets"))))
	seen := fmt.Sprintf("%d of %d subnets are left", len(left), len(had))
	t.fact("network-put-keeps-subnets", confirmedIf(len(left) == len(had), seen, seen))

	for i, s := range had {
		if s.Get("name").String() == nodesName {
			body = t.changed(sjson.DeleteBytes(body,
				fmt.Sprintf("properties.subnets.%d.properties.routeTable", i)))
		}
	}
	reply := t.put(t.network(), body, "")
	stripped := true
	for _, s := range subnets(t.after(reply, t.network())) {
		if s.Get("name").String() == nodesName && s.Get("properties.routeTable.id").Exists() {
			stripped = false
		}
	}
	strips := untested("it was refused: " + answerOf(reply).String())
	if answerOf(reply).OK() {
		strips = confirmedIf(stripped, "the subnet had no table", "the subnet kept its table")
	}
	t.fact("network-put-strips", strips)
}

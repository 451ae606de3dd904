package lab

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prove"
)

// unknownField is a field that no api-version has.
const unknownField = "routekeeperProof"

func (t *trial) unknownFields() {
	var u prove.Unknown
	for _, f := range []struct {
		id     arm.ID
		path   string
		answer *prove.Answer
		kept   *bool
	}{
		{t.spare(), "properties." + unknownField, &u.Subnet, &u.SubnetKept},
		{t.large(), "properties.routes.0.properties." + unknownField, &u.Route, &u.RouteKept},
	} {
		e := t.edit(t.ready(f.id), func(doc arm.Document) (edit, error) {
			return edited(doc.Raw, f.path, "kept")
		})
		reply := t.put(f.id, e.body, "")
		*f.answer = answerOf(reply)
		after := t.after(reply, f.id)
		if *f.kept = e.shows(after); *f.kept { // the other trials work without it
			t.write(f.id, t.took(sjson.DeleteBytes(after.Raw, f.path)))
		}
	}
	t.seen.Unknown = &u
}

func (t *trial) largeTables() {
	var limit prove.Limit
	body := func(n int) []byte {
		return encode(object{"location": t.Location, "properties": object{"routes": routes(n)}})
	}
	reply := t.put(t.large(), body(prove.FullTable), "")
	if limit.Full = answerOf(reply); limit.Full.Again {
		t.err = refusedBy(reply.Fault())
	}
	for t.err == nil && limit.Full.OK() && !limit.Settled && limit.Took <= settleWithin {
		if end := t.follow(reply); end.Code != "" {
			limit.Full = prove.Answer{Status: http.StatusConflict, Code: end.Code}
			break
		}
		limit.Settled = inventory.Settled(t.get(t.large()).Raw)
		limit.Took = time.Since(reply.Sent)
		if !limit.Settled && t.err == nil {
			t.err = azure.Pause(t.ctx, pollInterval)
		}
	}
	if limit.Settled {
		reply = t.put(t.large(), body(prove.FullTable+1), "")
		limit.Over = answerOf(reply)
		doc := t.after(reply, t.large())
		limit.OverSeen = len(gjson.GetBytes(doc.Raw, "properties.routes").Array()) > prove.FullTable
	}
	t.seen.Limit = &limit
}

// tableInUse tries to delete a table that a subnet uses.
func (t *trial) tableInUse() {
	subnet := t.ready(t.nodes())
	link := arm.ID(gjson.GetBytes(subnet.Raw, "properties.routeTable.id").String())
	if t.err == nil && !link.Equal(t.table()) {
		t.err = errors.New("the subnet has no table, after an earlier trial")
	}
	reply := t.remove(t.table())
	answer := answerOf(reply)
	if answer.Again {
		t.err = refusedBy(reply.Fault())
	}
	if reply.Status == http.StatusAccepted { // it may be refused at the end
		if end := t.follow(reply); end.Code != "" {
			answer = prove.Answer{Status: http.StatusConflict, Code: end.Code}
		}
	}
	t.seen.InUse = &answer
}

// networkWrites puts the network without subnets, and then with a subnet without its table.
func (t *trial) networkWrites() {
	subnets := func(doc arm.Document) []gjson.Result {
		return gjson.GetBytes(doc.Raw, "properties.subnets").Array()
	}
	before := t.ready(t.network())
	body := t.took(redeployed(before.Raw))
	bare := t.took(sjson.DeleteBytes(body, "properties.subnets"))
	n := prove.Network{Had: len(subnets(before)), Stripped: true,
		Left: len(subnets(t.write(t.network(), bare)))}
	for i, s := range subnets(before) {
		if s.Get("name").String() == nodesName {
			body = t.took(sjson.DeleteBytes(body,
				fmt.Sprintf("properties.subnets.%d.properties.routeTable", i)))
		}
	}
	reply := t.put(t.network(), body, "")
	n.Listed = answerOf(reply)
	for _, s := range subnets(t.after(reply, t.network())) {
		if s.Get("name").String() == nodesName && s.Get("properties.routeTable.id").Exists() {
			n.Stripped = false
		}
	}
	t.seen.Network = &n
}

package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prove"
)

// edit is a change of a document that a later read shows.
type edit struct {
	body  []byte
	path  string
	value string
}

func (e edit) shows(doc arm.Document) bool {
	return gjson.GetBytes(doc.Raw, e.path).String() == e.value
}

// edited changes one field of a document.
func edited(raw []byte, path, value string) (edit, error) {
	body, err := sjson.SetBytes(raw, path, value)
	return edit{body, path, value}, err
}

// edit changes a document.
func (t *trial) edit(doc arm.Document, change func(arm.Document) (edit, error)) (e edit) {
	if t.err == nil {
		e, t.err = change(doc)
	}
	return e
}

// hop changes the next hop of a table's first route to an address that it has not had before.
func (l *lab) hop(doc arm.Document) (edit, error) {
	l.counter++
	value := fmt.Sprintf("10.213.200.%d", l.counter)
	return edited(doc.Raw, "properties.routes.0.properties.nextHopIpAddress", value)
}

// flip toggles a policy of a subnet. It alternates between two fields, so that two consecutive
// edits differ.
func (l *lab) flip(doc arm.Document) (edit, error) {
	l.counter++
	path := []string{"properties.privateEndpointNetworkPolicies",
		"properties.privateLinkServiceNetworkPolicies"}[l.counter%2]
	value := "Enabled"
	if gjson.GetBytes(doc.Raw, path).String() == value {
		value = "Disabled"
	}
	return edited(doc.Raw, path, value)
}

// redeployed returns a document without ETags, as templates write it, so that nothing in it refers
// to what was read.
func redeployed(raw []byte) ([]byte, error) {
	doc, err := parsed(raw)
	if err != nil {
		return nil, err
	}
	dropETags(doc)
	return plain(doc)
}

// parsed reads JSON, with numbers as they are written.
func parsed(raw []byte) (doc any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&doc)
	return doc, err
}

func dropETags(v any) {
	switch x := v.(type) {
	case object:
		delete(x, "etag")
		for _, inner := range x {
			dropETags(inner)
		}
	case []any:
		for _, inner := range x {
			dropETags(inner)
		}
	}
}

func (t *trial) subnetWrites() { t.writesOf("subnet", t.nodes(), t.flip) }

func (t *trial) tableWrites() { t.writesOf("table", t.table(), t.hop) }

// putResults is what a trial observes while it writes a subnet or table.
type putResults struct {
	first   prove.Answer // to a PUT with a fresh ETag
	stale   prove.Answer // to a PUT with the ETag from before it
	applied bool         // the stale one took effect
}

// writesOf changes a resource with a fresh ETag, then with the same ETag, which is old by then, and
// then writes it unchanged.
func (t *trial) writesOf(kind string, id arm.ID, change func(arm.Document) (edit, error)) {
	before, reply := t.firstWrite(id, change)
	p := putResults{first: answerOf(reply)}
	refused := "the PUT was refused: " + p.first.String()
	settles, end, same := untested(refused), untested(refused), untested("it was not tested")
	if t.err == nil && p.first.OK() {
		ended := t.follow(reply)
		end = judgeEnd(reply, ended)
		settled := t.ready(id)
		answered := gjson.GetBytes(reply.Body, "etag").String()
		if settles = untested("the answer of the PUT has no ETag"); answered != "" {
			settles = confirmedIf(answered != settled.ETag, "it changed again",
				"the ETag of the answer did not change")
		}

		stale := t.edit(settled, change)
		reply = t.put(id, stale.body, before.ETag)
		p.stale = answerOf(reply)
		current := t.after(reply, id)
		p.applied = stale.shows(current)

		reply = t.put(id, current.Raw, "")
		same = judgeSame(reply, current.ETag, t.after(reply, id).ETag)
	}
	t.fact(kind+"-if-match", judgeStale(p))
	t.fact(kind+"-if-match-code", judgeCode(p))
	t.fact(kind+"-etag-settles", settles)
	t.fact(kind+"-same-put", same)
	t.fact(kind+"-operation", end)
}

// judgeStale judges whether If-Match works.
func judgeStale(p putResults) prove.Judgement {
	switch {
	case p.first.Status == 412:
		return differs("the current ETag is refused, too: " + p.first.String())
	case p.stale.OK() && p.applied:
		return differs("it was accepted, and took effect")
	case p.stale.OK():
		return differs("it was accepted, and had no effect")
	case p.stale.Status != 412:
		return untested("it was refused for another reason: " + p.stale.String())
	case p.applied:
		return differs("it was refused, but took effect")
	}
	return confirmed(p.stale.Brief())
}

// etagMismatch is the code of a 412 (Azure's Network provider, as cloud-provider-azure reads it).
const etagMismatch = "PreconditionFailedEtagMismatch"

func judgeCode(p putResults) prove.Judgement {
	refusal := p.stale
	if p.first.Status == 412 { // then no other PUT was sent
		refusal = p.first
	}
	if refusal.OK() {
		return untested("nothing was refused")
	}
	return confirmedIf(refusal.Status == 412 && refusal.Code == etagMismatch, refusal.String(),
		refusal.String())
}

// judgeEnd judges the answer to a PUT by how its operation ended.
func judgeEnd(reply azure.Reply, end ending) prove.Judgement {
	switch operation := operationOf(reply) != ""; {
	case inventory.Settled(reply.Body) && !operation:
		return untested("the PUT ended at once")
	case !operation:
		return differs("the answer says Updating, but names no operation")
	}
	return confirmedIf(end.Status == "Succeeded",
		"Succeeded after "+seconds(time.Since(reply.Sent)), "its operation ended as "+end.Status)
}

// judgeSame judges a PUT of an unchanged document by the ETags before and after it.
func judgeSame(reply azure.Reply, before, after string) prove.Judgement {
	switch answer := answerOf(reply); {
	case !answer.OK():
		return untested("it was refused: " + answer.String())
	case !inventory.Settled(reply.Body):
		return differs("it began an operation")
	}
	return confirmedIf(before != after, "it ended at once, with a new ETag",
		"it ended at once, with the same ETag")
}

// firstWrite changes a resource with a fresh ETag. If the resource is busy, it tries again.
func (t *trial) firstWrite(id arm.ID, change func(arm.Document) (edit, error)) (before arm.Document,
	reply azure.Reply) {
	for try := 1; ; try++ {
		before = t.ready(id)
		reply = t.put(id, t.edit(before, change).body, before.ETag)
		fault := reply.Fault()
		switch {
		case t.err != nil || fault == nil || !fault.Transient():
			return before, reply
		case try == tries:
			t.err = refusedBy(fault)
			return before, reply
		}
		t.pause(fault.RetryAfter)
	}
}

func (t *trial) sharedETags() {
	network, table := t.ready(t.network()), t.ready(t.table())
	subnet := gjson.GetBytes(network.Raw, "properties.subnets.0.etag").String()
	route := gjson.GetBytes(table.Raw, "properties.routes.0.etag").String()
	if subnet == "" || route == "" {
		t.fail(errors.New("a subnet or a route has no ETag in the answer"))
	}
	shared := confirmed("one ETag in each document")
	switch {
	case network.ETag != subnet && table.ETag != route:
		shared = differs("both have their own ETags")
	case network.ETag != subnet:
		shared = differs("a subnet has its own ETag")
	case table.ETag != route:
		shared = differs("a route has its own ETag")
	}
	t.fact("shared-etag", shared)
}

// strip removes the table from a subnet, as a redeployment does, and puts it back, as the keeper
// does.
func (t *trial) strip() {
	const table = "properties.routeTable"
	before := t.ready(t.nodes())
	first := t.ready(t.table()).ETag
	stripped := t.changed(sjson.DeleteBytes(before.Raw, table))
	without := t.write(t.nodes(), t.changed(redeployed(stripped)))
	gone := !gjson.GetBytes(without.Raw, table+".id").Exists()
	second := t.ready(t.table()).ETag
	repaired := t.changed(sjson.SetBytes(without.Raw, table+".id", string(t.table())))
	after := t.write(t.nodes(), repaired)
	third := t.ready(t.table()).ETag
	back := arm.ID(gjson.GetBytes(after.Raw, table+".id").String()).Equal(t.table())
	if t.err != nil {
		return
	}
	lost, err := arm.Differences(before.Raw, after.Raw)
	t.fail(err)

	t.fact("strip", confirmedIf(gone, "the subnet had no table", "the subnet kept its table"))
	kept := untested("the subnet kept its table")
	repair, etag := kept, kept
	switch {
	case !gone:
	case !back:
		repair = differs("the table is not back")
	default:
		repair = confirmedIf(len(lost) == 0, "every field is as before",
			"they differ: "+strings.Join(lost, ", "))
	}
	switch {
	case !gone:
	case first != second && second != third:
		etag = differs("the table has a new ETag after the strip, and after the repair")
	case first != second:
		etag = differs("the table has a new ETag after the strip")
	case second != third:
		etag = differs("the table has a new ETag after the repair")
	default:
		etag = confirmed("the table kept its ETag")
	}
	t.fact("repair", repair)
	t.fact("strip-keeps-table-etag", etag)
}

package lab

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
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
	var doc any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	dropETags(doc)
	return plain(doc)
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

func (t *trial) subnetWrites() { t.seen.Subnet = t.writesOf(t.nodes(), t.flip) }

func (t *trial) tableWrites() { t.seen.Table = t.writesOf(t.table(), t.hop) }

// writesOf changes a resource with a fresh ETag, then with the same ETag, which is old by then, and
// then writes it unchanged.
func (t *trial) writesOf(id arm.ID, change func(arm.Document) (edit, error)) *prove.Write {
	var w prove.Write
	before, reply := t.firstWrite(id, change)
	if w.First = answerOf(reply); t.err != nil || !w.First.OK() {
		return &w
	}
	w.Answered = gjson.GetBytes(reply.Body, "etag").String()
	w.Updating = !inventory.Settled(reply.Body)
	w.Operation = reply.Header.Get("Azure-AsyncOperation") != ""
	w.End = t.follow(reply).Status
	w.Took = fmt.Sprintf("%.1f s", time.Since(reply.Sent).Seconds())
	settled := t.ready(id)
	w.Settled = settled.ETag

	stale := t.edit(settled, change)
	reply = t.put(id, stale.body, before.ETag)
	w.Stale = answerOf(reply)
	current := t.after(reply, id)
	w.Applied = stale.shows(current)

	w.Before = current.ETag
	reply = t.put(id, current.Raw, "")
	w.Same, w.SameUpdating = answerOf(reply), !inventory.Settled(reply.Body)
	w.After = t.after(reply, id).ETag
	return &w
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
		t.err = azure.Pause(t.ctx, cmp.Or(fault.RetryAfter, pollInterval))
	}
}

func (t *trial) sharedETags() {
	network, table := t.ready(t.network()), t.ready(t.table())
	s := &prove.Shared{
		Network: network.ETag, Subnet: gjson.GetBytes(network.Raw,
			"properties.subnets.0.etag").String(),
		Table: table.ETag, Route: gjson.GetBytes(table.Raw, "properties.routes.0.etag").String(),
	}
	if t.err == nil && (s.Subnet == "" || s.Route == "") {
		t.err = fmt.Errorf("a subnet or a route has no ETag in the answer")
	}
	t.seen.Shared = s
}

// strip removes the table from a subnet, as a redeployment does, and puts it back, as the keeper
// does.
func (t *trial) strip() {
	const table = "properties.routeTable"
	var s prove.Strip
	before := t.ready(t.nodes())
	s.Before = t.ready(t.table()).ETag
	stripped := t.took(sjson.DeleteBytes(before.Raw, table))
	without := t.write(t.nodes(), t.took(redeployed(stripped)))
	s.Gone = !gjson.GetBytes(without.Raw, table+".id").Exists()
	s.Stripped = t.ready(t.table()).ETag
	repaired := t.took(sjson.SetBytes(without.Raw, table+".id", string(t.table())))
	after := t.write(t.nodes(), repaired)
	s.Repaired = t.ready(t.table()).ETag
	s.Back = arm.ID(gjson.GetBytes(after.Raw, table+".id").String()).Equal(t.table())
	s.Lost = step(t, func() ([]string, error) { return arm.Differences(before.Raw, after.Raw) })
	t.seen.Strip = &s
}

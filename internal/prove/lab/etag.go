package lab

import (
	"bytes"
	"cmp"
	"context"
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

func (l *lab) subnetWrites(ctx context.Context) (err error) {
	l.seen.Subnet, err = l.writesOf(ctx, l.nodes(), l.flip)
	return err
}

func (l *lab) tableWrites(ctx context.Context) (err error) {
	l.seen.Table, err = l.writesOf(ctx, l.table(), l.hop)
	return err
}

// writesOf changes a resource with a fresh ETag, then with the same ETag, which is old by then, and
// then writes it unchanged.
func (l *lab) writesOf(
	ctx context.Context, id arm.ID, change func(arm.Document) (edit, error),
) (*prove.Write, error) {
	var w prove.Write
	before, reply, err := l.firstWrite(ctx, id, change)
	if err != nil {
		return nil, err
	}
	if w.First = answerOf(reply); !w.First.OK() {
		return &w, nil
	}
	w.Answered = gjson.GetBytes(reply.Body, "etag").String()
	w.Updating = !inventory.Settled(reply.Body)
	w.Operation = reply.Header.Get("Azure-AsyncOperation") != ""
	end, err := l.follow(ctx, reply)
	if err != nil {
		return nil, err
	}
	w.End, w.Took = end.Status, fmt.Sprintf("%.1f s", time.Since(reply.Sent).Seconds())
	settled, err := l.ready(ctx, id)
	if err != nil {
		return nil, err
	}
	w.Settled = settled.ETag

	stale, err := change(settled)
	if err != nil {
		return nil, err
	}
	if reply, err = l.put(ctx, id, stale.body, before.ETag); err != nil {
		return nil, err
	}
	w.Stale = answerOf(reply)
	current, err := l.after(ctx, reply, id)
	if err != nil {
		return nil, err
	}
	w.Applied = stale.shows(current)

	w.Before = current.ETag
	if reply, err = l.put(ctx, id, current.Raw, ""); err != nil {
		return nil, err
	}
	w.Same, w.SameUpdating = answerOf(reply), !inventory.Settled(reply.Body)
	after, err := l.after(ctx, reply, id)
	w.After = after.ETag
	return &w, err
}

// firstWrite changes a resource with a fresh ETag. If the resource is busy, it tries again.
func (l *lab) firstWrite(
	ctx context.Context, id arm.ID, change func(arm.Document) (edit, error),
) (before arm.Document, reply azure.Reply, err error) {
	for try := 1; ; try++ {
		if before, err = l.ready(ctx, id); err != nil {
			return before, reply, err
		}
		first, err := change(before)
		if err != nil {
			return before, reply, err
		}
		reply, err = l.put(ctx, id, first.body, before.ETag)
		if err != nil {
			return before, reply, err
		}
		fault := reply.Fault()
		switch {
		case fault == nil || !fault.Transient():
			return before, reply, nil
		case try == tries:
			return before, reply, refusedBy(fault)
		}
		if err := azure.Pause(ctx, cmp.Or(fault.RetryAfter, pollInterval)); err != nil {
			return before, reply, err
		}
	}
}

func (l *lab) sharedETags(ctx context.Context) error {
	network, err := l.ready(ctx, l.network())
	if err != nil {
		return err
	}
	table, err := l.ready(ctx, l.table())
	if err != nil {
		return err
	}
	s := &prove.Shared{
		Network: network.ETag, Subnet: gjson.GetBytes(network.Raw,
			"properties.subnets.0.etag").String(),
		Table: table.ETag, Route: gjson.GetBytes(table.Raw, "properties.routes.0.etag").String(),
	}
	if s.Subnet == "" || s.Route == "" {
		return fmt.Errorf("a subnet or a route has no ETag in the answer")
	}
	l.seen.Shared = s
	return nil
}

// strip removes the table from a subnet, as a redeployment does, and puts it back, as the keeper
// does.
func (l *lab) strip(ctx context.Context) error {
	var s prove.Strip
	before, err := l.ready(ctx, l.nodes())
	if err != nil {
		return err
	}
	tableETag := func() string {
		doc, failed := l.ready(ctx, l.table())
		if failed != nil {
			err = failed
		}
		return doc.ETag
	}
	s.Before = tableETag()
	stripped, failed := sjson.DeleteBytes(before.Raw, "properties.routeTable")
	if failed == nil {
		stripped, failed = redeployed(stripped)
	}
	if failed != nil || err != nil {
		return cmp.Or(err, failed)
	}
	without, err := l.write(ctx, l.nodes(), stripped)
	if err != nil {
		return err
	}
	s.Gone = !gjson.GetBytes(without.Raw, "properties.routeTable.id").Exists()
	s.Stripped = tableETag()
	repaired, failed := sjson.SetBytes(without.Raw, "properties.routeTable.id", string(l.table()))
	if failed != nil || err != nil {
		return cmp.Or(err, failed)
	}
	after, err := l.write(ctx, l.nodes(), repaired)
	if err != nil {
		return err
	}
	s.Repaired = tableETag()
	s.Back = arm.ID(gjson.GetBytes(after.Raw, "properties.routeTable.id").String()).Equal(l.table())
	if s.Lost, failed = arm.Differences(before.Raw, after.Raw); failed != nil || err != nil {
		return cmp.Or(err, failed)
	}
	l.seen.Strip = &s
	return nil
}

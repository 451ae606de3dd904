package keeper

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// replan plans again for one resource that was read again. Late is asked where a table is written late: it looks again at what the plan
// stands on.
type replan struct {
	table  func(*inventory.RouteTable) plan.Plan
	subnet func(*inventory.Subnet) plan.Plan
	late   func(ctx context.Context, table arm.ID) (replan, error)
}

// only plans for chosen changes.
func (r replan) only(chosen func(plan.Change) bool) replan {
	return replan{
		func(table *inventory.RouteTable) plan.Plan {
			return r.table(table).Only(chosen, func(arm.ID) *inventory.RouteTable { return table })
		},
		func(subnet *inventory.Subnet) plan.Plan { return r.subnet(subnet).Only(chosen, nil) },
		func(ctx context.Context, table arm.ID) (replan, error) {
			again, err := r.late(ctx, table)
			return again.only(chosen), err
		},
	}
}

// editor plans for one resource each time it is read.
type editor struct {
	replan
	check    *check
	snapshot *inventory.Snapshot // what the plan stands on
	findings []finding.Finding   // why it was left alone
	seen     time.Time           // when that was looked at
	intend   func([]plan.Change) // is told what the next document changes, before it is sent
	made     []plan.Change       // by the documents that were to be sent, the last word on each
	drafts   []draft
	read     *inventory.RouteTable // as it was read last
}

// draft is a document that was to be sent, and what it changes.
type draft struct {
	body    []byte
	changes []plan.Change
}

func (e *editor) note(changes []plan.Change) {
	now := keysOf(changes)
	e.made = slices.DeleteFunc(e.made, func(c plan.Change) bool { return now[keyOfChange(c)] })
	e.made = append(e.made, changes...)
	e.intend(changes)
}

// draw notes a document that makes changes.
func (e *editor) draw(changes []plan.Change, body []byte, err error) ([]byte, error) {
	e.drafts = append(e.drafts, draft{body, changes})
	return body, err
}

// sent are the changes in documents that may have taken effect. What was only in others, which were refused, is nothing
// that this program did, even where it has become true since.
func (e *editor) sent(written azure.Written) map[changeKey]bool {
	var changes []plan.Change
	for _, d := range e.drafts {
		if slices.ContainsFunc(written.All, func(body []byte) bool { return bytes.Equal(body, d.body) }) {
			changes = append(changes, d.changes...)
		}
	}
	return keysOf(changes)
}

// decode reads the table, or takes it as it was read last, where the document is the same.
func (e *editor) decode(doc arm.Document) (*inventory.RouteTable, error) {
	if e.read != nil && bytes.Equal(e.read.Raw, doc.Raw) {
		return e.read, nil
	}
	table, err := inventory.DecodeRouteTable(doc.Raw)
	if err == nil {
		e.read = table
	}
	return table, err
}

// believed is how old what a plan stands on may be when a table is written: a slow look, and waiting for a turn, can take a while.
const believed = 30 * time.Second

// edit returns the document that makes the plan true, or nil.
func (e *editor) edit(ctx context.Context, doc arm.Document) ([]byte, error) {
	if doc.ID.Is(arm.TypeSubnet) {
		subnet, err := inventory.DecodeSubnet(doc.Raw)
		if err != nil {
			return nil, err
		}
		p := e.subnet(subnet)
		e.findings = nil
		if len(p.Changes) == 0 {
			return nil, nil
		}
		if why := e.check.notGuarded(ctx, e.snapshot, p.Changes[0], subnet); why != nil {
			e.findings = []finding.Finding{*why}
			return nil, nil
		}
		e.note(p.Changes)
		body, err := inventory.SetRouteTable(doc.Raw, p.Desired.Association(subnet.ID))
		return e.draw(p.Changes, body, err)
	}
	table, err := e.decode(doc)
	if err != nil {
		return nil, err
	}
	if now := time.Now(); now.Sub(e.seen) > believed {
		if e.replan, err = e.late(context.WithoutCancel(ctx), table.ID); err != nil {
			return nil, err
		}
		e.seen = now
	}
	p := e.check.stillMeant(e.check.provenGone(ctx, e.snapshot, e.table(table), table), table)
	if len(p.Changes) == 0 {
		return nil, nil
	}
	e.note(p.Changes)
	body, err := inventory.SetRoutes(doc.Raw, p.Desired.Table(table.ID).Routes)
	return e.draw(p.Changes, body, err)
}

// replanned plans by what the clusters' own tables say.
func (c *check) replanned(s plan.Facts, planner *plan.Planner) replan {
	return replan{planner.Again, planner.AgainSubnet, func(ctx context.Context, target arm.ID) (replan, error) {
		s := s.Fork()
		s.VNets = map[string]*inventory.VNet{} // what was in them is old: it proves nothing now
		sources := planner.Sources(target)
		for _, id := range sources {
			delete(s.Tables, id.Key())
		}
		if err := c.k.azure.Read(ctx, s.Snapshot, inventory.Wanted{Tables: sources}, azure.ReadOptions{Wait: sourceFor, Calls: c.calls, Life: c.life}); err != nil {
			return replan{}, err
		}
		for _, id := range sources { // without it nothing would seem to be wanted
			if u, failed := s.Unread[id.Key()]; failed {
				return replan{}, fmt.Errorf("the cluster's own table %s could not be read again: %s", id.Short(), u.Reason())
			}
		}
		return c.replanned(s, plan.Among(s, c.configs, c.taken)), nil
	}}
}

// sourceFor is how long a late write waits for what it stands on.
const sourceFor = 30 * time.Second

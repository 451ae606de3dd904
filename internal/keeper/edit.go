package keeper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// editor plans for one resource each time it is read.
type editor struct {
	k       *Keeper
	s       *network.Snapshot
	planner *plan.Planner
	seen    time.Time     // when the clusters' own tables were read
	made    []plan.Change // by the documents that were to be sent, the last word on each
}

func (e *editor) note(changes []plan.Change) {
	e.made = slices.DeleteFunc(e.made, func(c plan.Change) bool { return contains(changes, c) })
	e.made = append(e.made, changes...)
}

// sourceBelieved is how old the clusters' own tables may be when a target is written: waiting for a turn can take a while.
const sourceBelieved = 30 * time.Second

// edit returns the document that makes the plan true, or nil.
func (e *editor) edit(ctx context.Context, doc network.Document) ([]byte, error) {
	if doc.ID.Is(network.TypeSubnet) {
		subnet, err := network.DecodeSubnet(doc.Raw)
		if err != nil {
			return nil, err
		}
		p := e.planner.AgainSubnet(subnet)
		if len(p.Changes) == 0 {
			return nil, nil
		}
		e.note(p.Changes)
		return network.SetRouteTable(doc.Raw, p.Desired.Association(subnet.ID))
	}
	table, err := network.DecodeRouteTable(doc.Raw)
	if err != nil {
		return nil, err
	}
	if time.Since(e.seen) > sourceBelieved {
		if err := e.lookAgain(ctx, table.ID); err != nil {
			return nil, err
		}
	}
	p := e.planner.Again(table)
	if len(p.Changes) == 0 {
		return nil, nil
	}
	e.note(p.Changes)
	return network.SetRoutes(doc.Raw, p.Desired.Table(table.ID).Routes)
}

// lookAgain reads the clusters' own tables anew.
func (e *editor) lookAgain(ctx context.Context, target network.ID) error {
	s := e.s.Fork()
	sources := e.planner.Sources(target)
	for _, id := range sources {
		delete(s.Tables, id.Key())
	}
	if err := e.k.azure.Read(context.WithoutCancel(ctx), s, network.Wanted{Tables: sources}); err != nil {
		return err
	}
	for _, id := range sources { // without it nothing would seem to be wanted
		if u, failed := s.Unread[id.Key()]; failed {
			return fmt.Errorf("the cluster's own table %s could not be read again: %s", id.Short(), u.Reason())
		}
	}
	e.s, e.planner, e.seen = s, plan.New(s, e.k.configs), time.Now()
	return nil
}

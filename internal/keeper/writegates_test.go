package keeper

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/apply"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestWriteGates: each gate of a resource and of its write, closed alone, stops a change that
// passes while all are open. TestGates does the same for the gates that stop changes one by one.
func TestWriteGates(t *testing.T) {
	type gated struct {
		w      *world
		k      *Keeper
		c      *check
		seen   *inventory.Snapshot
		change plan.Change
		ends   func() // what is under way
	}
	ctx := context.Background()
	drops := func(g *gated) bool { // from the plan for a table
		p := plan.Plan{Changes: []plan.Change{g.change}}
		p.Desired.Tables = []plan.Table{{ID: g.change.Resource, Changes: p.Changes}}
		table := &inventory.RouteTable{}
		table.ID = g.change.Resource
		return len(g.c.resource(g.seen, g.change.Resource, apply.Replan{}).Allow(ctx, p,
			table).Changes) == 0
	}
	starts := func(g *gated) bool { // no write of it
		all := func(plan.Change) bool { return true }
		g.c.write(ctx, plan.Plan{Changes: []plan.Change{g.change}}, all, g.c.s, &plan.Planner{})
		started := g.c.open > 0
		if g.ends != nil {
			g.ends()
		}
		for g.c.open > 0 {
			<-g.c.w.wake
			g.c.w.work()
		}
		return !started
	}
	waits := func(g *gated) bool { // the write, for the end of a pause
		x := &write{check: g.c, Resource: g.c.resource(g.seen, g.change.Resource,
			g.c.replanned(g.c.s, &plan.Planner{}))}
		x.Planned = []plan.Change{g.change}
		x.apply(ctx)
		return len(x.outcomes) == 1 && x.outcomes[0].State == plan.Planned
	}
	refuses := func(g *gated) bool {
		g.change = plan.Change{Verb: plan.Associate, Cluster: "shop", Resource: g.w.demo.NodeSubnet,
			New: &plan.Value{RouteTable: g.w.demo.ClusterTable}}
		subnet := &inventory.Subnet{}
		subnet.ID = g.change.Resource
		return g.c.resource(g.seen, subnet.ID, apply.Replan{}).Refuse(ctx, g.change, subnet) != nil
	}
	for name, gate := range map[string]struct {
		closed func(g *gated)
		stops  func(g *gated) bool
	}{
		"under way": {func(g *gated) {
			g.k.writes.begin(g.change.Resource.Key())
			g.ends = func() { g.k.writes.end(g.change.Resource.Key()) }
		}, starts},
		"limit": {func(g *gated) {
			g.k.limit = newLimiter(1)
			g.k.limit.allow(g.w.demo.ClusterTable, 1, time.Now())
		}, starts},
		"refusal": {func(g *gated) {
			g.c.mem.refused[g.change.Resource.Key()] = &refusal{until: time.Now().Add(time.Hour),
				outcomes: []plan.Outcome{{Change: g.change, State: plan.Failed}}}
		}, starts},
		"pause": {func(g *gated) { g.k.opts.Paused = func() string { return "a day" } }, waits},
		"cluster pause": {func(g *gated) {
			g.k.opts.ClusterPaused = func(string) string { return "a day" }
		}, waits},
		"cluster pause, Check now": {func(g *gated) {
			g.k.opts.ClusterPaused = func(string) string { return "a day" }
		}, func(g *gated) bool {
			g.c.request = &request{}
			return waits(g)
		}},
		"cluster pause, of all its clusters": {func(g *gated) {
			g.k.opts.ClusterPaused = func(string) string { return "a day" }
		}, func(g *gated) bool {
			of := g.k.opts.ClusterPaused
			other := g.change
			other.Cluster = "other"
			x := &write{check: g.c}
			x.Planned = []plan.Change{other, g.change}
			if g.k.opts.ClusterPaused = func(cluster string) string {
				return strings.TrimPrefix(cluster, "shop")
			}; x.paused() {
				t.Error("the pause of one cluster stops the write for another")
			}
			g.k.opts.ClusterPaused = of
			return x.paused()
		}},
		"fresh read": {func(g *gated) { g.seen.Taken = time.Now().Add(-time.Hour) },
			func(g *gated) (late bool) {
				again := apply.Replan{Table: (&plan.Planner{}).Again}
				again.Late = func(context.Context, arm.ID) (apply.Replan, error) {
					late = true
					return again, nil
				}
				x := &write{check: g.c, Resource: g.c.resource(g.seen, g.change.Resource, again)}
				x.Planned = []plan.Change{g.change}
				x.apply(ctx)
				return late
			}},
		"alive, the cluster": {func(g *gated) { g.w.remove(g.w.demo.Cluster) }, refuses},
		"alive, the table": {func(g *gated) {
			g.w.strip(g.w.demo.NodeSubnet)
			time.Sleep(2 * time.Minute) // Azure is done with it
			g.w.remove(g.w.demo.ClusterTable)
		}, refuses},
		"gone": {func(g *gated) {
			key := g.w.demo.Cluster.Key()
			g.seen.Unread[key] = inventory.Unread{ID: g.w.demo.Cluster, Absent: true}
			g.change.Verb, g.change.Old, g.change.New = plan.Delete, g.change.New, nil
		}, drops},
		"configured": {func(g *gated) { g.k.configs = nil }, drops},
		"permission": {func(g *gated) {
			g.k.opts.ClusterPaused = func(string) string { return "a day" }
		}, drops},
	} {
		t.Run(name, func(t *testing.T) {
			for _, closed := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, slow)
					k := w.keep(w.demoConfig())
					g := &gated{w: w, k: k, c: k.wholeGroup().newCheck(Cause{}, time.Time{}),
						seen: inventory.NewSnapshot(), change: plan.Change{Verb: plan.Create,
							Cluster: "shop", Resource: w.demo.GatewayTable, Route: "a",
							New: &plan.Value{AddressPrefix: "10.244.9.0/24",
								NextHopType:      "VirtualAppliance",
								NextHopIPAddress: "10.240.0.9"}}}
					g.seen.Taken = time.Now()
					g.c.s = plan.Facts{Snapshot: inventory.NewSnapshot(), Memory: plan.Memory{}}
					if closed {
						gate.closed(g)
					}
					if stops := gate.stops(g); stops != closed {
						t.Errorf("closed %t, stops %t", closed, stops)
					}
				})
			}
		})
	}
}

// TestRequestWaitsForWrite: a request does not drop the change of a resource that is being written.
// It writes once, when that write has ended.
func TestRequestWaitsForWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		w.drop(w.demo.GatewayTable, "10.244.0.0/24")
		time.Sleep(time.Minute)
		k.writes.begin(w.demo.GatewayTable.Key())
		ended := false
		time.AfterFunc(time.Minute, func() {
			ended = true
			k.writes.end(w.demo.GatewayTable.Key())
		})
		worker := k.wholeGroup()
		c := worker.newCheck(Cause{}, time.Time{})
		c.request = &request{Request: Request{Verbs: []plan.Verb{plan.Create}}}
		if err := worker.reconcile(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		before := c.open
		c.write(t.Context(), plan.Plan{Changes: c.changes}, func(plan.Change) bool { return true },
			c.s, &plan.Planner{})
		if before != 1 || c.open != 1 {
			t.Errorf("%d writes, and then %d", before, c.open)
		}
		worker.finish(c)
		if !ended {
			t.Error("it is written twice at once")
		}
		w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
	})
}

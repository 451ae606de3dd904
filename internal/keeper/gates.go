package keeper

import (
	"context"
	"reflect"
	"slices"

	"routekeeper.dev/routekeeper/internal/apply"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Gates. How it works: a gate can stop a write. The check asks its gates about each planned change,
// and then about each resource. The write asks again, because it can begin late. The next check
// plans and asks again.
//
//	gate            stops                                        except for
//
//	of the check, for each change (choice, permission)
//	dry run         all changes
//	request         what a person did not ask for
//	pause           all changes                                  a person's request
//	only            what the keeper's caller did not choose      a person's request
//	conflict        what another writer undoes, for a while      a request, a caller's choice
//	cluster pause   the changes of a paused cluster              what a person confirmed
//	config          changes for a cluster whose config has      deletes for one that left the config
//	                changed since the check began
//	scope           what the keeper's caller withholds
//
//	of the check, for each resource (start)
//	under way       a resource that is being written
//	limit           tables, once too many routes changed         a person's request
//	refusal         what Azure would refuse again
//
//	of the write (write.apply, resource)
//	pause           as above, again, also of clusters            as above
//	fresh read      what is no longer planned, by a new GET; if the check's reads are old, by new
//	                sources, and without the proofs of the check (plan.Facts.Aged)
//	alive           a subnet whose cluster or table is gone, or whose network got the tag that pauses
//	                its guard
//	gone            of tables: deletes for a cluster that Azure does not confirm as missing
//	permission      what a pause or another config stops, and of tables what is withheld: again at
//	                each GET
//	If-Match        a document that changed since the GET: it is read and planned again
//
// Which resources may be written at all (no target with policy Observe, for example) is the plan's
// question (plan/writable.go).

// gate is one reason to stop changes.
type gate struct {
	name string
	// stops returns a function that says why the gate stops a change, or returns "".
	stops func(*check, []plan.Change) func(plan.Change) string
}

// choice lists the gates that decide which changes a check makes.
var choice = []gate{
	{"dry run", func(c *check, _ []plan.Change) func(plan.Change) string {
		return whenever(c.k.opts.DryRun, "it is a dry run")
	}},
	{"request", func(c *check, _ []plan.Change) func(plan.Change) string {
		return func(change plan.Change) string {
			if c.request == nil || c.request.includes(change) {
				return ""
			}
			return "no request names it"
		}
	}},
	{"only", func(c *check, _ []plan.Change) func(plan.Change) string {
		return func(change plan.Change) string {
			if c.k.opts.Only == nil || c.request != nil || c.k.opts.Only(change) {
				return ""
			}
			return "it was not chosen"
		}
	}},
	{"conflict", func(c *check, changes []plan.Change) func(plan.Change) string {
		waiting := c.mem.conflicts.contested(changes)
		return func(change plan.Change) string {
			if c.request == nil && c.k.opts.Only == nil && waiting[placeOf(change)] {
				return "another writer undoes it"
			}
			return ""
		}
	}},
}

// Each write asks the gates in pauses again; the write of a table also asks permission. The write
// of a subnet does not, because scope needs what the check has read, and a check continues to read
// while it writes subnets.
var (
	pauses     = []gate{pause, clusterPause, otherConfig}
	permission = []gate{pause, clusterPause, otherConfig, {"scope",
		func(c *check, _ []plan.Change) func(plan.Change) string { return forbidding(c) }}}
	pause = gate{"pause", func(c *check, _ []plan.Change) func(plan.Change) string {
		pause := c.k.opts.pause()
		return whenever(pause != "" && c.request == nil, "the keeper is paused "+pause)
	}}
	clusterPause = gate{"cluster pause", func(c *check, _ []plan.Change) func(plan.Change) string {
		confirmed := c.request.confirmed()
		pauses := map[string]string{}
		return func(change plan.Change) string {
			pause, known := pauses[change.Cluster]
			if !known {
				pause = c.k.opts.clusterPause(change.Cluster)
				pauses[change.Cluster] = pause
			}
			if pause == "" || confirmed {
				return ""
			}
			return change.Cluster + " is paused " + pause
		}
	}}
	otherConfig = gate{"config", func(c *check, _ []plan.Change) func(plan.Change) string {
		changed := map[string]string{}
		return func(change plan.Change) string {
			why, known := changed[change.Cluster]
			if !known {
				why = c.configChanged(change.Cluster)
				changed[change.Cluster] = why
			}
			if why == hasLeftConfig && change.Verb == plan.Delete { // see removal.go
				return ""
			}
			return why
		}
	}}
)

const hasLeftConfig = "its cluster has left the config"

// configChanged says how a cluster's config has changed since the check began, or returns "".
// name is the cluster's name in this check.
func (c *check) configChanged(name string) string {
	i := indexNamed(c.configs, name)
	if i < 0 {
		return ""
	}
	c.k.mu.Lock()
	all := c.k.configs
	c.k.mu.Unlock()
	for _, now := range all {
		if keyOf(now) != keyOf(c.configs[i]) {
			continue
		}
		if now.Metadata.Name != name || !reflect.DeepEqual(now.Spec, c.configs[i].Spec) {
			return "its config has changed"
		}
		return ""
	}
	return hasLeftConfig
}

func whenever(closed bool, why string) func(plan.Change) string {
	if !closed {
		why = ""
	}
	return func(plan.Change) string { return why }
}

// stopped returns a function that says which gate stops a change, and why. It returns "" for a
// change that may pass.
func stopped(c *check, gates []gate, changes []plan.Change) func(plan.Change) (by, why string) {
	stops := make([]func(plan.Change) string, len(gates))
	for i, g := range gates {
		stops[i] = g.stops(c, changes)
	}
	return func(change plan.Change) (string, string) {
		for i, stop := range stops {
			if why := stop(change); why != "" {
				return gates[i].name, why
			}
		}
		return "", ""
	}
}

// resource returns a resource to write, with the gates of its write.
func (c *check) resource(seen *inventory.Snapshot, id arm.ID, again apply.Replan) apply.Resource {
	last := c.lastTables() // now: the worker continues during the write
	return apply.Resource{ID: id, Replan: again, Seen: seen.Taken, Log: c.k.log,
		Refuse: func(ctx context.Context, change plan.Change,
			subnet *inventory.Subnet) *finding.Finding {
			return c.notGuarded(ctx, seen, last, change, subnet)
		}, Allow: func(ctx context.Context, p plan.Plan, table *inventory.RouteTable) plan.Plan {
			if table == nil {
				return c.permitted(pauses, p, nil)
			}
			p = c.provenGone(ctx, seen, p, table)
			return c.permitted(permission, p, table)
		},
	}
}

// paused reports whether a pause has begun since the changes were chosen. Other writes went first,
// so that can be a while ago.
func (x *write) paused() bool {
	k, request := x.check.k, x.check.request
	unpaused := func(change plan.Change) bool { return k.opts.clusterPause(change.Cluster) == "" }
	return request == nil && k.opts.pause() != "" ||
		!request.confirmed() && !slices.ContainsFunc(x.Planned, unpaused)
}

// Intent is a change that is about to be made, with the facts that its caller needs to judge it.
type Intent struct {
	plan.Change
	// Of is the cluster as read, or nil.
	Of *inventory.Cluster
	// Source is the route table that the routes come from, or "" for an association.
	Source arm.ID
}

// forbidding returns a function that says why the keeper's caller withholds a change, or returns
// "".
func forbidding(c *check) func(plan.Change) string {
	if c.k.opts.Withhold == nil {
		return func(plan.Change) string { return "" }
	}
	intents := map[string]Intent{}
	return func(change plan.Change) string {
		intent, known := intents[change.Cluster]
		if !known {
			if i := indexNamed(c.configs, change.Cluster); i >= 0 {
				intent.Of = c.s.Cluster(idOf(c.configs[i]))
				intent.Source = plan.Discover(c.s, &c.configs[i], c.taken).Table
			}
			intents[change.Cluster] = intent
		}
		intent.Change = change
		if change.Verb == plan.Associate {
			intent.Source = ""
		}
		return c.k.opts.Withhold(intent)
	}
}

// permitted removes the changes that gates stop from a plan for one resource. table is nil for a
// subnet.
func (c *check) permitted(gates []gate, p plan.Plan, table *inventory.RouteTable) plan.Plan {
	stops := stopped(c, gates, p.Changes)
	may := func(change plan.Change) bool { by, _ := stops(change); return by == "" }
	if !slices.ContainsFunc(p.Changes, func(change plan.Change) bool { return !may(change) }) {
		return p
	}
	return p.Only(may, func(arm.ID) *inventory.RouteTable { return table })
}

// reportWithheld reports the resources whose changes the keeper's caller withholds.
func (c *check) reportWithheld(changes []plan.Change) {
	type place struct{ cluster, resource, why string }
	counts := map[place]int{}
	var places []place
	withheld := forbidding(c)
	for _, change := range changes {
		why := withheld(change)
		if why == "" {
			continue
		}
		at := place{change.Cluster, string(change.Resource), why}
		if counts[at]++; counts[at] == 1 {
			places = append(places, at)
		}
	}
	for _, at := range places {
		what := "changes to %[2]s are"
		if counts[at] == 1 {
			what = "change to %[2]s is"
		}
		c.mem.planned = append(c.mem.planned, finding.New(finding.ChangesWithheld, at.cluster,
			at.resource, "%[1]d "+what+" withheld: %[3]s", counts[at],
			arm.ID(at.resource).Short(), at.why))
	}
}

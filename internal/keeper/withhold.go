package keeper

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Intent is a change that is about to be made, with what its caller needs to judge it.
type Intent struct {
	plan.Change
	// Of is the cluster as it was read, or nil.
	Of *inventory.Cluster
	// Source is the route table that the routes come from, "" for an association.
	Source arm.ID
}

// withheld returns a function that says why a change must not be made, or returns "": its cluster
// is paused, or the keeper's caller withholds it. A person who confirmed the change overrides a
// pause.
func (c *check) withheld() func(plan.Change) string {
	forbidden := forbidding(c)
	confirmed := c.request != nil && c.request.Only != nil
	pauses := map[string]string{}
	return func(change plan.Change) string {
		pause, known := pauses[change.Cluster]
		if !known {
			pause = c.k.clusterPause(change.Cluster)
			pauses[change.Cluster] = pause
		}
		if pause != "" && !confirmed {
			return "the cluster is paused " + pause
		}
		return forbidden(change)
	}
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
			for i := range c.configs {
				if config := &c.configs[i]; config.Metadata.Name == change.Cluster {
					intent.Of = c.s.Cluster(idOf(*config))
					intent.Source = plan.Discover(c.s, config, c.taken).Table
				}
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

// permitted removes withheld changes from a plan for one table.
func (c *check) permitted(p plan.Plan, table *inventory.RouteTable) plan.Plan {
	withheld := c.withheld()
	may := func(change plan.Change) bool { return withheld(change) == "" }
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
		c.mem.planned = append(c.mem.planned, finding.New(finding.ChangesWithheld, at.cluster,
			at.resource, "%d changes to %s are withheld: %s", counts[at],
			arm.ID(at.resource).Short(), at.why))
	}
}

// allPaused reports whether the clusters of all changes are paused.
func (k *Keeper) allPaused(changes []plan.Change) bool {
	return !slices.ContainsFunc(changes, func(change plan.Change) bool {
		return k.clusterPause(change.Cluster) == ""
	})
}

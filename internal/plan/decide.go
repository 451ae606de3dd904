package plan

import (
	"maps"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Observation is what a check has read, for which configs, and when.
type Observation struct {
	*inventory.Snapshot
	Configs []v1alpha1.ClusterRoutes
	Taken   Taken
	Now     time.Time
}

// Decision is what a check does: a Plan, the facts that it is based on, and the Planner that plans
// again for one resource.
type Decision struct {
	Plan
	Facts   Facts
	Planner *Planner
}

// Decide returns what to do, and what the next check must know. While the decision needs more, the
// caller reads it into the observation and decides again. It is pure: the same observation and
// memory give the same decision, and neither is changed. Deciding again with the memory of the
// decision's facts gives the same, too: each read is noted once.
func Decide(o Observation, before Memory) (Decision, Memory) {
	facts := Facts{Snapshot: o.Snapshot, Memory: maps.Clone(before)}
	planner := Among(facts, o.Configs, o.Taken)
	each := func(remember func(cluster arm.ID) Remembered) Memory {
		all := maps.Clone(facts.Memory)
		for _, c := range o.Configs {
			cluster := arm.ID(c.Spec.ClusterID)
			r := remember(cluster)
			all[cluster.Key()] = &r
		}
		return all
	}
	maps.Copy(facts.Memory, each(func(cluster arm.ID) Remembered {
		return planner.note(cluster, o.Now)
	}))
	made := planner.Plan()
	return Decision{made, facts, planner}, each(func(cluster arm.ID) Remembered {
		return planner.remember(cluster, made)
	})
}

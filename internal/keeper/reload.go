package keeper

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Reload has a running keeper keep other configs from its next round on, which begins as soon as no other is looking, and looks at all. It
// may be called at any time.
func (k *Keeper) Reload(configs []v1alpha1.ClusterRoutes) {
	k.bell.mu.Lock()
	k.bell.configs = configs
	k.bell.mu.Unlock()
	k.bell.signal()
}

// reload takes new configs. Rounds that have not decided yet are broken off; those that write what they had decided go on to their end.
func (a *agenda) reload() {
	if configs := a.bell.reloaded(); configs != nil {
		a.fresh = configs
	}
	for _, cancel := range a.looks {
		if a.fresh != nil {
			cancel()
		}
	}
	if a.fresh == nil || len(a.looks) > 0 {
		return
	}
	before := a.memory
	a.configure(a.fresh)
	a.fresh, a.poll, a.polling = nil, time.Time{}, nil
	for key := range a.busy { // what it rests on is written still, and others wait for that
		if a.memory[key] == nil {
			a.memory[key] = before[key]
		}
	}
	a.bell.learn(a.memory)
	maps.DeleteFunc(a.missed, func(key string, _ bool) bool { return a.memory[key] == nil })
}

// forgetGone forgets clusters that are not kept any more, as soon as they are in no round.
func (a *agenda) forgetGone() {
	if len(a.memory) == len(a.configs) {
		return
	}
	kept := keySet(a.configs)
	maps.DeleteFunc(a.memory, func(key string, _ *memory) bool { return !kept[key] && !a.busy[key] })
	a.bell.learn(a.memory)
}

// configure takes configs. Of a cluster that was kept before it is still known what was. The bell has to learn of it then.
func (k *Keeper) configure(configs []v1alpha1.ClusterRoutes) {
	before := map[string]v1alpha1.ClusterRoutes{}
	for _, c := range k.configs {
		before[network.ID(c.Spec.ClusterID).Key()] = c
	}
	memories := map[string]*memory{}
	for _, c := range configs {
		key := network.ID(c.Spec.ClusterID).Key()
		m := k.memory[key]
		if m == nil {
			m = &memory{}
		}
		if old, known := before[key]; !known || !reflect.DeepEqual(old.Spec, c.Spec) {
			m.rests = slices.Compact(slices.Sorted(slices.Values(slices.Concat(m.rests, configured(c))))) // until it is looked at
		}
		memories[key] = m
	}
	k.standing = ofKept(k.standing, configs)
	k.configs, k.taken, k.memory = configs, plan.TakenBy(configs), memories
	k.bell.rename(names(configs))
}

// ofKept are the findings that are of no cluster that is not kept.
func ofKept(findings []finding.Finding, configs []v1alpha1.ClusterRoutes) []finding.Finding {
	kept := nameSet(configs)
	return slices.DeleteFunc(slices.Clone(findings), func(f finding.Finding) bool { return f.Cluster != "" && !kept[f.Cluster] })
}

// names are those of the configs.
func names(configs []v1alpha1.ClusterRoutes) []string {
	out := make([]string, len(configs))
	for i, c := range configs {
		out[i] = c.Metadata.Name
	}
	return out
}

func nameSet(configs []v1alpha1.ClusterRoutes) map[string]bool {
	set := map[string]bool{}
	for _, c := range configs {
		set[c.Metadata.Name] = true
	}
	return set
}

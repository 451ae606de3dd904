package keeper

import (
	"reflect"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Reload has a running keeper keep other configs from its next round on, which begins at once and looks at all. It may be called at any
// time.
func (k *Keeper) Reload(configs []v1alpha1.ClusterRoutes) {
	k.bell.mu.Lock()
	k.bell.configs = configs
	k.bell.mu.Unlock()
	k.bell.signal()
}

// configure takes configs. Of a cluster that was kept before it is still known what was, but deletes in its targets have to be proven
// anew where anything in its config has changed: what was held back before was so by the old one.
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
			held := m.held
			m.fresh, m.held = map[string]bool{}, map[string]bool{}
			for _, t := range c.Spec.Targets {
				target := network.ID(t.RouteTableID).Key()
				m.fresh[target] = true
				if held[target] {
					m.held[target] = true
				}
			}
			m.rests = configured(c)
		}
		memories[key] = m
	}
	k.standing = slices.DeleteFunc(k.standing, func(f finding.Finding) bool {
		return f.Cluster != "" && !slices.ContainsFunc(configs, func(c v1alpha1.ClusterRoutes) bool { return c.Metadata.Name == f.Cluster })
	})
	k.configs, k.taken, k.memory = configs, plan.TakenBy(configs), memories
	k.bell.rename(names(configs))
	k.bell.learn(k.memory)
}

// names are those of the configs.
func names(configs []v1alpha1.ClusterRoutes) []string {
	out := make([]string, len(configs))
	for i, c := range configs {
		out[i] = c.Metadata.Name
	}
	return out
}

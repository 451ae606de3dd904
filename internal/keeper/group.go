package keeper

import (
	"maps"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Groups. How it works: two clusters are in one group if both use a resource, or if each shares one
// with a third cluster. A cluster uses the resources that its config names, and resources that
// checks have seen: node subnets and the tables on them. If a check finds that its group shares a
// resource with another group, one worker replaces both before anything is decided. Groups split
// again when configs are loaded.

// Reload gives a keeper new configs. Checks that have not decided yet start over with them; writes
// continue to their end. It may be called at any time.
func (k *Keeper) Reload(configs []v1alpha1.ClusterRoutes) { k.reload(configs, k.removedLocked) }

// reload replaces the configs. While Run runs, it calls removed with the former configs and their
// workers. The keeper's lock is held then.
func (k *Keeper) reload(configs []v1alpha1.ClusterRoutes,
	removed func([]v1alpha1.ClusterRoutes, map[string]*worker)) {
	k.mu.Lock()
	before, old := k.configs, k.workers
	k.configureLocked(configs)
	switch {
	case k.ctx == nil:
		k.makeIdleLocked()
	case k.ctx.Err() == nil:
		k.returnedLocked()
		k.regroupLocked()
		removed(before, old)
	}
	requests := slices.Clone(k.requests)
	k.mu.Unlock()
	k.followed.retain(configs)
	kept := keySet(configs)
	for _, q := range requests {
		q.keep(kept)
	}
}

// configureLocked sets the configs.
func (k *Keeper) configureLocked(configs []v1alpha1.ClusterRoutes) {
	k.configs, k.names = configs, names(configs)
	k.pausing, k.outages.networks = map[string]v1alpha1.Pause{}, map[string]bool{}
	for _, c := range configs {
		k.outages.networks[c.Metadata.Name] = c.Clusterless()
		if c.Spec.Pause != nil {
			k.pausing[c.Metadata.Name] = *c.Spec.Pause
		}
	}
	k.outages.keep(nameSet(configs))
	kept := keySet(configs)
	owners := maps.Clone(k.owners)
	gone := func(key string) bool { return !kept[key] }
	maps.DeleteFunc(owners, func(key string, _ arm.ID) bool { return gone(key) })
	maps.DeleteFunc(k.seen, func(key string, _ []string) bool { return gone(key) })
	k.absent.retain(kept)
	k.owners, k.taken = owners, plan.TakenBy(configs).Last(owners)
	k.usage = newUsage()
	for _, c := range configs { // what was last seen counts until the next check
		k.usage.add(keyOf(c), append(configured(c), k.seen[keyOf(c)]...))
	}
	k.findings.keep(configs)
}

// regroupLocked replaces all workers with one for each group.
func (k *Keeper) regroupLocked() {
	old := k.workers
	k.workers = map[string]*worker{}
	for _, group := range k.groupsLocked() {
		k.startWorkerLocked(group, old)
	}
	for _, w := range old {
		w.cancel()
	}
}

// startWorkerLocked starts the worker of a group. It begins once the previous workers of its
// clusters have ended.
func (k *Keeper) startWorkerLocked(group []v1alpha1.ClusterRoutes, old map[string]*worker) {
	w := k.newWorkerLocked(group)
	for _, c := range group {
		if before := old[keyOf(c)]; before != nil && !slices.Contains(w.after, before) {
			w.after = append(w.after, before)
			before.cancel()
		}
		k.workers[keyOf(c)] = w
	}
	if old == nil {
		w.after = []*worker{k.idle}
	}
	k.running.Go(w.run)
}

// groupsLocked returns the groups of clusters that share resources, in the order of the config.
func (k *Keeper) groupsLocked() [][]v1alpha1.ClusterRoutes {
	number := map[string]int{} // of the group, by cluster
	var groups [][]v1alpha1.ClusterRoutes
	for _, c := range k.configs {
		if _, grouped := number[keyOf(c)]; !grouped {
			for key := range k.usage.related(keyOf(c)) {
				number[key] = len(groups)
			}
			groups = append(groups, nil)
		}
	}
	for _, c := range k.configs {
		groups[number[keyOf(c)]] = append(groups[number[keyOf(c)]], c)
	}
	return groups
}

// used is what a cluster was seen to use, and its node resource group, as ID.Key().
type used struct {
	resources []string
	nodeGroup string
}

// share notes what the clusters of a worker were seen to use. If other groups use the same
// resources, one worker replaces theirs and this one, and share returns true.
func (k *Keeper) share(w *worker, uses map[string]used) (joined bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed, around := false, false
	for cluster, u := range uses {
		if k.workers != nil && k.workers[cluster] != w { // it was replaced
			return true
		}
		k.seen[cluster] = u.resources
		changed = k.usage.add(cluster, u.resources) || changed
		if u.nodeGroup != "" {
			around = k.usage.around.add(u.nodeGroup, cluster) || around
		}
	}
	if changed || around {
		k.wakeUnknownLocked()
	}
	if !changed || k.ctx == nil {
		return false
	}
	related := k.usage.related(slices.Collect(maps.Keys(uses))...)
	if len(related) == len(w.configs) {
		return false
	}
	k.startWorkerLocked(k.ofLocked(related), k.workers)
	return true
}

// ofLocked returns the configs of clusters, in their order.
func (k *Keeper) ofLocked(clusters map[string]bool) []v1alpha1.ClusterRoutes {
	var out []v1alpha1.ClusterRoutes
	for _, c := range k.configs {
		if clusters[keyOf(c)] {
			out = append(out, c)
		}
	}
	return out
}

// owned notes the table that a cluster was last seen with, or "". On a subnet, the guard of another
// cluster never replaces it.
func (k *Keeper) owned(cluster string, table arm.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.owners[cluster] == table {
		return
	}
	owners := maps.Clone(k.owners)
	if owners == nil {
		owners = map[string]arm.ID{}
	}
	owners[cluster] = table
	k.owners, k.taken = owners, k.taken.Last(owners)
}

// configured returns the resources that a config names, without the cluster itself. No check writes
// NAT gateways or groups, so they are not shared.
func configured(c v1alpha1.ClusterRoutes) []string {
	ids := plan.NamedTables(&c)
	for _, g := range c.Spec.Guard.Subnets {
		ids = append(ids, arm.ID(g.SubnetID))
	}
	keys := keysOf(ids)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// seenUses returns the resources that a cluster was seen to use: its node subnets, the tables on
// them and on guarded subnets, and candidates for its route table.
func seenUses(s plan.Facts, c v1alpha1.ClusterRoutes) []string {
	id := arm.ID(c.Spec.ClusterID)
	known := s.Known(id)
	ids := slices.Concat(known.Written, known.Managed)
	if last := s.Memory.Of(id).LastTable; last != "" {
		ids = append(ids, last)
	}
	var subnets []arm.ID
	if cluster := s.Cluster(id); cluster != nil {
		ids = append(ids, s.NodeSubnetIDs(cluster)...)
		subnets = append(subnets, s.NodeSubnetIDs(cluster)...)
	}
	for _, g := range c.Spec.Guard.Subnets {
		subnets = append(subnets, arm.ID(g.SubnetID))
	}
	for _, subnet := range subnets {
		if read := s.Subnet(subnet); read != nil && read.RouteTable != "" {
			ids = append(ids, read.RouteTable)
		}
	}
	return keysOf(ids)
}

func keysOf(ids []arm.ID) []string {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = id.Key()
	}
	return keys
}

func keyOf(c v1alpha1.ClusterRoutes) string { return arm.ID(c.Spec.ClusterID).Key() }

func keySet(clusters []v1alpha1.ClusterRoutes) map[string]bool {
	set := make(map[string]bool, len(clusters))
	for _, c := range clusters {
		set[keyOf(c)] = true
	}
	return set
}

// names returns the names of the configs.
func names(configs []v1alpha1.ClusterRoutes) []string {
	out := make([]string, len(configs))
	for i, c := range configs {
		out[i] = c.Metadata.Name
	}
	return out
}

func nameSet(configs []v1alpha1.ClusterRoutes) map[string]bool {
	set := make(map[string]bool, len(configs))
	for _, c := range configs {
		set[c.Metadata.Name] = true
	}
	return set
}

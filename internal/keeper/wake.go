package keeper

import (
	"maps"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/network"
)

// bell is what wakes a running keeper: it knows which clusters a resource concerns, and which of them were named since they were
// looked at.
type bell struct {
	mu     sync.Mutex
	rests  map[string][]string // clusters by what they rest on, both by ID.Key()
	around map[string][]string // and by what that stands in: virtual networks, node resource groups
	rung   map[string]ring     // clusters that were named
	// strange are resources that were named and concern nobody, as far as is known: what a cluster rests on is known once it was looked at
	strange map[network.ID]ring
	rang    chan struct{} // holds one where there is something to do

	names []string    // of the clusters
	asked []*question // that wait for their turn
	over  bool        // nobody runs it any more

	configs []v1alpha1.ClusterRoutes // to be taken; nil where there are no new ones
}

func newBell() *bell {
	return &bell{rung: map[string]ring{}, strange: map[network.ID]ring{}, rang: make(chan struct{}, 1)}
}

// mostStrange resources are kept at most, and for strangeFor: a look is over by then.
const mostStrange, strangeFor = 200, 2 * time.Minute

// Wake has the clusters looked at soon that rest on one of the resources: the cluster itself, its node subnets and their networks,
// its own table, targets, guarded subnets and their tables, and whatever stands in one of these or in the node resource group.
// Caller is who has changed them, "" where that is not known; it is shown, and nothing else is done with it.
// It returns how many clusters that are. What concerns none of them costs nothing. Run answers; it may be called at any time.
func (k *Keeper) Wake(caller string, resources ...network.ID) int {
	return k.bell.ring(caller, resources)
}

func (b *bell) ring(caller string, resources []network.ID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	woken := map[string]bool{}
	for _, id := range resources {
		concerned := b.concerned(id)
		for _, cluster := range concerned {
			woken[cluster] = true
			b.name(cluster, ring{at: time.Now()}.by(caller))
		}
		if len(concerned) == 0 {
			if len(b.strange) >= mostStrange {
				b.forgetStrange()
			}
			if len(b.strange) < mostStrange {
				b.strange[id] = ring{at: time.Now()}.by(caller)
			}
		}
	}
	if len(woken) > 0 {
		b.signal()
	}
	return len(woken)
}

// name notes that a cluster was named.
func (b *bell) name(cluster string, r ring) {
	if other, already := b.rung[cluster]; already {
		if other.at.Before(r.at) {
			r, other = other, r
		}
		r = r.by(other.callers...)
	}
	b.rung[cluster] = r
}

func (b *bell) forgetStrange() {
	maps.DeleteFunc(b.strange, func(_ network.ID, r ring) bool { return time.Since(r.at) > strangeFor })
}

// signal ends the keeper's wait, now or when it next begins.
func (b *bell) signal() {
	select {
	case b.rang <- struct{}{}:
	default:
	}
}

// reloaded returns the configs to be taken, once, or nil.
func (b *bell) reloaded() []v1alpha1.ClusterRoutes {
	b.mu.Lock()
	defer b.mu.Unlock()
	configs := b.configs
	b.configs = nil
	return configs
}

// concerned returns the clusters that a resource concerns.
func (b *bell) concerned(id network.ID) []string {
	found := slices.Concat(b.around[id.Key()], b.around[id.Group().Key()])
	for ; id != "" && !id.Is(network.TypeResourceGroup); id = id.Parent() {
		found = append(found, b.rests[id.Key()]...)
	}
	return found
}

// named returns the clusters that were named.
func (b *bell) named() map[string]ring {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.rung)
}

// answer notes that clusters are looked at from now on, and returns those of them that were named.
func (b *bell) answer(clusters []v1alpha1.ClusterRoutes) map[string]ring {
	b.mu.Lock()
	defer b.mu.Unlock()
	rung := map[string]ring{}
	for _, c := range clusters {
		if r, named := b.rung[keyOf(c)]; named {
			rung[keyOf(c)] = r
			delete(b.rung, keyOf(c))
		}
	}
	return rung
}

// again takes back that a cluster was looked at.
func (b *bell) again(cluster string, r ring) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.name(cluster, r)
}

// rename notes the names of the clusters.
func (b *bell) rename(names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names = names
}

// learn notes what the clusters rest on.
func (b *bell) learn(clusters map[string]*memory) {
	rests, around := map[string][]string{}, map[string][]string{}
	add := func(to map[string][]string, resource, cluster string) {
		if !slices.Contains(to[resource], cluster) {
			to[resource] = append(to[resource], cluster)
		}
	}
	for cluster, m := range clusters {
		add(rests, cluster, cluster)
		for _, resource := range m.rests {
			add(rests, resource, cluster)
			if id := network.ID(resource); id.Is(network.TypeSubnet) {
				add(around, id.Parent().Key(), cluster)
			}
		}
		if m.cluster != nil {
			add(around, m.cluster.NodeGroup().Key(), cluster)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rests, b.around = rests, around
	b.forgetStrange()
	for id, r := range b.strange {
		for _, cluster := range b.concerned(id) {
			b.name(cluster, r)
			delete(b.strange, id)
		}
	}
	maps.DeleteFunc(b.rung, func(cluster string, _ ring) bool { return clusters[cluster] == nil })
}

// configured are the resources that a config names beside the cluster itself.
func configured(c v1alpha1.ClusterRoutes) []string {
	var keys []string
	add := func(id string) {
		if id != "" {
			keys = append(keys, network.ID(id).Key())
		}
	}
	add(c.Spec.RouteTableID)
	for _, t := range c.Spec.Targets {
		add(t.RouteTableID)
	}
	for _, g := range c.Spec.Guard.Subnets {
		add(g.SubnetID)
		add(g.RouteTableID)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// seenResting are the resources that were seen to be a cluster's too: its node subnets, the tables on them, and what may be its own.
func seenResting(s *network.Snapshot, id network.ID) []string {
	known := s.Known(id)
	ids := slices.Concat(known.Written, known.Managed)
	if known.LastTable != "" {
		ids = append(ids, known.LastTable)
	}
	if cluster := s.Cluster(id); cluster != nil {
		for _, subnet := range s.NodeSubnetIDs(cluster) {
			ids = append(ids, subnet)
			if read := s.Subnet(subnet); read != nil && read.RouteTable != "" {
				ids = append(ids, read.RouteTable)
			}
		}
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = id.Key()
	}
	return keys
}

// widen notes on what the clusters of the round rest, and adds those to the round that rest on the same: what is planned for one
// depends on the others. It reports whether other clusters are to be looked at now.
func (t *turn) widen(s *network.Snapshot) bool {
	changed := false
	for _, c := range t.part {
		id := network.ID(c.Spec.ClusterID)
		m := t.memory[id.Key()]
		rests := append(configured(c), seenResting(s, id)...)
		for _, g := range c.Spec.Guard.Subnets { // the table that is on it may be another cluster's
			if subnet := s.Subnet(network.ID(g.SubnetID)); subnet != nil && subnet.RouteTable != "" {
				rests = append(rests, subnet.RouteTable.Key())
			}
		}
		slices.Sort(rests)
		rests = slices.Compact(rests)
		changed = changed || !slices.Equal(m.rests, rests)
		m.rests = rests
	}
	if changed {
		t.bell.learn(t.memory)
	}
	related := t.related(keySet(t.part))
	more := len(related) > len(t.part)
	if more {
		t.agenda.claim(t, related)
	}
	return more
}

// together returns clusters and all that share something with them, in the order of the config.
func (k *Keeper) together(clusters []v1alpha1.ClusterRoutes) []v1alpha1.ClusterRoutes {
	if len(clusters) == len(k.configs) || len(clusters) == 0 {
		return clusters
	}
	related := k.related(keySet(clusters))
	return k.of(func(key string) bool { return related[key] })
}

// related returns clusters and all that share something with them, directly or by way of others, by ID.Key(): also those that are not
// kept any more, and are in a round still.
func (k *Keeper) related(clusters map[string]bool) map[string]bool {
	in := map[string]bool{}
	queue := slices.Collect(maps.Keys(clusters))
	for ; len(queue) > 0; queue = queue[1:] {
		if in[queue[0]] {
			continue
		}
		in[queue[0]] = true
		for _, resource := range k.memory[queue[0]].rests {
			queue = append(queue, k.bell.rests[resource]...) // it is changed under the keeper's lock only
		}
	}
	return in
}

// of returns the configs of the clusters that are chosen by their keys.
func (k *Keeper) of(chosen func(key string) bool) []v1alpha1.ClusterRoutes {
	var out []v1alpha1.ClusterRoutes
	for _, c := range k.configs {
		if chosen(network.ID(c.Spec.ClusterID).Key()) {
			out = append(out, c)
		}
	}
	return out
}

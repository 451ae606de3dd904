package keeper

import (
	"context"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Nodes reads the nodes of clusters from their Kubernetes APIs.
type Nodes interface {
	// Nodes returns the nodes of a cluster, or why they are unknown. It waits at most the given
	// time for a first answer; 0 means until there is an answer or a failure. If changed is not
	// nil, it follows the nodes until the context ends or Retain drops the cluster, and calls
	// changed after every change that concerns routes. changed must not block.
	Nodes(ctx context.Context, cluster *inventory.Cluster, wait time.Duration,
		changed func()) *inventory.Kubernetes
	// Retain drops all other clusters, by their ID.Key().
	Retain(clusters map[string]bool)
}

// countFor is how long a check waits for the nodes of a cluster that migrates. They are only
// counted: the cluster's routes come from its table.
const countFor = 250 * time.Millisecond

// readNodes adds the nodes of the clusters with source Nodes to what was read. While Run runs, the
// nodes are followed, and a change triggers a check, which finds them in memory. The nodes of other
// clusters are followed while they migrate.
func (o *observation) readNodes(ctx context.Context) {
	if o.k.opts.Nodes == nil {
		return
	}
	var reading sync.WaitGroup
	var mu sync.Mutex
	for i := range o.configs {
		cluster := o.s.Cluster(idOf(o.configs[i]))
		fromNodes := o.configs[i].Spec.Source == v1alpha1.SourceNodes
		counted := !fromNodes && cluster != nil && cluster.Migrating && !o.patient
		o.k.followed.count(idOf(o.configs[i]).Key(), counted)
		if cluster == nil || !fromNodes && !counted || !plan.Routed(&o.configs[i], cluster) {
			continue
		}
		var changed func()
		wait := time.Duration(0)
		switch {
		case counted:
			ctx, wait, changed = o.life, countFor, func() {}
		case !o.patient:
			ctx = o.life // a watch outlives the check
			wait = max(time.Until(o.until), 250*time.Millisecond)
			changed = func() { o.k.nodesChanged(cluster.ID.Key()) }
		}
		reading.Go(func() {
			known := o.k.opts.Nodes.Nodes(ctx, cluster, wait, changed)
			mu.Lock()
			defer mu.Unlock()
			o.s.Kubernetes[cluster.ID.Key()] = known
		})
	}
	reading.Wait()
}

// mixed returns a cluster that may be leaving kubenet as it works (inventory.Cluster.Mixed) if the
// followed nodes show that not all have moved.
func (k *Keeper) mixed(life context.Context, cluster *inventory.Cluster) *inventory.Cluster {
	if !cluster.MayLeave() || k.opts.Nodes == nil {
		return cluster
	}
	known := k.opts.Nodes.Nodes(life, cluster, countFor, func() {})
	if known.Failed != "" {
		return cluster
	}
	return cluster.Mixed(known.Nodes)
}

// nodesChanged triggers a check of a cluster.
func (k *Keeper) nodesChanged(cluster string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.triggerLocked(map[string]bool{cluster: true},
		trigger{at: time.Now(), callers: []string{"its nodes in Kubernetes"}})
}

// followed has the clusters whose nodes are followed in Kubernetes.
type followed struct {
	nodes Nodes // nil: none

	mu      sync.Mutex
	configs []v1alpha1.ClusterRoutes
	counted map[string]bool // clusters that migrate, by ID.Key()
}

// count notes whether the nodes of a cluster are counted. When they no longer are, it stops
// following them.
func (f *followed) count(cluster string, counted bool) {
	f.mu.Lock()
	was := f.counted[cluster]
	if counted {
		f.counted[cluster] = true
	} else {
		delete(f.counted, cluster)
	}
	f.mu.Unlock()
	if was && !counted {
		f.forget()
	}
}

// retain stops following the nodes of clusters that have left the configs, or no longer need it.
func (f *followed) retain(configs []v1alpha1.ClusterRoutes) {
	f.mu.Lock()
	f.configs = configs
	f.mu.Unlock()
	f.forget()
}

func (f *followed) forget() {
	if f.nodes == nil {
		return
	}
	kept := map[string]bool{}
	f.mu.Lock()
	for _, c := range f.configs {
		kept[keyOf(c)] = f.counted[keyOf(c)] || c.Spec.Source == v1alpha1.SourceNodes
	}
	f.mu.Unlock()
	f.nodes.Retain(kept)
}

// fromTable reports whether the pod routes of a cluster come from its route table.
func fromTable(configs []v1alpha1.ClusterRoutes, id arm.ID) bool {
	return slices.ContainsFunc(configs, func(config v1alpha1.ClusterRoutes) bool {
		return id.Equal(idOf(config)) && config.Spec.Source != v1alpha1.SourceNodes
	})
}

// routed reports whether a cluster has pod routes that its config manages.
func (o *observation) routed(id arm.ID, cluster *inventory.Cluster) bool {
	for i := range o.configs {
		if id.Equal(idOf(o.configs[i])) {
			return plan.Routed(&o.configs[i], cluster)
		}
	}
	return cluster.Kubenet()
}

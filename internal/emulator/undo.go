package emulator

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"runtime/debug"

	"routekeeper.dev/routekeeper/internal/arm"
)

// undo remembers what there was before a write, of all that the write has looked at: one that ends
// in a panic leaves
// nothing half made.
type undo struct {
	resources map[string]*resource // copies, by ID.Key(); nil for nothing
	inUse     map[string]map[netip.Addr]arm.ID
	clusters  map[string]*savedCluster // nil for nothing
	later     []later
	activity  int
}

// noted keeps a copy of a resource that is about to be looked at.
func (u *undo) noted(key string, r *resource) {
	if _, known := u.resources[key]; known {
		return
	}
	u.resources[key] = nil
	if r != nil {
		was := *r
		was.body, was.rendered = clone(r.body), nil
		u.resources[key] = &was
	}
}

// notedAddresses keeps a copy of the addresses in use in a subnet.
func (u *undo) notedAddresses(key string, used *addresses) {
	if _, known := u.inUse[key]; !known && used != nil {
		u.inUse[key] = maps.Clone(used.by)
	}
}

// watch remembers from now on. A read needs nothing undone.
func (k *kernel) watch(c *call) {
	if c.method == http.MethodGet || c.method == http.MethodHead {
		return
	}
	u := &undo{
		resources: map[string]*resource{}, inUse: map[string]map[netip.Addr]arm.ID{},
		clusters: map[string]*savedCluster{},
		later:    append([]later(nil), k.later...), activity: len(k.activity),
	}
	if id := clusterAt(c.path); id != "" {
		u.clusters[id.Key()] = nil
		if cl := k.aks.clusters[id.Key()]; cl != nil {
			saved := saveCluster(cl)
			u.clusters[id.Key()] = &saved
		}
	}
	k.store.undo = u
}

// clusterAt is the cluster that a path leads to or into, or "".
func clusterAt(path []string) arm.ID {
	if len(path) < 8 {
		return ""
	}
	id := arm.ID("")
	for _, segment := range path[:8] {
		id += arm.ID("/" + segment)
	}
	if !id.Is(arm.TypeCluster) {
		return ""
	}
	return id
}

// recovered ends a call: one that panicked is logged, undone and answered with 500.
func (k *kernel) recovered(c *call, answer *reply, f **failure) {
	u := k.store.undo
	k.store.undo = nil
	reason := recover()
	if reason == nil {
		return
	}
	k.panicked(c, reason)
	if u != nil {
		k.takeBack(u)
	}
	*answer, *f = reply{}, fail(
		http.StatusInternalServerError,
		"InternalServerError",
		"The local Azure failed at %s %s: %v. This is a bug in it; its log has more.",
		c.method,
		c.key(),
		reason,
	)
}

// panicked logs what a person needs to find the bug.
func (k *kernel) panicked(c *call, reason any) {
	k.log.Error(
		"a bug in the local Azure: a request made it panic; it was answered with 500 and undone",
		"method",
		c.method,
		"path",
		c.key(),
		"apiVersion",
		c.version,
		"body",
		string(c.body),
		"panic",
		fmt.Sprint(reason),
		"stack",
		string(debug.Stack()),
	)
}

// takeBack brings back what there was.
func (k *kernel) takeBack(u *undo) {
	for key := range u.resources {
		if now := k.store.resources[key]; now != nil {
			k.store.remove(now.id)
		}
	}
	for _, was := range u.resources {
		if was != nil {
			k.store.put(was)
		}
	}
	for key, by := range u.inUse {
		k.store.inUse[key] = &addresses{by: by}
	}
	for key, was := range u.clusters {
		if now := k.aks.clusters[key]; now != nil {
			now.provider.stop()
			for _, p := range now.pools {
				delete(k.aks.scaleSets, p.scaleSet.Key())
			}
			delete(k.aks.nodeGroups, now.nodeGroup.Key())
			delete(k.aks.clusters, key)
		}
		if was != nil {
			_ = k.aks.restoreCluster(*was) // it was saved here
			k.aks.nodesChanged(k.aks.clusters[key])
		}
	}
	k.later, k.activity = u.later, k.activity[:min(u.activity, len(k.activity))]
}

// guarded does what no request waits for, and logs a panic in it.
func (k *kernel) guarded(what string, do func()) {
	defer func() {
		if reason := recover(); reason != nil {
			k.log.Error(
				"a bug in the local Azure: "+what+" panicked",
				"panic",
				fmt.Sprint(reason),
				"stack",
				string(debug.Stack()),
			)
		}
	}()
	do()
}

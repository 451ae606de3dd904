package keeper

import (
	"math/rand/v2"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// Clusters that do not exist. How it works: Azure answered 404 for the cluster, so nothing of it
// can be lost, and its routes are in no hurry. Polls use that answer, and what was read of the
// tables and subnets that only such clusters name, until the cluster is due again. So configs of
// clusters that are gone do not use up the calls that the others need. Events and people read
// everything.

// absentEach is how much later all absent clusters are read again for each of them, from about 100
// on: so they take at most about 100 reads of clusters a minute.
const absentEach = 600 * time.Millisecond

// noteAbsent notes whether a cluster exists, and returns when an absent one is read again. The
// reads of many are spread, because a burst delays others.
func (k *Keeper) noteAbsent(cluster string, absent bool) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !absent {
		delete(k.absent, cluster)
		return 0
	}
	k.absent[cluster] = true
	again := time.Duration(len(k.absent)) * absentEach
	if again <= retryCluster {
		return retryCluster
	}
	return max(retryCluster, again/2+rand.N(again/2))
}

// absent reports whether an earlier check found that the cluster does not exist, and this one has
// not read it again.
func (m *memory) absent(began time.Time) bool {
	return m.unread != nil && m.unread.Absent && m.read.Before(began)
}

// recallAbsent adds to a poll what the last check read of resources that only absent clusters name,
// unless it planned changes.
func (o *observation) recallAbsent() {
	last := o.mem.last
	if !o.poll || last == nil || o.mem.changing {
		return
	}
	absent := func(c v1alpha1.ClusterRoutes) bool {
		return o.mem.clusters[keyOf(c)].absent(o.began)
	}
	var needed, idle []string
	for _, c := range o.configs {
		if absent(c) {
			idle = append(idle, configured(c)...)
		} else {
			needed = append(needed, configured(c)...)
		}
	}
	for _, key := range idle {
		if slices.Contains(needed, key) {
			continue
		}
		if table := last.Tables[key]; table != nil {
			o.s.Tables[key] = table
		}
		if subnet := last.Subnets[key]; subnet != nil {
			o.s.Subnets[key] = subnet
		}
		if u, failed := last.Unread[key]; failed && !u.Transient() {
			o.s.Unread[key] = u
		}
	}
}

package keeper

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Clusters that do not exist. How it works: Azure answered 404 for the cluster, so nothing of it
// can be lost, and its routes are not urgent. Until the cluster is due again, polls use that
// answer, and what was read of the tables and subnets that only such clusters name. Groups of such
// clusters are checked only every few ticks. So configs of deleted clusters do not use up the calls
// and the processor time that other clusters need. Checks for events and people read everything.

// absentEach is the time that each absent cluster adds to the pause before absent clusters are read
// again, if there are more than 20. So all together take about 20 to 40 of the 60 reads of clusters
// that AKS allows per minute.
const absentEach = 3 * time.Second

// restLeast and restMost are the shortest and longest pause of a group whose clusters do not exist.
// The page calls a check overdue after a minute.
const restLeast, restMost = 20 * time.Second, 45 * time.Second

// absentees are clusters that do not exist, by ID.Key().
type absentees struct {
	mu   sync.Mutex
	keys map[string]bool
}

// note notes whether a cluster exists, and returns when to read an absent one again. Reads of many
// clusters are spread, because a burst delays others.
func (a *absentees) note(cluster string, absent bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !absent {
		delete(a.keys, cluster)
		return 0
	}
	a.keys[cluster] = true
	again := time.Duration(len(a.keys)) * absentEach
	if again <= retryCluster {
		return retryCluster
	}
	return max(retryCluster, again/2+rand.N(again/2))
}

// retain forgets all clusters except the given ones.
func (a *absentees) retain(kept map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.keys, func(key string, _ bool) bool { return !kept[key] })
}

// absent reports whether an earlier check found that the cluster does not exist, and this one has
// not read it again.
func (m *memory) absent(began time.Time) bool {
	return m.unread != nil && m.unread.Absent && m.read.Before(began)
}

// restsUntil returns until when ticks trigger no check of the group, because none of its clusters
// exists and nothing is planned. Checks of many groups are spread.
func (c *check) restsUntil() time.Time {
	for _, config := range c.configs {
		m := c.mem.clusters[keyOf(config)]
		if m.unread == nil || !m.unread.Absent {
			return time.Time{}
		}
	}
	if c.mem.changing || c.troubled() {
		return time.Time{}
	}
	return time.Now().Add(restLeast + rand.N(restMost-restLeast))
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
	before := plan.Facts{Snapshot: last, Memory: o.s.Memory}
	var needed, idle []string
	for _, c := range o.configs {
		if absent(c) {
			idle = append(idle, configured(c)...)
		} else {
			// the config need not name everything that the cluster was seen to use
			needed = append(needed, configured(c)...)
			needed = append(needed, seenUses(before, c)...)
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

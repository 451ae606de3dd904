package keeper

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// absentConfigs are configs of clusters that do not exist, each with a target of its own.
func (w *world) absentConfigs(n int) (configs []v1alpha1.ClusterRoutes) {
	for i := range n {
		id := arm.ResourceID(w.demo.Cluster.Subscription(), "gone-rg", arm.TypeCluster,
			fmt.Sprintf("gone%03d", i))
		configs = append(configs, configure(id.Name(), id, arm.ResourceID(id.Subscription(),
			"gone-rg", arm.TypeRouteTable, fmt.Sprintf("t%03d", i))))
	}
	return configs
}

// about counts the reads of clusters that do not exist, and of their targets.
func about(requests []emulator.Request) (clusters, targets int) {
	for _, r := range requests {
		switch {
		case !strings.Contains(r.Path, "/gone-rg/"):
		case strings.Contains(strings.ToLower(r.Path), "/routetables"):
			targets++
		default:
			clusters++
		}
	}
	return clusters, targets
}

// TestManyAbsentClusters: configs of clusters that do not exist use few calls, and a repair of
// another cluster does not wait for them. Azure allows a tenth of its usual calls, so a tenth of
// the clusters is enough.
func TestManyAbsentClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		few := slow
		few.Buckets.Reads = emulator.Bucket{Size: 25, PerSecond: 2.5}
		w := newWorld(t, few)
		k := w.run(10*time.Second, append(w.absentConfigs(50), w.demoConfig())...)
		k.since(3 * time.Minute)
		read := w.mark()
		const minutes = 3
		for range minutes {
			w.strip(w.demo.NodeSubnet)
			began := time.Now()
			for w.tableOf(w.demo.NodeSubnet) == "" && time.Since(began) < time.Minute {
				time.Sleep(time.Second)
			}
			if took := time.Since(began); took > 25*time.Second {
				t.Errorf("a repair took %s", took)
			}
			k.since(time.Minute - time.Since(began))
		}
		clusters, targets := about(read())
		if clusters > 60*minutes || targets > 60*minutes {
			t.Errorf("in %d minutes, %d reads of absent clusters and %d of their targets", minutes,
				clusters, targets)
		}
	})
}

// TestAbsentCluster: polls do not read the target of a cluster that does not exist. An event about
// the target does, the finding stays as it is, and the cluster is noticed once it exists.
func TestAbsentCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		absent := w.absentConfigs(1)
		k := w.run(time.Second, absent[0], w.demoConfig())
		k.since(50 * time.Second)
		read := w.mark()
		results := k.since(8 * time.Second)
		if clusters, targets := about(read()); clusters+targets > 0 {
			t.Errorf("%d reads of the cluster and %d of its target", clusters, targets)
		}
		for _, r := range results {
			if f := of(r, finding.ClusterMissing); f == nil {
				t.Fatalf("findings %v", codes(r))
			}
		}
		k.Wake(Event{}, arm.ID(absent[0].Spec.Targets[0].RouteTableID))
		k.since(time.Second)
		if clusters, targets := about(read()); clusters == 0 || targets == 0 {
			t.Errorf("after an event, %d reads of the cluster and %d of its target", clusters,
				targets)
		}
	})
}

// TestAbsentGuardsLiveNodeSubnet: the config of a cluster that is gone guards a node subnet of
// another one, which was made in its place. The repair there does not wait for the first.
func TestAbsentGuardsLiveNodeSubnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		absent := w.absentConfigs(1)
		absent[0].Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{
			SubnetID:     string(w.demo.NodeSubnet),
			RouteTableID: string(w.tableOf(w.demo.NodeSubnet))}}
		k := w.run(10*time.Second, absent[0], w.demoConfig())
		k.since(3 * time.Minute)
		for range 4 {
			w.strip(w.demo.NodeSubnet)
			began := time.Now()
			for w.tableOf(w.demo.NodeSubnet) == "" && time.Since(began) < 5*time.Minute {
				time.Sleep(time.Second)
			}
			// a tick, two seconds, and Azure's two operations of four seconds
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("repaired after %s", took)
			}
			k.since(67 * time.Second)
		}
	})
}

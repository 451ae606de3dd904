package keeper

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestClusterless: a document without a cluster guards a subnet. What the subnet loses is back
// within the interval and two seconds, with one write, and no cluster is read. With mode Observe,
// and once the document has left the config, nothing is written.
func TestClusterless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		subnet, table := w.demo.GatewaySubnet, w.demo.GatewayTable
		config := configure("hub", "")
		config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
			{SubnetID: string(subnet), RouteTableID: string(table)}}
		config.Spec.OnRemoval = v1alpha1.RemovalPrune // a config file must not say so
		calls := w.mark()
		k := w.runWith(Options{}, 10*time.Second, config)
		k.since(10 * time.Minute)
		w.strip(subnet)
		since := w.mark()
		rounds := k.since(12*time.Second + 2*operation)
		if puts, _ := putsOf(since(), subnet); len(puts) != 1 || w.tableOf(subnet) != table {
			t.Errorf("%d PUTs, and the table is %q", len(puts), w.tableOf(subnet))
		}
		last := rounds[len(rounds)-1]
		if v := last.Verdicts[0]; len(last.Findings) > 0 || v.State != verdict.InSync ||
			v.Cluster != "hub" || v.Sentence != "1 guarded subnet in sync" {
			t.Errorf("afterwards: %v %+v", last.Findings, v)
		}
		config.Spec.Guard.Mode = v1alpha1.GuardObserve
		k.Reload([]v1alpha1.ClusterRoutes{config})
		k.since(time.Minute)
		w.strip(subnet)
		since = w.mark()
		rounds = k.since(time.Minute)
		w.expectNoWrites("with Observe", since())
		if v := rounds[len(rounds)-1].Verdicts[0]; v.State == verdict.InSync {
			t.Errorf("with Observe, and the table lost: %+v", v)
		}
		k.Reload(nil)
		since = w.mark()
		k.since(time.Minute)
		w.expectNoWrites("after it left the config", since())
		for _, r := range calls() {
			if strings.Contains(strings.ToLower(r.Path), "managedclusters") ||
				strings.Contains(r.Path, v1alpha1.NoCluster) {
				t.Errorf("it reads a cluster: %s %s", r.Method, r.Path)
			}
		}
	})
}

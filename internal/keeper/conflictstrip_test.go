package keeper

import (
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// TestStripAfterRival: a rival has put another table on the node subnet for long, and has stopped.
// A table that someone then only takes off is back as soon as after any other conflict.
func TestStripAfterRival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		c := w.demoConfig()
		c.Spec.Guard.OnOtherTable = v1alpha1.OtherTableReplace
		k := w.run(10*time.Second, c)
		k.since(time.Minute)
		own, subnet := w.demo.ClusterTable, w.demo.NodeSubnet
		other := own.Group() + "/providers/Microsoft.Network/routeTables/rival"
		w.putTable(other, "x 10.99.0.0/16 10.88.9.4")
		for range 12 * 90 {
			if w.tableOf(subnet).Equal(own) {
				w.associate(subnet, other)
			}
			k.since(5 * time.Second)
		}
		stopped := time.Now()
		for !w.tableOf(subnet).Equal(own) {
			k.since(5 * time.Second)
		}
		if took := time.Since(stopped); took > rivalNodesMost+time.Minute {
			t.Errorf("the rival's table stayed for %s", took)
		}
		k.since(12 * time.Minute)
		w.strip(subnet)
		stripped := time.Now()
		for !w.tableOf(subnet).Equal(own) {
			k.since(5 * time.Second)
		}
		if took := time.Since(stripped); took > time.Minute {
			t.Errorf("the table was away for %s", took)
		}
	})
}

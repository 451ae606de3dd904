package emulator

import (
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestFleet: the scenario has 30 clusters, four of them broken, and one stopped. The others' copies
// are complete.
func TestFleet(t *testing.T) {
	e, err := New(Options{CheckClusterIdentity: true, RouteBatch: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	broken, err := BuildFleet(e, DefaultPrincipal)
	if err != nil || len(broken) != 4+11 {
		t.Fatalf("%v, %v", broken, err)
	}
	c, err := e.Client(DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	stripped, whole := 0, 0
	for _, m := range fleet(e.opts.Subscriptions[0]) {
		subnet, err := c.Get(m.nodeSubnet, demoNetwork)
		if err != nil {
			t.Fatal(err)
		}
		if kernel.Text(kernel.ObjectAt(kernel.ObjectAt(subnet, "properties"), "routeTable"),
			"id") != string(m.table) {
			stripped++
		}
		own, err := m.routes(c, m.table)
		if err != nil {
			t.Fatal(err)
		}
		copies, err := m.routes(c, m.gatewayTable)
		if err != nil {
			t.Fatal(err)
		}
		if len(own) == m.nodes && len(copies) == m.nodes {
			whole++
		}
	}
	if stripped != 2 || whole != 28 {
		t.Errorf("%d stripped, %d with complete tables", stripped, whole)
	}
}

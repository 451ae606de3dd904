package emulator

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestFleet: the scenario has 30 clusters: four broken, one with a hidden route, one stopped,
// one that migrates, and one with a network that cannot be read. The others' copies are complete.
func TestFleet(t *testing.T) {
	t.Parallel()
	e, err := New(Options{CheckClusterIdentity: true, RouteBatch: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	broken, err := BuildFleet(e, DefaultPrincipal)
	if err != nil || len(broken) != 4+1+11+2 {
		t.Fatalf("%v, %v", broken, err)
	}
	c, err := e.Client(DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	stripped, whole := 0, 0
	for _, m := range fleet(e.opts.Subscriptions[0]) {
		doc, err := c.Get(m.cluster, demoAKS)
		if err != nil {
			t.Fatal(err)
		}
		state := kernel.Text(doc, "properties", "provisioningState")
		if want := map[bool]string{true: "Updating", false: "Succeeded"}[m.name ==
			fleetMigrating]; state != want {
			t.Errorf("%s is %s, want %s", m.name, state, want)
		}
		if m.name == fleetUnreachable {
			status, _ := c.Do(http.MethodGet, m.table, demoNetwork, nil)
			listed, err := c.Get(arm.ID("/subscriptions/"+m.table.Subscription()+
				"/providers/"+arm.TypeRouteTable), demoNetwork)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(kernel.ListAt(listed, "value")); status != http.StatusForbidden ||
				n != 29*2 {
				t.Errorf("the table of %s: %d, and %d tables are listed", m.name, status, n)
			}
			continue
		}
		subnet, err := c.Get(m.nodeSubnet, demoNetwork)
		if err != nil {
			t.Fatal(err)
		}
		if kernel.Text(subnet, "properties", "routeTable", "id") != string(m.table) {
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
		if m.name == fleetMigrating {
			m.nodes++ // the surge node
		}
		if len(own) == m.nodes && len(copies) == m.nodes {
			whole++
		}
	}
	if stripped != 2 || whole != 26 {
		t.Errorf("%d stripped, %d with complete tables", stripped, whole)
	}
}

// TestScenariosTakeNoTime: what exists at the start is there at once, and only then do operations
// and the limits on calls work as the options say.
func TestScenariosTakeNoTime(t *testing.T) {
	for name, build := range map[string]func(*Emulator) error{
		"demo": func(e *Emulator) error {
			_, err := BuildDemo(e, DefaultPrincipal)
			return err
		},
		"fleet": func(e *Emulator) error {
			_, err := BuildFleet(e, DefaultPrincipal)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Options{OperationTime: time.Minute, RouteBatch: 30 * time.Second})
			before := time.Now()
			if err := build(b.e); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if took := time.Since(before); took != 0 {
				t.Errorf("%s takes %s", name, took)
			}
			b.put(rt, `{"location":"westeurope"}`)
			if state := kernel.Text(b.properties(rt), "provisioningState"); state != "Updating" {
				t.Errorf("%s: after it a table is %q", name, state)
			}
		})
	}
}

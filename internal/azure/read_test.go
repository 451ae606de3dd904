package azure_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const sub = emulator.DefaultSubscription

// tables creates n tables in each of some groups, and returns the IDs of the last few of each.
func tables(t *testing.T, e *emulator.Emulator, groups, n, first int) []arm.ID {
	t.Helper()
	op, err := e.Client(emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	var ids []arm.ID
	for g := range groups {
		group := arm.GroupID(sub, fmt.Sprintf("g%d", g))
		if err := op.Put(group, "2024-03-01",
			map[string]any{"location": "westeurope"}); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			id := arm.ResourceID(sub, group.Name(), arm.TypeRouteTable, fmt.Sprintf("t%02d", i))
			if err := op.Put(id, "2025-05-01",
				map[string]any{"location": "westeurope"}); err != nil {
				t.Fatal(err)
			}
			if i >= n-first {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// TestFewestCalls: repeated reads of tables settle on the cheapest calls, and learning them costs
// little.
func TestFewestCalls(t *testing.T) {
	tests := []struct {
		name             string
		groups, n, first int
		page             int
		faults           []emulator.Fault
		settled          int // calls of a later check
		learning         int // the most calls of the first checks together
	}{
		{name: "one table", groups: 1, n: 5, first: 1, settled: 1, learning: 4},
		{name: "two tables of a group: its list", groups: 1, n: 5, first: 2, settled: 1,
			learning: 4},
		{name: "one table in each of five groups: the subscription's list", groups: 5, n: 3,
			first: 1, settled: 1, learning: 4},
		{name: "a long list is dearer than three GETs", groups: 1, n: 60, first: 3, page: 10,
			settled: 3, learning: 3 * 8},
		{name: "lists of groups beat a long list", groups: 4, n: 10, first: 10, page: 10,
			settled: 4, learning: 4 * 8},
		{name: "pages of the subscription beat GETs", groups: 30, n: 2, first: 1, page: 20,
			settled: 3, learning: 40},
		{name: "subscription refused", groups: 5, n: 3, first: 2,
			faults: []emulator.Fault{{Path: "^/subscriptions/[^/]+/providers", Status: 403,
				Code: "AuthorizationFailed", Count: -1}}, settled: 5, learning: 5*4 + 1},
		{name: "all lists refused", groups: 3, n: 3, first: 2, faults: []emulator.Fault{
			{Path: "routeTables$", Status: 403, Code: "AuthorizationFailed", Count: -1}},
			settled: 6, learning: 6*4 + 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Buckets large enough for the setup.
				e := emulatortest.New(t, emulator.Options{PageSize: tt.page,
					Buckets: emulator.Buckets{Writes: emulator.Bucket{Size: 1e6, PerSecond: 1}}})
				ids := tables(t, e, tt.groups, tt.n, tt.first)
				for _, f := range tt.faults {
					f.Principal = emulatortest.Keeper.Name
					if _, err := e.Inject(f); err != nil {
						t.Fatal(err)
					}
				}
				c := emulatortest.Client(t, e, emulatortest.Keeper)
				total, last := 0, 0
				for range 5 {
					calls := &azure.Calls{}
					s := inventory.NewSnapshot()
					if err := c.Read(t.Context(), s, inventory.Wanted{Tables: ids},
						azure.ReadOptions{Calls: calls}); err != nil {
						t.Fatal(err)
					}
					if len(s.Tables) != len(ids) || len(s.Unread) != 0 {
						t.Fatalf("%d tables of %d, unread %v", len(s.Tables), len(ids), s.Unread)
					}
					last, _, _ = calls.Counts()
					total += last
				}
				if last != tt.settled {
					t.Errorf("a later check takes %d calls, want %d", last, tt.settled)
				}
				if total-last > tt.learning {
					t.Errorf("the first four checks took %d calls, want %d at the most", total-last,
						tt.learning)
				}
			})
		})
	}
}

// TestAbsentAndRefused: only a GET with 404 proves absence.
func TestAbsentAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{})
		ids := tables(t, e, 1, 3, 3)
		gone := arm.ResourceID(sub, "g0", arm.TypeRouteTable, "gone")
		nowhere := arm.ResourceID(sub, "nowhere", arm.TypeRouteTable, "t")
		if _, err := e.Inject(emulator.Fault{Path: "routeTables/t01$", Status: 403,
			Code: "AuthorizationFailed", Message: "no\nrights", Count: -1}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Inject(emulator.Fault{Path: "routeTables$", Status: 403,
			Code: "AuthorizationFailed", Count: -1}); err != nil {
			t.Fatal(err)
		}
		c := emulatortest.Client(t, e, emulatortest.Keeper)
		s := inventory.NewSnapshot()
		if err := c.Read(t.Context(), s, inventory.Wanted{Tables: append(ids, gone, nowhere)},
			azure.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		if len(s.Tables) != 2 {
			t.Errorf("%d tables, want 2", len(s.Tables))
		}
		for id, want := range map[arm.ID]string{gone: "it does not exist",
			nowhere: "it does not exist", ids[1]: "AuthorizationFailed: no rights"} {
			if u := s.Unread[id.Key()]; u.Reason() != want ||
				u.Absent != strings.Contains(want, "exist") {
				t.Errorf("%s: %q (%+v), want %q", id.Short(), u.Reason(), u, want)
			}
		}
	})
}

// TestLinksStayHome: a token is sent to no other host, whatever a link in an answer says.
func TestLinksStayHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{PageSize: 1})
		ids := tables(t, e, 1, 3, 3)
		c := emulatortest.ClientOver(t, relinking{t, emulatortest.Transport(t, e)}, e,
			emulatortest.Keeper)
		s := inventory.NewSnapshot()
		if err := c.Read(t.Context(), s, inventory.Wanted{Tables: ids},
			azure.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		if len(s.Tables) != 3 { // by GETs, because the list could not be followed
			t.Errorf("%d tables, unread %v", len(s.Tables), s.Unread)
		}
	})
}

// TestNodeAddresses: NICs of the node resource group count in addition to those of scale sets. One
// NIC that cannot be decoded, in any list, invalidates the whole answer.
func TestNodeAddresses(t *testing.T) {
	for _, tt := range []struct {
		name, address string
		failed        bool
	}{{"loose", "10.42.1.99", false}, {"garbled", "somewhere", true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := emulatortest.New(t, emulator.Options{})
				d, err := emulator.BuildDemo(e, emulatortest.Operator)
				if err != nil {
					t.Fatal(err)
				}
				c := emulatortest.ClientOver(t, answering{
					suffix: "/providers/Microsoft.Network/networkInterfaces",
					body: fmt.Sprintf(
						`{"value":[{"id":"/subscriptions/s/resourceGroups/mc/providers/Microsoft.Network/networkInterfaces/loose","properties":{"ipConfigurations":[{"properties":{"privateIPAddress":%q}}]}}]}`, tt.address),
					next: emulatortest.Transport(t, e),
				}, e, emulatortest.Keeper)
				s := inventory.NewSnapshot()
				if err := c.Read(t.Context(), s, inventory.Wanted{Clusters: []arm.ID{d.Cluster}},
					azure.ReadOptions{}); err != nil {
					t.Fatal(err)
				}
				if err := c.Read(t.Context(), s, inventory.Wanted{NICs: []arm.ID{d.Cluster}},
					azure.ReadOptions{}); err != nil {
					t.Fatal(err)
				}
				nics := s.Known(d.Cluster).NICs
				if (nics.Failed != "") != tt.failed {
					t.Errorf("failed: %q", nics.Failed)
				}
				if !tt.failed && (len(nics.Holder) != 4 ||
					nics.Holder[netip.MustParseAddr(tt.address)] != "loose") {
					t.Errorf("held: %v", nics.Holder)
				}
			})
		})
	}
}

package azure_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// spoil stores a document that cannot be decoded: it has a key twice that no client knows.
func spoil(t *testing.T, e *emulator.Emulator, id arm.ID) {
	t.Helper()
	op, err := e.Client(emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := op.Get(id, "2025-05-01")
	if err != nil {
		t.Fatal(err)
	}
	properties := doc["properties"].(map[string]any)
	properties["strange"], properties["Strange"] = 1, 2
	if err := op.Put(id, "2025-05-01", doc); err != nil {
		t.Fatal(err)
	}
}

// TestOneUndecodable: a document that cannot be decoded is unread by its own name, and costs
// nothing else of its list: not the other tables, not the other subnets of its network.
func TestOneUndecodable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{})
		d, err := emulator.BuildDemo(e, emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		spoil(t, e, d.GatewaySubnet)
		spoil(t, e, d.GatewayTable)
		c := emulatortest.Client(t, e, emulatortest.Keeper)
		s, err := c.Survey(t.Context(), arm.SubscriptionID(sub))
		if err != nil {
			t.Fatal(err)
		}
		if s.Subnet(d.NodeSubnet) == nil || s.Table(d.ClusterTable) == nil {
			t.Errorf("the other subnet and table are lost: %v, %v", s.Subnets, s.Tables)
		}
		vnet := d.GatewaySubnet.Parent()
		for _, id := range []arm.ID{d.GatewaySubnet, d.GatewayTable, vnet} {
			u, unread := s.Unread[id.Key()]
			if !unread || !u.ID.Equal(id) || u.Absent || !u.Undecoded() ||
				!strings.Contains(u.Message, "in one object twice") {
				t.Errorf("%s: %+v", id, u)
			}
		}
		if s.Subnet(d.GatewaySubnet) != nil || s.Table(d.GatewayTable) != nil ||
			s.VNets[vnet.Key()] != nil || len(s.Unread) != 3 {
			t.Errorf("unread is only %v", s.Unread)
		}

		read := inventory.NewSnapshot()
		wanted := inventory.Wanted{VNets: []arm.ID{vnet}}
		if err := c.Read(t.Context(), read, wanted, azure.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		if read.Subnet(d.NodeSubnet) == nil || read.Unread[vnet.Key()].ID != vnet {
			t.Errorf("a network read by itself: %v, unread %v", read.Subnets, read.Unread)
		}
	})
}

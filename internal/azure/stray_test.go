package azure_test

import (
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestStrayIDs: an ID that is not of its list's type, and one that Azure answers with another
// resource, are unread. If they were neither read nor unread, a check would want them for ever.
func TestStrayIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{})
		d, err := emulator.BuildDemo(e, emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		vnet := d.GatewaySubnet.Parent()
		c := emulatortest.ClientOver(t, answering{"/" + d.GatewayTable.Name(),
			`{"id": "` + string(d.ClusterTable) + `", "properties": {"routes": []}}`,
			emulatortest.Transport(t, e)}, e, emulatortest.Keeper)
		for _, o := range []azure.ReadOptions{{}, {Wait: time.Minute}} {
			s := inventory.NewSnapshot()
			if err := c.Read(t.Context(), s, inventory.Wanted{
				Tables: []arm.ID{vnet, d.GatewayTable}}, o); err != nil {
				t.Fatal(err)
			}
			for _, id := range []arm.ID{vnet, d.GatewayTable} {
				if u, unread := s.Unread[id.Key()]; !unread || u.Absent || u.Message == "" {
					t.Errorf("%+v: %s: %+v", o, id, u)
				}
			}
			if s.VNets[vnet.Key()] != nil || s.Table(d.ClusterTable) != nil {
				t.Errorf("%+v: what was not wanted is in the snapshot", o)
			}
		}
	})
}

// TestHalfAList: a list of network interfaces whose second page cannot be read is no proof.
func TestHalfAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{})
		d, err := emulator.BuildDemo(e, emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		c := emulatortest.ClientOver(t, answering{"/networkInterfaces",
			`{"value": [], "nextLink": "http://local/subscriptions/` + sub + `/broken"}`,
			emulatortest.Transport(t, e)}, e, emulatortest.Keeper)
		s := inventory.NewSnapshot()
		for _, w := range []inventory.Wanted{{Clusters: []arm.ID{d.Cluster}},
			{NICs: []arm.ID{d.Cluster}}} {
			if err := c.Read(t.Context(), s, w, azure.ReadOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if nics := s.Known(d.Cluster).NICs; nics == nil || nics.Failed == "" {
			t.Errorf("%+v", nics)
		}
	})
}

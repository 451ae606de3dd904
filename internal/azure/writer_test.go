package azure_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// TestLastWrite: the newest write of a subnet or of its network, and its caller. Refused writes do
// not count, and if the log shows nothing, no caller is named.
func TestLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{PageSize: 3})
		d, err := emulator.BuildDemo(e, emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		c := emulatortest.Client(t, e, emulatortest.Keeper)
		vnet := d.NodeSubnet.Parent()
		last := func(ids ...arm.ID) string {
			t.Helper()
			time.Sleep(time.Minute)
			w, found, err := c.LastWrite(t.Context(), ids...)
			if err != nil {
				t.Fatal(err)
			}
			if !found {
				return "unknown"
			}
			who := map[string]string{emulatortest.Operator.ObjectID: "operator",
				emulatortest.Keeper.ObjectID: "keeper"}[w.Caller]
			return who + " " + strings.TrimPrefix(w.Operation, "Microsoft.Network/") + " " +
				w.Resource.Name()
		}
		put := func(as emulator.Principal, id arm.ID, change func(map[string]any)) {
			t.Helper()
			client, err := e.Client(as)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := client.Get(id, "2025-05-01")
			if err != nil {
				t.Fatal(err)
			}
			change(doc["properties"].(map[string]any))
			_ = client.Put(id, "2025-05-01", doc) // one is meant to be refused
		}
		expect := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		expect(last(vnet), "operator virtualNetworks/write shop-vnet")
		operator, err := e.Client(emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := operator.Put(d.GatewayTable+"/providers/Microsoft.Authorization/locks/l",
			"2020-05-01", map[string]any{"properties": map[string]any{
				"level": "CanNotDelete"}}); err != nil {
			t.Fatal(err)
		}
		expect(last(d.GatewayTable), "operator routeTables/write appgw-rt")
		expect(last(d.NodeSubnet), "unknown") // it came with its network
		expect(last(d.NodeSubnet, vnet), "operator virtualNetworks/write shop-vnet")
		put(emulatortest.Keeper, d.NodeSubnet, func(p map[string]any) { p["newer"] = true })
		expect(last(d.NodeSubnet, vnet), "keeper virtualNetworks/subnets/write nodes")
		// outside
		put(emulatortest.Operator, d.NodeSubnet, func(p map[string]any) {
			p["addressPrefix"] = "10.99.0.0/24"
		})
		expect(last(d.NodeSubnet, vnet), "keeper virtualNetworks/subnets/write nodes")
		put(emulatortest.Operator, vnet, func(p map[string]any) {})
		expect(last(d.NodeSubnet, vnet), "operator virtualNetworks/write shop-vnet")
		expect(last(d.ClusterTable), " routeTables/write shop-rt") // the cluster's identity
		w, _, err := c.LastWrite(t.Context(), d.ClusterTable)
		if err != nil || !strings.Contains(w.String(), ", the identity of ") {
			t.Errorf("%s, %v", w, err)
		}
		// A write or delete of a single route counts as a change of the table.
		operator, err = e.Client(emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		own := d.ClusterTable.Child("routes", "own")
		if err := operator.Put(own, "2025-05-01",
			map[string]any{"properties": map[string]any{"addressPrefix": "10.99.0.0/16",
				"nextHopType": "None"}}); err != nil {
			t.Fatal(err)
		}
		expect(last(d.ClusterTable), "operator routeTables/routes/write own")
		operator.Do("DELETE", own, "2025-05-01", nil)
		expect(last(d.ClusterTable), "operator routeTables/routes/delete own")
		if w, _, err := c.LastWrite(t.Context(), d.ClusterTable); err != nil ||
			!strings.Contains(w.String(), "shop-rt/own was last deleted by") {
			t.Errorf("%s, %v", w, err)
		}
		// another one in the same group
		expect(last(d.GatewayTable), "operator routeTables/write appgw-rt")
		time.Sleep(91 * 24 * time.Hour)
		expect(last(d.NodeSubnet, vnet), "unknown")
	})
}

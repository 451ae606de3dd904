package azure

import (
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestTableWrite: a real record of the activity log shows who wrote which table, in each way that
// records name a principal. A record of a begun or another operation shows nothing.
func TestTableWrite(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/activity-log/record-routetable-write-started.json")
	if err != nil {
		t.Fatal(err)
	}
	const (
		table = arm.ID("/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/mc_nwpluginkubenet_nwpluginkubenet_eastus/providers/Microsoft.Network/routeTables/aks-agentpool-48350840-routetable")
		mirid = "/subscriptions/11111111-1111-1111-1111-111111111111/resourcegroups/nwpluginkubenet/providers/microsoft.containerservice/managedclusters/nwpluginkubenet"
		app   = "44444444-4444-4444-4444-444444444444"
	)
	type record = map[string]any
	succeeded := func(r record) { r["status"] = record{"value": "Succeeded"} }
	for name, tt := range map[string]struct {
		identity string
		change   func(record)
		want     bool
	}{
		"only begun": {app, func(record) {}, false},
		"caller":     {app, func(r record) { succeeded(r); delete(r, "claims") }, true},
		"appid": {app, func(r record) {
			succeeded(r)
			r["caller"] = "ada@example.com"
		}, true},
		"resource":       {mirid, succeeded, true},
		"another caller": {"99999999-9999-9999-9999-999999999999", succeeded, false},
		"no principal": {"", func(r record) {
			succeeded(r)
			r["caller"] = "x"
			r["claims"] = record{"appid": "y"}
		}, false},
		"failed": {app, func(r record) { r["status"] = record{"value": "Failed"} }, false},
		"one route": {app, func(r record) {
			succeeded(r)
			r["operationName"] = record{"value": "MICROSOFT.NETWORK/routeTables/routes/write"}
			r["resourceId"] = string(table) + "/routes/r"
		}, true},
		"a delete": {app, func(r record) {
			succeeded(r)
			r["operationName"] = record{"value": "Microsoft.Network/routeTables/delete"}
		}, false},
		"of no table": {app, func(r record) {
			succeeded(r)
			r["resourceId"] = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v"
		}, false},
		"of another form": {app, func(r record) { succeeded(r); r["claims"] = 3 }, false},
		"without a resource": {app, func(r record) { succeeded(r); delete(r, "resourceId") },
			false},
	} {
		t.Run(name, func(t *testing.T) {
			var r record
			if err := json.Unmarshal(raw, &r); err != nil {
				t.Fatal(err)
			}
			tt.change(r)
			changed, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var writes []tableWrite
			if w, ok := tableWriteOf(changed); ok {
				writes = append(writes, w)
			}
			var known inventory.Known
			ok := addWritten(&known, writes, map[string]bool{tt.identity: true})
			if ok != tt.want || ok && !known.Written[0].Equal(table) {
				t.Errorf("%v %v", ok, known.Written)
			}
		})
	}
}

// TestAddNIC: a NIC that cannot be decoded is an error: otherwise its absence would prove that its
// node is gone.
func TestAddNIC(t *testing.T) {
	const instance = `/subscriptions/s/resourceGroups/mc/providers/Microsoft.Compute/virtualMachineScaleSets/aks-np-1-vmss/virtualMachines/3/networkInterfaces/nic`
	for raw, want := range map[string]bool{
		`{"id":"` + instance +
			`","properties":{"ipConfigurations":[{"properties":{}},{"properties":{"privateIPAddress":"10.0.0.4"}},{"properties":{"privateIPAddress":"fd00::4"}}]}}`: true,
		`{"id":"` + instance +
			`","properties":{"ipConfigurations":[{"properties":{"privateIPAddress":"10.0.0.x"}}]}}`: false,
		`{"id":"` + instance + `","properties":{"ipConfigurations":{}}}`: false,
		`{"id":"` + instance + `","properties":{}}`:                      true,
		`{"id":"x","properties":{}}`:                                     false,
		`[]`:                                                             false,
	} {
		nics := &inventory.NICs{Holder: map[netip.Addr]string{}, Nodes: map[netip.Addr]string{},
			Drops: map[netip.Addr]bool{}}
		if got := addNIC(nics, []byte(raw)); got != want {
			t.Errorf("%s: understood: %v", raw, got)
		}
		for addr, holder := range nics.Holder {
			if holder != "aks-np-1-vmss instance 3" {
				t.Errorf("%s belongs to %s", addr, holder)
			}
			if node := nics.Nodes[addr]; node != "aks-np-1-vmss000003" {
				t.Errorf("%s is the address of node %q", addr, node)
			}
		}
		if want && len(nics.Holder) != 2 && strings.Contains(raw, "fd00") {
			t.Errorf("held: %v", nics.Holder)
		}
	}
}

// TestDenial: which principals a deny assignment concerns, in each form of its document. Group
// membership is unknown, so a denial of a group counts for no principal.
func TestDenial(t *testing.T) {
	const all, group = `{"id":"00000000-0000-0000-0000-000000000000","type":"SystemDefined"}`,
		`{"id":"g","type":"Group"}`
	const me, other = `{"id":"ME","type":"ServicePrincipal"}`, `{"id":"other","type":"User"}`
	for name, tt := range map[string]struct {
		principals, excluded string
		me, unknown          bool
	}{
		"everybody":             {all, ``, true, true},
		"everybody but me":      {all, me, false, false},
		"everybody but another": {all, other, true, false},
		"everybody but a group": {all, group, false, false},
		"me":                    {me, ``, true, false},
		"me and a group":        {me + `,` + group, ``, true, false},
		"another":               {other, ``, false, false},
		"a group":               {group, ``, false, false},
		"no principal":          {``, ``, false, false},
	} {
		var d denial
		if err := json.Unmarshal([]byte(`{"properties":{"principals":[`+tt.principals+
			`],"excludePrincipals":[`+tt.excluded+`]}}`), &d); err != nil {
			t.Fatal(err)
		}
		if d.concerns("me") != tt.me || d.concerns("") != tt.unknown {
			t.Errorf("%s: concerns me %v, an unknown principal %v", name, d.concerns("me"),
				d.concerns(""))
		}
	}
}

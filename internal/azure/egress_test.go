package azure_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestReadEgress: a firewall in the surveyed scope, and one in the resource group of the hub, are
// read with their policies, rules and IP groups; one to which no route leads is left out, and so is
// everything if no default route leads to an appliance.
func TestReadEgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{})
		op, err := e.Client(emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		group := func(name string) arm.ID {
			id := arm.GroupID(emulator.DefaultSubscription, name)
			if err := op.Put(id, "2024-11-01", map[string]any{
				"location": "westeurope"}); err != nil {
				t.Fatal(err)
			}
			return id + "/providers/Microsoft.Network"
		}
		spoke, hub := group("spoke-rg"), group("hub-rg")
		put := func(id arm.ID, format string, args ...any) {
			t.Helper()
			status, body := op.Do(http.MethodPut, id, "2025-05-01",
				[]byte(fmt.Sprintf(format, args...)))
			if status/100 != 2 {
				t.Fatalf("%s: %d %s", id, status, body)
			}
		}
		firewall := func(id arm.ID, address string) {
			t.Helper()
			put(id, `{"location":"westeurope","properties":{"firewallPolicy":{"id":%q},`+
				`"ipConfigurations":[{"properties":{"privateIPAddress":%q}}]}}`,
				hub+"/firewallPolicies/child", address)
		}
		firewall(hub+"/azureFirewalls/hub", "10.50.0.4")
		firewall(spoke+"/azureFirewalls/unused", "10.42.9.4")
		put(hub+"/firewallPolicies/base", `{"location":"westeurope","properties":{}}`)
		put(hub+"/firewallPolicies/child", `{"location":"westeurope","properties":{`+
			`"basePolicy":{"id":%q}}}`, hub+"/firewallPolicies/base")
		put(hub+"/ipGroups/to", `{"location":"westeurope","properties":{"ipAddresses":["*"]}}`)
		put(hub+"/firewallPolicies/base/ruleCollectionGroups/g", `{"properties":{"priority":100,`+
			`"ruleCollections":[{"priority":1,"action":{"type":"Allow"},"rules":[{"name":"r",`+
			`"ruleType":"NetworkRule","destinationIpGroups":[%q]}]}]}}`, hub+"/ipGroups/to")

		read := func(hop string) *inventory.Snapshot {
			s := inventory.NewSnapshot()
			s.Listed = []arm.ID{spoke.Group()}
			for _, raw := range []string{
				fmt.Sprintf(`{"id":"%s/virtualNetworks/hub","properties":{"addressSpace":{`+
					`"addressPrefixes":["10.50.0.0/16"]}}}`, hub),
				fmt.Sprintf(`{"id":"%s/routeTables/rt","properties":{"routes":[{"name":"out",`+
					`"properties":{"addressPrefix":"0.0.0.0/0","nextHopType":%s}}]}}`, spoke, hop),
			} {
				if err := s.Add([]byte(raw)); err != nil {
					t.Fatal(err)
				}
			}
			c := emulatortest.Client(t, e, emulatortest.Keeper)
			if err := azure.ReadEgress(t.Context(), c, s); err != nil {
				t.Fatal(err)
			}
			return s
		}
		got := read(`"VirtualAppliance","nextHopIpAddress":"10.50.0.4"`)
		f := got.Firewalls[(hub + "/azureFirewalls/hub").Key()]
		if f == nil || len(got.Firewalls) != 1 {
			t.Fatalf("%v, unread %v", got.Firewalls, got.Egress.Unread)
		}
		rules, unread := got.Egress.RulesOf(f)
		if unread != "" || len(rules) != 1 || rules[0].Depth != 1 ||
			len(rules[0].Destinations) != 1 {
			t.Errorf("%q, %+v", unread, rules)
		}
		since := e.LastRequest()
		got = read(`"Internet"`)
		if len(got.Firewalls) > 0 || len(e.Requests(since)) > 0 {
			t.Errorf("without an appliance: %v", e.Requests(since))
		}
	})
}

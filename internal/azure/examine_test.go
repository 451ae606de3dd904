package azure_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// TestExamineBalancer: a default route leads to the front end of a load balancer in a hub that was
// not surveyed. A diagnosis reads the load balancer, and its backends in another subnet.
func TestExamineBalancer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{})
		op, err := e.Client(emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		put := func(id arm.ID, format string, args ...any) {
			t.Helper()
			if status, body := op.Do(http.MethodPut, id, "2025-05-01",
				[]byte(fmt.Sprintf(format, args...))); status/100 != 2 {
				t.Fatalf("%s: %d %s", id, status, body)
			}
		}
		groups := []arm.ID{arm.GroupID(emulator.DefaultSubscription, "spoke-rg"),
			arm.GroupID(emulator.DefaultSubscription, "hub-rg")}
		for _, id := range groups {
			put(id, `{"location":"westeurope"}`)
		}
		network := groups[1] + "/providers/Microsoft.Network/"
		hub, lb := network+"virtualNetworks/hub", network+"loadBalancers/lb"
		put(hub, `{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":[`+
			`"10.50.0.0/16"]},"subnets":[{"name":"front","properties":{"addressPrefix":`+
			`"10.50.1.0/24"}},{"name":"nvas","properties":{"addressPrefix":"10.50.2.0/24"}}]}}`)
		put(lb, `{"location":"westeurope","sku":{"name":"Standard"},"properties":{`+
			`"frontendIPConfigurations":[{"name":"f","properties":{"privateIPAddress":"10.50.1.9",`+
			`"privateIPAllocationMethod":"Static","subnet":{"id":"%s/subnets/front"}}}],`+
			`"backendAddressPools":[{"name":"p"}],"loadBalancingRules":[{"name":"ha","properties":`+
			`{"protocol":"All","frontendPort":0,"backendPort":0,"frontendIPConfiguration":{"id":`+
			`"%[2]s/frontendIPConfigurations/f"},"backendAddressPool":{"id":`+
			`"%[2]s/backendAddressPools/p"}}}]}}`, hub, lb)
		nva := network + "networkInterfaces/nva"
		put(nva, `{"location":"westeurope","properties":{"ipConfigurations":[{"name":"c",`+
			`"properties":{"subnet":{"id":"%s/subnets/nvas"},"loadBalancerBackendAddressPools":[`+
			`{"id":"%s/backendAddressPools/p"}]}}]}}`, hub, lb)

		c := emulatortest.Client(t, e, emulatortest.Keeper)
		s := inventory.NewSnapshot()
		if err := c.Read(t.Context(), s, inventory.Wanted{VNets: []arm.ID{hub}},
			azure.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		s.Listed = groups[:1]
		table := groups[0] + "/providers/Microsoft.Network/routeTables/rt"
		if err := s.Add(fmt.Appendf(nil, `{"id":%q,"properties":{"routes":[{"name":"out",`+
			`"properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"VirtualAppliance",`+
			`"nextHopIpAddress":"10.50.1.9"}}]}}`, table)); err != nil {
			t.Fatal(err)
		}
		if err := c.Examine(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if s.Balancers[lb.Key()] == nil || s.Interfaces[nva.Key()] == nil {
			t.Errorf("read %v and %v", s.Balancers, s.Interfaces)
		}
		if v, _ := trace.New(s, trace.Options{}).NextHop(hub.Child("subnets", "nvas"),
			netip.MustParseAddr("10.50.1.9")); v != trace.Delivered {
			t.Errorf("its front end: %s", v)
		}
	})
}

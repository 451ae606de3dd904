package emulator

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

func TestGatewayRules(t *testing.T) {
	b := newBench(t, Options{})
	const egress = `{"location":"westeurope","properties":{"routes":[{"name":"d","properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.0.9.4"}}]}}`
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	agw := group + "/providers/Microsoft.Network/applicationGateways/agw"
	gateway := func(subnet string) string {
		return `{"location":"westeurope","properties":{"gatewayIPConfigurations":[{"name":"c","properties":{"subnet":{"id":"` + string(vnet) + `/subnets/` + subnet + `"}}}]}}`
	}
	b.refused(http.MethodPut, agw, gateway("none"), 400, "InvalidResourceReference")
	b.put(agw, gateway("a"))
	a := vnet.Child("subnets", "a")
	if got := kernel.ListAt(b.get(a), "properties", "applicationGatewayIPConfigurations"); len(
		got) != 1 || kernel.Text(got[0], "id") != string(agw)+"/gatewayIPConfigurations/c" {
		t.Errorf("the subnet shows %v", got)
	}
	b.refused(http.MethodPut, rt, egress, 400, "ApplicationGatewaySubnetRouteTableNotSupported")
	b.put(rt+"2", egress)
	b.refused(http.MethodPut, a,
		`{"properties":{"addressPrefix":"10.0.1.0/24","routeTable":{"id":"`+string(rt)+
			`2"}}}`, 400, "ApplicationGatewaySubnetRouteTableNotSupported")
	const delegation = `"delegations":[{"name":"d","properties":{"serviceName":"Microsoft.Network/applicationGateways"}}]`
	onTable := `{"properties":{"addressPrefix":"10.0.1.0/24",` + delegation +
		`,"routeTable":{"id":"` + string(rt) + `2"}}}`
	b.refused(http.MethodPut, a, onTable, 400, "ApplicationGatewaySubnetRouteTableNotSupported")
	b.put(a, `{"properties":{"addressPrefix":"10.0.1.0/24",`+delegation+`}}`)
	b.put(agw, strings.Replace(gateway("a"), `"properties":{`,
		`"properties":{"enableApplicationGatewayNetworkIsolation":true,`, 1))
	b.put(a, onTable)
	b.refused(http.MethodDelete, a, "", 400, "InUseSubnetCannotBeDeleted")
	b.refused(http.MethodPut, a, `{"properties":{"addressPrefix":"10.0.5.0/24"}}`, 400,
		"InUsePrefixCannotBeDeleted")
	if status, _ := b.try(http.MethodDelete, agw, api, ""); status != 200 {
		t.Errorf("DELETE of the gateway: %d", status)
	}
	if status, code := b.try(http.MethodDelete, a, api, ""); status != 200 {
		t.Errorf("DELETE of the empty subnet: %d %s", status, code)
	}
}

// TestDemoGateway: the demo's gateway is a v2 one, as az shows, whose subnet takes no default route
// to an appliance.
func TestDemoGateway(t *testing.T) {
	b := newBench(t, Options{})
	d, err := BuildDemo(b.e, DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	sku := kernel.ObjectAt(b.get(d.GatewaySubnet.Parent().Group()+
		"/providers/"+arm.TypeGateway+"/shop-agw"), "properties", "sku")
	if kernel.Text(sku, "tier") != "Standard_v2" {
		t.Errorf("its SKU is %v", sku)
	}
	b.refused(http.MethodPut, d.GatewayTable.Child("routes", "def"),
		`{"properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.42.3.4"}}`,
		400, "ApplicationGatewaySubnetRouteTableNotSupported")
}

// TestGatewayWhileUpdating: a gateway accepts writes while it is created, and is stopped until then
// (recorded).
func TestGatewayWhileUpdating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 10 * time.Second})
		b.put(rt, `{"location":"westeurope"}`)
		b.put(vnet, plainVNet)
		time.Sleep(11 * time.Second)
		agw := group + "/providers/Microsoft.Network/applicationGateways/agw"
		body := `{"location":"westeurope","properties":{"gatewayIPConfigurations":[{"name":"c","properties":{"subnet":{"id":"` +
			string(vnet) + `/subnets/a"}}}]}}`
		for range 2 {
			if status, code := b.try(http.MethodPut, agw, api, body); status >= 300 {
				t.Fatalf("PUT: %d %s", status, code)
			}
			if p := kernel.ObjectAt(b.get(agw), "properties"); kernel.Text(p,
				"operationalState") != "Stopped" {
				t.Errorf("the new gateway is %v", p["operationalState"])
			}
			time.Sleep(time.Second)
		}
		time.Sleep(11 * time.Second)
		if p := kernel.ObjectAt(b.get(agw), "properties"); kernel.Text(p,
			"operationalState") != "Running" {
			t.Errorf("the gateway is %v", p["operationalState"])
		}
	})
}

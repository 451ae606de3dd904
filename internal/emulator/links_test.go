package emulator

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

const (
	nsg = group + "/providers/Microsoft.Network/networkSecurityGroups/nsg"
	nat = group + "/providers/Microsoft.Network/natGateways/nat"
	pip = group + "/providers/Microsoft.Network/publicIPAddresses/pip"
	nic = group + "/providers/Microsoft.Network/networkInterfaces/nic"
)

// ids reads a list of references.
func ids(o kernel.Object, field string) []string {
	var out []string
	for _, item := range kernel.ListAt(o, field) {
		out = append(out, kernel.Text(item, "id"))
	}
	return out
}

func (b *bench) properties(id arm.ID) kernel.Object {
	b.t.Helper()
	return kernel.ObjectAt(b.get(id), "properties")
}

func (b *bench) delete(id arm.ID) {
	b.t.Helper()
	if status, code := b.try(http.MethodDelete, id, api, ""); status/100 != 2 {
		b.t.Errorf("DELETE %s: %d %s", id, status, code)
	}
}

func nicBody(configurations ...string) string {
	return `{"location":"westeurope","properties":{"enableIPForwarding":true,"ipConfigurations":[` +
		strings.Join(configurations, ",") + `]}}`
}

func ipConfiguration(name, subnet, more string) string {
	return `{"name":"` + name + `","properties":{"subnet":{"id":"` + string(vnet) + `/subnets/` +
		subnet + `"}` + more + `}}`
}

// TestBackReferences: a linked resource shows its links, and cannot be deleted while it has any.
func TestBackReferences(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(pip, `{"location":"westeurope"}`)
	b.put(nsg, `{"location":"westeurope","properties":{"subnets":[{"id":"/made/up"}]}}`)
	b.put(nat, `{"location":"westeurope","properties":{"publicIpAddresses":[{"id":"`+
		strings.ToUpper(string(pip))+`"}]}}`)
	a := vnet.Child("subnets", "a")
	b.put(a, `{"properties":{"addressPrefix":"10.0.1.0/24","networkSecurityGroup":{"id":"`+
		string(nsg)+`"},"natGateway":{"id":"`+string(nat)+`"}}}`)
	b.put(nic, strings.Replace(nicBody(ipConfiguration("c", "a", "")), `"properties":{`,
		`"properties":{"networkSecurityGroup":{"id":"`+string(nsg)+`"},`, 1))

	group := b.properties(nsg)
	if got := ids(group, "subnets"); !slices.Equal(got, []string{string(a)}) {
		t.Errorf("the security group names the subnets %v", got)
	}
	if got := ids(group, "networkInterfaces"); !slices.Equal(got, []string{string(nic)}) {
		t.Errorf("the security group names the interfaces %v", got)
	}
	if got := ids(b.properties(nat), "subnets"); !slices.Equal(got, []string{string(a)}) {
		t.Errorf("the NAT gateway names the subnets %v", got)
	}
	address := b.properties(pip)
	if kernel.Text(address, "natGateway", "id") != string(nat) ||
		!network.PublicRange[0].Contains(netip.MustParseAddr(kernel.Text(address, "ipAddress"))) {
		t.Errorf("the public address: %s", kernel.Encode(address))
	}
	if got := ids(b.properties(a), "ipConfigurations"); !slices.Equal(got,
		[]string{network.ShownConfiguration(nic.Child("ipConfigurations", "c"), true)}) {
		t.Errorf("the subnet names %v", got)
	}
	for id, code := range map[arm.ID]string{nsg: "InUseNetworkSecurityGroupCannotBeDeleted",
		nat: "CannotDeleteNatGatewayAssociatedToSubnet", pip: "PublicIPAddressCannotBeDeleted",
		a: "InUseSubnetCannotBeDeleted"} {
		b.refused(http.MethodDelete, id, "", 400, code)
	}
	b.refused(http.MethodPut, nic+"2",
		nicBody(ipConfiguration("c", "a", `,"publicIPAddress":{"id":"`+string(pip)+`"}`)), 400,
		"PublicIPAddressInUse")
	vm := arm.ID(strings.Replace(string(nic), "Microsoft.Network/networkInterfaces", arm.TypeVM,
		1))
	b.put(vm, `{"location":"westeurope","properties":{"networkProfile":{"networkInterfaces":[{"id":"`+string(nic)+`","properties":{"primary":true}}]}}}`)
	if got := kernel.Text(b.properties(nic), "virtualMachine", "id"); got != string(vm) {
		t.Errorf("the interface belongs to %q", got)
	}
	b.refused(http.MethodDelete, nic, "", 400, "NicInUse")

	for _, id := range []arm.ID{vm, nic, a, nat, nsg, pip} {
		b.delete(id)
	}
}

func TestInterfaces(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, strings.Replace(plainVNet, "10.0.2.0/24", "10.0.2.0/29", 1))
	addresses := func(id arm.ID) []string {
		var out []string
		for _, c := range kernel.ListAt(b.properties(id), "ipConfigurations") {
			p := kernel.ObjectAt(c, "properties")
			out = append(out, kernel.Text(c, "name")+" "+kernel.Text(p, "privateIPAddress")+" "+
				kernel.Text(p, "privateIPAllocationMethod"))
		}
		return out
	}
	want := func(id arm.ID, want ...string) {
		t.Helper()
		if got := addresses(id); !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", id.Name(), got, want)
		}
	}
	static := func(a string) string {
		return `,"privateIPAllocationMethod":"Static","privateIPAddress":"` + a + `"`
	}
	b.put(nic,
		nicBody(ipConfiguration("one", "b", ""), ipConfiguration("two", "b", static("10.0.2.4"))))
	want(nic, "one 10.0.2.5 Dynamic", "two 10.0.2.4 Static")
	b.put(nic, nicBody(ipConfiguration("one", "b", "")))
	want(nic, "one 10.0.2.5 Dynamic") // it keeps its own, though a lower one is free now
	b.put(nic+"2", nicBody(ipConfiguration("c", "b", "")))
	want(nic+"2", "c 10.0.2.4 Dynamic")
	for more, code := range map[string]string{
		static("10.0.2.5"):                      "PrivateIPAddressIsAllocated",
		static("10.0.2.3"):                      "PrivateIPAddressInReservedRange",
		static("10.0.2.7"):                      "PrivateIPAddressInReservedRange",
		static("10.0.1.9"):                      "PrivateIPAddressNotInSubnet",
		static("x"):                             "PrivateIPAddressNotInSubnet",
		`,"privateIPAllocationMethod":"Static"`: "PrivateIPAddressMissing",
	} {
		b.refused(http.MethodPut, nic+"3", nicBody(ipConfiguration("c", "b", more)), 400, code)
	}
	b.refused(http.MethodPut, nic+"3", nicBody(), 400,
		"NetworkInterfaceMustHaveAtLeastOneIpConfiguration")
	b.refused(http.MethodPut, nic+"3",
		nicBody(ipConfiguration("c", "b", ""), ipConfiguration("d", "b", "")), 400, "SubnetIsFull")
	b.refused(http.MethodGet, nic+"3", "", 404, "ResourceNotFound")
	b.put(nic+"3", nicBody(ipConfiguration("c", "b", "")))
	want(nic+"3", "c 10.0.2.6 Dynamic") // the refused ones took none
	b.put(nic+"3", nicBody(ipConfiguration("c", "a", "")))
	want(nic+"3", "c 10.0.1.4 Dynamic")
	b.put(nic+"4", nicBody(ipConfiguration("c", "b", static("10.0.2.6")))) // free again
	if got := kernel.Text(b.get(nic.Child("ipConfigurations", "one")),
		"type"); got != arm.TypeInterface+
		"/ipConfigurations" {
		t.Errorf("an IP configuration by its own ID: %q", got)
	}
	b.delete(nic)
	if got := ids(b.properties(vnet.Child("subnets", "b")), "ipConfigurations"); len(got) != 2 {
		t.Errorf("after the delete the subnet names %v", got)
	}
}

func TestSecurityRules(t *testing.T) {
	b := newBench(t, Options{})
	b.put(nsg, `{"location":"westeurope"}`)
	rule := func(priority, direction string) string {
		return `{"properties":{"priority":` + priority + `,"direction":"` + direction +
			`","access":"Allow","protocol":"Tcp","new":1}}`
	}
	etag := kernel.Text(b.get(nsg), "etag")
	one := nsg.Child("securityRules", "one")
	b.put(one, rule("100", "Inbound"))
	b.refused(http.MethodPut, nsg.Child("securityRules", "two"), rule("100", "inbound"), 400,
		"SecurityRuleConflict")
	b.refused(http.MethodPut, nsg.Child("securityRules", "two"), rule("99", "Inbound"), 400,
		"SecurityRuleInvalidPriority")
	b.put(nsg.Child("securityRules", "two"), rule("100", "Outbound"))
	doc := b.get(nsg)
	if rules := kernel.ListAt(doc, "properties", "securityRules"); len(rules) != 2 || kernel.Text(
		rules[0], "etag") != kernel.Text(doc, "etag") || kernel.Text(doc, "etag") == etag ||
		string(kernel.Encode(kernel.ObjectAt(rules[0], "properties")["new"])) != "1" {
		t.Errorf("%s", kernel.Encode(doc))
	}
	if rules := kernel.ListAt(b.get(nsg+"/defaultSecurityRules"), "value"); len(rules) != 6 ||
		kernel.Text(b.get(nsg.Child("defaultSecurityRules", "DenyAllInBound")),
			"type") != arm.TypeSecurityGroup+
			"/defaultSecurityRules" {
		t.Errorf("default rules %v", names(rules))
	}
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(vnet.Child("subnets", "b"),
		`{"properties":{"addressPrefix":"10.0.2.0/24","networkSecurityGroup":{"id":"`+string(nsg)+
			`"}}}`)
	b.put(nic, nicBody(ipConfiguration("c", "b", "")))
	effective, _ := b.post(nic+"/effectiveNetworkSecurityGroups", "")
	if values := kernel.ListAt(effective, "value"); len(values) != 1 ||
		kernel.ObjectAt(values[0], "association", "subnet") == nil ||
		len(kernel.ListAt(values[0], "effectiveSecurityRules")) != 8 ||
		kernel.Text(kernel.ListAt(values[0], "effectiveSecurityRules")[0],
			"name") != "securityRules/one" {
		t.Errorf("effective: %s", kernel.Encode(effective))
	}
	b.delete(one)
	b.refused(http.MethodGet, one, "", 404, "NotFound")
}

// TestReservedSubnets: some subnets are reserved for one type of resource, and restrict their
// links.
func TestReservedSubnets(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(nsg, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	subnet := func(link string, id arm.ID) string {
		return `{"properties":{"addressPrefix":"10.0.3.0/24","` + link + `":{"id":"` + string(id) +
			`"}}}`
	}
	b.refused(http.MethodPut, vnet.Child("subnets", "GatewaySubnet"),
		subnet("networkSecurityGroup",
			nsg), 400, "NetworkSecurityGroupCannotBeAttachedToGatewaySubnet")
	b.refused(http.MethodPut, vnet.Child("subnets", "AzureFirewallSubnet"),
		subnet("routeTable",
			rt), 400, "AzureFirewallSubnetRouteTableMustHaveDefaultRouteToInternet")
	b.refused(http.MethodPut, vnet.Child("subnets", "AzureBastionSubnet"), subnet("routeTable", rt),
		400, "RouteTableCannotBeAttachedForAzureBastionSubnet")
	b.put(rt, `{"location":"westeurope","properties":{"routes":[{"name":"d","properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"Internet"}}]}}`)
	b.put(vnet.Child("subnets", "AzureFirewallSubnet"), subnet("routeTable", rt))

	firewall := group + "/providers/Microsoft.Network/azureFirewalls/fw"
	b.refused(http.MethodPut, firewall, nicBody(ipConfiguration("c", "a", "")), 400,
		"SubnetNameNotAllowed")
	b.put(firewall, nicBody(ipConfiguration("c", "AzureFirewallSubnet", "")))
	if c := kernel.ListAt(b.properties(firewall), "ipConfigurations")[0]; kernel.Text(c,
		"properties", "privateIPAddress") != "10.0.3.4" {
		t.Errorf("the firewall's address: %s", kernel.Encode(c))
	}
	b.refused(http.MethodPut, nic, nicBody(ipConfiguration("c", "AzureFirewallSubnet", "")), 400,
		"SubnetWithExternalResourcesCannotBeUsedByOtherResources")

	gateway := group + "/providers/Microsoft.Network/applicationGateways/agw"
	body := func(subnet, more string) string {
		return `{"location":"westeurope","properties":{` + more + `"gatewayIPConfigurations":[` +
			ipConfiguration("c", subnet, "") + `]}}`
	}
	b.put(nic, nicBody(ipConfiguration("c", "a", "")))
	b.refused(http.MethodPut, gateway, body("a", ""), 400,
		"ApplicationGatewaySubnetCannotBeUsedByOtherResources")
	b.refused(http.MethodPut, gateway,
		body("b", `"enableApplicationGatewayNetworkIsolation":true,`), 400,
		"ApplicationGatewayNetworkIsolationRequiresSubnetDelegation")
	b.put(gateway, body("b", ""))
	b.refused(http.MethodPut, nic+"2", nicBody(ipConfiguration("c", "b", "")), 400,
		"ApplicationGatewaySubnetCannotBeUsedByOtherResources")
	if status, _ := b.try(http.MethodPost, gateway+"/stop", api, ""); status != 200 ||
		kernel.Text(b.properties(gateway), "operationalState") != "Stopped" {
		t.Errorf("stop: %d, %s", status, kernel.Encode(b.properties(gateway)))
	}
}

// TestChildBeingDeleted: a child stays visible as Deleting while its DELETE runs, and the next
// write of its parent succeeds once it is gone.
func TestChildBeingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 10 * time.Second})
		b.put(rt, `{"location":"westeurope","properties":{"routes":[{"name":"r","properties":{`+
			`"addressPrefix":"10.9.0.0/16","nextHopType":"None"}}]}}`)
		time.Sleep(11 * time.Second)
		b.put(vnet, plainVNet)
		time.Sleep(11 * time.Second)
		for _, child := range []arm.ID{rt.Child("routes", "r"), vnet.Child("subnets", "b")} {
			for range 2 { // the second DELETE joins the first
				if status, code := b.try(http.MethodDelete, child, api, ""); status != 202 {
					t.Fatalf("DELETE %s: %d %s", child, status, code)
				}
				if state := kernel.Text(b.properties(child), "provisioningState"); state !=
					"Deleting" {
					t.Errorf("%s is %q", child.Name(), state)
				}
			}
			time.Sleep(11 * time.Second)
			b.refused(http.MethodGet, child, "", 404, "NotFound")
			if status, _ := b.try(http.MethodDelete, child, api, ""); status != 204 {
				t.Errorf("DELETE of what is gone: %d", status)
			}
		}
	})
}

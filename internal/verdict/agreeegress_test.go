package verdict_test

import (
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/trace"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// led is the cluster whose egress an Azure Firewall takes, and ledAt the firewall's address.
const led, ledAt = "shop-12", "10.75.200.4"

// egressStep is one change to the egress of the led cluster, and its state after that.
type egressStep struct {
	what string
	do   func()
	want verdict.State
}

// TestAgreeFirewall deletes the firewall to which a default route leads, and bends the route to
// addresses that nothing has. All surfaces say so together, with the trace and doctor, and all are
// well again when the firewall, or the route, is back.
func TestAgreeFirewall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { testAgreeFirewall(newLedFleet(t)) })
}

func testAgreeFirewall(f *fleet) {
	f.Helper()
	in := f.subnet(led, "AzureFirewallSubnet")
	f.put(in, map[string]any{"properties": map[string]any{"addressPrefix": "10.75.200.0/26"}})
	firewall := f.id(led, arm.TypeFirewall, "-fw")
	build := func() {
		f.put(firewall, map[string]any{"location": "westeurope", "properties": map[string]any{
			"ipConfigurations": []any{map[string]any{"name": "ip", "properties": map[string]any{
				"subnet": map[string]any{"id": string(in)}}}}}})
	}
	f.steps([]egressStep{
		{"the route leads to the firewall", func() { build(); f.lead(ledAt) }, verdict.Observed},
		{"the firewall is deleted", func() { f.delete(firewall) }, verdict.Broken},
		{"the firewall is back", build, verdict.Observed},
		{"the route leads to an address that the firewall does not have",
			func() { f.lead("10.75.200.9") }, verdict.Broken},
		{"the route is right again", func() { f.lead(ledAt) }, verdict.Observed},
		{"the route leads into no subnet", func() { f.lead("10.75.250.4") }, verdict.Broken},
		{"the route is right at last", func() { f.lead(ledAt) }, verdict.Observed},
	})
}

// TestAgreeHub removes the peerings to a hub with the firewall to which a default route leads: on
// the cluster's side, on the hub's, and on both.
func TestAgreeHub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { testAgreeHub(newLedFleet(t)) })
}

func testAgreeHub(f *fleet) {
	f.Helper()
	hub, spoke := f.id(led, arm.TypeVNet, "-hub"), f.id(led, arm.TypeVNet, "-vnet")
	f.put(hub, map[string]any{"location": "westeurope", "properties": map[string]any{
		"addressSpace": map[string]any{"addressPrefixes": []any{"10.201.0.0/16"}},
		"subnets": []any{map[string]any{"name": "AzureFirewallSubnet",
			"properties": map[string]any{"addressPrefix": "10.201.0.0/26"}}}}})
	f.put(f.id(led, arm.TypeFirewall, "-fw"), map[string]any{"location": "westeurope",
		"properties": map[string]any{"ipConfigurations": []any{map[string]any{"name": "ip",
			"properties": map[string]any{"subnet": map[string]any{
				"id": string(hub.Child("subnets", "AzureFirewallSubnet"))}}}}}})
	peer := func() {
		for from, to := range map[arm.ID]arm.ID{hub: spoke, spoke: hub} {
			f.put(from.Child("virtualNetworkPeerings", "other"), map[string]any{
				"properties": map[string]any{"allowVirtualNetworkAccess": true,
					"allowForwardedTraffic": true,
					"remoteVirtualNetwork":  map[string]any{"id": string(to)}}})
		}
	}
	part := func(sides ...arm.ID) func() {
		return func() {
			for _, side := range sides {
				f.delete(side.Child("virtualNetworkPeerings", "other"))
			}
		}
	}
	f.steps([]egressStep{
		{"the route leads to the firewall", func() { peer(); f.lead("10.201.0.4") },
			verdict.Observed},
		{"the cluster's peering is deleted", part(spoke), verdict.Broken},
		{"it is back", func() { part(hub)(); peer() }, verdict.Observed},
		{"the hub's peering is deleted", part(hub), verdict.Broken},
		{"both are deleted", part(spoke), verdict.Broken},
		{"both are back", peer, verdict.Observed},
	})
}

// TestAgreeGateway takes the NAT gateway from the node subnet, and then deletes it. The load
// balancer's outbound rules give the nodes public addresses instead, but others than the declared.
func TestAgreeGateway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { testAgreeGateway(newLedFleet(t)) })
}

func testAgreeGateway(f *fleet) {
	f.Helper()
	address, gateway := f.id(led, arm.TypePublicIP, "-nat"), f.id(led, arm.TypeNATGateway, "-nat")
	build := func() {
		f.put(address, map[string]any{"location": "westeurope", "sku": map[string]any{
			"name": "Standard"}, "properties": map[string]any{
			"publicIPAllocationMethod": "Static"}})
		f.put(gateway, map[string]any{"location": "westeurope", "sku": map[string]any{
			"name": "Standard"}, "properties": map[string]any{"publicIpAddresses": []any{
			map[string]any{"id": string(address)}}}})
		f.change(f.subnet(led, "nodes"), func(p map[string]any) {
			p["natGateway"] = map[string]any{"id": string(gateway)}
		})
	}
	build()
	for i := range f.configs {
		if c := &f.configs[i]; c.Metadata.Name == led {
			c.Spec.Guard.Subnets = append(c.Spec.Guard.Subnets, v1alpha1.GuardedSubnet{
				SubnetID: string(f.subnet(led, "nodes")), NATGatewayID: string(gateway)})
		}
	}
	f.writeConfig()
	f.keeps.Reload(f.configs)
	lose := func() {
		f.change(f.subnet(led, "nodes"), func(p map[string]any) { delete(p, "natGateway") })
	}
	f.steps([]egressStep{
		{"the subnet has its NAT gateway", func() {}, verdict.Observed},
		{"the subnet has lost it", lose, verdict.Bypassed},
		{"it is deleted", func() { f.delete(gateway) }, verdict.Bypassed},
		{"its address is deleted, too", func() { f.delete(address) }, verdict.Bypassed},
		{"all is back", build, verdict.Observed},
	})
}

// delete deletes a resource.
func (f *fleet) delete(id arm.ID) {
	f.Helper()
	if status, body := f.do.Do(http.MethodDelete, id, "2024-05-01", nil); status >= 300 {
		f.Fatalf("delete %s: %d %s", id, status, body)
	}
}

// TestAgreeBalancer does the same with a load balancer that loses its appliance and then its
// address: one that the route alone leads to, and one that the config names, too.
func TestAgreeBalancer(t *testing.T) {
	for name, named := range map[string]bool{"found": false, "named": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testAgreeBalancer(newLedFleet(t), named) })
		})
	}
}

func testAgreeBalancer(f *fleet, named bool) {
	f.Helper()
	appliances := f.subnet(led, "appliances")
	f.put(appliances, map[string]any{"properties": map[string]any{
		"addressPrefix": "10.75.201.0/24"}})
	balancer := f.id(led, arm.TypeLoadBalancer, "-lb")
	balance := func(address string) {
		part := func(list, name string) map[string]any {
			return map[string]any{"id": string(balancer.Child(list, name))}
		}
		f.put(balancer, map[string]any{"location": "westeurope",
			"sku": map[string]any{"name": "Standard"}, "properties": map[string]any{
				"frontendIPConfigurations": []any{map[string]any{"name": "ip",
					"properties": map[string]any{"privateIPAllocationMethod": "Static",
						"privateIPAddress": address,
						"subnet":           map[string]any{"id": string(appliances)}}}},
				"backendAddressPools": []any{map[string]any{"name": "nvas"}},
				"loadBalancingRules": []any{map[string]any{"name": "ha",
					"properties": map[string]any{"protocol": "All", "frontendPort": 0,
						"backendPort":             0,
						"backendAddressPool":      part("backendAddressPools", "nvas"),
						"frontendIPConfiguration": part("frontendIPConfigurations", "ip")}}}}})
	}
	appliance := func(pools ...any) {
		f.put(f.id(led, arm.TypeInterface, "-nva"), map[string]any{"location": "westeurope",
			"properties": map[string]any{"enableIPForwarding": true,
				"ipConfigurations": []any{map[string]any{"name": "ip",
					"properties": map[string]any{"loadBalancerBackendAddressPools": pools,
						"subnet": map[string]any{"id": string(appliances)}}}}}})
	}
	pool := map[string]any{"id": string(balancer.Child("backendAddressPools", "nvas"))}
	steps := []egressStep{
		{"it leads to a load balancer", func() {
			balance("10.75.201.10")
			appliance(pool)
			f.lead("10.75.201.10")
			if named {
				f.names(balancer, "10.75.201.10")
			}
		}, verdict.Observed},
		{"the load balancer loses its appliance", func() { appliance() }, verdict.Broken},
		{"the appliance is back", func() { appliance(pool) }, verdict.Observed},
		{"the load balancer has another address", func() { balance("10.75.201.11") },
			verdict.Broken},
	}
	if !named {
		steps = append(steps,
			egressStep{"the route follows it", func() { f.lead("10.75.201.11") }, verdict.Observed})
	}
	f.steps(steps)
}

// names writes the default route of the led cluster, and what it leads to, into its config.
func (f *fleet) names(appliance arm.ID, at string) {
	f.Helper()
	i := slices.IndexFunc(f.configs, func(c v1alpha1.ClusterRoutes) bool {
		return c.Metadata.Name == led
	})
	f.configs[i].Spec.Egress = v1alpha1.Egress{Mode: v1alpha1.GuardObserve,
		RouteTableID: f.configs[i].Spec.RouteTableID, FirewallID: string(appliance),
		Routes: []v1alpha1.EgressRoute{{AddressPrefix: "0.0.0.0/0", NextHopIPAddress: at}}}
	f.writeConfig()
	f.keeps.Reload(f.configs)
}

// newLedFleet builds the led cluster, whose cloud provider repairs nothing, one that is broken, for
// the exit code of status, and one under a lock, which cannot be removed.
func newLedFleet(t *testing.T) *fleet {
	t.Helper()
	f := newFleet(t, "shop-05", led, "shop-24")
	f.azure.PauseRoutes(f.id(led, arm.TypeCluster, ""), true)
	f.leads = led
	return f
}

// lead lets the default route of the led cluster lead to an address.
func (f *fleet) lead(hop string) {
	f.Helper()
	f.routes(f.id(led, arm.TypeRouteTable, "-rt"), func(routes []any) (all []any) {
		for _, r := range routes {
			if r.(map[string]any)["name"] != "egress" {
				all = append(all, r)
			}
		}
		return append(all, map[string]any{"name": "egress", "properties": map[string]any{
			"addressPrefix": "0.0.0.0/0", "nextHopType": "VirtualAppliance",
			"nextHopIpAddress": hop}})
	})
}

// steps takes each step, and checks that all agree on what it wants.
func (f *fleet) steps(all []egressStep) {
	f.Helper()
	for _, step := range all {
		step.do()
		f.agree(step.what)
		f.agreeAll(step.what, true)
		for _, v := range f.check().Verdicts {
			if v.Cluster == led && v.State != step.want {
				f.Errorf("%s: %s %s", step.what, v.State, v.Sentence)
			}
		}
	}
}

// put writes a resource.
func (f *fleet) put(id arm.ID, body map[string]any) {
	f.Helper()
	if err := f.do.Put(id, "2024-05-01", body); err != nil {
		f.Fatal(err)
	}
}

// cutOff reports whether a trace drops what a node of a cluster sends to the internet.
func (f *fleet) cutOff(truth *trace.Tracer, cluster string) bool {
	f.Helper()
	way, _ := truth.Ways(trace.Endpoint{Subnet: f.subnet(cluster, "nodes"),
		Addr: netip.MustParseAddr("10.75.0.4")},
		trace.Endpoint{Addr: netip.MustParseAddr("203.0.113.1")})
	return way.Verdict == trace.Dropped
}

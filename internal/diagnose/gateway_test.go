package diagnose

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// says checks that a finding's message, evidence and fix contain some words.
func says(t *testing.T, f finding.Finding, words ...string) {
	t.Helper()
	text := strings.Join(append([]string{f.Message, f.Advice, f.Fix, f.Resource}, f.Evidence...),
		"\n")
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s does not say %q:\n%s", f.Code, word, text)
		}
	}
}

var (
	outward = route("egress", "0.0.0.0/0", "VirtualAppliance", "10.42.3.4")
	outside = route("out", "0.0.0.0/0", "Internet", "")
	ingress = object{"ingressApplicationGateway": object{"enabled": true,
		"config": object{"effectiveApplicationGatewayId": string(gateway)}}}
	isolated = list{object{"name": "gw", "properties": object{"serviceName": arm.TypeGateway}}}
	hub      = netGroup + "/providers/Microsoft.Network/virtualNetworks/hub-vnet"
	hubGW    = hub + "/subnets/gw"
)

func pods() list { return list{podRoute(0), podRoute(1), podRoute(2)} }

func TestGatewayDefaultRoute(t *testing.T) {
	withEgress := func() *world { return healthy(t).routes(gwTable, append(pods(), outward)...) }
	f := withEgress().finds(finding.GatewayDefaultRoute)
	says(t, f, "route egress in appgw-rt sends 0.0.0.0/0 to 10.42.3.4",
		"shop-agw in shop-vnet/appgw", "route delete --ids "+string(gwTable)+"/routes/egress")
	if f.Cluster != "shop" {
		t.Errorf("cluster %q, want shop", f.Cluster)
	}
	healthy(t).routes(gwTable,
		append(pods(), route("forced", "0.0.0.0/0", "VirtualNetworkGateway", ""))...).finds(
		finding.GatewayDefaultRoute)

	withEgress().set(appgw, "delegations", isolated).finds()
	withEgress().set(gateway, "enableApplicationGatewayNetworkIsolation", true).finds()
	healthy(t).routes(gwTable, append(pods(), outside)...).finds()
	healthy(t).routes(gwTable,
		append(pods(), route("branch", "10.60.0.0/16", "VirtualAppliance", "10.42.3.4"))...).finds()

	// Another subnet may need the route, so the fix does not delete it.
	vms := vnet + "/subnets/vms"
	f = withEgress().addSubnet(vms,
		object{"addressPrefix": "10.42.5.0/24", "routeTable": link(gwTable)}).set(gwTable,
		"subnets", list{link(appgw), link(vms)}).finds(finding.GatewayDefaultRoute)
	says(t, f, "also on shop-vnet/vms", "give shop-vnet/appgw its own table")

	// A gateway that is only in the same network concerns no cluster.
	f = withEgress().routes(gwTable, outward).unconfigured().finds(finding.GatewayDefaultRoute)
	if f.Cluster != "" {
		t.Errorf("cluster %q, want none", f.Cluster)
	}
}

func TestGatewaySharesTable(t *testing.T) {
	shared := func(routes ...any) *world {
		return healthy(t).unconfigured().set(appgw, "routeTable", link(shopTable)).set(shopTable,
			"subnets", list{link(nodes), link(appgw)}).routes(shopTable,
			append(pods(), routes...)...).muted(finding.MigrationTable).muted(finding.EgressDiffers)
	}
	// appgw-rt exists, and would lose its routes
	says(t, shared(outward).finds(finding.GatewaySharesTable),
		"shop-agw in shop-vnet/appgw shares the table shop-rt with the nodes of shop", "egress",
		"az network route-table create --subscription "+sub+
			" --resource-group net-rg --name appgw-rt-2 --location westeurope", "add "+
			string(gwTable)+"-2 to spec.targets of shop")
	shared().finds()
	shared(outside).finds()
	if f := shared(outward).set(appgw, "delegations",
		isolated).finds(finding.GatewaySharesTable); f.Severity != finding.Info {
		t.Errorf("severity %s of an isolated gateway, want info", f.Severity)
	}
}

func TestGatewayRoutesMissing(t *testing.T) {
	driven := func() *world { return healthy(t).unconfigured().set(shop, "addonProfiles", ingress) }
	f := driven().routes(gwTable, outside).finds(finding.GatewayRoutesMissing)
	says(t, f, "all 3 pod routes of cluster shop", "10.244.1.0/24 to 10.42.1.5 is missing", "add "+
		string(gwTable)+" to spec.targets of shop in routes.yaml, then sync\n")
	proposed := driven().routes(gwTable, outside)
	proposed.c.Proposed = true
	says(t, proposed.finds(finding.GatewayRoutesMissing), "routekeeper init --cluster "+
		string(shop)+" --out routes.yaml && routekeeper promote "+string(shop)+
		" -f routes.yaml && routekeeper sync -f routes.yaml")
	// The copies show that the gateway should reach the pods.
	f = healthy(t).unconfigured().routes(gwTable, podRoute(0),
		podRoute(1)).finds(finding.GatewayRoutesMissing)
	says(t, f, "1 of the 3 pod routes", "10.244.2.0/24 to 10.42.1.6 is missing")
	moved := route(nodeName(2), nodePods(2), "VirtualAppliance", "10.42.1.9")
	says(t, driven().routes(gwTable, podRoute(0), podRoute(1),
		moved).finds(finding.GatewayRoutesMissing), "10.244.2.0/24 leads to 10.42.1.9, but its "+
		"node is 10.42.1.6")

	driven().finds()
	// nothing shows that this gateway sends to pods
	healthy(t).unconfigured().routes(gwTable, outside).finds()
	// a target is managed, or observed
	healthy(t).set(shop, "addonProfiles", ingress).routes(gwTable).finds(finding.TargetDrift)
	driven().routes(gwTable, outside).overlay().finds()
	driven().routes(gwTable).without(shopTable).finds() // the wanted routes are unknown
}

func TestGatewayNoTable(t *testing.T) {
	bare := func() *world { return healthy(t).unconfigured().unset(appgw, "routeTable") }
	f := bare().set(shop, "addonProfiles", ingress).finds(finding.GatewayNoTable)
	says(t, f, "shop-agw in shop-vnet/appgw has no route table, so the ingress add-on of cluster "+
		"shop cannot reach any pod through it", "--name appgw-rt-2 --location westeurope && az "+
		"network vnet subnet "+
		"update --ids "+string(appgw))
	// Without the add-on, the unassociated table shows it.
	lost := func() *world { return bare().set(gwTable, "subnets", list{}) }
	f = lost().finds(finding.GatewayNoTable)
	says(t, f, "shop-agw in shop-vnet/appgw has no route table; the unassociated table appgw-rt",
		"az network vnet subnet update --ids "+string(appgw)+" --route-table "+string(gwTable))
	lost().routes(gwTable, outside).finds()
	lost().without(gateway).set(appgw, "applicationGatewayIPConfigurations", list{}).finds()
	// it is unknown which of the two it was
	lost().put(table(gwTable+"-2", "", podRoute(0))).set(gwTable+"-2", "subnets", list{}).finds()
	lost().overlay().finds()
	bare().without(gwTable).finds()
	bare().set(shop, "addonProfiles", ingress).overlay().finds()
	// If the config names the table, package plan reports it.
	healthy(t).set(shop, "addonProfiles", ingress).unset(appgw,
		"routeTable").finds(finding.AssociationLost)
}

func TestEgress(t *testing.T) {
	private := func(w *world) *world { return w.set(nodes, "defaultOutboundAccess", false) }
	udr := func() *world {
		return private(healthy(t).profile("outboundType", "userDefinedRouting"))
	}
	says(t, udr().finds(finding.EgressRouteMissing), "shop-vnet/nodes", "have no egress",
		"shop-rt has no route for 0.0.0.0/0", "packets to the internet are dropped")
	udr().routes(shopTable, append(pods(), outward)...).finds()
	udr().routes(shopTable,
		append(pods(), route("low", "0.0.0.0/1", "VirtualAppliance", "10.42.3.4"),
			route("high", "128.0.0.0/1", "VirtualAppliance", "10.42.3.4"))...).finds()
	udr().routes(shopTable,
		append(pods(), route("low", "0.0.0.0/1", "VirtualAppliance", "10.42.3.4"))...).finds(
		finding.EgressRouteMissing)
	says(t, udr().overlay().unset(nodes, "routeTable").finds(finding.EgressRouteMissing),
		"the subnet has no route table")
	// If the association is lost, that is the cause.
	says(t, udr().unset(nodes, "routeTable").names(shopTable).
		routes(shopTable, append(pods(), outward)...).finds(finding.AssociationLost),
		"egress of subnet nodes: dropped, it must go by 10.42.3.4")

	// A virtual network gateway may have learned one.
	withGateway := func() *world {
		return udr().addSubnet(vnet+"/subnets/GatewaySubnet",
			object{"addressPrefix": "10.42.9.0/27"})
	}
	if f := withGateway().finds(finding.EgressRouteMissing); f.Severity != finding.Warning {
		t.Errorf("severity %s where a gateway may have learned a route, want warning", f.Severity)
	}
	if f := withGateway().set(shopTable, "disableBgpRoutePropagation",
		true).finds(finding.EgressRouteMissing); f.Severity != finding.Error {
		t.Errorf("severity %s where the table takes no learned routes, want error", f.Severity)
	}
}

func TestNextHopUnreachable(t *testing.T) {
	by := func(hop string) *world {
		return healthy(t).profile("outboundType", "userDefinedRouting").routes(shopTable,
			append(pods(), route("egress", "0.0.0.0/0", "VirtualAppliance", hop))...)
	}
	by("10.42.3.4").finds()
	says(t, by("10.42.9.4").finds(finding.NextHopUnreachable),
		"sends 0.0.0.0/0 of shop-vnet/nodes to 10.42.9.4, and nothing has this address")
	says(t, by("10.99.0.4").finds(finding.NextHopUnreachable),
		"route egress in shop-rt sends 0.0.0.0/0 to 10.99.0.4", "shop-vnet/nodes",
		"neither in shop-vnet (10.42.0.0/16) nor in a network peered with it")
	by("10.50.0.4").peered("Connected", true, true).finds()
	says(t, by("10.50.0.4").peered("Disconnected", true, true).finds(finding.NextHopUnreachable),
		"peering to-hub of shop-vnet with hub-vnet: not connected")
	by("10.50.0.4").peered("Connected", false, true).finds() // its routes stay without access
	// A second peering does not help: the firewall is in a spoke of the hub.
	f := by("10.70.0.4").peered("Connected", true, true).network("spoke",
		"10.70.0.0/16").finds(finding.NextHopUnreachable)
	says(t, f, "spoke contains the address, but has no peering with shop-vnet")
	healthy(t).routes(shopTable,
		append(pods(), route("branch", "10.60.0.0/16", "VirtualAppliance", "10.99.0.4"))...).finds()
	by("10.99.0.4").also(func(s *inventory.Snapshot) { delete(s.VNets, vnet.Key()) }).finds()
}

func TestPeering(t *testing.T) {
	// The gateway of the ingress add-on is in a hub, with the pod routes in its table.
	across := func(state string, access, forwarded bool) *world {
		w := healthy(t).peered(state, access, forwarded).set(shop, "addonProfiles",
			ingress).unset(appgw, "applicationGatewayIPConfigurations").set(
			gwTable, "subnets", list{link(hubGW)})
		w.c.Configs[0].Spec.Guard.Subnets = nil
		w.addSubnet(hubGW, object{"addressPrefix": "10.50.1.0/24", "routeTable": link(gwTable),
			"applicationGatewayIPConfigurations": list{
				link(gateway + "/gatewayIPConfigurations/main")}})
		return w.unset(appgw, "routeTable").set(gateway, "gatewayIPConfigurations",
			list{object{"name": "main", "properties": object{"subnet": link(hubGW)}}})
	}
	across("Connected", true, true).finds()
	says(t, across("Connected", true, false).finds(finding.PeeringForwarding),
		"pods of shop answer", "outside shop-vnet", "peering to-shop of hub-vnet",
		"--set allowForwardedTraffic=true", "virtualNetworkPeerings/to-shop")
	across("Connected", true, false).overlay().finds()
	// The gateway's own packets are not forwarded traffic, so the nodes' side need not allow it.
	across("Connected", true, true).side(vnet, "allowForwardedTraffic", false).finds()

	says(t, across("Disconnected", true, true).finds(finding.PeeringMissing),
		"the peering to-shop of hub-vnet is not connected")
	// A peering that does not allow access has its routes all the same: trace says so, too.
	closed := across("Connected", true, true).side(vnet, "allowVirtualNetworkAccess",
		false).finds(finding.PeeringMissing)
	is(t, closed, finding.Warning)
	says(t, closed, "to-hub of shop-vnet does not allow access", "hub-vnet is not in the service "+
		"tag VirtualNetwork", "allowVirtualNetworkAccess=true")
	says(t, across("Connected", true, true).unset(hub,
		"virtualNetworkPeerings").finds(finding.PeeringMissing),
		"hub-vnet has no peering with shop-vnet", "--vnet-name hub-vnet --name to-shop-vnet")
	// One side is enough if the other was not read.
	across("Connected", true, false).also(func(s *inventory.Snapshot) {
		delete(s.VNets, hub.Key())
	}).finds()
	across("Connected", true, true).unset(vnet,
		"virtualNetworkPeerings").also(func(s *inventory.Snapshot) {
		delete(s.VNets, hub.Key())
	}).finds(finding.PeeringMissing)
	// Without kubenet, routes decide: a user's route may lead there through an appliance.
	apart := func(routes ...any) *world {
		return across("Connected", true, true).overlay().unset(hub,
			"virtualNetworkPeerings").unset(vnet, "virtualNetworkPeerings").routes(
			gwTable, routes...)
	}
	apart().finds(finding.PeeringMissing)
	apart(route("nodes", "10.42.0.0/16", "VirtualAppliance", "10.50.3.4")).finds()
}

// TestGatewayOfOthers: another cluster's gateway, in a separate network, does not concern this
// cluster, even if that network has the same addresses and its table routes to the same pod CIDRs.
func TestGatewayOfOthers(t *testing.T) {
	far := netGroup + "/providers/Microsoft.Network/virtualNetworks/far-vnet"
	farTable := netGroup + "/providers/Microsoft.Network/routeTables/far-rt"
	w := healthy(t).network("far-vnet", "10.42.0.0/16")
	w.addSubnet(far+"/subnets/appgw", object{"addressPrefix": "10.42.2.0/24",
		"routeTable": link(farTable), "applicationGatewayIPConfigurations": list{
			link(netGroup + "/providers/Microsoft.Network/applicationGateways/far-agw/gatewayIPConfigurations/main")}})
	w.put(table(farTable, far+"/subnets/appgw", podRoute(0), podRoute(7)))
	says(t, w.finds(finding.RoutesOrphaned), "there is no proof",
		"nodes with the same addresses in another network")
	other := w.c.Configs[0]
	other.Metadata.Name, other.Spec.ClusterID = "other", string(shop)+"-other"
	other.Spec.Targets, other.Spec.Guard.Subnets = []v1alpha1.Target{
		{RouteTableID: string(farTable)}}, nil
	w.c.Configs = append(w.c.Configs, other)
	w.finds(finding.RoutesOrphaned)
}

const (
	fw = netGroup + "/providers/Microsoft.Network/azureFirewalls/fw"
	lb = netGroup + "/providers/Microsoft.Network/loadBalancers/lb"
)

// TestDeclaredEgress: a route that the config declares and the table lacks is found once, with the
// command that puts it back, and the rights for that are checked.
func TestDeclaredEgress(t *testing.T) {
	declared := func(mode v1alpha1.GuardMode) *world {
		w := healthy(t).profile("outboundType", "userDefinedRouting").
			routes(shopTable, route("on-prem", "172.20.0.0/16", "VirtualAppliance", "10.42.3.4"))
		config := w.c.Configs[0]
		config.Spec.Targets, config.Spec.Guard.Subnets = nil, nil
		config.Spec.Egress = v1alpha1.Egress{RouteTableID: string(shopTable), Mode: mode,
			Routes: []v1alpha1.EgressRoute{{AddressPrefix: "0.0.0.0/0",
				NextHopIPAddress: "10.42.3.4"}}}
		w = w.overlay().without(gwTable).unset(appgw, "routeTable")
		w.c.Configs = []v1alpha1.ClusterRoutes{config}
		return w
	}
	says(t, declared(v1alpha1.GuardObserve).finds(finding.EgressRouteLost, finding.EgressBypassed),
		"shop-rt has no route for 0.0.0.0/0, which must go to 10.42.3.4",
		"routekeeper promote shop -f ")
	says(t, declared(v1alpha1.GuardEnforce).finds(finding.EgressRouteLost, finding.EgressBypassed),
		"routekeeper sync -f ")
	for _, by := range []struct{ resource, named, right arm.ID }{
		{fw, fw, "Microsoft.Network/azureFirewalls/read"},
		{lb, lb + "/frontendIPConfigurations/ip", "Microsoft.Network/loadBalancers/read"}} {
		w := declared(v1alpha1.GuardEnforce).mighty().may(me, shopTable, reading)
		w.c.Configs[0].Spec.Egress.FirewallID = string(by.named)
		w = w.may(me, by.resource, "Microsoft.Network/virtualNetworks/read")
		var lacks []string
		for _, f := range w.check() {
			if f.Code == finding.CallerLacks {
				lacks = append(lacks, f.Message)
			}
		}
		if text := strings.Join(lacks, "\n"); len(lacks) != 2 ||
			!strings.Contains(text, string(by.right)) ||
			!strings.Contains(text, "Microsoft.Network/routeTables/write") {
			t.Errorf("lacks %q", lacks)
		}
	}
}

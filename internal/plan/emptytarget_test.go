package plan

import (
	"net/netip"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestUnreadNode: the IP configurations in the subnet of an empty table that are nodes of another
// cluster.
func TestUnreadNode(t *testing.T) {
	const provider = "/subscriptions/" + sub + "/resourceGroups/"
	set := func(group, name string) string {
		return provider + group + "/providers/Microsoft.Compute/virtualMachineScaleSets/" + name +
			"/virtualMachines/0/networkInterfaces/" + name + "/ipConfigurations/ipconfig1"
	}
	at := func(group, resource string) string {
		return provider + group + "/providers/Microsoft.Network/" + resource
	}
	for configuration, node := range map[string]bool{
		set("MC_x_blog_westeurope", "aks-pool1-11111111-vmss"): true,
		set("blog-nodes", "aks-pool1-11111111-vmss"):           true,
		set("blog-nodes", "akswin01"):                          true,
		set("web-rg", "web"):                                   false,
		// of the configured cluster
		set("mc_shop-rg_shop_westeurope", "aks-pool1-11111111-vmss"): false,
		at("MC_x_blog_westeurope",
			"networkInterfaces/aks-pool1-1111-nic-0/ipConfigurations/c"): true,
		at("MC_x_blog_westeurope",
			"networkInterfaces/kube-apiserver.nic.1/ipConfigurations/c"): false,
		at("web-rg", "networkInterfaces/aks-jumpbox/ipConfigurations/c"):      false,
		at("net-rg", "applicationGateways/aks-agw/gatewayIPConfigurations/c"): false,
		at("MC_x_blog_westeurope",
			"loadBalancers/kubernetes-internal/frontendIPConfigurations/aks1"): false,
	} {
		shop := &inventory.Cluster{Document: arm.Document{ID: clusterA},
			NodeResourceGroup: "MC_shop-rg_shop_westeurope"}
		for _, routes := range [][]inventory.Route{
			nil, {inventory.NewRoute("vpn", netip.MustParsePrefix("10.60.0.0/16"),
				netip.MustParseAddr("10.42.9.9"))}} {
			s := Facts{Snapshot: inventory.NewSnapshot()}
			s.Clusters[clusterA.Key()] = shop
			table := (&inventory.RouteTable{Document: arm.Document{ID: gateway},
				Subnets: []arm.ID{gatewayIn}}).WithRoutes(routes)
			s.Subnets[gatewayIn.Key()] = (&inventory.Subnet{Document: arm.Document{ID: gatewayIn},
				RouteTable: gateway}).WithConfigurations([]arm.ID{arm.ID(configuration)})
			if how := New(s, nil).s.tableOfUnread(table); (how != "") != node {
				t.Errorf("%s: %q", configuration, how)
			}
		}
		// A table that holds copies already is used as a target.
		s := Facts{Snapshot: inventory.NewSnapshot()}
		s.Subnets[gatewayIn.Key()] = (&inventory.Subnet{Document: arm.Document{ID: gatewayIn},
			RouteTable: gateway, Prefixes: []netip.Prefix{netip.MustParsePrefix("10.50.0.0/24")},
		}).WithConfigurations([]arm.ID{arm.ID(configuration)})
		table := (&inventory.RouteTable{Document: arm.Document{ID: gateway},
			Subnets: []arm.ID{gatewayIn}}).WithRoutes([]inventory.Route{
			inventory.NewRoute("aks-pool1-22222222-vmss000000____102440024",
				netip.MustParsePrefix("10.244.0.0/24"), netip.MustParseAddr("10.42.1.4"))})
		if how := New(s, nil).s.tableOfUnread(table); how != "" {
			t.Errorf("%s, with copies: %q", configuration, how)
		}
	}
}

package emulator

import (
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Firewalled names the resources of an Azure CNI Overlay cluster behind a firewall.
type Firewalled struct {
	Cluster, Subnet, Table, Group arm.ID
	Firewall                      string // the next hop of 0.0.0.0/0
}

// BuildFirewalled builds an overlay cluster of two nodes with outbound type userDefinedRouting. Its
// node subnet has a security group, and a table with a default route to a firewall. Without the
// table, default outbound access remains.
func BuildFirewalled(e *Emulator, as Principal) (Firewalled, error) {
	sub := e.opts.Subscriptions[0]
	vnet := arm.ResourceID(sub, "web-rg", arm.TypeVNet, "web-vnet")
	f := Firewalled{
		Cluster:  arm.ResourceID(sub, "web-rg", arm.TypeCluster, "web"),
		Subnet:   vnet.Child("subnets", "nodes"),
		Table:    arm.ResourceID(sub, "web-rg", arm.TypeRouteTable, "web-egress"),
		Group:    arm.ResourceID(sub, "web-rg", arm.TypeSecurityGroup, "web-nsg"),
		Firewall: "10.50.3.4",
	}
	c, err := e.Client(as)
	if err != nil {
		return f, err
	}
	return f, c.Make(Place{
		Cluster: f.Cluster, Network: vnet, Space: "10.50.0.0/16",
		Subnets: []PlaceSubnet{{f.Subnet.Name(), "10.50.1.0/24", f.Table,
			kernel.Object{"networkSecurityGroup": arm.Link(f.Group)}},
			{Name: "AzureFirewallSubnet", Prefix: "10.50.3.0/24"}},
		Linked: []PlaceResource{{f.Group, nil}, {f.Table, TableWith(DefaultRoute(f.Firewall))}},
		Inside: []PlaceResource{{arm.ResourceID(sub, "web-rg", arm.TypeFirewall, "web-fw"),
			firewallIn(vnet)}},
		Profile: kernel.Object{"networkPlugin": "azure", "networkPluginMode": "overlay",
			"podCidr": "10.245.0.0/16", "outboundType": "userDefinedRouting"},
		Pool: "nodepool1", Nodes: 2,
	})
}

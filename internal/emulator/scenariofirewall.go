package emulator

import (
	"encoding/json"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Firewalled names the resources of an Azure CNI Overlay cluster behind a firewall.
type Firewalled struct {
	Cluster, Subnet, Table, Group arm.ID
	Firewall                      string // the next hop of 0.0.0.0/0
}

// BuildFirewalled builds an overlay cluster of two nodes with outbound type userDefinedRouting. Its
// node subnet has a security group, and a table with a default route to a firewall. Without the
// table, default outbound access is left.
func BuildFirewalled(e *Emulator, as Principal) (Firewalled, error) {
	sub := e.opts.Subscriptions[0]
	vnet := arm.ResourceID(sub, "web-rg", arm.TypeVNet, "web-vnet")
	f := Firewalled{
		Cluster: arm.ResourceID(sub, "web-rg", arm.TypeCluster, "web"),
		Subnet:  vnet.Child("subnets", "nodes"),
		Table:   arm.ResourceID(sub, "web-rg", arm.TypeRouteTable, "web-egress"),
		Group: arm.ResourceID(sub, "web-rg", "Microsoft.Network/networkSecurityGroups",
			"web-nsg"),
		Firewall: "10.50.3.4",
	}
	c, err := e.Client(as)
	if err != nil {
		return f, err
	}
	at := func(properties kernel.Object) kernel.Object {
		return kernel.Object{"location": "westeurope", "properties": properties}
	}
	link := func(id arm.ID) kernel.Object { return kernel.Link(id) }
	for _, step := range []struct {
		id      arm.ID
		version string
		body    kernel.Object
	}{
		{f.Cluster.Group(), "2024-03-01", at(kernel.Object{})},
		{f.Group, demoNetwork, at(kernel.Object{"securityRules": []any{}})},
		{f.Table, demoNetwork, at(kernel.Object{"routes": []any{
			kernel.Object{"name": "egress", "properties": kernel.Object{
				"addressPrefix": "0.0.0.0/0", "nextHopType": inventory.HopAppliance,
				"nextHopIpAddress": f.Firewall}}}})},
		{vnet, demoNetwork, at(kernel.Object{
			"addressSpace": kernel.Object{"addressPrefixes": []any{"10.50.0.0/16"}},
			"subnets": []any{
				kernel.Object{"name": "nodes", "properties": kernel.Object{
					"addressPrefix": "10.50.1.0/24", "routeTable": link(f.Table),
					"networkSecurityGroup": link(f.Group)}},
				kernel.Object{"name": "AzureFirewallSubnet",
					"properties": kernel.Object{"addressPrefix": "10.50.3.0/24"}},
			}})},
		{arm.ResourceID(sub, "web-rg", arm.TypeFirewall, "web-fw"), demoNetwork,
			at(kernel.ObjectAt(firewallIn(vnet), "properties"))},
		{f.Cluster, demoAKS, at(kernel.Object{
			"networkProfile": kernel.Object{"networkPlugin": "azure",
				"networkPluginMode": "overlay", "podCidr": "10.245.0.0/16",
				"outboundType": "userDefinedRouting"},
			"agentPoolProfiles": []any{kernel.Object{"name": "nodepool1",
				"count": json.Number("2"), "mode": "System", "vnetSubnetID": string(f.Subnet)}},
		})},
	} {
		if err := c.Put(step.id, step.version, step.body); err != nil {
			return f, err
		}
	}
	return f, nil
}

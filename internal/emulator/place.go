package emulator

import (
	"maps"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Place is a cluster with its network, as the scenarios and tests make it.
type Place struct {
	Cluster, Network arm.ID
	// Space is the network's address space. The first subnet is the nodes'.
	Space   string
	Tags    kernel.Object
	Subnets []PlaceSubnet
	// Linked are the tables and security groups that subnets link to. Inside is what else is in the
	// network, such as a firewall.
	Linked, Inside []PlaceResource
	// Identity is a user-assigned identity, and RoleAssignment the name of its role assignment on
	// the network's group. "": the cluster has a system-assigned identity.
	Identity       arm.ID
	RoleAssignment string
	// Profile is the cluster's network profile. Pool is the name of its only pool, which has Nodes
	// nodes.
	Profile kernel.Object
	Pool    string
	Nodes   int
	// Change changes the cluster's document before it is sent; nil: nothing does.
	Change func(body kernel.Object)
}

// PlaceSubnet is a subnet; More are further properties.
type PlaceSubnet struct {
	Name, Prefix string
	Table        arm.ID
	More         kernel.Object
}

// PlaceResource is a resource of the network.
type PlaceResource struct {
	ID         arm.ID
	Properties kernel.Object
}

// TableWith returns the properties of a route table.
func TableWith(routes ...any) kernel.Object { return kernel.Object{"routes": routes} }

// DefaultRoute returns the route that sends everything else to an appliance.
func DefaultRoute(to string) kernel.Object {
	return kernel.Object{"name": "egress", "properties": kernel.Object{"addressPrefix": "0.0.0.0/0",
		"nextHopType": inventory.HopAppliance, "nextHopIpAddress": to}}
}

// BranchRoute is the name of a route that is not a pod route.
const BranchRoute = "to-branch-office"

// RouteToBranch returns a route that is not a pod route.
func RouteToBranch(prefix string) kernel.Object {
	return kernel.Object{"name": BranchRoute, "properties": kernel.Object{
		"addressPrefix": prefix, "nextHopType": inventory.HopGateway}}
}

// gatewayIn returns the properties of an Application Gateway in a subnet.
func gatewayIn(subnet arm.ID) kernel.Object {
	return kernel.Object{
		"sku": kernel.Object{"name": "Standard_v2", "tier": "Standard_v2", "capacity": 2},
		"gatewayIPConfigurations": []any{kernel.Object{"name": "subnet",
			"properties": kernel.Object{"subnet": arm.Link(subnet)}}}}
}

// firewallIn returns the properties of a firewall, which gets the first address of its subnet.
func firewallIn(vnet arm.ID) kernel.Object {
	subnet := arm.Link(vnet.Child("subnets", "AzureFirewallSubnet"))
	return kernel.Object{"ipConfigurations": []any{kernel.Object{"name": "ip",
		"properties": kernel.Object{"subnet": subnet}}}}
}

// Make makes a place, in the order that Azure requires.
func (c *Client) Make(p Place) error {
	steps := []PlaceResource{{p.Network.Group(), nil}}
	if !p.Cluster.Group().Equal(p.Network.Group()) {
		steps = append(steps, PlaceResource{p.Cluster.Group(), nil})
	}
	steps = append(steps, p.Linked...)
	steps = append(steps, PlaceResource{p.Network, p.network()})
	for _, s := range append(steps, p.Inside...) {
		version := demoNetwork
		if s.ID.Is(arm.TypeResourceGroup) {
			version = demoGroups
		}
		body := kernel.Object{"location": demoLocation, "properties": s.Properties}
		if s.ID == p.Network && p.Tags != nil {
			body["tags"] = p.Tags
		}
		if err := c.Put(s.ID, version, body); err != nil {
			return err
		}
	}
	body := kernel.Object{"location": demoLocation, "properties": kernel.Object{
		"networkProfile": p.Profile,
		"agentPoolProfiles": []any{kernel.Object{"name": p.Pool, "count": p.Nodes, "mode": "System",
			"vnetSubnetID": string(p.Network.Child("subnets", p.Subnets[0].Name))}}}}
	if p.Identity != "" {
		if err := c.makeIdentity(p.Identity, p.Network.Group(), p.RoleAssignment); err != nil {
			return err
		}
		body["identity"] = kernel.Object{"type": "UserAssigned",
			"userAssignedIdentities": kernel.Object{string(p.Identity): kernel.Object{}}}
	}
	if p.Change != nil {
		p.Change(body)
	}
	return c.Put(p.Cluster, demoAKS, body)
}

// network returns the properties of the network.
func (p Place) network() kernel.Object {
	var subnets []any
	for _, s := range p.Subnets {
		properties := kernel.Object{"addressPrefix": s.Prefix}
		if s.Table != "" {
			properties["routeTable"] = arm.Link(s.Table)
		}
		maps.Copy(properties, s.More)
		subnets = append(subnets, kernel.Object{"name": s.Name, "properties": properties})
	}
	return kernel.Object{"subnets": subnets,
		"addressSpace": kernel.Object{"addressPrefixes": []any{p.Space}}}
}

// makeIdentity makes an identity with rights on the group of a network, which it has at once.
func (c *Client) makeIdentity(identity, group arm.ID, assignment string) error {
	if err := c.Put(identity, demoIdentity, kernel.Object{"location": demoLocation}); err != nil {
		return err
	}
	who, err := c.Get(identity, demoIdentity)
	if err != nil {
		return err
	}
	id := group + arm.ID("/providers/"+arm.TypeRoleAssignment+"/"+assignment)
	err = c.Put(id, demoRoles, kernel.Object{"properties": kernel.Object{
		"roleDefinitionId": authorization.RoleID(identity.Subscription(),
			authorization.NetworkContributor),
		"principalId":   kernel.Text(who, "properties", "principalId"),
		"principalType": "ServicePrincipal",
	}})
	c.e.DelayRole(id, 0)
	return err
}

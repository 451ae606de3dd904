package network

import (
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// reservedFor are the subnets for one type of resource, by name.
var reservedFor = map[string]string{"AzureFirewallSubnet": arm.TypeFirewall,
	"GatewaySubnet": TypeVPNGateway, "AzureBastionSubnet": TypeBastion}

// settleReserved refuses what the subnets with special names do not allow. The codes are Azure's,
// as people report them.
func (s *Network) settleReserved(subnet *kernel.Resource) *kernel.Failure {
	table := s.kernel.Store.Get(kernel.LinkOf(subnet.Body, "routeTable"))
	switch name := subnet.ID.Name(); {
	case name == "GatewaySubnet" && kernel.LinkOf(subnet.Body, "networkSecurityGroup") != "":
		return kernel.Bad("NetworkSecurityGroupCannotBeAttachedToGatewaySubnet",
			"The operation failed because the network security group %s can not be associated to "+
				"the GatewaySubnet. Please remove the network security group associated to the "+
				"GatewaySubnet.", kernel.LinkOf(subnet.Body, "networkSecurityGroup").Name())
	case name == "AzureBastionSubnet" && table != nil:
		return kernel.Bad("RouteTableCannotBeAttachedForAzureBastionSubnet",
			"Route table %s cannot be attached to subnet %s.", table.ID, subnet.ID)
	case table != nil:
		return checkFirewallTable(subnet.ID, table)
	}
	return nil
}

// checkFirewallTable refuses a table without a way to the Internet on a firewall's subnet.
func checkFirewallTable(subnet arm.ID, table *kernel.Resource) *kernel.Failure {
	if subnet.Name() != "AzureFirewallSubnet" {
		return nil
	}
	for _, route := range kernel.ListAt(table.Properties(), "routes") {
		if p := kernel.ObjectAt(route, "properties"); kernel.Text(p,
			"addressPrefix") == "0.0.0.0/0" &&
			kernel.Text(p, "nextHopType") == inventory.HopInternet {
			return nil
		}
	}
	return kernel.Bad("AzureFirewallSubnetRouteTableMustHaveDefaultRouteToInternet",
		"Route Table %s on firewall subnet %s must have 0.0.0.0/0 route with next hop Internet.",
		table.ID.Name(), subnet.Name())
}

// CheckReserved refuses an address in a subnet that is reserved for other resources.
func (s *Addresses) CheckReserved(ref reference, subnet *kernel.Resource) *kernel.Failure {
	for name, kind := range reservedFor {
		if ref.Link.from == kind && subnet.ID.Name() != name {
			// [U] the code
			return kernel.Bad("SubnetNameNotAllowed",
				"Resource %s must be in a subnet named %s, not %s.", ref.Holder, name, subnet.ID)
		}
		if ref.Link.from != kind && subnet.ID.Name() == name {
			return kernel.Bad("SubnetWithExternalResourcesCannotBeUsedByOtherResources", "Subnet "+
				"%s is reserved for %s and cannot be used by %s.", subnet.ID, kind, ref.Holder)
		}
	}
	for _, holder := range s.Of(subnet.ID).By {
		ofGateway := holder.Parent().Is(arm.TypeGateway)
		if ofGateway != (ref.Link.from == arm.TypeGateway) && !holder.Is(typeLinkConfiguration) &&
			!ref.Holder.Is(typeLinkConfiguration) {
			// [U] the code: the documentation only says that the subnet may contain nothing but
			// gateways.
			return kernel.Bad("ApplicationGatewaySubnetCannotBeUsedByOtherResources",
				"Subnet %s cannot hold both Application Gateways and other resources: %s is in "+
					"it, %s cannot be.", subnet.ID, holder, ref.Holder)
		}
	}
	return nil
}

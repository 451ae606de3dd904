package emulator

import (
	"net/http"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// reservedFor are the subnets that belong to one kind of resource, by name.
var reservedFor = map[string]string{"AzureFirewallSubnet": typeFirewall,
	"GatewaySubnet": typeVPNGateway, "AzureBastionSubnet": typeBastion}

// settleReserved refuses what the subnets with special names do not take. The codes are Azure's, as
// people report them.
func (s *network) settleReserved(subnet *resource) *failure {
	table := s.kernel.store.get(linkOf(subnet.body, "routeTable"))
	switch name := subnet.id.Name(); {
	case name == "GatewaySubnet" && linkOf(subnet.body, "networkSecurityGroup") != "":
		return fail(http.StatusBadRequest, "NetworkSecurityGroupCannotBeAttachedToGatewaySubnet",
			"The operation failed because the network security group %s can not be associated to "+
				"the GatewaySubnet. Please remove the network security group associated to the "+
				"GatewaySubnet.", linkOf(subnet.body, "networkSecurityGroup").Name())
	case name == "AzureBastionSubnet" && table != nil:
		return fail(http.StatusBadRequest, "RouteTableCannotBeAttachedForAzureBastionSubnet",
			"Route table %s cannot be attached to subnet %s.", table.id, subnet.id)
	case table != nil:
		return firewallTakes(subnet.id, table.id, listAt(objectAt(table.body, "properties"),
			"routes"))
	}
	return nil
}

// firewallTakes refuses a table without a way to the Internet on a firewall's subnet.
func firewallTakes(subnet, table arm.ID, routes []object) *failure {
	if subnet.Name() != "AzureFirewallSubnet" {
		return nil
	}
	for _, route := range routes {
		if p := objectAt(route, "properties"); text(p, "addressPrefix") == "0.0.0.0/0" &&
			text(p, "nextHopType") == inventory.HopInternet {
			return nil
		}
	}
	return fail(http.StatusBadRequest,
		"AzureFirewallSubnetRouteTableMustHaveDefaultRouteToInternet", "Route Table %s on "+
			"firewall subnet %s must have 0.0.0.0/0 route with next hop Internet.", table.Name(),
		subnet.Name())
}

// checkSeat refuses a place in a subnet that is kept for others.
func (s *network) checkSeat(ref reference, subnet *resource) *failure {
	for name, kind := range reservedFor {
		if ref.link.from == kind && subnet.id.Name() != name {
			// [U] the code
			return fail(http.StatusBadRequest, "SubnetNameNotAllowed",
				"Resource %s must be in a subnet named %s, not %s.", ref.holder, name, subnet.id)
		}
		if ref.link.from != kind && subnet.id.Name() == name {
			return fail(http.StatusBadRequest,
				"SubnetWithExternalResourcesCannotBeUsedByOtherResources", "Subnet %s is kept "+
					"for %s and cannot be used by %s.", subnet.id, kind, ref.holder)
		}
	}
	for _, holder := range s.kernel.store.addressesOf(subnet.id).by {
		ofGateway := holder.Parent().Is(arm.TypeGateway)
		if ofGateway != (ref.link.from == arm.TypeGateway) {
			// [U] the code: the documentation only says that the subnet must hold nothing but
			// gateways.
			return fail(http.StatusBadRequest,
				"ApplicationGatewaySubnetCannotBeUsedByOtherResources", "Subnet %s cannot hold "+
					"both Application Gateways and other resources: %s is in it, %s cannot be.",
				subnet.id, holder, ref.holder)
		}
	}
	return nil
}

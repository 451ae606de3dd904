package network

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// settleInterface checks a network interface. Addresses.Settle chooses its addresses.
func (s *Network) settleInterface(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	keepGUID(r, old)
	properties := r.Properties()
	if f := kernel.CheckList(properties, "ipConfigurations"); f != nil {
		return f
	}
	configurations := kernel.ListAt(properties, "ipConfigurations")
	if len(configurations) == 0 {
		return kernel.Bad("NetworkInterfaceMustHaveAtLeastOneIpConfiguration",
			"Network interface %s must have one or more IP configurations.", r.ID)
	}
	names := map[string]bool{}
	var vnet arm.ID
	for i, configuration := range configurations {
		name := kernel.Text(configuration, "name")
		p := kernel.ObjectAt(configuration, "properties")
		subnet := kernel.LinkOf(configuration, "subnet")
		if name == "" || p == nil || subnet == "" || names[name] {
			return kernel.Unparsable(
				"IP configuration %q of %s needs a unique name and a subnet.", name, r.ID.Name())
		}
		names[name] = true
		dropReadOnly(configuration)
		kernel.SetDefault(p, "primary", i == 0)
		if p["primary"] == false &&
			len(kernel.ListAt(p, "applicationGatewayBackendAddressPools")) > 0 {
			return kernel.Bad(
				"ApplicationGatewayLoadBalancingNotSupportedOnSecondaryIpConfigurations",
				"Network Interface with Id: %s has a secondary IpConfigurations %s is using "+
					"ApplicationGatewayAddressPools. ApplicationGateway loadbalancing is not "+
					"supported for secondary IpConfigurations.", r.ID, name)
		}
		if vnet != "" && !vnet.Equal(subnet.Parent()) {
			return kernel.Bad("SubnetsNotInSameVnet", "Subnet %s is not in the same Virtual "+
				"Network as the subnets of other IP configurations of %s.", subnet, r.ID)
		}
		vnet = subnet.Parent()
		if old != nil { // a private endpoint may have written the kept field
			had := kernel.Named(kernel.ListAt(old.Properties(), "ipConfigurations"), name)
			keepFields(p, kernel.ObjectAt(had, "properties"), "privateLinkConnectionProperties")
		}
	}
	if old != nil {
		keepFields(properties, old.Properties(), "privateEndpoint", "macAddress")
	}
	kernel.SetDefault(properties, "enableIPForwarding", false)
	kernel.SetDefault(properties, "enableAcceleratedNetworking", false)
	kernel.SetDefault(properties, "dnsSettings", kernel.Object{"dnsServers": []any{}})
	return nil
}

// keepFields takes, from an old document, the fields that clients cannot write.
func keepFields(now, old kernel.Object, names ...string) {
	for _, name := range names {
		if now[name] == nil && old[name] != nil {
			now[name] = kernel.CloneValue(old[name])
		}
	}
}

// samePools reports whether a write leaves a network interface in the same backend pools of
// Application Gateways. Such a write ends before it is answered. A write that changes the pools
// does not, because it changes the gateway (recorded).
func samePools(r, old *kernel.Resource) bool { return gatewayPools(r) == gatewayPools(old) }

// gatewayPools returns the pools of all IP configurations of an interface, as a text to compare.
func gatewayPools(nic *kernel.Resource) string {
	var all []string
	if nic != nil {
		for _, c := range kernel.ListAt(nic.Properties(), "ipConfigurations") {
			for _, pool := range kernel.ListAt(c, "properties",
				"applicationGatewayBackendAddressPools") {
				all = append(all, arm.ID(kernel.Text(pool, "id")).Key())
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

package emulator

import (
	"net/http"

	"routekeeper.dev/routekeeper/internal/arm"
)

// settleInterface checks a network interface. Its addresses are chosen by settleSeats.
func (s *network) settleInterface(c *call, r, old *resource) *failure {
	keepGUID(r, old)
	properties := objectAt(r.body, "properties")
	if f := checkList(properties, "ipConfigurations"); f != nil {
		return f
	}
	configurations := listAt(properties, "ipConfigurations")
	if len(configurations) == 0 {
		return fail(http.StatusBadRequest, "NetworkInterfaceMustHaveAtLeastOneIpConfiguration",
			"Network interface %s must have one or more IP configurations.", r.id)
	}
	names := map[string]bool{}
	var vnet arm.ID
	for i, configuration := range configurations {
		name := text(configuration, "name")
		p := objectAt(configuration, "properties")
		subnet := linkOf(configuration, "subnet")
		if name == "" || p == nil || subnet == "" || names[name] {
			return fail(http.StatusBadRequest, "InvalidRequestFormat", "Cannot parse the "+
				"request: IP configuration %q of %s needs a name of its own and a subnet.", name,
				r.id.Name())
		}
		names[name] = true
		for _, readOnly := range []string{"id", "etag", "type"} {
			delete(configuration, readOnly)
		}
		delete(p, "provisioningState")
		setDefault(p, "primary", i == 0)
		if vnet != "" && !vnet.Equal(subnet.Parent()) {
			return fail(http.StatusBadRequest, "SubnetsNotInSameVnet", "Subnet %s is not in the "+
				"same Virtual Network as the subnets of other IP configurations of %s.", subnet,
				r.id)
		}
		vnet = subnet.Parent()
	}
	setDefault(properties, "enableIPForwarding", false)
	setDefault(properties, "enableAcceleratedNetworking", false)
	setDefault(properties, "dnsSettings", object{"dnsServers": []any{}})
	return nil
}

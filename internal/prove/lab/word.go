package lab

import (
	"net/url"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// words name what calls are about, by the ends of their paths, the longest first.
var words = []struct{ end, word string }{
	{"/providers/microsoft.insights/eventtypes/management/values", "activity log"},
	{"/providers/microsoft.authorization/permissions", "permissions"},
	{"/providers/microsoft.authorization/roleassignments", "role assignments"},
	{"/providers/microsoft.authorization/roledefinitions", "role definitions"},
	{"/providers/microsoft.authorization/denyassignments", "deny assignments"},
	{"/providers/microsoft.authorization/locks", "locks"},
	{"/providers/microsoft.containerservice/managedclusters", "clusters"},
	{"/providers/microsoft.compute/virtualmachinescalesets", "scale sets"},
	{"/providers/microsoft.network/networkinterfaces", "interfaces"},
	{"/providers/microsoft.network/routetables", "route tables"},
	{"/providers/microsoft.network/applicationgateways", "application gateways"},
	{"/resources", "resources"},
}

var typeWords = map[string]string{
	arm.TypeResourceGroup: "group", arm.TypeRouteTable: "route table", arm.TypeVNet: "network",
	arm.TypeSubnet: "subnet", arm.TypeInterface: "interface",
	arm.TypeSecurityGroup: "security group",
}

// wordOf says what an address is about, in the words of the plan.
func wordOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "a link"
	}
	path := strings.ToLower(u.Path)
	for _, w := range words {
		if strings.HasSuffix(path, w.end) {
			return w.word
		}
	}
	if strings.Contains(path, "/operations/") || strings.Contains(path, "/operationresults/") {
		return "operation"
	}
	if id, err := arm.ParseID(u.Path); err == nil {
		for resourceType, word := range typeWords {
			if id.Is(resourceType) {
				return word
			}
		}
	}
	return u.Path
}

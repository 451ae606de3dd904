package authorization

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Aliases are the names that policy rules can use for properties, by type, without the type before
// them. It has only types whose aliases are known: from lists of all aliases that people published,
// and for route tables from rules that use them. No such list has an alias for natGateway, and no
// published policy was found that uses one for the subnets of a network.
var Aliases = map[string][]string{
	arm.TypeVNet: {"addressSpace.addressPrefixes[*]", "ddosProtectionPlan.id", "subnets[*]",
		"subnets[*].addressPrefix", "subnets[*].ipConfigurations[*].id", "subnets[*].name",
		"subnets[*].networkSecurityGroup.id", "subnets[*].routeTable.id",
		"subnets[*].serviceEndpoints[*].locations[*]", "subnets[*].serviceEndpoints[*].service"},
	arm.TypeSubnet: {"addressPrefix", "ipConfigurations[*].id", "networkSecurityGroup.id",
		"routeTable.id", "serviceEndpoints[*].locations[*]", "serviceEndpoints[*].service"},
	arm.TypeRouteTable: {"routes[*]", "routes[*].addressPrefix", "routes[*].nextHopIpAddress",
		"routes[*].nextHopType"},
	arm.TypeRoute: {"addressPrefix", "nextHopIpAddress", "nextHopType"},
}

// checkAlias refuses a field that is no alias of a type whose aliases are known.
func checkAlias(definition, field string) *kernel.Failure {
	provider, _, _ := strings.Cut(field, "/")
	at, kind := -1, ""
	for k := range Aliases { // the longest type that the field begins with
		if len(k) > at && len(field) > len(k) && strings.EqualFold(field[:len(k)+1], k+"/") {
			at, kind = len(k), k
		}
	}
	if kind == "" || slices.ContainsFunc(Aliases[kind], func(alias string) bool {
		return strings.EqualFold(alias, field[at+1:])
	}) {
		return nil
	}
	return kernel.Bad("InvalidPolicyAlias",
		"The policy definition '%s' rule is invalid. The 'field' property '%s' of the policy rule "+
			"doesn't exist as an alias under provider '%s' and resource type '%s'.", definition,
		field, provider, strings.TrimPrefix(kind, provider+"/"))
}

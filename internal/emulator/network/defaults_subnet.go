package network

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// policiesDisabledSince is the api-version from which on a subnet that does not say so has no
// network policies for private
// endpoints. Between 2019-09-01 and then it had.
const policiesDisabledSince = "2020-06-01"

// endpointPolicies is a subnet's default for private endpoints at an api-version.
func endpointPolicies(version string) string {
	if version >= "2019-09-01" && version < policiesDisabledSince {
		return "Enabled"
	}
	return "Disabled"
}

// endpointLocations are where a service endpoint leads that does not say so: of SQL to the
// network's own region.
func endpointLocations(service, location string) []any {
	if service == "Microsoft.Sql" {
		return []any{location}
	}
	return []any{"*"}
}

// delegationActions are what a service may do in a subnet that is delegated to it.
func delegationActions(service string) []any {
	const subnet = "Microsoft.Network/virtualNetworks/subnets/"
	switch strings.ToLower(service) {
	case "microsoft.web/serverfarms", "microsoft.web/hostingenvironments":
		return []any{subnet + "action"}
	case "microsoft.sql/managedinstances", "microsoft.databricks/workspaces":
		return []any{
			subnet + "join/action",
			subnet + "prepareNetworkPolicies/action",
			subnet + "unprepareNetworkPolicies/action",
		}
	case "microsoft.netapp/volumes":
		return []any{"Microsoft.Network/networkinterfaces/*", subnet + "join/action"}
	}
	return []any{subnet + "join/action"}
}

// shoutedSince is the date since which subnets show who holds their addresses in upper case.
const shoutedSince = "2022-01-01"

// configurationTypes are what subnets call the IP configurations of some types.
var configurationTypes = map[string]string{
	TypeBastion:  "bastionHostIpConfigurations",
	TypeFirewall: "azureFirewallIpConfigurations",
}

// ShownConfiguration is an IP configuration's ID as a subnet shows it: names in upper case, types
// as they are.
func ShownConfiguration(id arm.ID, shout bool) string {
	segments := strings.Split(string(id), "/")
	for name, shown := range configurationTypes {
		if n := len(segments); n > 3 && id.Parent().Is(name) {
			segments[n-2] = shown
		}
	}
	if shout {
		for i := 4; i < len(segments); i += 2 {
			if segments[i-1] != "providers" {
				segments[i] = strings.ToUpper(segments[i])
			}
		}
	}
	return strings.Join(segments, "/")
}

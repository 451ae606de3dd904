package network

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// policiesDisabledSince is the first api-version at which subnets by default have no network
// policies for private endpoints. From 2019-09-01 until then they had.
const policiesDisabledSince = "2020-06-01"

// endpointPolicies returns a subnet's default for private endpoints at an api-version.
func endpointPolicies(version string) string {
	if version >= "2019-09-01" && version < policiesDisabledSince {
		return "Enabled"
	}
	return "Disabled"
}

// endpointLocations returns the default locations of a service endpoint: for SQL the network's own
// region.
func endpointLocations(service, location string) []any {
	if service == "Microsoft.Sql" {
		return []any{location}
	}
	return []any{"*"}
}

// delegationActions returns the actions that a delegated service may do in the subnet.
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

// upperCaseSince is the date since which subnets show the IDs of IP configurations in upper case.
const upperCaseSince = "2022-01-01"

// configurationTypes are the names of some types' IP configurations in subnets.
var configurationTypes = map[string]string{
	TypeBastion:      "bastionHostIpConfigurations",
	arm.TypeFirewall: "azureFirewallIpConfigurations",
}

// ShownConfiguration returns the ID of an IP configuration as a subnet shows it, with names in
// upper case and types unchanged.
func ShownConfiguration(id arm.ID, upperCase bool) string {
	segments := strings.Split(string(id), "/")
	for name, shown := range configurationTypes {
		if n := len(segments); n > 3 && id.Parent().Is(name) {
			segments[n-2] = shown
		}
	}
	if upperCase {
		for i := 4; i < len(segments); i += 2 {
			if segments[i-1] != "providers" {
				segments[i] = strings.ToUpper(segments[i])
			}
		}
	}
	return strings.Join(segments, "/")
}

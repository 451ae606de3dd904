package network

import "strings"

// propertyNames are the properties that this package reads, in Azure's spelling, apart from those
// in other tables: links, facts, and fields of newer api-versions.
var propertyNames = []string{
	// networks and subnets
	"addressSpace", "addressPrefixes", "addressPrefix", "dhcpOptions", "dnsServers", "subnets",
	"virtualNetworkPeerings", "delegations", "serviceName", "serviceEndpoints", "service",
	"locations", "privateEndpointNetworkPolicies", "privateLinkServiceNetworkPolicies",
	"provisioningState", "resourceGuid",
	// peerings
	"remoteVirtualNetwork", "remoteAddressSpace", "peeringState", "allowVirtualNetworkAccess",
	"allowForwardedTraffic", "allowGatewayTransit", "useRemoteGateways",
	"doNotVerifyRemoteGateways",
	// route tables
	"routes", "nextHopType", "nextHopIpAddress", "disableBgpRoutePropagation",
	"hasBgpOverride",
	// security groups
	"securityRules", "direction", "access", "protocol", "priority",
	// interfaces and addresses
	"primary", "privateIPAddress", "privateIPAllocationMethod", "privateIPAddressVersion",
	"enableIPForwarding", "enableAcceleratedNetworking", "dnsSettings", "ipAddress",
	"publicIPAddressVersion", "publicIPAllocationMethod", "publicIPPrefix",
	"idleTimeoutInMinutes", "ipTags", "ddosSettings", "protectionMode",
	// items of lists, and references
	"id", "name", "type", "etag", "properties",
}

// names are all properties that this package knows.
func names() []string {
	out := append([]string{}, propertyNames...)
	add := func(path string) {
		out = append(out, strings.Split(strings.ReplaceAll(path, "[]", ""), ".")...)
	}
	for _, l := range Links {
		add(l.path)
	}
	for _, f := range newerFields {
		add(f.Path)
	}
	return out
}

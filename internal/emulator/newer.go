package emulator

import "routekeeper.dev/routekeeper/internal/arm"

// newerFields are some of the real ones (Microsoft.Network's API specifications); clients with
// older api-versions lose them on Azure too.
var newerFields = []NewerField{
	{arm.TypeSubnet, "properties.defaultOutboundAccess", "2023-09-01"},
	{arm.TypeSubnet, "properties.sharingScope", "2023-09-01"},
	{arm.TypeSubnet, "properties.ipamPoolPrefixAllocations", "2024-05-01"},
	{arm.TypeVNet, "properties.encryption", "2021-08-01"},
	{arm.TypeVNet, "properties.privateEndpointVNetPolicies", "2024-03-01"},
}

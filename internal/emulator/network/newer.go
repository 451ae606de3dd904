package network

import (
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// newerFields are some of the real ones (Microsoft.Network's API specifications); clients with
// older api-versions lose them on Azure too.
var newerFields = []kernel.NewerField{
	{Type: arm.TypeSubnet, Path: "properties.defaultOutboundAccess", Since: "2023-09-01"},
	{Type: arm.TypeSubnet, Path: "properties.sharingScope", Since: "2023-09-01"},
	{Type: arm.TypeSubnet, Path: "properties.ipamPoolPrefixAllocations", Since: "2024-05-01"},
	{Type: arm.TypeVNet, Path: "properties.encryption", Since: "2021-08-01"},
	{Type: arm.TypeVNet, Path: "properties.privateEndpointVNetPolicies", Since: "2024-03-01"},
}

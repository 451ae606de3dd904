package network

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

var vnetFacts = []kernel.Fact{
	{Path: "properties.enableDdosProtection", Value: false},
	{Path: "properties.enableVmProtection", Value: false, Before: "2020-06-01"},
	{Path: "properties.privateEndpointVNetPolicies", Value: "Disabled", Since: "2024-03-01"},
	{Path: "properties.dhcpOptions.dnsServers", Value: []any{}},
	{Path: "properties.encryption.enforcement", Value: "AllowUnencrypted"}, // documented
}

// Some of the fields that old api-versions do not have (Microsoft.Network's API specifications). A
// client that uses such an api-version loses these fields on Azure, too.
var (
	newerInVNet = map[string]string{"properties.encryption": "2021-08-01",
		"properties.privateEndpointVNetPolicies": "2024-03-01"}
	newerInSubnet = map[string]string{"properties.defaultOutboundAccess": "2023-09-01",
		"properties.sharingScope":              "2023-09-01",
		"properties.ipamPoolPrefixAllocations": "2024-05-01"}
)

var peeringFacts = []kernel.Fact{
	{Path: "properties.routeServiceVips", Value: kernel.Object{}},
	{Path: "properties.peerCompleteVnets", Value: true, Since: "2022-01-01"},
}

var natFacts = []kernel.Fact{
	{Path: "sku.tier", Value: "Regional"},
	{Path: "properties.type", Value: "Public", Since: "2024-03-01"},
}

var publicIPFacts = []kernel.Fact{
	{Path: "sku.tier", Value: "Regional", Since: "2020-07-01"},
	{
		Path:  "properties.ddosSettings",
		Value: kernel.Object{"protectionMode": "VirtualNetworkInherited"},
		Since: "2022-05-01",
		When: func(s kernel.Sight) bool {
			return kernel.Text(s.Doc, "sku", "name") == "Standard"
		},
	},
	{Path: "properties.dnsSettings.fqdn", Value: func(s kernel.Sight) any {
		if label := kernel.Text(s.At, "domainNameLabel"); label != "" {
			return label + "." + kernel.Text(s.Doc, "location") + ".cloudapp.azure.com"
		}
		return nil
	}},
}

// ruleFacts returns the facts of a security group's rules.
func ruleFacts(list string) []kernel.Fact {
	return kernel.EmptyLists(nil, list+"[].properties.sourcePortRanges",
		list+"[].properties.destinationPortRanges", list+"[].properties.sourceAddressPrefixes",
		list+"[].properties.destinationAddressPrefixes")
}

var securityGroupFacts = append(ruleFacts("properties.securityRules"),
	ruleFacts("properties.defaultSecurityRules")...)

var interfaceFacts = []kernel.Fact{
	{Path: "kind", Value: "Regular", Since: "2021-05-01"},
	{Path: "properties.allowPort25Out", Value: true, Since: "2021-05-01"},
	{Path: "properties.vnetEncryptionSupported", Value: false, Since: "2019-01-01"},
	{Path: "properties.hostedWorkloads", Value: []any{}, Since: "2019-01-01"},
	{Path: "properties.tapConfigurations", Value: []any{}, Since: "2019-01-01"},
	{Path: "properties.nicType", Value: "Standard", Since: "2019-01-01"},
	{Path: "properties.dnsSettings.appliedDnsServers", Value: []any{}},
	{Path: "properties.dnsSettings.internalDomainNameSuffix",
		Value: func(s kernel.Sight) any { return InternalSuffix(s.Doc) }},
	{Path: "properties.dnsSettings.internalFqdn", Value: func(s kernel.Sight) any { // documented
		label, suffix := kernel.Text(s.At, "internalDnsNameLabel"), InternalSuffix(s.Doc)
		if label == "" || suffix == nil {
			return nil
		}
		return label + "." + suffix.(string)
	}},
	{Path: "properties.primary", Value: true, When: onMachine},
	{Path: "properties.macAddress",
		Value: func(s kernel.Sight) any { return HardwareAddress(s.R.ID) }, When: onMachine},
}

func onMachine(s kernel.Sight) bool {
	return kernel.ObjectAt(s.Doc, "properties", "virtualMachine") != nil
}

// InternalSuffix returns the DNS suffix of a network, which all interfaces in it share.
func InternalSuffix(nic kernel.Object) any {
	for _, c := range kernel.ListAt(nic, "properties", "ipConfigurations") {
		if subnet := kernel.LinkOf(c, "subnet"); subnet != "" {
			guid := kernel.GuidOf("suffix", subnet.Parent())
			return strings.ReplaceAll(guid, "-", "")[:26] + ".xx.internal.cloudapp.net"
		}
	}
	return nil
}

// HardwareAddress returns an interface's, from one of Microsoft's ranges.
func HardwareAddress(id arm.ID) string {
	guid := strings.ToUpper(kernel.GuidOf("mac", id))
	return "00-0D-3A-" + guid[0:2] + "-" + guid[2:4] + "-" + guid[4:6]
}

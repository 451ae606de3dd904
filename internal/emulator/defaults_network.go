package emulator

import (
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

var vnetFacts = []fact{
	{path: "properties.enableDdosProtection", value: false},
	{path: "properties.enableVmProtection", value: false, before: "2020-06-01"},
	{path: "properties.privateEndpointVNetPolicies", value: "Disabled", since: "2024-03-01"},
	{path: "properties.dhcpOptions.dnsServers", value: []any{}},
}

var peeringFacts = []fact{
	{path: "properties.routeServiceVips", value: object{}},
	{path: "properties.peerCompleteVnets", value: true, since: "2022-01-01"},
}

var natFacts = []fact{
	{path: "sku.tier", value: "Regional"},
	{path: "properties.type", value: "Public", since: "2024-03-01"},
}

var publicIPFacts = []fact{
	{path: "sku.tier", value: "Regional", since: "2020-07-01"},
	{
		path:  "properties.ddosSettings",
		value: object{"protectionMode": "VirtualNetworkInherited"},
		since: "2022-05-01",
		when: func(s sight) bool {
			return text(objectAt(s.doc, "sku"), "name") == "Standard"
		},
	},
	{path: "properties.dnsSettings.fqdn", value: func(s sight) any {
		if label := text(s.at, "domainNameLabel"); label != "" {
			return label + "." + text(s.doc, "location") + ".cloudapp.azure.com"
		}
		return nil
	}},
}

// ruleFacts are of the rules of a security group.
func ruleFacts(list string) []fact {
	return emptyLists(
		nil,
		list+"[].properties.sourcePortRanges",
		list+"[].properties.destinationPortRanges",
		list+"[].properties.sourceAddressPrefixes",
		list+"[].properties.destinationAddressPrefixes",
	)
}

var securityGroupFacts = append(
	ruleFacts("properties.securityRules"),
	ruleFacts("properties.defaultSecurityRules")...)

var interfaceFacts = []fact{
	{path: "kind", value: "Regular", since: "2021-05-01"},
	{path: "properties.allowPort25Out", value: true, since: "2021-05-01"},
	{path: "properties.vnetEncryptionSupported", value: false, since: "2019-01-01"},
	{path: "properties.hostedWorkloads", value: []any{}, since: "2019-01-01"},
	{path: "properties.tapConfigurations", value: []any{}, since: "2019-01-01"},
	{path: "properties.nicType", value: "Standard", since: "2019-01-01"},
	{path: "properties.dnsSettings.appliedDnsServers", value: []any{}},
	{
		path:  "properties.dnsSettings.internalDomainNameSuffix",
		value: func(s sight) any { return internalSuffix(s.doc) },
	},
	{path: "properties.primary", value: true, when: onMachine},
	{
		path:  "properties.macAddress",
		value: func(s sight) any { return hardwareAddress(s.r.id) },
		when:  onMachine,
	},
}

func onMachine(s sight) bool { return objectAt(s.doc, "properties", "virtualMachine") != nil }

// internalSuffix is the DNS suffix of a network, which all interfaces in it share.
func internalSuffix(nic object) any {
	for _, c := range listAt(objectAt(nic, "properties"), "ipConfigurations") {
		if subnet := linkOf(c, "subnet"); subnet != "" {
			guid := uuid.NewSHA1(uuid.Nil, []byte("suffix "+subnet.Parent().Key())).String()
			return strings.ReplaceAll(guid, "-", "")[:26] + ".xx.internal.cloudapp.net"
		}
	}
	return nil
}

// hardwareAddress is an interface's, from one of Microsoft's ranges.
func hardwareAddress(id arm.ID) string {
	guid := strings.ToUpper(uuid.NewSHA1(uuid.Nil, []byte("mac "+id.Key())).String())
	return "00-0D-3A-" + guid[0:2] + "-" + guid[2:4] + "-" + guid[4:6]
}

package network

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

func gatewayV2(s kernel.Sight) bool {
	return strings.HasSuffix(kernel.Text(s.Doc, "properties", "sku", "tier"), "_v2")
}

func gatewayV1(s kernel.Sight) bool { return !gatewayV2(s) }

// gatewayFacts returns the facts of Application Gateways: empty lists that are shown, some of them
// in one generation only, and the defaults of their items.
func gatewayFacts() []kernel.Fact {
	const p = "properties."
	all := slices.Concat(emptyLists(nil, gatewayLists), emptyLists(gatewayV1, gatewayListsV1),
		emptyLists(gatewayV2, gatewayListsV2),
		emptyLists(gatewayV2, []string{"privateEndpointConnections"}))
	const rule = p + "rewriteRuleSets[].properties.rewriteRules[]"
	all = append(all,
		kernel.EmptyLists(nil, p+"backendAddressPools[].properties.backendAddresses",
			p+"httpListeners[].properties.hostNames", p+"listeners[].properties.hostNames",
			p+"rewriteRuleSets[].properties.rewriteRules", rule+".conditions",
			rule+".actionSet.requestHeaderConfigurations",
			rule+".actionSet.responseHeaderConfigurations")...)
	return append(
		all,
		kernel.Fact{Path: p + "sku.family", Value: "Generation_1", Since: "2022-07-01",
			When: gatewayV2},
		kernel.Fact{Path: p + "frontendIPConfigurations[].properties.privateIPAllocationMethod",
			Value: "Dynamic"},
		kernel.Fact{Path: p + "httpListeners[].properties.requireServerNameIndication",
			Value: false},
		kernel.Fact{Path: p + "backendHttpSettingsCollection[].properties.requestTimeout",
			Value: 30},
		kernel.Fact{Path: p +
			"backendHttpSettingsCollection[].properties.pickHostNameFromBackendAddress",
			Value: false},
		kernel.Fact{Path: p + "backendSettingsCollection[].properties.timeout", Value: 30},
		kernel.Fact{Path: p + "probes[].properties.pickHostNameFromBackendHttpSettings",
			Value: false},
		kernel.Fact{Path: p + "webApplicationFirewallConfiguration.requestBodyCheck", Value: true},
		kernel.Fact{Path: p + "webApplicationFirewallConfiguration.maxRequestBodySizeInKb",
			Value: 128},
		kernel.Fact{Path: p + "webApplicationFirewallConfiguration.fileUploadLimitInMb",
			Value: 100},
		kernel.Fact{Path: rule + ".actionSet.urlConfiguration.reroute", Value: false},
		kernel.Fact{Path: p +
			"sslProfiles[].properties.clientAuthConfiguration.verifyClientRevocation",
			Value: "None"},
	)
}

// The lists of an Application Gateway's parts: of both generations, and of one.
var (
	gatewayLists = []string{"gatewayIPConfigurations", "sslCertificates",
		"frontendIPConfigurations", "frontendPorts", "backendAddressPools",
		"backendHttpSettingsCollection", "httpListeners", "urlPathMaps", "requestRoutingRules",
		"probes", "rewriteRuleSets", "redirectConfigurations"}
	gatewayListsV1 = []string{"authenticationCertificates"}
	gatewayListsV2 = []string{"trustedRootCertificates", "trustedClientCertificates",
		"sslProfiles", "loadDistributionPolicies", "backendSettingsCollection", "listeners",
		"routingRules", "privateLinkConfigurations"}
)

// gatewayParts are the parts of Application Gateways.
var gatewayParts = parts{
	lists: slices.Concat(gatewayLists, gatewayListsV1, gatewayListsV2),
	back: map[string]string{
		"httpListeners":                 "httpListeners",
		"listeners":                     "listeners",
		"requestRoutingRules":           "requestRoutingRules",
		"routingRules":                  "routingRules",
		"urlPathMaps":                   "urlPathMaps",
		"pathRules":                     "pathRules",
		"frontendIPConfigurations":      "frontendIpConfigurations",
		"backendHttpSettingsCollection": "backendHttpSettings",
		"backendSettingsCollection":     "backendSettings",
		"redirectConfigurations":        "redirectConfiguration",
	},
	sub: map[string]string{
		"urlPathMaps":               "pathRules",
		"privateLinkConfigurations": "ipConfigurations",
	},
}

// showGateway gives the parts of an Application Gateway their IDs, and adds back references.
func (s *gateways) showGateway(r *kernel.Resource, doc kernel.Object, version string) {
	properties := kernel.ObjectAt(doc, "properties")
	gatewayParts.show(r, properties)
	delete(properties, "privateEndpointConnections") // only Azure writes it
	var connections []any
	for _, c := range s.linkConnections(r) {
		connections = append(connections, c.doc)
	}
	if connections != nil {
		properties["privateEndpointConnections"] = connections
	}
	if r.Fresh && kernel.State(r) == "Updating" { // until it is created
		properties["operationalState"] = "Stopped"
	}
}

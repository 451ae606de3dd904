package network

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

func gatewayV2(s kernel.Sight) bool {
	return strings.HasSuffix(kernel.Text(kernel.ObjectAt(s.Doc, "properties", "sku"), "tier"),
		"_v2")
}

func gatewayV1(s kernel.Sight) bool { return !gatewayV2(s) }

// gatewayFacts returns the facts of Application Gateways: empty lists that are shown, some of them
// in one generation only, and the defaults of their items.
func gatewayFacts() []kernel.Fact {
	const p = "properties."
	all := kernel.EmptyLists(
		nil,
		p+"gatewayIPConfigurations",
		p+"sslCertificates",
		p+"frontendIPConfigurations",
		p+"frontendPorts",
		p+"backendAddressPools",
		p+"backendHttpSettingsCollection",
		p+"httpListeners",
		p+"urlPathMaps",
		p+"requestRoutingRules",
		p+"probes",
		p+"rewriteRuleSets",
		p+"redirectConfigurations",
	)
	all = append(all, kernel.EmptyLists(gatewayV1, p+"authenticationCertificates")...)
	all = append(
		all,
		kernel.EmptyLists(
			gatewayV2,
			p+"trustedRootCertificates",
			p+"trustedClientCertificates",
			p+"sslProfiles",
			p+"loadDistributionPolicies",
			p+"backendSettingsCollection",
			p+"listeners",
			p+"routingRules",
			p+"privateLinkConfigurations",
			p+"privateEndpointConnections",
		)...)
	const rule = p + "rewriteRuleSets[].properties.rewriteRules[]"
	all = append(
		all,
		kernel.EmptyLists(
			nil,
			p+"backendAddressPools[].properties.backendAddresses",
			p+"httpListeners[].properties.hostNames",
			p+"listeners[].properties.hostNames",
			p+"rewriteRuleSets[].properties.rewriteRules",
			rule+".conditions",
			rule+".actionSet.requestHeaderConfigurations",
			rule+".actionSet.responseHeaderConfigurations",
		)...)
	return append(
		all,
		kernel.Fact{Path: p + "sku.family", Value: "Generation_1", Since: "2022-07-01",
			When: gatewayV2},
		kernel.Fact{
			Path:  p + "frontendIPConfigurations[].properties.privateIPAllocationMethod",
			Value: "Dynamic",
		},
		kernel.Fact{Path: p + "httpListeners[].properties.requireServerNameIndication",
			Value: false},
		kernel.Fact{Path: p + "backendHttpSettingsCollection[].properties.requestTimeout",
			Value: 30},
		kernel.Fact{
			Path:  p + "backendHttpSettingsCollection[].properties.pickHostNameFromBackendAddress",
			Value: false,
		},
		kernel.Fact{Path: p + "backendSettingsCollection[].properties.timeout", Value: 30},
		kernel.Fact{Path: p + "probes[].properties.pickHostNameFromBackendHttpSettings",
			Value: false},
		kernel.Fact{Path: p + "webApplicationFirewallConfiguration.requestBodyCheck", Value: true},
		kernel.Fact{Path: p + "webApplicationFirewallConfiguration.maxRequestBodySizeInKb",
			Value: 128},
		kernel.Fact{Path: p + "webApplicationFirewallConfiguration.fileUploadLimitInMb",
			Value: 100},
		kernel.Fact{Path: rule + ".actionSet.urlConfiguration.reroute", Value: false},
		kernel.Fact{
			Path:  p + "sslProfiles[].properties.clientAuthConfiguration.verifyClientRevocation",
			Value: "None",
		},
	)
}

// gatewayBack is the list of back references in a part, by the list of the parts that refer to it.
var gatewayBack = map[string]string{
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
}

// gatewaySub are lists in parts whose items are parts, too.
var gatewaySub = map[string]string{
	"urlPathMaps":               "pathRules",
	"privateLinkConfigurations": "ipConfigurations",
}

// showGateway gives the parts of an Application Gateway their IDs, and adds back references.
func (s *gateways) showGateway(r *kernel.Resource, doc kernel.Object, version string) {
	properties := kernel.ObjectAt(doc, "properties")
	parts := map[string]kernel.Object{} // the properties of each, by its ID's key
	type part struct {
		id         arm.ID
		list       string
		properties kernel.Object
	}
	var all []part
	add := func(id arm.ID, list, partType string, item kernel.Object) {
		if kernel.ObjectAt(item, "properties") == nil {
			item["properties"] = kernel.Object{}
		}
		item["id"], item["etag"], item["type"] = string(id), r.Tag(), partType
		p := kernel.ObjectAt(item, "properties")
		p["provisioningState"] = kernel.State(r)
		parts[id.Key()] = p
		all = append(all, part{id, list, p})
	}
	for _, list := range gatewayParts {
		for _, item := range kernel.ListAt(properties, list) {
			id, partType := r.ID.Child(list, kernel.Text(item, "name")), arm.TypeGateway+"/"+list
			add(id, list, partType, item)
			if sub := gatewaySub[list]; sub != "" {
				for _, below := range kernel.ListAt(kernel.ObjectAt(item, "properties"), sub) {
					add(id.Child(sub, kernel.Text(below, "name")), sub, partType+"/"+sub, below)
				}
			}
		}
	}
	type back struct {
		target kernel.Object
		name   string
		from   arm.ID
	}
	var backs []back
	for _, from := range all {
		name := gatewayBack[from.list]
		for field, value := range from.properties {
			for _, to := range referred(value) {
				if target := parts[to.Key()]; target != nil && name != "" &&
					field != gatewaySub[from.list] {
					backs = append(backs, back{target, name, from.id})
				}
			}
		}
	}
	for _, b := range backs {
		if known, _ := b.target[b.name].([]any); !contains(known, b.from) {
			b.target[b.name] = append(known, kernel.Object{"id": string(b.from)})
		}
	}
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

// gatewayParts are in the order of processing: back references are in the order in which they are
// found.
var gatewayParts = []string{
	"gatewayIPConfigurations", "sslCertificates", "trustedRootCertificates",
	"trustedClientCertificates", "sslProfiles",
	"authenticationCertificates", "frontendIPConfigurations", "frontendPorts",
	"backendAddressPools", "loadDistributionPolicies",
	"backendHttpSettingsCollection", "backendSettingsCollection", "httpListeners", "listeners",
	"urlPathMaps", "requestRoutingRules",
	"routingRules", "probes", "rewriteRuleSets", "redirectConfigurations",
	"privateLinkConfigurations",
}

// referred returns the IDs in a reference, or in a list of them.
func referred(value any) []arm.ID {
	switch v := value.(type) {
	case kernel.Object:
		if id := kernel.Text(v, "id"); id != "" {
			return []arm.ID{arm.ID(id)}
		}
	case []any:
		var out []arm.ID
		for _, item := range v {
			out = append(out, referred(item)...)
		}
		return out
	}
	return nil
}

func contains(references []any, id arm.ID) bool {
	for _, known := range referred(references) {
		if known.Equal(id) {
			return true
		}
	}
	return false
}

// dropGatewayBack removes from a gateway's request the fields of its parts that only Azure may
// write: clients send what they read.
func dropGatewayBack(properties kernel.Object) {
	for _, list := range gatewayParts {
		for _, item := range kernel.ListAt(properties, list) {
			p := kernel.ObjectAt(item, "properties")
			for _, name := range gatewayBack {
				if _, isList := p[name].([]any); isList && name != gatewaySub[list] {
					delete(p, name)
				}
			}
			for _, below := range kernel.ListAt(p, gatewaySub[list]) {
				dropReadOnly(below)
			}
			dropReadOnly(item)
		}
	}
}

func dropReadOnly(part kernel.Object) {
	for _, field := range []string{"id", "etag", "type"} {
		delete(part, field)
	}
	delete(kernel.ObjectAt(part, "properties"), "provisioningState")
}

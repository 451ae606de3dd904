package emulator

import (
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

func gatewayV2(s sight) bool {
	return strings.HasSuffix(text(objectAt(s.doc, "properties", "sku"), "tier"), "_v2")
}

func gatewayV1(s sight) bool { return !gatewayV2(s) }

// gatewayFacts are of Application Gateways: lists that are there without items, some of them of one
// generation only, and
// the defaults of their items.
func gatewayFacts() []fact {
	const p = "properties."
	all := emptyLists(
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
	all = append(all, emptyLists(gatewayV1, p+"authenticationCertificates")...)
	all = append(
		all,
		emptyLists(
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
		emptyLists(
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
		fact{path: p + "sku.family", value: "Generation_1", since: "2022-07-01", when: gatewayV2},
		fact{
			path:  p + "frontendIPConfigurations[].properties.privateIPAllocationMethod",
			value: "Dynamic",
		},
		fact{path: p + "httpListeners[].properties.requireServerNameIndication", value: false},
		fact{path: p + "backendHttpSettingsCollection[].properties.requestTimeout", value: 30},
		fact{
			path:  p + "backendHttpSettingsCollection[].properties.pickHostNameFromBackendAddress",
			value: false,
		},
		fact{path: p + "backendSettingsCollection[].properties.timeout", value: 30},
		fact{path: p + "probes[].properties.pickHostNameFromBackendHttpSettings", value: false},
		fact{path: p + "webApplicationFirewallConfiguration.requestBodyCheck", value: true},
		fact{path: p + "webApplicationFirewallConfiguration.maxRequestBodySizeInKb", value: 128},
		fact{path: p + "webApplicationFirewallConfiguration.fileUploadLimitInMb", value: 100},
		fact{path: rule + ".actionSet.urlConfiguration.reroute", value: false},
		fact{
			path:  p + "sslProfiles[].properties.clientAuthConfiguration.verifyClientRevocation",
			value: "None",
		},
	)
}

// gatewayBack is what a part that is referred to calls the list of the parts that refer to it, by
// the list of those.
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

// showGateway gives the parts of an Application Gateway their IDs, and shows each who refers to it.
func (s *network) showGateway(r *resource, doc object, version string) {
	properties := objectAt(doc, "properties")
	parts := map[string]object{} // the properties of each, by its ID's key
	type part struct {
		id         arm.ID
		list       string
		properties object
	}
	var all []part
	add := func(id arm.ID, list, partType string, item object) {
		if objectAt(item, "properties") == nil {
			item["properties"] = object{}
		}
		item["id"], item["etag"], item["type"] = string(id), r.tag(), partType
		p := objectAt(item, "properties")
		p["provisioningState"] = state(r)
		parts[id.Key()] = p
		all = append(all, part{id, list, p})
	}
	for _, list := range gatewayParts {
		for _, item := range listAt(properties, list) {
			id, partType := r.id.Child(list, text(item, "name")), arm.TypeGateway+"/"+list
			add(id, list, partType, item)
			if sub := gatewaySub[list]; sub != "" {
				for _, below := range listAt(objectAt(item, "properties"), sub) {
					add(id.Child(sub, text(below, "name")), sub, partType+"/"+sub, below)
				}
			}
		}
	}
	type back struct {
		target object
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
			b.target[b.name] = append(known, object{"id": string(b.from)})
		}
	}
	if r.fresh && state(r) == "Updating" { // until it has been made
		properties["operationalState"] = "Stopped"
	}
}

// camelCase spells the fields of an object as Azure does, which takes them in any case: az sends
// Name and Port.
func camelCase(value any) {
	switch v := value.(type) {
	case object:
		for _, field := range slices.Collect(maps.Keys(v)) {
			inner := v[field]
			if lower := strings.ToLower(field[:min(1, len(field))]) +
				field[min(1, len(field)):]; lower != field {
				delete(v, field)
				v[lower] = inner
			}
			camelCase(inner)
		}
	case []any:
		for _, inner := range v {
			camelCase(inner)
		}
	}
}

// gatewayParts are in the order in which they are gone through: who is referred to shows the first
// to refer first.
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

// referred are the IDs in a reference, or in a list of them.
func referred(value any) []arm.ID {
	switch v := value.(type) {
	case object:
		if id := text(v, "id"); id != "" {
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

// dropGatewayBack removes from a gateway that was sent what only Azure may say in its parts:
// clients send what they read.
func dropGatewayBack(properties object) {
	for _, list := range gatewayParts {
		for _, item := range listAt(properties, list) {
			p := objectAt(item, "properties")
			for _, name := range gatewayBack {
				if _, isList := p[name].([]any); isList && name != gatewaySub[list] {
					delete(p, name)
				}
			}
			for _, below := range listAt(p, gatewaySub[list]) {
				dropReadOnly(below)
			}
			dropReadOnly(item)
		}
	}
}

func dropReadOnly(part object) {
	for _, field := range []string{"id", "etag", "type"} {
		delete(part, field)
	}
	delete(objectAt(part, "properties"), "provisioningState")
}

package network

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// balancerParts are the parts of load balancers.
var balancerParts = parts{
	lists: []string{"frontendIPConfigurations", "backendAddressPools", "loadBalancingRules",
		"probes", "inboundNatRules", "outboundRules", "inboundNatPools"},
	back: map[string]string{"loadBalancingRules": "loadBalancingRules",
		"inboundNatRules": "inboundNatRules", "outboundRules": "outboundRules"},
	sub: map[string]string{"backendAddressPools": "loadBalancerBackendAddresses"},
}

func balancerFacts() []kernel.Fact {
	const p = "properties."
	all := kernel.EmptyLists(nil, p+"frontendIPConfigurations", p+"backendAddressPools",
		p+"loadBalancingRules", p+"probes", p+"inboundNatRules", p+"outboundRules",
		p+"inboundNatPools")
	return append(all, kernel.Fact{Path: "sku.tier", Value: "Regional"},
		kernel.Fact{Path: p + "frontendIPConfigurations[].properties.privateIPAllocationMethod",
			Value: "Dynamic"})
}

// settleBalancer drops from a load balancer what only Azure writes.
func settleBalancer(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	keepGUID(r, old)
	properties := kernel.ObjectAt(r.Body, "properties")
	balancerParts.drop(properties)
	for _, pool := range kernel.ListAt(properties, "backendAddressPools") {
		p := kernel.ObjectAt(pool, "properties")
		delete(p, "backendIPConfigurations")
		given := slices.DeleteFunc(kernel.ListAt(p, "loadBalancerBackendAddresses"),
			func(a kernel.Object) bool {
				p := kernel.ObjectAt(a, "properties")
				return p["ipAddress"] == nil && p["loadBalancerFrontendIPConfiguration"] == nil
			})
		if len(given) > 0 {
			p["loadBalancerBackendAddresses"] = kernel.Items(given)
		} else {
			delete(p, "loadBalancerBackendAddresses")
		}
	}
	return nil
}

// showBalancer gives the parts their IDs and back references, and the pools of a cluster's load
// balancer the IP configurations of its nodes.
func (s *Network) showBalancer(r *kernel.Resource, doc kernel.Object, version string) {
	properties := kernel.ObjectAt(doc, "properties")
	for _, pool := range kernel.ListAt(properties, "backendAddressPools") {
		if s.Balanced == nil {
			break
		}
		kernel.SetDefault(pool, "properties", kernel.Object{})
		p := kernel.ObjectAt(pool, "properties")
		for _, node := range s.Balanced(r.ID) {
			link := kernel.Object{"id": string(node)}
			shown, _ := p["backendIPConfigurations"].([]any)
			all, _ := p["loadBalancerBackendAddresses"].([]any)
			p["backendIPConfigurations"] = append(shown, link)
			p["loadBalancerBackendAddresses"] = append(all, kernel.Object{
				"name":       kernel.GuidOf(kernel.Text(pool, "name"), node),
				"properties": kernel.Object{"networkInterfaceIPConfiguration": link}})
		}
	}
	balancerParts.show(r, TypeLoadBalancer, properties)
}

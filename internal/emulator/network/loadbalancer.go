package network

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
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
	return append(emptyLists(nil, balancerParts.lists),
		kernel.Fact{Path: "sku.tier", Value: "Regional"},
		kernel.Fact{Path: p + "frontendIPConfigurations[].properties.privateIPAllocationMethod",
			Value: "Dynamic"})
}

// settleBalancer drops from a load balancer what only Azure writes.
func settleBalancer(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	keepGUID(r, old)
	properties := r.Properties()
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

// showBalancer gives the parts their IDs and back references. It adds to each pool the IP
// configurations in it: those of interfaces that name the pool and, in a cluster's load balancer,
// those of the nodes.
func (s *Network) showBalancer(r *kernel.Resource, doc kernel.Object, version string) {
	properties := kernel.ObjectAt(doc, "properties")
	members := membersOf(s, r.ID)
	var nodes []arm.ID
	if s.Balanced != nil {
		nodes = s.Balanced(r.ID)
	}
	for _, pool := range kernel.ListAt(properties, "backendAddressPools") {
		kernel.SetDefault(pool, "properties", kernel.Object{})
		p := kernel.ObjectAt(pool, "properties")
		name := kernel.Text(pool, "name")
		for _, member := range append(members[strings.ToLower(name)], nodes...) {
			link := arm.Link(member)
			shown, _ := p["backendIPConfigurations"].([]any)
			all, _ := p["loadBalancerBackendAddresses"].([]any)
			p["backendIPConfigurations"] = append(shown, link)
			p["loadBalancerBackendAddresses"] = append(all, kernel.Object{
				"name":       kernel.GuidOf(name, member),
				"properties": kernel.Object{"networkInterfaceIPConfiguration": link}})
		}
	}
	balancerParts.show(r, properties)
}

// membersOf returns the IP configurations that name the backend pools of a load balancer, by the
// lower-case name of the pool: of interfaces, and of the instances of scale sets.
func membersOf(s *Network, balancer arm.ID) map[string][]arm.ID {
	out := map[string][]arm.ID{}
	for _, r := range append(s.kernel.Store.List(arm.TypeInterface, ""),
		s.kernel.Store.List(arm.TypeScaleSet, "")...) {
		for _, m := range membersIn(s, r) {
			if m.pool.Parent().Equal(balancer) {
				name := strings.ToLower(m.pool.Name())
				out[name] = append(out[name], m.configuration)
			}
		}
	}
	return out
}

// member is an IP configuration in a backend pool.
type member struct{ pool, configuration arm.ID }

// membersIn returns the IP configurations of an interface or a scale set that are in backend pools,
// each with its pool. The used addresses show which instances the scale set has.
func membersIn(s *Network, r *kernel.Resource) (out []member) {
	for _, ref := range ReferencesIn(r.ID, r.Body) {
		pools := kernel.ListAt(ref.Part, "loadBalancerBackendAddressPools")
		if !ref.Link.Takes() || len(pools) == 0 {
			continue
		}
		holders := []arm.ID{ref.Holder}
		if r.ID.Is(arm.TypeScaleSet) {
			holders = nil
			for _, holder := range s.Addresses.Of(ref.Target()).By {
				if kernel.PartOf(holder, r.ID) &&
					strings.EqualFold(holder.Name(), ref.Holder.Name()) &&
					strings.EqualFold(holder.Parent().Name(), ref.Holder.Parent().Name()) {
					holders = append(holders, holder)
				}
			}
			slices.Sort(holders)
		}
		for _, pool := range pools {
			for _, holder := range holders {
				out = append(out, member{arm.ID(kernel.Text(pool, "id")), holder})
			}
		}
	}
	return out
}

// touchBalancers renders the load balancers again whose pools an interface or a scale set names.
func touchBalancers(s *Network, r *kernel.Resource) {
	if !r.ID.Is(arm.TypeInterface) && !r.ID.Is(arm.TypeScaleSet) {
		return
	}
	for _, ref := range ReferencesIn(r.ID, r.Body) {
		for _, pool := range kernel.ListAt(ref.Part, "loadBalancerBackendAddressPools") {
			s.kernel.Store.Touch(arm.ID(kernel.Text(pool, "id")).Parent())
		}
	}
}

// ClusterPools returns the backend pools that all nodes of a cluster are in, by its node resource
// group.
func (s *Network) ClusterPools(group arm.ID) (out []any) {
	for _, r := range s.kernel.Store.List(arm.TypeLoadBalancer, group) {
		if s.Balanced == nil || s.Balanced(r.ID) == nil {
			continue
		}
		for _, pool := range kernel.ListAt(r.Properties(), "backendAddressPools") {
			out = append(out,
				arm.Link(r.ID.Child("backendAddressPools", kernel.Text(pool, "name"))))
		}
	}
	return out
}

// showInterface shows the backend pools that an interface of a cluster's node is in.
func (s *Network) showInterface(r *kernel.Resource, doc kernel.Object, version string) {
	configurations := kernel.ListAt(doc, "properties", "ipConfigurations")
	for _, balancer := range s.kernel.Store.List(arm.TypeLoadBalancer, r.ID.Group()) {
		if s.Balanced != nil &&
			len(configurations) > 0 && slices.ContainsFunc(s.Balanced(balancer.ID),
			r.ID.Child("ipConfigurations", kernel.Text(configurations[0], "name")).Equal) {
			kernel.ObjectAt(configurations[0],
				"properties")["loadBalancerBackendAddressPools"] = s.ClusterPools(r.ID.Group())
		}
	}
}

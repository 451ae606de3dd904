package emulator

import (
	"context"
	"encoding/json"

	"routekeeper.dev/routekeeper/internal/arm"
)

// networkOptions say what the network is like.
type networkOptions struct {
	// RouteLimit is how many routes a table holds.
	RouteLimit int
	// IgnoreSubnetETag makes subnets accept any If-Match: whether Azure honours it there is not
	// documented.
	IgnoreSubnetETag bool
	// SeparateSubnetETags gives each subnet an ETag of its own; otherwise a virtual network and its
	// subnets share one.
	SeparateSubnetETags bool
	// Probe finds out whether a probe of an Application Gateway arrives, and is answered; the text
	// says why not. Nil: the health of every server is Unknown.
	Probe func(context.Context, Probe) (Health, string)
}

// network is Microsoft.Network: virtual networks, subnets and their addresses, route tables,
// network interfaces, gateways and what else has a place in a subnet.
type network struct {
	kernel    *kernel
	opts      networkOptions
	instances instances

	// linked are who links to a resource, by its and their keys (links.go).
	linked map[string]map[string]arm.ID
	// inUse are the addresses taken in a subnet and by what, by the subnet's key.
	inUse map[string]*addresses
}

// newNetwork makes the service, and gives it its place in the kernel.
func newNetwork(k *kernel, opts networkOptions) *network {
	s := &network{kernel: k, opts: opts, linked: map[string]map[string]arm.ID{},
		inUse: map[string]*addresses{}}
	k.fabric = s
	k.add(service{
		types: s.types(), waits: s.waits(), newerFields: newerFields, index: s,
		prepare: s.probe,
		calls:   []special{s.effectiveCall, s.watcherCall, s.usageCall, s.gatewayCall},
	})
	return s
}

// added notes the links in a document that is stored.
func (s *network) added(r *resource) {
	for _, ref := range referencesIn(r.id, r.body) {
		target := ref.target()
		if s.linked[target.Key()] == nil {
			s.linked[target.Key()] = map[string]arm.ID{}
		}
		s.linked[target.Key()][ref.holder.Key()] = ref.holder
		s.kernel.store.touchAround(target)
	}
}

// removed forgets the links in a document that is no longer there.
func (s *network) removed(r *resource) {
	for _, ref := range referencesIn(r.id, r.body) {
		delete(s.linked[ref.target().Key()], ref.holder.Key())
		s.kernel.store.touchAround(ref.target())
	}
}

// instances are those of scale sets: their network interfaces are no documents.
type instances interface {
	// interfaceOf is the interface with an ID, or the primary one of an instance with an ID, and
	// the subnet that it is in.
	interfaceOf(id arm.ID) (nic, subnet arm.ID, known bool)
}

// types are the resource types of Microsoft.Network, and the virtual machine that a network
// interface can name.
func (s *network) types() []kind {
	return []kind{
		{name: arm.TypeVNet, tracked: true, facts: vnetFacts, settle: s.settleVNet,
			stored: s.storedVNet, show: s.showVNet, removable: s.vnetRemovable,
			removed: s.vnetRemoved, childRemoved: s.changedVNet, retagged: s.changedVNet,
			together: s.together},
		{name: arm.TypeSubnet, ignoresMatch: s.opts.IgnoreSubnetETag,
			together: s.together, extra: s.addressesKept, restored: s.restoreAddresses,
			settle: s.settleSubnet, stored: s.storedSubnet, show: s.showSubnet,
			removable: s.subnetRemovable},
		{name: typePeering, facts: peeringFacts, settle: s.settlePeering,
			stored: s.storedPeering, show: s.showPeering, removed: s.peeringRemoved,
			together: s.together},
		{name: arm.TypeRouteTable, tracked: true, settle: s.settleRouteTable, busy: beingUpdated,
			lists: []itemList{{name: "routes"}}},
		{name: arm.TypeGateway, tracked: true, facts: gatewayFacts(), settle: s.settleGateway,
			show: s.showGateway},
		{name: typeNIC, tracked: true, synchronous: true, facts: interfaceFacts,
			settle: s.settleInterface,
			lists:  []itemList{{name: "ipConfigurations", readOnly: true}}},
		{name: typeNSG, tracked: true, facts: securityGroupFacts, settle: s.settleSecurityGroup,
			show: s.showSecurityGroup, lists: []itemList{{name: "securityRules"},
				{name: "defaultSecurityRules", readOnly: true}}},
		{name: typeNAT, tracked: true, facts: natFacts, settle: s.settleNAT},
		{name: typePublicIP, tracked: true, facts: publicIPFacts, settle: s.settlePublicIP,
			show: s.showPublicIP},
		{name: typeEndpointPolicy, tracked: true},
		{name: typeFirewall, tracked: true, parts: true},
		{name: typeVPNGateway, tracked: true, parts: true},
		{name: typeBastion, tracked: true, parts: true},
		{name: typeLoadBalancer, tracked: true, parts: true,
			lists: []itemList{{name: "frontendIPConfigurations", readOnly: true}}},
		{name: typeWatcher, tracked: true},
		{name: typeVM, tracked: true},
	}
}

// waits are the seconds that Azure asks a client to wait after a PUT and after a DELETE.
func (s *network) waits() map[string][2]int {
	return map[string][2]int{
		arm.TypeRouteTable:             {2, 10},
		arm.TypeRouteTable + "/routes": {2, 10},
		typeNSG:                        {1, 10},
		typeNSG + "/securityRules":     {1, 10},
		typePublicIP:                   {1, 10},
		arm.TypeVNet:                   {3, 10},
		arm.TypeSubnet:                 {3, 10},
		typeNIC:                        {4, 4},
		typePeering:                    {10, 10},
		typeNAT:                        {10, 10},
		arm.TypeGateway:                {5, 10},
	}
}

// together are a virtual network, its subnets and its peerings: writing one is an operation on all.
// The resource that is written comes first.
func (s *network) together(r *resource) []*resource {
	all := []*resource{r}
	if !r.id.Is(arm.TypeVNet) {
		all = append(all, s.kernel.store.get(r.id.Parent()))
	}
	vnet := all[len(all)-1]
	all = append(all, s.kernel.store.list(arm.TypeSubnet, vnet.id)...)
	return append(all, s.kernel.store.list(typePeering, vnet.id)...)
}

// addressesKept are a subnet's addresses in use, as they are kept; restoreAddresses takes them
// back.
func (s *network) addressesKept(subnet *resource) json.RawMessage {
	if used := s.inUse[subnet.id.Key()]; used != nil && len(used.by) > 0 {
		return encode(used.by)
	}
	return nil
}

func (s *network) restoreAddresses(subnet *resource, kept json.RawMessage) error {
	if len(kept) == 0 {
		return nil
	}
	return json.Unmarshal(kept, &s.addressesOf(subnet.id).by)
}

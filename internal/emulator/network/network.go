// Package network is Microsoft.Network: networks, subnets, route tables, interfaces, security
// groups, gateways, effective routes.
package network

import (
	"context"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/names"
)

// Options are the settings of the network, as emulator.Options describes them.
type Options struct {
	RouteLimit                            int
	IgnoreSubnetETag, SeparateSubnetETags bool
	Probe                                 func(context.Context, Probe) (Health, string)
}

// Network is Microsoft.Network.
type Network struct {
	kernel    *kernel.Kernel
	Opts      Options
	Instances instances
	// Balanced are the IP configurations of the nodes behind a cluster's load balancer.
	Balanced func(balancer arm.ID) []arm.ID

	// Linked are the resources that link to a resource, by its key and theirs (links.go).
	Linked    map[string]map[string]arm.ID
	Addresses *Addresses

	peerings *peerings
	gateways *gateways
}

// New makes the service and adds it to the kernel.
func New(k *kernel.Kernel, opts Options) *Network {
	s := &Network{kernel: k, Opts: opts, Linked: map[string]map[string]arm.ID{},
		Addresses: &Addresses{kernel: k, inUse: map[string]*used{}}}
	s.peerings, s.gateways = &peerings{s}, &gateways{s}
	k.Fabric, k.Addresses = s, s.Addresses
	k.Add(kernel.Service{
		Types: s.types(), Names: allNames(), Waits: waits(), Index: s,
		Prepare: s.gateways.probe, Calls: []kernel.Special{s.effectiveCall},
	})
	return s
}

// Stored indexes the links of a stored document. The dynamic public IP addresses that it uses get
// their addresses.
func (s *Network) Stored(r, before *kernel.Resource) {
	if before != nil {
		s.Removed(before)
	}
	for _, ref := range ReferencesIn(r.ID, r.Body) {
		target := ref.Target()
		if s.Linked[target.Key()] == nil {
			s.Linked[target.Key()] = map[string]arm.ID{}
		}
		s.Linked[target.Key()][ref.Holder.Key()] = ref.Holder
		if r := s.kernel.Store.Get(target); r != nil && target.Is(arm.TypePublicIP) {
			s.giveAddress(r)
		}
		s.kernel.Store.TouchAround(target)
	}
	touchBalancers(s, r)
}

// Removed removes the links of a deleted document from the index.
func (s *Network) Removed(r *kernel.Resource) {
	for _, ref := range ReferencesIn(r.ID, r.Body) {
		delete(s.Linked[ref.Target().Key()], ref.Holder.Key())
		s.kernel.Store.TouchAround(ref.Target())
	}
	touchBalancers(s, r)
}

// instances are those of scale sets: their network interfaces are not documents.
type instances interface {
	// InterfaceOf is the interface with an ID, or the primary one of an instance with an ID, and
	// its subnet.
	InterfaceOf(id arm.ID) (nic, subnet arm.ID, known bool)
}

// types returns the resource types of Microsoft.Network.
func (s *Network) types() []kernel.Kind {
	kinds := []kernel.Kind{
		{Name: arm.TypeVNet, Tracked: true, Facts: vnetFacts, Newer: newerInVNet,
			Settle: s.settleVNet, Stored: s.storedVNet, Show: s.showVNet, Within: s.inVNet,
			Removable: s.vnetRemovable, Removed: s.peerings.vnetRemoved,
			ChildRemoved: s.changedVNet, Retagged: s.changedVNet, Together: s.together},
		{Name: arm.TypeSubnet, IgnoresMatch: s.Opts.IgnoreSubnetETag, Newer: newerInSubnet,
			Together: s.together, Extra: s.Addresses.kept, Restored: s.Addresses.restore,
			Settle: s.settleSubnet, Stored: s.storedSubnet, Show: s.showSubnet,
			Removable: s.subnetRemovable, ReadOnly: []string{"ipConfigurations",
				"ipConfigurationProfiles", "privateEndpoints", "purpose",
				"resourceNavigationLinks", "serviceAssociationLinks"}},
		{Name: TypePeering, Facts: peeringFacts, Settle: s.peerings.settlePeering,
			Stored: s.peerings.storedPeering, Show: s.peerings.showPeering,
			Removed: s.peerings.peeringRemoved, Together: s.together,
			ReadOnly: []string{"peeringSyncLevel", "remoteVirtualNetworkAddressSpace",
				"routeServiceVips", "peerCompleteVnets"}},
		{Name: arm.TypeRouteTable, Tracked: true, Settle: s.settleRouteTable, Busy: beingUpdated,
			Lists: []kernel.ItemList{{Name: "routes"}}},
		{Name: arm.TypeGateway, Tracked: true, Facts: gatewayFacts(),
			Busy: acceptsWrites, Settle: s.gateways.settleGateway, Show: s.gateways.showGateway,
			Within: s.gateways.inGateway},
		{Name: arm.TypeInterface, Tracked: true, Synchronous: samePools, Facts: interfaceFacts,
			Settle: s.settleInterface, Show: s.showInterface,
			Lists: []kernel.ItemList{{Name: "ipConfigurations", ReadOnly: true}}},
		{Name: arm.TypeSecurityGroup, Tracked: true, Facts: securityGroupFacts,
			Settle: s.settleSecurityGroup, Show: showSecurityGroup,
			ReadOnly: []string{"defaultSecurityRules"}, Lists: []kernel.ItemList{
				{Name: "securityRules"}, {Name: "defaultSecurityRules", ReadOnly: true}}},
		{Name: arm.TypeNATGateway, Tracked: true, Facts: natFacts, Settle: settleNAT},
		{Name: arm.TypePublicIP, Tracked: true, Facts: publicIPFacts, Settle: s.settlePublicIP,
			Show: s.showPublicIP, ReadOnly: []string{"ipAddress"}},
		{Name: TypeEndpointPolicy, Tracked: true},
		{Name: arm.TypeFirewall, Tracked: true, Parts: true},
		{Name: TypeVPNGateway, Tracked: true, Parts: true},
		{Name: TypeBastion, Tracked: true, Parts: true},
		{Name: arm.TypeLoadBalancer, Tracked: true, Facts: balancerFacts(), Settle: settleBalancer,
			Show:  s.showBalancer,
			Lists: []kernel.ItemList{{Name: "frontendIPConfigurations", ReadOnly: true}}},
		{Name: TypeWatcher, Tracked: true, Within: s.inWatcher},
		{Name: TypePrivateZone, Tracked: true, Facts: privateZoneFacts,
			Stored: zones{s}.storedPrivateZone, Show: zones{s}.showPrivateZone,
			Removable: zones{s}.linksFirst},
		{Name: TypePrivateZoneLink, Tracked: true, Settle: zones{s}.settlePrivateZoneLink,
			ReadOnly: []string{"virtualNetworkLinkState"}},
		{Name: TypePrivateEndpoint, Tracked: true, Facts: privateEndpointFacts,
			Settle: endpoints{s}.settlePrivateEndpoint, Stored: endpoints{s}.storedPrivateEndpoint,
			Removed: endpoints{s}.privateEndpointRemoved},
	}
	kinds = append(kinds, privateRecords()...)
	for i := range kinds {
		kinds[i].ReadOnly = append(backNames(kinds[i].Name), kinds[i].ReadOnly...)
	}
	return kinds
}

// waits returns the seconds that Azure asks a client to wait after a PUT and after a DELETE, where
// they are not the usual ones.
func waits() map[string][2]int {
	return map[string][2]int{
		arm.TypeRouteTable:                       {2, 10},
		arm.TypeRouteTable + "/routes":           {2, 10},
		arm.TypeSecurityGroup:                    {1, 10},
		arm.TypeSecurityGroup + "/securityRules": {1, 10},
		arm.TypePublicIP:                         {1, 10},
		arm.TypeVNet:                             {3, 10},
		arm.TypeSubnet:                           {3, 10},
		arm.TypeInterface:                        {4, 4},
		arm.TypeGateway:                          {5, 10},
	}
}

// together returns a virtual network, its subnets and its peerings: a write to one is an operation
// on all. The written resource comes first.
func (s *Network) together(r *kernel.Resource) []*kernel.Resource {
	all := []*kernel.Resource{r}
	if !r.ID.Is(arm.TypeVNet) {
		all = append(all, s.kernel.Store.Get(r.ID.Parent()))
	}
	vnet := all[len(all)-1]
	all = append(all, s.kernel.Store.List(arm.TypeSubnet, vnet.ID)...)
	return append(all, s.kernel.Store.List(TypePeering, vnet.ID)...)
}

// allNames returns all properties that this package knows. Azure spells some in another way than
// its specification, as links do.
func allNames() string {
	out := []string{names.Of("network"), privateZoneNames, "autoscaleConfiguration", "managedBy",
		"routeServiceVips", "peerCompleteVnets"}
	add := func(path string) {
		out = append(out, strings.Split(strings.ReplaceAll(path, "[]", ""), ".")...)
	}
	for _, l := range Links {
		add(l.path)
	}
	return strings.Join(out, " ")
}

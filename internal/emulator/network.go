package emulator

import "routekeeper.dev/routekeeper/internal/arm"

// network is Microsoft.Network: virtual networks, subnets and their addresses, route tables,
// network interfaces, gateways and what else has a place in a subnet.
type network struct {
	kernel *kernel
	// compute knows the network interfaces of scale sets' instances.
	compute *compute
}

// types are the resource types of Microsoft.Network, and the virtual machine that a network
// interface can name.
func (s *network) types() []kind {
	return []kind{
		{name: arm.TypeVNet, tracked: true, facts: vnetFacts, settle: s.settleVNet,
			stored: s.storedVNet, show: s.showVNet, removable: s.vnetRemovable,
			removed: s.vnetRemoved},
		{name: arm.TypeSubnet, settle: s.settleSubnet, stored: s.storedSubnet, show: s.showSubnet,
			removable: s.subnetRemovable},
		{name: typePeering, facts: peeringFacts, settle: s.settlePeering,
			stored: s.storedPeering, show: s.showPeering, removed: s.peeringRemoved},
		{name: arm.TypeRouteTable, tracked: true, settle: s.settleRouteTable},
		{name: arm.TypeGateway, tracked: true, facts: gatewayFacts(), settle: s.settleGateway,
			show: s.showGateway},
		{name: typeNIC, tracked: true, synchronous: true, facts: interfaceFacts,
			settle: s.settleInterface},
		{name: typeNSG, tracked: true, facts: securityGroupFacts, settle: s.settleSecurityGroup,
			show: s.showSecurityGroup},
		{name: typeNAT, tracked: true, facts: natFacts, settle: s.settleNAT},
		{name: typePublicIP, tracked: true, facts: publicIPFacts, settle: s.settlePublicIP,
			show: s.showPublicIP},
		{name: typeEndpointPolicy, tracked: true},
		{name: typeFirewall, tracked: true},
		{name: typeVPNGateway, tracked: true},
		{name: typeBastion, tracked: true},
		{name: typeLoadBalancer, tracked: true},
		{name: typeWatcher, tracked: true},
		{name: typeVM, tracked: true},
		{name: typePrivateZone, tracked: true},
		{name: typePrivateZoneLink, tracked: true, settle: s.settlePrivateZoneLink},
		{name: typePrivateRecord, immediate: true, settle: s.settlePrivateRecord},
		{name: typePrivateEndpoint, tracked: true, facts: privateEndpointFacts,
			settle: s.settlePrivateEndpoint,
			stored: s.storedPrivateEndpoint, removed: s.privateEndpointRemoved},
	}
}

// calls are the calls of Microsoft.Network that are no plain reads and writes of a document.
func (s *network) calls() []special {
	return []special{s.effectiveCall, s.watcherCall, s.usageCall, s.gatewayCall}
}

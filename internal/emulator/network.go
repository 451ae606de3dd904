package emulator

import "routekeeper.dev/routekeeper/internal/arm"

// networkKinds are the resource types of Microsoft.Network, and the virtual machine that a network
// interface can name.
func (e *Emulator) networkKinds() []kind {
	return []kind{
		{name: arm.TypeVNet, tracked: true, facts: vnetFacts, settle: e.settleVNet,
			stored: e.storedVNet, show: e.showVNet, removable: e.vnetRemovable,
			removed: e.vnetRemoved},
		{name: arm.TypeSubnet, settle: e.settleSubnet, stored: e.storedSubnet, show: e.showSubnet,
			removable: e.subnetRemovable},
		{name: typePeering, facts: peeringFacts, settle: e.settlePeering,
			stored: e.storedPeering, show: e.showPeering, removed: e.peeringRemoved},
		{name: arm.TypeRouteTable, tracked: true, settle: e.settleRouteTable},
		{name: arm.TypeGateway, tracked: true, facts: gatewayFacts(), settle: e.settleGateway,
			show: e.showGateway},
		{name: typeNIC, tracked: true, synchronous: true, facts: interfaceFacts,
			settle: e.settleInterface},
		{name: typeNSG, tracked: true, facts: securityGroupFacts, settle: e.settleSecurityGroup,
			show: e.showSecurityGroup},
		{name: typeNAT, tracked: true, facts: natFacts, settle: e.settleNAT},
		{name: typePublicIP, tracked: true, facts: publicIPFacts, settle: e.settlePublicIP,
			show: e.showPublicIP},
		{name: typeEndpointPolicy, tracked: true},
		{name: typeFirewall, tracked: true},
		{name: typeVPNGateway, tracked: true},
		{name: typeBastion, tracked: true},
		{name: typeLoadBalancer, tracked: true},
		{name: typeWatcher, tracked: true},
		{name: typeVM, tracked: true},
	}
}

// networkCalls are the calls of Microsoft.Network that are no plain reads and writes of a document.
func (e *Emulator) networkCalls() []special {
	return []special{e.effectiveCall, e.watcherCall, e.usageCall, e.gatewayCall}
}

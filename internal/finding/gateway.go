package finding

// Codes of gateways and egress.
const (
	GatewayDefaultRoute  Code = "gateway-default-route"
	GatewaySharesTable   Code = "gateway-shares-table"
	GatewayRoutesMissing Code = "gateway-routes-missing"
	GatewayNoTable       Code = "gateway-no-table"
	PeeringMissing       Code = "peering-missing"
	PeeringForwarding    Code = "peering-forwarding"
	EgressRouteMissing   Code = "egress-route-missing"
	EgressHopGone        Code = "egress-hop-gone"
	EgressRouteLost      Code = "egress-route-lost"
	EgressBypassed       Code = "egress-bypassed"
	NextHopUnreachable   Code = "next-hop-unreachable"
	EgressDiffers        Code = "egress-differs"

	EgressRulesMissing    Code = "egress-rules-missing"
	EgressFirewallUnknown Code = "egress-firewall-unknown"
	GatewayMissing        Code = "gateway-missing"
	GatewayDiffers        Code = "gateway-differs"
	GatewayNotV2          Code = "gateway-not-v2"
	GatewayStopped        Code = "gateway-stopped"
)

// gateways are the codes of gateways and egress.
var gateways = []Description{
	{GatewayDefaultRoute, Error, "An Application Gateway's default route does not lead to the " +
		"internet",
		"A classic Application Gateway v2 is managed over the internet, so 0.0.0.0/0 on " +
			"its subnet must lead there. Azure refuses such a route only while it checks the " +
			"gateway. If the route got there another way (the table was changed first, or " +
			"associated later), the gateway fails its next update and loses the health of its " +
			"backends. A gateway deployed with network isolation may have such a route.",
		"Remove the route from the gateway's table: the system route 0.0.0.0/0 leads to " +
			"the internet. Or deploy the gateway with network isolation."},
	{GatewaySharesTable, Error, "An Application Gateway shares the nodes' table and its default " +
		"route",
		"The default route that sends the nodes' traffic through a firewall also applies " +
			"to the gateway's subnet, and a classic gateway does not work with it. A gateway " +
			"with network isolation does: then this is info, because the gateway's own traffic " +
			"also takes the firewall.",
		"Give the gateway's subnet its own table with the pod routes and no default route, " +
			"and make it a target."},
	{GatewayRoutesMissing, Error, "The table of an Application Gateway lacks pod routes",
		"The gateway sends to pod addresses directly. With kubenet only these routes lead " +
			"to a pod's node: requests to pods on the missing nodes fail with 502 and 504.",
		"Make the table a target, so that routekeeper manages its pod routes."},
	{GatewayNoTable, Error, "The subnet of a cluster's Application Gateway has no route table",
		"An ingress controller makes the gateway send to pod addresses. With kubenet only " +
			"a route table leads there: the gateway reaches no pod, and every request fails " +
			"with 502 or 504. That the gateway serves the cluster follows from the cluster's " +
			"ingress add-on, or from an unassociated table that holds the pod routes.",
		"Associate a table with the gateway's subnet and make it a target."},
	{PeeringMissing, Error, "The networks of a gateway and the nodes are not peered",
		"A next hop must be in the same network or a directly peered one, so the gateway " +
			"reaches no node and no pod.",
		"Peer the two networks in both directions, with access allowed."},
	{PeeringForwarding, Warning, "A peering refuses forwarded traffic from pods",
		"A pod answers the gateway with its own address, which is outside the nodes' " +
			"network. To the gateway's network this is forwarded traffic, and its side of the " +
			"peering refuses it. Azure documents that the packets are dropped, but they have " +
			"been seen to arrive, so this is a warning.",
		"Set allowForwardedTraffic on the peering of the gateway's network."},
	{EgressRouteMissing, Error, "A cluster with user-defined routing has no egress",
		"With outboundType userDefinedRouting AKS creates no egress. The node subnet has no " +
			"default route, and nothing else gives packets a public address: nodes cannot pull " +
			"images or reach their API server. If a virtual network gateway may have learned a " +
			"default route by BGP, this is a warning.",
		"Add 0.0.0.0/0 to the node subnet's table, and associate the table with the " +
			"subnet. Without a config, the finding names the table or next hop that it had, as " +
			"the activity log, a history or other subnets show it."},
	{EgressBypassed, Error, "The egress of a subnet bypasses the declared way",
		"Packets reach the internet, but not through the firewall or NAT gateway that a " +
			"config declares, or that outboundType userDefinedRouting calls for. A route comes " +
			"before a NAT gateway, that before public IP addresses, these before a load " +
			"balancer's outbound rules, and default outbound access is last (nat-overview): the " +
			"finding says which of them packets take. If a virtual network gateway may have " +
			"learned a default route by BGP, this is a warning.",
		"Give the subnet back what it lost. A private subnet (defaultOutboundAccess: false) " +
			"without a NAT gateway drops packets rather than let them pass."},
	{EgressRouteLost, Error, "A table lacks a route that spec.egress declares",
		"A route of spec.egress is missing from its table or leads elsewhere. Packets are " +
			"dropped or leave another way, which the cluster's state says. The message says why " +
			"routekeeper run does not put it back.",
		"If spec.egress only observes, routekeeper promote sets it to Enforce; otherwise do " +
			"what the message says."},
	{EgressHopGone, Error, "The firewall of a cluster's egress is gone or has another address",
		"spec.egress names an Azure Firewall that does not exist, is deallocated, or does not " +
			"have the next hop that the config declares. Packets on the declared routes are " +
			"dropped. routekeeper writes no route to an address that the firewall does not " +
			"have, and leaves a route alone that leads to its present one.",
		"Create or start the firewall, or set nextHopIPAddress to the address in the message."},
	{NextHopUnreachable, Error, "The next hop of a default route cannot be reached",
		"A next hop must be directly reachable, in the same network or a peered one. " +
			"Behind a second peering, a gateway or a hub it is not, and packets on this route " +
			"are dropped (virtual-networks-udr-overview).",
		"Peer the network of the next hop directly, or point the route to an appliance in " +
			"a peered network."},
	{EgressRulesMissing, Warning, "The firewall lacks rules that AKS requires",
		"The nodes' default route leads to an Azure Firewall that does not allow every " +
			"destination that AKS requires for the cluster's features. Nodes fail to start, " +
			"images are not pulled, or an add-on or extension does not work.",
		"Add the rule that the finding names, or allow what its evidence lists another way."},
	{EgressFirewallUnknown, Info, "The nodes' egress leads to an unknown appliance",
		"The nodes' default route leads to an appliance that is no Azure Firewall, or to one " +
			"that could not be read. The evidence lists the destinations that AKS requires for " +
			"the cluster's features.",
		"Compare the list with the appliance's rules."},
	{EgressDiffers, Warning, "The nodes' egress differs from the cluster's outboundType",
		"With outboundType loadBalancer or a NAT gateway, AKS expects egress through that " +
			"resource. A default route in the nodes' table takes precedence. Services with a " +
			"public address then receive through the load balancer and answer through the " +
			"route's next hop, and a firewall drops such answers (limit-egress-traffic). With " +
			"outboundType userAssignedNATGateway the node subnet needs the NAT gateway, or the " +
			"nodes may have no egress at all.",
		"If the route is intended, set outboundType userDefinedRouting. Otherwise remove " +
			"the route. Put a missing NAT gateway back on the node subnet."},
	{GatewayMissing, Error, "The Application Gateway of the ingress add-on does not exist",
		"The ingress add-on (AGIC) writes its rules into one Application Gateway. Without " +
			"it the cluster's ingresses cannot be reached, and the add-on's pod keeps failing.",
		"Create the gateway again under the same ID, or disable the add-on and enable it " +
			"with another gateway."},
	{GatewayDiffers, Error, "The ingress add-on uses another Application Gateway than configured",
		"The cluster names the configured gateway (applicationGatewayId) and the one in " +
			"use (effectiveApplicationGatewayId). If they differ, an update of the add-on " +
			"failed or has not ended, and the rules of the cluster's ingresses are on the " +
			"wrong gateway.",
		"Disable the add-on, and enable it with the intended gateway."},
	{GatewayNotV2, Error, "The Application Gateway of the ingress add-on is not v2",
		"The ingress add-on supports only the SKUs Standard_v2 and WAF_v2 " +
			"(ingress-controller-overview). Application Gateway v1 is retired (v1-retirement).",
		"Create a gateway with a v2 SKU, and enable the add-on with it."},
	{GatewayStopped, Warning, "The Application Gateway of the ingress add-on is stopped",
		"A stopped gateway accepts no traffic: the cluster's ingresses cannot be reached.",
		"Start it: az network application-gateway start."},
}

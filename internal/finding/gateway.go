package finding

// The codes of gateways and the way out.
const (
	GatewayDefaultRoute  Code = "gateway-default-route"
	GatewaySharesTable   Code = "gateway-shares-table"
	GatewayRoutesMissing Code = "gateway-routes-missing"
	GatewayNoTable       Code = "gateway-no-table"
	PeeringMissing       Code = "peering-missing"
	PeeringForwarding    Code = "peering-forwarding"
	EgressRouteMissing   Code = "egress-route-missing"
	NextHopUnreachable   Code = "next-hop-unreachable"
	EgressDiffers        Code = "egress-differs"
	GatewayMissing       Code = "gateway-missing"
	GatewayDiffers       Code = "gateway-differs"
	GatewayNotV2         Code = "gateway-not-v2"
	GatewayStopped       Code = "gateway-stopped"
)

// gateways are the codes of gateways and the way out.
var gateways = []Description{
	{GatewayDefaultRoute, Error, "An Application Gateway's default route does not lead to the internet",
		"A classic Application Gateway v2 is managed over the internet: on its subnet 0.0.0.0/0 may only lead there. Azure refuses such a route while the gateway is looked at, and where it came about all the same (the table was changed before, or put on the subnet) the gateway fails its next update and loses its backends' health. One that is deployed with network isolation may have it.",
		"Remove the route from the gateway's table: the system's own 0.0.0.0/0 leads to the internet. Or deploy the gateway with network isolation."},
	{GatewaySharesTable, Error, "An Application Gateway shares the nodes' table, and their default route with it",
		"The route that sends the nodes' traffic through a firewall holds for the gateway's subnet as well, where a classic gateway does not work with it. A gateway with network isolation does, and then this is only worth knowing (info): its own traffic takes the firewall, too.",
		"Give the gateway's subnet a table of its own that holds the pod routes and no default route, and have it kept as a target."},
	{GatewayRoutesMissing, Error, "The table of an Application Gateway lacks pod routes",
		"The gateway sends to pod addresses directly, and on kubenet nothing but these routes tells it on which node a pod is: requests to the pods of the nodes that are missing end in 502 and 504.",
		"Make the table a target, so that it is kept."},
	{GatewayNoTable, Error, "The subnet of a cluster's Application Gateway has no route table",
		"An ingress controller lets the gateway send to pod addresses, which on kubenet are routed by a table only: it reaches no pod, and every request ends in 502 or 504. That the gateway is meant to is told by the cluster's ingress add-on, or by a table with its pod routes that is on no subnet any more.",
		"Put a table on the gateway's subnet and make it a target."},
	{PeeringMissing, Error, "The networks of a gateway and of the nodes are not peered",
		"A next hop has to be in the same network or a directly peered one, so the gateway reaches no node and no pod.",
		"Peer the two networks, in both directions, with access allowed."},
	{PeeringForwarding, Warning, "Answers of pods cross a peering that lets in no forwarded traffic",
		"A pod answers the gateway with its own address, which is not of the nodes' network: to the gateway's network this is traffic that the nodes' network only forwards, and its side of the peering says not to let such in. Azure documents that it is dropped; it has been seen to come through all the same, so this is a warning.",
		"Set allowForwardedTraffic on the peering of the gateway's network."},
	{EgressRouteMissing, Error, "A cluster whose way out is its route table has no default route",
		"With outboundType userDefinedRouting AKS makes no other way out: nodes cannot pull images or reach their API server, or leave past the firewall that was meant for them. Where a virtual network gateway may have learned a default route by BGP, it is a warning.",
		"Add 0.0.0.0/0 to the table of the node subnet, and the table to the subnet."},
	{NextHopUnreachable, Error, "The next hop of a default route is out of reach",
		"A next hop has to be reached directly, in the same network or a peered one; behind a second peering, a gateway or a hub it is not, and packets that take the route are dropped (virtual-networks-udr-overview).",
		"Peer the network of the next hop directly, or lead the route to an appliance in a network that is."},
	{EgressDiffers, Warning, "The nodes leave another way than the cluster's outboundType says",
		"With outboundType loadBalancer or a NAT gateway, AKS expects the nodes to leave that way. " +
			"A default route in their table takes precedence. Services with a public address then " +
			"receive by the load balancer and answer by the route's next hop, and a firewall drops " +
			"such answers (limit-egress-traffic). With outboundType userAssignedNATGateway the node " +
			"subnet needs the NAT gateway, or the nodes may not leave at all.",
		"Set outboundType userDefinedRouting, if the route is meant; else remove the route. Put " +
			"the NAT gateway back on the node subnet."},
	{GatewayMissing, Error, "The Application Gateway of the ingress add-on does not exist",
		"The ingress add-on (AGIC) writes its rules into one Application Gateway. Without it " +
			"the cluster's ingresses cannot be reached, and the add-on's pod keeps failing.",
		"Create the gateway again under the same ID, or turn the add-on off and on again with " +
			"another gateway."},
	{GatewayDiffers, Error, "The ingress add-on drives another Application Gateway than it was told to",
		"The cluster's document names the gateway that the add-on was given " +
			"(applicationGatewayId), and the one that it drives (effectiveApplicationGatewayId). Where " +
			"they differ, an update of the add-on has failed or has not ended, and the rules of the " +
			"cluster's ingresses are on the wrong gateway.",
		"Turn the add-on off and on again with the gateway that is meant."},
	{GatewayNotV2, Error, "The Application Gateway of the ingress add-on is not a v2",
		"The ingress add-on supports only the SKUs Standard_v2 and WAF_v2 " +
			"(ingress-controller-overview). Application Gateway v1 is retired (v1-retirement).",
		"Create a gateway with a v2 SKU, and enable the add-on with it."},
	{GatewayStopped, Warning, "The Application Gateway of the ingress add-on is stopped",
		"A stopped gateway takes no traffic: the cluster's ingresses cannot be reached.",
		"Start it: az network application-gateway start."},
}

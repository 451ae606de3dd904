package finding

// The codes of the routes in a cluster's own table, and of the nodes they lead to.
const (
	NodeWithoutRoute   Code = "node-without-route"
	RouteUnnoticed     Code = "missing-route-unnoticed"
	RouteHalf          Code = "dual-stack-half"
	RouteToGoneNode    Code = "route-to-gone-node"
	WrongHop           Code = "wrong-next-hop"
	HopNotNode         Code = "next-hop-not-a-node"
	ClaimedTwice       Code = "pod-cidr-claimed-twice"
	RouteInPodCIDR     Code = "route-in-pod-cidr"
	RouteShadows       Code = "route-shadows-pods"
	ForwardingOff      Code = "ip-forwarding-off"
	TableFilling       Code = "table-filling"
	TableFull          Code = "table-full"
	NetworkUnavailable Code = "network-unavailable"
	ClusterStopped     Code = "cluster-stopped"
	KubernetesUnread   Code = "kubernetes-unread"
	NodesDisagree      Code = "nodes-disagree"
	NodeNotReady       Code = "node-not-ready"
)

var routes = []Description{
	{NodeWithoutRoute, Error, "A node has no route in the cluster's table",
		"Pods on the node are not reached from other nodes. run reports a node that had a " +
			"route and lost it at the next check that reads the same table, and one that never " +
			"had one after five minutes: a new machine starts, joins and waits for the cloud " +
			"provider. doctor waits three minutes from when the node came, where Kubernetes " +
			"shows when. Where nothing shows how old a node is, and while an operation on the " +
			"cluster runs, it is only a warning: so sync reports it.",
		"See why the cloud provider does not write it: its identity's rights on the table, locks, policies, and the failed writes in the activity log."},
	{RouteUnnoticed, Error, "A node has no route, and Kubernetes believes it has",
		"The node's condition NetworkUnavailable is False, so pods are put on it, and they " +
			"are not reached from other nodes. A cloud provider that takes a refused write for " +
			"a success leaves it so (cloud-provider-azure#11003). Its age does not matter: " +
			"doctor needs only a table that was read after the condition changed.",
		"See in the activity log what refuses its writes; it tries again once its copy of the table is too old."},
	{RouteHalf, Error, "A node has the route of one address family only",
		"In a dual-stack cluster each node needs an IPv4 and an IPv6 route. Pods on the node are not reached from other nodes by the family that is missing.",
		"See why the cloud provider does not write it: the failed writes in the activity log, and the room in the table."},
	{RouteToGoneNode, Warning, "A route leads to a node that is gone",
		"No node has the route's pod CIDR, or nothing holds its next hop. It does no harm until the pod CIDR is given to another node, but it takes room, and the cloud provider would have deleted it.",
		"See whether the cloud provider can write the table; then delete what stays."},
	{WrongHop, Error, "A pod route leads to another address than the node's",
		"Pods on the node are not reached from other nodes. The cloud provider compares nodes and prefixes, not next hops, and never repairs it.",
		"Delete the route: the cloud provider writes it anew."},
	{HopNotNode, Warning, "A pod route leads to a machine that is no node",
		"The next hop is in a node subnet, and a machine that is not of the cluster's pools holds it. If the prefix is a node's, its pods are not reached.",
		"Delete the route: the cloud provider writes it anew if a node needs it."},
	{ClaimedTwice, Error, "Two routes claim one pod CIDR",
		"Both lead to nodes, and the longer prefix wins: what belongs to the other node is not reached.",
		"Delete the wrong one."},
	{RouteInPodCIDR, Warning, "A route in the cluster's table lies inside its pod CIDR",
		"The cloud provider deletes every route inside the pod CIDR that no node matches, whatever its name. Until then it can get in the way of a node that is given its prefix.",
		"Remove it, and route only addresses outside the pod CIDR in this table."},
	{RouteShadows, Error, "A route is more specific than a pod route in the cluster's own table",
		"Packets to some pods of a node go where this route leads instead. Where that is an appliance, which may pass them on, it is only a warning. The cloud provider deletes such routes when it can.",
		"Remove it."},
	{ForwardingOff, Error, "IP forwarding is off on a node's network interface",
		"Azure drops what the interface receives for other addresses than its own: the node's pods are not reached.",
		"Set enableIPForwarding on the interface, or in the scale set's model, and update the instances."},
	{TableFilling, Warning, "The cluster's table is filling up",
		"A new node without room for its route has no pod network. A node takes one route, in a dual-stack cluster two.",
		"Remove routes that nobody needs, lower the autoscaler's maximum, or move on to Azure CNI Overlay, which needs no routes."},
	{TableFull, Warning, "The cluster's table is full",
		"No route can be added: a new node gets no pod network. Where nodes lack their " +
			"route already, it is an error, at once: the cloud provider does not tell " +
			"Kubernetes.",
		"Remove routes that nobody needs, or nodes; or move on to Azure CNI Overlay, which needs no routes."},
	{NetworkUnavailable, Warning, "A node's network is marked unavailable",
		"Kubernetes puts no new pods on the node (condition NetworkUnavailable). With the reason NoRouteCreated its cloud provider could not write the route; where the table itself cannot be seen, that is an error.",
		"See the condition's message, and the failed writes of the table in the activity log."},
	{ClusterStopped, Info, "The cluster is stopped",
		"It has no nodes, and its API does not answer: what is said of its routes and addresses is how it was left. Nothing of its is stale.",
		"Start it: az aks start."},
	{KubernetesUnread, Info, "The cluster's own API could not be read, or not in full",
		"What only Kubernetes knows, such as which pod CIDR belongs to which node, and where pods are, is not looked at. Everything else is.",
		"See the message; or save kubectl get nodes -o json and kubectl get pods -A -o json where it can be reached, for --from-nodes and --from-pods."},
	{NodesDisagree, Warning, "Kubernetes and Azure see different nodes",
		"A node without a network interface is gone, or Kubernetes knows it by another address. A machine that is no node in Kubernetes has not joined, which alone is for your information.",
		"See kubectl get nodes -o wide, and the instances of the pool's scale set."},
	{NodeNotReady, Warning, "A node is not Ready",
		"Kubernetes puts no new pods on it, and after five minutes it moves the pods that are " +
			"there. The causes are many; a node that cannot reach its API server, because its " +
			"egress is broken, is one. A node counts once it has not been Ready for three minutes.",
		"See kubectl describe node, and how the node reaches its API server."},
}

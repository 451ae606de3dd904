package finding

// Codes of the routes in a cluster's route table, and of the nodes they lead to.
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
	NodesUnread        Code = "nodes-unread"
	KubeloginMissing   Code = "kubelogin-missing"
	OverlayRoutes      Code = "overlay-routes"
)

var routes = []Description{
	{NodeWithoutRoute, Error, "A node has no route",
		"Pods on other nodes cannot reach pods on this node. run reports a lost route at the " +
			"next check that still misses it. It reports a node that never had a route after " +
			"five minutes, because a new machine starts, joins and waits for the cloud provider. " +
			"doctor waits three minutes after the node's creation, if Kubernetes shows that " +
			"time. If the node's age is unknown, as it is to sync, or while an operation runs on " +
			"the cluster, this is a warning. With source Nodes, the nodes themselves are " +
			"known: a node that has been Ready for a minute without its route in a target, or in " +
			"the cluster's route table, is an error.",
		"Find out why the cloud provider does not write the route: check its identity's " +
			"rights on the table, locks, policies, and failed writes in the activity log."},
	{RouteUnnoticed, Error, "A node has no route, but Kubernetes reports its network as available",
		"The node's condition NetworkUnavailable is False, so pods are scheduled on it, but pods " +
			"on other nodes cannot reach them. A cloud provider that treats a refused write as a " +
			"success leaves the node in this state (cloud-provider-azure#11003). The node's age " +
			"does not matter: doctor needs only a table read after the condition changed.",
		"Check the activity log for what refuses the cloud provider's writes. It retries " +
			"once its cached copy of the table expires."},
	{RouteHalf, Error, "A node has a route for one address family only",
		"In a dual-stack cluster each node needs an IPv4 and an IPv6 route. Pods on other " +
			"nodes cannot reach pods on this node by the missing family.",
		"Find out why the cloud provider does not write the route: check failed writes in " +
			"the activity log, and the room in the table."},
	{RouteToGoneNode, Warning, "A route leads to a node that is gone",
		"No node has the route's pod CIDR, or no machine has its next hop. The route does " +
			"no harm until another node gets the pod CIDR, but it takes room, and the cloud " +
			"provider should have deleted it.",
		"Check whether the cloud provider can write the table. Then delete the routes that " +
			"stay."},
	{WrongHop, Error, "A pod route leads to the wrong address",
		"Pods on other nodes cannot reach pods on this node. The cloud provider compares " +
			"nodes and prefixes, not next hops, and never repairs the route.",
		"Delete the route: the cloud provider writes it again."},
	{HopNotNode, Warning, "A pod route leads to a machine that is not a node",
		"The next hop is in a node subnet, but belongs to a machine outside the cluster's " +
			"pools. If the prefix is a node's, pods on that node cannot be reached.",
		"Delete the route: the cloud provider writes it again if a node needs it."},
	{ClaimedTwice, Error, "Two routes claim one pod CIDR",
		"Both routes lead to nodes, and the longer prefix wins: pods on the other node " +
			"cannot be reached.",
		"Delete the wrong route."},
	{RouteInPodCIDR, Warning, "A route in the cluster's route table lies inside its pod CIDR",
		"The cloud provider deletes every route inside the pod CIDR that matches no node, " +
			"whatever its name. Until then the route can break a node that gets its prefix.",
		"Remove the route, and route only addresses outside the pod CIDR in this table."},
	{RouteShadows, Error, "A route is more specific than a pod route in the cluster's route table",
		"Packets to some pods of a node follow this route instead. If it leads to an " +
			"appliance, which may forward the packets, this is a warning. The cloud provider " +
			"deletes such routes when it can.",
		"Remove the route."},
	{ForwardingOff, Error, "IP forwarding is off on a node's network interface",
		"Azure drops packets that the interface receives for other addresses than its own: " +
			"pods on the node cannot be reached.",
		"Set enableIPForwarding on the interface, or in the scale set's model, and update " +
			"the instances."},
	{TableFilling, Warning, "The cluster's route table is nearly full",
		"A new node without room for its route has no pod network. Each node takes one " +
			"route, or two in a dual-stack cluster.",
		"Remove unused routes, lower the autoscaler's maximum, or migrate to Azure CNI " +
			"Overlay, which needs no routes."},
	{TableFull, Warning, "The cluster's route table is full",
		"No route can be added: a new node gets no pod network. If nodes already lack " +
			"their route, this is an error at once, because the cloud provider does not tell " +
			"Kubernetes.",
		"Remove unused routes or nodes, or migrate to Azure CNI Overlay, which needs no " +
			"routes."},
	{NetworkUnavailable, Warning, "A node's network is marked unavailable",
		"Kubernetes schedules no new pods on the node (condition NetworkUnavailable). The " +
			"reason NoRouteCreated means that the cloud provider could not write the route; if " +
			"the table itself cannot be read, this is an error.",
		"Check the condition's message, and failed writes of the table in the activity " +
			"log."},
	{ClusterStopped, Info, "The cluster is stopped",
		"The cluster has no nodes, and its API does not answer. What is reported of its " +
			"routes and addresses is the state before it stopped. None of its routes counts as " +
			"stale.",
		"Start it: az aks start."},
	{KubernetesUnread, Info, "The Kubernetes API could not be read, or only in part",
		"Facts that only Kubernetes has are not checked, such as which pod CIDR belongs to " +
			"which node, and where pods run. Everything else is checked.",
		"Follow the message. Or, where the API can be reached, save kubectl get nodes -o " +
			"json and kubectl get pods -A -o json, and pass the files with --from-nodes and " +
			"--from-pods."},
	{NodesDisagree, Warning, "Kubernetes and Azure report different nodes",
		"A node without a network interface is gone, or Kubernetes knows it by another " +
			"address. A machine that is not a node in Kubernetes has not joined; that alone is " +
			"info.",
		"Check kubectl get nodes -o wide, and the instances of the pool's scale set."},
	{NodeNotReady, Warning, "A node is not Ready",
		"Kubernetes schedules no new pods on the node, and moves its pods after five " +
			"minutes. There are many causes; one is a node that cannot reach its API server " +
			"because its egress is broken. A node is reported once it has not been Ready for " +
			"three minutes.",
		"Check kubectl describe node, and how the node reaches its API server."},
	{NodesUnread, Error, "The nodes of a cluster with source Nodes cannot be read",
		"The pod routes come from the nodes, and the Kubernetes API does not show them. So no " +
			"route of the cluster is added, changed or deleted in its targets, and a new node " +
			"gets no route. Lost associations are still repaired. The message says since when. " +
			"For a stopped cluster this is info.",
		"Follow the message. The identity needs the right to get the cluster's credentials, or " +
			"--kubeconfig names a file with a context for the cluster; in Kubernetes it needs " +
			"the verbs list and watch on nodes."},
	{KubeloginMissing, Error, "The cluster takes only Entra logins, and kubelogin is missing",
		"AKS answers for such a cluster with a kubeconfig that runs kubelogin to log in. The " +
			"program is not installed here, so the nodes cannot be read, and the routes of the " +
			"cluster stay as they are.",
		"Install kubelogin (az aks install-cli), or pass with --kubeconfig a file whose context " +
			"for the cluster has a token, such as that of a service account that may list and " +
			"watch nodes."},
	{OverlayRoutes, Info, "Routes to the pods of an overlay cluster are not documented to work",
		"Azure CNI Overlay has no route table. Microsoft documents that machines outside the " +
			"cluster cannot connect to its pods (concepts-network-azure-cni-overlay). A user " +
			"shows that routes to the nodes work nevertheless, tried from container instances in " +
			"another subnet of the network (AKS#4871). routekeeper has not tried it on Azure. " +
			"Application Gateway needs no such routes.",
		"Try one pod from one machine in the subnet of the target before you rely on it. Pods " +
			"answer directly to machines in the same network; peered networks were not tried."},
}

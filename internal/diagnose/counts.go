package diagnose

import (
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

// Counts are the numbers behind the checks of one cluster. Package build derives from them what is
// correct. The findings say what is wrong.
type Counts struct {
	Name    string // as in findings
	Cluster *inventory.Cluster
	Config  *v1alpha1.ClusterRoutes // nil if the cluster has no pod routes in a table
	// Table is the cluster's route table, or "" if it is not known for certain. PodRoutes are the
	// pod routes in that table, or nil if it was not read.
	Table     arm.ID
	PodRoutes map[netip.Prefix]inventory.Route
	// Nodes are the nodes in Kubernetes or, if Kubernetes was not read, the machines of the pools.
	// Asked is set if Kubernetes was read. Complete is set if as many machines were seen as the
	// pools count.
	Nodes           []NodeCount
	Asked, Complete bool
	Places          []Place
	// Waiting is the number of pods that have no address yet. Astray is the number of nodes and
	// pods that belong to no known pool. They are not checked.
	Waiting, Astray int
	// Scopes are the scopes at which the cluster's identity needs roles; AddonScopes are those of
	// the ingress add-on's identity.
	Scopes, AddonScopes []arm.ID

	Exits    []Exit
	Gateways []GatewayPlace
}

// NodeCount is a node with the number of routes that it lacks.
type NodeCount struct {
	Ready bool
	Lacks int
	Waits bool // it is new, and may still get its routes
}

// Place is an address range for nodes or pods: a subnet, or the pod CIDR.
type Place struct {
	Kind     string // node subnet, pod subnet, pod CIDR
	Subnet   arm.ID // "" for the pod CIDR, or if AKS made the subnet and it was not read
	Read     bool
	Prefixes []netip.Prefix
	// Nodes is the number of nodes in the range, Pods that of pods, and Host that of pods on their
	// node's network. Agents has the names of the Host pods' workloads. Outside is the number of
	// pods that should be in the range but are not.
	Nodes, Host, Pods, Outside int
	Agents                     []string
	// Usable is the number of IPv4 addresses in the range that Azure can assign. Used is the number
	// in use.
	Usable, Used int
}

// Exit is the egress of a node subnet: the default route of its table, and its NAT gateway.
type Exit struct {
	Subnet  arm.ID
	Table   arm.ID
	Read    bool // the subnet was read, and its table if it has one
	Routes  []inventory.Route
	Gateway arm.ID
	// By is what gives packets to the internet a public address if no route leads elsewhere, or ""
	// if nothing does.
	By string
	// Astray says what happens to packets that do not take the declared egress, or is "".
	Astray string
}

// GatewayPlace is a subnet with Application Gateways. The cluster's add-on configures them, or they
// should reach its pods by routes.
type GatewayPlace struct {
	Subnet   arm.ID
	Table    arm.ID
	Gateways []arm.ID
	Drives   bool
}

// Count returns the numbers of one cluster, or false if the cluster was not read.
func (c Case) Count(id arm.ID) (Counts, bool) {
	if c.RouteLimit == 0 {
		c.RouteLimit = inventory.DefaultRouteLimit
	}
	c.nicsOf, c.onNodes = interfacesByGroup(c.Snapshot), tablesOnNodes(c.Snapshot)
	p := c.clusterCase(id)
	if p == nil {
		return Counts{}, false
	}
	counts := Counts{Name: p.name, Cluster: p.cluster, Config: p.config}
	if !p.source.Doubtful && p.cluster.Kubenet() {
		counts.Table = p.source.Table
		if p.table != nil && p.config != nil {
			counts.PodRoutes = plan.PodRoutes(p.s, p.config, p.table)
		}
	}
	for _, n := range identityNeeds(p) {
		counts.Scopes = append(counts.Scopes, n.scope)
	}
	counts.Scopes = inventory.SortIDs(counts.Scopes)
	for _, n := range addonNeeds(p) {
		counts.AddonScopes = append(counts.AddonScopes, n.scope)
	}
	counts.AddonScopes = inventory.SortIDs(counts.AddonScopes)
	countNodes(p, &counts)
	countPlaces(p, &counts)
	for _, id := range p.s.NodeSubnetIDs(p.cluster) {
		counts.Exits = append(counts.Exits, p.exit(id))
	}
	for _, g := range p.gatewaySubnets() {
		if g.drives || g.sends {
			counts.Gateways = append(counts.Gateways,
				GatewayPlace{g.ID, g.RouteTable, g.Gateways, g.drives})
		}
	}
	return counts, true
}

func countNodes(p *clusterCase, counts *Counts) {
	nodes, b := p.nodes(), p.checkTable()
	counts.Asked, counts.Complete = nodes.asked, nodes.exact
	for _, n := range nodes.all {
		c := NodeCount{Ready: n.kube != nil && n.kube.Ready}
		if b != nil {
			lacks, _ := b.lacks(n)
			c.Lacks, c.Waits = len(lacks), b.waits(n)
		}
		counts.Nodes = append(counts.Nodes, c)
	}
}

func (p *clusterCase) exit(id arm.ID) Exit {
	e := Exit{Subnet: id}
	subnet := p.s.Subnet(id)
	if subnet == nil {
		return e
	}
	table := p.s.Table(subnet.RouteTable)
	e.Table, e.Gateway = subnet.RouteTable, subnet.NATGateway
	e.Read = subnet.RouteTable == "" || table != nil
	e.By = trace.Exit(subnet, p.cluster)
	for _, astray := range p.astray {
		if astray.Subnet.Equal(id) && e.Astray == "" {
			e.Astray = astray.String()
		}
	}
	if table != nil {
		e.Routes = table.Default()
	}
	return e
}

// countPlaces counts nodes and pods by the range that their addresses are in.
func countPlaces(p *clusterCase, counts *Counts) {
	if !addressed(p.cluster) {
		return
	}
	var all []*Place
	at := func(kind string, id arm.ID) *Place {
		for _, known := range all {
			if known.Kind == kind && known.Subnet.Equal(id) {
				return known
			}
		}
		place := &Place{Kind: kind, Subnet: id}
		if subnet := p.s.Subnet(id); subnet != nil {
			place.Read, place.Prefixes = true, subnet.Prefixes
			place.Usable, place.Used = p.inUse(subnet)
		}
		all = append(all, place)
		return place
	}
	ofNodes := func(pool inventory.Pool) *Place {
		return at("node subnet", nodeSubnet(p.s.Snapshot, p.cluster, pool))
	}
	ofPods := func(pool inventory.Pool) *Place {
		switch {
		case p.cluster.Overlay() || p.cluster.Kubenet():
			place := at("pod CIDR", "")
			place.Prefixes, place.Read = p.cluster.PodCIDRs, len(p.cluster.PodCIDRs) > 0
			return place
		case pool.PodSubnet != "":
			return at("pod subnet", pool.PodSubnet)
		}
		return ofNodes(pool)
	}
	for _, pool := range p.cluster.Pools {
		ofNodes(pool)
	}
	for _, pool := range p.cluster.Pools {
		ofPods(pool)
	}
	if p.kube != nil {
		countAddresses(p, counts, ofNodes, ofPods)
	}
	for _, place := range all {
		slices.Sort(place.Agents)
		place.Agents = slices.Compact(place.Agents)
		counts.Places = append(counts.Places, *place)
	}
}

// countAddresses counts what Kubernetes shows, by the same rules as the findings.
func countAddresses(p *clusterCase, counts *Counts, ofNodes, ofPods func(inventory.Pool) *Place) {
	for _, node := range p.kube.Nodes {
		pool, known := p.pool(node)
		switch {
		case !known:
			counts.Astray++
		case isOutside(p, node.Addresses, node, p.nodePlace):
			ofNodes(pool).Outside++
		default:
			ofNodes(pool).Nodes++
		}
	}
	nodes := p.nodesByName()
	for _, pod := range p.kube.Pods {
		node, there := nodes[pod.Node]
		pool, known := p.pool(node)
		switch {
		case pod.Ended():
		case len(pod.Addresses) == 0:
			counts.Waiting++
		case !there || !known:
			counts.Astray++
		case pod.HostNetwork && !slices.Equal(pod.Addresses, node.Addresses) &&
			isOutside(p, pod.Addresses, node, p.nodePlace):
			ofNodes(pool).Outside++
		case pod.HostNetwork:
			place := ofNodes(pool)
			place.Host++
			place.Agents = append(place.Agents, workload(pod))
		case isOutside(p, pod.Addresses, node, p.podPlace) || offNode(p, pod, node):
			ofPods(pool).Outside++
		default:
			ofPods(pool).Pods++
		}
	}
}

func isOutside(p *clusterCase, addrs []netip.Addr, node inventory.Node,
	where func(inventory.Pool) (place, bool)) bool {
	addr, _ := p.outside(addrs, node, where)
	return addr.IsValid()
}

func offNode(p *clusterCase, pod inventory.Pod, node inventory.Node) bool {
	addr, _ := p.onOtherNode(pod, node)
	return addr.IsValid()
}

// workload returns the name of the creator of a pod on its node's network: a daemon set, which
// appends five characters, or the kubelet, which appends the node's name.
func workload(pod inventory.Pod) string {
	if name, static := strings.CutSuffix(pod.Name, "-"+pod.Node); static && pod.Node != "" {
		return name
	}
	if i := len(pod.Name) - 6; i > 0 && pod.Name[i] == '-' {
		return pod.Name[:i]
	}
	return pod.Name
}

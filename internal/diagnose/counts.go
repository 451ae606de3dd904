package diagnose

import (
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
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

	// AstrayEgress has the egress that does not take the way that the config declares.
	AstrayEgress []verdict.Egress
	Gateways     []GatewayPlace
}

// NodeCount is a node with the number of routes that it lacks.
type NodeCount struct {
	Ready bool
	Lacks int
	Waits bool // it is new, and may still get its routes
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
	counts := Counts{Name: p.name, Cluster: p.cluster, Config: p.config,
		AstrayEgress: p.astray}
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
	if addressed(p.cluster) {
		r := p.residents()
		counts.Waiting, counts.Astray = r.waiting, r.astray
		for _, place := range r.places {
			slices.Sort(place.Agents)
			place.Agents = slices.Compact(place.Agents)
			counts.Places = append(counts.Places, *place)
		}
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

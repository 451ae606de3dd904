// Package plan decides what to change. Its input is what was read and remembered (Facts), and the
// configs (ClusterRoutes). Its output is a Plan: the desired state, the Changes that lead there,
// and Findings about what prevents them.
//
// How it works. New finds each cluster's route table and the pod routes in it (clusters.go,
// owntable.go). Plan then decides the association of each subnet (guard.go) and the routes of each
// target (target.go). Each question has one file: whose is this route (ownership.go), whose machine
// is behind it (machine.go), which table is the cluster's (owntable.go), may this table be written
// (writable.go), is the node gone (gone.go), is it the same change (Change.Key). If the plan needs
// something that was not read, it returns that in Need; the caller reads it and plans again.
//
// Decide (decide.go) is the entry point for run, sync and the tests of all states. It does all of
// this, uses what earlier checks remembered, and updates it (remember.go).
//
// The package is pure: no context, clock, logger or network; the same input gives the same output
// in the same order. It must not propose a write to a cluster's route table, or a change of a route
// that is not the cluster's.
package plan

import (
	"net/netip"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Plan is what to do in one check.
type Plan struct {
	// Desired is the desired state of the targets and associations.
	Desired  State             `json:"-"`
	Changes  []Change          `json:"changes"`
	Findings []finding.Finding `json:"findings"`
	// OnlyObserved has the changes that are not made because the configs say Observe.
	OnlyObserved []Change `json:"-"`
	// Need names what was not read yet and may prove a withheld change, name a node without a
	// route, or show that a target is a cluster's route table. Read it and plan again. Plan
	// requests each resource until one attempt was made.
	Need inventory.Wanted `json:"-"`
	// Asked has the addresses that were looked up among the NICs of a cluster, by its ID.Key().
	Asked map[string]map[netip.Addr]bool `json:"-"`
	// Nodes is what the next check must know about the clusters' nodes, by the cluster's ID.Key().
	Nodes map[string]NodeRoutes `json:"-"`
}

// Planner evaluates one snapshot. It can plan for the whole config, and again for one resource that
// was read again. Several goroutines may use it at once.
type Planner struct {
	s         Facts
	configs   []v1alpha1.ClusterRoutes // the clusters that are planned for
	taken     Taken                    // what is known about the route tables of all others
	clusters  []*clusterState
	findings  []finding.Finding // about the clusters and their route tables
	watching  bool              // for a diagnosis
	removing  bool              // set by Removal
	enforced  *Planner          // the same configs without Observe; nil if none says Observe
	onlyShown bool              // its plan is shown and never carried out

	// by ID.Key()
	targets map[string][]targetConfig // the configs of a target, in the order of their names
	egress  map[string][]egressConfig // the same for egress routes
	// never written, because they are or may be a cluster's route table
	clusterTables map[string]clusterTable
	requirements  []requirement // for subnets, in the order of their keys
}

// targetConfig is what one config says about one target.
type targetConfig struct {
	*clusterState
	policy    v1alpha1.Policy
	maxRoutes int
}

// New evaluates all configured clusters.
func New(s Facts, configs []v1alpha1.ClusterRoutes) *Planner {
	return Among(s, configs, TakenBy(configs))
}

// Among evaluates some of the configured clusters. configs must include, with each cluster, all
// that share something with it. The other configs, and what is known about their clusters, still
// count where a table may be theirs.
func Among(s Facts, configs []v1alpha1.ClusterRoutes, taken Taken) *Planner {
	p := among(s, configs, taken)
	if all, observing := enforcing(configs); observing {
		p.enforced = among(s, all, taken)
		p.enforced.onlyShown = true
	}
	return p
}

func among(s Facts, configs []v1alpha1.ClusterRoutes, taken Taken) *Planner {
	p := &Planner{s: s, configs: configs, taken: taken, targets: map[string][]targetConfig{},
		egress: map[string][]egressConfig{}, clusterTables: map[string]clusterTable{}}
	p.readClusters()
	p.collectRequirements()
	return p
}

// Make works like New and Plan in one step.
func Make(s Facts, configs []v1alpha1.ClusterRoutes) Plan {
	return New(s, configs).Plan()
}

// Plan plans for the whole config.
func (p *Planner) Plan() Plan {
	w := p.planning()
	w.found = append(w.found, p.findings...)
	if !p.removing {
		w.missing()
	}
	state := State{Associations: w.associations(p.requirements, p.s.Subnet)}
	for _, id := range p.tableIDs() {
		if t := w.table(id, p.s.Table(id)); t != nil {
			state.Tables = append(state.Tables, *t)
		}
	}
	if !p.removing {
		for _, v := range p.clusters {
			w.readyNodes(v, state)
			w.reportCrossed(v)
			w.reportStrangers(v)
		}
	}
	w.reportVanished()
	made := w.plan(state, p.s.Subnet)
	p.observe(&made)
	return made
}

// Repairs plans only the repairs of lost associations, which need no read of a table.
func (p *Planner) Repairs() Plan {
	w := p.planning()
	state := State{}
	for _, a := range w.associations(p.requirements, p.s.Subnet) {
		if subnet := p.s.Subnet(a.Subnet); subnet != nil && subnet.Has(a.Property) == "" {
			state.Associations = append(state.Associations, a)
		}
	}
	return w.plan(state, p.s.Subnet)
}

// Again plans by the same rules for one table that was read again.
func (p *Planner) Again(table *inventory.RouteTable) Plan {
	w := p.planning()
	var state State
	if t := w.table(table.ID, table); t != nil {
		state.Tables = append(state.Tables, *t)
	}
	return w.plan(state, p.s.Subnet)
}

// AgainSubnet plans by the same rules for one subnet that was read again.
func (p *Planner) AgainSubnet(subnet *inventory.Subnet) Plan {
	w := p.planning()
	var requirements []requirement
	for _, required := range p.requirements {
		if required.subnet.Equal(subnet.ID) {
			requirements = append(requirements, required)
		}
	}
	read := func(arm.ID) *inventory.Subnet { return subnet }
	return w.plan(State{Associations: w.associations(requirements, read)}, read)
}

// Sources returns the route tables of the clusters whose routes are copied to a target.
func (p *Planner) Sources(target arm.ID) []arm.ID {
	var ids []arm.ID
	for _, part := range p.targets[target.Key()] {
		if part.source != "" {
			ids = append(ids, part.source)
		}
	}
	return inventory.SortIDs(ids)
}

// planning is one call of a Planner, with what it found.
type planning struct {
	*Planner
	found []finding.Finding
	need  inventory.Wanted
	asked map[string]map[netip.Addr]bool
	noted map[string]NodeRoutes        // as Plan.Nodes
	left  map[*clusterState][]leftover // of clusters that do not exist
	stays map[*clusterState][]string   // copies that do not follow a row to another machine
}

func (p *Planner) planning() planning {
	return planning{Planner: p, noted: make(map[string]NodeRoutes, len(p.clusters)),
		stays: map[*clusterState][]string{}}
}

func (w *planning) add(f finding.Finding) { w.found = append(w.found, f) }

// plan returns the plan that leads from what was read to a desired state.
func (w *planning) plan(state State, read func(arm.ID) *inventory.Subnet) Plan {
	changes := diff(read, state)
	need := inventory.Wanted{
		NICs: inventory.SortIDs(w.need.NICs), VNets: inventory.SortIDs(w.need.VNets),
		Tables: inventory.SortIDs(w.need.Tables), Subnets: w.s.needSubnets(changes),
		Writers: inventory.SortIDs(w.need.Writers), Firewalls: inventory.SortIDs(w.need.Firewalls),
		Balancers: inventory.SortIDs(w.need.Balancers),
	}
	return Plan{Desired: state, Changes: changes, Findings: finding.Sort(w.found), Need: need,
		Asked: w.asked, Nodes: w.noted}
}

// NamedTables returns the tables that a config names: the cluster's, the one of its egress routes,
// its targets, and those of guarded subnets.
func NamedTables(c *v1alpha1.ClusterRoutes) (ids []arm.ID) {
	add := func(id string) {
		if id != "" {
			ids = append(ids, arm.ID(id))
		}
	}
	add(c.Spec.RouteTableID)
	add(c.Spec.Egress.RouteTableID)
	for _, t := range c.Spec.Targets {
		add(t.RouteTableID)
	}
	for _, g := range c.Spec.Guard.Subnets {
		add(g.RouteTableID)
	}
	return ids
}

// tableIDs returns the targets and the egress tables of all configs, sorted, each once.
func (p *Planner) tableIDs() []arm.ID {
	var ids []arm.ID
	for _, c := range p.configs {
		for _, t := range c.Spec.Targets {
			ids = append(ids, arm.ID(t.RouteTableID))
		}
		if id := c.Spec.Egress.RouteTableID; id != "" && !p.removing {
			ids = append(ids, arm.ID(id))
		}
	}
	return inventory.SortIDs(ids)
}

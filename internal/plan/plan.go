// Package plan decides: from what was read and is remembered (Facts) and what is configured
// (ClusterRoutes) it tells what should be, which Changes lead there, and what stands in the way, as
// Findings.
//
// It is pure: no context, clock, logger or network, and the same input gives the same output in the
// same order. It never proposes a write to a cluster's own route table, nor a change of a route
// that is not the cluster's.
package plan

import (
	"net/netip"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Plan is what to do in one round.
type Plan struct {
	// Desired are the target tables and associations as they should be.
	Desired  State             `json:"-"`
	Changes  []Change          `json:"changes"`
	Findings []finding.Finding `json:"findings"`
	// OnlyObserved are the changes that are not made because the configs say Observe.
	OnlyObserved []Change `json:"-"`
	// Need is what is not read yet and may prove a change that is withheld, name a node without a
	// route, or show that a target is a cluster's own table: read it and plan again. Each thing is
	// named until it was tried.
	Need inventory.Wanted `json:"-"`
	// Asked are the addresses that were looked for among the NICs of a cluster, by its ID.Key().
	Asked map[string]map[netip.Addr]bool `json:"-"`
	// Nodes is what the next check has to know of the clusters' nodes, by the cluster's ID.Key().
	Nodes map[string]NodeRoutes `json:"-"`
}

// Planner has looked at the clusters of one snapshot. It can plan for all that is configured, and
// again for one resource that was read anew. It may be used by several goroutines at once.
type Planner struct {
	s        Facts
	configs  []v1alpha1.ClusterRoutes // the clusters that are planned for
	taken    Taken                    // what is known of all others
	views    []*view
	findings []finding.Finding // about the clusters and their own tables
	watching bool              // for a diagnosis
	removing bool              // as Removal says
	enforced *Planner          // of the same configs without Observe; nil where none says Observe
	shows    bool              // what it plans is shown, and never made

	// by ID.Key()
	parts map[string][]part // the clusters' parts in a target, in the order of their names
	// tables not to be written because they are or may be a cluster's own
	ownTables map[string]ownTable
	wishes    []wish // for subnets, in the order of their keys
}

// part is what one config says of one target.
type part struct {
	*view
	policy    v1alpha1.Policy
	maxRoutes int
}

// New looks at the configured clusters.
func New(s Facts, configs []v1alpha1.ClusterRoutes) *Planner {
	return Among(s, configs, TakenBy(configs))
}

// Among looks at some of the configured clusters: all those that share something with each other.
// What is configured and known of the others still counts where a table may be theirs.
func Among(s Facts, configs []v1alpha1.ClusterRoutes, taken Taken) *Planner {
	p := among(s, configs, taken)
	if all, observing := enforcing(configs); observing {
		p.enforced = among(s, all, taken)
		p.enforced.shows = true
	}
	return p
}

func among(s Facts, configs []v1alpha1.ClusterRoutes, taken Taken) *Planner {
	p := &Planner{s: s, configs: configs, taken: taken, parts: map[string][]part{},
		ownTables: map[string]ownTable{}}
	p.makeViews()
	p.makeWishes()
	return p
}

// Make plans for all configs in one step.
func Make(s Facts, configs []v1alpha1.ClusterRoutes) Plan {
	return New(s, configs).Plan()
}

// Plan plans for everything that is configured.
func (p *Planner) Plan() Plan {
	w := p.work()
	w.found = append(w.found, p.findings...)
	if !p.removing {
		w.missing()
	}
	state := State{Associations: w.associations(p.wishes, p.s.Subnet)}
	for _, id := range p.targetIDs() {
		if t := w.target(id, p.s.Table(id)); t != nil {
			state.Tables = append(state.Tables, *t)
		}
	}
	w.reportVanished()
	made := w.plan(state, Diff(p.s.Snapshot, state))
	p.observe(&made)
	return made
}

// Repairs plans only to put back associations that are lost: that needs no table to be read.
func (p *Planner) Repairs() Plan {
	w := p.work()
	state := State{}
	for _, a := range w.associations(p.wishes, p.s.Subnet) {
		if subnet := p.s.Subnet(a.Subnet); subnet != nil && subnet.RouteTable == "" {
			state.Associations = append(state.Associations, a)
		}
	}
	return w.plan(state, Diff(p.s.Snapshot, state))
}

// Again plans for one target that was read anew, under the same rules.
func (p *Planner) Again(table *inventory.RouteTable) Plan {
	w := p.work()
	var state State
	var changes []Change
	if t := w.target(table.ID, table); t != nil && len(p.parts[table.ID.Key()]) > 0 {
		state.Tables = append(state.Tables, *t)
		changes = diffTable(table, *t)
		sortChanges(changes)
	}
	return w.plan(state, changes)
}

// AgainSubnet plans for one subnet that was read anew, under the same rules.
func (p *Planner) AgainSubnet(subnet *inventory.Subnet) Plan {
	w := p.work()
	var wishes []wish
	for _, wish := range p.wishes {
		if wish.subnet.Equal(subnet.ID) {
			wishes = append(wishes, wish)
		}
	}
	state := State{Associations: w.associations(wishes, func(arm.ID) *inventory.Subnet {
		return subnet
	})}
	var changes []Change
	for _, a := range state.Associations {
		changes = append(changes, diffSubnet(subnet, a)...)
	}
	return w.plan(state, changes)
}

// Sources returns the own tables of the clusters whose routes go into a target.
func (p *Planner) Sources(target arm.ID) []arm.ID {
	var ids []arm.ID
	for _, part := range p.parts[target.Key()] {
		if part.source != "" {
			ids = append(ids, part.source)
		}
	}
	return inventory.SortIDs(ids)
}

// work is one call of a Planner: what it found on its way.
type work struct {
	*Planner
	found []finding.Finding
	need  inventory.Wanted
	asked map[string]map[netip.Addr]bool
	noted map[string]NodeRoutes // as Plan.Nodes
	left  map[*view][]leftover  // by clusters that do not exist
}

func (p *Planner) work() work {
	return work{Planner: p, noted: make(map[string]NodeRoutes, len(p.views))}
}

func (w *work) add(f finding.Finding) { w.found = append(w.found, f) }

func (w *work) plan(state State, changes []Change) Plan {
	if changes == nil {
		changes = []Change{}
	}
	need := inventory.Wanted{
		NICs: inventory.SortIDs(w.need.NICs), VNets: inventory.SortIDs(w.need.VNets),
		Tables: inventory.SortIDs(w.need.Tables), Subnets: w.needSubnets(changes),
	}
	return Plan{Desired: state, Changes: changes, Findings: finding.Sort(w.found), Need: need,
		Asked: w.asked, Nodes: w.noted}
}

// targetIDs returns the targets of all configs, each once, sorted.
func (p *Planner) targetIDs() []arm.ID {
	var ids []arm.ID
	for _, c := range p.configs {
		for _, t := range c.Spec.Targets {
			ids = append(ids, arm.ID(t.RouteTableID))
		}
	}
	return inventory.SortIDs(ids)
}

// Package migrate plans how clusters leave kubenet, and how clusters on Azure CNI move to overlay
// and to the Cilium data plane.
//
// How it works. Make takes what a diagnosis read and found. For each kubenet cluster it collects
// the findings that block the migration, and writes the ordered steps: what must change first
// (before.go), the migration, and what comes after it (steps.go). What Azure Resource Manager does
// not know becomes a question, with the command that answers it (questions.go).
//
// The package is pure. Every claim about the migration has a source.
package migrate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Plan is how a number of clusters migrate off kubenet.
type Plan struct {
	Deadline string `json:"deadline"`
	// Days until the deadline; negative after it.
	Days     int       `json:"daysLeft"`
	Clusters []Cluster `json:"clusters"`
	// Optional are the plans of clusters on Azure CNI that can move, too. No date requires it.
	Optional []Cluster `json:"optional"`
	// Migrating are the names of clusters that are leaving kubenet now. Others are those of other
	// clusters that do not use it.
	Migrating []string `json:"migrating"`
	Others    []string `json:"others"`
}

// Cluster is the plan of one cluster.
type Cluster struct {
	Name  string `json:"cluster"`
	ID    arm.ID `json:"id"`
	Ready bool   `json:"ready"`
	// Order is the cluster's turn: 1 is the first to migrate.
	Order     int               `json:"order"`
	Work      Work              `json:"work"`
	Blockers  []finding.Finding `json:"blockers"`
	Steps     []Step            `json:"steps"`
	Meanwhile []Note            `json:"meanwhile"`
	Questions []Question        `json:"questions"`
	// Plugin is its network plugin as the command line names it, and Goal what the plan leads to:
	// overlay or cilium.
	Plugin string `json:"plugin"`
	Goal   string `json:"goal"`
}

// Work is how much a migration moves. No source gives the time that reimaging a node takes.
type Work struct {
	Nodes int `json:"nodes"`
	// Batches is how many times nodes are reimaged one after another, in the pool with the most.
	// Pools are reimaged at the same time.
	Batches int `json:"batches"`
	// WaitMinutes is the longest that the batches can wait for pods to leave, and between nodes.
	WaitMinutes int `json:"waitMinutesAtMost"`
	// RoleMinutes is how long a new role assignment can take; 0 if none is needed.
	RoleMinutes int `json:"roleMinutesAtMost"`
	// Depends says what the rest of the time depends on.
	Depends string `json:"depends"`
}

// Phase is when a step is due.
type Phase string

// The phases, in their order.
const (
	Before  Phase = "before"
	Migrate Phase = "migrate"
	After   Phase = "after"
)

// Step is a thing to do.
type Step struct {
	Phase Phase  `json:"phase"`
	Title string `json:"title"`
	Why   string `json:"why"`
	// Commands can be pasted, in this order.
	Commands []string `json:"commands"`
	// Blocker is the code of the finding that the step removes, or "".
	Blocker finding.Code `json:"blocker,omitempty"`
	Source  string       `json:"source"`
}

// Note is a fact that the reader should know, with its source.
type Note struct {
	Text   string `json:"text"`
	Source string `json:"source"`
}

// Question is something that only the user can answer.
type Question struct {
	Text string `json:"question"`
	// Command shows what the answer depends on; may be "".
	Command string `json:"command,omitempty"`
	Source  string `json:"source"`
}

// clusterCase is one cluster with what its steps need.
type clusterCase struct {
	diagnose.Case
	cluster *inventory.Cluster
	name    string
	table   *inventory.RouteTable // nil if it is unknown or was not read
	// unmanaged are the routes of the table that are not the cluster's.
	unmanaged []inventory.Route
	// targets are the other tables that hold the cluster's pod routes.
	targets  []arm.ID
	blockers []finding.Finding
}

// Make plans the migration of the clusters of a case. found are the findings of diagnose.Check.
func Make(c diagnose.Case, found []finding.Finding) Plan {
	p := Plan{Deadline: diagnose.Retired.Format(time.DateOnly), Clusters: []Cluster{},
		Optional: []Cluster{}, Migrating: []string{}, Others: []string{}}
	if c.File == (finding.CommandLine{}) {
		c.File = finding.Command("routes.yaml")
	}
	today := c.Today
	if today.IsZero() {
		today = c.Snapshot.Taken
	}
	p.Days = diagnose.DaysLeft(today)
	for _, id := range inventory.SortIDs(slices.Clone(c.Clusters)) {
		cluster := c.Snapshot.Cluster(id)
		switch {
		case cluster == nil, inventory.Clusterless(id):
		case c.Snapshot.Migrates(cluster):
			p.Migrating = append(p.Migrating, id.Name())
		case !cluster.Kubenet():
			p.Others = append(p.Others, id.Name())
			p.Optional = append(p.Optional, newCase(c, cluster, found).optionalPlans()...)
		default:
			p.Clusters = append(p.Clusters, newCase(c, cluster, found).plan())
		}
	}
	for _, all := range [][]Cluster{p.Clusters, p.Optional} {
		slices.SortStableFunc(all, compareOrder)
		for i := range all {
			all[i].Order = i + 1
		}
	}
	return p
}

// compareOrder orders clusters: ready ones first, then those with fewer blockers. Among equals the
// smallest comes first, because a failure there affects the fewest nodes.
func compareOrder(a, b Cluster) int {
	return cmp.Or(len(a.Blockers)-len(b.Blockers), a.Work.Nodes-b.Work.Nodes,
		strings.Compare(a.Name, b.Name), strings.Compare(string(a.ID), string(b.ID)))
}

// Ready counts the clusters without a blocker.
func (p Plan) Ready() int {
	n := 0
	for _, c := range p.Clusters {
		if c.Ready {
			n++
		}
	}
	return n
}

func newCase(c diagnose.Case, cluster *inventory.Cluster, found []finding.Finding) *clusterCase {
	o := &clusterCase{Case: c, cluster: cluster, name: cluster.ID.Name()}
	facts := plan.Facts{Snapshot: c.Snapshot}
	for i := range c.Configs {
		config := &c.Configs[i]
		if !cluster.ID.Equal(arm.ID(config.Spec.ClusterID)) {
			continue
		}
		o.name = config.Metadata.Name
		o.table = c.Snapshot.Table(plan.Discover(facts, config, plan.TakenBy(c.Configs)).Table)
		if o.table != nil {
			pods := plan.PodRoutes(facts, config, o.table)
			for _, r := range o.table.Routes() {
				if _, pod := pods[r.Prefix]; !pod {
					o.unmanaged = append(o.unmanaged, r)
				}
			}
		}
		for _, t := range config.Spec.Targets {
			o.targets = append(o.targets, arm.ID(t.RouteTableID))
		}
	}
	for _, f := range found {
		if f.Cluster == o.name && blocks(f) {
			o.blockers = append(o.blockers, f)
		}
	}
	return o
}

// blocks reports whether a finding blocks the migration: AKS refuses it, nodes get no address
// during it, or pod traffic is broken already. Nodes that have not moved need their routes until
// the end. What could not be read may hide any of these.
func blocks(f finding.Finding) bool {
	switch f.Code {
	case finding.ClusterStopped:
		return true
	case finding.ReadFailed, finding.AzureUnreachable:
		return f.Severity == finding.Error
	case finding.ResourceLocked, finding.SurgeShort:
		return f.Severity > finding.Info
	case finding.KubenetRetired:
		return false
	}
	return strings.HasPrefix(string(f.Code), "migration-") && f.Severity > finding.Info ||
		f.Severity == finding.Error && finding.BreaksTraffic(f.Code)
}

func (c *clusterCase) plan() Cluster {
	return c.planFor("overlay", nil, func(out *Cluster) {
		out.Steps, out.Meanwhile, out.Questions = c.steps(), c.meanwhile(), c.questions()
	})
}

// usualDrain is AKS's default of drainTimeoutInMinutes (AgentPoolUpgradeSettings). Its default of
// nodeSoakDurationInMinutes is 0.
const usualDrain = 30

// roleDelay is how long a new role of a cluster's identity can take to have effect
// (configure-kubenet).
const roleDelay = 60

func (c *clusterCase) work() Work {
	w := Work{Depends: "how fast machines are reimaged and pods start; no source gives a time"}
	for _, pool := range c.cluster.Pools {
		w.Nodes += pool.Count
		w.Batches, w.WaitMinutes = longest(w.Batches, w.WaitMinutes, pool, pool.Count)
	}
	if c.hasBlocker(finding.MigrationIdentity) {
		w.RoleMinutes = roleDelay
	}
	return w
}

// longest returns the batches in which AKS reimages some nodes of a pool, and how long these can
// wait, unless another pool, whose values are given, takes longer.
func longest(batches, minutes int, pool inventory.Pool, nodes int) (int, int) {
	surge := max(1, capacity.SurgeOf(pool.MaxSurge).Of(max(pool.Count, nodes)))
	own := (nodes + surge - 1) / surge
	return max(batches, own),
		max(minutes, own*(cmp.Or(pool.DrainMinutes, usualDrain)+pool.SoakMinutes))
}

// hasBlocker reports whether a finding with a code is a blocker.
func (c *clusterCase) hasBlocker(code finding.Code) bool {
	return slices.ContainsFunc(c.blockers, func(f finding.Finding) bool { return f.Code == code })
}

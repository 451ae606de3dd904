package migrate

import (
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// State is how far a migration is.
type State string

// The states. A migration is stalled if its operation has ended, but nodes have not moved.
const (
	NotStarted State = "not-started"
	Running    State = "running"
	Stalled    State = "stalled"
	Done       State = "done"
	Unknown    State = "unknown" // the nodes were not read
)

// Progress is how far the migration of a cluster is.
type Progress struct {
	Cluster string `json:"cluster"`
	ID      arm.ID `json:"id"`
	State   State  `json:"state"`
	Moved   int    `json:"moved"`
	Nodes   []Node `json:"nodes"`
	// Batches is how many batches remain, and WaitMinutes the longest that they can wait for pods
	// to leave, and between nodes.
	Batches     int `json:"batchesLeft"`
	WaitMinutes int `json:"waitMinutesAtMost"`
	// Note says why the nodes are unknown, or "".
	Note string `json:"note,omitempty"`
}

// Node is a node of a cluster that migrates.
type Node struct {
	Name  string `json:"name"`
	Moved bool   `json:"moved"`
	// Missing are the tables that lack the node's route, though it has not moved and others of
	// the cluster's routes are in them.
	Missing []arm.ID `json:"routeMissingIn"`
}

// Follow returns how far a cluster has migrated, according to what was read.
func Follow(s *inventory.Snapshot, id arm.ID) Progress {
	cluster := s.Cluster(id)
	p := Progress{Cluster: id.Name(), ID: id, Nodes: []Node{}}
	k := s.Kubernetes[id.Key()]
	switch {
	case cluster.Kubenet() && !cluster.Updating:
		p.State = NotStarted
	case k == nil || len(k.Nodes) == 0:
		p.State = Unknown
		p.Note = "the nodes were not read: expected --kubeconfig"
		if k != nil && k.Failed != "" {
			p.Note = k.Failed
		}
		switch {
		case s.Migrates(cluster):
			p.Note = "it migrates, but which nodes have moved is not known: " + p.Note
		case cluster.Overlay():
			p.Note = "it is set to overlay, but whether all nodes have moved is not known: " +
				p.Note
		}
		return p
	}
	left := map[string]int{}
	if k != nil {
		tables := tablesOf(s, k.Nodes)
		for _, n := range k.Nodes {
			node := Node{Name: n.Name, Moved: n.Overlay, Missing: []arm.ID{}}
			if n.Overlay {
				p.Moved++
			} else {
				left[n.Pool]++
				for _, t := range tables {
					if !routed(t, n) {
						node.Missing = append(node.Missing, t.ID)
					}
				}
			}
			p.Nodes = append(p.Nodes, node)
		}
	}
	for _, pool := range cluster.Pools {
		p.Batches, p.WaitMinutes = longest(p.Batches, p.WaitMinutes, pool, left[pool.Name])
	}
	switch {
	case p.State != "":
	case cluster.Updating:
		p.State = Running
	case p.Moved < len(p.Nodes):
		p.State = Stalled
	default:
		p.State = Done
	}
	return p
}

// tablesOf returns the tables with any route to a node of the cluster, in the order of their IDs.
func tablesOf(s *inventory.Snapshot, nodes []inventory.Node) []*inventory.RouteTable {
	var out []*inventory.RouteTable
	var ids []arm.ID
	for _, t := range s.Tables {
		if slices.ContainsFunc(nodes, func(n inventory.Node) bool { return routed(t, n) }) {
			ids = append(ids, t.ID)
		}
	}
	for _, id := range inventory.SortIDs(ids) {
		out = append(out, s.Table(id))
	}
	return out
}

// routed reports whether a table has the route of each IPv4 pod CIDR of a node.
func routed(t *inventory.RouteTable, n inventory.Node) bool {
	has := func(cidr netip.Prefix) bool {
		return slices.ContainsFunc(t.Routes(), func(r inventory.Route) bool {
			return r.Prefix == cidr && slices.Contains(n.Addresses, r.Hop)
		})
	}
	any := false
	for _, cidr := range n.PodCIDRs {
		if cidr.Addr().Is6() {
			continue
		}
		if any = true; !has(cidr) {
			return false
		}
	}
	return any
}

// Ended reports whether nothing more will happen by itself.
func (p Progress) Ended() bool { return p.State == Done || p.State == Stalled }

// Waiting returns the nodes that still need their routes.
func (p Progress) Waiting() (names []string) {
	for _, n := range p.Nodes {
		if !n.Moved {
			names = append(names, n.Name)
		}
	}
	return names
}

// MissingIn names the tables that lack the node's route.
func (n Node) MissingIn() string {
	var names []string
	for _, id := range n.Missing {
		names = append(names, id.Short())
	}
	return strings.Join(names, ", ")
}

// Package picture describes a managed cluster for people: its subnets, tables and nodes, and
// whether each pod route works. The page draws the description, and returns it as JSON.
//
// How it works: Of combines the config, the inventory and the rules of package plan. It collects
// the subnets with their associations, then compares each target with the cluster's route table and
// gives each route a state.
//
// The package is pure. It must not decide anything (package plan says what is correct) or draw
// anything.
package picture

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Cluster is one cluster with everything that its pod routes depend on.
type Cluster struct {
	Name   string `json:"name"`
	ID     arm.ID `json:"id"`
	Plugin string `json:"networkPlugin,omitempty"`
	Nodes  int    `json:"nodes"` // the sum over its pools
	// NodeGroup is the node resource group. AKS made the resources in it.
	NodeGroup arm.ID         `json:"-"`
	PodCIDRs  []netip.Prefix `json:"podCIDRs,omitempty"`
	Region    string         `json:"region,omitempty"`
	Stopped   bool           `json:"stopped,omitempty"`
	// Migrating is set while the cluster leaves kubenet.
	Migrating bool `json:"migrating,omitempty"`
	// Unread says why the cluster could not be read, or is "".
	Unread string `json:"unread,omitempty"`
	// Unsourced says why the cluster's pod routes are unknown, or is "" if they are known or it has
	// none.
	Unsourced string   `json:"unsourced,omitempty"`
	Subnets   []Subnet `json:"subnets"`
	// Tables has the cluster's route table, if it is known, and then the targets.
	Tables []Table `json:"tables"`
}

// The roles of subnets and tables.
const (
	RoleNodes   = "nodes"   // a subnet with nodes
	RoleGuarded = "guarded" // another subnet that the config guards
	RoleTarget  = "target"  // a table that gets copies of pod routes, or a subnet with such a table
	RoleCluster = "cluster" // the cluster's route table
)

// Table is a route table with all its routes: the cluster's and unmanaged ones.
type Table struct {
	ID     arm.ID  `json:"id"`
	Role   string  `json:"role"`
	Routes []Route `json:"routes"`
	// Held is how many routes the table has. Limit is how many it can hold, or 0 if that is not
	// known.
	Held  int `json:"held"`
	Limit int `json:"limit,omitempty"`
	// Idle marks a target that is on no subnet and need not be on one: its routes have no effect.
	Idle   bool   `json:"idle,omitempty"`
	Unread string `json:"unread,omitempty"`
}

// Route is a route that is in a table, or should be.
type Route struct {
	Name        string `json:"name,omitempty"`
	Destination string `json:"destination"`
	// NextHop is the next hop, "" for a missing route. Wanted is the expected next hop if it
	// differs.
	NextHop string `json:"nextHop,omitempty"`
	Wanted  string `json:"wantedNextHop,omitempty"`
	// Node is the node of a pod route, according to the route's name.
	Node  string `json:"node,omitempty"`
	State string `json:"state"`
}

// The states of a route, in addition to Unknown. All except Unmanaged belong to the cluster's pod
// routes. Leftover and Kept routes are not counted.
const (
	Works     = "works"     // correct, and its table is on the subnets that need it
	Idle      = "idle"      // correct, but its table is not on the subnet that needs it
	Missing   = "missing"   // the cluster's route table has the route, this table does not
	Wrong     = "wrong"     // the next hop differs from the one in the cluster's route table
	Stale     = "stale"     // the cluster's route table does not have the route
	Leftover  = "leftover"  // like Stale, but the route stays: the policy is UpsertOnly
	Kept      = "kept"      // like Stale, but the cluster's route table has no pod routes at all
	Unmanaged = "unmanaged" // an unmanaged route
)

// Of describes one of the managed clusters, as it was read.
func Of(s plan.Facts, config *v1alpha1.ClusterRoutes, all []v1alpha1.ClusterRoutes,
	taken plan.Taken) Cluster {
	id := arm.ID(config.Spec.ClusterID)
	c := Cluster{Name: config.Metadata.Name, ID: id, Subnets: []Subnet{}, Tables: []Table{},
		Unread: reasonOf(s.Snapshot, id)}
	own := plan.Discover(s, config, taken)
	if cluster := s.Cluster(id); cluster != nil {
		c.ID, c.Plugin, c.Nodes = cluster.ID, cluster.PluginName(), cluster.Nodes()
		c.NodeGroup, c.PodCIDRs, c.Unread = cluster.NodeGroup(), cluster.PodCIDRs, ""
		c.Region = strings.ToLower(strings.ReplaceAll(cluster.Location, " ", ""))
		c.Stopped, c.Migrating = cluster.Stopped, cluster.Migrating
		for _, subnet := range s.NodeSubnetIDs(cluster) {
			wanted := own.Table
			if own.Doubtful || !cluster.Kubenet() {
				wanted = ""
			}
			c.Subnets = append(c.Subnets, subnetOf(s.Snapshot, subnet, RoleNodes, wanted))
		}
	}
	last := s.Memory.Of(id).LastTable
	for _, g := range config.Spec.Guard.Subnets {
		wanted := arm.ID(g.RouteTableID)
		if cluster := s.Cluster(id); cluster != nil && wanted != "" &&
			plan.Released(config, cluster, last, wanted) {
			wanted = ""
		}
		subnet := subnetOf(s.Snapshot, arm.ID(g.SubnetID), RoleGuarded, wanted)
		subnet.addProperties(s.Snapshot, g)
		if nodes := c.subnet(subnet.ID); nodes != nil && (wanted == "" || nodes.Wanted == "" ||
			wanted.Equal(nodes.Wanted)) { // also one of the cluster's node subnets
			subnet.Role = nodes.Role
			if wanted == "" {
				subnet.Wanted, subnet.State = nodes.Wanted, nodes.State
			}
			*nodes = subnet
			continue
		}
		c.Subnets = append(c.Subnets, subnet)
	}
	c.onTargets(s, config)
	c.addTables(s, config, own, all, taken)
	return c
}

func reasonOf(s *inventory.Snapshot, id arm.ID) string {
	if u, failed := s.Unread[id.Key()]; failed {
		return u.Reason()
	}
	return ""
}

// unsourced says why the source of a cluster's pod routes is unknown, or returns "".
func unsourced(s plan.Facts, config *v1alpha1.ClusterRoutes, own plan.Discovery,
	from *inventory.RouteTable) string {
	switch known := s.Kubernetes[arm.ID(config.Spec.ClusterID).Key()]; {
	case from != nil:
		return ""
	case config.Spec.Source == v1alpha1.SourceNodes && known != nil && known.Failed != "":
		return known.Failed
	case config.Spec.Source == v1alpha1.SourceNodes:
		return "its Kubernetes API shows no nodes"
	case own.Table == "":
		return "the cluster's route table is not known"
	}
	return "route table " + own.Table.Name() + " was not found"
}

// addTables adds the cluster's route table and its targets.
func (c *Cluster) addTables(s plan.Facts, config *v1alpha1.ClusterRoutes, own plan.Discovery,
	all []v1alpha1.ClusterRoutes, taken plan.Taken) {
	source := s.Table(own.Table)
	var wanted map[netip.Prefix]inventory.Route
	var owner *plan.Ownership // nil if it is not known which routes belong to the cluster
	stale := Stale
	cluster := s.Cluster(arm.ID(config.Spec.ClusterID))
	if cluster != nil && plan.Routed(config, cluster) {
		from := plan.SourceTable(s, config, own)
		known := plan.Owner(s, config, cmp.Or(from, &inventory.RouteTable{}))
		owner = &known
		c.Unsourced = unsourced(s, config, own, from)
		if from != nil {
			wanted = plan.PodRoutes(s, config, from)
			if len(wanted) == 0 && cluster.Nodes() > 0 { // then nothing proves that a copy is wrong
				stale = Kept
			}
		}
	}
	if own.Table != "" {
		t := tableOf(s.Snapshot, own.Table, RoleCluster, 0)
		if source != nil {
			own := wanted
			if config.Spec.Source == v1alpha1.SourceNodes {
				own = plan.PodRoutes(s, config, source)
			}
			for _, r := range source.Routes() {
				state := Unmanaged
				if w, pods := own[r.Prefix]; pods && w.Name == r.Name {
					state = c.worksOrIdle(source.ID)
				}
				t.add(r, state, "")
			}
		}
		c.Tables = append(c.Tables, t.sorted())
	}
	for _, target := range config.Spec.Targets {
		id := arm.ID(target.RouteTableID)
		t := tableOf(s.Snapshot, id, RoleTarget, target.MaxRoutes)
		if table := s.Table(id); table != nil {
			t.Idle = len(table.Subnets) == 0 && !c.on(table.ID)
			there := map[netip.Prefix]bool{}
			others := neighbours{s: s, except: c.Name, target: id, all: all, taken: taken}
			for _, r := range table.Routes() {
				w, asked := wanted[r.Prefix]
				ours := owner != nil && owner.Owns(r)
				switch {
				case wanted == nil && ours:
					t.add(r, Unknown, "")
				case wanted == nil || !r.Prefix.IsValid():
					t.add(r, Unmanaged, "")
				case asked && !there[r.Prefix] && r.SameHop(w):
					there[r.Prefix] = true
					t.add(r, c.worksOrIdle(table.ID), "")
				case asked && !there[r.Prefix]:
					there[r.Prefix] = true
					t.add(r, Wrong, w.NextHop())
				case ours && others.wants(r):
					t.add(r, Unmanaged, "")
				case ours && target.Policy == v1alpha1.PolicyUpsertOnly:
					t.add(r, Leftover, "")
				case ours:
					t.add(r, stale, "")
				default:
					t.add(r, Unmanaged, "")
				}
			}
			for prefix, w := range wanted {
				if !there[prefix] {
					t.Routes = append(t.Routes, Route{
						Destination: prefix.String(), Wanted: w.NextHop(),
						Node: inventory.RouteNode(w.Name), State: Missing,
					})
				}
			}
		}
		c.Tables = append(c.Tables, t.sorted())
	}
}

// neighbours are the other clusters with pod routes in the same target. If two clusters use the
// same addresses, a route can look like a route of either.
type neighbours struct {
	s      plan.Facts
	except string // the name of this cluster
	target arm.ID
	all    []v1alpha1.ClusterRoutes
	taken  plan.Taken

	wanted []map[netip.Prefix]inventory.Route // nil until it is needed
}

// wants reports whether another cluster wants a route.
func (n *neighbours) wants(r inventory.Route) bool {
	if n.wanted == nil {
		n.wanted = []map[netip.Prefix]inventory.Route{}
		for i := range n.all {
			o := &n.all[i]
			shared := slices.ContainsFunc(o.Spec.Targets, func(t v1alpha1.Target) bool {
				return n.target.Equal(arm.ID(t.RouteTableID))
			})
			if o.Metadata.Name == n.except || !shared {
				continue
			}
			if table := plan.SourceTable(n.s, o, plan.Discover(n.s, o, n.taken)); table != nil {
				n.wanted = append(n.wanted, plan.PodRoutes(n.s, o, table))
			}
		}
	}
	return slices.ContainsFunc(n.wanted, func(routes map[netip.Prefix]inventory.Route) bool {
		w, wants := routes[r.Prefix]
		return wants && w.SameHop(r)
	})
}

// on reports whether a table is on a subnet, or must be.
func (c *Cluster) on(table arm.ID) bool {
	return slices.ContainsFunc(c.Subnets, func(s Subnet) bool {
		return s.Table.Equal(table) || s.Wanted.Equal(table)
	})
}

// worksOrIdle returns the state of a correct route. It depends on whether the table is on all
// subnets that need it.
func (c *Cluster) worksOrIdle(table arm.ID) string {
	state := Works
	for _, s := range c.Subnets {
		switch {
		case !s.Wanted.Equal(table) || s.State == Right:
		case s.State == Unknown:
			state = Unknown
		default:
			return Idle
		}
	}
	return state
}

func tableOf(s *inventory.Snapshot, id arm.ID, role string, limit int) Table {
	t := Table{ID: id, Role: role, Limit: limit, Routes: []Route{}, Unread: reasonOf(s, id)}
	if table := s.Table(id); table != nil {
		t.ID, t.Held, t.Unread = table.ID, len(table.Routes()), ""
	}
	return t
}

func (t *Table) add(r inventory.Route, state, wanted string) {
	out := Route{
		Name: r.Name, Destination: r.Destination(), NextHop: r.NextHop(),
		Wanted: wanted, State: state,
	}
	if state != Unmanaged {
		out.Node = inventory.RouteNode(r.Name)
	}
	t.Routes = append(t.Routes, out)
}

// sorted moves unmanaged routes to the end, and sorts each kind by destination.
func (t Table) sorted() Table {
	slices.SortStableFunc(t.Routes, func(a, b Route) int {
		return cmp.Or(unmanagedLast(a)-unmanagedLast(b),
			plan.CompareDestinations(a.Destination, b.Destination), cmp.Compare(a.Name, b.Name))
	})
	return t
}

func unmanagedLast(r Route) int {
	if r.State == Unmanaged {
		return 1
	}
	return 0
}

// Counted counts pod routes in all tables. All includes missing routes, Correct are routes that
// work, and Unknown are routes that may or may not work.
type Counted struct {
	All     int `json:"all"`
	Correct int `json:"correct"`
	Unknown int `json:"unknown"`
}

// Wrong returns how many pod routes do not work.
func (c Counted) Wrong() int { return c.All - c.Correct - c.Unknown }

// Routes counts the cluster's pod routes.
func (c Cluster) Routes() (n Counted) {
	for state, count := range c.Counts() {
		switch state {
		case Unmanaged, Leftover, Kept:
			continue
		case Works:
			n.Correct = count
		case Unknown:
			n.Unknown = count
		}
		n.All += count
	}
	return n
}

// Broken counts the associations that are wrong or lost.
func (c Cluster) Broken() (n int) {
	for _, s := range c.Subnets {
		for _, p := range s.Required() {
			if p.State == Lost || p.State == Other {
				n++
			}
		}
	}
	return n
}

// RouteTable returns the cluster's route table, or nil.
func (c Cluster) RouteTable() *Table {
	if len(c.Tables) > 0 && c.Tables[0].Role == RoleCluster {
		return &c.Tables[0]
	}
	return nil
}

// Routed counts the nodes that have a pod route in the cluster's route table, by name.
func (c Cluster) Routed() int { return len(c.RoutedNodes()) }

// RoutedNodes returns the nodes that have a pod route in the cluster's route table, by name.
func (c Cluster) RoutedNodes() map[string]bool {
	nodes := map[string]bool{}
	if own := c.RouteTable(); own != nil {
		for _, r := range own.Routes {
			if r.State != Unmanaged {
				nodes[r.Node] = true
			}
		}
	}
	return nodes
}

// Kubenet reports whether the cluster uses kubenet.
func (c Cluster) Kubenet() bool { return strings.EqualFold(c.Plugin, "kubenet") }

// Unrouted reports whether the cluster's route table was read but has no route to any node.
func (c Cluster) Unrouted() bool {
	own := c.RouteTable()
	return c.Kubenet() && c.Nodes > 0 && own != nil && own.Unread == "" && c.Routed() == 0 &&
		c.Routes().All == 0
}

// Idle returns the targets that are on no subnet.
func (c Cluster) Idle() (names []string) {
	for _, t := range c.Tables {
		if t.Idle {
			names = append(names, t.ID.Name())
		}
	}
	return names
}

// Counts counts the routes in all tables by state.
func (c Cluster) Counts() map[string]int {
	all := map[string]int{}
	for _, t := range c.Tables {
		for state, n := range t.Counts() {
			all[state] += n
		}
	}
	return all
}

// Counts counts the routes of a table by state.
func (t Table) Counts() map[string]int {
	n := map[string]int{}
	for _, r := range t.Routes {
		n[r.State]++
	}
	return n
}

package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: nodes as source. With source Nodes, the pod routes come from the Node objects of
// the cluster's Kubernetes API, read as a table (inventory.NodesTable). They are then planned like
// the routes of a cluster's route table, with the same proofs.
//
//	Kubernetes                                 | routes
//	-------------------------------------------|------------------------------------------------
//	a node with a pod CIDR and an address      | wanted, whether it is Ready or not
//	a node is deleted                          | stale: deleted once no NIC has its address, or
//	                                           |   its machine has settled with another pod CIDR
//	the API does not answer                    | unknown: all stay as they are (nodes-unread)
//	more nodes than a target has room for      | routes that are there stay; free places are
//	                                           |   filled by the name of the node (target-full)
//
// A kubenet cluster also has its own table. Its associations are guarded as always. The nodes then
// give a second opinion about its routes.

// readyFor is how long a node must be Ready before a missing route is an error: by then the node's
// pods serve, but cannot be reached.
const readyFor = time.Minute

// Routed reports whether a cluster has pod routes to manage: it uses kubenet, or the config reads
// the nodes of an overlay cluster.
func Routed(c *v1alpha1.ClusterRoutes, cluster *inventory.Cluster) bool {
	return cluster.Kubenet() || fromNodes(c) && cluster.Overlay()
}

func fromNodes(c *v1alpha1.ClusterRoutes) bool { return c.Spec.Source == v1alpha1.SourceNodes }

// NodesTable returns the pod routes of a cluster's nodes as its Kubernetes API last showed them, or
// nil if they are unknown.
func NodesTable(s Facts, cluster arm.ID) *inventory.RouteTable {
	known := s.Kubernetes[cluster.Key()]
	if known == nil || known.Failed != "" || known.Nodes == nil {
		return nil
	}
	return inventory.NodesTable(cluster, known.Nodes)
}

// SourceTable returns the table that a cluster's pod routes are read from: its route table, or its
// nodes as a table. It returns nil if that is unknown.
func SourceTable(s Facts, c *v1alpha1.ClusterRoutes, own Discovery) *inventory.RouteTable {
	if fromNodes(c) {
		return NodesTable(s, arm.ID(c.Spec.ClusterID))
	}
	return s.Table(own.Table)
}

// readsNodes reports whether a config of this plan reads the nodes of a cluster.
func (p *Planner) readsNodes(cluster arm.ID) bool {
	return slices.ContainsFunc(p.configs, func(c v1alpha1.ClusterRoutes) bool {
		return fromNodes(&c) && cluster.Equal(arm.ID(c.Spec.ClusterID))
	})
}

// readNodes takes the pod routes of a cluster from its nodes.
func (p *Planner) readNodes(v *clusterState) {
	id := v.cluster.ID
	if v.cluster.Overlay() {
		p.add(finding.New(finding.OverlayRoutes, v.name, string(id),
			"cluster %s uses Azure CNI Overlay: whether its pods can be reached by routes is not "+
				"settled", id.Short()).
			With("Microsoft documents that machines outside the cluster cannot connect to overlay "+
				"pods (learn.microsoft.com/azure/aks/concepts-network-azure-cni-overlay)",
				"a user shows that routes to the nodes work, tried with container instances in "+
					"another subnet (github.com/Azure/AKS/issues/4871)").
			WithAdvice("try one pod from one machine before you rely on it"))
	}
	if v.from = NodesTable(p.s, id); v.from == nil {
		p.reportNodesUnread(v)
		return
	}
	v.wanted, _ = v.rows(v.from)
	p.outsideHops(v, v.from)
	if len(v.wanted) == 0 && v.cluster.Nodes() > 0 && len(v.cidrs) > 0 && !v.cluster.Stopped {
		p.add(finding.New(finding.SourceEmpty, v.name, string(id),
			"the Kubernetes API of cluster %s shows no node with a pod CIDR in %v, but its pools "+
				"count %s", id.Short(), v.cidrs, finding.Count(v.cluster.Nodes(), "node")).
			WithFix("kubectl get nodes -o yaml"))
	}
}

// reportNodesUnread reports that a cluster's nodes are unknown.
func (p *Planner) reportNodesUnread(v *clusterState) {
	known := p.s.Kubernetes[v.cluster.ID.Key()]
	if known == nil {
		known = &inventory.Kubernetes{Failed: "its Kubernetes API was not read"}
	}
	code, since := finding.NodesUnread, ""
	if known.NoLogin {
		code = finding.KubeloginMissing
	}
	if !known.Since.IsZero() {
		since = " since " + known.Since.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	f := finding.New(code, v.name, string(v.cluster.ID),
		"the nodes of cluster %s have not been read%s, so its routes stay as they are: %s",
		v.cluster.ID.Short(), since, cmp.Or(known.Failed, "its Kubernetes API shows no nodes"))
	if v.cluster.Stopped {
		f.Severity = finding.Info // it has no nodes, and they may return
	}
	p.add(f)
}

// whence returns the words for where the pod routes of a cluster come from.
func (v *clusterState) whence() string {
	if fromNodes(v.config) {
		return "Kubernetes of cluster " + v.cluster.ID.Short()
	}
	return "the route table of cluster " + v.cluster.ID.Short()
}

// showSource returns the command that shows the source.
func (v *clusterState) showSource() finding.CommandLine {
	if fromNodes(v.config) {
		return finding.Command("kubectl get nodes -o wide")
	}
	return finding.Command("az network route-table show --ids %s", v.source)
}

// byNode returns the wanted routes in the order in which they fill free places: routes of nodes are
// sorted by the name of the node.
func (s *targetCluster) byNode() podRoutes {
	if !fromNodes(s.config) {
		return s.wanted
	}
	return slices.SortedStableFunc(slices.Values(s.wanted), func(a, b *inventory.Route) int {
		return strings.Compare(inventory.RouteNode(a.Name), inventory.RouteNode(b.Name))
	})
}

// unroutedNode is a node that is Ready and lacks a route.
type unroutedNode struct {
	node, lacks string
}

// readyNodes reports nodes that are Ready and lack routes in the targets or, on kubenet, in the
// cluster's route table.
func (w *planning) readyNodes(v *clusterState, state State) {
	if !fromNodes(v.config) || v.wanted == nil || v.cluster.Stopped || v.blind || w.watching {
		return
	}
	nodes := w.s.Kubernetes[v.cluster.ID.Key()].Nodes
	before, now := w.s.Memory.Of(v.cluster.ID).Nodes, NodeRoutes{}
	for _, t := range v.config.Spec.Targets {
		id := arm.ID(t.RouteTableID)
		table, desired := w.s.Table(id), state.Table(id)
		if table == nil || desired == nil || t.Policy == v1alpha1.PolicyObserve {
			continue // another finding says why
		}
		is, will := hopsOf(table.Routes()), hopsOf(desired.Routes)
		var lacking []unroutedNode
		for _, n := range nodes {
			lacks, repaired := v.lacks(n, is), v.lacks(n, will) == ""
			if lacks == "" {
				continue
			}
			key := id.Key() + " " + n.Name
			lack, again := before.Lacks[key]
			if !again {
				lack.Since = w.s.Taken
			}
			now.note(key, lack)
			late := w.s.Taken.Sub(lack.Since) >= readyFor
			if n.ReadyFor(readyFor, w.s.Taken) && (late || !repaired) {
				lacking = append(lacking, unroutedNode{n.Name, lacks})
			}
		}
		w.reportReady(v, id, lacking)
	}
	w.secondOpinion(v, nodes, before, &now)
	w.forwarding(v, before, &now)
	w.noted[v.cluster.ID.Key()] = now
}

// hopsOf returns next hops by prefix.
func hopsOf(routes []inventory.Route) map[netip.Prefix]netip.Addr {
	hops := make(map[netip.Prefix]netip.Addr, len(routes))
	for _, r := range routes {
		if r.Prefix.IsValid() && r.Hop.IsValid() {
			hops[r.Prefix] = r.Hop
		}
	}
	return hops
}

// lacks says which routes to a node's pods are missing from the given ones, or returns "".
func (v *clusterState) lacks(n inventory.Node, hops map[netip.Prefix]netip.Addr) string {
	routes := n.PodRoutes()
	switch {
	case len(n.PodCIDRs) == 0:
		return "it has no pod CIDR"
	case len(routes) < len(n.PodCIDRs):
		return fmt.Sprintf("it has no address for one of its pod CIDRs %v", n.PodCIDRs)
	}
	var lacks []string
	for _, r := range routes {
		ours := slices.ContainsFunc(v.cidrs, func(c netip.Prefix) bool {
			return c.Contains(r.Prefix.Addr())
		})
		if ours && hops[r.Prefix] != r.Hop {
			lacks = append(lacks, fmt.Sprintf("%s to %s", r.Prefix, r.Hop))
		}
	}
	return strings.Join(lacks, ", ")
}

func (w *planning) reportReady(v *clusterState, table arm.ID, lacking []unroutedNode) {
	if len(lacking) == 0 {
		return
	}
	of := " of cluster " + v.cluster.ID.Short()
	f := finding.New(finding.NodeWithoutRoute, v.name, string(table),
		"%s Ready without routes in %s for a minute or longer",
		finding.CountOf(len(lacking), "node"+of+" is", "nodes"+of+" are"), table.Short()).
		WithFix("az network route-table show --ids %s", table)
	for _, n := range lacking {
		f = f.With(n.node + ": " + n.lacks)
	}
	w.add(f)
}

// secondOpinion compares the route table of a kubenet cluster with its nodes. If a watch shows the
// nodes, a difference must last before it is reported: a hanging API server is noticed after half a
// minute, and until then the nodes may be old.
func (w *planning) secondOpinion(v *clusterState, nodes []inventory.Node, before NodeRoutes,
	now *NodeRoutes) {
	table := w.s.Table(v.source)
	if table == nil || v.doubtful {
		return
	}
	lasts := func(what string) bool {
		if !w.s.Kubernetes[v.cluster.ID.Key()].Followed {
			return true
		}
		key := table.ID.Key() + " " + what
		lack, again := before.Lacks[key]
		if !again {
			lack.Since = w.s.Taken
		}
		now.note(key, lack)
		return w.s.Taken.Sub(lack.Since) >= readyFor
	}
	is := make(map[netip.Prefix]netip.Addr, len(v.opinion))
	for _, r := range v.opinion {
		is[r.Prefix] = r.Hop
		if want, wanted := v.wanted.at(r.Prefix); wanted {
			is[r.Prefix] = want.Hop // a wrong next hop is reported below
		}
	}
	var lacking []unroutedNode
	for _, n := range nodes {
		if v.cluster.Overlay() || v.cluster.Migrating && n.Overlay {
			continue // AKS removes the routes of moved nodes
		}
		lacks := v.lacks(n, is)
		if lacks != "" && lasts("node "+n.Name) && n.ReadyFor(readyFor, w.s.Taken) {
			lacking = append(lacking, unroutedNode{n.Name, lacks})
		}
	}
	w.reportReady(v, table.ID, lacking)
	for _, r := range v.opinion {
		want, wanted := v.wanted.at(r.Prefix)
		switch {
		case wanted && want.Hop == r.Hop, !lasts("route " + r.Name):
		case !wanted:
			w.add(finding.New(finding.RouteToGoneNode, v.name, string(table.ID),
				"route %s (%s) in the route table of cluster %s leads to %s, but no node in "+
					"Kubernetes has the pod CIDR", r.Name, r.Prefix, v.cluster.ID.Short(),
				r.NextHop()).About(r.Name).WithFix("kubectl get nodes -o wide"))
		default:
			w.add(finding.New(finding.WrongHop, v.name, string(table.ID),
				"route %s (%s) in the route table of cluster %s leads to %s, but its node %s has "+
					"the address %s", r.Name, r.Prefix, v.cluster.ID.Short(), r.NextHop(),
				inventory.RouteNode(want.Name), want.Hop).About(r.Name).
				WithFix("%s", deleteCommand(table.ID, r.Name)))
		}
	}
}

// forwarding reports nodes of an overlay cluster whose network interfaces drop packets for pods. It
// reads the interfaces once for each set of addresses, and again while one drops packets.
func (w *planning) forwarding(v *clusterState, before NodeRoutes, now *NodeRoutes) {
	if !v.cluster.Overlay() || len(v.config.Spec.Targets) == 0 {
		return
	}
	now.Hops = make(map[netip.Addr]string, len(v.wanted))
	known := !before.Drops
	for _, r := range v.wanted {
		now.Hops[r.Hop] = inventory.RouteNode(r.Name)
		_, seen := before.Hops[r.Hop]
		known = known && seen
	}
	if known {
		return
	}
	nics := w.s.addresses(v.cluster.ID).NICs
	switch {
	case nics == nil:
		w.need.NICs = append(w.need.NICs, v.cluster.ID)
		return
	case nics.Failed != "":
		return // the rule that needs a proof reports it
	}
	var lines []string
	for _, r := range v.wanted {
		if _, seen := nics.Holder[r.Hop]; !seen {
			delete(now.Hops, r.Hop) // the next check asks again
		}
		if nics.Drops[r.Hop] {
			lines = append(lines,
				fmt.Sprintf("%s (%s)", cmp.Or(nics.Holder[r.Hop], now.Hops[r.Hop]), r.Hop))
		}
	}
	if now.Drops = len(lines) > 0; now.Drops {
		lines = slices.Compact(lines)
		f := finding.New(finding.ForwardingOff, v.name, string(v.cluster.ID),
			"IP forwarding is off on the network interfaces of %s of cluster %s, so Azure may "+
				"drop what routes send there for pods", finding.Count(len(lines), "node"),
			v.cluster.ID.Short()).With(lines...).
			WithAdvice("set enableIPForwarding in the model of the scale set, and update its " +
				"instances")
		f.Severity = finding.Warning // the overlay itself does not need forwarding
		w.add(f)
	}
}

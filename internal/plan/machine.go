package plan

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: this file finds out whose machine is behind a route. An address proves nothing:
// Azure gives it to the next machine, and anybody who may write the cluster's table can exchange
// the next hops of two nodes, or restore an older table. The cloud provider never repairs this,
// because it compares nodes and prefixes but not next hops (docs/azure.md). So a copy follows a
// machine and not an address.
//
// A machine is known by the name of its node. The cloud provider writes that name into the route. A
// network interface shows whose it is: an instance of a scale set, or a virtual machine, in the
// cluster's own node resource group (inventory.NICs).
//
//	the copy names | the cluster's row names | the new next hop is  | the copy
//	---------------|-------------------------|----------------------|--------------------------------
//	machine A      | machine A               | A's                  | follows
//	               |                         | another machine's    | stays: wrong-next-hop
//	               |                         | no machine's         | stays: updates-withheld
//	machine A      | machine B               | B's, and the copy is | is replaced by B's route
//	  or none      |                         |   proven stale       |
//	               |                         | B's, and the copy    | is replaced by B's route
//	               |                         |   leads to machine C,|
//	               |                         |   which has a row    |
//	               |                         | B's, neither holds   | stays: updates-withheld
//	any            | machine B               | another machine's    | stays: wrong-next-hop
//	there is none  | machine B               | another machine's    | is not created: wrong-next-hop
//	               |                         | B's, or not known    | is created

// nodeOf returns the node that a route's name contains, in lower case, or "".
func (v *clusterState) nodeOf(r inventory.Route) string {
	if !nodeNamed(r) && !fromNodes(v.config) {
		return ""
	}
	return strings.ToLower(inventory.RouteNode(r.Name))
}

// reportStrangers reports the rows of the cluster's table that have its addresses but no cloud
// provider's name.
func (w *planning) reportStrangers(v *clusterState) {
	n := len(v.strangers)
	if n == 0 || w.watching {
		return // a diagnosis judges each route in the cluster's table
	}
	f := finding.New(finding.RouteInPodCIDR, v.name, string(v.source),
		"route table %s of cluster %s has %s: the cloud provider did not write %s, and %s not "+
			"copied",
		v.source.Short(), v.cluster.ID.Short(),
		finding.CountOf(n, "route inside the pod CIDR that is not named after a node",
			"routes inside the pod CIDR that are not named after nodes"),
		map[bool]string{true: "it", false: "them"}[n == 1],
		map[bool]string{true: "it is", false: "they are"}[n == 1]).
		With(routeLines(v.strangers)...).
		With("the cloud provider deletes routes inside the pod CIDR that match no node")
	if n == 1 {
		w.add(f.WithFix("%s", deleteCommand(v.source, v.strangers[0].Name)))
		return
	}
	w.add(f.WithFix("%s", v.showSource()))
}

// leadsHome proves that the next hop of a wanted route belongs to the machine that the route names.
// If another machine has the next hop, against is set. NICs from an earlier check cannot
// contradict: the address can have a new holder.
func (w *planning) leadsHome(s *clusterState, want inventory.Route) (p proof, against bool) {
	nics, p := w.nics(s, want.Hop)
	if nics.NICs == nil {
		return p, false
	}
	holder, held := nics.Holder[want.Hop]
	node, named := nics.Nodes[want.Hop], s.nodeOf(want)
	switch {
	case !held:
		return lacking("no network interface that was seen has %s", want.Hop), false
	case nics.asked != nil && !w.onlyShown:
		return w.readNICs(s), false
	case node == "" && named != "":
		return lacking("%s belongs to %s, whose node is unknown", want.Hop, holder), false
	case node != named && named != "":
		return lacking("%s belongs to %s, node %s", want.Hop, holder, node), true
	}
	return proven("its node has %s", want.Hop), false
}

// contradicted reports whether the known NICs show that the next hop of a wanted route belongs to
// another machine. Unlike leadsHome it requires no read: a new node's route is copied at once.
func (w *planning) contradicted(s *clusterState, nics addresses, want inventory.Route) bool {
	if nics.NICs == nil || nics.Failed != "" || !s.misleads(nics.NICs, want) {
		return false
	}
	w.leadsHome(s, want) // requests what an earlier check has read
	return true
}

// misleads reports whether the next hop of a route is the address of a node other than the one in
// its name.
func (v *clusterState) misleads(nics *inventory.NICs, r inventory.Route) bool {
	node, named := nics.Nodes[r.Hop], v.nodeOf(r)
	return node != "" && named != "" && node != named
}

// crossed returns the pod routes in a cluster's table whose next hops belong to other machines,
// with a line for each. It returns false if this check does not know.
func (w *planning) crossed(v *clusterState, rows podRoutes) (lines []string, known bool) {
	nics := w.s.addresses(v.cluster.ID)
	if nics.NICs == nil || nics.Failed != "" {
		return nil, false
	}
	for _, r := range rows {
		if v.misleads(nics.NICs, *r) {
			lines = append(lines, fmt.Sprintf("%s is named after node %s, but %s belongs to node "+
				"%s (%s)", routeLine(*r), v.nodeOf(*r), r.Hop, nics.Nodes[r.Hop],
				nics.Holder[r.Hop]))
		}
	}
	if len(lines) > 0 && nics.asked != nil && !w.onlyShown { // an address can have a new holder
		w.readNICs(v)
		return nil, false
	}
	return lines, true
}

// reportCrossed reports pod routes that lead to a node other than the one they name, and the copies
// that do not follow them.
func (w *planning) reportCrossed(v *clusterState) {
	if v.wanted == nil || w.watching || v.cluster.Stopped || v.blind {
		return // a diagnosis compares each route with its node
	}
	rows := v.wanted
	if !fromNodes(v.config) {
		_, rows = w.allPodRoutes(v)
	}
	lines, known := w.crossed(v, rows)
	if !known || len(lines) == 0 {
		return
	}
	resource := v.source
	if fromNodes(v.config) {
		resource = v.cluster.ID
	}
	f := finding.New(finding.WrongHop, v.name, string(resource),
		"%s in %s: packets for the pods of one node go to another, or a name is wrong",
		finding.CountOf(len(lines), "pod route leads to another node than it names",
			"pod routes lead to other nodes than they name"), v.whence()).With(lines...)
	if stay := w.stays[v]; len(stay) > 0 {
		f = f.With("these copies do not follow:").With(stay...)
	}
	if !fromNodes(v.config) {
		f = f.With("the cloud provider does not repair a next hop: it writes a deleted route " +
			"again with the right one")
	}
	w.add(f.WithFix("%s", v.showSource()))
}

// replaceable proves that a copy can give way to the route of the cluster's row, whose next hop
// belongs to its machine. The copy names another machine than the row, or none. Either no node is
// behind the copy, or the copy leads to a node that it does not name and that has a row of its own.
func (t *target) replaceable(s *targetCluster, copied inventory.Route) proof {
	nics, p := t.w.nics(s.clusterState, copied.Hop)
	if nics.NICs == nil {
		return p
	}
	if node := nics.Nodes[copied.Hop]; s.misleads(nics.NICs, copied) {
		for _, r := range s.wanted {
			if r.Hop == copied.Hop && r.Prefix != copied.Prefix && s.nodeOf(*r) == node {
				return proven("%s belongs to node %s now, which has %s", r.Hop, node, r.Prefix)
			}
		}
	}
	return t.nodeGone(s, copied)
}

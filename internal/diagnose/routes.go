package diagnose

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// tableCheck compares the cluster's route table with its nodes.
type tableCheck struct {
	*clusterCase
	ownership plan.Ownership
	nodes     nodeSet
	// pods has the routes whose prefix can be a node's pod CIDR, and hops their next hops. held
	// names the machine that has an address.
	pods map[netip.Prefix]inventory.Route
	hops map[netip.Addr]bool
	held map[netip.Addr]string
	// claims has the nodes by pod CIDR, if Kubernetes shows them.
	claims map[netip.Prefix]*node
	// misrouted has the nodes, by name and address family, whose route leads to another address.
	misrouted map[string]bool
	gone      []string
	goneID    []string
	found     []finding.Finding
}

// checkTable returns the comparison. It returns nil if the cluster's route table is not known for
// certain, or the cluster is stopped and has no nodes.
func (p *clusterCase) checkTable() *tableCheck {
	if p.table == nil || p.config == nil || p.source.Doubtful || p.cluster.Stopped {
		return nil
	}
	b := &tableCheck{clusterCase: p, ownership: plan.Owner(p.s, p.config, p.table),
		nodes: p.nodes(),
		pods:  map[netip.Prefix]inventory.Route{},
		hops:  map[netip.Addr]bool{}, held: p.holders(), claims: map[netip.Prefix]*node{},
		misrouted: map[string]bool{}}
	if len(b.ownership.PodCIDRs()) == 0 {
		return nil
	}
	for _, n := range b.nodes.all {
		if n.kube != nil {
			for _, prefix := range n.kube.PodCIDRs {
				b.claims[prefix] = n
			}
		}
	}
	for _, r := range p.table.Routes() {
		if !b.ownership.NodePrefix(r.Prefix) {
			continue
		}
		if first, twice := b.pods[r.Prefix]; !twice {
			b.pods[r.Prefix], b.hops[r.Hop] = r, true
		} else if !first.SameHop(r) {
			// Azure accepts one route per prefix, but a saved file can have two
			b.twice(r, first)
		}
	}
	for _, r := range p.table.Routes() {
		b.checkRoute(r)
	}
	return b
}

// checkRoutes checks the routes in the cluster's route table, and finds missing ones.
func checkRoutes(p *clusterCase) {
	checkForwarding(p)
	b := p.checkTable()
	if b == nil {
		return
	}
	if len(b.gone) > 0 {
		b.add(b.ofTable(finding.RouteToGoneNode, "%s in route table %s of cluster %s to nodes "+
			"that are gone", finding.CountOf(len(b.gone), "route leads", "routes lead"),
			b.table.ID.Short(), b.cluster.ID.Short()).
			With(b.gone...).WithFix("az network route-table route delete --ids %s", b.goneID))
	}
	b.room(b.missing())
	p.add(b.found...)
}

func (b *tableCheck) add(f finding.Finding) { b.found = append(b.found, f) }

// ofTable returns a finding about the table.
func (b *tableCheck) ofTable(code finding.Code, format string, args ...any) finding.Finding {
	return b.clusterCase.found(code, b.table.ID, format, args...)
}

// about returns a finding about one route. Its command deletes the route.
func (b *tableCheck) about(code finding.Code, r inventory.Route, format string,
	args ...any) finding.Finding {
	return b.ofTable(code, "route %s (%s to %s) in route table %s of cluster %s %s", r.Name,
		r.Destination(), r.NextHop(), b.table.ID.Short(), b.cluster.ID.Short(), fmt.Sprintf(format,
			args...)).
		About(r.Name).WithFix("az network route-table route delete --ids %s",
		b.table.ID.Child("routes", r.Name))
}

// checkRoute checks a route that the cloud provider treats as its own: one that begins or ends
// inside a pod CIDR (route_controller, isResponsibleForRoute). A wider route, such as 10.0.0.0/8 to
// a firewall, does no harm: the nodes' routes are more specific.
func (b *tableCheck) checkRoute(r inventory.Route) {
	for _, cidr := range b.ownership.PodCIDRs() {
		switch {
		case !r.Prefix.IsValid() || !cidr.Contains(r.Prefix.Addr()) &&
			!cidr.Contains(inventory.Last(r.Prefix)):
		case !b.ownership.NodePrefix(r.Prefix):
			b.checkOther(r, cidr)
		case b.pods[r.Prefix].Name == r.Name:
			b.checkPodRoute(r, cidr)
		}
	}
}

// checkOther checks a route inside the pod CIDR whose prefix cannot be a node's.
func (b *tableCheck) checkOther(r inventory.Route, inside netip.Prefix) {
	for prefix, pod := range b.pods {
		if prefix.Bits() >= r.Prefix.Bits() || !prefix.Contains(r.Prefix.Addr()) ||
			pod.SameHop(r) || b.nodes.asked && b.claims[prefix] == nil {
			continue
		}
		if b.isNode(r) {
			b.twice(r, pod)
			return
		}
		f := b.about(finding.RouteShadows, r, "is more specific than the pod route %s of %s: "+
			"packets to these pods do not reach their node at %s", prefix, inventory.RouteNode(
			pod.Name),
			pod.NextHop())
		if r.Hop.IsValid() {
			f.Severity = finding.Warning
			f = f.With(fmt.Sprintf("%s is an appliance, which may forward them", r.Hop))
		}
		b.add(f)
		return
	}
	b.unmatched(r, inside)
}

// checkPodRoute checks a route whose prefix can be a node's.
func (b *tableCheck) checkPodRoute(r inventory.Route, inside netip.Prefix) {
	owner := b.claims[r.Prefix]
	if !b.nodes.asked {
		owner = b.nodes.byName[strings.ToLower(inventory.RouteNode(r.Name))]
	}
	switch {
	case owner != nil:
		b.checkOwned(r, owner)
	case !r.Hop.IsValid():
		b.unmatched(r, inside)
	case !b.ownership.NodeHop(r): // package plan reports it
	case b.nodes.asked:
		b.noteGone(r, "no node has this pod CIDR")
	default:
		b.checkUnnamed(r)
	}
}

// checkOwned checks the route of an existing node.
func (b *tableCheck) checkOwned(r inventory.Route, n *node) {
	family := familyOf(r.Prefix.Addr())
	right := netip.Addr{}
	for _, a := range n.addrs {
		if a == r.Hop {
			return
		}
		if familyOf(a) == family {
			right = a
		}
	}
	if !right.IsValid() {
		return // the node has no address of this family, or the address could not be read
	}
	b.misrouted[n.name+family] = true
	f := b.about(finding.WrongHop, r, "does not lead to its node %s", n)
	switch holder := b.holder(r.Hop); {
	case !r.Hop.IsValid():
	case holder != "":
		f = f.With(fmt.Sprintf("%s belongs to %s", r.Hop, holder))
	case b.nodes.complete:
		f = f.With(fmt.Sprintf("no network interface of the cluster has %s", r.Hop))
	}
	b.add(f.With("delete the route, and the cloud provider writes it again with the right address"))
}

// checkUnnamed checks a route whose name contains none of the known machines. Kubernetes was not
// asked.
func (b *tableCheck) checkUnnamed(r inventory.Route) {
	n := b.nodes.byAddr[r.Hop]
	switch {
	case n != nil && n.name != "" && b.nodes.complete &&
		b.cluster.PoolOf(inventory.RouteNode(r.Name)) != "":
		b.noteGone(r, "no node has this name, and its address now belongs to "+n.String())
	case n != nil && !plan.ProviderNamed(r):
		b.add(b.about(finding.RouteInPodCIDR, r, "leads to %s, but is named after no node, so the "+
			"cloud provider did not write it: it is copied to no other table", n))
	case n != nil:
	case b.holder(r.Hop) != "":
		b.add(b.about(finding.HopNotNode, r, "leads to %s, which is not a node of its pools",
			b.holder(r.Hop)))
	case b.nodes.complete:
		b.noteGone(r, "no network interface has the address")
	}
}

// noteGone notes a route whose node is gone.
func (b *tableCheck) noteGone(r inventory.Route, why string) {
	b.gone = append(b.gone, fmt.Sprintf("%s (%s to %s): %s", r.Name, r.Prefix, r.NextHop(), why))
	b.goneID = append(b.goneID, string(b.table.ID.Child("routes", r.Name)))
}

func (b *tableCheck) twice(r, other inventory.Route) {
	b.add(b.about(finding.ClaimedTwice, r, "covers pods of %s, which route %s sends to %s",
		other.Prefix,
		other.Name, other.NextHop()).
		With("the longer prefix wins. Check which route is wrong: the command deletes " + r.Name +
			"t\n"))
}

func (b *tableCheck) unmatched(r inventory.Route, inside netip.Prefix) {
	where := "lies inside"
	if r.Prefix.Bits() < inside.Bits() {
		where = "overlaps"
	}
	b.add(b.about(finding.RouteInPodCIDR, r, "%s the pod CIDR %s: the cloud provider deletes it, "+
		"whatever its name", where, inside))
}

// isNode reports whether a route leads to a node.
func (b *tableCheck) isNode(r inventory.Route) bool {
	return b.nodes.byAddr[r.Hop] != nil || b.ownership.NodeHop(r) && b.holder(r.Hop) == ""
}

// holder returns the name of the machine that has an address in a node subnet, or "".
func (b *tableCheck) holder(a netip.Addr) string {
	if n := b.nodes.byAddr[a]; n != nil {
		return n.String()
	}
	return b.held[a]
}

// holders returns all machines in the node subnets, including those of other clusters, by address.
func (p *clusterCase) holders() map[netip.Addr]string {
	node := map[string]bool{}
	for _, id := range p.s.NodeSubnetIDs(p.cluster) {
		node[id.Key()] = true
	}
	held := map[netip.Addr]string{}
	for _, key := range slices.Sorted(maps.Keys(p.s.Interfaces)) {
		nic := p.s.Interfaces[key]
		for _, c := range nic.Configs {
			if c.Address.IsValid() && node[c.Subnet.Key()] {
				held[c.Address] = nic.Holder()
			}
		}
	}
	return held
}

func familyOf(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

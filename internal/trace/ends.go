package trace

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// end is an end of packets: a node, the pods of a node, or a subnet.
type end struct {
	name string
	Endpoint
	// at is the address of the interface by which its packets enter and leave the network: for pods
	// behind a node, the node's. subnet is the subnet of at, or nil if it is unknown.
	at     netip.Addr
	subnet *inventory.Subnet
}

// sender is an origin of packets.
type sender struct {
	kind string
	node int // index of its node's first receiver, or -1 for a subnet
	end
}

// receiver stands for the pods of a node, by one of their addresses. A node has several receivers
// if a route covers only some of its pods.
type receiver struct {
	node Node
	of   int // index of the node's first receiver
	end
	// doubt says why packets to its pods cannot be traced. Addr is then the node's own address.
	doubt string
}

// place finds the senders and receivers, and lists the nodes whose pods are unknown.
func (g *grid) place() (unseen []string) {
	g.reachers = g.targets()
	flat, narrow := g.podsByNode(), g.narrow()
	unrouted, doubts := map[bool]netip.Addr{}, map[bool]string{} // by whether it is IPv4
	var reasons []string
	missing := map[string][]string{} // nodes by the reason
	skip := func(n Node, why string) {
		if missing[why] == nil {
			reasons = append(reasons, why)
		}
		missing[why] = append(missing[why], n.String())
	}
	for _, n := range g.nodes {
		if !n.Cluster.Equal(g.cluster.ID) {
			continue
		}
		r := receiver{node: n, end: end{name: cmp.Or(n.Name, n.Addr.String()), at: n.Addr,
			subnet: n.subnet}}
		switch {
		case n.lost:
			r.Endpoint = Endpoint{Addr: inventory.FirstUsable(n.Pods), Cluster: n.Cluster}
		case n.subnet == nil:
			skip(n, "its subnet was not read")
			continue
		case n.Pods.IsValid():
			r.Endpoint = Endpoint{Addr: inventory.FirstUsable(n.Pods), Cluster: n.Cluster}
		case flat[n.Name].Addr.IsValid():
			r.Endpoint = flat[n.Name]
			if subnet := g.s.Subnet(r.Subnet); subnet != nil {
				r.at, r.subnet = r.Addr, subnet
			}
		case n.bare && g.cluster.Kubenet():
			r.Endpoint = Endpoint{Addr: n.Addr, Subnet: n.subnet.ID}
			v4 := n.Addr.Is4()
			if _, known := unrouted[v4]; !known {
				unrouted[v4], doubts[v4] = g.unrouted(v4)
			}
			if r.doubt = doubts[v4]; r.doubt == "" {
				r.Endpoint = Endpoint{Addr: unrouted[v4], Cluster: n.Cluster}
			}
		case g.cluster.Kubenet():
			skip(n, "no route leads to its pods, and only Kubernetes knows their addresses")
			continue
		default:
			skip(n, "only Kubernetes knows its pods")
			continue
		}
		i := len(g.to)
		r.of = i
		g.to = append(g.to, r)
		for _, a := range parts(n.Pods, narrow) {
			r.Addr = a
			g.to = append(g.to, r)
		}
		if n.lost { // it can only receive, because it is unknown where its packets start
			continue
		}
		if n.Pods.IsValid() || flat[n.Name].Addr.IsValid() {
			g.from = append(g.from, sender{podToPod, i, r.end})
		}
		g.from = append(g.from, sender{nodeToPod, i, end{r.name,
			Endpoint{Addr: n.Addr, Subnet: n.subnet.ID}, n.Addr, n.subnet}})
	}
	for _, subnet := range g.reachers {
		a := inventory.FirstUsable(subnet.Prefixes[0])
		g.from = append(g.from, sender{subnetToPod, -1, end{subnet.ID.Short(),
			Endpoint{Addr: a, Subnet: subnet.ID}, a, subnet}})
	}
	for _, why := range reasons {
		const most = 4
		nodes := missing[why]
		more := len(nodes) - most
		if more > 0 {
			nodes = nodes[:most]
		}
		for _, n := range nodes {
			unseen = append(unseen, "node "+n+": "+why)
		}
		if more > 0 {
			unseen = append(unseen, fmt.Sprintf("and %d more nodes: %s", more, why))
		}
	}
	return unseen
}

// unrouted returns an address that stands for the pods of a node without a route: any address of
// the pod CIDR that no route covers. If one of the routes may belong to the node after all, it
// returns this as the doubt.
func (g *grid) unrouted(v4 bool) (pods netip.Addr, doubt string) {
	taken := map[netip.Prefix]bool{}
	for _, other := range g.nodes {
		taken[other.Pods] = taken[other.Pods] || other.Cluster.Equal(g.cluster.ID)
	}
	for _, whole := range g.cluster.PodCIDRs {
		if whole.Addr().Is4() != v4 {
			continue
		}
		for _, table := range g.tables() {
			for _, r := range table.Routes() {
				if r.Prefix.IsValid() && whole.Contains(r.Prefix.Addr()) &&
					r.Prefix.Bits() > whole.Bits() && !taken[r.Prefix] {
					return pods, fmt.Sprintf("only Kubernetes knows the node's pods: route %s in "+
						"%s may lead to them, and to no node that is known", r.Name,
						table.ID.Short())
				}
			}
		}
		for p := netip.PrefixFrom(whole.Masked().Addr(), inventory.NodeMask(whole)); whole.Contains(
			p.Addr()); p = next(p) {
			if !taken[p] {
				return inventory.FirstUsable(p), ""
			}
		}
	}
	return pods, "no route leads to the node's pods, and only Kubernetes knows their addresses"
}

// tables returns the tables that packets to the cluster's pods use.
func (g *grid) tables() []*inventory.RouteTable {
	tables := nodeTables(g.s, g.cluster)
	for _, subnet := range g.reachers {
		if table := g.s.Table(subnet.RouteTable); table != nil {
			tables = append(tables, table)
		}
	}
	return tables
}

// narrow returns the prefixes of routes that cover only a part of a node's pods, in these tables.
func (g *grid) narrow() (prefixes []netip.Prefix) {
	for _, table := range g.tables() {
		for _, r := range table.Routes() {
			for _, whole := range g.cluster.PodCIDRs {
				if r.Prefix.IsValid() && whole.Contains(r.Prefix.Addr()) &&
					r.Prefix.Bits() > inventory.NodeMask(whole) {
					prefixes = append(prefixes, r.Prefix)
				}
			}
		}
	}
	return inventory.SortPrefixes(prefixes)
}

// mostParts is the greatest number of further addresses of a node's pods that are traced.
const mostParts = 16

// parts returns an address in each narrow prefix of a node's pods, and one after the prefix ends.
// It omits the address that stands for the node.
func parts(pods netip.Prefix, narrow []netip.Prefix) (out []netip.Addr) {
	for _, p := range narrow {
		if !pods.IsValid() || !pods.Contains(p.Addr()) || len(out) >= mostParts {
			continue
		}
		for _, a := range []netip.Addr{inventory.FirstUsable(p), next(p).Addr()} {
			if pods.Contains(a) && a != inventory.FirstUsable(pods) && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// next returns the following prefix of the same length.
func next(p netip.Prefix) netip.Prefix {
	bytes := p.Addr().AsSlice()
	for at := p.Bits() - 1; at >= 0; at-- {
		bit := byte(0x80) >> (at % 8)
		if bytes[at/8] ^= bit; bytes[at/8]&bit != 0 {
			break // nothing to send
		}
	}
	a, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(a, p.Bits())
}

// podsByNode returns, for each node, one pod that has an address of the network, if Kubernetes was
// read.
func (g *grid) podsByNode() map[string]Endpoint {
	out := map[string]Endpoint{}
	kube := g.s.Kubernetes[g.cluster.ID.Key()]
	if kube == nil || g.cluster.Kubenet() || g.cluster.Overlay() {
		return out
	}
	for _, p := range kube.Pods {
		if !p.HostNetwork && !p.Ended() && len(p.Addresses) > 0 && !out[p.Node].Addr.IsValid() {
			e := Endpoint{Addr: p.Addresses[0]}
			e.Cluster, e.Subnet = g.podPlace(g.cluster, p)
			out[p.Node] = e
		}
	}
	return out
}

// targets returns the subnets that must reach the cluster's pods. Their table has routes to pods,
// or they have an Application Gateway in the same network or a peered one. With Options.Certain
// only the gateway of the cluster's ingress add-on counts.
func (g *grid) targets() []*inventory.Subnet {
	own := g.s.NodeSubnetIDs(g.cluster)
	prefixes := g.s.NodePrefixes(g.cluster)
	near := map[string]bool{}
	for _, id := range own {
		near[id.Parent().Key()] = true
		if vnet := g.s.VNets[id.Parent().Key()]; vnet != nil {
			for _, peer := range vnet.Peers() {
				near[peer.Key()] = true
			}
		}
	}
	var out []*inventory.Subnet
	for _, key := range slices.Sorted(maps.Keys(g.s.Subnets)) {
		subnet := g.s.Subnets[key]
		table := g.s.Table(subnet.RouteTable)
		switch {
		case slices.ContainsFunc(own, subnet.ID.Equal) || len(subnet.Prefixes) == 0:
		case slices.ContainsFunc(g.also, subnet.ID.Equal):
			out = append(out, subnet)
		case len(subnet.Gateways) > 0 && near[subnet.ID.Parent().Key()] && (!g.o.Certain ||
			g.cluster.Ingress != "" &&
				slices.ContainsFunc(subnet.Gateways, g.cluster.Ingress.Equal)),
			table != nil && !g.s.LeadsElsewhere(table, g.cluster) &&
				len(nodesIn([]*inventory.RouteTable{table}, g.cluster, prefixes)) > 0:
			out = append(out, subnet)
		}
	}
	return out
}

// Targets returns the subnets that must reach a cluster's pods, as their tables and gateways show.
// They do not include the cluster's own subnets.
func (t *Tracer) Targets(cluster arm.ID) []*inventory.Subnet {
	c := t.s.Cluster(cluster)
	if c == nil {
		return nil
	}
	g := grid{Tracer: t, cluster: c}
	return g.targets()
}

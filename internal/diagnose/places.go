package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// addressed reports whether it is known where a cluster's nodes and pods have their addresses: not
// with a network plugin of its own.
func addressed(c *inventory.Cluster) bool { return azureCNI(c) || c.Kubenet() }

// checkPlaces looks at where nodes and pods have their addresses.
func checkPlaces(p *patient) []finding.Finding {
	return append(nodesOutside(p), podsOutside(p)...)
}

// pool is a node's pool. None is known of nodes that no pool made (virtual nodes, node
// auto-provisioning), which have subnets of their own, nor where the pool was made or removed
// between two looks.
func (p *patient) pool(node inventory.Node) (pool inventory.Pool, known bool) {
	i := slices.IndexFunc(p.cluster.Pools, func(pool inventory.Pool) bool {
		return strings.EqualFold(pool.Name, node.Pool)
	})
	if i < 0 {
		return inventory.Pool{}, false
	}
	return p.cluster.Pools[i], true
}

// place is where the nodes or the pods of a pool have their addresses.
type place struct {
	name     string
	prefixes []netip.Prefix
}

func (p *patient) subnetPlace(kind string, id arm.ID) (place, bool) {
	subnet := p.s.Subnet(id)
	if subnet == nil {
		return place{}, false
	}
	return place{fmt.Sprintf("%s %s (%s)", kind, id.Short(), prefixList(subnet.Prefixes)),
		subnet.Prefixes}, true
}

// nodePlace is the place of a pool's nodes, podPlace that of its pods; both false where the subnet
// was not read.
func (p *patient) nodePlace(pool inventory.Pool) (place, bool) {
	return p.subnetPlace("node subnet", nodeSubnet(p.s.Snapshot, p.cluster, pool))
}

func (p *patient) podPlace(pool inventory.Pool) (place, bool) {
	switch {
	case p.cluster.Overlay(), p.cluster.Kubenet():
		return place{fmt.Sprintf("the pod CIDR (%s)", prefixList(p.cluster.PodCIDRs)),
			p.cluster.PodCIDRs}, len(p.cluster.PodCIDRs) > 0
	case pool.PodSubnet != "":
		return p.subnetPlace("pod subnet", pool.PodSubnet)
	}
	return p.nodePlace(pool)
}

func prefixList(prefixes []netip.Prefix) string {
	words := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		words[i] = prefix.String()
	}
	return strings.Join(words, ", ")
}

// outside returns the first address that is not where those of a node's pool are, and where it
// should be; nothing where that is not known. An address of a family that is nowhere there is not
// judged.
func (p *patient) outside(addrs []netip.Addr, node inventory.Node,
	where func(inventory.Pool) (place, bool)) (addr netip.Addr, should string) {
	pool, known := p.pool(node)
	if !known {
		return netip.Addr{}, ""
	}
	at, known := where(pool)
	if !known {
		return netip.Addr{}, ""
	}
	for _, a := range addrs {
		family := slices.ContainsFunc(at.prefixes, func(p netip.Prefix) bool {
			return p.Addr().Is4() == a.Is4()
		})
		if family && !slices.ContainsFunc(at.prefixes, func(p netip.Prefix) bool {
			return p.Contains(a)
		}) {
			return a, at.name
		}
	}
	return netip.Addr{}, ""
}

// strays collects what is outside, by where it should be.
type strays struct {
	places []string
	lines  map[string][]string
}

func (s *strays) add(should, line string) {
	if s.lines == nil {
		s.lines = map[string][]string{}
	}
	if s.lines[should] == nil {
		s.places = append(s.places, should)
	}
	s.lines[should] = append(s.lines[should], line)
}

// findings makes one of each place; with thousands outside, the first few tell enough.
func (s *strays) findings(p *patient, code finding.Code, what string,
	fix finding.CommandLine) []finding.Finding {
	const most = 10
	var found []finding.Finding
	for _, should := range s.places {
		lines := s.lines[should]
		f := p.found(code, p.cluster.ID, "%d %s of cluster %s are outside of %s", len(lines), what,
			p.cluster.ID.Short(), should)
		if len(lines) == 1 {
			f.Message = fmt.Sprintf("%s of cluster %s is outside of %s", lines[0],
				p.cluster.ID.Short(), should)
		}
		f = f.About(should).With(lines[:min(most, len(lines))]...)
		if len(lines) > most {
			f = f.With(fmt.Sprintf("and %d more", len(lines)-most))
		}
		found = append(found, f.WithFix("%s", fix))
	}
	return found
}

// nodesOutside finds nodes, and pods with their node's network, that are not in the node subnet. A
// pod that is where its node is says nothing new.
func nodesOutside(p *patient) []finding.Finding {
	if p.kube == nil {
		return nil
	}
	var out strays
	for _, node := range p.kube.Nodes {
		if addr, should := p.outside(node.Addresses, node, p.nodePlace); addr.IsValid() {
			out.add(should, fmt.Sprintf("node %s (%s)", node.Name, addr))
		}
	}
	nodes := p.nodesByName()
	for _, pod := range p.kube.Pods {
		node, known := nodes[pod.Node]
		if !pod.HostNetwork || pod.Ended() || !known {
			continue
		}
		addrs := slices.DeleteFunc(slices.Clone(pod.Addresses), func(a netip.Addr) bool {
			return slices.Contains(node.Addresses, a)
		})
		if addr, should := p.outside(addrs, node, p.nodePlace); addr.IsValid() {
			out.add(should, fmt.Sprintf("pod %s/%s on the network of node %s (%s)", pod.Namespace,
				pod.Name, pod.Node, addr))
		}
	}
	return out.findings(p, finding.NodeOutside, "nodes and pods on their networks",
		finding.Command("kubectl get nodes -o wide"))
}

func podsOutside(p *patient) []finding.Finding {
	if p.kube == nil {
		return nil
	}
	nodes := p.nodesByName()
	var out strays
	for _, pod := range p.kube.Pods {
		node, known := nodes[pod.Node]
		if pod.HostNetwork || pod.Ended() || !known {
			continue
		}
		addr, should := p.outside(pod.Addresses, node, p.podPlace)
		if !addr.IsValid() {
			addr, should = p.onOtherNode(pod, node)
		}
		if addr.IsValid() {
			out.add(should, fmt.Sprintf("pod %s/%s on node %s (%s)", pod.Namespace, pod.Name,
				pod.Node, addr))
		}
	}
	return out.findings(p, finding.PodOutside, "pods",
		finding.Command("kubectl get pods -A -o wide"))
}

// onOtherNode returns the first address of a pod that is not of its node's part of the pod CIDR,
// where each node has such a part: routes, and the overlay, lead to another node, or to none.
func (p *patient) onOtherNode(pod inventory.Pod, node inventory.Node) (addr netip.Addr,
	should string) {
	if !p.cluster.Overlay() && !p.cluster.Kubenet() {
		return netip.Addr{}, ""
	}
	return p.outside(pod.Addresses, node, func(inventory.Pool) (place, bool) {
		return place{"the pod CIDR of its node", node.PodCIDRs}, len(node.PodCIDRs) > 0
	})
}

func (p *patient) nodesByName() map[string]inventory.Node {
	nodes := map[string]inventory.Node{}
	for _, node := range p.kube.Nodes {
		nodes[node.Name] = node
	}
	return nodes
}

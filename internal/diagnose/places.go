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

// addressed reports whether the address ranges of a cluster's nodes and pods are known. With a
// custom network plugin they are not.
func addressed(c *inventory.Cluster) bool { return azureCNI(c) || c.Kubenet() }

// checkPlaces checks that the addresses of nodes and pods are in their ranges.
func checkPlaces(p *clusterCase) []finding.Finding {
	return append(nodesOutside(p), podsOutside(p)...)
}

// pool returns a node's pool. Some nodes have no known pool. Virtual nodes and nodes of node
// auto-provisioning have none, and have their own subnets. Other pools were created or removed
// between two reads.
func (p *clusterCase) pool(node inventory.Node) (pool inventory.Pool, known bool) {
	i := slices.IndexFunc(p.cluster.Pools, func(pool inventory.Pool) bool {
		return strings.EqualFold(pool.Name, node.Pool)
	})
	if i < 0 {
		return inventory.Pool{}, false
	}
	return p.cluster.Pools[i], true
}

// place is an address range for the nodes or the pods of a pool.
type place struct {
	name     string
	prefixes []netip.Prefix
}

func (p *clusterCase) subnetPlace(kind string, id arm.ID) (place, bool) {
	subnet := p.s.Subnet(id)
	if subnet == nil {
		return place{}, false
	}
	return place{fmt.Sprintf("%s %s (%s)", kind, id.Short(), inventory.List(subnet.Prefixes)),
		subnet.Prefixes}, true
}

// nodePlace returns the range of a pool's nodes, and podPlace that of its pods. Both return false
// if the subnet was not read.
func (p *clusterCase) nodePlace(pool inventory.Pool) (place, bool) {
	return p.subnetPlace("node subnet", nodeSubnet(p.s.Snapshot, p.cluster, pool))
}

func (p *clusterCase) podPlace(pool inventory.Pool) (place, bool) {
	switch {
	case p.cluster.Overlay(), p.cluster.Kubenet():
		return place{fmt.Sprintf("the pod CIDR (%s)", inventory.List(p.cluster.PodCIDRs)),
			p.cluster.PodCIDRs}, len(p.cluster.PodCIDRs) > 0
	case pool.PodSubnet != "":
		return p.subnetPlace("pod subnet", pool.PodSubnet)
	}
	return p.nodePlace(pool)
}

// outside returns the first address outside the range of a node's pool, and the name of that range.
// It returns nothing if the range is unknown, and ignores addresses of a family that the range
// lacks.
func (p *clusterCase) outside(addrs []netip.Addr, node inventory.Node,
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
		if family && !inventory.Within(at.prefixes, a) {
			return a, at.name
		}
	}
	return netip.Addr{}, ""
}

// strays collects nodes and pods outside their range, by the name of the range.
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

// findings returns one finding for each range. It lists only the first few addresses.
func (s *strays) findings(p *clusterCase, code finding.Code, what string,
	fix finding.CommandLine) []finding.Finding {
	const most = 10
	var found []finding.Finding
	for _, should := range s.places {
		lines := s.lines[should]
		f := p.found(code, p.cluster.ID, "%d %s of cluster %s are outside %s", len(lines), what,
			p.cluster.ID.Short(), should)
		if len(lines) == 1 {
			f.Message = fmt.Sprintf("%s of cluster %s is outside %s", lines[0],
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

// nodesOutside finds nodes and hostNetwork pods outside the node subnet. It skips a pod with its
// node's address, because the node has its own line.
func nodesOutside(p *clusterCase) []finding.Finding {
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
			out.add(should, fmt.Sprintf("hostNetwork pod %s/%s on node %s (%s)", pod.Namespace,
				pod.Name, pod.Node, addr))
		}
	}
	return out.findings(p, finding.NodeOutside, "nodes and hostNetwork pods",
		finding.Command("kubectl get nodes -o wide"))
}

func podsOutside(p *clusterCase) []finding.Finding {
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
			out.add(should,
				fmt.Sprintf("pod %s/%s on node %s (%s)", pod.Namespace, pod.Name, pod.Node, addr))
		}
	}
	return out.findings(p, finding.PodOutside, "pods",
		finding.Command("kubectl get pods -A -o wide"))
}

// onOtherNode returns the first address of a pod outside its node's part of the pod CIDR, if nodes
// have such parts. Routes and the overlay send packets for this address to another node, or to
// none.
func (p *clusterCase) onOtherNode(pod inventory.Pod, node inventory.Node) (addr netip.Addr,
	should string) {
	if !p.cluster.Overlay() && !p.cluster.Kubenet() {
		return netip.Addr{}, ""
	}
	return p.outside(pod.Addresses, node, func(inventory.Pool) (place, bool) {
		return place{"the pod CIDR of its node", node.PodCIDRs}, len(node.PodCIDRs) > 0
	})
}

func (p *clusterCase) nodesByName() map[string]inventory.Node {
	nodes := map[string]inventory.Node{}
	for _, node := range p.kube.Nodes {
		nodes[node.Name] = node
	}
	return nodes
}

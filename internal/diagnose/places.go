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
func checkPlaces(p *clusterCase) {
	r := p.residents()
	r.nodesOutside.report(p, finding.NodeOutside, "nodes and hostNetwork pods",
		finding.Command("kubectl get nodes -o wide"))
	r.podsOutside.report(p, finding.PodOutside, "pods",
		finding.Command("kubectl get pods -A -o wide"))
}

// Place is an address range for nodes or pods: a subnet, or the pod CIDR.
type Place struct {
	Kind     string // node subnet, pod subnet, pod CIDR
	Subnet   arm.ID // "" for the pod CIDR, or if AKS made the subnet and it was not read
	Read     bool
	Prefixes []netip.Prefix
	// Nodes is the number of nodes in the range, Pods that of pods, and Host that of pods on their
	// node's network. Agents has the names of the Host pods' workloads. Outside is the number of
	// pods that should be in the range but are not.
	Nodes, Host, Pods, Outside int
	Agents                     []string
	// Usable is the number of IPv4 addresses in the range that Azure can assign. Used is the number
	// in use.
	Usable, Used int
}

// String returns the range as findings call it.
func (l *Place) String() string {
	if l.Subnet == "" {
		return fmt.Sprintf("the %s (%s)", l.Kind, inventory.List(l.Prefixes))
	}
	return fmt.Sprintf("%s %s (%s)", l.Kind, l.Subnet.Short(), inventory.List(l.Prefixes))
}

// firstOutside returns the first address that is in none of the prefixes. It ignores addresses of a
// family that the prefixes lack, so it returns nothing if they are unknown.
func firstOutside(prefixes []netip.Prefix, addrs []netip.Addr) netip.Addr {
	for _, a := range addrs {
		family := slices.ContainsFunc(prefixes, func(p netip.Prefix) bool {
			return p.Addr().Is4() == a.Is4()
		})
		if family && !inventory.Within(prefixes, a) {
			return a
		}
	}
	return netip.Addr{}
}

// residents are the nodes and pods that Kubernetes shows, by the ranges of their addresses.
type residents struct {
	p               *clusterCase
	places          []*Place
	waiting, astray int // as in Counts
	// nodesOutside also has pods on the network of their node.
	nodesOutside, podsOutside strays
}

// at returns a range of the cluster.
func (r *residents) at(kind string, id arm.ID) *Place {
	for _, known := range r.places {
		if known.Kind == kind && known.Subnet.Equal(id) {
			return known
		}
	}
	place := &Place{Kind: kind, Subnet: id}
	if subnet := r.p.s.Subnet(id); subnet != nil {
		place.Read, place.Prefixes = true, subnet.Prefixes
		place.Usable, place.Used = r.p.inUse(subnet)
	}
	r.places = append(r.places, place)
	return place
}

// ofNodes returns the range of a pool's nodes, and ofPods that of its pods.
func (r *residents) ofNodes(pool inventory.Pool) *Place {
	return r.at("node subnet", nodeSubnet(r.p.s.Snapshot, r.p.cluster, pool))
}

func (r *residents) ofPods(pool inventory.Pool) *Place {
	switch {
	case r.p.podsByNode():
		place := r.at("pod CIDR", "")
		place.Prefixes = r.p.cluster.PodCIDRs
		place.Read = len(place.Prefixes) > 0
		return place
	case pool.PodSubnet != "":
		return r.at("pod subnet", pool.PodSubnet)
	}
	return r.ofNodes(pool)
}

// podsByNode reports whether each node has a part of the pod CIDR. Then routes or the overlay send
// packets for the other parts to another node, or to none.
func (p *clusterCase) podsByNode() bool { return p.cluster.Overlay() || p.cluster.Kubenet() }

// residents sorts the nodes and pods of the cluster by their ranges.
func (p *clusterCase) residents() *residents {
	r := &residents{p: p}
	for _, pool := range p.cluster.Pools {
		r.ofNodes(pool)
	}
	for _, pool := range p.cluster.Pools {
		r.ofPods(pool)
	}
	if p.kube == nil {
		return r
	}
	nodes := map[string]inventory.Node{}
	for _, node := range p.kube.Nodes {
		nodes[node.Name] = node
		pool, known := p.pool(node)
		if !known {
			r.astray++
			continue
		}
		place := r.ofNodes(pool)
		if addr := firstOutside(place.Prefixes, node.Addresses); addr.IsValid() {
			place.Outside++
			r.nodesOutside.add(place.String(), fmt.Sprintf("node %s (%s)", node.Name, addr))
		} else {
			place.Nodes++
		}
	}
	for _, pod := range p.kube.Pods {
		node, there := nodes[pod.Node]
		pool, known := p.pool(node)
		switch {
		case pod.Ended():
		case len(pod.Addresses) == 0:
			r.waiting++
		case !there || !known:
			r.astray++
		case pod.HostNetwork:
			r.addHost(pod, node, pool)
		default:
			r.addPod(pod, node, pool)
		}
	}
	return r
}

// addHost adds a pod on the network of its node. Addresses of the node do not count, because the
// node has its own line.
func (r *residents) addHost(pod inventory.Pod, node inventory.Node, pool inventory.Pool) {
	place := r.ofNodes(pool)
	if addr := firstOutside(place.Prefixes, slices.DeleteFunc(slices.Clone(pod.Addresses),
		func(a netip.Addr) bool { return slices.Contains(node.Addresses, a) })); addr.IsValid() {
		place.Outside++
		r.nodesOutside.add(place.String(), "hostNetwork "+describePod(pod, addr))
		return
	}
	place.Host++
	place.Agents = append(place.Agents, workload(pod))
}

func (r *residents) addPod(pod inventory.Pod, node inventory.Node, pool inventory.Pool) {
	place := r.ofPods(pool)
	addr, should := firstOutside(place.Prefixes, pod.Addresses), place.String()
	if !addr.IsValid() && r.p.podsByNode() {
		addr, should = firstOutside(node.PodCIDRs, pod.Addresses), "the pod CIDR of its node"
	}
	if !addr.IsValid() {
		place.Pods++
		return
	}
	place.Outside++
	r.podsOutside.add(should, describePod(pod, addr))
}

func describePod(pod inventory.Pod, addr netip.Addr) string {
	return fmt.Sprintf("pod %s/%s on node %s (%s)", pod.Namespace, pod.Name, pod.Node, addr)
}

// workload returns the name of the creator of a pod on its node's network: a daemon set, which
// appends five characters, or the kubelet, which appends the node's name.
func workload(pod inventory.Pod) string {
	if name, static := strings.CutSuffix(pod.Name, "-"+pod.Node); static && pod.Node != "" {
		return name
	}
	if i := len(pod.Name) - 6; i > 0 && pod.Name[i] == '-' {
		return pod.Name[:i]
	}
	return pod.Name
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

// report adds one finding for each range. It lists only the first few addresses.
func (s *strays) report(p *clusterCase, code finding.Code, what string, fix finding.CommandLine) {
	const most = 10
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
		p.add(f.WithFix("%s", fix))
	}
}

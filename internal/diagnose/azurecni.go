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

// aksDelegation is what AKS delegates pod subnets to, by itself (ARO-HCP#469).
const aksDelegation = arm.TypeCluster

func azureCNI(c *inventory.Cluster) bool { return strings.EqualFold(c.Plugin, "azure") }

// checkAzureCNI looks at where nodes and pods have their addresses, and at the subnets that hold them.
func checkAzureCNI(p *patient) []finding.Finding {
	found := append(nodesOutside(p), podsOutside(p)...)
	found = append(found, subnetRoles(p)...)
	return append(found, addresses(p)...)
}

// pool is a node's pool. None is known of nodes that no pool made (virtual nodes, node auto-provisioning), which have subnets of their
// own, nor where the pool was made or removed between two looks.
func (p *patient) pool(node inventory.Node) (pool inventory.Pool, known bool) {
	i := slices.IndexFunc(p.cluster.Pools, func(pool inventory.Pool) bool { return strings.EqualFold(pool.Name, node.Pool) })
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
	return place{fmt.Sprintf("%s %s (%s)", kind, id.Short(), prefixList(subnet.Prefixes)), subnet.Prefixes}, true
}

// nodePlace is the place of a pool's nodes, podPlace that of its pods; both false where the subnet was not read.
func (p *patient) nodePlace(pool inventory.Pool) (place, bool) {
	return p.subnetPlace("node subnet", nodeSubnet(p.s.Snapshot, p.cluster, pool))
}

func (p *patient) podPlace(pool inventory.Pool) (place, bool) {
	switch {
	case p.cluster.Overlay():
		return place{fmt.Sprintf("the pod CIDR (%s)", prefixList(p.cluster.PodCIDRs)), p.cluster.PodCIDRs}, len(p.cluster.PodCIDRs) > 0
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

// outside returns the first address that is not where those of a node's pool are, and where it should be; nothing where that is not
// known. An address of a family that is nowhere there is not judged.
func (p *patient) outside(addrs []netip.Addr, node inventory.Node, where func(inventory.Pool) (place, bool)) (addr netip.Addr, should string) {
	pool, known := p.pool(node)
	if !known {
		return netip.Addr{}, ""
	}
	at, known := where(pool)
	if !known {
		return netip.Addr{}, ""
	}
	for _, a := range addrs {
		family := slices.ContainsFunc(at.prefixes, func(p netip.Prefix) bool { return p.Addr().Is4() == a.Is4() })
		if family && !slices.ContainsFunc(at.prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
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
func (s *strays) findings(p *patient, code finding.Code, what string, fix finding.CommandLine) []finding.Finding {
	const most = 10
	var found []finding.Finding
	for _, should := range s.places {
		lines := s.lines[should]
		f := p.found(code, p.cluster.ID, "%d %s of cluster %s are outside of %s", len(lines), what, p.cluster.ID.Short(), should)
		if len(lines) == 1 {
			f.Message = fmt.Sprintf("%s of cluster %s is outside of %s", lines[0], p.cluster.ID.Short(), should)
		}
		f = f.About(should).With(lines[:min(most, len(lines))]...)
		if len(lines) > most {
			f = f.With(fmt.Sprintf("and %d more", len(lines)-most))
		}
		found = append(found, f.WithFix("%s", fix))
	}
	return found
}

// nodesOutside finds nodes, and pods with their node's network, that are not in the node subnet. A pod that is where its node is says
// nothing new.
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
		addrs := slices.DeleteFunc(slices.Clone(pod.Addresses), func(a netip.Addr) bool { return slices.Contains(node.Addresses, a) })
		if addr, should := p.outside(addrs, node, p.nodePlace); addr.IsValid() {
			out.add(should, fmt.Sprintf("pod %s/%s on the network of node %s (%s)", pod.Namespace, pod.Name, pod.Node, addr))
		}
	}
	return out.findings(p, finding.NodeOutside, "nodes and pods on their networks", finding.Command("kubectl get nodes -o wide"))
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
		if addr, should := p.outside(pod.Addresses, node, p.podPlace); addr.IsValid() {
			out.add(should, fmt.Sprintf("pod %s/%s on node %s (%s)", pod.Namespace, pod.Name, pod.Node, addr))
		}
	}
	return out.findings(p, finding.PodOutside, "pods", finding.Command("kubectl get pods -A -o wide"))
}

func (p *patient) nodesByName() map[string]inventory.Node {
	nodes := map[string]inventory.Node{}
	for _, node := range p.kube.Nodes {
		nodes[node.Name] = node
	}
	return nodes
}

// subnetRoles finds subnets that are for nodes and for pods, be it of two clusters, and delegations that do not go with either. AKS
// refuses a delegated node subnet (azure-docs#69774, SubnetIsDelegated).
func subnetRoles(p *patient) []finding.Finding {
	var found []finding.Finding
	seen := map[string]bool{}
	once := func(id arm.ID, role string) *inventory.Subnet {
		subnet := p.s.Subnet(id)
		if subnet == nil || seen[role+id.Key()] {
			return nil
		}
		seen[role+id.Key()] = true
		return subnet
	}
	for _, pool := range p.cluster.Pools {
		if subnet := once(nodeSubnet(p.s.Snapshot, p.cluster, pool), "nodes"); subnet != nil {
			for _, service := range subnet.Delegations {
				if !strings.EqualFold(service, aksDelegation) || !p.holdsPods(subnet.ID) { // it is used twice then, which is said below
					found = append(found, p.delegated(subnet, "node", service))
				}
			}
		}
		subnet := once(pool.PodSubnet, "pods")
		if subnet == nil {
			continue
		}
		for _, service := range subnet.Delegations {
			if !strings.EqualFold(service, aksDelegation) {
				found = append(found, p.delegated(subnet, "pod", service))
			}
		}
	}
	for _, c := range p.s.Clusters {
		for _, nodes := range c.Pools {
			for _, pods := range p.cluster.Pools {
				if pods.PodSubnet != "" && pods.PodSubnet.Equal(nodes.Subnet) {
					found = append(found, p.usedTwice(pods.PodSubnet, c, nodes.Name, p.cluster, pods.Name))
				}
			}
			for _, own := range p.cluster.Pools {
				if nodes.PodSubnet != "" && nodes.PodSubnet.Equal(own.Subnet) && !c.ID.Equal(p.cluster.ID) {
					found = append(found, p.usedTwice(nodes.PodSubnet, p.cluster, own.Name, c, nodes.Name))
				}
			}
		}
	}
	return found
}

func (p *patient) holdsPods(subnet arm.ID) bool {
	return slices.ContainsFunc(p.cluster.Pools, func(pool inventory.Pool) bool { return subnet.Equal(pool.PodSubnet) })
}

func (p *patient) delegated(subnet *inventory.Subnet, kind, service string) finding.Finding {
	return p.found(finding.SubnetDelegated, subnet.ID, "%s subnet %s of cluster %s is delegated to %s", kind, subnet.ID.Short(), p.cluster.ID.Short(), service).
		About(service).WithFix("az network vnet subnet update --ids %s --remove delegations", subnet.ID)
}

func (p *patient) usedTwice(id arm.ID, ofNodes *inventory.Cluster, nodes string, ofPods *inventory.Cluster, pods string) finding.Finding {
	return p.found(finding.SubnetUsedTwice, id, "subnet %s is the node subnet of pool %s of cluster %s and the pod subnet of pool %s of cluster %s",
		id.Short(), nodes, ofNodes.ID.Short(), pods, ofPods.ID.Short()).About(nodes + " " + pods)
}

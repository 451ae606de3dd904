package trace

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Node is a cluster's node with one of its pod CIDRs. A dual-stack node has one Node for each.
type Node struct {
	Cluster arm.ID
	Name    string // as in Kubernetes; "" if no source shows it
	Addr    netip.Addr
	Pods    netip.Prefix // zero if no source shows it, or if pods have addresses of the network

	subnet *inventory.Subnet // nil if it was not read, or lost is set
	// lost is set if the route to its pods leads out of the node subnets, to Addr, and no other
	// source shows where the node is. bare is set if only its network interface shows the node.
	lost, bare bool
}

// Nodes finds the nodes of all clusters. It takes them from Kubernetes or, if that was not read,
// from the routes to their pods and the network interfaces in the node resource group.
func Nodes(s *inventory.Snapshot) []Node {
	var all []Node
	for _, key := range slices.Sorted(maps.Keys(s.Clusters)) {
		cluster := s.Clusters[key]
		var nodes []Node
		switch kube := s.Kubernetes[key]; {
		case kube != nil && kube.Failed == "" && kube.Nodes != nil:
			nodes = kubernetesNodes(cluster, kube.Nodes)
		case cluster.Kubenet():
			nodes = interfaceNodes(s, cluster, routedNodes(s, cluster))
		default:
			nodes = interfaceNodes(s, cluster, nil)
		}
		subnets := s.NodeSubnetIDs(cluster)
		for i := range nodes {
			if !nodes[i].lost {
				nodes[i].subnet = subnetOf(s, subnets, nodes[i].Addr)
			}
		}
		all = append(all, nodes...)
	}
	return all
}

// subnetOf returns the cluster's node subnet that contains an address, even if other networks have
// the same prefix.
func subnetOf(s *inventory.Snapshot, subnets []arm.ID, a netip.Addr) *inventory.Subnet {
	for _, id := range subnets {
		if subnet := s.Subnet(id); subnet != nil && contains(subnet.Prefixes, a) {
			return subnet
		}
	}
	return nil
}

func kubernetesNodes(cluster *inventory.Cluster, known []inventory.Node) []Node {
	var nodes []Node
	for _, n := range known {
		if len(n.Addresses) == 0 {
			continue
		}
		node := Node{Cluster: cluster.ID, Name: n.Name, Addr: n.Addresses[0]}
		if !cluster.Kubenet() && !cluster.Overlay() || len(n.PodCIDRs) == 0 {
			nodes = append(nodes, node) // in other clusters podCIDR means nothing
			continue
		}
		for _, p := range n.PodCIDRs {
			node.Addr, node.Pods = n.Addresses[0], p
			if i := slices.IndexFunc(n.Addresses, func(a netip.Addr) bool {
				return a.Is4() == p.Addr().Is4()
			}); i >= 0 {
				node.Addr = n.Addresses[i]
			}
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// routedNodes returns the nodes of a kubenet cluster as route tables show them: by routes to a part
// of the pod CIDR through an address of a node subnet. It searches the tables of the node subnets.
// If those have none, for example because the association is lost, any table counts. A route to
// another address may belong to a node, too, if its name shows that.
func routedNodes(s *inventory.Snapshot, cluster *inventory.Cluster) []Node {
	own := nodeTables(s, cluster)
	nodes := nodesIn(own, cluster, s.NodePrefixes(cluster))
	if len(nodes) == 0 {
		nodes = nodesIn(tablesFor(s, cluster), cluster, s.NodePrefixes(cluster))
	}
	return misrouted(s, own, cluster, nodes)
}

// nodeTables returns the tables of a cluster's node subnets, each once.
func nodeTables(s *inventory.Snapshot, cluster *inventory.Cluster) []*inventory.RouteTable {
	var own []*inventory.RouteTable
	for _, id := range s.NodeSubnetIDs(cluster) {
		if subnet := s.Subnet(id); subnet != nil && s.Table(subnet.RouteTable) != nil &&
			!slices.Contains(own, s.Table(subnet.RouteTable)) {
			own = append(own, s.Table(subnet.RouteTable))
		}
	}
	return own
}

// misrouted adds the nodes whose routes lead out of the node subnets. It returns the addresses of
// all machines whose names are in route names. A route with the name of a deleted machine shows no
// node.
func misrouted(s *inventory.Snapshot, own []*inventory.RouteTable, cluster *inventory.Cluster,
	nodes []Node) []Node {
	machines := map[string]*inventory.Interface{}
	for _, nic := range s.Interfaces {
		if cluster.NodeResourceGroup != "" && nic.ID.Group().Equal(cluster.NodeGroup()) &&
			holds(cluster, nic) {
			machines[strings.ToLower(machineName(nic.ID))] = nic
			if nic.Machine.Is(arm.TypeVM) {
				machines[strings.ToLower(nic.Machine.Name())] = nic
			}
		}
	}
	subnets := s.NodePrefixes(cluster)
	address := func(name string, pods netip.Prefix) (netip.Addr, bool) {
		if nic := machines[strings.ToLower(name)]; nic != nil {
			for _, c := range nic.Configs {
				if c.Address.IsValid() && c.Address.Is4() == pods.Addr().Is4() &&
					contains(subnets, c.Address) {
					return c.Address, true
				}
			}
		}
		return netip.Addr{}, false
	}
	seen := map[netip.Prefix]bool{}
	there := nodes[:0]
	for _, n := range nodes {
		at, found := address(n.Name, n.Pods)
		if !found && cluster.PoolOf(n.Name) != "" && vacant(s, cluster, n.Addr) {
			continue
		}
		if found {
			n.Addr = at
		}
		seen[n.Pods] = true
		there = append(there, n)
	}
	nodes = there
	for _, table := range own {
		for _, r := range table.Routes() {
			name := inventory.RouteNode(r.Name)
			if seen[r.Prefix] || !isNodes(r.Prefix, cluster.PodCIDRs) ||
				cluster.PoolOf(name) == "" {
				continue
			}
			at, found := address(name, r.Prefix)
			if !found && (!r.Hop.IsValid() || nicsRead(s, cluster)) {
				continue
			}
			if !found {
				at = r.Hop
			}
			seen[r.Prefix] = true
			nodes = append(nodes,
				Node{Cluster: cluster.ID, Name: name, Addr: at, Pods: r.Prefix, lost: !found})
		}
	}
	return nodes
}

// vacant reports whether it is certain that no resource in the cluster's node subnets has an
// address.
func vacant(s *inventory.Snapshot, cluster *inventory.Cluster, a netip.Addr) bool {
	subnet := subnetOf(s, s.NodeSubnetIDs(cluster), a)
	if subnet == nil || !nicsRead(s, cluster) {
		return false
	}
	for _, nic := range s.Interfaces {
		for _, c := range nic.Configs {
			if c.Address == a && c.Subnet.Equal(subnet.ID) {
				return false
			}
		}
	}
	want, known := s.Holders(subnet)
	_, frontend := s.FrontendAt(a, subnet)
	return known && want.Empty() && s.FirewallAt(a, subnet) == nil && frontend == nil
}

// nicsRead reports whether all network interfaces of a cluster's machines were read.
func nicsRead(s *inventory.Snapshot, cluster *inventory.Cluster) bool {
	group := cluster.NodeGroup()
	return cluster.NodeResourceGroup != "" &&
		slices.ContainsFunc(s.InterfacesOf, func(scope arm.ID) bool {
			return scope.Equal(group) || scope.Equal(group.SubscriptionID())
		})
}

// holds reports whether an interface belongs to a machine of one of the cluster's pools. The node
// resource group also contains private endpoints and resources of others.
func holds(cluster *inventory.Cluster, nic *inventory.Interface) bool {
	return (nic.Machine != "" || nic.ID.Is(arm.TypeScaleSetInterface)) &&
		cluster.PoolOf(machineName(nic.ID)) != ""
}

// podsOf reports whether pods in the address's family have routes, and so a pod CIDR.
func podsOf(cluster *inventory.Cluster, a netip.Addr) bool {
	return slices.ContainsFunc(cluster.PodCIDRs, func(p netip.Prefix) bool {
		return p.Addr().Is4() == a.Is4()
	})
}

// tablesFor returns all tables except those with routes to other nodes that have the same
// addresses.
func tablesFor(s *inventory.Snapshot, cluster *inventory.Cluster) []*inventory.RouteTable {
	var tables []*inventory.RouteTable
	for _, key := range slices.Sorted(maps.Keys(s.Tables)) {
		if !s.LeadsElsewhere(s.Tables[key], cluster) {
			tables = append(tables, s.Tables[key])
		}
	}
	return tables
}

func nodesIn(tables []*inventory.RouteTable, cluster *inventory.Cluster,
	subnets []netip.Prefix) []Node {
	var nodes []Node
	seen := map[netip.Prefix]bool{}
	for _, table := range tables {
		for _, r := range table.Routes() {
			if r.Hop.IsValid() && !seen[r.Prefix] && isNodes(r.Prefix, cluster.PodCIDRs) &&
				contains(subnets, r.Hop) {
				seen[r.Prefix] = true
				node := Node{Cluster: cluster.ID, Addr: r.Hop, Pods: r.Prefix}
				if strings.Contains(r.Name, "____") {
					node.Name = inventory.RouteNode(r.Name)
				}
				nodes = append(nodes, node)
			}
		}
	}
	return nodes
}

// interfaceNodes adds the nodes that no route of the cluster shows: from their interfaces, with the
// pods that another table routes to them.
func interfaceNodes(s *inventory.Snapshot, cluster *inventory.Cluster, nodes []Node) []Node {
	known := map[netip.Addr]bool{}
	routed := map[netip.Prefix]bool{}
	for _, n := range nodes {
		known[n.Addr], routed[n.Pods] = true, true
	}
	subnets := s.NodePrefixes(cluster)
	var copied []Node // routes to the other nodes, in any table
	for _, n := range nodesIn(tablesFor(s, cluster), cluster, subnets) {
		if cluster.Kubenet() && !routed[n.Pods] && !known[n.Addr] {
			copied = append(copied, n)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Interfaces)) {
		nic := s.Interfaces[key]
		if cluster.NodeResourceGroup == "" || !nic.ID.Group().Equal(cluster.NodeGroup()) ||
			len(nic.Configs) == 0 || idle(nic) {
			continue
		}
		// with node-subnet the pods' further addresses, with dual stack one of each family
		for i, c := range nic.Configs {
			if !c.Address.IsValid() || known[c.Address] || !contains(subnets, c.Address) ||
				i > 0 && c.Address.Is4() == nic.Configs[0].Address.Is4() {
				continue
			}
			known[c.Address] = true
			found := false
			for _, n := range copied {
				if n.Addr == c.Address {
					nodes, found = append(nodes, n), true
				}
			}
			if !found {
				nodes = append(nodes, Node{Cluster: cluster.ID, Name: machineName(nic.ID),
					Addr: c.Address, bare: holds(cluster, nic) && podsOf(cluster, c.Address)})
			}
		}
	}
	return nodes
}

// idle reports whether an interface belongs to no machine: it may be a private endpoint's, such as
// that of a private cluster's API server, in a node subnet.
func idle(nic *inventory.Interface) bool {
	return nic.Machine == "" && nic.ID.Is(arm.TypeInterface)
}

// machineName returns the host name of a machine, or else the name of its interface.
func machineName(nic arm.ID) string {
	return cmp.Or(inventory.NodeName(inventory.HolderName(nic)), nic.Name())
}

// String shows the node's name and address, as far as they are known.
func (n Node) String() string {
	if n.Name == "" {
		return n.Addr.String()
	}
	return n.Name + " (" + n.Addr.String() + ")"
}

// isNodes reports whether a prefix can be that of a node's pods: it has the length that AKS gives
// to nodes. Routes to other prefixes are unmanaged.
func isNodes(p netip.Prefix, podCIDRs []netip.Prefix) bool {
	return slices.ContainsFunc(podCIDRs, func(w netip.Prefix) bool {
		return p.IsValid() && w.Contains(p.Addr()) && p.Bits() == inventory.NodeMask(w)
	})
}

var contains = inventory.Within

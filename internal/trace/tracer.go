package trace

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Options select the packets to trace, and add routes that the snapshot lacks.
type Options struct {
	// Protocol and Port are the packet's at its destination. "" and 0 mean any.
	Protocol string
	Port     int
	// Learned are routes that gateways have learned (DecodeLearned).
	Learned []Route
	// Cluster limits names and addresses to this cluster and its connected networks. "":
	// everything.
	Cluster arm.ID
	// Declared is what subnets must have, by ID.Key(). A packet bypasses it if it does not take the
	// route that it would have there.
	Declared map[string]Declared
	// Certain leaves out Application Gateways near a cluster unless a route to its pods, or its
	// ingress add-on, shows that they serve it.
	Certain bool
}

// Tracer follows packets in one snapshot. The snapshot must not change while the Tracer exists.
type Tracer struct {
	s       *inventory.Snapshot
	o       Options
	view    *view // of o.Cluster, or nil for all
	nodes   []Node
	pods    bart.Table[[]Node]         // by the prefix of their pods
	at      map[netip.Addr][]Node      // by their own address
	nics    map[netip.Addr][]*nicPlace // by each of their addresses
	routes  map[string]*Routes         // by the subnet's key
	filters map[string]*Filters        // by the subnet's key
	plain   map[*inventory.Subnet]bool // subnets whose addresses are all known
}

// nicPlace is an interface with one of its addresses.
type nicPlace struct {
	*inventory.Interface
	subnet  arm.ID
	primary netip.Addr // the address of its first configuration of the same family
}

// New makes a Tracer.
func New(s *inventory.Snapshot, o Options) *Tracer {
	t := &Tracer{s: s, o: o, nodes: Nodes(s), at: map[netip.Addr][]Node{},
		nics: map[netip.Addr][]*nicPlace{}, routes: map[string]*Routes{},
		filters: map[string]*Filters{}, plain: map[*inventory.Subnet]bool{}}
	t.view = t.viewOf(o.Cluster)
	for _, n := range t.nodes {
		if !t.seesCluster(s.Cluster(n.Cluster)) {
			continue
		}
		t.at[n.Addr] = append(t.at[n.Addr], n)
		if n.Pods.IsValid() {
			same, _ := t.pods.Get(n.Pods)
			t.pods.Insert(n.Pods, append(same, n))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Interfaces)) {
		nic := s.Interfaces[key]
		for _, c := range nic.Configs {
			place := &nicPlace{Interface: nic, subnet: c.Subnet, primary: c.Address}
			if first := nic.Configs[0].Address; first.Is4() == c.Address.Is4() {
				place.primary = first
			}
			if c.Address.IsValid() {
				t.nics[c.Address] = append(t.nics[c.Address], place)
			}
		}
	}
	return t
}

// nodesOf returns the nodes that have a pod. There can be several if clusters overlap and Cluster
// is not set.
func (t *Tracer) nodesOf(pod netip.Addr, cluster arm.ID) []Node {
	var nodes []Node
	for _, same := range t.pods.Supernets(netip.PrefixFrom(pod, pod.BitLen())) {
		for _, n := range same {
			if cluster == "" || n.Cluster.Equal(cluster) {
				nodes = append(nodes, n)
			}
		}
	}
	return nodes
}

// nodesAt returns the entries of the node at an address in a subnet, one for each of its pod CIDRs.
func (t *Tracer) nodesAt(a netip.Addr, subnet *inventory.Subnet) []Node {
	var nodes []Node
	for _, n := range t.at[a] {
		if n.subnet == subnet {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// clusterOfPod returns the cluster that has an address in its pod CIDRs, or nil. It includes
// overlays only on request. Clusters can have the same pod CIDR. So if the pod's cluster is known,
// no other counts.
func (t *Tracer) clusterOfPod(a netip.Addr, known arm.ID, overlay bool) *inventory.Cluster {
	for _, key := range slices.Sorted(maps.Keys(t.s.Clusters)) {
		c := t.s.Clusters[key]
		if known != "" && !known.Equal(c.ID) || !t.seesCluster(c) {
			continue
		}
		if (c.Overlay() || c.Kubenet() && !overlay) && contains(c.PodCIDRs, a) {
			return c
		}
	}
	return nil
}

// unseenKubernetes returns a line for each cluster concerned that says why its API did not show all
// nodes and pods.
func (t *Tracer) unseenKubernetes(meant func(*inventory.Cluster) bool) (lines []string) {
	for _, key := range slices.Sorted(maps.Keys(t.s.Kubernetes)) {
		kube, cluster := t.s.Kubernetes[key], t.s.Clusters[key]
		if why := cmp.Or(kube.Failed, kube.Note); why != "" && cluster != nil &&
			t.seesCluster(cluster) && meant(cluster) {
			lines = append(lines, "nodes and pods of cluster "+cluster.ID.Name()+": "+why)
		}
	}
	return lines
}

// concerns reports whether an address is, or may be, the address of a node or pod of the cluster.
func (t *Tracer) concerns(cluster *inventory.Cluster, a netip.Addr) bool {
	return contains(cluster.PodCIDRs, a) || subnetOf(t.s, t.clusterSubnets(cluster), a) != nil
}

// nicAt returns the interface with an address in a subnet, or nil if it was not read.
func (t *Tracer) nicAt(a netip.Addr, subnet *inventory.Subnet) *nicPlace {
	for _, nic := range t.nics[a] {
		if nic.subnet.Equal(subnet.ID) {
			return nic
		}
	}
	return nil
}

// unused reports whether it is certain that no resource in a subnet has an address.
func (t *Tracer) unused(a netip.Addr, subnet *inventory.Subnet) bool {
	_, frontend := t.s.FrontendAt(a, subnet)
	return t.nicAt(a, subnet) == nil && t.s.FirewallAt(a, subnet) == nil && frontend == nil &&
		t.allSeen(subnet)
}

// NextHop returns what happens to packets at the next hop of a subnet's route. Dropped means that
// the network certainly does not reach the address, that certainly no resource has it, or that only
// a load balancer without backends has it. Delivered means that a resource has it. Otherwise the
// result is Unknown. want names what must be read to know. It is empty if no read can show it.
func (t *Tracer) NextHop(from arm.ID, hop netip.Addr) (v Verdict, want inventory.Wanted) {
	subnet, vnet := t.s.Subnet(from), t.s.VNets[from.Parent().Key()]
	unread := func(id arm.ID) (want inventory.Wanted) {
		if _, failed := t.s.Unread[id.Key()]; !failed {
			want.Networks = []arm.ID{id}
		}
		return want
	}
	switch {
	case vnet == nil:
		return Unknown, unread(from.Parent())
	case subnet == nil || len(vnet.Prefixes) == 0:
		return Unknown, want
	}
	near, v := t.nextSubnet(subnet, hop)
	switch {
	case v == Dropped && slices.ContainsFunc(vnet.Peerings, func(p inventory.Peering) bool {
		return p.Connected && len(p.Prefixes) == 0
	}): // it is not known where that peering leads
		return Unknown, want
	case v == Unknown:
		for _, p := range vnet.Peerings {
			if p.Connected && contains(p.Prefixes, hop) {
				return Unknown, unread(p.Remote)
			}
		}
		return Unknown, want
	case v == Dropped || near == nil || t.unused(hop, near):
		return Dropped, want
	case t.nicAt(hop, near) != nil || t.s.FirewallAt(hop, near) != nil:
		return Delivered, want
	}
	if _, frontend := t.s.FrontendAt(hop, near); frontend != nil && frontend.Empty {
		return Dropped, want
	} else if frontend != nil {
		return Delivered, want
	}
	want, _ = t.s.Holders(near)
	return Unknown, want
}

// allSeen reports whether everything with an address in a subnet is known and was read: network
// interfaces, firewalls and load balancers. Other things there have unknown addresses, such as a
// gateway or a delegated service.
func (t *Tracer) allSeen(subnet *inventory.Subnet) bool {
	seen, done := t.plain[subnet]
	if done {
		return seen
	}
	whole := subnet.ID.SubscriptionID()
	want, known := t.s.Holders(subnet)
	// A document from Azure, which has an ETag, shows all IP configurations in the subnet. Code
	// does not. Otherwise all interfaces of the subscription must have been read.
	seen = known && want.Empty() && (subnet.ETag != "" || len(subnet.Configurations()) > 0 ||
		slices.ContainsFunc(t.s.InterfacesOf, whole.Equal))
	t.plain[subnet] = seen
	return seen
}

// subnetsOf returns the subnets that contain an address. There can be several if networks overlap.
func (t *Tracer) subnetsOf(a netip.Addr) []*inventory.Subnet {
	var out []*inventory.Subnet
	for _, key := range slices.Sorted(maps.Keys(t.s.Subnets)) {
		if contains(t.s.Subnets[key].Prefixes, a) && t.view.seesSubnet(t.s.Subnets[key].ID) {
			out = append(out, t.s.Subnets[key])
		}
	}
	return out
}

// reach returns the subnet of an address as another subnet sees it: in the same network, or in a
// peered one.
func (t *Tracer) reach(from *inventory.Subnet, a netip.Addr, peered bool) *inventory.Subnet {
	vnet := t.s.VNets[from.ID.Parent().Key()]
	for _, subnet := range t.subnetsOf(a) {
		at := subnet.ID.Parent()
		if !peered && at.Equal(vnet.ID) {
			return subnet
		}
		if peered && slices.ContainsFunc(vnet.Peerings, func(p inventory.Peering) bool {
			return p.Remote.Equal(at) && p.Connected && contains(p.Prefixes, a)
		}) {
			return subnet
		}
	}
	return nil
}

// nextSubnet returns the subnet of a next hop. The network itself or a peering must reach it. An
// appliance behind another one does not count. It returns Unknown if the peered network was not
// read.
func (t *Tracer) nextSubnet(from *inventory.Subnet, hop netip.Addr) (*inventory.Subnet, Verdict) {
	vnet := t.s.VNets[from.ID.Parent().Key()]
	if contains(vnet.Prefixes, hop) {
		return t.reach(from, hop, false), Delivered
	}
	for _, p := range vnet.Peerings {
		if p.Connected && contains(p.Prefixes, hop) {
			near := t.reach(from, hop, true)
			if near == nil && t.s.VNets[p.Remote.Key()] == nil {
				return nil, Unknown
			}
			return near, Delivered
		}
	}
	return nil, Dropped
}

// forwarded reports whether the network of one subnet accepts packets from the network of another.
// If the packet's source is outside the sending network, as a pod's address is, the receiving
// peering must allow forwarded traffic (virtual-network-manage-peering). Within one network it
// always returns true.
func (t *Tracer) forwarded(from, to *inventory.Subnet, source netip.Addr) bool {
	sender, receiver := t.s.VNets[from.ID.Parent().Key()], t.s.VNets[to.ID.Parent().Key()]
	if sender == nil || receiver == nil || sender == receiver || contains(sender.Prefixes, source) {
		return true
	}
	return slices.ContainsFunc(receiver.Peerings, func(p inventory.Peering) bool {
		return p.Remote.Equal(sender.ID) && p.Forwarded
	})
}

func (t *Tracer) routesOf(subnet arm.ID) (*Routes, error) {
	if r := t.routes[subnet.Key()]; r != nil {
		return r, nil
	}
	r, err := Effective(t.s, subnet, t.o.Learned)
	if err == nil {
		t.routes[subnet.Key()] = r
	}
	return r, err
}

func (t *Tracer) filtersOf(subnet *inventory.Subnet) *Filters {
	f := t.filters[subnet.ID.Key()]
	if f == nil {
		f = FiltersOf(t.s, subnet.ID, t.o.Learned)
		t.filters[subnet.ID.Key()] = f
	}
	return f
}

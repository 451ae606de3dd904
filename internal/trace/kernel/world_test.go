//go:build linux

package kernel

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// world makes a random network: peered networks, clusters of each plugin, tables with what goes
// wrong in them, security groups, and ways out.
type world struct {
	*rand.Rand
	s        *inventory.Snapshot
	dual     bool
	subnets  []*inventory.Subnet
	vnets    []*inventory.VNet
	hops     []netip.Addr   // of machines
	prefixes []netip.Prefix // worth a route or a rule
	groups   []arm.ID       // application security groups
}

const group = arm.ID("/subscriptions/s/resourceGroups/g")

func resource(kind string, name ...any) arm.ID {
	return group + arm.ID("/providers/Microsoft.Network/"+kind+"/"+fmt.Sprint(name...))
}

func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

func pick[T any](w *world, from ...T) T { return from[w.IntN(len(from))] }

func prefix(format string, args ...any) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf(format, args...))
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 29)), s: inventory.NewSnapshot(),
		groups: []arm.ID{resource("applicationSecurityGroups", "asg")}}
	w.dual = w.chance(25)
	w.s.InterfacesOf = []arm.ID{"/subscriptions/s"}
	for k := range 1 + w.IntN(3) {
		w.vnet(k)
	}
	for i, a := range w.vnets {
		for _, b := range w.vnets[:i] {
			if w.chance(75) {
				connected := w.chance(90)
				for _, pair := range [][2]*inventory.VNet{{a, b}, {b, a}} {
					pair[0].Peerings = append(pair[0].Peerings, inventory.Peering{
						Name: "to-" + pair[1].ID.Name(), Remote: pair[1].ID,
						Prefixes: pair[1].Prefixes, Connected: connected, Access: w.chance(85),
						Forwarded: w.chance(60)})
				}
			}
		}
	}
	nodes := w.Perm(len(w.subnets))
	for c := range min(1+w.IntN(2), len(nodes)) {
		w.cluster(c, w.subnets[nodes[c]])
	}
	if w.chance(60) {
		subnet := w.subnet(w.vnets[0], "AzureFirewallSubnet", 0, 200)
		id := resource("azureFirewalls", "fw")
		*subnet = *subnet.WithConfigurations([]arm.ID{id.Child("azureFirewallIpConfigurations", "c")})
		w.s.Firewalls[id.Key()] = &inventory.Firewall{Document: arm.Document{ID: id},
			Addresses: []netip.Addr{inventory.FirstUsable(subnet.Prefixes[0])}}
		w.hops = append(w.hops, w.s.Firewalls[id.Key()].Addresses[0])
	}
	if w.chance(40) {
		k := w.IntN(len(w.vnets))
		subnet := w.subnet(w.vnets[k], "agw", k, 201)
		subnet.Gateways = []arm.ID{resource("applicationGateways", "agw")}
	}
	for i, subnet := range w.subnets {
		if subnet.RouteTable == "" && w.chance(40) {
			w.table(subnet, resource("routeTables", "rt-", i))
		}
		if w.chance(10) {
			subnet.RouteTable = "" // stripped
		}
		if w.chance(35) {
			subnet.SecurityGroup = w.security("nsg-", i)
		}
	}
	for _, nic := range w.s.Interfaces {
		if len(nic.Configs[0].Groups) == 0 && nic.ID.Name() == "vm-0-0-0" {
			nic.Configs[0].Groups = w.groups
		}
	}
	for i, nic := range w.sorted() {
		if w.chance(12) {
			nic.SecurityGroup = w.security("nic-nsg-", i)
		}
	}
	return w
}

func (w *world) sorted() (all []*inventory.Interface) {
	for _, nic := range w.s.Interfaces {
		all = append(all, nic)
	}
	slices.SortFunc(all, func(a, b *inventory.Interface) int {
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return all
}

func (w *world) vnet(k int) {
	id := resource("virtualNetworks", "v", k)
	v := &inventory.VNet{Document: arm.Document{ID: id},
		Prefixes: []netip.Prefix{prefix("10.%d.0.0/16", k)}}
	if w.chance(10) {
		v.Prefixes[0] = prefix("52.%d.0.0/16", k)
	}
	if w.dual {
		v.Prefixes = append(v.Prefixes, prefix("fd00:%d::/48", k))
	}
	w.s.VNets[id.Key()] = v
	w.vnets, w.prefixes = append(w.vnets, v), append(w.prefixes, v.Prefixes...)
	for j := range 1 + w.IntN(3) {
		subnet := w.subnet(v, fmt.Sprint("s", j), k, j)
		if w.chance(15) {
			subnet.NATGateway = resource("natGateways", "nat", k, j)
		}
		subnet.Private = w.chance(20)
		for i := range 1 + w.IntN(2) {
			name := fmt.Sprintf("vm-%d-%d-%d", k, j, i)
			w.nic(resource("networkInterfaces", name), group+
				arm.ID("/providers/Microsoft.Compute/virtualMachines/"+name), subnet, 4+i,
				w.chance(50))
		}
	}
}

func (w *world) subnet(v *inventory.VNet, name string, k, j int) *inventory.Subnet {
	bytes := v.Prefixes[0].Addr().As4()
	bytes[2] = byte(j)
	s := &inventory.Subnet{Document: arm.Document{ID: v.ID.Child("subnets", name)},
		Prefixes: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4(bytes), 24)}}
	if w.dual {
		s.Prefixes = append(s.Prefixes, prefix("fd00:%d:0:%d::/64", k, j))
	}
	w.s.Subnets[s.ID.Key()] = s
	w.subnets, w.prefixes = append(w.subnets, s), append(w.prefixes, s.Prefixes...)
	return s
}

// nth is an address of a prefix.
func nth(p netip.Prefix, n int) netip.Addr {
	bytes := p.Addr().AsSlice()
	bytes[len(bytes)-1] = byte(n)
	a, _ := netip.AddrFromSlice(bytes)
	return a
}

func (w *world) nic(id, machine arm.ID, subnet *inventory.Subnet, n int,
	forwarding bool) *inventory.Interface {
	nic := &inventory.Interface{Document: arm.Document{ID: id}, Machine: machine,
		Forwarding: forwarding}
	for _, p := range subnet.Prefixes {
		nic.Configs = append(nic.Configs, inventory.IPConfig{Address: nth(p, n),
			Subnet: subnet.ID})
		w.hops = append(w.hops, nth(p, n))
	}
	w.s.Interfaces[id.Key()] = nic
	return nic
}

func (w *world) cluster(c int, subnet *inventory.Subnet) {
	id := group + arm.ID(fmt.Sprint("/providers/Microsoft.ContainerService/managedClusters/c", c))
	cluster := &inventory.Cluster{Document: arm.Document{ID: id}, Plugin: "azure",
		NodeResourceGroup: fmt.Sprint("MC_c", c), Outbound: pick(w, "loadBalancer",
			"userDefinedRouting", "userAssignedNATGateway", "none"),
		Pools: []inventory.Pool{{Name: "np", Subnet: subnet.ID, PublicIPs: w.chance(10)}}}
	kube := &inventory.Kubernetes{}
	plugin := pick(w, "kubenet", "kubenet", "kubenet", "overlay", "node-subnet")
	if plugin == "kubenet" {
		cluster.Plugin = plugin
	} else if plugin == "overlay" {
		cluster.PluginMode = plugin
	}
	if plugin != "node-subnet" {
		cluster.PodCIDRs = []netip.Prefix{prefix("10.%d.0.0/16", 244+c)}
		if w.dual {
			cluster.PodCIDRs = append(cluster.PodCIDRs, prefix("fd01:%d::/48", c))
		}
		w.prefixes = append(w.prefixes, cluster.PodCIDRs...)
	}
	var routes []inventory.Route
	for i := range 2 + w.IntN(2) {
		node, nic := w.node(c, i, 20+10*i, subnet, w.chance(90))
		pods := make([]inventory.Pod, 1+w.IntN(2))
		for at := range cluster.PodCIDRs {
			p := podCIDR(c, i, at)
			node.PodCIDRs = append(node.PodCIDRs, p)
			w.prefixes = append(w.prefixes, p)
			routes = append(routes, inventory.Route{Prefix: p, Hop: node.Addresses[at],
				HopType: inventory.HopAppliance, Name: node.Name + "____" +
					strings.NewReplacer(".", "", ":", "", "/", "").Replace(p.String())})
			for n := range pods {
				pods[n].Addresses = append(pods[n].Addresses, nth(p, 4+n))
			}
		}
		for n := range pods {
			pods[n].Namespace, pods[n].Name, pods[n].Node = "x", fmt.Sprint("p", i, n), node.Name
			if plugin == "node-subnet" {
				for _, p := range subnet.Prefixes[:1] {
					a := nth(p, 21+10*i+n)
					pods[n].Addresses = append(pods[n].Addresses, a)
					nic.Configs = append(nic.Configs, inventory.IPConfig{Address: a,
						Subnet: subnet.ID})
				}
			}
		}
		kube.Nodes, kube.Pods = append(kube.Nodes, node), append(kube.Pods, pods...)
	}
	w.s.Clusters[id.Key()], w.s.Kubernetes[id.Key()] = cluster, kube
	if plugin == "kubenet" {
		w.table(subnet, resource("routeTables", "cluster-", c), routes...)
	}
	for _, other := range w.subnets { // they reach the pods
		if other != subnet && other.RouteTable == "" && plugin != "node-subnet" && w.chance(50) {
			w.table(other, resource("routeTables", "pods-", c, other.ID.Parent().Name(),
				other.ID.Name()), routes...)
		}
	}
}

// node makes node i of cluster c, whose address in the subnet ends with at.
func (w *world) node(c, i, at int, subnet *inventory.Subnet, forwarding bool) (inventory.Node,
	*inventory.Interface) {
	machine := arm.ID(fmt.Sprint("/subscriptions/s/resourceGroups/MC_c", c, "/providers/",
		"Microsoft.Compute/virtualMachineScaleSets/aks-np-1-vmss/virtualMachines/", i))
	nic := w.nic(machine+"/networkInterfaces/nic", machine, subnet, at, forwarding)
	node := inventory.Node{Name: fmt.Sprintf("aks-np-1-vmss00000%d", i),
		ProviderID: "azure://" + string(machine), Ready: true}
	for _, c := range nic.Configs {
		node.Addresses = append(node.Addresses, c.Address)
	}
	return node, nic
}

// podCIDR is the pod CIDR i of cluster c, by family.
func podCIDR(c, i, family int) netip.Prefix {
	if family == 1 {
		return prefix("fd01:%d:0:%d::/64", c, i)
	}
	return prefix("10.%d.%d.0/24", 244+c, i)
}

// table gives a subnet a table with routes, some of them wrong, and with others.
func (w *world) table(subnet *inventory.Subnet, id arm.ID, right ...inventory.Route) {
	var routes []inventory.Route
	taken := map[netip.Prefix]bool{}
	add := func(r inventory.Route) {
		if !taken[r.Prefix] {
			taken[r.Prefix] = true
			routes = append(routes, r)
		}
	}
	broken := w.chance(40)
	for _, r := range right {
		switch {
		case broken && w.chance(15):
			continue
		case broken && w.chance(20):
			r.Hop = w.hop(r.Prefix)
		}
		add(r)
	}
	for i := range w.IntN(4) {
		p := pick(w, w.prefixes...)
		if w.chance(40) {
			p = everything[b2i(w.dual && w.chance(30))]
		} else if w.chance(30) && p.Bits() < p.Addr().BitLen()-2 {
			p = netip.PrefixFrom(p.Addr(), p.Bits()+1+w.IntN(2))
		}
		r := inventory.Route{Name: fmt.Sprint("r", i), Prefix: p, HopType: pick(w,
			inventory.HopAppliance, inventory.HopAppliance, inventory.HopAppliance, "Internet",
			"None", inventory.HopGateway)}
		if r.HopType == inventory.HopAppliance {
			r.Hop = w.hop(p)
		}
		add(r)
	}
	w.s.Tables[id.Key()] = (&inventory.RouteTable{
		Document: arm.Document{ID: id}}).WithRoutes(routes)
	subnet.RouteTable = id
}

// hop is the address of a machine, or of none.
func (w *world) hop(p netip.Prefix) netip.Addr {
	var same []netip.Addr
	for _, a := range w.hops {
		if a.Is4() == p.Addr().Is4() {
			same = append(same, a)
		}
	}
	if w.chance(10) {
		return nth(netip.PrefixFrom(pick(w, same...), 0), 99)
	}
	return pick(w, same...)
}

// security makes a network security group with Azure's default rules.
func (w *world) security(name string, i int) arm.ID {
	id := resource("networkSecurityGroups", name, i)
	g := &inventory.SecurityGroup{Document: arm.Document{ID: id}}
	for _, inbound := range []bool{true, false} {
		for n := range w.IntN(4) {
			r := inventory.SecurityRule{Name: fmt.Sprint("rule-", b2i(inbound), n),
				Priority: 100 + n, Inbound: inbound, Allow: w.chance(60),
				Protocol:     pick(w, "*", "*", "Tcp", "Udp"),
				Sources:      []string{w.side()},
				Destinations: []string{w.side()}, SourcePorts: []string{"*"},
				DestinationPorts: []string{pick(w, "*", "*", "80", "443", "100-500")}}
			if w.chance(10) {
				r.Sources, r.SourceGroups = nil, w.groups
			}
			g.Rules = append(g.Rules, r)
		}
		outside, public := "Internet", "Internet"
		far, all := "DenyAllInBound", "AllowVnetInBound"
		if inbound {
			outside, public = "AzureLoadBalancer", "*"
		} else {
			far, all = "DenyAllOutBound", "AllowVnetOutBound"
		}
		between := inventory.SecurityRule{Name: "AllowAzureLoadBalancerInBound", Priority: 65001,
			Inbound: true, Allow: true, Sources: []string{outside}, Destinations: []string{public}}
		if !inbound {
			between = inventory.SecurityRule{Name: "AllowInternetOutBound", Priority: 65001,
				Allow: true, Sources: []string{"*"}, Destinations: []string{outside}}
		}
		g.Rules = append(g.Rules, inventory.SecurityRule{Name: all, Priority: 65000,
			Inbound: inbound, Allow: true, Sources: []string{"VirtualNetwork"},
			Destinations: []string{"VirtualNetwork"}}, between,
			inventory.SecurityRule{Name: far, Priority: 65500, Inbound: inbound,
				Sources: []string{"*"}, Destinations: []string{"*"}})
	}
	w.s.SecurityGroups[id.Key()] = g
	return id
}

// side is one side of a rule.
func (w *world) side() string {
	return pick(w, "*", "*", "VirtualNetwork", "Internet", pick(w, w.prefixes...).String(),
		pick(w, w.prefixes...).String(), pick(w, w.hops...).String(), "20.0.0.0/8")
}

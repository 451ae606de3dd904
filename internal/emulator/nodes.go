package emulator

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// cluster is what runs behind a managed cluster's document.
type cluster struct {
	id        arm.ID
	digits    string // the eight in the names of what AKS makes
	location  string
	nodeGroup arm.ID
	mode      networkMode
	podCIDRs  []netip.Prefix
	table     arm.ID    // where its cloud provider writes routes, "" without kubenet
	who       Principal // its identity
	pools     []*pool
	provider  *cloudProvider
	leaving   bool // kubenet for overlay
	ingress   bool // its ingress add-on follows its pods

	// takenPodCIDRs are the ones that nodes have; nextPodCIDR counts the node prefixes given out of
	// each pod CIDR: Kubernetes goes round before it gives one out anew.
	takenPodCIDRs map[netip.Prefix]bool
	nextPodCIDR   []int
}

type pool struct {
	name      string
	subnet    arm.ID
	podSubnet arm.ID // "" where pods have none of their own
	blocks    bool   // pods have whole /28 blocks of it
	maxPods   int
	vmSize    string
	scaleSet  arm.ID // there is none in a pool of single machines
	kind      string
	made      bool   // what its nodes run on is stored
	doing     string // the state it is in while its cluster is busy
	next      int    // instance ID
	nodes     []*node
}

type node struct {
	name     string
	instance int
	addrs    []netip.Addr   // the node's, and its pods' where they are in the same subnet
	pods     []netip.Addr   // its pods' in the pool's pod subnet
	podCIDRs []netip.Prefix // none when the pod CIDR is used up
	created  time.Time      // its Kubernetes object
	routes   routesSeen
}

func (cl *cluster) ownSubnet() arm.ID {
	return arm.ResourceID(cl.id.Subscription(), cl.nodeGroup.Name(), arm.TypeVNet, "aks-vnet-"+
		cl.digits).Child("subnets", "aks-subnet")
}

func (cl *cluster) pool(name string) *pool {
	for _, p := range cl.pools {
		if strings.EqualFold(p.name, name) {
			return p
		}
	}
	return nil
}

func (cl *cluster) nodes() []*node {
	var all []*node
	for _, p := range cl.pools {
		all = append(all, p.nodes...)
	}
	return all
}

// setPool gives a pool its number of nodes, making it first where it is new.
func (s *aks) setPool(cl *cluster, profile object, doing string) *failure {
	name := text(profile, "name")
	p := cl.pool(name)
	if p == nil {
		p = &pool{name: name, subnet: arm.ID(text(profile, "vnetSubnetID")),
			scaleSet: arm.ResourceID(cl.id.Subscription(), cl.nodeGroup.Name(), arm.TypeScaleSet,
				"aks-"+name+"-"+cl.digits+"-vmss"), kind: text(profile, "type")}
		if p.subnet == "" {
			p.subnet = cl.ownSubnet()
		}
		cl.pools = append(cl.pools, p)
		if !p.single() {
			s.scaleSets[p.scaleSet.Key()] = poolOf{cl, p}
		}
	}
	p.podSubnet, p.blocks = arm.ID(text(profile, "podSubnetID")), text(profile,
		"podIPAllocationMode") == "StaticBlock"
	p.maxPods, p.vmSize, p.doing = numberOf(profile, "maxPods"), text(profile, "vmSize"), doing
	count, _ := countOf(profile) // checked when it was settled
	for before := len(p.nodes); len(p.nodes) < count; {
		if f := s.addNode(cl, p); f != nil { // all of them or none
			for len(p.nodes) > before {
				s.removeNode(cl, p, p.nodes[len(p.nodes)-1])
			}
			if before == 0 && !p.made {
				s.removePool(cl, p)
			}
			return f
		}
	}
	for len(p.nodes) > count {
		s.removeNode(cl, p, p.nodes[len(p.nodes)-1])
	}
	return s.storeScaleSet(cl, p)
}

// poolOf is a pool and its cluster.
type poolOf struct {
	cluster *cluster
	pool    *pool
}

// addNode adds an instance with its addresses and pod CIDRs.
func (s *aks) addNode(cl *cluster, p *pool) *failure {
	n := &node{instance: p.next, name: p.nodeName(p.next)}
	if f := s.giveAddresses(cl, p, n); f != nil {
		return f
	}
	if f := s.givePodAddresses(p, n); f != nil {
		s.kernel.store.release(p.subnet, n.addrs...)
		return f
	}
	p.next++
	n.podCIDRs, n.created = cl.givePodCIDRs(), time.Now()
	p.nodes = append(p.nodes, n)
	return nil
}

// giveAddresses takes one address of each of the cluster's families from the pool's subnet, and
// with Azure CNI in the node subnet one for each pod that may come.
func (s *aks) giveAddresses(cl *cluster, p *pool, n *node) *failure {
	subnet := s.kernel.store.get(p.subnet)
	if subnet == nil {
		return fail(http.StatusBadRequest, "SubnetNotFound",
			"The subnet %s of pool %s was not found.", p.subnet, p.name)
	}
	each := 1
	if cl.mode == modeVNet && p.podSubnet == "" {
		each += p.maxPods
	}
	v4, v6 := familiesOf(cl.podCIDRs)
	var addrs []netip.Addr
	for _, prefix := range prefixesOf(subnet.body) {
		if prefix.Addr().Is4() && !v4 || prefix.Addr().Is6() && !v6 {
			continue
		}
		for range each {
			addr := s.kernel.store.allocate(p.subnet, prefix, p.configuration(n, len(addrs)))
			if !addr.IsValid() {
				s.kernel.store.release(p.subnet, addrs...)
				return subnetIsFull(p.subnet, prefix, each)
			}
			addrs = append(addrs, addr)
		}
		if prefix.Addr().Is4() {
			v4 = false // one of each family
		} else {
			v6 = false
		}
	}
	n.addrs = addrs
	return nil
}

func subnetIsFull(subnet arm.ID, prefix netip.Prefix, wanted int) *failure {
	return fail(http.StatusBadRequest, "SubnetIsFull",
		"Subnet %s with address prefix %s does not have enough capacity for %d IP addresses.",
		subnet.Name(), prefix, wanted)
}

// configuration is the ID of the i-th IP configuration of a node.
func (p *pool) configuration(n *node, i int) arm.ID {
	return p.nic(n).Child("ipConfigurations", "ipconfig"+strconv.Itoa(i+1))
}

func (s *aks) removeNode(cl *cluster, p *pool, n *node) {
	s.kernel.store.release(p.subnet, n.addrs...)
	if len(n.pods) > 0 {
		s.kernel.store.release(p.podSubnet, n.pods...)
	}
	cl.freePodCIDRs(n)
	p.nodes = slices.DeleteFunc(p.nodes, func(have *node) bool { return have == n })
}

func (s *aks) removePool(cl *cluster, p *pool) {
	for len(p.nodes) > 0 {
		s.removeNode(cl, p, p.nodes[len(p.nodes)-1])
	}
	if p.single() {
		s.dropMachines(p, nil)
		s.kernel.store.remove(p.set())
	}
	s.kernel.store.remove(p.scaleSet)
	delete(s.scaleSets, p.scaleSet.Key())
	cl.pools = slices.DeleteFunc(cl.pools, func(have *pool) bool { return have == p })
}

// givePodCIDRs gives out the next free node prefix of each pod CIDR.
func (cl *cluster) givePodCIDRs() []netip.Prefix {
	// there were none while pods had theirs elsewhere
	if len(cl.nextPodCIDR) != len(cl.podCIDRs) || cl.takenPodCIDRs == nil {
		cl.nextPodCIDR, cl.takenPodCIDRs = make([]int, len(cl.podCIDRs)), map[netip.Prefix]bool{}
	}
	var out []netip.Prefix
	for i, cidr := range cl.podCIDRs {
		bits := inventory.NodeMask(cidr)
		total := 1 << min(bits-cidr.Bits(), 16)
		for range total {
			p := nthPrefix(cidr, bits, cl.nextPodCIDR[i]%total)
			cl.nextPodCIDR[i]++
			if !cl.takenPodCIDRs[p] {
				cl.takenPodCIDRs[p] = true
				out = append(out, p)
				break
			}
		}
	}
	return out
}

func (cl *cluster) freePodCIDRs(n *node) {
	for _, p := range n.podCIDRs {
		delete(cl.takenPodCIDRs, p)
	}
	n.podCIDRs = nil
}

// nthPrefix is the n-th prefix of the given length inside a wider one.
func nthPrefix(wide netip.Prefix, bits, n int) netip.Prefix {
	raw := wide.Addr().AsSlice()
	for bit := bits - 1; bit >= wide.Bits() && n > 0; bit-- {
		if n&1 == 1 {
			raw[bit/8] |= 1 << (7 - bit%8)
		}
		n >>= 1
	}
	addr, _ := netip.AddrFromSlice(raw)
	return netip.PrefixFrom(addr, bits)
}

// nodesChanged lets the cloud provider know.
func (s *aks) nodesChanged(cl *cluster) {
	if r := s.kernel.store.get(cl.id); r != nil {
		s.kernel.store.changed(r)
	}
	if cl.table != "" {
		cl.provider.wake()
	}
	s.playIngress(cl)
}

// findNode returns a node by name.
func (cl *cluster) findNode(name string) (*pool, *node) {
	for _, p := range cl.pools {
		for _, n := range p.nodes {
			if strings.EqualFold(n.name, name) {
				return p, n
			}
		}
	}
	return nil, nil
}

// Scale sets the number of nodes of a pool.
func (s *aks) Scale(clusterID arm.ID, poolName string, count int) error {
	defer s.kernel.lock()()
	r := s.kernel.store.get(clusterID)
	if r == nil || s.clusters[clusterID.Key()] == nil {
		return fmt.Errorf("no cluster %s", clusterID)
	}
	pools := listAt(objectAt(r.body, "properties"), "agentPoolProfiles")
	at := slices.IndexFunc(pools, func(p object) bool {
		return strings.EqualFold(text(p, "name"), poolName)
	})
	if at < 0 {
		return fmt.Errorf("cluster %s has no pool %q", clusterID.Name(), poolName)
	}
	if powerOf(r) != "Running" {
		return fmt.Errorf("cluster %s is stopped", clusterID.Name())
	}
	cl := s.clusters[r.id.Key()]
	p := clone(pools[at])
	p["count"] = count
	if _, err := countOf(p); err != nil {
		return fmt.Errorf("%d nodes are %w, expected 0 to %d", count, err, maxPoolNodes)
	}
	if count == 0 && strings.EqualFold(text(p, "mode"), "System") {
		return fmt.Errorf("pool %s is a system pool: it has at least one node", poolName)
	}
	pools[at] = p
	properties := objectAt(r.body, "properties")
	f := s.checkSizes(r.id, object{"networkProfile": properties["networkProfile"],
		"agentPoolProfiles": items(pools)})
	if f == nil {
		cl.idle()
		f = s.setPool(cl, p, "Scaling")
	}
	if f != nil {
		return fmt.Errorf("%s: %s", f.code, f.message)
	}
	s.storePools(cl.call(http.MethodPut, r.id, nil), r, pools)
	s.nodesChanged(cl)
	return nil
}

// Readdress takes a node away and brings it back at once under its name with another address, as a
// reimaged one can come back.
func (s *aks) Readdress(clusterID arm.ID, nodeName string) error {
	defer s.kernel.lock()()
	cl := s.clusters[clusterID.Key()]
	if cl == nil {
		return fmt.Errorf("no cluster %s", clusterID)
	}
	p, n := cl.findNode(nodeName)
	if n == nil {
		return fmt.Errorf("cluster %s has no node %q", clusterID.Name(), nodeName)
	}
	old := n.addrs
	// before the old ones are free, so that they differ
	if f := s.giveAddresses(cl, p, n); f != nil {
		return fmt.Errorf("%s: %s", f.code, f.message)
	}
	s.kernel.store.release(p.subnet, old...)
	n.created = time.Now()
	if f := s.refreshMachines(cl, p); f != nil {
		return fmt.Errorf("%s: %s", f.code, f.message)
	}
	cl.provider.recreated(n)
	return nil
}

// familiesOf says which address families a cluster's nodes have.
func familiesOf(podCIDRs []netip.Prefix) (v4, v6 bool) {
	for _, p := range podCIDRs {
		v4 = v4 || p.Addr().Is4()
		v6 = v6 || p.Addr().Is6()
	}
	return v4 || !v6, v6
}

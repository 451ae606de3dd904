package aks

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// cluster is the state behind a managed cluster's document.
type cluster struct {
	id        arm.ID
	digits    string // the eight digits in the names that AKS makes
	location  string
	nodeGroup arm.ID
	mode      networkMode
	podCIDRs  []netip.Prefix
	Table     arm.ID           // where its cloud provider writes routes, "" without kubenet
	Who       kernel.Principal // its identity
	Pools     []*pool
	provider  *cloudProvider
	leaving   bool // it changes from kubenet to overlay
	ingress   bool // its ingress add-on follows its pods
	// services are those of type LoadBalancer, addresses the public IP addresses that its load
	// balancer uses, and written are the load balancers as they were last written, by name.
	services  []Service
	addresses []arm.ID
	written   map[string]string
	// news is closed when its nodes change; nil while no watch waits for that.
	news chan struct{}

	// takenPodCIDRs are those of nodes; nextPodCIDR counts the node prefixes that were assigned
	// from each pod CIDR: Kubernetes uses all others before it assigns one again.
	takenPodCIDRs map[netip.Prefix]bool
	nextPodCIDR   []int
}

type pool struct {
	name      string
	subnet    arm.ID
	podSubnet arm.ID // "" where pods have none
	blocks    bool   // pods have whole /28 blocks of it
	maxPods   int
	vmSize    string
	ScaleSet  arm.ID // there is none in a pool of single machines
	kind      string
	made      bool      // what its nodes run on is stored
	doing     string    // the state it is in while its cluster is busy
	until     time.Time // the end of an operation on the pool alone: others run meanwhile
	next      int       // instance ID
	Nodes     []*Node
}

type Node struct {
	Name     string
	instance int
	Addrs    []netip.Addr   // the node's, and its pods' where they are in the same subnet
	Pods     []netip.Addr   // its pods' in the pool's pod subnet
	PodCIDRs []netip.Prefix // none when the pod CIDR is used up
	created  time.Time      // its Kubernetes object
	overlay  bool           // it has left kubenet, or never had it
	routes   routesSeen
}

func (cl *cluster) OwnSubnet() arm.ID {
	return arm.ResourceID(cl.id.Subscription(), cl.nodeGroup.Name(), arm.TypeVNet, "aks-vnet-"+
		cl.digits).Child("subnets", "aks-subnet")
}

func (cl *cluster) Pool(name string) *pool {
	for _, p := range cl.Pools {
		if strings.EqualFold(p.name, name) {
			return p
		}
	}
	return nil
}

func (cl *cluster) nodes() []*Node {
	var all []*Node
	for _, p := range cl.Pools {
		all = append(all, p.Nodes...)
	}
	return all
}

// nodes are what the clusters' pools run on: instances of scale sets or separate machines, with
// their addresses.
type nodes struct{ aks *AKS }

// setPool sets a pool's number of nodes. A new pool is created first.
func (s *nodes) setPool(cl *cluster, profile kernel.Object, doing string) *kernel.Failure {
	name := kernel.Text(profile, "name")
	p := cl.Pool(name)
	if p == nil {
		p = &pool{name: name, subnet: arm.ID(kernel.Text(profile, "vnetSubnetID")),
			ScaleSet: arm.ResourceID(cl.id.Subscription(), cl.nodeGroup.Name(), arm.TypeScaleSet,
				"aks-"+name+"-"+cl.digits+"-vmss"), kind: kernel.Text(profile, "type")}
		if p.subnet == "" {
			p.subnet = cl.OwnSubnet()
		}
		cl.Pools = append(cl.Pools, p)
		if !p.single() {
			s.aks.scaleSets[p.ScaleSet.Key()] = poolOf{cl, p}
		}
	}
	p.podSubnet, p.blocks = arm.ID(kernel.Text(profile, "podSubnetID")), kernel.Text(profile,
		"podIPAllocationMode") == "StaticBlock"
	p.maxPods, p.vmSize, p.doing = kernel.NumberOf(profile, "maxPods"), kernel.Text(profile,
		"vmSize"), doing
	count, _ := countOf(profile) // settlePool has checked it
	for before := len(p.Nodes); len(p.Nodes) < count; {
		if f := s.addNode(cl, p); f != nil { // all nodes or none
			for len(p.Nodes) > before {
				s.removeNode(cl, p, p.Nodes[len(p.Nodes)-1])
			}
			if before == 0 && !p.made {
				s.removePool(cl, p)
			}
			return f
		}
	}
	for len(p.Nodes) > count {
		s.removeNode(cl, p, p.Nodes[len(p.Nodes)-1])
	}
	return s.storeScaleSet(cl, p)
}

// poolOf is a pool and its cluster.
type poolOf struct {
	cluster *cluster
	pool    *pool
}

// addNode adds an instance with its addresses and pod CIDRs.
func (s *nodes) addNode(cl *cluster, p *pool) *kernel.Failure {
	n := &Node{instance: p.next, Name: p.nodeName(p.next)}
	if f := s.giveAddresses(cl, p, n); f != nil {
		return f
	}
	if f := s.givePodAddresses(p, n); f != nil {
		s.aks.network.Release(p.subnet, n.Addrs...)
		return f
	}
	p.next++
	n.PodCIDRs, n.created = cl.givePodCIDRs(), time.Now()
	n.overlay = cl.mode == modeOverlay
	p.Nodes = append(p.Nodes, n)
	return nil
}

// giveAddresses takes one address of each of the cluster's families from the pool's subnet, and
// with Azure CNI in the node subnet one for each pod that may come.
func (s *nodes) giveAddresses(cl *cluster, p *pool, n *Node) *kernel.Failure {
	subnet := s.aks.kernel.Store.Get(p.subnet)
	if subnet == nil {
		return kernel.Fail(http.StatusBadRequest, "SubnetNotFound",
			"The subnet %s of pool %s was not found.", p.subnet, p.name)
	}
	each := 1
	if cl.mode == modeVNet && p.podSubnet == "" {
		each += p.maxPods
	}
	v4, v6 := familiesOf(cl.podCIDRs)
	var addrs []netip.Addr
	for _, prefix := range network.PrefixesOf(subnet.Body) {
		if prefix.Addr().Is4() && !v4 || prefix.Addr().Is6() && !v6 {
			continue
		}
		for range each {
			addr := s.aks.network.Allocate(p.subnet, prefix, p.configuration(n, len(addrs)))
			if !addr.IsValid() {
				s.aks.network.Release(p.subnet, addrs...)
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
	n.Addrs = addrs
	return nil
}

func subnetIsFull(subnet arm.ID, prefix netip.Prefix, wanted int) *kernel.Failure {
	return kernel.Fail(http.StatusBadRequest, "SubnetIsFull",
		"Subnet %s with address prefix %s does not have enough capacity for %d IP addresses.",
		subnet.Name(), prefix, wanted)
}

// configuration returns the ID of the i-th IP configuration of a node.
func (p *pool) configuration(n *Node, i int) arm.ID {
	return p.nic(n).Child("ipConfigurations", "ipconfig"+strconv.Itoa(i+1))
}

func (s *nodes) removeNode(cl *cluster, p *pool, n *Node) {
	s.aks.network.Release(p.subnet, n.Addrs...)
	if len(n.Pods) > 0 {
		s.aks.network.Release(p.podSubnet, n.Pods...)
	}
	cl.freePodCIDRs(n)
	p.Nodes = slices.DeleteFunc(p.Nodes, func(have *Node) bool { return have == n })
}

func (s *nodes) removePool(cl *cluster, p *pool) {
	for len(p.Nodes) > 0 {
		s.removeNode(cl, p, p.Nodes[len(p.Nodes)-1])
	}
	if p.single() {
		s.dropMachines(p, nil)
		s.aks.kernel.Store.Remove(p.set())
	}
	s.aks.kernel.Store.Remove(p.ScaleSet)
	delete(s.aks.scaleSets, p.ScaleSet.Key())
	cl.Pools = slices.DeleteFunc(cl.Pools, func(have *pool) bool { return have == p })
}

// givePodCIDRs assigns the next free node prefix of each pod CIDR.
func (cl *cluster) givePodCIDRs() []netip.Prefix {
	// there were none while pods had addresses from elsewhere
	if len(cl.nextPodCIDR) != len(cl.podCIDRs) || cl.takenPodCIDRs == nil {
		cl.nextPodCIDR, cl.takenPodCIDRs = make([]int, len(cl.podCIDRs)), map[netip.Prefix]bool{}
	}
	var out []netip.Prefix
	for i, cidr := range cl.podCIDRs {
		bits := inventory.NodeMask(cidr)
		total := 1 << min(bits-cidr.Bits(), 16)
		for range total {
			p := network.NthPrefix(cidr, bits, cl.nextPodCIDR[i]%total)
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

func (cl *cluster) freePodCIDRs(n *Node) {
	for _, p := range n.PodCIDRs {
		delete(cl.takenPodCIDRs, p)
	}
	n.PodCIDRs = nil
}

// nodesChanged wakes the cloud provider.
func (s *nodes) nodesChanged(cl *cluster) {
	cl.tellWatchers()
	if r := s.aks.kernel.Store.Get(cl.id); r != nil {
		s.aks.kernel.Store.Changed(r)
	}
	s.aks.kernel.Store.Touch(cl.inNodeGroup(network.TypeLoadBalancer, publicBalancer))
	if cl.Table != "" {
		cl.provider.wake()
	}
	s.aks.playIngress(cl)
	if wrote := s.aks.kernel.Opts.Wrote; wrote != nil {
		wrote(cl.id)
	}
}

// findNode returns a node by name.
func (cl *cluster) findNode(name string) (*pool, *Node) {
	for _, p := range cl.Pools {
		for _, n := range p.Nodes {
			if strings.EqualFold(n.Name, name) {
				return p, n
			}
		}
	}
	return nil, nil
}

// Scale sets the number of nodes of a pool.
func (s *AKS) Scale(clusterID arm.ID, poolName string, count int) error {
	defer s.kernel.Lock()()
	r := s.kernel.Store.Get(clusterID)
	if r == nil || s.Clusters[clusterID.Key()] == nil {
		return fmt.Errorf("no cluster %s", clusterID)
	}
	pools := kernel.ListAt(kernel.ObjectAt(r.Body, "properties"), "agentPoolProfiles")
	at := slices.IndexFunc(pools, func(p kernel.Object) bool {
		return strings.EqualFold(kernel.Text(p, "name"), poolName)
	})
	if at < 0 {
		return fmt.Errorf("cluster %s has no pool %q", clusterID.Name(), poolName)
	}
	if powerOf(r) != "Running" {
		return fmt.Errorf("cluster %s is stopped", clusterID.Name())
	}
	cl := s.Clusters[r.ID.Key()]
	p := kernel.Clone(pools[at])
	p["count"] = count
	if _, err := countOf(p); err != nil {
		return fmt.Errorf("%d nodes are %w, expected 0 to %d", count, err, maxPoolNodes)
	}
	if count == 0 && strings.EqualFold(kernel.Text(p, "mode"), "System") {
		return fmt.Errorf("pool %s is a system pool: it has at least one node", poolName)
	}
	pools[at] = p
	properties := kernel.ObjectAt(r.Body, "properties")
	f := s.checkSizes(r.ID, kernel.Object{"networkProfile": properties["networkProfile"],
		"agentPoolProfiles": kernel.Items(pools)})
	if f == nil {
		cl.idle()
		f = s.nodes.setPool(cl, p, "Scaling")
	}
	if f != nil {
		return fmt.Errorf("%s: %s", f.Code, f.Message)
	}
	storePools(s.kernel, r, pools)
	occupyPool(s.kernel, cl.call(http.MethodPut, r.ID, nil), r, cl.Pool(poolName), "Scaling")
	s.nodes.nodesChanged(cl)
	return nil
}

// Readdress replaces a node with one with the same name and another address. A reimage can do that.
func (s *AKS) Readdress(clusterID arm.ID, nodeName string) error {
	defer s.kernel.Lock()()
	cl := s.Clusters[clusterID.Key()]
	if cl == nil {
		return fmt.Errorf("no cluster %s", clusterID)
	}
	p, n := cl.findNode(nodeName)
	if n == nil {
		return fmt.Errorf("cluster %s has no node %q", clusterID.Name(), nodeName)
	}
	old := n.Addrs
	// taken before the old ones are released, so that they differ
	if f := s.nodes.giveAddresses(cl, p, n); f != nil {
		return fmt.Errorf("%s: %s", f.Code, f.Message)
	}
	s.network.Release(p.subnet, old...)
	n.created = time.Now()
	if f := s.nodes.refreshMachines(cl, p); f != nil {
		return fmt.Errorf("%s: %s", f.Code, f.Message)
	}
	cl.provider.recreated(n)
	cl.tellWatchers()
	return nil
}

// familiesOf reports which address families a cluster's nodes have.
func familiesOf(podCIDRs []netip.Prefix) (v4, v6 bool) {
	for _, p := range podCIDRs {
		v4 = v4 || p.Addr().Is4()
		v6 = v6 || p.Addr().Is6()
	}
	return v4 || !v6, v6
}

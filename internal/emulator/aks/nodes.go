package aks

import (
	"fmt"
	"iter"
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
	ID        arm.ID           `json:"id"`
	Digits    string           `json:"digits"` // eight, in the names that AKS makes
	Location  string           `json:"location"`
	NodeGroup arm.ID           `json:"nodeGroup"`
	Mode      networkMode      `json:"mode"`
	PodCIDRs  []netip.Prefix   `json:"podCIDRs,omitempty"`
	Table     arm.ID           `json:"table,omitempty"` // of its cloud provider; kubenet only
	Who       kernel.Principal `json:"who"`             // its identity
	Pools     []*pool          `json:"pools"`
	provider  *cloudProvider
	Paused    bool `json:"paused,omitempty"`  // the cloud provider writes nothing
	Leaving   bool `json:"leaving,omitempty"` // it changes from kubenet to overlay
	ingress   bool // its ingress add-on follows its pods
	// Services are those of type LoadBalancer. Addresses has the public IP addresses that its load
	// balancer uses. written has the load balancers as last written, by name.
	Services  []Service `json:"services,omitempty"`
	Addresses []arm.ID  `json:"addresses,omitempty"`
	written   map[string]string
	// news is closed when its nodes change. It is nil while no watch waits for that.
	news chan struct{}

	// takenPodCIDRs has the pod CIDRs of nodes. NextPodCIDR counts the node prefixes that were
	// assigned from each pod CIDR, because Kubernetes uses all others before it assigns one again.
	takenPodCIDRs map[netip.Prefix]bool
	NextPodCIDR   []int `json:"nextPodCIDR,omitempty"`
}

type pool struct {
	Name      string `json:"name"`
	Subnet    arm.ID `json:"subnet"`
	PodSubnet arm.ID `json:"podSubnet,omitempty"`
	Blocks    bool   `json:"blocks,omitempty"` // pods have whole /28 blocks of it
	MaxPods   int    `json:"maxPods"`
	VMSize    string `json:"vmSize"`
	ScaleSet  arm.ID `json:"scaleSet"` // there is none in a pool of single machines
	Kind      string `json:"kind,omitempty"`
	made      bool   // what its nodes run on is stored
	Doing     string `json:"doing,omitempty"` // the state it is in while its cluster is busy
	// Until is the end of an operation on this pool alone. Operations on other pools run in
	// parallel.
	Until time.Time `json:"until,omitzero"`
	Next  int       `json:"next"` // instance ID
	Nodes []*Node   `json:"nodes"`
}

type Node struct {
	Name     string `json:"name"`
	Instance int    `json:"instance"`
	// Addrs are the node's addresses, and its pods' if they are in the same subnet. Pods are its
	// pods' addresses in the pool's pod subnet.
	Addrs    []netip.Addr   `json:"addrs"`
	Pods     []netip.Addr   `json:"pods,omitempty"`
	PodCIDRs []netip.Prefix `json:"podCIDRs,omitempty"` // none when the pod CIDR is used up
	Created  time.Time      `json:"created,omitzero"`   // its Kubernetes object
	Overlay  bool           `json:"overlay,omitempty"`  // it has left kubenet, or never used it
	routesSeen
}

func (cl *cluster) OwnSubnet() arm.ID {
	return cl.inNodeGroup(arm.TypeVNet, "aks-vnet-"+cl.Digits).Child("subnets", "aks-subnet")
}

func (cl *cluster) Pool(name string) *pool {
	for _, p := range cl.Pools {
		if strings.EqualFold(p.Name, name) {
			return p
		}
	}
	return nil
}

// nodes returns the nodes of all pools.
func (cl *cluster) nodes() iter.Seq2[*pool, *Node] {
	return func(yield func(*pool, *Node) bool) {
		for _, p := range cl.Pools {
			for _, n := range p.Nodes {
				if !yield(p, n) {
					return
				}
			}
		}
	}
}

// nodes are what the clusters' pools run on: instances of scale sets or separate machines, with
// their addresses.
type nodes struct{ *AKS }

// setPool sets a pool's number of nodes. A new pool is created first.
func (s *nodes) setPool(cl *cluster, profile kernel.Object, doing string) *kernel.Failure {
	name := kernel.Text(profile, "name")
	p := cl.Pool(name)
	if p == nil {
		p = &pool{Name: name, Subnet: arm.ID(kernel.Text(profile, "vnetSubnetID")),
			ScaleSet: cl.inNodeGroup(arm.TypeScaleSet, "aks-"+name+"-"+cl.Digits+"-vmss"),
			Kind:     kernel.Text(profile, "type")}
		if p.Subnet == "" {
			p.Subnet = cl.OwnSubnet()
		}
		cl.Pools = append(cl.Pools, p)
		if !p.single() {
			s.scaleSets[p.ScaleSet.Key()] = poolOf{cl, p}
		}
	}
	p.PodSubnet, p.Blocks = arm.ID(kernel.Text(profile, "podSubnetID")), kernel.Text(profile,
		"podIPAllocationMode") == "StaticBlock"
	p.MaxPods, p.VMSize, p.Doing = kernel.NumberOf(profile, "maxPods"), kernel.Text(profile,
		"vmSize"), doing
	count, _ := countOf(profile) // settlePool has checked it
	for before := len(p.Nodes); len(p.Nodes) < count; {
		if f := s.addNode(cl, p); f != nil { // all nodes or none
			s.shrink(cl, p, before)
			if before == 0 && !p.made {
				s.removePool(cl, p)
			}
			return f
		}
	}
	s.shrink(cl, p, count)
	return s.storeScaleSet(cl, p)
}

// shrink removes the last nodes of a pool that has more than count, until count are left.
func (s *nodes) shrink(cl *cluster, p *pool, count int) {
	for len(p.Nodes) > count {
		s.removeNode(cl, p, p.Nodes[len(p.Nodes)-1])
	}
}

// poolOf is a pool and its cluster.
type poolOf struct {
	cluster *cluster
	pool    *pool
}

// addNode adds an instance with its addresses and pod CIDRs.
func (s *nodes) addNode(cl *cluster, p *pool) *kernel.Failure {
	n := &Node{Instance: p.Next, Name: p.nodeName(p.Next)}
	if f := s.giveAddresses(cl, p, n); f != nil {
		return f
	}
	if f := s.givePodAddresses(p, n); f != nil {
		s.network.Addresses.Release(p.Subnet, n.Addrs...)
		return f
	}
	p.Next++
	n.PodCIDRs, n.Created = cl.givePodCIDRs(), time.Now()
	n.Overlay = cl.Mode == modeOverlay
	p.Nodes = append(p.Nodes, n)
	return nil
}

// giveAddresses takes one address of each of the cluster's families from the pool's subnet. With
// Azure CNI in the node subnet it takes one for each possible pod, too.
func (s *nodes) giveAddresses(cl *cluster, p *pool, n *Node) *kernel.Failure {
	subnet := s.kernel.Store.Get(p.Subnet)
	if subnet == nil {
		return kernel.Bad("SubnetNotFound",
			"The subnet %s of pool %s was not found.", p.Subnet, p.Name)
	}
	each := 1
	if cl.Mode == modeVNet && p.PodSubnet == "" {
		each += p.MaxPods
	}
	v4, v6 := familiesOf(cl.PodCIDRs)
	var addrs []netip.Addr
	for _, prefix := range network.PrefixesOf(subnet.Body) {
		if prefix.Addr().Is4() && !v4 || prefix.Addr().Is6() && !v6 {
			continue
		}
		for range each {
			addr := s.network.Addresses.Allocate(p.Subnet, prefix, p.configuration(n, len(addrs)))
			if !addr.IsValid() {
				s.network.Addresses.Release(p.Subnet, addrs...)
				return subnetIsFull(p.Subnet, prefix, each)
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
	return kernel.Bad("SubnetIsFull", "Subnet %s with address prefix %s does not have enough "+
		"capacity for %d IP addresses.", subnet.Name(), prefix, wanted)
}

// configuration returns the ID of the i-th IP configuration of a node.
func (p *pool) configuration(n *Node, i int) arm.ID {
	return p.nic(n).Child("ipConfigurations", "ipconfig"+strconv.Itoa(i+1))
}

func (s *nodes) removeNode(cl *cluster, p *pool, n *Node) {
	s.network.Addresses.Release(p.Subnet, n.Addrs...)
	if len(n.Pods) > 0 {
		s.network.Addresses.Release(p.PodSubnet, n.Pods...)
	}
	cl.freePodCIDRs(n)
	p.Nodes = slices.DeleteFunc(p.Nodes, func(have *Node) bool { return have == n })
}

func (s *nodes) removePool(cl *cluster, p *pool) {
	s.shrink(cl, p, 0)
	if p.single() {
		s.dropMachines(p, nil)
		s.kernel.Store.Remove(p.availabilitySet())
	}
	s.kernel.Store.Remove(p.ScaleSet)
	delete(s.scaleSets, p.ScaleSet.Key())
	cl.Pools = slices.DeleteFunc(cl.Pools, func(have *pool) bool { return have == p })
}

// givePodCIDRs assigns the next free node prefix of each pod CIDR.
func (cl *cluster) givePodCIDRs() []netip.Prefix {
	// unset before the first assignment, which comes late if pods had other addresses before
	if len(cl.NextPodCIDR) != len(cl.PodCIDRs) || cl.takenPodCIDRs == nil {
		cl.NextPodCIDR, cl.takenPodCIDRs = make([]int, len(cl.PodCIDRs)), map[netip.Prefix]bool{}
	}
	var out []netip.Prefix
	for i, cidr := range cl.PodCIDRs {
		bits := inventory.NodeMask(cidr)
		total := 1 << min(bits-cidr.Bits(), 16)
		for range total {
			p := network.NthPrefix(cidr, bits, cl.NextPodCIDR[i]%total)
			cl.NextPodCIDR[i]++
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
	if r := s.kernel.Store.Get(cl.ID); r != nil {
		s.kernel.Store.Changed(r)
	}
	s.kernel.Store.Touch(cl.inNodeGroup(arm.TypeLoadBalancer, publicBalancer))
	if cl.Table != "" {
		cl.provider.wake()
	}
	s.ingress.start(cl)
	if wrote := s.kernel.Opts.Wrote; wrote != nil {
		wrote(cl.ID)
	}
}

func (cl *cluster) findNode(name string) (*pool, *Node) {
	for p, n := range cl.nodes() {
		if strings.EqualFold(n.Name, name) {
			return p, n
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
	pools := kernel.ListAt(r.Properties(), "agentPoolProfiles")
	at := kernel.IndexOf(pools, poolName)
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
	properties := r.Properties()
	f := s.checks.sizes(r.ID, kernel.Object{"networkProfile": properties["networkProfile"],
		"agentPoolProfiles": kernel.Items(pools)})
	if f == nil {
		cl.clearPoolStates()
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

// Readdress replaces a node by one that has the same name and another address, as a reimage can.
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
	// taken before the old ones are released, so that the new ones differ
	if f := s.nodes.giveAddresses(cl, p, n); f != nil {
		return fmt.Errorf("%s: %s", f.Code, f.Message)
	}
	s.network.Addresses.Release(p.Subnet, old...)
	n.Created = time.Now()
	if p.single() {
		if f := s.nodes.storeMachines(cl, p); f != nil {
			return fmt.Errorf("%s: %s", f.Code, f.Message)
		}
	}
	cl.provider.noteRecreated(n)
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

package aks

import (
	"net/netip"
	"strconv"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// podBatch is how many addresses of a pod subnet a node takes at once, and the size of a static
// block: a /28.
const podBatch = 16

// givePodAddresses takes a node's first batch from its pool's pod subnet. With static blocks it
// takes all the blocks that the node will ever need: ceil((maxPods+1)/16).
func (s *nodes) givePodAddresses(p *pool, n *Node) *kernel.Failure {
	subnet := s.kernel.Store.Get(p.PodSubnet)
	if subnet == nil {
		return nil
	}
	prefix := network.PrefixesOf(subnet.Body)[0]
	var took []netip.Addr
	batches := 1
	if p.Blocks {
		batches = (p.MaxPods + podBatch) / podBatch
	}
	for batch := range batches {
		// How Azure shows these on the subnet is not documented [U]. Here they are IP
		// configurations of the node.
		holder := p.nic(n).Child("ipConfigurations", "pods"+strconv.Itoa(batch+1))
		var addrs []netip.Addr
		if p.Blocks {
			addrs = s.network.Addresses.AllocateBlock(p.PodSubnet, prefix, holder)
		} else {
			addrs = s.network.Addresses.AllocateMany(p.PodSubnet, prefix, holder, podBatch)
		}
		took = append(took, addrs...)
		if addrs == nil {
			s.network.Addresses.Release(p.PodSubnet, took...)
			return subnetIsFull(p.PodSubnet, prefix, podBatch*batches)
		}
	}
	n.Pods = took
	return nil
}

package emulator

import (
	"net/netip"
	"strconv"
)

// podBatch is how many addresses of a pod subnet a node takes at once, and how many a static block
// has: a /28.
const podBatch = 16

// givePodAddresses takes a node's first batch of its pool's pod subnet, or with static blocks all
// the blocks it will ever need: ceil((maxPods+1)/16).
func (s *aks) givePodAddresses(p *pool, n *node) *failure {
	subnet := s.kernel.store.get(p.podSubnet)
	if subnet == nil {
		return nil
	}
	prefix := prefixesOf(subnet.body)[0]
	var took []netip.Addr
	batches := 1
	if p.blocks {
		batches = (p.maxPods + podBatch) / podBatch
	}
	for batch := range batches {
		// How Azure shows these on the subnet is not documented [U]; here as IP configurations of
		// the node.
		holder := p.nic(n).Child("ipConfigurations", "pods"+strconv.Itoa(batch+1))
		var addrs []netip.Addr
		if p.blocks {
			addrs = s.network.allocateBlock(p.podSubnet, prefix, holder)
		} else {
			addrs = s.network.allocateMany(p.podSubnet, prefix, holder, podBatch)
		}
		took = append(took, addrs...)
		if addrs == nil {
			s.network.release(p.podSubnet, took...)
			return subnetIsFull(p.podSubnet, prefix, podBatch*batches)
		}
	}
	n.pods = took
	return nil
}

package emulator

import (
	"net/netip"
	"strconv"

	"routekeeper.dev/routekeeper/internal/arm"
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
			addrs = s.kernel.store.allocateBlock(p.podSubnet, prefix, holder)
		} else {
			addrs = s.kernel.store.allocateMany(p.podSubnet, prefix, holder, podBatch)
		}
		took = append(took, addrs...)
		if addrs == nil {
			s.kernel.store.release(p.podSubnet, took...)
			return subnetIsFull(p.podSubnet, prefix, podBatch*batches)
		}
	}
	n.pods = took
	return nil
}

// allocateMany takes that many addresses, or none.
func (s *store) allocateMany(subnet arm.ID, prefix netip.Prefix, holder arm.ID,
	count int) []netip.Addr {
	var out []netip.Addr
	for range count {
		addr := s.allocate(subnet, prefix, holder)
		if !addr.IsValid() {
			s.release(subnet, out...)
			return nil
		}
		out = append(out, addr)
	}
	return out
}

// allocateBlock takes the lowest free /28 of a prefix, or nothing. The first and the last one hold
// reserved addresses.
func (s *store) allocateBlock(subnet arm.ID, prefix netip.Prefix, holder arm.ID) []netip.Addr {
	used := s.addressesOf(subnet)
	for i := 1; i < 1<<max(0, 28-prefix.Bits())-1; i++ {
		var block []netip.Addr
		for a := nthPrefix(prefix, 28, i).Addr(); len(block) < podBatch; a = a.Next() {
			if _, taken := used.by[a]; taken {
				block = nil
				break
			}
			block = append(block, a)
		}
		if block == nil {
			continue
		}
		for _, a := range block {
			used.by[a] = holder
		}
		s.touchAround(subnet)
		return block
	}
	return nil
}

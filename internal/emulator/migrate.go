package emulator

import (
	"net/http"
	"net/netip"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// leavable refuses to take a kubenet cluster to overlay while a subnet that is not its nodes' is
// associated with its table (azure-aks-docs#334; with which code is not known [U]).
func (s *aks) leavable(cl *cluster) *failure {
	if cl.mode != modeKubenet {
		return nil
	}
	own := map[string]bool{}
	for _, p := range cl.pools {
		own[p.subnet.Key()] = true
	}
	for key, id := range s.network.linked[cl.table.Key()] {
		if !own[key] {
			return fail(http.StatusBadRequest, "CustomRouteTableInvalidUpdateAttempt",
				"Cluster %s cannot be updated to Azure CNI Overlay: subnet %s, which is not a "+
					"node subnet of it, is associated with its route table %s.", cl.id.Name(), id,
				cl.table)
		}
	}
	return nil
}

// migrate takes a cluster to overlay. Nodes keep their part of the pod CIDR, or get one. Where it
// was kubenet, the routes go at the end of the operation: the managed table is deleted, a brought
// one loses the pod routes.
func (s *aks) migrate(cl *cluster, r *resource, to networkMode) {
	from := cl.mode
	cl.mode, cl.leaving = to, from == modeKubenet
	if from == modeVNet {
		cl.podCIDRs = validPrefixes(list(objectAt(r.body, "properties", "networkProfile"),
			"podCidrs"))
		for _, p := range cl.pools {
			for _, n := range p.nodes {
				if len(n.addrs) > 1 { // pods no longer have theirs in the node's subnet
					s.network.release(p.subnet, n.addrs[1:]...)
					n.addrs = n.addrs[:1]
				}
				n.podCIDRs = cl.givePodCIDRs()
			}
		}
		return
	}
	s.kernel.at(laterOf(r.busyUntil, time.Now()), func() {
		if s.clusters[cl.id.Key()] == cl {
			s.leaveTable(cl)
		}
	})
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// leaveTable takes a cluster's pod routes away.
func (s *aks) leaveTable(cl *cluster) {
	cl.provider.stop()
	id := cl.table
	cl.table, cl.leaving = "", false
	s.nodesChanged(cl) // to be kept
	table := s.kernel.store.get(id)
	switch {
	case table == nil:
	case id.Group().Equal(cl.nodeGroup):
		s.disassociate(cl, id)
		f := s.kernel.removeResource(table)
		s.kernel.record(cl.call(http.MethodDelete, id, nil), id, "delete", f)
	default:
		body := clone(table.body)
		kept := []any{}
		for _, route := range listAt(objectAt(body, "properties"), "routes") {
			prefix, err := netip.ParsePrefix(text(objectAt(route, "properties"), "addressPrefix"))
			if err != nil || !cl.provider.responsible(prefix) {
				kept = append(kept, route)
			}
		}
		objectAt(body, "properties")["routes"] = kept
		_ = s.aksPut(cl, id, body) // it only loses routes
	}
}

// disassociate takes a table off all subnets.
func (s *aks) disassociate(cl *cluster, table arm.ID) {
	for _, id := range s.network.linked[table.Key()] {
		if subnet := s.kernel.store.get(id); subnet != nil {
			body := clone(subnet.body)
			delete(objectAt(body, "properties"), "routeTable")
			_ = s.aksWrite(cl.call(http.MethodPut, id, body), id, body) // it only loses a link
		}
	}
}

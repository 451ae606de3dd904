package aks

import (
	"net/http"
	"net/netip"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// migrations moves clusters off kubenet.
type migrations struct{ *AKS }

// checkMigration refuses the migration of a kubenet cluster to overlay while a subnet other than
// its node subnets is associated with its table (azure-aks-docs#334; the code is not known [U]).
func (s migrations) checkMigration(cl *cluster) *kernel.Failure {
	if cl.Mode != modeKubenet {
		return nil
	}
	own := map[string]bool{}
	for _, p := range cl.Pools {
		own[p.Subnet.Key()] = true
	}
	for key, id := range s.network.Linked[cl.Table.Key()] {
		if !own[key] {
			return kernel.Bad("CustomRouteTableInvalidUpdateAttempt", "Cluster %s cannot be "+
				"updated to Azure CNI Overlay: subnet %s, which is not a node subnet of it, "+
				"is associated with its route table %s.", cl.ID.Name(), id, cl.Table)
		}
	}
	return nil
}

// migrate changes a cluster to overlay. Nodes keep their part of the pod CIDR (AKS#5120), or get
// one. From kubenet, the nodes of all pools move during the operation, in each pool as many at once
// as its maxSurge (update-azure-cni). The routes stay until the operation ends: then the managed
// table is deleted with them, and an existing table loses only the pod routes.
func (s migrations) migrate(cl *cluster, r *kernel.Resource, to networkMode) {
	from := cl.Mode
	cl.Mode, cl.Leaving = to, from == modeKubenet
	if from == modeVNet {
		cl.PodCIDRs = arm.ParsePrefixes(
			kernel.List(r.Body, "properties", "networkProfile", "podCidrs"))
		for p, n := range cl.nodes() {
			if len(n.Addrs) > 1 { // pods no longer have addresses in the node's subnet
				s.network.Addresses.Release(p.Subnet, n.Addrs[1:]...)
				n.Addrs = n.Addrs[:1]
			}
			n.PodCIDRs, n.Overlay = cl.givePodCIDRs(), true
		}
		return
	}
	s.kernel.At(r.BusyUntil, func() {
		if s.Clusters[cl.ID.Key()] == cl {
			s.leaveTable(cl)
		}
	})
}

// leaveTable ends the use of a cluster's table: no cloud provider, and no pod routes.
func (s migrations) leaveTable(cl *cluster) {
	cl.provider.stop()
	id := cl.Table
	cl.Table, cl.Leaving = "", false
	for _, n := range cl.nodes() {
		n.Overlay = true
	}
	s.nodes.nodesChanged(cl) // so that the new state is stored
	table := s.kernel.Store.Get(id)
	switch {
	case table == nil:
	case id.Group().Equal(cl.NodeGroup):
		s.disassociate(cl, id)
		f := s.kernel.RemoveResource(table)
		s.kernel.Record(cl.call(http.MethodDelete, id, nil), id, "delete", f)
	default:
		body := kernel.Clone(table.Body)
		kept := []any{}
		for _, route := range kernel.ListAt(body, "properties", "routes") {
			prefix, err := netip.ParsePrefix(kernel.Text(route, "properties", "addressPrefix"))
			if err != nil || !cl.provider.responsible(prefix) {
				kept = append(kept, route)
			}
		}
		kernel.ObjectAt(body, "properties")["routes"] = kept
		_ = s.aksPut(cl, id, body) // it only loses routes
	}
}

// disassociate removes a table from all subnets.
func (s migrations) disassociate(cl *cluster, table arm.ID) {
	for _, id := range s.network.Linked[table.Key()] {
		if subnet := s.kernel.Store.Get(id); subnet != nil {
			body := kernel.Clone(subnet.Body)
			delete(kernel.ObjectAt(body, "properties"), "routeTable")
			_ = s.aksWrite(cl.call(http.MethodPut, id, body), id, body) // it only loses a link
		}
	}
}

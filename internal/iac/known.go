package iac

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Named returns a carrier that the user names: by ID, by name, or by network and name.
func Named(name, why string) Carrier {
	if id, err := arm.ParseID(name); err == nil {
		return Carrier{Place: Place{ID: id, Name: id.Name(), VNet: id.Parent().Name()}, Why: why,
			Named: true}
	}
	vnet, subnet, both := strings.Cut(name, "/")
	if !both {
		vnet, subnet = "", name
	}
	return Carrier{Place: Place{Name: subnet, VNet: vnet}, Why: why, Named: true}
}

// nodesNeed says why the subnets of a cluster's nodes need their table, or returns "". Pods of
// kubenet need it, and with userDefinedRouting the nodes' egress does. With Azure CNI, overlay or
// not, pods need no table. A plugin in braces is not known.
func nodesNeed(cluster, plugin, outbound string) string {
	nodes := "nodes of the cluster " + cluster
	switch {
	case strings.EqualFold(plugin, "kubenet"):
		return "nodes of the kubenet cluster " + cluster + " are in it"
	case strings.EqualFold(outbound, "userDefinedRouting"):
		return nodes + " use its table for egress (userDefinedRouting)"
	case strings.HasPrefix(plugin, "{"):
		return nodes + " are in it (network plugin unknown)"
	}
	return ""
}

// Observe adds what the real network shows: node subnets of kubenet clusters and of clusters that
// use the table for egress, and tables that hold routes to pods.
func (k *Known) Observe(s *inventory.Snapshot) {
	k.Live = s
	if k.Tables == nil {
		k.Tables = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Clusters)) {
		c := s.Clusters[key]
		why := nodesNeed(c.ID.Name(), c.Plugin, c.Outbound)
		if why == "" {
			continue
		}
		for _, id := range s.NodeSubnetIDs(c) {
			k.Carriers = append(k.Carriers, Carrier{Place: Named(string(id), why).Place, Why: why})
		}
		nodes := s.NodePrefixes(c)
		for key, table := range s.Tables {
			for _, route := range table.Routes() {
				// Clusters can have the same pod CIDR. Then the node's address distinguishes them.
				known := k.Tables[key] != "" && !inventory.Within(nodes, route.Hop)
				if route.Hop.IsValid() && route.Prefix.IsValid() && !known &&
					slices.ContainsFunc(c.PodCIDRs, func(cidr netip.Prefix) bool {
						return cidr.Bits() <= route.Prefix.Bits() &&
							cidr.Contains(route.Prefix.Addr())
					}) {
					k.Tables[key] = "its table " + table.ID.Name() + " holds routes to pods of " +
						c.ID.Name()
				}
			}
		}
	}
}

// Subscriptions returns the subscriptions of the resources in the files, sorted.
func (r *Reading) Subscriptions() []arm.ID {
	var ids []arm.ID
	add := func(p Place) {
		if s := p.ID.Subscription(); s != "" && !partly(arm.ID(s)) {
			ids = append(ids, arm.SubscriptionID(s))
		}
	}
	for _, e := range slices.Concat(r.Effects, r.Open) {
		add(e.What)
	}
	for _, c := range r.Carriers {
		add(c.Place)
	}
	return inventory.SortIDs(ids)
}

// Shows reports whether the files contain a subnet, and whether they contain any.
func (r *Reading) Shows(c Carrier) (there, any bool) {
	see := func(p Place) {
		any = true
		there = there || c.isSubnet(p)
	}
	for _, e := range r.Effects {
		if e.What.VNet != "" {
			see(e.What)
		}
	}
	for _, other := range r.Carriers {
		see(other.Place)
	}
	for _, p := range r.Subnets {
		see(p)
	}
	for _, s := range []*inventory.Snapshot{r.Before, r.After} {
		if s == nil {
			continue
		}
		for _, subnet := range s.Subnets {
			see(Place{ID: subnet.ID, Name: subnet.ID.Name(), VNet: subnet.ID.Parent().Name()})
		}
	}
	return there, any
}

package iac

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
)

// use is a subnet with the cluster, pool or gateway that is in it.
type use struct {
	subnet arm.ID
	why    string // why it needs its table, or ""
	by     *tfResource
	leaves bool // the resource that uses the subnet is destroyed
}

// uses returns all uses: of resources that stay, that are made, and that are destroyed.
func (p *tfPlan) uses() []use {
	stays := slices.DeleteFunc(slices.Clone(p.users), func(r *tfResource) bool {
		return p.byAddress[r.Address].changes
	})
	var goes []*tfResource
	for _, r := range p.changes {
		switch {
		case r.deletes():
			if u := r.user(r.before()); u != nil {
				goes = append(goes, u)
			}
		default:
			// an unknown subnet is the one from before, and what the code refers to
			for _, v := range []*tfValues{r.expected.orEmpty(), r.after()} {
				if u := r.user(v); u != nil {
					stays = append(stays, u)
				}
			}
		}
	}
	all := slices.Concat(stays, goes)
	var out []use
	for i, r := range all {
		add := func(id arm.ID, attribute, why string) {
			if id == "" {
				if s := p.refers(r, attribute, tfSubnet); s != nil {
					id = s.id
				}
			}
			if id != "" {
				out = append(out, use{subnet: id, why: why, by: r, leaves: i >= len(stays)})
			}
		}
		switch r.Type {
		case tfCluster:
			for _, pool := range r.Values.DefaultPool {
				add(pool.SubnetID, "vnet_subnet_id", needs(r))
			}
		case tfPool:
			add(r.Values.PoolSubnet, "vnet_subnet_id", needs(p.clusterOf(r, all)))
		case tfGateway:
			for _, ip := range r.Values.GatewayIPs {
				add(ip.SubnetID, "subnet_id", "the gateway "+r.Address+
					" is in it and must reach pods")
			}
		}
	}
	return out
}

// user returns a resource as a cluster, a pool or a gateway, with some of its values. Nil for all
// others.
func (r *tfResource) user(v *tfValues) *tfResource {
	u := &tfResource{Address: r.Address, Module: r.Module, Mode: r.Mode, Type: r.Type, Name: r.Name,
		Values: v}
	switch r.Type {
	case tfCluster, tfPool, tfGateway:
		return u
	case tfAzapi:
		return u.ofAzapi()
	}
	return nil
}

// clusterOf finds a pool's cluster, nil if the file does not show it.
func (p *tfPlan) clusterOf(pool *tfResource, all []*tfResource) *tfResource {
	var refers *knownResource
	if pool.Values.ClusterID == "" {
		refers = p.refers(pool, "kubernetes_cluster_id", tfCluster)
	}
	for _, r := range all {
		if r.Type == tfCluster &&
			(pool.Values.ClusterID != "" && r.Values.ID.Equal(pool.Values.ClusterID) ||
				refers != nil && refers.address == r.Address) {
			return r
		}
	}
	return nil
}

// needs says why the subnets of a cluster need their table, "" if they do not.
func needs(cluster *tfResource) string {
	if cluster == nil {
		return ""
	}
	for _, profile := range cluster.Values.Profile {
		if why := nodesNeed(cluster.Address, profile.Plugin, profile.Outbound); why != "" {
			return why
		}
	}
	return ""
}

// carriers returns the subnets whose users stay and need their table.
func (p *tfPlan) carriers(uses []use) []Carrier {
	var out []Carrier
	seen := map[string]bool{}
	for _, u := range uses {
		if u.why != "" && !u.leaves && !seen[u.subnet.Key()] {
			seen[u.subnet.Key()] = true
			out = append(out, Carrier{Place: p.subnet(u.subnet, u.by.place()), Why: u.why})
		}
	}
	return out
}

// abandoned returns the subnets, by key, that all known users leave. With each it returns one of
// the users: the cluster, if there is one.
func abandoned(uses []use) map[string]*tfResource {
	out := map[string]*tfResource{}
	for _, u := range uses {
		if key := u.subnet.Key(); u.leaves && (out[key] == nil || out[key].Type != tfCluster) {
			out[key] = u.by
		}
	}
	for _, u := range uses {
		if !u.leaves {
			delete(out, u.subnet.Key())
		}
	}
	return out
}

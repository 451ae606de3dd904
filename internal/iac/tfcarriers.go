package iac

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/network"
)

// carriers are the subnets that clusters, their pools and gateways of the file need routes in: of kubenet clusters; of clusters that leave through
// their table, whatever their plugin; and of Application Gateways. With Azure CNI, overlay or not, pods need no table.
func (p *tfPlan) carriers() []Carrier {
	users := slices.DeleteFunc(slices.Clone(p.users), func(r *tfResource) bool { return p.byAddress[r.Address].changes })
	for _, r := range p.changes {
		if (r.Type == tfCluster || r.Type == tfPool || r.Type == tfGateway) && !r.deletes() {
			r.Values = r.after()
			users = append(users, r)
		}
	}
	var out []Carrier
	seen := map[string]bool{}
	add := func(r *tfResource, id network.ID, attribute, why string) {
		if id == "" {
			if s := p.refers(r, attribute, tfSubnet); s != nil {
				id = s.id
			}
		}
		if id != "" && !seen[id.Key()] {
			seen[id.Key()] = true
			out = append(out, Carrier{Place: p.subnet(id, r.place()), Why: why})
		}
	}
	clusters := map[string]string{}  // why, by ID
	byAddress := map[string]string{} // and by address
	for _, r := range users {
		if r.Type != tfCluster {
			continue
		}
		why := needs(r.Values)
		clusters[r.Values.ID.Key()], byAddress[r.Address] = why, why
		for _, pool := range r.Values.DefaultPool {
			if why != "" {
				add(r, pool.SubnetID, "vnet_subnet_id", strings.ReplaceAll(why, "%", r.Address))
			}
		}
	}
	for _, r := range users {
		switch r.Type {
		case tfPool:
			why, address := clusters[r.Values.ClusterID.Key()], string(r.Values.ClusterID.Name())
			if r.Values.ClusterID == "" {
				if s := p.refers(r, "kubernetes_cluster_id", tfCluster); s != nil {
					why, address = byAddress[s.address], s.address
				}
			}
			if why != "" {
				add(r, r.Values.PoolSubnet, "vnet_subnet_id", strings.ReplaceAll(why, "%", address))
			}
		case tfGateway:
			for _, ip := range r.Values.GatewayIPs {
				add(r, ip.SubnetID, "subnet_id", "the gateway "+r.Address+" is in it, and has to reach pods")
			}
		}
	}
	return out
}

// needs says why the subnets of a cluster need their table, with % for the cluster; "" where they do not.
func needs(v *tfValues) string {
	for _, profile := range v.Profile {
		switch {
		case strings.EqualFold(profile.Plugin, "kubenet"):
			return "nodes of the kubenet cluster % are in it"
		case strings.EqualFold(profile.Outbound, "userDefinedRouting"):
			return "nodes of the cluster % leave through its table (userDefinedRouting)"
		}
	}
	return ""
}

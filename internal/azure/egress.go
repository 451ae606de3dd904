package azure

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const extensionVersion = "2023-05-01"

// ReadEgress reads the Azure Firewalls to which default routes lead: with their policies, rules and
// IP groups, and the extensions of the clusters whose nodes use them. It reads the surveyed scopes,
// and the resource groups of the networks that have the next hops, such as a hub in another
// subscription: a firewall is in the resource group of its network. What cannot be read is noted in
// Unread.
func ReadEgress(ctx context.Context, c *Client, s *inventory.Snapshot) error {
	r := egressReader{c, s, s.WithEgress()}
	hops := r.hops()
	if len(hops) == 0 {
		return nil
	}
	named := maps.Clone(s.Firewalls)
	for _, scope := range append(r.hubs(hops), s.Listed...) {
		if err := r.list(ctx, scope+"/providers/"+arm.TypeFirewall, networkVersion); err != nil {
			return err
		}
	}
	var groups []arm.ID
	for key, f := range s.Firewalls {
		used := slices.ContainsFunc(f.Addresses, func(a netip.Addr) bool { return hops[a] })
		if !used {
			if named[key] == nil {
				delete(s.Firewalls, key)
			}
			continue
		}
		if err := r.policies(ctx, f); err != nil {
			return err
		}
		rules, _ := r.e.RulesOf(f)
		for _, rule := range rules {
			groups = append(groups, rule.SourceGroups...)
			groups = append(groups, rule.DestinationGroups...)
		}
	}
	for _, id := range inventory.SortIDs(groups) {
		if err := r.get(ctx, arm.Clean(id)); err != nil {
			return err
		}
	}
	return r.extensions(ctx)
}

type egressReader struct {
	c *Client
	s *inventory.Snapshot
	e *inventory.Egress
}

// hops returns the appliances to which default routes lead.
func (r egressReader) hops() map[netip.Addr]bool {
	hops := map[netip.Addr]bool{}
	for _, table := range r.s.Tables {
		for _, route := range table.Default() {
			if route.HopType == inventory.HopAppliance {
				hops[route.Hop] = true
			}
		}
	}
	return hops
}

// hubs returns the resource groups of networks that have one of the addresses and are in no
// surveyed scope.
func (r egressReader) hubs(hops map[netip.Addr]bool) (groups []arm.ID) {
	for _, vnet := range r.s.VNets {
		group := vnet.ID.Group()
		listed := slices.ContainsFunc(r.s.Listed, func(scope arm.ID) bool {
			return scope.Equal(group) || scope.Equal(group.Parent())
		})
		for hop := range hops {
			if !listed && inventory.Within(vnet.Prefixes, hop) {
				groups = append(groups, group)
			}
		}
	}
	return inventory.SortIDs(groups)
}

// policies reads the policy of a firewall and its parents, with their rules.
func (r egressReader) policies(ctx context.Context, f *inventory.Firewall) error {
	read := 0
	for {
		policies := r.e.PoliciesOf(f)
		if read == len(policies) {
			return nil
		}
		id := policies[read]
		read++
		if r.e.Policies[id.Key()] != nil { // of another firewall
			continue
		}
		if err := r.get(ctx, id); err != nil {
			return err
		}
		if err := r.list(ctx, inventory.RuleGroupsOf(id), networkVersion); err != nil {
			return err
		}
	}
}

// extensions lists the extensions of the clusters whose nodes have a default route to an appliance.
func (r egressReader) extensions(ctx context.Context) error {
	for _, cluster := range r.s.Clusters {
		uses := slices.ContainsFunc(r.s.NodeSubnetIDs(cluster), func(id arm.ID) bool {
			subnet := r.s.Subnet(id)
			if subnet == nil || r.s.Table(subnet.RouteTable) == nil {
				return false
			}
			return slices.ContainsFunc(r.s.Table(subnet.RouteTable).Default(),
				func(route inventory.Route) bool {
					return route.HopType == inventory.HopAppliance
				})
		})
		if !uses {
			continue
		}
		list := inventory.ExtensionsIn(cluster.ID)
		if err := r.list(ctx, list, extensionVersion); err != nil {
			return err
		}
		if r.e.Unread[list.Key()] == "" {
			r.e.ExtensionsOf = append(r.e.ExtensionsOf, cluster.ID)
		}
	}
	r.e.ExtensionsOf = inventory.SortIDs(r.e.ExtensionsOf)
	return nil
}

// list reads a list into the snapshot.
func (r egressReader) list(ctx context.Context, list arm.ID, version string) error {
	err := r.c.listAll(ctx, r.c.address(list, "", version), func(raw json.RawMessage) bool {
		if err := r.s.Add(raw); err != nil {
			r.e.Unread[list.Key()] = named(raw, err).Error()
		}
		return true
	})
	return r.noted(list, err)
}

// get reads a document into the snapshot.
func (r egressReader) get(ctx context.Context, id arm.ID) error {
	answer, err := r.c.get(ctx, r.c.address(id, "", networkVersion))
	if err != nil {
		return r.noted(id, err)
	}
	if err := r.s.Add(answer.Body); err != nil {
		r.e.Unread[id.Key()] = err.Error()
	}
	return nil
}

// noted notes why something could not be read, and returns any other error.
func (r egressReader) noted(id arm.ID, err error) error {
	fault, fatal := asFault(err)
	if fault != nil {
		r.e.Unread[id.Key()] = fault.Error()
	}
	return fatal
}

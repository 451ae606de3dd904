package verdict

import (
	"fmt"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

// needed are the packets that a network security group must let pass between the nodes and pods of
// a cluster: all of them, and DNS, which everything else needs.
var needed = []trace.Packet{{}, {Protocol: "tcp"}, {Protocol: "udp", Port: 53}}

// lastOwn is the last priority of a rule that users write; Azure's default rules come after it.
const lastOwn = 4096

// Blocks returns the rules of a network security group that would drop packets between a subnet and
// the nodes, pods and guarded subnets of a cluster, a sentence each. Default rules do not count:
// Azure does not say whether its tag VirtualNetwork holds the pod CIDR.
func Blocks(s plan.Facts, config *v1alpha1.ClusterRoutes, subnet *inventory.Subnet,
	group *inventory.SecurityGroup) (rules []string) {
	cluster := s.Cluster(arm.ID(config.Spec.ClusterID))
	if cluster == nil {
		return nil
	}
	nodes := s.NodeSubnetIDs(cluster)
	hasPods := func(id arm.ID) bool { return slices.ContainsFunc(nodes, id.Equal) }
	others := slices.Concat(nodes, cluster.PodSubnets())
	for _, g := range config.Spec.Guard.Subnets {
		others = append(others, arm.ID(g.SubnetID))
	}
	outside := prefixesOf(s.Snapshot, others...)
	inside := slices.Clone(subnet.Prefixes)
	if !cluster.PodsInSubnets() {
		outside = append(outside, cluster.PodCIDRs...)
		if hasPods(subnet.ID) {
			inside = append(inside, cluster.PodCIDRs...)
		}
	}
	with := *subnet
	with.SecurityGroup = group.ID
	world := s.Snapshot.Fork()
	world.Subnets[with.ID.Key()] = &with
	world.SecurityGroups = map[string]*inventory.SecurityGroup{group.ID.Key(): group}
	filters := trace.FiltersOf(world, with.ID, nil)
	for _, from := range inside {
		for _, to := range outside {
			for _, inbound := range []bool{false, true} {
				rule := blocks(filters, group, from, to, inbound)
				if rule != "" && !slices.Contains(rules, rule) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules
}

// blocks says which rule drops packets between two prefixes, or returns "".
func blocks(filters *trace.Filters, group *inventory.SecurityGroup, inside, outside netip.Prefix,
	inbound bool) string {
	if inside.Addr().Is4() != outside.Addr().Is4() {
		return ""
	}
	for _, packet := range needed {
		packet.From = inventory.FirstUsable(inside)
		packet.To = inventory.FirstUsable(outside).Next() // another one in the same prefix
		if inbound {
			packet.From, packet.To = packet.To, packet.From
		}
		r := filters.Judge(group, packet, inbound)
		own := slices.ContainsFunc(group.Rules, func(rule inventory.SecurityRule) bool {
			return rule.Name == r.Rule && rule.Inbound == inbound && rule.Priority <= lastOwn
		})
		if r.Decision == trace.Denied && own {
			return fmt.Sprintf("%s, from %s to %s", r.Why, packet.From, packet.To)
		}
	}
	return ""
}

func prefixesOf(s *inventory.Snapshot, ids ...arm.ID) (prefixes []netip.Prefix) {
	for _, id := range inventory.SortIDs(ids) {
		if subnet := s.Subnet(id); subnet != nil {
			prefixes = append(prefixes, subnet.Prefixes...)
		}
	}
	return prefixes
}

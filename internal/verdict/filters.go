package verdict

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

// lastOwn is the last priority of a user's rule. Azure's default rules come after it.
const lastOwn = 4096

// Blocks returns the rules of a network security group that would drop packets between a subnet and
// the nodes, pods and guarded subnets of a cluster, with a sentence for each. Default rules do not
// count: Azure does not say whether its tag VirtualNetwork includes the pod CIDR.
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

// blocks says which rule drops packets between two prefixes, or returns "". It tries each rule that
// denies, with packets that the rule names: the first and the last address that it covers in each
// prefix, with its own protocol and ports. An earlier rule may allow them.
func blocks(filters *trace.Filters, group *inventory.SecurityGroup, inside, outside netip.Prefix,
	inbound bool) string {
	if inside.Addr().Is4() != outside.Addr().Is4() {
		return ""
	}
	source, destination := inside, outside
	if inbound {
		source, destination = outside, inside
	}
	for _, rule := range group.Rules {
		if rule.Allow || rule.Inbound != inbound || rule.Priority > lastOwn {
			continue
		}
		packet := trace.Packet{Protocol: "tcp", FromPort: firstPort(rule.SourcePorts),
			Port: firstPort(rule.DestinationPorts)}
		if rule.Protocol != "*" {
			packet.Protocol = rule.Protocol
		}
		for _, packet.From = range covered(source, rule.Sources) {
			for _, packet.To = range covered(destination, rule.Destinations) {
				r := filters.Judge(group, packet, inbound)
				if r.Decision == trace.Denied && r.Rule == rule.Name && packet.From != packet.To {
					return fmt.Sprintf("%s, from %s to %s", r.Why, packet.From, packet.To)
				}
			}
		}
	}
	return ""
}

// firstPort returns the first port that a rule names, or an ordinary port if the rule names all.
func firstPort(ports []string) int {
	for _, text := range ports {
		first, _, _ := strings.Cut(text, "-")
		if port, err := strconv.Atoi(strings.TrimSpace(first)); err == nil && port > 0 {
			return port
		}
	}
	const ordinary = 8080
	return ordinary
}

// covered returns the first and the last usable address of each part of a prefix that a rule names.
// For *, service tags and application security groups this is the whole prefix, because Judge
// decides about them.
func covered(prefix netip.Prefix, texts []string) (addresses []netip.Addr) {
	parts := []netip.Prefix{}
	for _, text := range texts {
		part := arm.ParseRange(text)
		switch {
		case !part.IsValid():
			parts = append(parts, prefix)
		case !part.Overlaps(prefix):
		case part.Bits() > prefix.Bits():
			parts = append(parts, part.Masked())
		default:
			parts = append(parts, prefix)
		}
	}
	if len(texts) == 0 {
		parts = append(parts, prefix)
	}
	for _, part := range parts {
		first, last := inventory.FirstUsable(part), inventory.Last(part).Prev() // not a broadcast
		if !part.Contains(first) {
			first, last = part.Addr(), part.Addr()
		}
		addresses = append(addresses, first, last)
	}
	return addresses
}

func prefixesOf(s *inventory.Snapshot, ids ...arm.ID) (prefixes []netip.Prefix) {
	for _, id := range inventory.SortIDs(ids) {
		if subnet := s.Subnet(id); subnet != nil {
			prefixes = append(prefixes, subnet.Prefixes...)
		}
	}
	return prefixes
}

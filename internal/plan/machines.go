package plan

import (
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// machines counts the machines of a cluster's pools by the IP configurations in its node subnets.
// Every check reads these configurations, but not the counts of the pools.
func (w *planning) machines(cluster *inventory.Cluster, subnets []arm.ID) int {
	n := 0
	for _, id := range subnets {
		n += machinesIn(w.s.Subnet(id), cluster, func(pool string) bool { return pool != "" })
	}
	return n
}

// machinesIn counts the machines of some pools of a cluster in a subnet. Machines outside all pools
// have the name "".
func machinesIn(subnet *inventory.Subnet, cluster *inventory.Cluster,
	of func(pool string) bool) int {
	if subnet == nil || len(subnet.Configurations()) == 0 {
		return 0
	}
	n := 0
	for _, set := range subnet.MachineSets() {
		if cluster.IsNodeGroup(arm.ID(set.Group)) && of(cluster.PoolOf(set.Name)) {
			n += set.Count
		}
	}
	return n
}

// families returns the address families of pod CIDRs: true is IPv4.
func families(cidrs []netip.Prefix) []bool {
	var out []bool
	for _, v4 := range []bool{true, false} {
		if slices.ContainsFunc(cidrs, func(c netip.Prefix) bool { return c.Addr().Is4() == v4 }) {
			out = append(out, v4)
		}
	}
	return out
}

func familyName(v4 bool) string {
	if v4 {
		return "IPv4"
	}
	return "IPv6"
}

// routedNodes counts the nodes to which pod routes lead, in the address family with the fewest next
// hops.
func routedNodes(hops map[netip.Addr]string, families []bool) int {
	ipv4 := 0
	for hop := range hops {
		if hop.Is4() {
			ipv4++
		}
	}
	least := -1
	for _, v4 := range families {
		count := ipv4
		if !v4 {
			count = len(hops) - ipv4
		}
		if least < 0 || count < least {
			least = count
		}
	}
	return least
}

// tableRoom reports whether a cluster's route table has no room for another node, and how many
// routes it can hold. Azure Virtual Network Manager can raise the limit to 1,000.
func tableRoom(table *inventory.RouteTable, families int) (full bool, limit int) {
	limit = inventory.DefaultRouteLimit
	if len(table.Routes()) > limit {
		limit = 1000
	}
	return families > 0 && limit-len(table.Routes()) < families, limit
}

// TableFull returns the finding for a cluster's route table without room for another node.
func TableFull(name string, cluster arm.ID, table *inventory.RouteTable,
	limit int) finding.Finding {
	id := table.ID
	return finding.New(finding.TableFull, name, string(id),
		"route table %s of cluster %s is full: it has %d of %d routes, and no room for more nodes",
		id.Short(), cluster.Short(), len(table.Routes()), limit).
		WithFix("az network route-table route list --subscription %s -g %s "+
			"--route-table-name %s -o table",
			id.Subscription(), id.ResourceGroup(), id.Name())
}

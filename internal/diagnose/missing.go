package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// lacks returns the routes that a node should have and lacks, and the number it should have. If
// Kubernetes shows the node's pod CIDRs, each needs a route. Otherwise the node should be the next
// hop of one route for each address family of the cluster's pods.
func (b *tableCheck) lacks(n *node) (missing []string, of int) {
	var addr = map[string]netip.Addr{}
	for _, a := range n.addrs {
		addr[familyOf(a)] = a
	}
	if n.kube != nil {
		for _, prefix := range n.kube.PodCIDRs {
			if !addr[familyOf(prefix.Addr())].IsValid() || !b.ownership.NodePrefix(prefix) {
				continue
			}
			of++
			if _, there := b.pods[prefix]; !there {
				missing = append(missing, prefix.String())
			}
		}
		return missing, of
	}
	for _, cidr := range b.ownership.PodCIDRs() {
		family := familyOf(cidr.Addr())
		a := addr[family]
		if !a.IsValid() {
			continue
		}
		of++
		if !b.hops[a] && !b.misrouted[n.name+family] {
			missing = append(missing, family)
		}
	}
	return missing, of
}

// missing reports the nodes that lack routes. It returns a line for each, and whether the list of
// nodes is certain.
func (b *tableCheck) missing() (lines []string, sure bool) {
	var none, unnoticed, half []string
	for _, n := range b.nodes.all {
		lacks, of := b.lacks(n)
		if len(lacks) == 0 || b.waits(n) {
			continue
		}
		line := fmt.Sprintf("%s: %s", n, strings.Join(lacks, ", "))
		condition := inventory.Condition{}
		if n.kube != nil && n.kube.NetworkUnavailable != nil {
			condition = *n.kube.NetworkUnavailable
			line += fmt.Sprintf("; NetworkUnavailable is %t (%s)", condition.True, condition.Reason)
		}
		switch {
		case len(lacks) < of:
			half = append(half, line)
		case n.kube != nil && n.kube.NetworkUnavailable != nil && !condition.True:
			unnoticed = append(unnoticed, line)
		default:
			none = append(none, line)
		}
	}
	sure = b.nodes.asked || b.nodes.exact
	report := func(code finding.Code, lines []string, has, have string) {
		if len(lines) == 0 {
			return
		}
		of := "of cluster " + b.cluster.ID.Short()
		f := b.ofTable(code, "%s in its route table %s", finding.CountOf(len(lines),
			"node "+of+" "+has, "nodes "+of+" "+have), b.table.ID.Short()).With(lines...)
		if !sure {
			f.Severity = finding.Warning
			f = f.With(plan.NodesMayJoin)
		}
		b.add(f.WithFix("az monitor activity-log list --resource-id %s --status Failed --offset "+
			"3h -o table", b.table.ID))
	}
	report(finding.NodeWithoutRoute, none, "has no route", "have no route")
	report(finding.RouteUnnoticed, unnoticed, "lacks a route, but Kubernetes reports its network "+
		"as available",
		"lack routes, but Kubernetes reports their networks as available")
	report(finding.RouteHalf, half, "has a route for one address family only",
		"have routes for one address family only")
	return slices.Concat(none, unnoticed, half), sure
}

// room reports a table that is full or nearly full. Azure Virtual Network Manager can raise the
// limit to 1,000.
func (b *tableCheck) room(without []string, sure bool) {
	used, limit, each := len(b.table.Routes()), b.RouteLimit, 0
	if used > limit {
		limit = 1000
	}
	families := map[bool]bool{}
	for _, cidr := range b.ownership.PodCIDRs() {
		families[cidr.Addr().Is4()] = true
	}
	each = len(families)
	grow := 0
	for _, pool := range b.cluster.Pools {
		grow += max(0, pool.MaxCount-pool.Count)
	}
	fit := max(0, limit-used) / each
	var room []string
	if each == 2 {
		room = append(room, "each node takes two routes: IPv4 and IPv6")
	}
	if grow > 0 {
		room = append(room, fmt.Sprintf("the autoscaler can add %s", finding.Count(grow, "node")))
	}
	id := b.table.ID
	switch {
	case fit == 0:
		f := plan.TableFull(b.name, b.cluster.ID, b.table, limit).With(room...)
		if len(without) > 0 {
			if sure {
				f.Severity = finding.Error
			}
			f = f.With("nodes without a route:").With(without...)
		}
		b.add(f)
	case used*100 >= limit*80 || grow > fit:
		b.add(b.ofTable(finding.TableFilling, "route table %s of cluster %s holds %d of %d "+
			"routes: %s", id.Short(), b.cluster.ID.Short(), used, limit, finding.CountOf(fit,
			"more node fits", "more nodes fit")).
			With(room...).WithFix("az network route-table route list --subscription %s -g %s "+
			"--route-table-name %s -o table", id.Subscription(), id.ResourceGroup(), id.Name()))
	}
}

// checkForwarding finds nodes whose NIC drops packets for their pods.
func checkForwarding(p *clusterCase) {
	var off []string
	var fix finding.CommandLine
	if p.cluster.Stopped {
		return
	}
	for _, nic := range p.nics {
		if p.cluster.PoolOf(nic.Holder()) == "" || nic.Forwarding {
			continue
		}
		off = append(off, nic.Holder())
		if len(off) == 1 {
			fix = forwardingFix(nic.ID)
		}
	}
	if len(off) == 0 {
		return
	}
	p.add(p.found(finding.ForwardingOff, p.cluster.ID, "IP forwarding is off "+
		"on the network interfaces of %s of cluster %s: Azure drops packets for their pods",
		finding.Count(len(off), "node"), p.cluster.ID.Short()).With(off...).WithFix("%s", fix))
}

// forwardingFix returns the command that enables IP forwarding on a NIC. For a NIC of a scale set
// it changes the scale set's model.
func forwardingFix(nic arm.ID) finding.CommandLine {
	for at := nic; at != ""; at = at.Parent() {
		if at.Is(arm.TypeScaleSet) {
			return finding.Command(
				`az vmss update --ids %s --set "virtualMachineProfile.networkProfile.networkInterfaceConfigurations[0].enableIPForwarding=true" && az vmss update-instances --ids %s --instance-ids "*"`, at, at)
		}
	}
	return finding.Command("az network nic update --ids %s --ip-forwarding true", nic)
}

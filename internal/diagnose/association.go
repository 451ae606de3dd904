package diagnose

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// checkAssociation checks the tables on the subnets of a kubenet cluster, beyond what package plan
// reports.
func checkAssociation(p *clusterCase) {
	if p.config == nil {
		return
	}
	for _, s := range p.associations() {
		switch {
		case s.table != "" && !s.fits(p):
			p.add(s.elsewhere(p))
		case s.subnet == nil || s.subnet.RouteTable.Equal(s.table):
		case s.subnet.RouteTable == "":
			s.reportBare(p)
		default:
			s.reportReplaced(p)
		}
	}
	egressInTable(p)
}

// association is a subnet and the table it should have.
type association struct {
	id     arm.ID
	subnet *inventory.Subnet // nil if it was not read
	table  arm.ID            // "" if it is unknown
	node   bool
}

// associations returns the node subnets with the cluster's route table, and the guarded subnets
// with their tables.
func (p *clusterCase) associations() []association {
	var seats []association
	for _, id := range p.s.NodeSubnetIDs(p.cluster) {
		seats = append(seats, association{id, p.s.Subnet(id), expected(p), true})
	}
	for _, g := range p.config.Spec.Guard.Subnets {
		if g.RouteTableID == "" {
			continue
		}
		seats = append(seats, association{arm.ID(g.SubnetID), p.s.Subnet(arm.ID(g.SubnetID)),
			arm.ID(g.RouteTableID), false})
	}
	return seats
}

// expected returns the table that the node subnets should have: the cluster's route table. If that
// table is uncertain, it returns the one table that all node subnets with a table share.
func expected(p *clusterCase) arm.ID {
	if p.source.Table != "" && !p.source.Doubtful {
		return p.source.Table
	}
	var common arm.ID
	for _, s := range p.subnets {
		switch {
		case s.RouteTable == "" || inventory.IsManagerTable(s.RouteTable):
		case common != "" && !common.Equal(s.RouteTable):
			return ""
		default:
			common = s.RouteTable
		}
	}
	return common
}

// fits reports whether Azure would associate the table: it must be in the subnet's region and
// subscription (manage-route-table; Azure refuses others with InvalidResourceReference). So only a
// config can have this mismatch, never Azure.
func (s association) fits(p *clusterCase) bool {
	table, vnet := p.s.Table(s.table), p.s.VNets[s.id.Parent().Key()]
	if table == nil || vnet == nil || table.Location == "" || vnet.Location == "" {
		return true
	}
	return strings.EqualFold(table.Location, vnet.Location) &&
		strings.EqualFold(table.ID.Subscription(), vnet.ID.Subscription())
}

func (s association) elsewhere(p *clusterCase) finding.Finding {
	table, vnet := p.s.Table(s.table), p.s.VNets[s.id.Parent().Key()]
	return p.found(finding.TableElsewhere, s.id, "subnet %s should have route table %s, but the "+
		"table is in %s and the subnet in %s: Azure refuses to associate them", s.id.Short(),
		table.ID.Short(), whereabouts(table.ID, table.Location), whereabouts(vnet.ID,
			vnet.Location)).
		With("table: "+string(table.ID), "network: "+string(vnet.ID)).
		WithFix("az network route-table create --subscription %s -g %s -n %s -l %s",
			vnet.ID.Subscription(), vnet.ID.ResourceGroup(), table.ID.Name(), vnet.Location)
}

func whereabouts(id arm.ID, location string) string {
	return fmt.Sprintf("%s in subscription %s", location, id.Subscription())
}

// reportBare reports a node subnet without a table if other node subnets have the table. Either the
// subnet lost the table, or its pool is new: AKS associates it only at the next PUT of the cluster
// (AKS#1500).
func (s association) reportBare(p *clusterCase) {
	if !s.node || s.table == "" {
		return
	}
	var others, pools []string
	for _, other := range p.subnets {
		if other.RouteTable.Equal(s.table) {
			others = append(others, other.ID.Short())
		}
	}
	for _, pool := range p.cluster.Pools {
		if pool.Subnet.Equal(s.id) {
			pools = append(pools, "pool "+pool.Name)
		}
	}
	if len(others) == 0 {
		return // package plan reports this
	}
	p.add(p.found(finding.PoolWithoutTable, s.id, "subnet %s of %s has no route table, but %s "+
		"has %s", s.id.Short(), strings.Join(pools, " and "), strings.Join(others, " and "),
		s.table.Short()).
		With("either the subnet lost the table, or the pool is new: AKS associates the "+
			"subnet of a new pool only when the cluster is next updated: "+
			p.azAKS("update", "--yes").String()).
		WithFix("%s", useTable(s.id, s.table)))
}

// reportReplaced reports who replaced the table on a subnet, if that is known.
func (s association) reportReplaced(p *clusterCase) {
	other := s.subnet.RouteTable
	evidence, place, again := []string{"present: " + string(other)}, "the cluster's route table",
		finding.CommandLine{}
	if s.table != "" {
		evidence, place, again = append(evidence, "expected: "+string(s.table)), s.table.Short(),
			useTable(s.id, s.table)
	}
	if inventory.IsManagerTable(other) {
		p.add(p.found(finding.NetworkManagerTable, s.id,
			"subnet %s has the route table %s of Azure Virtual Network Manager instead of %s",
			s.id.Short(), other.Short(), place).
			With(append(evidence, "with routeTableUsageMode ManagedOnly, the routing "+
				"configuration replaces the table again whenever you associate another one")...).
			WithAdvice("set routeTableUsageMode of the routing configuration to UseExisting, "+
				"deploy it, then associate the cluster's table again").
			WithFix("%s", again))
		return
	}
	for _, id := range []arm.ID{s.id, s.id.Parent()} {
		if line := p.s.Writers[id.Key()].Line; s.table != "" &&
			strings.Contains(strings.ToLower(line), "policy assignment") {
			p.add(p.found(finding.PolicyTable, s.id, "a policy associated subnet %s with route "+
				"table %s instead of %s", s.id.Short(), other.Short(), place).
				With(evidence...).WithAdvice("exempt the subnet from the policy assignment, "+
				"then associate the cluster's table again").
				WithFix("%s", again))
			return
		}
	}
}

// blackhole reports a default route to None. It is only info if the cluster has no outbound type,
// because such a cluster may be isolated on purpose.
func blackhole(p *clusterCase, r inventory.Route) {
	f := p.found(finding.EgressDropped, p.table.ID, "route %s in route table %s of cluster %s "+
		"drops %s: its nodes cannot reach anything outside the network, not even Azure or "+
		"registries",
		r.Name, p.table.ID.Short(), p.cluster.ID.Short(), r.Prefix).About(r.Name).WithAdvice(
		"delete the route unless it is intended").
		WithFix("az network route-table route delete --ids %s", p.table.ID.Child("routes", r.Name))
	if strings.EqualFold(p.cluster.Outbound, "none") ||
		strings.EqualFold(p.cluster.Outbound, "block") {
		f.Severity = finding.Info
	}
	p.add(f)
}

// egressInTable reports a cluster whose nodes lose their egress together with the table.
func egressInTable(p *clusterCase) {
	if p.table == nil || p.source.Doubtful {
		return
	}
	for _, r := range p.table.Routes() {
		if r.Prefix.IsValid() && r.Prefix.Bits() == 0 &&
			strings.EqualFold(r.HopType, inventory.HopNone) {
			blackhole(p, r)
			return
		}
		if r.Prefix.IsValid() && r.Prefix.Bits() == 0 {
			p.add(p.found(finding.EgressInTable, p.table.ID,
				"route table %s of cluster %s also routes %s to %s: if a subnet loses the table, "+
					"its nodes cannot reach Azure, and nothing inside the cluster can repair it",
				p.table.ID.Short(), p.cluster.ID.Short(), r.Prefix, r.NextHop()).About(r.Name).
				WithAdvice("run routekeeper outside cluster %s", p.cluster.ID.Short()))
			return
		}
	}
}

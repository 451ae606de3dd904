package plan

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// request is the route table that one config requires on one subnet.
type request struct {
	v      *clusterState
	subnet arm.ID
	table  arm.ID
	what   string // node subnet, guarded subnet
	// sure is set if more than a past association identifies the table.
	sure bool
}

// makeRequests collects the associations that the configs require, possible or not.
func (p *Planner) makeRequests() {
	for _, v := range p.clusters {
		spec := v.config.Spec.Guard
		if spec.Mode == v1alpha1.GuardOff || p.gone(v) {
			continue
		}
		if v.cluster != nil && v.cluster.Kubenet() && v.source != "" && !v.doubtful {
			for _, id := range v.subnets {
				p.requests = append(p.requests, request{v, id, v.source, "node subnet", v.proven ||
					v.config.Spec.RouteTableID != ""})
			}
		}
		for _, g := range spec.Subnets {
			p.requests = append(p.requests, request{v, arm.ID(g.SubnetID), arm.ID(g.RouteTableID),
				"guarded subnet", true})
		}
	}
	slices.SortStableFunc(p.requests, func(a, b request) int {
		return strings.Compare(a.subnet.Key(), b.subnet.Key())
	})
}

// elsewhere reports whether a table is known as the route table of another configured cluster, even
// if that cluster cannot be read now or is not part of this check.
func (p *Planner) elsewhere(table arm.ID, except *clusterState) bool {
	for _, v := range p.clusters {
		if v != except && table.Equal(v.source) {
			return true
		}
	}
	return p.taken.others(table, arm.ID(except.config.Spec.ClusterID))
}

// gone reports whether a cluster does not exist or is being deleted. Its subnets are not guarded:
// AKS removes the table from them before it deletes the cluster.
func (p *Planner) gone(v *clusterState) bool {
	if v.cluster != nil {
		return v.cluster.Deleting
	}
	cluster, _ := arm.Lookup(p.s.Unread, arm.ID(v.config.Spec.ClusterID))
	return cluster.Absent
}

// associations returns the associations to make. It makes none for a subnet on which two configs
// require different tables: each would replace the other's table forever.
func (w *planning) associations(wishes []request,
	read func(arm.ID) *inventory.Subnet) []Association {
	var out []Association
	for start := 0; start < len(wishes); {
		first, end := wishes[start], start+1
		var against *request
		for ; end < len(wishes) && wishes[end].subnet.Equal(first.subnet); end++ {
			if !wishes[end].table.Equal(first.table) {
				against = &wishes[end]
			}
		}
		if against != nil {
			w.add(finding.New(finding.AssociationOther, first.v.name, string(first.subnet),
				"two configs require different route tables on subnet %s, so neither is set: %s "+
					"of %s and %s of %s",
				first.subnet.Short(), first.table.Short(), first.v.name, against.table.Short(),
				against.v.name).
				WithAdvice("correct spec.guard.subnets of %s or %s", first.v.name, against.v.name))
		} else if a := w.guardSubnet(first, read(first.subnet)); a != nil {
			out = append(out, *a)
		}
		start = end
	}
	return out
}

// guardSubnet decides what to do about one subnet.
func (w *planning) guardSubnet(wish request, subnet *inventory.Subnet) *Association {
	// A lost association needs only the table's ID: Azure refuses a table that does not exist.
	known := w.s.Table(wish.table) != nil || subnet != nil && subnet.RouteTable == "" &&
		!w.s.Unread[wish.table.Key()].Absent
	if !known {
		if wish.what != "node subnet" { // readSource reports the cluster's route table
			w.reportUnread(wish.v.gone(wish.table, w.add), wish.v.config, wish.table,
				finding.TableMissing,
				"route table %s, which subnet "+wish.subnet.Short()+" should have,",
				orRemake(wish.v.cluster, wish.table,
					"create the table, or correct spec.guard.subnets of "+wish.v.name))
		}
		return nil
	}
	if subnet == nil {
		w.reportUnread(w.add, wish.v.config, wish.subnet, finding.SubnetMissing, wish.what+" %s",
			advise("correct spec.guard.subnets of "+wish.v.name))
		return nil
	}
	if table := w.s.Table(wish.table); table != nil {
		wish.table = table.ID // in its original spelling
	}
	if subnet.RouteTable.Equal(wish.table) {
		if subnet.Failed {
			w.add(unsettled(wish.v.name, subnet.ID,
				finding.Command("az network vnet subnet update --ids %s", subnet.ID)))
		}
		return nil
	}
	spec := wish.v.config.Spec.Guard
	fix := finding.Command("az network vnet subnet update --ids %s --route-table %s", subnet.ID,
		wish.table)
	lost := subnet.RouteTable == ""
	switch {
	case lost && spec.Mode == v1alpha1.GuardEnforce:
		return &Association{wish.v.name, subnet.ID, wish.table, wish.what +
			" has lost its route table"}
	case lost:
		w.add(finding.New(finding.AssociationLost, wish.v.name, string(subnet.ID),
			"%s %s has lost its route table %s",
			wish.what, subnet.ID.Short(), wish.table.Short()).WithFix("%s", fix))
	case spec.Mode == v1alpha1.GuardEnforce && spec.OnOtherTable == v1alpha1.OtherTableReplace &&
		(wish.sure || w.s.Table(subnet.RouteTable) != nil) &&
		!w.elsewhere(subnet.RouteTable, wish.v):
		return &Association{wish.v.name, subnet.ID, wish.table, wish.what + " has the table " +
			subnet.RouteTable.Short() + " in place of its own"}
	default:
		w.add(finding.New(finding.AssociationOther, wish.v.name, string(subnet.ID),
			"%s %s has the route table %s instead of %s",
			wish.what, subnet.ID.Short(), subnet.RouteTable.Short(), wish.table.Short()).
			With("present: "+string(subnet.RouteTable), "expected: "+
				string(wish.table)).WithFix("%s", fix))
	}
	return nil
}

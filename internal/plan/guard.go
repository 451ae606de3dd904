package plan

import (
	"cmp"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: each config requires properties of subnets. On its node subnets it requires the
// cluster's route table, as long as the cluster uses kubenet. On each subnet in spec.guard.subnets,
// which can be a node subnet, it requires the properties that are named there, with any network
// plugin. A lost property is restored. If another writer replaced it, it is reported or restored,
// as the config says.

// requirement is what one config requires a subnet to have.
type requirement struct {
	v        *clusterState
	subnet   arm.ID
	property inventory.Property
	value    arm.ID
	what     string // node subnet, guarded subnet
	paused   string // why the network pauses the guard, or ""
	// sure is set if more than an earlier association identifies the table.
	sure bool
}

// ofAKS reports whether AKS made the network of a guarded subnet. A user must not change the
// network security groups on its subnets (aks/support-policies), so the guard only watches them.
// The node subnets' own table is different: the cluster needs it.
func (r requirement) ofAKS() bool {
	return r.what != "node subnet" && r.v.cluster != nil &&
		r.subnet.Group().Equal(r.v.cluster.NodeGroup())
}

// compare orders requirements by subnet and property.
func (r requirement) compare(o requirement) int {
	return cmp.Or(strings.Compare(r.subnet.Key(), o.subnet.Key()),
		cmp.Compare(slices.Index(inventory.Properties, r.property),
			slices.Index(inventory.Properties, o.property)))
}

// collectRequirements collects the associations that the configs require, whether or not they are
// possible.
func (p *Planner) collectRequirements() {
	told := map[string]bool{}
	for _, v := range p.clusters {
		spec := v.config.Spec.Guard
		if spec.Mode == v1alpha1.GuardOff || p.s.gone(v) {
			continue
		}
		if v.cluster != nil && v.cluster.Kubenet() && v.source != "" && !v.doubtful {
			for _, id := range v.subnets {
				p.requirements = append(p.requirements, requirement{v, id,
					inventory.PropertyTable, v.source, "node subnet", p.tagPauses(v, id, told),
					v.proven || v.config.Spec.RouteTableID != ""})
			}
		}
		for _, g := range spec.Subnets {
			for _, property := range inventory.Properties {
				value, subnet := GuardedValue(g, property), arm.ID(g.SubnetID)
				switch {
				case value == "":
				case p.s.released(v, value):
					p.add(finding.New(finding.GuardEnded, v.name, string(subnet), "%s is not "+
						"guarded on subnet %s: it was made for kubenet, and cluster %s uses %s",
						value.Short(), subnet.Short(), v.cluster.ID.Short(),
						v.cluster.PluginName()).
						WithAdvice("in spec.guard.subnets of %s, name the table that the subnet "+
							"must have, or remove routeTableID", v.name))
				default:
					p.requirements = append(p.requirements, requirement{v, subnet, property, value,
						"guarded subnet", p.tagPauses(v, subnet, told), true})
				}
			}
		}
	}
	slices.SortStableFunc(p.requirements, requirement.compare)
}

// Requires reports whether a config requires what a change associates with a subnet.
func (p *Planner) Requires(c Change) bool {
	property, value := c.New.Associated()
	return slices.ContainsFunc(p.requirements, func(r requirement) bool {
		return r.subnet.Equal(c.Resource) && r.property == property && r.value.Equal(value)
	})
}

// Guards reports whether a config names a subnet in spec.guard.subnets.
func Guards(c *v1alpha1.ClusterRoutes, subnet arm.ID) bool {
	return slices.ContainsFunc(c.Spec.Guard.Subnets, func(g v1alpha1.GuardedSubnet) bool {
		return subnet.Equal(arm.ID(g.SubnetID))
	})
}

// GuardedValue returns what a guarded subnet must have, or "".
func GuardedValue(g v1alpha1.GuardedSubnet, property inventory.Property) arm.ID {
	return arm.ID(map[inventory.Property]string{inventory.PropertyTable: g.RouteTableID,
		inventory.PropertyNAT:   g.NATGatewayID,
		inventory.PropertyGroup: g.NetworkSecurityGroupID}[property])
}

// modeOf returns what the guard does about a property.
func modeOf(g v1alpha1.Guard, property inventory.Property) v1alpha1.GuardMode {
	if property == inventory.PropertyGroup {
		return g.OfGroups()
	}
	return g.Mode
}

// released reports whether a table was the cluster's own while it used kubenet. AKS removes that
// table from the subnets when the cluster leaves kubenet, so its guard ends then.
func (f Facts) released(v *clusterState, table arm.ID) bool {
	return v.cluster != nil &&
		Released(v.config, v.cluster, f.Memory.Of(v.cluster.ID).LastTable, table)
}

// Released reports whether a cluster that does not use kubenet had the given route table as its own
// while it did. Last is its table as remembered.
func Released(c *v1alpha1.ClusterRoutes, cluster *inventory.Cluster, last, table arm.ID) bool {
	return !cluster.Kubenet() && (table.Equal(last) || table.Equal(arm.ID(c.Spec.RouteTableID)) ||
		inventory.IsManagedTable(table))
}

// ofOtherCluster reports whether a table is the known route table of another configured cluster,
// even if that cluster cannot be read now or is not part of this check.
func (p *Planner) ofOtherCluster(table arm.ID, except *clusterState) bool {
	for _, v := range p.clusters {
		if v != except && table.Equal(v.source) {
			return true
		}
	}
	return p.taken.ofOther(table, arm.ID(except.config.Spec.ClusterID))
}

// gone reports whether a cluster does not exist or is being deleted. Subnets of such a cluster are
// not guarded: AKS removes the table from them before it deletes the cluster.
func (f Facts) gone(v *clusterState) bool {
	if v.cluster != nil {
		return v.cluster.Deleting
	}
	cluster, _ := arm.Lookup(f.Unread, arm.ID(v.config.Spec.ClusterID))
	return cluster.Absent
}

// associations returns the associations to make. It makes none for a property for which two configs
// require different values: each would replace the other's forever. If several require the same
// value, the first one that restores it counts.
func (w *planning) associations(requirements []requirement,
	read func(arm.ID) *inventory.Subnet) []Association {
	var out []Association
	for start := 0; start < len(requirements); {
		first, end := requirements[start], start+1
		var against *requirement
		for ; end < len(requirements) && requirements[end].compare(first) == 0; end++ {
			if !requirements[end].value.Equal(first.value) {
				against = &requirements[end]
			}
		}
		if against != nil {
			w.add(finding.New(finding.AssociationOther, first.v.name, string(first.subnet),
				"two configs require different %ss on subnet %s, so neither is set: %s "+
					"of %s and %s of %s", first.property.Name(),
				first.subnet.Short(), first.value.Short(), first.v.name, against.value.Short(),
				against.v.name).
				WithAdvice("correct spec.guard.subnets of %s or %s", first.v.name, against.v.name))
		} else {
			subnet := read(first.subnet)
			for _, required := range requirements[start:end] {
				if !w.s.Paused[required.v.name] && w.restores(required, subnet) {
					first = required
					break
				}
			}
			if a := w.guardSubnet(first, subnet); a != nil {
				out = append(out, *a)
			}
		}
		start = end
	}
	return out
}

// restores reports whether the guard gives a subnet the required value of a property, which the
// subnet lacks or has with another value.
func (w *planning) restores(required requirement, subnet *inventory.Subnet) bool {
	spec := required.v.config.Spec.Guard
	if subnet == nil || required.paused != "" || required.ofAKS() ||
		modeOf(spec, required.property) != v1alpha1.GuardEnforce {
		return false
	}
	has := subnet.Has(required.property)
	return has == "" || spec.OnOtherTable == v1alpha1.OtherTableReplace &&
		(required.sure || w.s.Table(has) != nil) && !w.ofOtherCluster(has, required.v)
}

// guardSubnet decides what to do about one property of a subnet.
func (w *planning) guardSubnet(required requirement, subnet *inventory.Subnet) *Association {
	if required.property == inventory.PropertyTable && !w.tableKnown(required, subnet) {
		return nil
	}
	if subnet == nil {
		w.reportUnread(w.add, required.v.config, required.subnet, finding.SubnetMissing,
			required.what+" %s",
			advise("correct spec.guard.subnets of "+required.v.name))
		return nil
	}
	if table := w.s.Table(required.value); table != nil {
		required.value = table.ID // in its original spelling
	}
	has := subnet.Has(required.property)
	if has.Equal(required.value) {
		if subnet.Failed {
			w.add(lastOperationFailed(required.v.name, subnet.ID,
				finding.Command("az network vnet subnet update --ids %s", subnet.ID)))
		}
		return nil
	}
	words := required.property.Name()
	watched := required.ofAKS()
	add := func(f finding.Finding) {
		if required.property != inventory.PropertyTable {
			f = f.About(string(required.property)) // a subnet can lack several
		}
		if watched {
			f = f.With("AKS made this network and may change it, so what it lost is only reported")
		}
		if required.paused != "" {
			f = f.With(required.paused)
		}
		w.add(f)
	}
	fix := Attach(subnet.ID, required.property, required.value)
	put := func(why string) *Association {
		return &Association{required.v.name, subnet.ID, required.property, required.value,
			required.what + why}
	}
	switch {
	case w.restores(required, subnet):
		if has == "" {
			return put(" has lost its " + words)
		}
		return put(" has the " + required.property.Noun() + " " + has.Short() +
			" in place of its own")
	case has == "":
		add(finding.New(finding.AssociationLost, required.v.name, string(subnet.ID),
			"%s %s has lost its %s %s", required.what, subnet.ID.Short(), words,
			required.value.Short()).WithFix("%s", fix))
	default:
		add(finding.New(finding.AssociationOther, required.v.name, string(subnet.ID),
			"%s %s has the %s %s instead of %s",
			required.what, subnet.ID.Short(), words, has.Short(), required.value.Short()).
			With("present: "+string(has), "expected: "+string(required.value)).WithFix("%s", fix))
	}
	return nil
}

// tableKnown reports whether a table can be put on a subnet, or is on it. It reports a table that
// does not exist. A lost association needs only the table's ID: Azure refuses a table that does not
// exist.
func (w *planning) tableKnown(required requirement, subnet *inventory.Subnet) bool {
	if w.s.Table(required.value) != nil || subnet != nil && subnet.RouteTable == "" &&
		!w.s.Unread[required.value.Key()].Absent {
		return true
	}
	if required.what != "node subnet" { // readSource reports the cluster's route table
		w.reportUnread(required.v.addRemake(required.value, w.add), required.v.config,
			required.value, finding.TableMissing,
			"route table %s, which subnet "+required.subnet.Short()+" should have,",
			orRemake(required.v.cluster, required.value,
				"create the table, or correct spec.guard.subnets of "+required.v.name))
	}
	return false
}

// Attach returns the command that gives a subnet a property.
func Attach(subnet arm.ID, property inventory.Property, value arm.ID) finding.CommandLine {
	switch property {
	case inventory.PropertyNAT:
		return finding.Command("az network vnet subnet update --ids %s --nat-gateway %s", subnet,
			value)
	case inventory.PropertyGroup:
		return finding.Command(
			"az network vnet subnet update --ids %s --network-security-group %s", subnet, value)
	case inventory.PropertyTable:
	}
	return finding.Command("az network vnet subnet update --ids %s --route-table %s", subnet, value)
}

package prevent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Wanted is what configs and what was read say: the needs of subnets, the route tables that must
// keep their default route, what is left out, and what the rules block on purpose or not.
type Wanted struct {
	Needs  []Need
	Tables []arm.ID
	Left   []string
	Blocks []string
}

func (w *Wanted) leave(format string, args ...any) {
	w.Left = append(w.Left, fmt.Sprintf(format, args...))
}

func (w *Wanted) block(format string, args ...any) {
	w.Blocks = append(w.Blocks, fmt.Sprintf(format, args...))
}

// Gather finds out what rules should hold. The snapshot has the clusters, and the subnets and route
// tables of the needs, as far as they can be read.
func Gather(s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes) Wanted {
	var w Wanted
	for i := range configs {
		w.cluster(s, &configs[i])
	}
	for _, n := range w.Needs {
		if subnet := s.Subnet(n.Subnet); subnet != nil && !subnet.Has(n.Property).Equal(n.Value) {
			w.block("each write of subnet %s of %s, at once: it lacks the %s %s. Repair it first",
				n.Subnet.Name(), n.Subnet.Parent().Name(), n.Property.Name(), n.Value.Name())
		}
		if n.Property == inventory.PropertyTable && !slices.Contains(w.Tables, n.Value) {
			w.table(s, configs, n.Value)
		}
	}
	return w
}

// cluster adds the needs of one cluster.
func (w *Wanted) cluster(s *inventory.Snapshot, c *v1alpha1.ClusterRoutes) {
	name, cluster := c.Metadata.Name, s.Cluster(arm.ID(c.Spec.ClusterID))
	if c.Spec.Guard.Mode == v1alpha1.GuardOff {
		w.leave("%s: its guard.mode is Off", name)
		return
	}
	if cluster == nil {
		w.leave("cluster %s: it cannot be read, so a route table of its own is not known, and "+
			"neither is a network that AKS made", name)
	}
	for _, g := range c.Spec.Guard.Subnets {
		subnet := arm.ID(g.SubnetID)
		for _, property := range inventory.Properties {
			value := plan.GuardedValue(g, property)
			switch {
			case value == "":
			case ofAKS(cluster, subnet):
				w.leave("the %s of subnet %s: AKS made its network, and takes off what its "+
					"subnets have before it deletes them (AKS#3111)", property.Name(), subnet)
			case property == inventory.PropertyTable && cluster != nil &&
				plan.Released(c, cluster, "", value):
				w.leave("the route table of subnet %s: it was the cluster's own, and ends with "+
					"kubenet", subnet)
			default:
				w.Needs = append(w.Needs, Need{subnet, property, value})
			}
		}
	}
	if cluster != nil && cluster.Kubenet() {
		w.kubenet(s, c, cluster)
	}
}

// kubenet adds the needs of a kubenet cluster's node subnets: each needs the cluster's own table.
func (w *Wanted) kubenet(s *inventory.Snapshot, c *v1alpha1.ClusterRoutes,
	cluster *inventory.Cluster) {
	name, some := c.Metadata.Name, false
	for _, id := range s.NodeSubnetIDs(cluster) {
		table := arm.ID(c.Spec.RouteTableID) // what a subnet has now may be another one
		switch {
		case ofAKS(cluster, id):
			w.leave("the route table of subnet %s: AKS made its network, and takes the table off "+
				"before it deletes it", id)
		case table == "":
			w.leave("the route table of subnet %s: spec.routeTableID of cluster %s does not name "+
				"it", id, name)
		default:
			w.Needs = append(w.Needs, Need{id, inventory.PropertyTable, table})
			some = true
		}
	}
	if some {
		w.block("the migration of cluster %s off kubenet: AKS takes the route table off its "+
			"subnets (update-azure-cni). Exempt the network first", name)
		w.block("deleting cluster %s, which does not end while the table is on the subnet "+
			"(AKS#847). Exempt the network first", name)
	}
}

// ofAKS reports whether AKS made the network of a subnet.
func ofAKS(cluster *inventory.Cluster, subnet arm.ID) bool {
	return cluster != nil && subnet.Group().Equal(cluster.NodeGroup()) ||
		cluster == nil && strings.HasPrefix(subnet.Parent().Name(), "aks-vnet-")
}

// table adds a table that leads to a firewall, unless the table can be a kubenet cluster's: the
// cluster's cloud provider writes and deletes its routes, and writes the whole table from an older
// read.
func (w *Wanted) table(s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes, id arm.ID) {
	table := s.Table(id)
	if table == nil {
		w.leave("the default route of route table %s: the table cannot be read", id)
		return
	}
	if !slices.ContainsFunc(table.Routes(), func(r inventory.Route) bool {
		return r.Prefix == netip.MustParsePrefix(defaultRoute) &&
			r.HopType == inventory.HopAppliance
	}) {
		return
	}
	own := inventory.IsManagedTable(id) || slices.ContainsFunc(table.Routes(),
		func(r inventory.Route) bool { return strings.Contains(r.Name, "____") })
	for i := range configs {
		cluster := s.Cluster(arm.ID(configs[i].Spec.ClusterID))
		if cluster == nil || cluster.Kubenet() {
			own = own || id.Equal(arm.ID(configs[i].Spec.RouteTableID))
		}
		if cluster != nil && cluster.Kubenet() {
			for _, subnet := range s.NodeSubnetIDs(cluster) {
				own = own || slices.ContainsFunc(table.Subnets, subnet.Equal)
			}
		}
	}
	if own {
		w.leave("the default route of route table %s: the cloud provider of a kubenet cluster "+
			"writes this table", id)
		return
	}
	w.Tables = append(w.Tables, id)
}

// SideEffects returns what rules block for all clusters, because they judge a write and not its
// caller.
func SideEffects(rules []Rule) (blocks []string) {
	if slices.ContainsFunc(rules, func(r Rule) bool { return len(r.Needs) > 0 }) {
		blocks = append(blocks,
			"each write of a guarded subnet after a loss, also by AKS and its drivers, unless the "+
				"write restores what was lost (azurefile-csi-driver#2634)",
			"Terraform that makes a guarded subnet and then its association resources: the subnet "+
				"comes first, without them (azurerm#9022). One azapi body with all of them "+
				"is allowed",
			"the portal when it creates a guarded subnet, because it creates it without these "+
				"(Azure-Landing-Zones#1112)",
			"taking them off on purpose, before a delete or a change of the table. Exempt the "+
				"network first")
	}
	if slices.ContainsFunc(rules, func(r Rule) bool { return len(r.Tables) > 0 }) {
		blocks = append(blocks, "code that makes a route table without routes, and its "+
			"routes later")
	}
	return blocks
}

// Networks returns the networks of the needs.
func (w Wanted) Networks() (ids []arm.ID) {
	for _, n := range w.Needs {
		ids = append(ids, n.Subnet.Parent())
	}
	return inventory.SortIDs(ids)
}

// In returns what is in one subscription.
func (w Wanted) In(subscription string) Wanted {
	w.Needs = slices.DeleteFunc(slices.Clone(w.Needs), func(n Need) bool {
		return !strings.EqualFold(n.Subnet.Subscription(), subscription)
	})
	w.Tables = slices.DeleteFunc(slices.Clone(w.Tables), func(id arm.ID) bool {
		return !strings.EqualFold(id.Subscription(), subscription)
	})
	return w
}

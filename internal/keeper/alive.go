package keeper

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

const (
	// aliveFor is how long a repair waits for proof that the cluster exists.
	aliveFor = time.Second
	// aliveTrusted is the greatest age of that proof. A write waits for the operation that stripped
	// the subnet, and someone can delete the cluster meanwhile.
	aliveTrusted = 2 * time.Second
)

// notGuarded says why a subnet must not get the table, NAT gateway or group of a change. The table
// or group may not exist, or may drop packets (losesPackets). The cluster may be gone or being
// deleted, which starts with removing the table from the subnets. The network may have got the tag
// that pauses the guard while the write waited. Or the table was the cluster's own, and the cluster
// has left kubenet since its document was read. While it is leaving, only nodes that have not moved
// show that AKS did not remove the table. If AKS does not answer in time, IP configurations of the
// cluster's nodes in a node subnet prove that the cluster exists.
//
// last has the route tables of the check's clusters, as remembered when it began to write.
func (c *check) notGuarded(ctx context.Context, seen *inventory.Snapshot, last []arm.ID,
	change plan.Change, subnet *inventory.Subnet) *finding.Finding {
	name := change.Cluster
	property, value := change.New.Associated()
	i := indexNamed(c.configs, name)
	if i < 0 {
		return nil
	}
	id := idOf(c.configs[i])
	s := inventory.NewSnapshot()
	o := azure.ReadOptions{Wait: aliveFor, NotBefore: c.began, Calls: c.calls, Life: c.life}
	if oldest := time.Now().Add(-aliveTrusted); oldest.After(c.began) {
		o.NotBefore = oldest
	}
	want := inventory.Wanted{Clusters: []arm.ID{id}, Subnets: []arm.ID{subnet.ID}}
	switch property {
	case inventory.PropertyTable:
		want.Tables = []arm.ID{value}
		if subnet.RouteTable != "" { // to compare with
			want.Tables = append(want.Tables, subnet.RouteTable)
		}
	case inventory.PropertyGroup:
		want.Groups = []arm.ID{value}
	case inventory.PropertyNAT: // Azure refuses one that does not exist
	}
	err := c.k.azure.Read(context.WithoutCancel(ctx), s, want, o)
	left := func(format string, args ...any) *finding.Finding {
		f := finding.New(finding.ClusterMissing, name, string(id), format, args...).
			WithAdvice("remove %s from the config", name)
		return &f
	}
	cluster := s.Cluster(id)
	if cluster != nil && !c.patient && c.configs[i].Spec.Source != v1alpha1.SourceNodes &&
		hasLeft(&c.configs[i], cluster, last[i], change) {
		cluster = c.k.mixed(c.life, cluster)
	}
	tag := plan.PausedByTag(s.Subnet(subnet.ID), time.Now())
	switch {
	case tag != "":
		f := finding.New(finding.AssociationLost, name, string(subnet.ID), "%s",
			plan.Harm([]plan.Change{change})).About(change.Key().Route).With(tag)
		return &f
	case s.Unread[value.Key()].Absent && property == inventory.PropertyGroup:
		f := finding.New(finding.AssociationLost, name, string(subnet.ID),
			"%s; the group is not put back, because it does not exist",
			plan.Harm([]plan.Change{change})).
			About(change.Key().Route).
			WithAdvice("create the group, or correct spec.guard.subnets of %s", name)
		return &f
	case s.Unread[value.Key()].Absent:
		f := finding.New(finding.TableMissing, name, string(value),
			"route table %s does not exist: it is not put back on %s", value.Short(),
			subnet.ID.Short())
		fix := plan.Remake(cmp.Or(cluster, seen.Cluster(id)), value, finding.CommandLine{})
		if fix == (finding.CommandLine{}) {
			f = f.WithAdvice("create the table, or correct the config of %s", name)
		}
		f = f.WithFix("%s", fix)
		return &f
	case cluster != nil && cluster.Deleting:
		return left("cluster %s is being deleted: the %s of %s is not put back",
			id.Short(), property.Name(), subnet.ID.Short())
	case cluster != nil && hasLeft(&c.configs[i], cluster, last[i], change) &&
		ofNodes(seen, id, subnet.ID):
		f := finding.New(finding.ClusterNotKubenet, name, string(id),
			"cluster %s is not kubenet any more: the route table of %s is not put back",
			id.Short(), subnet.ID.Short())
		if cluster.MayLeave() {
			f.Message = fmt.Sprintf("cluster %s may be leaving kubenet, and no unmoved node is "+
				"known: the route table of %s is not put back", id.Short(),
				subnet.ID.Short())
		}
		return &f
	case cluster != nil:
		return losesPackets(seen, s, &c.configs[i], last[i], change, subnet)
	case err == nil && s.Unread[id.Key()].Absent:
		return left("cluster %s does not exist: the %s of %s is not put back", id.Short(),
			property.Name(), subnet.ID.Short())
	case hasNodes(seen, id, subnet):
		return losesPackets(seen, s, &c.configs[i], last[i], change, subnet)
	}
	f := finding.New(finding.AssociationLost, name, string(subnet.ID),
		"%s has lost its %s %s, which is not put back: cluster %s could not be read "+
			"(%s), and no "+
			"subnet shows its nodes", subnet.ID.Short(), property.Name(), value.Short(), id.Short(),
		s.Unread[id.Key()].Reason()).About(change.Key().Route).
		WithFix("%s", plan.Attach(subnet.ID, property, value))
	return &f
}

// losesPackets says why a network security group, or a route table other than the cluster's own,
// must not be put back: it would drop packets of the cluster, or the group's rules are unknown. A
// table is put back if its routes are unknown: without it, packets may bypass a firewall.
func losesPackets(seen, read *inventory.Snapshot, config *v1alpha1.ClusterRoutes, own arm.ID,
	change plan.Change, subnet *inventory.Subnet) *finding.Finding {
	property, value := change.New.Associated()
	found := func(why string, lines ...string) *finding.Finding {
		code := finding.AssociationLost
		if subnet.Has(property) != "" {
			code = finding.AssociationOther
		}
		f := finding.New(code, change.Cluster, string(subnet.ID), "%s; it is not put back: %s",
			plan.Harm([]plan.Change{change}), why).About(change.Key().Route).
			With(fewer(lines)...).WithFix("%s", plan.Attach(subnet.ID, property, value))
		return &f
	}
	now := plan.Facts{Snapshot: seen.Fork()}
	if cluster := read.Cluster(arm.ID(config.Spec.ClusterID)); cluster != nil {
		now.Clusters[cluster.ID.Key()] = cluster
	}
	switch property {
	case inventory.PropertyGroup:
		group := read.SecurityGroups[value.Key()]
		if group == nil {
			return found("its rules could not be read: " + read.Unread[value.Key()].Reason())
		}
		if rules := verdict.Blocks(now, config, subnet, group); len(rules) > 0 {
			return found("its rules would drop packets between the cluster's nodes and pods",
				rules...)
		}
	case inventory.PropertyTable:
		table := read.Table(value)
		if table == nil || value.Equal(own) {
			return nil
		}
		maps.Copy(now.Tables, read.Tables)
		if lost := verdict.Losses(now, config, subnet, table); len(lost) > 0 {
			return found("with it, packets would be dropped that have a route now", lost...)
		}
	case inventory.PropertyNAT: // routes win over a NAT gateway
	}
	return nil
}

// hasLeft reports whether a cluster has left kubenet, and a change would put back its own route
// table, which AKS takes off the subnets of such a cluster.
func hasLeft(config *v1alpha1.ClusterRoutes, cluster *inventory.Cluster, last arm.ID,
	change plan.Change) bool {
	property, value := change.New.Associated()
	if property != inventory.PropertyTable || plan.Routed(config, cluster) {
		return false
	}
	guarded := slices.ContainsFunc(config.Spec.Guard.Subnets, func(g v1alpha1.GuardedSubnet) bool {
		return change.Resource.Equal(arm.ID(g.SubnetID)) && value.Equal(arm.ID(g.RouteTableID))
	})
	return !guarded || plan.Released(config, cluster, last, value)
}

// ofNodes reports whether a subnet was read as one of the cluster's node subnets.
func ofNodes(s *inventory.Snapshot, id, subnet arm.ID) bool {
	cluster := s.Cluster(id)
	return cluster != nil && slices.ContainsFunc(s.NodeSubnetIDs(cluster), subnet.Equal)
}

// hasNodes reports whether a subnet, or any node subnet that was read, shows IP configurations of
// the cluster's nodes.
func hasNodes(s *inventory.Snapshot, id arm.ID, subnet *inventory.Subnet) bool {
	cluster := s.Cluster(id)
	if cluster == nil {
		return false
	}
	subnets := []*inventory.Subnet{subnet}
	for _, id := range s.NodeSubnetIDs(cluster) {
		if read := s.Subnet(id); read != nil {
			subnets = append(subnets, read)
		}
	}
	return slices.ContainsFunc(subnets, func(subnet *inventory.Subnet) bool {
		return slices.ContainsFunc(subnet.Configurations(), func(configuration arm.ID) bool {
			return configuration.Group().Equal(cluster.NodeGroup())
		})
	})
}

// confirmsGone asks Azure whether a cluster exists. It reports true only for Azure's own answer
// that it does not.
func (k *Keeper) confirmsGone(ctx context.Context, id arm.ID, o azure.ReadOptions) bool {
	s := inventory.NewSnapshot()
	o.Wait = sourceFor
	err := k.azure.Read(ctx, s, inventory.Wanted{Clusters: []arm.ID{id}}, o)
	u := s.Unread[id.Key()]
	return err == nil && u.Absent &&
		(u.Code == "ResourceNotFound" || u.Code == "ResourceGroupNotFound")
}

// provenGone removes the deletes of missing clusters from a plan, unless Azure confirms again that
// they are missing. So a cluster that was created again loses no route. Neither does a cluster for
// which only a proxy answered 404.
func (c *check) provenGone(ctx context.Context, seen *inventory.Snapshot, p plan.Plan,
	table *inventory.RouteTable) plan.Plan {
	doubted := map[string]bool{} // by name
	for _, config := range c.configs {
		id, name := idOf(config), config.Metadata.Name
		deletes := func(change plan.Change) bool {
			return change.Verb == plan.Delete && change.Cluster == name
		}
		if !seen.Unread[id.Key()].Absent || !slices.ContainsFunc(p.Changes, deletes) {
			continue
		}
		if !c.k.confirmsGone(context.WithoutCancel(ctx), id,
			azure.ReadOptions{Calls: c.calls, Life: c.life}) {
			doubted[name] = true
		}
	}
	if len(doubted) == 0 {
		return p
	}
	return p.Only(func(change plan.Change) bool {
		return change.Verb != plan.Delete || !doubted[change.Cluster]
	}, func(arm.ID) *inventory.RouteTable { return table })
}

// Package survey reads what commands must know before they know a config. That is the network
// around clusters, the configs that init would propose for them, and the resources that configs
// name. It must not write, and decides nothing: package plan proposes.
package survey

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/observe"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Places returns where the resources of a config are: its cluster, or without one the subnets and
// the table that it names.
func Places(c v1alpha1.ClusterRoutes) (ids []arm.ID) {
	if !c.Clusterless() {
		return []arm.ID{arm.ID(c.Spec.ClusterID)}
	}
	for _, g := range c.Spec.Guard.Subnets {
		ids = append(ids, arm.ID(g.SubnetID))
	}
	if table := c.Spec.Egress.RouteTableID; table != "" {
		ids = append(ids, arm.ID(table))
	}
	return ids
}

// Around reads the network around certain clusters or other resources, or around all clusters of
// the scope. If the login may not list a subscription, it tries the resource groups around the
// clusters: their own, the node resource groups, and the groups of existing node subnets. These
// groups may also be in other subscriptions.
func Around(ctx context.Context, client *azure.Client, scope arm.ID,
	places []arm.ID) (*inventory.Snapshot, error) {
	if len(places) == 0 {
		s, err := client.Survey(ctx, scope)
		if err == nil && len(s.Clusters) == 0 {
			for _, u := range s.Unread {
				if u.Code == "SubscriptionNotFound" {
					return nil, fmt.Errorf("subscription %s does not exist, "+
						"or this login may not read it (az account list)", u.ID.Subscription())
				}
			}
			err = errors.New("no AKS cluster is seen in " + string(scope))
			if lines := NotSeen(s); len(lines) > 0 { // the other lines mostly say the same
				err = fmt.Errorf("%w; not seen: %s", err, lines[0])
			}
		}
		return s, err
	}
	read := inventory.NewSnapshot()
	clusters := slices.DeleteFunc(slices.Clone(places), func(id arm.ID) bool {
		return !id.Is(arm.TypeCluster)
	})
	if err := client.Read(ctx, read, inventory.Wanted{Clusters: clusters},
		azure.ReadOptions{}); err != nil {
		return nil, err
	}
	var subscriptions, groups []arm.ID
	around := func(ids ...arm.ID) {
		for _, id := range ids {
			subscriptions = append(subscriptions, id.SubscriptionID())
			groups = append(groups, id.Group())
		}
	}
	for _, id := range places {
		around(id)
		if cluster := read.Cluster(id); cluster != nil {
			groups = append(groups, cluster.NodeGroup())
			around(cluster.ExistingSubnets()...)
		}
	}
	s, err := client.Survey(ctx, subscriptions...)
	notListed := func(u inventory.Unread) bool { return !u.Undecoded() }
	if err == nil && slices.ContainsFunc(slices.Collect(maps.Values(s.Unread)), notListed) {
		s, err = client.Survey(ctx, groups...)
	}
	if err != nil {
		return nil, err
	}
	maps.Copy(s.Clusters, read.Clusters)
	maps.Copy(s.Unread, read.Unread)
	return s, nil
}

// Of works like Around, and returns an error if one of certain clusters does not exist.
func Of(ctx context.Context, client *azure.Client, scope arm.ID, ones []arm.ID) (
	*inventory.Snapshot, error) {
	s, err := Around(ctx, client, scope, ones)
	for _, one := range ones {
		if err == nil && s.Cluster(one) == nil {
			u := s.Unread[one.Key()]
			err = fmt.Errorf("cluster %s: %s", one, u.Reason())
		}
	}
	return s, err
}

// NotSeen returns a line for each resource that could not be read, with the reason, except for some
// types.
func NotSeen(s *inventory.Snapshot, but ...string) []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(s.Unread)) {
		if u := s.Unread[key]; !u.Absent && !slices.ContainsFunc(but, u.ID.Is) {
			lines = append(lines, fmt.Sprintf("%s: %s", u.ID, u.Reason()))
		}
	}
	return lines
}

// Propose makes proposals for certain clusters, or for all. It reads what it needs to find the
// clusters' route tables.
func Propose(ctx context.Context, client *azure.Client, s *inventory.Snapshot,
	clusters []arm.ID) ([]plan.Proposal, error) {
	var all []plan.Proposal
	err := observe.Until(ctx, reading(client, s), func() (want inventory.Wanted) {
		all = plan.Propose(s)
		if len(clusters) > 0 {
			all = slices.DeleteFunc(all, func(p plan.Proposal) bool {
				return !slices.ContainsFunc(clusters, p.Cluster.Equal)
			})
		}
		for _, p := range all {
			want.Add(p.Want)
		}
		return want
	})
	return all, err
}

// Configured reads the resources in the configs that the survey did not show, and what it needs to
// find the clusters' route tables.
func Configured(ctx context.Context, client *azure.Client, s *inventory.Snapshot,
	configs []v1alpha1.ClusterRoutes) error {
	read := reading(client, s)
	subnets := observe.Subnets(s, configs)
	for _, c := range configs { // also of clusters without kubenet: a diagnosis shows their subnets
		if cluster := s.Cluster(arm.ID(c.Spec.ClusterID)); cluster != nil {
			subnets = append(subnets, s.NodeSubnetIDs(cluster)...)
		}
	}
	if err := read(ctx, inventory.Wanted{Subnets: observe.Untried(s, subnets),
		Tables: observe.Tables(s, configs, nil)}); err != nil {
		return err
	}
	sources, err := observe.Sources(ctx, plan.Facts{Snapshot: s}, configs, plan.TakenBy(configs),
		read)
	if err != nil {
		return err
	}
	want := inventory.Wanted{Tables: observe.Untried(s, sources)}
	for _, c := range configs {
		want.AddAppliance(arm.ID(c.Spec.Egress.FirewallID))
	}
	return read(ctx, want)
}

// reading returns a function that reads into a snapshot, without a deadline.
func reading(client *azure.Client, s *inventory.Snapshot) observe.Read {
	return func(ctx context.Context, w inventory.Wanted) error {
		return client.Read(ctx, s, w, azure.ReadOptions{})
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// survey looks at the surroundings of clusters, or of all in the scope. Where a subscription cannot be listed, the clusters' own
// surroundings may be: their groups, node resource groups, and the groups of their node subnets; and those may be in other subscriptions
// in any case.
func survey(ctx context.Context, client *azure.Client, scope network.ID, clusters []network.ID) (*network.Snapshot, error) {
	if len(clusters) == 0 {
		s, err := client.Survey(ctx, scope)
		if err == nil && len(s.Clusters) == 0 {
			err = errors.New("no AKS cluster is seen in " + string(scope))
			if lines := notSeen(s); len(lines) > 0 { // one of them says why; the others mostly say the same
				err = fmt.Errorf("%w; not seen: %s", err, lines[0])
			}
		}
		return s, err
	}
	read := network.NewSnapshot()
	if err := client.Read(ctx, read, network.Wanted{Clusters: clusters}, azure.ReadOptions{}); err != nil {
		return nil, err
	}
	var subscriptions, groups []network.ID
	around := func(ids ...network.ID) {
		for _, id := range ids {
			subscriptions = append(subscriptions, network.ID("/subscriptions/"+id.Subscription()))
			groups = append(groups, id.Group())
		}
	}
	for _, id := range clusters {
		around(id)
		if cluster := read.Cluster(id); cluster != nil {
			groups = append(groups, cluster.NodeGroup())
			around(cluster.BroughtSubnets()...)
		}
	}
	s, err := client.Survey(ctx, subscriptions...)
	if err == nil && len(s.Unread) > 0 {
		s, err = client.Survey(ctx, groups...)
	}
	if err != nil {
		return nil, err
	}
	maps.Copy(s.Clusters, read.Clusters)
	maps.Copy(s.Unread, read.Unread)
	return s, nil
}

// surveyOne is survey where the one cluster that is meant, if one is, has to be there.
func surveyOne(ctx context.Context, client *azure.Client, scope, one network.ID) (*network.Snapshot, error) {
	if one == "" {
		return survey(ctx, client, scope, nil)
	}
	s, err := survey(ctx, client, scope, []network.ID{one})
	if err == nil && s.Cluster(one) == nil {
		u := s.Unread[one.Key()]
		err = fmt.Errorf("cluster %s: %s", one, u.Reason())
	}
	return s, err
}

// notSeen says what could not be looked at, and why, one line each.
func notSeen(s *network.Snapshot) []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(s.Unread)) {
		if u := s.Unread[key]; !u.Absent {
			lines = append(lines, fmt.Sprintf("%s: %s", u.ID, u.Reason()))
		}
	}
	return lines
}

// proposals makes the proposals for the clusters, or for all where none are given, reading what it takes to find their own tables.
func proposals(ctx context.Context, client *azure.Client, s *network.Snapshot, clusters []network.ID) ([]plan.Proposal, error) {
	for {
		all := plan.Propose(s)
		if len(clusters) > 0 {
			all = slices.DeleteFunc(all, func(p plan.Proposal) bool { return !slices.ContainsFunc(clusters, p.Cluster.Equal) })
		}
		wants := make([]network.Wanted, len(all))
		for i, p := range all {
			wants[i] = p.Want
		}
		if more, err := readMore(ctx, client, s, wants); err != nil || !more {
			return all, err
		}
	}
}

// readMore reads what discovering the clusters' own tables still takes, and reports whether it was anything.
func readMore(ctx context.Context, client *azure.Client, s *network.Snapshot, wants []network.Wanted) (bool, error) {
	var all network.Wanted
	for _, w := range wants {
		all.Written = append(all.Written, w.Written...)
		all.Managed = append(all.Managed, w.Managed...)
		all.Tables = append(all.Tables, w.Tables...)
	}
	if all.Empty() {
		return false, nil
	}
	return true, client.Read(ctx, s, all, azure.ReadOptions{})
}

// settle reads what the configs name and the survey has not shown, and what it takes to find the clusters' own tables.
func settle(ctx context.Context, client *azure.Client, s *network.Snapshot, configs []v1alpha1.ClusterRoutes) error {
	var named network.Wanted
	want := func(list *[]network.ID, id network.ID, there bool) {
		if _, tried := s.Unread[id.Key()]; !there && !tried {
			*list = append(*list, id)
		}
	}
	for _, c := range configs {
		for _, t := range c.Spec.Targets {
			want(&named.Tables, network.ID(t.RouteTableID), s.Table(network.ID(t.RouteTableID)) != nil)
		}
		for _, g := range c.Spec.Guard.Subnets {
			want(&named.Tables, network.ID(g.RouteTableID), s.Table(network.ID(g.RouteTableID)) != nil)
			want(&named.Subnets, network.ID(g.SubnetID), s.Subnet(network.ID(g.SubnetID)) != nil)
		}
		if cluster := s.Cluster(network.ID(c.Spec.ClusterID)); cluster != nil {
			for _, id := range s.NodeSubnetIDs(cluster) {
				want(&named.Subnets, id, s.Subnet(id) != nil)
			}
		}
	}
	if err := client.Read(ctx, s, named, azure.ReadOptions{}); err != nil {
		return err
	}
	taken := plan.TakenBy(configs)
	for {
		wants := make([]network.Wanted, len(configs))
		var sources []network.ID
		for i := range configs {
			d := plan.Discover(s, &configs[i], taken)
			wants[i] = d.Want
			want(&sources, d.Table, d.Table == "" || s.Table(d.Table) != nil)
		}
		wants = append(wants, network.Wanted{Tables: network.SortIDs(sources)})
		more, err := readMore(ctx, client, s, wants)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	return nil
}

// lookAround surveys a scope, telling a person that it takes a while.
func (a *app) lookAround(ctx context.Context, scope, one network.ID) (*network.Snapshot, error) {
	progress := a.progress(ctx, "looking at "+scope.Name())
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return nil, err
	}
	return surveyOne(ctx, client, scope, one)
}

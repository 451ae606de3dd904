package cli

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

// survey looks at the surroundings of clusters, or of all in the scope. Where a subscription cannot be listed, the clusters' own
// surroundings may be: their groups, node resource groups, and the groups of their node subnets; and those may be in other subscriptions
// in any case.
func survey(ctx context.Context, client *azure.Client, scope arm.ID, clusters []arm.ID) (*inventory.Snapshot, error) {
	if len(clusters) == 0 {
		s, err := client.Survey(ctx, scope)
		if err == nil && len(s.Clusters) == 0 {
			for _, u := range s.Unread {
				if u.Code == "SubscriptionNotFound" {
					return nil, fmt.Errorf("subscription %s does not exist, or this login may not read it (az account list)", u.ID.Subscription())
				}
			}
			err = errors.New("no AKS cluster is seen in " + string(scope))
			if lines := notSeen(s); len(lines) > 0 { // one of them says why; the others mostly say the same
				err = fmt.Errorf("%w; not seen: %s", err, lines[0])
			}
		}
		return s, err
	}
	read := inventory.NewSnapshot()
	if err := client.Read(ctx, read, inventory.Wanted{Clusters: clusters}, azure.ReadOptions{}); err != nil {
		return nil, err
	}
	var subscriptions, groups []arm.ID
	around := func(ids ...arm.ID) {
		for _, id := range ids {
			subscriptions = append(subscriptions, arm.ID("/subscriptions/"+id.Subscription()))
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
func surveyOne(ctx context.Context, client *azure.Client, scope, one arm.ID) (*inventory.Snapshot, error) {
	if one == "" {
		return survey(ctx, client, scope, nil)
	}
	s, err := survey(ctx, client, scope, []arm.ID{one})
	if err == nil && s.Cluster(one) == nil {
		u := s.Unread[one.Key()]
		err = fmt.Errorf("cluster %s: %s", one, u.Reason())
	}
	return s, err
}

// notSeen says what could not be looked at, and why, one line each.
func notSeen(s *inventory.Snapshot) []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(s.Unread)) {
		if u := s.Unread[key]; !u.Absent {
			lines = append(lines, fmt.Sprintf("%s: %s", u.ID, u.Reason()))
		}
	}
	return lines
}

// proposals makes the proposals for the clusters, or for all where none are given, reading what it takes to find their own tables.
func proposals(ctx context.Context, client *azure.Client, s *inventory.Snapshot, clusters []arm.ID) ([]plan.Proposal, error) {
	var all []plan.Proposal
	err := observe.Until(ctx, reading(client, s), func() (want inventory.Wanted) {
		all = plan.Propose(s)
		if len(clusters) > 0 {
			all = slices.DeleteFunc(all, func(p plan.Proposal) bool { return !slices.ContainsFunc(clusters, p.Cluster.Equal) })
		}
		for _, p := range all {
			want.Add(p.Want)
		}
		return want
	})
	return all, err
}

// settle reads what the configs name and the survey has not shown, and what it takes to find the clusters' own tables.
func settle(ctx context.Context, client *azure.Client, s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes) error {
	read := reading(client, s)
	subnets := observe.Subnets(s, configs)
	for _, c := range configs { // of clusters that are not kubenet, too: a diagnosis shows them
		if cluster := s.Cluster(arm.ID(c.Spec.ClusterID)); cluster != nil {
			subnets = append(subnets, s.NodeSubnetIDs(cluster)...)
		}
	}
	if err := read(ctx, inventory.Wanted{Subnets: observe.Untried(s, subnets), Tables: observe.Tables(s, configs, nil)}); err != nil {
		return err
	}
	sources, err := observe.Sources(ctx, plan.Facts{Snapshot: s}, configs, plan.TakenBy(configs), read)
	if err != nil {
		return err
	}
	return read(ctx, inventory.Wanted{Tables: observe.Untried(s, sources)})
}

// reading reads into a snapshot, as long as it takes.
func reading(client *azure.Client, s *inventory.Snapshot) observe.Read {
	return func(ctx context.Context, w inventory.Wanted) error {
		return client.Read(ctx, s, w, azure.ReadOptions{})
	}
}

// lookAround surveys a scope, telling a person that it takes a while.
func (a *app) lookAround(ctx context.Context, scope, one arm.ID) (*inventory.Snapshot, error) {
	progress := a.progress(ctx, "looking at "+scope.Name())
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return nil, err
	}
	return surveyOne(ctx, client, scope, one)
}

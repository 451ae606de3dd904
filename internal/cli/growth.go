package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/survey"
)

// runGrowth reports how far the pools of a cluster can grow.
func runGrowth(ctx context.Context, a *app, o capacityOptions) error {
	surge, err := capacity.ParseSurge(o.surge)
	if err != nil {
		return fmt.Errorf("--surge: %w", err)
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	s, cluster, err := clusterToGrow(ctx, a, o)
	if err != nil {
		return err
	}
	pools, unseen, err := diagnose.Pools(s, cluster, surge, o.maxRoutes)
	if err != nil {
		return err
	}
	growth := capacity.Grow(pools)
	if err := (report.Growth{Pools: growth, Unseen: unseen}).Write(w, format, style); err != nil {
		return err
	}
	short := func(g capacity.Growth) bool { return g.Enough != nil && !*g.Enough }
	if slices.ContainsFunc(growth, short) {
		return attention
	}
	return nil
}

// clusterToGrow reads the cluster: from a bundle, or from Azure by its ID.
func clusterToGrow(ctx context.Context, a *app, o capacityOptions) (*inventory.Snapshot,
	*inventory.Cluster, error) {
	if o.bundle != "" {
		e, err := openBundle(ctx, examineOptions{initOptions: initOptions{cluster: o.cluster},
			bundle: o.bundle})
		if err != nil {
			return nil, nil, err
		}
		if names := e.names(); len(names) != 1 {
			return nil, nil, fmt.Errorf("--from-bundle: %s: several clusters are in it, name one "+
				"with --cluster: %s", o.bundle, strings.Join(names, ", "))
		}
		return e.Snapshot, e.Snapshot.Cluster(e.Clusters[0]), nil
	}
	in := initOptions{cluster: o.cluster}
	if err := in.check(); err != nil {
		return nil, nil, err
	}
	progress := a.progress(ctx, "reading the cluster")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return nil, nil, err
	}
	scope, one, err := in.find(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	s, err := survey.Of(ctx, client, scope, only(one))
	if err != nil {
		return nil, nil, err
	}
	return s, s.Cluster(one), nil
}

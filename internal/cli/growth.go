package cli

import (
	"context"
	"fmt"
	"strconv"

	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/report"
)

// runGrowth tells how far the pools of a cluster can grow.
func (a *app) runGrowth(ctx context.Context, o capacityOptions) error {
	scope, one, err := initOptions{cluster: o.cluster}.scope()
	if err != nil {
		return err
	}
	surge, err := capacity.ParseSurge(o.surge)
	if err != nil {
		return fmt.Errorf("--surge: %w", err)
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	s, err := a.lookAround(ctx, scope, one)
	if err != nil {
		return err
	}
	pools, unseen, err := diagnose.Pools(s, s.Cluster(one), surge, o.maxRoutes)
	if err != nil {
		return err
	}
	growth := capacity.Grow(pools)
	t := report.Table{Header: []string{"pool", "nodes", "at most", "for upgrades", "limited by", "autoscaler", "enough"}, Lines: unseen, Value: map[string]any{"pools": growth}}
	short := false
	for _, g := range growth {
		row := []string{g.Pool, strconv.Itoa(g.Nodes), strconv.Itoa(g.Most), strconv.Itoa(g.Surge), g.LimitedBy, "-", "-"}
		if g.Enough != nil {
			row[5], row[6] = strconv.Itoa(g.Autoscaler), map[bool]string{true: "yes", false: "no"}[*g.Enough]
			short = short || !*g.Enough
		}
		t.Rows = append(t.Rows, row)
	}
	if err := t.Write(w, format, style); err != nil {
		return err
	}
	if short {
		return attention
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"log/slog"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/report"
)

// fix shows the changes that the configs allow, asks, and makes them. It returns nil if there is
// nothing to change, or if the answer was no. It changes only what the named clusters require.
func fix(ctx context.Context, a *app, client *azure.Client, paths []string,
	configs []v1alpha1.ClusterRoutes, names []string, yes bool, show func(report.Result) error) (
	*report.Result, error) {
	planned, err := keeper.New(client, configs,
		usualHistory.preview(paths, keeper.Options{})).Reconcile(ctx)
	if err != nil {
		return nil, err
	}
	planned = ofClusters(planned, names)
	planned.OnlyObserved = nil // doctor shows what it fixes
	preview := reportOf(planned, len(configs))
	preview.Findings = nil // they were just printed
	if err := show(preview); err != nil || len(planned.Changes) == 0 {
		return nil, err
	}
	if !yes {
		if yes, err = a.confirm("Make these changes?"); err != nil || !yes {
			return nil, err
		}
	}
	past, err := usualHistory.open(paths, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer past.Close()
	result, err := keeper.New(client, configs, past.With(keeper.Options{
		Only: confirmed(planned.Changes)})).Reconcile(ctx)
	if err != nil && len(result.Changes) == 0 {
		return nil, err
	}
	result = ofClusters(result, names)
	result.OnlyObserved = nil
	made := reportOf(result, len(configs))
	return &made, errors.Join(err, show(made))
}

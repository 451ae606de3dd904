package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/migrate"
	"routekeeper.dev/routekeeper/internal/report"
)

// watchOptions are the options of migrate watch.
type watchOptions struct {
	examineOptions
	interval time.Duration
	once     bool
}

func newMigrateWatch(a *app) *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch CLUSTER",
		Short: "Follow a cluster's migration: which nodes have moved, what is left",
		Long: `Follows the migration of a cluster from kubenet to Azure CNI Overlay until it
has ended. It says which nodes have moved, which still have routes, whether one
of those routes is missing in a route table, and how long the surge settings can
make the remaining nodes wait. It writes a line whenever something changes, and
nothing to Azure: routekeeper run keeps the routes meanwhile.

It reads the nodes from the Kubernetes API (--kubeconfig). It remembers nothing,
so you can interrupt it and start it again. The history of routekeeper run has
the finding cluster-migrating from the first check to the last.

Exit code 0: all nodes have moved, or --once; 1: an error; 2: the operation has
ended, but nodes have not moved, or a route is missing.`,
		Example: `  routekeeper migrate watch shop
  routekeeper migrate watch shop --kubeconfig ~/.kube/config --once -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runMigrateWatch(cmd.Context(), a, o)
		},
	}
	examineFlags(a, cmd, &o.examineOptions, false)
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if err := args(cmd, given); err != nil {
			return err
		}
		if o.cluster == "" && len(given) != 1 {
			return fmt.Errorf("expected the name of one cluster")
		}
		return nil
	}
	durationFlag(cmd.Flags(), &o.interval, "interval", 10*time.Second, "time between two readings")
	cmd.Flags().BoolVar(&o.once, "once", false, "write the present state and end")
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

func runMigrateWatch(ctx context.Context, a *app, o watchOptions) error {
	if o.interval < time.Second {
		return fmt.Errorf("--interval: %v is too short, expected at least 1s", o.interval)
	}
	o.withoutRights = true
	w, format, style, err := a.stream()
	if err != nil {
		return err
	}
	last := ""
	for {
		p, err := progressOf(ctx, a, o.examineOptions)
		if err != nil && (last == "" || ctx.Err() != nil) {
			return err
		}
		var b strings.Builder
		if err != nil {
			fmt.Fprintln(&b, report.Plain(err.Error()))
		} else if err := (report.Migrating{Progress: p}).Write(&b, format, style); err != nil {
			return err
		}
		if text := b.String(); text != last {
			if _, err := fmt.Fprint(w, text); err != nil {
				return err
			}
			last = text
		}
		if err == nil && (o.once || p.Ended() || p.State == migrate.Unknown) {
			return conclusion(p)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(o.interval):
		}
	}
}

// conclusion returns the exit code for the last state.
func conclusion(p migrate.Progress) error {
	missing := false
	for _, n := range p.Nodes {
		missing = missing || len(n.Missing) > 0
	}
	return attentionIf(p.State == migrate.Stalled || p.State == migrate.Unknown || missing, nil)
}

// progressOf reads how far the cluster's migration is.
func progressOf(ctx context.Context, a *app, o examineOptions) (migrate.Progress, error) {
	progress := a.progress(ctx, "reading the cluster")
	defer progress.stop()
	e, err := a.examine(ctx, o, progress)
	if err != nil {
		return migrate.Progress{}, err
	}
	if len(e.Clusters) != 1 || e.Snapshot.Cluster(e.Clusters[0]) == nil {
		return migrate.Progress{}, fmt.Errorf("expected one cluster, found %d", len(e.Clusters))
	}
	return migrate.Follow(e.Snapshot, e.Clusters[0]), nil
}

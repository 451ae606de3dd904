package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/provision"
	"routekeeper.dev/routekeeper/internal/report"
)

type deleteOptions struct {
	source      clusterSource
	clusterOnly bool
	yes         string
	dryRun      bool
}

func (a *app) newClusterDelete() *cobra.Command {
	var o deleteOptions
	cmd := &cobra.Command{
		Use:   "delete {NAME --subscription ID | -f FILE} [--yes NAME]",
		Short: "Delete a cluster with all that create made for it",
		Long: `Deletes a cluster that cluster create has built: the cluster with all that AKS
made for it, gateway, address, role assignments, role, identity, network, route
tables, and the resource group where nothing else is in it. It shows what goes
and what stays, and asks for the cluster's name. What carries another owner's
tag or none, and what create adopted, stays.

Run it again after a failure: what is gone is no error. After a create that did
not end it takes away what there is. Routes that were copied to other teams'
tables are not among it: set onRemoval: Prune in the config of the running
keeper, or run prune-orphans.

Exit code 0: deleted, or nothing is left; 1: an error; 2: with --dry-run there
is something to delete, or the answer was another name.`,
		Example: `  routekeeper cluster delete shop --subscription <id> --dry-run
  routekeeper cluster delete shop --subscription <id> --yes shop
  routekeeper cluster delete shop --subscription <id> --cluster-only
  routekeeper cluster delete -f cluster.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runClusterDelete(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	c := &o.source.described.Spec
	f.StringVar(&c.Subscription, "subscription", "", "subscription `ID`")
	f.StringVarP(&c.ResourceGroup, "resource-group", "g", "", "resource group (default NAME-rg)")
	a.clusterSource(cmd, &o.source, "subscription")
	f.BoolVar(&o.clusterOnly, "cluster-only", false, "delete the cluster only, and keep network, identity and gateway")
	f.StringVar(&o.yes, "yes", "", "do it without asking; `NAME` is the cluster's")
	f.BoolVar(&o.dryRun, "dry-run", false, "show it and delete nothing")
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

func (a *app) runClusterDelete(ctx context.Context, o deleteOptions) error {
	c, err := a.readSource(&o.source, build.Named)
	if err != nil {
		return err
	}
	if o.yes != "" && o.yes != c.Name {
		return fmt.Errorf("--yes: %q is not %q, the name of the cluster", o.yes, c.Name)
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "reading what is there")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	planned, err := provision.PreviewDelete(ctx, client, c, o.clusterOnly)
	if err != nil {
		return err
	}
	progress.stop()
	told := removing(c, planned)
	if format == report.Text || o.dryRun || !told.Pending() {
		if err := told.Write(w, format, style); err != nil {
			return err
		}
	}
	if !told.Pending() {
		return nil
	}
	if o.dryRun {
		fmt.Fprintln(a.err, "nothing was deleted")
		return attention
	}
	if o.yes == "" {
		if err := a.confirmName(c.Name); err != nil {
			return err
		}
	}
	progress = a.progress(ctx, "deleting")
	defer progress.stop()
	tell := func(n, of int, r provision.Removal, elapsed time.Duration) {
		if r.Err == nil {
			took := report.Duration(elapsed.Truncate(100 * time.Millisecond))
			progress.say(fmt.Sprintf("[%d/%d] %s %sd (%s)", n, of, r.ID.Short(), r.Verb, took))
		}
	}
	removed, failed := provision.Delete(ctx, client, c, o.clusterOnly, tell)
	progress.stop()
	if format == report.JSON {
		err = removing(c, removed).Write(w, format, style)
	}
	if failed != nil {
		failed = fmt.Errorf("%w; the same command goes on from there", failed)
	}
	return errors.Join(failed, err)
}

// confirmName asks for the name of what is about to be deleted.
func (a *app) confirmName(name string) error {
	if !terminal(a.in) {
		return fmt.Errorf("nothing was deleted: standard input is not a terminal: expected --yes %s", name)
	}
	fmt.Fprint(a.err, "Type the cluster's name to delete this: ")
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(answer) != name {
		fmt.Fprintln(a.err, "nothing was deleted")
		return attention
	}
	return nil
}

// removing is what a report says of a removal.
func removing(c build.Cluster, all []provision.Removal) report.Building {
	b := report.Building{Cluster: string(c.ClusterID())}
	for _, r := range all {
		s := report.BuildStep{
			Verb: string(r.Verb), Kind: build.Word(r.ID), Resource: string(r.ID), Name: r.ID.Short(), Note: r.Why, State: "planned",
		}
		switch {
		case r.Err != nil:
			s.State, s.Error = "failed", r.Err.Error()
		case r.Done:
			s.State = "done"
		case r.Verb == build.Keep:
			s.State = "kept"
		}
		b.Steps = append(b.Steps, s)
	}
	return b
}

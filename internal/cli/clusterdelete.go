package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/provision"
	"routekeeper.dev/routekeeper/internal/report"
)

type deleteOptions struct {
	source      clusterSource
	configs     []string
	clusterOnly bool
	yes, dryRun bool
}

func newClusterDelete(a *app) *cobra.Command {
	var o deleteOptions
	cmd := &cobra.Command{
		Use:   "delete {NAME | -f FILE} [--yes]",
		Short: "Delete a cluster and everything that create made for it",
		Long: `Deletes a cluster that cluster create has built: the cluster with everything
that AKS made for it, gateway, address, role assignments, role, identity,
network, route tables, and the resource group if nothing else is in it. It shows
what it deletes and what stays, and asks for the cluster's name. With --yes it
does not ask, and expects NAME also with -f. Resources without the cluster's
owner tag, and adopted ones, stay.

It also deletes copies of the cluster's pod routes, from the targets of the
config that --config names and from the gateway's table. It proves each of these
deletes first: the cluster is gone, and no network interface has the next hop.

NAME is the cluster's name or ID. If the name repeats, or the cluster itself is
gone already, say with --subscription and -g where it was built.

You can run it again after a failure, or after a create that did not finish. At
the end it checks what is left: resources, associations, role assignments, alert
rules and copied routes.

Exit code 0: deleted, and nothing is left; 1: an error; 2: something is left, or
with --dry-run there is something to delete, or you typed another name.`,
		Example: `  routekeeper cluster delete shop --dry-run
  routekeeper cluster delete shop --yes
  routekeeper cluster delete shop --cluster-only --config routes.yaml
  routekeeper cluster delete shop --subscription <id>
  routekeeper cluster delete -f cluster.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runClusterDelete(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	c := &o.source.described.Spec
	f.StringVar(&c.Subscription, "subscription", "",
		"subscription `ID` (default: where the cluster is)")
	f.StringVarP(&c.ResourceGroup, "resource-group", "g", "",
		"resource `GROUP` (default: the cluster's, or NAME-rg with --subscription)")
	cmd.ValidArgsFunction = a.complete(a.clusterNames, 1)
	a.clusterSource(cmd, &o.source)
	f.StringArrayVar(&o.configs, "config", nil,
		"also delete its routes from the targets of this config (`FILE` or folder, repeatable)")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json")
	a.timeoutFlag(cmd)
	f.BoolVar(&o.clusterOnly, "cluster-only", false,
		"delete only the cluster; keep network, identity and gateway")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be deleted, and delete nothing")
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

func runClusterDelete(ctx context.Context, a *app, o deleteOptions) error {
	named := o.source.described.Metadata.Name != ""
	if o.yes && !named {
		return errors.New("--yes: expected the NAME of the cluster, too")
	}
	again, err := locateCluster(ctx, a, &o.source)
	if err != nil {
		return err
	}
	c, err := readClusterSource(a, &o.source, build.ReadNames)
	if err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "reading what exists")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	planned, err := provision.PreviewDelete(ctx, client, c, o.clusterOnly)
	if err != nil {
		return err
	}
	routes, err := copiesOf(ctx, a, client, c, o.configs, planned)
	if err != nil {
		return err
	}
	traces, err := provision.ReadTraces(ctx, client, c, planned)
	if err != nil {
		return err
	}
	progress.stop()
	told := removing(c, planned, routes, false)
	idle := !told.Pending() && routes.idle()
	if format == report.Text || o.dryRun || idle {
		if err := told.Write(w, format, style); err != nil {
			return err
		}
	}
	if idle {
		return nil
	}
	if o.dryRun {
		say(a.err, "nothing was deleted\n")
		return attention
	}
	if !o.yes {
		if err := confirmName(a, c.Name, named); err != nil {
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
	prune := func(ctx context.Context) error {
		progress.now("deleting the copies of its routes")
		return routes.prune(ctx, client, o.configs, progress.logger())
	}
	removed, failed := provision.Delete(ctx, client, c, o.clusterOnly, prune, tell)
	told = removing(c, removed, routes, failed == nil)
	if failed != nil {
		failed = fmt.Errorf("%w; run the same command again%s to continue", failed, again)
	} else {
		progress.now("looking for what is left")
		told.Left, told.Unchecked, failed = provision.Left(ctx, client, c, o.clusterOnly, traces)
		failed = errors.Join(failed, routes.check(ctx, client))
		told.Left = append(told.Left, routes.left...)
		told.Unchecked = append(told.Unchecked, routes.unread...)
	}
	progress.stop()
	if format == report.JSON {
		err = told.Write(w, format, style)
	}
	if err := errors.Join(failed, err); err != nil {
		return err
	}
	return tellLeft(a, told)
}

// locateCluster finds the subscription and the resource group of the cluster by its name or ID,
// unless a flag or a file names them. It returns the flags for another run, which cannot find the
// cluster once it is deleted.
func locateCluster(ctx context.Context, a *app, s *clusterSource) (again string, err error) {
	d := &s.described
	if len(s.files) > 0 || d.Spec.Subscription != "" {
		return "", nil
	}
	o := initOptions{cluster: d.Metadata.Name}
	if err := o.check(); err != nil {
		return "", err
	}
	progress := a.progress(ctx, "looking for the cluster")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return "", err
	}
	_, id, err := o.find(ctx, client)
	if err != nil {
		return "", fmt.Errorf("%w; to delete what is left of a cluster that is gone, add "+
			"--subscription", err)
	}
	d.Metadata.Name, d.Spec.Subscription = id.Name(), id.Subscription()
	if d.Spec.ResourceGroup == "" {
		d.Spec.ResourceGroup = id.ResourceGroup()
	}
	return " with --subscription " + id.Subscription() + " -g " + d.Spec.ResourceGroup, nil
}

// tellLeft prints what a delete has left behind, and what could not be checked.
func tellLeft(a *app, told report.Building) error {
	for _, what := range told.Left {
		say(a.err, "left: %s\n", what)
	}
	for _, what := range told.Unchecked {
		say(a.err, "not checked: %s\n", what)
	}
	switch {
	case len(told.Left) > 0:
		return attention
	case len(told.Unchecked) == 0:
		say(a.err, "%s\n", "nothing is left: no resource, association, role assignment, alert "+
			"rule or copied route")
	}
	return nil
}

// confirmName asks for the name of the cluster before it is deleted. named means that the command
// line has the name.
func confirmName(a *app, name string, named bool) error {
	if !terminal(a.in) {
		confirm := []string{name, "--yes"}
		if named {
			confirm = confirm[1:]
		}
		return fmt.Errorf("nothing was deleted: standard input is not a terminal; to confirm: %s",
			a.repeated(confirm...))
	}
	answer, err := a.answer("Type the cluster's name to delete this:")
	if err != nil {
		return err
	}
	if answer != name {
		say(a.err, "nothing was deleted\n")
		return attention
	}
	return nil
}

func removing(
	c build.Cluster, all []provision.Removal, routes *copies, executed bool,
) report.Building {
	b := report.Building{Cluster: string(c.ClusterID())}
	for _, r := range all {
		b.Steps = append(b.Steps, buildStep(r.ID, r.Verb, r.Why, r.Done, r.Err))
	}
	b.Steps = append(b.Steps, routes.steps(executed)...)
	return b
}

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
)

type promoteOptions struct {
	paths       []string
	guardOnly   bool
	targets     []string
	yes, dryRun bool
}

func (a *app) newPromote() *cobra.Command {
	var o promoteOptions
	cmd := &cobra.Command{
		Use:   "promote CLUSTER -f FILE [--yes]",
		Short: "Switch a config from Observe to Enforce and Sync, after a preview",
		Long: `Switches a cluster's config from observing to enforcing. It checks Azure once,
shows what a keeper would change now with the new config, and asks. Then it
edits the config file in place: where they say Observe, guard.mode becomes
Enforce and the targets' policy becomes Sync. Everything else in the file stays,
byte for byte.

promote changes nothing in Azure. A keeper that runs with the file reads it
without a restart, and makes the changes. routekeeper sync makes them once.

CLUSTER is metadata.name, or the ID of the cluster. Use --guard-only or --target
to go step by step. promote cannot edit a symbolic link or standard input.

Exit code 0: promoted, or nothing says Observe; 1: an error; 2: with --dry-run
there is something to promote, or you answered no.`,
		Example: `  routekeeper promote shop -f routes.yaml --dry-run
  routekeeper promote shop -f routes.yaml
  routekeeper promote shop -f routes.yaml --guard-only --yes
  routekeeper promote shop -f clusters/ --target appgw-rt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("expected the name of one cluster of the config")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runPromote(cmd.Context(), args[0], o)
		},
	}
	cmd.ValidArgsFunction = a.complete(a.configNames, 1)
	configFlag(cmd, &o.paths)
	f := cmd.Flags()
	f.BoolVar(&o.guardOnly, "guard-only", false, "promote the guard, and not the targets")
	f.StringArrayVar(&o.targets, "target", nil, "promote this target only (`NAME` of its table, "+
		"repeatable)")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the changes and write nothing")
	completeFlag(cmd, "target", a.complete(a.targetNames, 1))
	a.timeoutFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("guard-only", "target")
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

func (a *app) runPromote(ctx context.Context, cluster string, o promoteOptions) error {
	p, err := a.readPromotion(cluster, o)
	if err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	told := report.Promotion{Cluster: p.config.Metadata.Name, Edits: p.edits, AsItIs: p.asItIs(o)}
	if len(p.edits) == 0 {
		return told.Write(w, format, style)
	}
	progress := a.progress(ctx, "checking what enforcing would do now")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	k := keeper.New(client, p.configs, keeper.Options{DryRun: true, Log: progress.logger()})
	result, err := k.Reconcile(ctx)
	progress.stop()
	if err != nil {
		return err
	}
	told.Plan = reportOf(ofCluster(result, told.Cluster), 1)
	if format == report.Text {
		if err := told.Write(w, format, style); err != nil {
			return err
		}
	}
	yes, err := o.yes, error(nil)
	if !o.dryRun && !yes {
		yes, err = a.confirm("Write this to " + finding.Show(p.file.Name) + "?")
	}
	if yes && !o.dryRun {
		err = p.write()
		told.Written = err == nil
	}
	if format == report.JSON {
		err = errors.Join(told.Write(w, format, style), err)
	}
	switch {
	case err != nil:
		return fmt.Errorf("nothing was written: %w", err)
	case !told.Written:
		say(a.err, "nothing was written\n")
		return attention
	}
	say(a.err, "wrote %s; a running keeper reads it without a restart; otherwise: %s\n",
		p.file.Name, finding.Command("routekeeper sync -f %s", p.file.Name))
	return nil
}

// promotion is what promote will write.
type promotion struct {
	config  v1alpha1.ClusterRoutes   // as it was
	configs []v1alpha1.ClusterRoutes // all configs, after the edit
	file    config.File              // as it was
	text    []byte                   // as it will be
	edits   []config.Edit
}

// readPromotion reads the config, and makes the new text of the file that has the cluster.
func (a *app) readPromotion(cluster string, o promoteOptions) (*promotion, error) {
	if slices.Contains(o.paths, "-") {
		return nil, errors.New("-f: standard input cannot be edited: expected a file or a folder")
	}
	files, err := a.readFiles("-f", o.paths)
	if err != nil {
		return nil, err
	}
	before, err := config.Read(files...)
	if err != nil {
		return nil, err
	}
	p := &promotion{}
	at := slices.IndexFunc(before, func(c v1alpha1.ClusterRoutes) bool {
		return c.Metadata.Name == cluster || arm.ID(c.Spec.ClusterID).Equal(arm.ID(cluster))
	})
	if at < 0 {
		var names []string
		for _, c := range before {
			names = append(names, c.Metadata.Name)
		}
		return nil, fmt.Errorf("no cluster %s in the config%s", finding.Show(cluster),
			instead(cluster, names))
	}
	p.config = before[at]
	parts, err := o.parts(p.config)
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		text, edits, err := config.Promote(f, p.config.Metadata.Name, parts)
		if err != nil {
			return nil, err
		}
		if text != nil {
			p.file, p.text, p.edits = f, text, edits
			files[i].Data = text
		}
	}
	if len(p.edits) > 0 {
		if err := editable(p.file.Name); err != nil {
			return nil, err
		}
	}
	p.configs, err = config.Read(files...)
	return p, err
}

// parts returns the parts of the config that the flags name.
func (o promoteOptions) parts(c v1alpha1.ClusterRoutes) (config.Parts, error) {
	var names []string
	for _, t := range c.Spec.Targets {
		names = append(names, arm.ID(t.RouteTableID).Name())
	}
	named := func(id arm.ID, name string) bool {
		return strings.EqualFold(id.Name(), name) || id.Equal(arm.ID(name))
	}
	for _, name := range o.targets {
		is := func(t v1alpha1.Target) bool { return named(arm.ID(t.RouteTableID), name) }
		if !slices.ContainsFunc(c.Spec.Targets, is) {
			return config.Parts{}, fmt.Errorf("--target: %s is not a target of %s%s",
				finding.Show(name), c.Metadata.Name, instead(name, names))
		}
	}
	meant := func(id arm.ID) bool {
		return slices.ContainsFunc(o.targets, func(name string) bool { return named(id, name) })
	}
	switch {
	case o.guardOnly:
		return config.Parts{Guard: true, Target: func(arm.ID) bool { return false }}, nil
	case len(o.targets) > 0:
		return config.Parts{Target: meant}, nil
	}
	return config.Parts{Guard: true, Target: func(arm.ID) bool { return true }}, nil
}

// asItIs describes a config that has nothing to promote.
func (p *promotion) asItIs(o promoteOptions) (says []string) {
	if len(o.targets) == 0 {
		c := p.config
		says = append(says, fmt.Sprintf("guard.mode of %s is %s", c.Metadata.Name,
			c.Spec.Guard.Mode))
	}
	if !o.guardOnly {
		for _, t := range p.config.Spec.Targets {
			table := arm.ID(t.RouteTableID).Name()
			says = append(says, fmt.Sprintf("the policy of %s is %s", table, t.Policy))
		}
	}
	return says
}

// ofCluster is the part of a check that concerns one cluster, or no cluster in particular.
func ofCluster(r keeper.Result, name string) keeper.Result {
	other := func(cluster string) bool { return cluster != name && cluster != "" }
	outcome := func(o plan.Outcome) bool { return other(o.Cluster) }
	r.Changes = slices.DeleteFunc(r.Changes, outcome)
	r.OnlyObserved = slices.DeleteFunc(r.OnlyObserved, outcome)
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f finding.Finding) bool {
		return other(f.Cluster)
	})
	return r
}

// editable says why a file cannot be edited in place.
func editable(name string) error {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		to, _ := filepath.EvalSymlinks(name)
		return fmt.Errorf("%s is a link: name the file that it leads to with -f (%s)", name, to)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file: it cannot be edited in place", name)
	}
	return nil
}

// write replaces the file with the new text, as a whole. It refuses if another program has changed
// the file since it was read.
func (p *promotion) write() error {
	if now, err := input.ReadFile(p.file.Name, input.Text); err != nil {
		return err
	} else if !bytes.Equal(now, p.file.Data) {
		return fmt.Errorf("%s was changed in the meantime: promote again", p.file.Name)
	}
	if err := editable(p.file.Name); err != nil {
		return err
	}
	info, err := os.Stat(p.file.Name)
	if err != nil {
		return err
	}
	probe, err := os.OpenFile(p.file.Name, os.O_WRONLY, 0) // a read-only file must stay as it is
	if err != nil {
		return err
	}
	probe.Close()
	f, err := os.CreateTemp(filepath.Dir(p.file.Name), ".routekeeper-*")
	if err != nil {
		return err
	}
	_, err = f.Write(p.text)
	if err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), p.file.Name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

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
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
)

type promoteOptions struct {
	choice
	paths       []string
	guardOnly   bool
	targets     []string
	yes, dryRun bool
}

func newPromote(a *app) *cobra.Command {
	var o promoteOptions
	cmd := &cobra.Command{
		Use:   "promote {CLUSTER… | --all | --selector LABELS} -f FILE [--yes]",
		Short: "Switch clusters from Observe to Enforce and Sync, after a preview",
		Long: `Switches the config of clusters from observing to enforcing. It checks Azure
once, shows what a keeper would change now with the new config, counts its
writes, and asks once for all clusters. Then it edits the config files in place:
where they say Observe, guard.mode, guard.securityGroups and egress.mode become
Enforce and the targets' policy becomes Sync. Everything else in the files
stays, byte for byte. It stops at the first file that it cannot write, and says
which files are written.

promote changes nothing in Azure. A keeper that runs with the file reads it
without a restart, and makes the changes. routekeeper sync makes them once.

CLUSTER is metadata.name, or the name or ID of the cluster. To go step by step,
select by metadata.labels, such as ring: "1", or use --guard-only or --target.
promote cannot edit a symbolic link or standard input.

Exit code 0: promoted, or nothing says Observe; 1: an error; 2: with --dry-run
there is something to promote, or you answered no.`,
		Example: `  routekeeper promote shop -f routes.yaml --dry-run
  routekeeper promote shop -f routes.yaml
  routekeeper promote shop -f routes.yaml --guard-only --yes
  routekeeper promote shop web -f clusters/ --target appgw-rt
  routekeeper promote --selector ring=1 -f clusters/
  routekeeper promote --all -f clusters/`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !o.all && o.selector == "" {
				return errors.New("expected names of clusters of the config, --all or --selector")
			}
			return o.takeArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runPromote(cmd.Context(), a, o) },
	}
	cmd.ValidArgsFunction = a.complete(a.configNames, manyArguments)
	configFlag(cmd, &o.paths)
	o.choice.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.guardOnly, "guard-only", false, "promote only the guard, not targets and egress")
	f.StringArrayVar(&o.targets, "target", nil,
		"promote this target or egress only (`NAME` of its table, "+
			"repeatable)")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the changes and write nothing")
	completeFlag(cmd, "target", a.complete(a.targetNames, 1))
	a.timeoutFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("guard-only", "target")
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

func runPromote(ctx context.Context, a *app, o promoteOptions) error {
	p, err := readPromotion(a, o)
	if err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	told := report.Promotion{Clusters: p.names, Edits: p.edits, AsItIs: p.asItIs}
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
	told.Plan = reportOf(ofClusters(result, p.names), len(p.names))
	if format == report.Text {
		if err := told.Write(w, format, style); err != nil {
			return err
		}
	}
	var files []string
	for _, e := range p.written {
		files = append(files, finding.Show(e.file.Name))
	}
	yes, err := o.yes, error(nil)
	if !o.dryRun && !yes {
		yes, err = a.confirm("Write this to " + strings.Join(files, ", ") + "?")
	}
	done := 0
	if yes && !o.dryRun {
		done, err = p.write()
		told.Written = err == nil
	}
	if format == report.JSON {
		err = errors.Join(told.Write(w, format, style), err)
	}
	switch {
	case err != nil && done > 0:
		return fmt.Errorf("only %s was written: %w", strings.Join(files[:done], ", "), err)
	case err != nil:
		return fmt.Errorf("nothing was written: %w", err)
	case !told.Written:
		say(a.err, "nothing was written\n")
		return attention
	}
	say(a.err, "wrote %s; a running keeper reads it without a restart; otherwise: %s\n",
		strings.Join(files, ", "), finding.Command("routekeeper sync%s", finding.Config()))
	return nil
}

// promotion is what promote will write.
type promotion struct {
	names   []string
	configs []v1alpha1.ClusterRoutes // all configs, after the edits
	edits   []config.Edit
	written []editedFile
	asItIs  []string // why there is nothing to promote
}

// editedFile is a file before the edit, with its new text.
type editedFile struct {
	file config.File
	text []byte
}

// readPromotion reads the config, and prepares the new text of the files that have the clusters.
func readPromotion(a *app, o promoteOptions) (*promotion, error) {
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
	picked, err := o.pick(before, o.paths)
	if err != nil {
		return nil, err
	}
	p := &promotion{}
	parts := map[string]config.Parts{}
	for _, c := range picked {
		p.names = append(p.names, c.Metadata.Name)
		p.asItIs = append(p.asItIs, o.asItIs(c)...)
		if parts[c.Metadata.Name], err = o.parts(c); err != nil {
			return nil, err
		}
	}
	after := slices.Clone(files)
	for i, f := range files {
		text, edits, err := config.Promote(f, parts)
		if err != nil {
			return nil, err
		}
		if len(edits) == 0 {
			continue
		}
		if err := editable(f.Name); err != nil {
			return nil, err
		}
		after[i].Data = text
		p.edits = append(p.edits, edits...)
		p.written = append(p.written, editedFile{f, text})
	}
	p.configs, err = config.Read(after...)
	return p, err
}

// parts returns the parts of the config that the flags name.
func (o promoteOptions) parts(c v1alpha1.ClusterRoutes) (config.Parts, error) {
	var names []string
	tables := tablesOf(c)
	for _, id := range tables {
		names = append(names, id.Name())
	}
	named := func(id arm.ID, name string) bool {
		return strings.EqualFold(id.Name(), name) || id.Equal(arm.ID(name))
	}
	for _, name := range o.targets {
		is := func(id arm.ID) bool { return named(id, name) }
		if !slices.ContainsFunc(tables, is) {
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

// tablesOf returns the tables that --target can name: the targets, and the table of the egress.
func tablesOf(c v1alpha1.ClusterRoutes) (ids []arm.ID) {
	for _, t := range c.Spec.Targets {
		ids = append(ids, arm.ID(t.RouteTableID))
	}
	if id := c.Spec.Egress.RouteTableID; id != "" && !plan.WatchesOwn(c) {
		ids = append(ids, arm.ID(id))
	}
	return inventory.SortIDs(ids)
}

// asItIs describes a config that has nothing to promote.
func (o promoteOptions) asItIs(c v1alpha1.ClusterRoutes) (says []string) {
	if len(o.targets) == 0 {
		says = append(says,
			fmt.Sprintf("guard.mode of %s is %s", c.Metadata.Name, c.Spec.Guard.Mode))
		if c.Spec.Guard.Mode == v1alpha1.GuardEnforce &&
			c.Spec.Guard.OfGroups() == v1alpha1.GuardObserve && plan.GuardsGroups(c.Spec.Guard) {
			says = append(says, "guard.securityGroups is Observe by default (write "+
				"securityGroups: Enforce under guard to promote it)")
		}
	}
	if !o.guardOnly {
		for _, t := range c.Spec.Targets {
			table := arm.ID(t.RouteTableID).Name()
			says = append(says, fmt.Sprintf("the policy of %s is %s", table, t.Policy))
		}
		switch e := c.Spec.Egress; {
		case e.Mode == "", plan.WatchesOwn(c):
		case e.Mode == v1alpha1.GuardObserve:
			says = append(says, "egress.mode is Observe by default (write mode: Enforce under "+
				"egress to promote it)")
		default:
			says = append(says, "egress.mode is "+string(e.Mode))
		}
	}
	return says
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

// write replaces the files with their new text. It stops at the first file that it cannot write,
// and returns how many it has written.
func (p *promotion) write() (done int, err error) {
	for _, e := range p.written {
		if err := e.write(); err != nil {
			return done, err
		}
		done++
	}
	return done, nil
}

// write replaces the file with the new text, as a whole. It refuses if another program has changed
// the file since it was read.
func (e editedFile) write() error {
	if now, err := input.ReadFile(e.file.Name, input.Text); err != nil {
		return err
	} else if !bytes.Equal(now, e.file.Data) {
		return fmt.Errorf("%s was changed in the meantime: promote again", e.file.Name)
	}
	if err := editable(e.file.Name); err != nil {
		return err
	}
	f, err := replaceWhole(e.file.Name, true)
	if err != nil {
		return input.Unwritten(e.file.Name, err)
	}
	_, err = f.Write(e.text)
	if err := errors.Join(err, f.Sync(), f.finish(err != nil)); err != nil {
		return input.Unwritten(e.file.Name, err)
	}
	return nil
}

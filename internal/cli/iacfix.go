package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/report"
)

func newIaCFix(a *app) *cobra.Command {
	var o iacOptions
	var write bool
	cmd := &cobra.Command{
		Use:   "fix PATH",
		Short: "Repair infrastructure code so that it keeps route tables and pod routes",
		Long: `Shows the smallest change of the code that repairs what iac check finds. With
--write it changes the files; comments and layout stay.

PATH is one of these:
  a plan           (terraform show -json) with its .tf files in the same folder
                   or in --source: a block gets the route table it must name
  a folder         of .tf files, which do not show the right route table: the
                   blocks get ignore_changes
  an ARM template  with its parameter files, or a Bicep file: a subnet gets the
                   route table that the file gives it elsewhere, or keeps the
                   one it has, which is read first; a network that lists no
                   subnets gets an api-version that leaves subnets alone

fix repairs only findings at or above --fail-on. Say with --subnet, -f or --live
which subnets pods need. It reports, and leaves, what a program should not
decide. Afterwards, run terraform plan again, and iac check on the new plan.
It does not change Kubernetes manifests: iac check says what to write there.

Exit code 0: nothing to change, or everything is changed; 1: an error; 2: there
are changes to make, or something is left.`,
		Example: `  routekeeper iac fix plan.json --subnet nodes
  routekeeper iac fix infra/ --subnet nodes --write
  routekeeper iac fix main.bicep --subnet nodes
  routekeeper iac fix main.json main.parameters.json --subnet nodes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "-" {
				return errors.New("expected one plan, template, Bicep file or folder")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			names, parameters, err := splitParameters(args)
			if err == nil && len(names) > 1 {
				err = errors.New("expected one plan, template, Bicep file or folder")
			}
			if err != nil {
				return err
			}
			return runIaCFix(cmd.Context(), a, o, names[0], parameters, write)
		},
	}
	iacFlags(cmd, &o)
	cmd.Flags().BoolVar(&write, "write", false, "change the files; without it, only show the "+
		"changes")
	return cmd
}

func runIaCFix(ctx context.Context, a *app, o iacOptions, name string, parameters []iac.File,
	write bool) error {
	var from finding.Severity
	if err := from.UnmarshalText([]byte(o.failOn)); err != nil {
		return fmt.Errorf("--fail-on: %w", err)
	}
	if err := checkSource(o.source); err != nil {
		return err
	}
	if filepath.Ext(name) == ".bicep" {
		return fixBicep(a, o, name, write)
	}
	deployed := iac.TemplateOptions{Parameters: parameters}
	deployed.Where.Subscription, deployed.Where.ResourceGroup = o.subscription, o.group
	parts, err := readIaC(ctx, a, name, o.source, deployed)
	if err != nil {
		return inFile(name, err)
	}
	part, err := repairable(name, parts)
	if err != nil {
		return err
	}
	reading := part.Reading
	for _, other := range parts {
		if other.Reading != reading {
			say(a.err, "routekeeper: %s in %s: left as it is\n", other.Format,
				report.Plain(other.Name))
		}
	}
	if reading.Format == iac.ARMTemplate {
		return fixTemplate(ctx, a, o, name, deployed, reading, write)
	}
	dir := o.source
	if info, err := os.Stat(name); dir == "" && err == nil && info.IsDir() {
		dir = name
	} else if dir == "" {
		dir = filepath.Dir(name)
	}
	source, err := readSource(dir)
	if err != nil {
		return err
	}
	known, err := knownOf(ctx, a, o, reading)
	if err != nil {
		return err
	}
	findings, repairs := reading.Repairs(known, from)
	edits, why := source.Fix(repairs)
	if _, err := source.Apply(edits); err != nil {
		return fmt.Errorf("nothing is changed, because the repair would break the code: %w", err)
	}
	told := report.Repairs{Found: len(findings), Files: len(edits), Written: write,
		Next: "run terraform plan again, and check it"}
	for i, f := range findings {
		if why[i] != "" {
			told.Left = append(told.Left, report.LeftFinding(f, why[i]))
		}
	}
	return showRepairs(a, told, edits)
}

// repairable returns the part of a file or folder that iac fix repairs: the file, or the
// configuration of the folder itself.
func repairable(name string, parts []iac.Part) (iac.Part, error) {
	for _, p := range parts {
		if p.Name == name && p.Format != iac.Manifests {
			return p, nil
		}
	}
	for _, p := range parts {
		if p.Format != iac.Manifests {
			return p, fmt.Errorf("%s: its code is in other folders: name one of them, or a "+
				"template, such as %s", name, p.Name)
		}
	}
	return iac.Part{}, fmt.Errorf("%s: iac fix does not change %s: iac check says per resource "+
		"what to write", name, parts[0].Format)
}

// fixTemplate repairs an ARM template.
func fixTemplate(ctx context.Context, a *app, o iacOptions, name string,
	deployed iac.TemplateOptions, reading *iac.Reading, write bool) error {
	known, err := knownOf(ctx, a, o, reading)
	if err != nil {
		return err
	}
	deployed.Carriers = known.Carriers
	file, err := wholeFile(name)
	if err != nil {
		return err
	}
	fix, err := iac.FixTemplate(file, deployed)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return showFix(a, fix, write, "check it and deploy it with what-if first")
}

// fixBicep repairs a Bicep file.
func fixBicep(a *app, o iacOptions, name string, write bool) error {
	known, _, err := namedClusters(a, o)
	if err != nil {
		return err
	}
	file, err := wholeFile(name)
	if err != nil {
		return err
	}
	return showFix(a, iac.FixBicep(file, known.Carriers), write,
		"compile it with az bicep build, and check what comes out")
}

// wholeFile reads a file by its path from the root of the disk.
func wholeFile(name string) (iac.File, error) {
	data, err := input.ReadFile(name, input.Text)
	if err != nil {
		return iac.File{}, unread(name, err)
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return iac.File{}, err
	}
	_, inside := rootOf(path)
	return iac.File{Name: inside, Data: data}, nil
}

// showFix reports what was repaired in a template and what is left, and shows or writes the result.
func showFix(a *app, fix *iac.TemplateFix, write bool, next string) error {
	told := report.Repairs{Found: len(fix.Done) + len(fix.Left), Done: fix.Done, OneFile: true,
		Written: write, Next: next}
	for _, line := range fix.Left {
		told.Left = append(told.Left, report.Plain(line))
	}
	var edits []iac.Edit
	if len(fix.Done) > 0 {
		edits = []iac.Edit{fix.Edit}
	}
	told.Files = len(edits)
	return showRepairs(a, told, edits)
}

// showRepairs reports what is repaired and what is left, and shows or writes the result.
func showRepairs(a *app, told report.Repairs, edits []iac.Edit) error {
	fmt.Fprint(a.err, report.SafeText(told.Before(), report.Style{}))
	for _, e := range edits {
		if err := a.show(e, told.Written); err != nil {
			return err
		}
	}
	fmt.Fprint(a.err, report.SafeText(told.After(), report.Style{}))
	if told.Pending() {
		return attention
	}
	return nil
}

// show prints the diff of an edit, and writes it.
func (a *app) show(e iac.Edit, write bool) error {
	here, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	root, _ := rootOf(here)
	path := filepath.Join(root, filepath.FromSlash(e.File))
	name := relativeTo(here, path)
	diff := report.Diff(name, e.Before, e.After)
	if terminal(a.out) { // elsewhere a program applies it, so its bytes must not change
		diff = []byte(report.SafeText(string(diff), report.Style{}))
	}
	if _, err := a.out.Write(diff); err != nil || !write {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := replace(path, true)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", name, reason(err))
	}
	f.mode = info.Mode().Perm()
	_, err = f.Write(e.After)
	return errors.Join(err, f.finish(err != nil))
}

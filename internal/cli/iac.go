package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac"
	"routekeeper.dev/routekeeper/internal/iac/assess"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/prevent"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/survey"
)

func newIaC(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "iac",
		Short: "Check, repair and write infrastructure code that keeps pod routes",
		Long: `Says what infrastructure code would do to route tables before you apply it,
repairs it at the source, and writes code that keeps pod routes.`,
		Example: `  terraform show -json plan.out | routekeeper iac check -
  routekeeper iac check infra/
  routekeeper iac fix infra/
  routekeeper iac generate terraform -f cluster.yaml --out shop`,
		Args: noArgs,
		RunE: needsCommand,
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newIaCCheck(a), newIaCFix(a), newGenerate(a))
	return cmd
}

type iacOptions struct {
	subnets, paths       []string
	prevent              []string
	source, subscription string
	group, mode          string
	live                 bool
	failOn               string
}

func newIaCCheck(a *app) *cobra.Command {
	var o iacOptions
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Say what applying a plan would do to route tables and pod routes",
		Long: `Says which subnets would lose their route table, NAT gateway or network security
group, get another one or be recreated, and which pod routes would be removed.
Each finding names the resource that causes it, and how to repair it.

It reads files, folders or standard input (-), and recognizes them by their
content:
  - plans and state of Terraform and OpenTofu (terraform show -json FILE)
  - Terraform configuration (.tf), a folder with its modules
  - ARM templates and compiled Bicep, with their parameter files
  - what-if results (az deployment group what-if --no-pretty-print)
  - manifests of Azure Service Operator and of Cluster API's provider for Azure
    (CAPZ), rendered: kubectl kustomize DIR, helm template CHART
In a folder it reads all of these except plans, states and what-if results.

A lost route table is an error if pods need the subnet, otherwise a warning. A
subnet is needed if --subnet names it, if a config (-f) manages it, if a cluster
or a gateway in the file uses it, or if the real network says so (--live). What
a file cannot show is a note, and a warning for a subnet that pods need.

--live also says which assigned policies refuse a change, and --prevent which
policies of routekeeper prevent would.

Exit code 0: nothing at or above --fail-on; 1: an error; 2: findings.`,
		Example: `  terraform show -json plan.out | routekeeper iac check -
  routekeeper iac check plan.json --subnet nodes
  routekeeper iac check plan.json --live -o markdown
  az bicep build -f main.bicep
  routekeeper iac check main.json main.parameters.json
  az deployment group what-if -g shop-rg -f main.bicep --no-pretty-print |
    routekeeper iac check -
  kubectl kustomize clusters/shop | routekeeper iac check -
  routekeeper iac check infra/ -f routes.yaml -o sarif --out routekeeper.sarif`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("expected a file or folder to check, or -")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runIaCCheck(cmd.Context(), a, o, args)
		},
	}
	iacFlags(cmd, &o)
	cmd.Flags().StringArrayVar(&o.prevent, "prevent", nil, "as -f, and say what the policies of "+
		"routekeeper prevent for this `FILE` would refuse")
	_ = cmd.MarkFlagFilename("prevent", "yaml", "yml", "json")
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown, report.SARIF)
	return cmd
}

// iacFlags adds the flags with facts that the files do not show.
func iacFlags(cmd *cobra.Command, o *iacOptions) {
	f := cmd.Flags()
	f.StringArrayVar(&o.subnets, "subnet", nil, "pods need this subnet: its `NAME`, network/name "+
		"or ID (repeatable)")
	f.StringArrayVarP(&o.paths, "file", "f", nil, "pods need what this config `FILE`, folder, or "+
		"- manages (repeatable)")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
	f.StringVar(&o.source, "source", "", "`DIR` of the .tf files of a plan, for file and line "+
		"(default the plan's folder)")
	_ = cmd.MarkFlagDirname("source")
	f.BoolVar(&o.live, "live", false, "read the real network: which subnets pods need, and their "+
		"route tables")
	f.StringVar(&o.subscription, "subscription", "", "with --live: read this subscription (`ID`; "+
		"default those in the files); "+
		"with --resource-group: deploy templates there")
	f.StringVar(&o.group, "resource-group", "", "resource group that templates are deployed to "+
		"(`NAME`)")
	f.StringVar(&o.mode, "mode", "incremental", "deployment `MODE` of templates: incremental or "+
		"complete")
	completeWith(cmd, "mode", []string{"incremental", "complete"})
	f.StringVar(&o.failOn, "fail-on", finding.Warning.String(),
		"exit with 2 for findings of this severity and above: info, warning or error")
	completeWith(cmd, "fail-on", []string{"info", "warning", "error"})
}

// planGarbage is how much garbage collects before the collector runs, in percent of the memory in
// use. It is half of Go's default, so that a plan of any size is read in the memory that
// docs/iac.md promises.
const planGarbage = 50

func runIaCCheck(ctx context.Context, a *app, o iacOptions, names []string) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(planGarbage)
	}
	var failOn finding.Severity
	if err := failOn.UnmarshalText([]byte(o.failOn)); err != nil {
		return fmt.Errorf("--fail-on: %w", err)
	}
	if err := checkSource(o.source); err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	checked := report.Checked{Version: version()}
	whole := &iac.Reading{}
	var prevented []v1alpha1.ClusterRoutes
	if len(o.prevent) > 0 {
		if prevented, err = readConfigOf(a, "--prevent", o.prevent); err != nil {
			return err
		}
	}
	for _, path := range o.prevent {
		if !slices.Contains(o.paths, path) {
			o.paths = append(o.paths, path)
		}
	}
	known, configs, err := namedClusters(a, o)
	if err != nil {
		return err
	}
	names, parameters, err := splitParameters(names)
	if err != nil {
		return err
	}
	deployed := iac.TemplateOptions{Carriers: known.Carriers, Complete: o.mode == "complete"}
	deployed.Where.Subscription, deployed.Where.ResourceGroup = o.subscription, o.group
	var readings []*iac.Reading
	for _, name := range names {
		deployed.Parameters = iac.ParametersFor(name, names, parameters)
		parts, err := readIaC(ctx, a, name, o.source, deployed)
		if err != nil {
			return inFile(name, err)
		}
		for _, p := range parts {
			checked.Files = append(checked.Files,
				report.CheckedFile{Name: p.Name, Format: string(p.Format)})
			readings = append(readings, p.Reading)
			whole.Effects = append(whole.Effects, p.Effects...)
			whole.Carriers = append(whole.Carriers, p.Carriers...)
			whole.Notes = append(whole.Notes, p.Notes...)
			whole.Associations = append(whole.Associations, p.Associations...)
			whole.Open = append(whole.Open, p.Open...)
		}
	}
	if err := observeAsked(ctx, a, o, whole, configs, &known); err != nil {
		return err
	}
	policies := judgePolicies(a.err, prevented, &known)
	mistyped(a, o, readings)
	if checked.Findings, err = assess.RefuseTables(assess.Findings(whole, readings, configs, known),
		readings, known.Live, policies); err != nil {
		return err
	}
	if err := checked.Write(w, format, style); err != nil {
		return err
	}
	if worst, any := finding.Worst(checked.Findings); any && worst >= failOn {
		return attention
	}
	return nil
}

// judgePolicies makes policies judge what code writes: the assigned ones, and the ones that prevent
// would write for configs. It returns all of them, and prints what prevent leaves out.
func judgePolicies(left io.Writer, prevented []v1alpha1.ClusterRoutes,
	known *iac.Known) []inventory.AssignedPolicy {
	s := known.Live
	if s == nil {
		s = inventory.NewSnapshot()
	}
	var rules []prevent.Rule
	if len(prevented) > 0 {
		wanted := prevent.Gather(s, prevented)
		made, without := prevent.Make(wanted.Needs, wanted.Tables, prevent.Usual())
		rules = made
		for _, line := range append(wanted.Left, without...) {
			say(left, "routekeeper: --prevent leaves out: %s\n", report.Plain(line))
		}
	}
	known.Refused = assess.Refused(s, rules)
	return append(slices.Clip(s.Policies), prevent.Assigned(rules)...)
}

// mistyped warns about subnets that --subnet names and that no file shows, unless no file shows any
// subnet. Without the flag, the loss of such a subnet's route table is only a warning.
func mistyped(a *app, o iacOptions, readings []*iac.Reading) {
	for _, name := range o.subnets {
		shown := false // any subnet at all
		if !slices.ContainsFunc(readings, func(r *iac.Reading) bool {
			there, any := r.Shows(iac.Named(name, ""))
			shown = shown || any
			return there
		}) && shown {
			say(a.err, "routekeeper: --subnet %s: no subnet of that name is in the files\n",
				report.Plain(name))
		}
	}
}

// splitParameters splits a list of files into parameter files and others.
func splitParameters(names []string) (rest []string, parameters []iac.File, err error) {
	for _, name := range names {
		f, err := input.Open(name, input.Large)
		if err != nil { // the error is reported when the file is read
			rest = append(rest, name)
			continue
		}
		p, err := iac.ReadParameters(name, f)
		f.Close()
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", name, reason(err))
		case p != nil:
			parameters = append(parameters, *p)
		default:
			rest = append(rest, name)
		}
	}
	if len(rest) == 0 {
		return nil, nil, errors.New("expected the template, too: there are only parameter files")
	}
	return rest, parameters, nil
}

// inFile adds a file's name to an error that does not name a file of code.
func inFile(name string, err error) error {
	if _, ok := errors.AsType[*iac.SyntaxError](err); ok {
		return err
	}
	if name == "-" {
		name = "standard input"
	}
	return fmt.Errorf("%s: %w", name, err)
}

// checkSource checks --source.
func checkSource(dir string) error {
	if info, err := os.Stat(dir); dir != "" && (err != nil || !info.IsDir()) {
		return fmt.Errorf("--source: %s is not a folder, expected one with .tf files", dir)
	}
	return nil
}

// knownOf returns the facts that the files do not show.
func knownOf(ctx context.Context, a *app, o iacOptions, r *iac.Reading) (iac.Known, error) {
	known, configs, err := namedClusters(a, o)
	if err == nil {
		err = observeAsked(ctx, a, o, r, configs, &known)
	}
	return known, err
}

// observeAsked reads the real network if a flag says so.
func observeAsked(ctx context.Context, a *app, o iacOptions, r *iac.Reading,
	configs []v1alpha1.ClusterRoutes, known *iac.Known) error {
	if !o.live && a.emulatorDir == "" {
		return nil
	}
	var clusters []arm.ID
	for _, c := range configs {
		clusters = append(clusters, survey.Places(c)...)
	}
	return a.observe(ctx, o, r, clusters, known)
}

// namedClusters returns the subnets and tables that flags and configs name, and the configs.
func namedClusters(a *app, o iacOptions) (known iac.Known, configs []v1alpha1.ClusterRoutes,
	err error) {
	known.Tables = map[string]string{}
	if o.mode != "incremental" && o.mode != "complete" {
		return known, nil, fmt.Errorf("--mode: expected incremental or complete, found %q", o.mode)
	}
	if o.subscription != "" && o.group == "" && !o.live && a.emulatorDir == "" {
		return known, nil, errors.New("--subscription: expected --live, too")
	}
	for _, name := range o.subnets {
		if name == "" {
			return known, nil, errors.New("--subnet: expected a name or an ID")
		}
		known.Carriers = append(known.Carriers, iac.Named(name, "it carries pods (--subnet)"))
	}
	if len(o.paths) > 0 {
		if configs, err = a.readConfig(o.paths); err != nil {
			return known, nil, err
		}
		for _, c := range configs {
			for _, s := range c.Spec.Guard.Subnets {
				if c.Spec.Guard.Mode == v1alpha1.GuardOff {
					break
				}
				known.Carriers = append(known.Carriers, guarded(c, s))
				if s.RouteTableID != "" {
					known.Tables[arm.ID(s.RouteTableID).Key()] = c.Metadata.Name +
						" guards an association with its table"
				}
			}
			for _, t := range c.Spec.Targets {
				known.Tables[arm.ID(t.RouteTableID).Key()] = "its table is a target of " +
					c.Metadata.Name
			}
			if id := c.Spec.Egress.RouteTableID; id != "" {
				known.Tables[arm.ID(id).Key()] = "its table has the egress routes of " +
					c.Metadata.Name
			}
			if c.Spec.RouteTableID != "" {
				known.Tables[arm.ID(c.Spec.RouteTableID).Key()] = "its table is the one of " +
					c.Metadata.Name
			}
		}
	}
	return known, configs, nil
}

// guarded returns a subnet that a config guards. The node subnets of a kubenet cluster must have
// the cluster's route table, although the guard does not name it. Only a config of such a cluster
// has a route table to copy from.
func guarded(c v1alpha1.ClusterRoutes, s v1alpha1.GuardedSubnet) iac.Carrier {
	out := iac.Named(s.SubnetID, c.Metadata.Name+" guards it")
	out.Must = map[inventory.Property]arm.ID{}
	if c.Spec.Source == v1alpha1.SourceRouteTable &&
		(c.Spec.RouteTableID != "" || len(c.Spec.Targets) > 0) {
		out.Must[inventory.PropertyTable] = arm.ID(c.Spec.RouteTableID)
	}
	for _, p := range inventory.Properties {
		if id := plan.GuardedValue(s, p); id != "" {
			out.Must[p] = id
		}
	}
	return out
}

// observe reads the real network.
func (a *app) observe(ctx context.Context, o iacOptions, r *iac.Reading, clusters []arm.ID,
	known *iac.Known) error {
	scopes := r.Subscriptions()
	for _, id := range clusters {
		scopes = append(scopes, id.SubscriptionID())
	}
	if o.subscription != "" {
		scope, err := subscriptionID(o.subscription)
		if err != nil {
			return err
		}
		scopes = []arm.ID{scope}
	}
	progress := a.progress(ctx, "reading the network")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	if len(scopes) == 0 {
		if scopes, err = client.Subscriptions(ctx); err != nil {
			return err
		}
	}
	s, err := client.Survey(ctx, scopes...)
	if err != nil {
		return err
	}
	for _, line := range survey.NotSeen(s) {
		r.Notes = append(r.Notes, iac.Note{Text: "the real network was not seen whole: " + line})
	}
	if err := azure.ReadPolicies(ctx, client, s); err != nil {
		return err
	}
	known.Observe(s)
	return nil
}

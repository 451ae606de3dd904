package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac/generate"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prevent"
	"routekeeper.dev/routekeeper/internal/report"
)

type preventOptions struct {
	paths         []string
	language      string
	subscription  string
	exempt, until string
	dryRun        bool

	end time.Time // of the exemption
}

// policyFormats are the languages that prevent writes.
var policyFormats = []string{"azurerm", "arm", "bicep", "az"}

func newPrevent(a *app) *cobra.Command {
	var o preventOptions
	cmd := &cobra.Command{
		Use:   "prevent -f FILE [--format FORMAT | --dry-run]",
		Short: "Write an Azure Policy that refuses to strip guarded subnets",
		Long: `Writes policies that refuse a write in which a guarded subnet lacks its route
table, NAT gateway or network security group, or has another one: one policy for
each of the three, for subnets and for networks. For a table that leads to a
firewall, it also writes policies that keep its route 0.0.0.0/0. It reads the
clusters, the tables, and which properties Azure Policy can see (aliases). It
writes nothing in Azure.

A policy judges the write, not who makes it. So it also blocks changes that you
want; the command prints these first, on standard error. With --dry-run, it
shows the rules, what they block, and which writes in the activity log they
would have refused, as far as the log has the requests. An audit does not
replace that: Azure's compliance is wrong for the route tables of subnets.

--exempt writes an exemption of one network until a time instead: for a
migration off kubenet, or a delete.

Exit code 0: done; 1: an error; 2: with --dry-run, a write would have been
refused.`,
		Example: `  routekeeper prevent -f routes.yaml --dry-run
  routekeeper prevent -f routes.yaml --format azurerm --out policy.tf
  routekeeper prevent -f routes.yaml --format az --exempt hub-vnet --until 1d`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPrevent(cmd, a, o) },
	}
	configFlag(cmd, &o.paths)
	f := cmd.Flags()
	f.StringVar(&o.language, "format", policyFormats[0], "the language: "+
		strings.Join(policyFormats, ", "))
	f.StringVar(&o.subscription, "subscription", "", "only this subscription (`ID`); needed "+
		"with subnets in several, unless --format is az")
	f.StringVar(&o.exempt, "exempt", "", "write an exemption of this `NETWORK` (name or ID)")
	f.StringVar(&o.until, "until", "", "with --exempt: its end, a `TIME` such as "+
		"2027-01-31T18:00:00Z or 1d from now")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what the policies would refuse, and write none")
	a.timeoutFlag(cmd)
	a.outputFlags(cmd, report.Text, report.JSON)
	f.Lookup("output").Usage = "with --dry-run: `format`: text, json"
	completeWith(cmd, "format", policyFormats)
	for _, other := range []string{"format", "exempt", "until"} {
		cmd.MarkFlagsMutuallyExclusive("dry-run", other)
	}
	return cmd
}

// check reports mistakes in the flags that need no network.
func (o *preventOptions) check(cmd *cobra.Command) error {
	switch {
	case !slices.Contains(policyFormats, o.language):
		return fmt.Errorf("--format: unknown value %q, expected %s", o.language,
			strings.Join(policyFormats, ", "))
	case cmd.Flags().Changed("output") && !o.dryRun:
		return errors.New("--output: only with --dry-run; --format is the language of policies")
	case o.exempt == "" && cmd.Flags().Changed("exempt"):
		return errors.New("--exempt: empty, expected the name or ID of a network")
	case o.exempt != "" && o.until == "":
		return errors.New("--until: missing, an exemption must end")
	case o.exempt == "" && o.until != "":
		return errors.New("--until: only with --exempt")
	case o.exempt == "":
		return nil
	}
	length, err := parseDuration(o.until)
	o.end = time.Now().Add(length).Truncate(time.Second)
	if err != nil {
		if o.end, err = time.Parse(time.RFC3339, o.until); err != nil {
			return fmt.Errorf("--until: %q is no time, expected one such as 2027-01-31T18:00:00Z, "+
				"or 1d from now", o.until)
		}
	}
	if !o.end.After(time.Now()) {
		return fmt.Errorf("--until: %s is not in the future", o.until)
	}
	return nil
}

func runPrevent(cmd *cobra.Command, a *app, o preventOptions) error {
	if err := o.check(cmd); err != nil {
		return err
	}
	configs, err := a.readConfig(o.paths)
	if err != nil {
		return err
	}
	w, err := a.raw()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	progress := a.progress(ctx, "reading clusters, tables and aliases")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	wanted, err := gather(ctx, client, configs)
	if err != nil {
		return err
	}
	subscriptions, network, err := o.choose(wanted)
	if err != nil {
		return err
	}
	var rules []prevent.Rule
	var files []generate.Output
	for _, subscription := range subscriptions {
		aliases, err := client.NetworkAliases(ctx, arm.SubscriptionID(subscription))
		if err != nil {
			return fmt.Errorf("the aliases of Azure Policy cannot be read: %w", err)
		}
		here := wanted.In(subscription)
		made, left := prevent.Make(here.Needs, here.Tables, aliases)
		wanted.Left = append(wanted.Left, left...)
		var code policyCode = generate.Policies{Subscription: subscription, Rules: made}
		if network != "" {
			code = generate.Exemption{Network: network, Until: o.end,
				Assignments: prevent.Concerning(made, network)}
		}
		written, err := map[string]func() ([]generate.Output, error){"azurerm": code.Terraform,
			"arm": code.ARM, "bicep": code.Bicep, "az": code.AZ}[o.language]()
		if err != nil {
			return err
		}
		rules, files = append(rules, made...), append(files, written...)
	}
	wanted.Left = slices.Compact(wanted.Left) // each subscription lacks the same aliases
	wanted.Blocks = append(prevent.SideEffects(rules), wanted.Blocks...)
	if o.dryRun {
		return showPrevention(ctx, a, w, client, rules, wanted)
	}
	progress.stop()
	if len(rules) == 0 {
		return fmt.Errorf("no policy can be written: %s", strings.Join(wanted.Left, "; "))
	}
	warnOf(a, o, wanted)
	return printOutputs(w, files)
}

// policyCode are policies or exemptions.
type policyCode interface {
	generator
	AZ() ([]generate.Output, error)
}

// gather reads what decides about the rules: the clusters, the guarded subnets, and the tables that
// they must have.
func gather(ctx context.Context, client *azure.Client, configs []v1alpha1.ClusterRoutes) (
	prevent.Wanted, error) {
	s := inventory.NewSnapshot()
	read := func(w inventory.Wanted) error { return client.Read(ctx, s, w, azure.ReadOptions{}) }
	if err := read(inventory.Wanted{Clusters: inventory.SortIDs(idsOf(configs))}); err != nil {
		return prevent.Wanted{}, err
	}
	var w inventory.Wanted
	for _, n := range prevent.Gather(s, configs).Needs {
		w.Subnets = append(w.Subnets, n.Subnet)
		if n.Property == inventory.PropertyTable {
			w.Tables = append(w.Tables, n.Value)
		}
	}
	w.Subnets, w.Tables = inventory.SortIDs(w.Subnets), inventory.SortIDs(w.Tables)
	err := read(w)
	return prevent.Gather(s, configs), err
}

// choose returns the subscriptions of the policies, and the network to exempt, or "". Code of
// azurerm, ARM and Bicep is for one subscription.
func (o preventOptions) choose(wanted prevent.Wanted) (subscriptions []string, network arm.ID,
	err error) {
	if len(wanted.Needs) == 0 {
		return nil, "", fmt.Errorf("the config has no subnet to guard: %s",
			cmp.Or(strings.Join(wanted.Left, "; "), "spec.guard.subnets names none"))
	}
	var names []string
	var found []arm.ID
	for _, id := range wanted.Networks() {
		if s := strings.ToLower(id.Subscription()); !slices.Contains(subscriptions, s) {
			subscriptions = append(subscriptions, s)
		}
		names = append(names, id.Name())
		if strings.EqualFold(id.Name(), o.exempt) || id.Equal(arm.ID(o.exempt)) {
			found = append(found, id)
		}
	}
	switch {
	case o.exempt != "" && len(found) == 0:
		return nil, "", fmt.Errorf("--exempt: no guarded subnet is in a network %s%s",
			finding.Show(o.exempt), instead(o.exempt, names))
	case len(found) > 1:
		return nil, "", fmt.Errorf("--exempt: several networks are named %s: name one by its ID",
			finding.Show(o.exempt))
	case len(found) == 1:
		return []string{strings.ToLower(found[0].Subscription())}, found[0], nil
	case o.subscription == "" && len(subscriptions) > 1 && o.language != "az" && !o.dryRun:
		return nil, "", fmt.Errorf("the config has subnets in the subscriptions %s: choose one "+
			"with --subscription, or --format az for all", strings.Join(subscriptions, ", "))
	case o.subscription != "" && !slices.Contains(subscriptions, strings.ToLower(o.subscription)):
		return nil, "", fmt.Errorf("--subscription: no guarded subnet is in %s; "+
			"the guarded subnets are in %s", finding.Show(o.subscription),
			strings.Join(subscriptions, ", "))
	}
	if o.subscription != "" {
		subscriptions = []string{strings.ToLower(o.subscription)}
	}
	return subscriptions, "", nil
}

// warnOf prints what the policies leave out and block, before the code.
func warnOf(a *app, o preventOptions, wanted prevent.Wanted) {
	for _, line := range wanted.Left {
		say(a.err, "routekeeper: left out: %s\n", line)
	}
	for _, line := range wanted.Blocks {
		if o.exempt == "" {
			say(a.err, "routekeeper: these policies also block: %s\n", line)
		}
	}
}

// showPrevention shows the rules, and judges the writes in the activity log.
func showPrevention(ctx context.Context, a *app, w io.Writer, client *azure.Client,
	rules []prevent.Rule, wanted prevent.Wanted) error {
	shown := report.Prevention{Left: wanted.Left, Blocks: wanted.Blocks,
		Rules: []report.PreventionRule{}}
	groups := map[arm.ID][]arm.ID{} // with the resources that are written there
	for _, r := range rules {
		line := report.PreventionRule{Name: r.Name, Title: r.Title, Effect: r.Effect}
		for _, n := range r.Needs {
			line.Subnets = append(line.Subnets, fmt.Sprintf("%s: %s", n.Subnet, n.Value))
			group := arm.ID(n.Subnet.Group().Key())
			groups[group] = append(groups[group], n.Subnet, n.Subnet.Parent())
		}
		for _, id := range r.Tables {
			line.Tables = append(line.Tables, string(id))
			group := arm.ID(id.Group().Key())
			groups[group] = append(groups[group], id)
		}
		shown.Rules = append(shown.Rules, line)
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		writes, whole, err := client.Writes(ctx, group, groups[group]...)
		if err != nil {
			return fmt.Errorf("the activity log cannot be read: %w", err)
		}
		shown.Partial = shown.Partial || !whole
		for _, write := range writes {
			shown.Writes++
			lacks, ok := prevent.Refused(rules, write.Resource, write.Body)
			if !ok {
				shown.Unjudged++
			} else if len(lacks) > 0 {
				shown.Refused = append(shown.Refused,
					report.PreventedWrite{Write: write.String(), Lacks: lacks})
			}
		}
	}
	format, style := report.Format(a.format), report.Style{Color: w == a.out && colour(w)}
	return attentionIf(len(shown.Refused) > 0,
		shown.Write(report.Safe(w, format, style), format, style))
}

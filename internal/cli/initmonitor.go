package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/iac/generate"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/monitor"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/survey"
)

type monitorOptions struct {
	paths, groups   []string
	name            string
	url, secretFile string
	webhook         monitor.Webhook
	remove, yes     bool
	dryRun          bool
	print           string
}

// printed are the values of --print.
var printed = []string{"bicep", "terraform"}

func newInitMonitor(a *app) *cobra.Command {
	var o monitorOptions
	cmd := &cobra.Command{
		Use:   "monitor -f FILE --resource-group RG --url URL [--yes]",
		Short: "Set up the alert rules that post changes to a keeper's /events",
		Long: `Sets up Azure Monitor for a config. In each subscription it creates an alert rule
on the activity log, for operations on the clusters, route tables and networks
of the config, and an action group that posts the alerts to the keeper. It
shows the plan and asks; --yes does not ask, --dry-run writes nothing.

It recognizes its resources by their names and tags, and changes and removes no
others. It keeps what is correct, with everything that others have added.

The keeper must know its caller. With a secret, name the same file as for run
--event-secret-file: the secret is appended to the path of --url, and is never
printed. For tokens of Entra ID, give --auth-audience and --auth-object-id, and
--auth-tenant if it is not the subscription's tenant.

An alert rule works only in its own subscription. For configs with several
subscriptions, the name of a --resource-group means the group of that name in
each; with IDs, the groups can have different names.

With --print bicep or --print terraform it writes code instead, and needs no
permission to write. The address is a parameter of the code.

Exit code 0: nothing to do, or done; 1: an error, or something to do and neither
a terminal nor --yes; 2: with --dry-run, or the answer no, there is something to
do.`,
		Example: `  routekeeper init monitor -f routes.yaml --resource-group ops-rg \
    --url https://keeper.example.com/events --event-secret-file secret
  routekeeper init monitor -f routes.yaml --resource-group ops-rg \
    --url https://keeper.example.com/events --yes \
    --auth-audience api://routekeeper \
    --auth-object-id 22222222-2222-2222-2222-222222222222
  routekeeper init monitor -f routes.yaml --resource-group ops-rg \
    --print terraform --out monitor.tf
  routekeeper init monitor -f routes.yaml --resource-group ops-rg \
    --remove --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runInitMonitor(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.paths, "file", "f", nil, "config `FILE` with ClusterRoutes documents, "+
		"folder, or - (repeatable)")
	markConfig(cmd)
	f.StringArrayVar(&o.groups, "resource-group", nil,
		"create the resources in this resource group (name or `ID`, repeatable)")
	f.StringVar(&o.name, "name", "", "suffix of resource names that distinguishes this keeper "+
		"from others")
	f.StringVar(&o.url, "url", "", "where the keeper accepts events (`URL`), such as "+
		"https://keeper.example.com/events")
	f.StringVar(&o.secretFile, "event-secret-file", "",
		"`file` with the secret to append to the path of --url")
	f.StringVar(&o.webhook.Audience, "auth-audience", "",
		"secure webhook: application ID `URI` of the keeper's application")
	f.StringVar(&o.webhook.ObjectID, "auth-object-id", "",
		"secure webhook: object `ID` of the keeper's application")
	f.StringVar(&o.webhook.Tenant, "auth-tenant", "", "secure webhook: its `tenant` (ID)")
	a.timeoutFlag(cmd)
	f.BoolVar(&o.remove, "remove", false, "remove what install has created")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be done and write nothing")
	f.StringVar(&o.print, "print", "", "write code instead: bicep or terraform")
	completeWith(cmd, "print", printed)
	for _, other := range []string{"url", "event-secret-file", "print", "auth-audience",
		"auth-object-id", "auth-tenant"} {
		cmd.MarkFlagsMutuallyExclusive("remove", other)
	}
	for _, other := range []string{"url", "event-secret-file", "yes"} {
		cmd.MarkFlagsMutuallyExclusive("print", other)
	}
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

func runInitMonitor(ctx context.Context, a *app, o monitorOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	var configs []v1alpha1.ClusterRoutes
	var err error
	if len(o.paths) > 0 {
		if configs, err = a.readConfig(o.paths); err != nil {
			return err
		}
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "reading what to watch")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	var watched monitor.Watched
	if len(configs) > 0 {
		if watched, err = readWatched(ctx, client, configs); err != nil {
			return err
		}
	}
	groups, err := o.resourceGroups(watched)
	if err != nil {
		return err
	}
	installation, err := monitor.New(o.name, groups, o.webhook)
	if err != nil {
		return fmt.Errorf("--name or --resource-group: %w", err)
	}
	if o.print != "" {
		progress.stop()
		return printMonitor(a, w, o, installation, watched)
	}
	have, err := client.AlertResources(ctx, groups)
	if err != nil {
		return err
	}
	changes := installation.Removal(have)
	if !o.remove {
		if changes, err = installation.Plan(watched, have); err != nil {
			return err
		}
	}
	progress.stop()
	result := report.Alerts{}
	if !o.remove {
		result = report.Alerts{Watched: watched.Subscriptions, Operations: monitor.Operations(),
			Unknown: watched.Unknown}
	}
	if o.dryRun || !o.yes {
		result.Changes, _ = setUp(ctx, client, o.webhook, changes, false)
		if err := result.Write(w, format, style); err != nil || len(changes) == 0 {
			return err
		}
		if o.dryRun {
			return a.unlessYes(false, nil)
		}
		// Do not print the command line: --url may contain a secret.
		if err := a.unlessYes(a.confirmOr("Make these changes?",
			"the same command with --yes")); err != nil {
			return err
		}
		result.Watched, result.Operations, result.Unknown = nil, nil, nil // just shown
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	progress = a.progress(ctx, "setting up Azure Monitor")
	defer progress.stop()
	told, failed := setUp(ctx, client, o.webhook, changes, true)
	progress.stop()
	result.Changes = told
	return errors.Join(result.Write(w, format, style), failed)
}

// check checks flags that depend on each other.
func (o *monitorOptions) check() error {
	if err := oneOf("--print", "language", o.print, printed); o.print != "" && err != nil {
		return err
	}
	if len(o.groups) == 0 && o.print != "bicep" { // Bicep is deployed to one
		return errors.New("--resource-group is missing: expected the group for alert rules and " +
			"action groups")
	}
	if len(o.paths) == 0 && !o.remove {
		return errors.New("-f is missing: expected the config that says what to watch")
	}
	if o.remove {
		return nil
	}
	if o.print != "" {
		return o.webhook.Check()
	}
	if o.url == "" {
		return errors.New("--url is missing: expected the address where the keeper accepts events")
	}
	secret := ""
	var err error
	if o.secretFile != "" {
		if secret, err = serve.ReadSecret(o.secretFile); err != nil {
			return fmt.Errorf("--event-secret-file: %w", unreadAt(o.secretFile, err))
		}
	}
	if o.webhook, err = monitor.ParseWebhook(o.url, secret, o.webhook); err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	return nil
}

// resourceGroups reads --resource-group. An ID names the group for one subscription, a name the
// groups for all others.
func (o *monitorOptions) resourceGroups(w monitor.Watched) ([]arm.ID, error) {
	var ids []arm.ID
	name := ""
	for _, text := range o.groups {
		switch {
		case strings.HasPrefix(text, "/"):
			id, err := arm.ParseID(text)
			if err == nil && !id.Is(arm.TypeResourceGroup) {
				err = fmt.Errorf("it is the ID of a %s", id.Type())
			}
			if err != nil {
				return nil, fmt.Errorf("--resource-group: %q is not a resource group's ID: %w",
					text, err)
			}
			ids = append(ids, id)
		case name != "":
			return nil, fmt.Errorf("--resource-group: %s and %s are names, and a name means the "+
				"group with that name in each subscription: expected one name, or IDs", name, text)
		default:
			name = text
		}
	}
	if name != "" && len(o.paths) == 0 {
		return nil, fmt.Errorf("--resource-group: without -f it is not known in which "+
			"subscription %s is: expected its ID", name)
	}
	for _, s := range w.Subscriptions {
		taken := false
		for _, id := range ids {
			taken = taken || strings.EqualFold(id.Subscription(), s.Subscription)
		}
		if name != "" && !taken {
			id, err := arm.ParseID(string(arm.GroupID(s.Subscription, name)))
			if err != nil || !id.Is(arm.TypeResourceGroup) {
				return nil, fmt.Errorf("--resource-group: %q is not the name of a resource group",
					name)
			}
			ids = append(ids, id)
		}
	}
	return inventory.SortIDs(ids), nil
}

// readWatched reads the resources of the configs as a keeper does, and collects what to watch.
func readWatched(ctx context.Context, client *azure.Client, configs []v1alpha1.ClusterRoutes) (
	monitor.Watched, error) {
	s := inventory.NewSnapshot()
	var want inventory.Wanted
	for _, c := range configs {
		want.Clusters = append(want.Clusters, arm.ID(c.Spec.ClusterID))
	}
	if err := client.Read(ctx, s, want, azure.ReadOptions{}); err != nil {
		return monitor.Watched{}, err
	}
	want = inventory.Wanted{}
	for _, cluster := range s.Clusters {
		if cluster.Kubenet() && cluster.UsesAKSVNet() {
			want.AKSSubnets = append(want.AKSSubnets, cluster.ID)
		}
	}
	if err := client.Read(ctx, s, want, azure.ReadOptions{}); err != nil {
		return monitor.Watched{}, err
	}
	if err := survey.Configured(ctx, client, s, configs); err != nil {
		return monitor.Watched{}, err
	}
	return monitor.Watch(s, configs)
}

func texts(ids []arm.ID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// printMonitor writes code for the resources that init monitor would create.
func printMonitor(a *app, w io.Writer, o monitorOptions, i monitor.Installation,
	watched monitor.Watched) error {
	m := generate.Monitor{
		Name: i.Name(), ShortName: monitor.ShortName, Receiver: monitor.ReceiverName,
		Description: monitor.Description, Operations: monitor.Operations(),
		Webhook: generate.MonitorWebhook{ObjectID: o.webhook.ObjectID, Audience: o.webhook.Audience,
			Tenant: o.webhook.Tenant},
	}
	for _, s := range watched.Subscriptions {
		group, err := i.Group(s.Subscription)
		if err != nil && o.print == "terraform" {
			return fmt.Errorf("--resource-group: %w", err)
		}
		m.Parts = append(m.Parts,
			generate.MonitorPart{Subscription: strings.ToLower(s.Subscription),
				Group: group.ResourceGroup(), Scopes: s.IDs})
	}
	files, err := m.Terraform()
	if o.print == "bicep" {
		files, err = m.Bicep()
	}
	if err != nil {
		return err
	}
	for _, line := range watched.Unknown {
		if _, err := io.WriteString(a.err, "routekeeper: "+report.Plain(line)+"\n"); err != nil {
			return err
		}
	}
	return printOutputs(w, files)
}

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/report"
)

type doctorOptions struct {
	initOptions
	paths  []string
	failOn string
}

func (a *app) newDoctor() *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor {--subscription ID | --cluster ID | -f FILE}",
		Short: "Say what is wrong with the routes and associations of clusters",
		Long: `Looks at kubenet clusters, their node subnets, route tables and the tables their pod routes are copied to, and says what is
wrong: lost or other tables, routes that are missing, stale or wrong in targets, other people's routes in the way, tables that are full,
missing, or cannot be told; and who changed them last, as far as the activity log knows. With -f it looks at what the config names; otherwise at what init would propose. Nothing is written.

Exit code 0: nothing at or above --fail-on; 1: an error; 2: findings.`,
		Example: `  routekeeper doctor --subscription 11111111-1111-1111-1111-111111111111
  routekeeper doctor --cluster /subscriptions/…/managedClusters/shop
  routekeeper doctor -f routes.yaml --fail-on error -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runDoctor(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.subscription, "subscription", "", "look at all clusters of this subscription (`ID`)")
	f.StringVar(&o.cluster, "cluster", "", "look at this cluster (resource `ID`)")
	f.StringArrayVarP(&o.paths, "file", "f", nil, "look at what this config `FILE`, folder, or - names (repeatable)")
	f.StringVar(&o.failOn, "fail-on", finding.Warning.String(), "exit with 2 for findings of this severity and above: info, warning or error")
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions([]string{"info", "warning", "error"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.MarkFlagsOneRequired("subscription", "cluster", "file")
	cmd.MarkFlagsMutuallyExclusive("subscription", "cluster", "file")
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	return cmd
}

func (a *app) runDoctor(ctx context.Context, o doctorOptions) error {
	var failOn finding.Severity
	if err := failOn.UnmarshalText([]byte(o.failOn)); err != nil {
		return fmt.Errorf("--fail-on: %w", err)
	}
	var configs []v1alpha1.ClusterRoutes
	var err error
	if len(o.paths) > 0 {
		configs, err = a.readConfig(o.paths)
	} else {
		_, _, err = o.scope() // what is wrong with it is said before anything else
	}
	if err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "looking at the network")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	d := report.Diagnosis{Clusters: []string{}}
	var hidden []finding.Finding
	if len(o.paths) == 0 {
		scope, one, err := o.scope()
		if err != nil {
			return err
		}
		s, err := survey(ctx, client, scope, one)
		if err != nil {
			return err
		}
		for _, line := range notSeen(s) {
			id, _, _ := strings.Cut(line, ": ")
			hidden = append(hidden, finding.New(finding.ReadFailed, "", id, "not seen, so there may be more clusters, subnets or targets: %s", line))
		}
		proposed, err := proposals(ctx, client, s, one)
		if err != nil {
			return err
		}
		for _, p := range proposed {
			if p.Skip == "" {
				configs = append(configs, p.Config)
			}
		}
		if len(configs) == 0 {
			return fmt.Errorf("no kubenet cluster in %s: with other network plugins no route table holds pod routes", scope)
		}
	}
	for i := range configs {
		d.Clusters = append(d.Clusters, configs[i].Metadata.Name)
		watchOnly(&configs[i].Spec)
	}
	round, err := keeper.New(client, configs, keeper.Options{DryRun: true, Log: progress.logger()}).Round(ctx)
	if err != nil {
		return err
	}
	d.Findings = finding.Sort(append(blame(ctx, client, round.Findings), hidden...))
	progress.stop()
	if err := d.Write(w, format, style); err != nil {
		return err
	}
	if worst, any := finding.Worst(d.Findings); any && worst >= failOn {
		return attention
	}
	return nil
}

// changed are the findings behind which is a change of the resource that somebody made.
var changed = []finding.Code{finding.AssociationLost, finding.AssociationOther, finding.SourceEmpty, finding.TargetDrift, finding.PrefixTaken, finding.NameTaken, finding.ForeignShadow, finding.Unsettled}

// blame adds to findings who changed the resource last. Where the activity log does not say, that is said: a guess would
// accuse somebody.
func blame(ctx context.Context, client *azure.Client, findings []finding.Finding) []finding.Finding {
	known := map[string]string{}
	for i, f := range findings {
		id := network.ID(f.Resource)
		if !slices.Contains(changed, f.Code) || id == "" {
			continue
		}
		line, asked := known[id.Key()]
		if !asked {
			ids := []network.ID{id}
			if id.Is(network.TypeSubnet) {
				ids = append(ids, id.Parent())
			}
			switch last, found, err := client.LastWrite(ctx, ids...); {
			case err != nil:
				line = "who changed it is unknown: " + err.Error()
			case !found:
				line = "who changed it is unknown: the activity log, which is minutes late, shows no write of it"
			default:
				line = last.String()
			}
			known[id.Key()] = line
		}
		findings[i] = f.With(line)
	}
	return findings
}

// watchOnly makes a config that reports what is not true instead of changing it.
func watchOnly(spec *v1alpha1.Spec) {
	spec.Guard.Mode = v1alpha1.GuardObserve
	for i := range spec.Targets {
		spec.Targets[i].Policy = v1alpha1.PolicyObserve
	}
}

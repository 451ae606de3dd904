package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
)

type initOptions struct {
	subscription, cluster string
	force                 bool
}

func (a *app) newInit() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init {--subscription ID | --cluster ID} [--out routes.yaml]",
		Short: "Look at a subscription or a cluster and propose a config for it",
		Long: `Looks at a subscription, or at one cluster and the network around it, and writes a commented config: every kubenet
cluster with its own route table, and as targets the tables of Application Gateway subnets and all other tables that hold
its pod routes already. Nothing in Azure is changed.`,
		Example: `  routekeeper init --subscription 11111111-1111-1111-1111-111111111111 --out routes.yaml
  routekeeper init --cluster /subscriptions/…/managedClusters/shop > shop.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runInit(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.subscription, "subscription", "", "look at all clusters of this subscription (`ID`)")
	f.StringVar(&o.cluster, "cluster", "", "look at this cluster only (resource `ID`)")
	a.outFlag(cmd)
	f.BoolVar(&o.force, "force", false, "overwrite the file if it exists")
	cmd.MarkFlagsOneRequired("subscription", "cluster")
	cmd.MarkFlagsMutuallyExclusive("subscription", "cluster")
	return cmd
}

func (a *app) runInit(ctx context.Context, o initOptions) error {
	toFile := a.outPath != "" && a.outPath != "-"
	if toFile && !o.force {
		if info, err := os.Stat(a.outPath); err == nil && info.Mode().IsRegular() {
			return fmt.Errorf("--out: %s exists; --force overwrites it", a.outPath)
		}
	}
	scope, one, err := o.scope()
	if err != nil {
		return err
	}
	w, _, _, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "looking at "+scope.Name())
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	s, err := survey(ctx, client, scope, one)
	if err != nil {
		return err
	}
	proposals, err := proposals(ctx, client, s, one)
	if err != nil {
		return err
	}
	progress.stop()
	from := "subscription " + scope.Name()
	if one != "" {
		from = "cluster " + one.Name()
	}
	if _, err := io.WriteString(w, report.ConfigYAML(proposals, from, notSeen(s))); err != nil {
		return err
	}
	if toFile {
		fmt.Fprintf(a.err, "wrote %s; next: routekeeper sync -f %s --dry-run\n", a.outPath, a.outPath)
	}
	return nil
}

// scope reads the flags: what to look at, and the one cluster meant.
func (o initOptions) scope() (scope, cluster network.ID, err error) {
	if o.cluster == "" {
		subscription := strings.TrimSuffix(o.subscription, "/")
		if rest, isID := strings.CutPrefix(strings.ToLower(subscription), "/subscriptions/"); isID {
			subscription = rest
		}
		if uuid.Validate(subscription) != nil {
			return "", "", fmt.Errorf("--subscription: %q is not a subscription's ID, expected one such as 11111111-1111-1111-1111-111111111111 (az account show --query id)", o.subscription)
		}
		return network.ID("/subscriptions/" + subscription), "", nil
	}
	id, err := network.ParseID(o.cluster)
	if err == nil && !id.Is(network.TypeCluster) {
		err = fmt.Errorf("it is the ID of a %s, expected a %s", id.Type(), network.TypeCluster)
	}
	if err != nil {
		return "", "", fmt.Errorf("--cluster: %q is not a cluster's resource ID: %w", o.cluster, err)
	}
	return network.ID("/subscriptions/" + id.Subscription()), id, nil
}

// survey looks at a scope. Where a subscription cannot be listed, a cluster's own surroundings may be: its group, its node
// resource group, and the groups of its node subnets; and those may be in other subscriptions in any case.
func survey(ctx context.Context, client *azure.Client, scope, one network.ID) (*network.Snapshot, error) {
	if one == "" {
		s, err := client.Survey(ctx, scope)
		if err == nil && len(s.Clusters) == 0 {
			err = errors.New("no AKS cluster is seen in " + string(scope))
			if lines := notSeen(s); len(lines) > 0 { // one of them says why; the others mostly say the same
				err = fmt.Errorf("%w; not seen: %s", err, lines[0])
			}
		}
		return s, err
	}
	read := network.NewSnapshot()
	if err := client.Read(ctx, read, network.Wanted{Clusters: []network.ID{one}}); err != nil {
		return nil, err
	}
	cluster := read.Cluster(one)
	if cluster == nil {
		u := read.Unread[one.Key()]
		return nil, fmt.Errorf("cluster %s: %s", one, u.Reason())
	}
	scopes := []network.ID{scope}
	for _, subnet := range cluster.BroughtSubnets() {
		scopes = append(scopes, network.ID("/subscriptions/"+subnet.Subscription()))
	}
	s, err := client.Survey(ctx, scopes...)
	if err != nil {
		return nil, err
	}
	if len(s.Unread) > 0 {
		groups := []network.ID{one.Group(), cluster.NodeGroup()}
		for _, subnet := range cluster.BroughtSubnets() {
			groups = append(groups, subnet.Group())
		}
		if s, err = client.Survey(ctx, groups...); err != nil {
			return nil, err
		}
	}
	s.Clusters[one.Key()] = cluster
	return s, nil
}

// notSeen says what could not be looked at, and why, one line each.
func notSeen(s *network.Snapshot) []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(s.Unread)) {
		if u := s.Unread[key]; !u.Absent {
			lines = append(lines, fmt.Sprintf("%s: %s", u.ID, u.Reason()))
		}
	}
	return lines
}

// proposals makes the proposals, reading what it takes to find the clusters' own tables.
func proposals(ctx context.Context, client *azure.Client, s *network.Snapshot, one network.ID) ([]plan.Proposal, error) {
	if one != "" {
		for key, c := range s.Clusters {
			if !c.ID.Equal(one) {
				delete(s.Clusters, key)
			}
		}
	}
	for {
		all := plan.Propose(s)
		var want network.Wanted
		for _, p := range all {
			want.Written = append(want.Written, p.Want.Written...)
			want.Managed = append(want.Managed, p.Want.Managed...)
			want.Tables = append(want.Tables, p.Want.Tables...)
		}
		if want.Empty() {
			return all, nil
		}
		if err := client.Read(ctx, s, want); err != nil {
			return nil, err
		}
	}
}

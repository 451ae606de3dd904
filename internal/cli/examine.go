package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/bundle"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/input"
)

// examineOptions say what to read, and from where.
type examineOptions struct {
	initOptions
	name   string // name or ID of a cluster
	paths  []string
	bundle string
	kubernetesOptions
	// only limits a config to one cluster, by its name or ID; "": all.
	only string
	// maxRoutes is how many routes a route table can hold; 0: the default.
	maxRoutes int
	// rightless leaves out role assignments: reading them takes several calls for each resource.
	rightless bool
	// firewalls also reads Azure Firewalls and their rules. egress also compares them with what AKS
	// requires.
	firewalls, egress bool
	// resolve looks up the addresses of API servers in the DNS.
	resolve bool
	// machines includes all network interfaces, not only those of the clusters' nodes.
	machines bool
}

// examineFlags adds the flags that say what to read; with fromBundle also --from-bundle.
func (a *app) examineFlags(cmd *cobra.Command, o *examineOptions, fromBundle bool) {
	f := cmd.Flags()
	f.StringVar(&o.subscription, "subscription", "", "check this subscription (`ID`; default the "+
		"only visible one)")
	f.StringVar(&o.cluster, "cluster", "", "check this cluster (`NAME` or resource ID)")
	f.StringArrayVarP(&o.paths, "file", "f", nil, "check the clusters in this config `FILE`, "+
		"folder, or - (repeatable)")
	markConfig(cmd)
	cmd.MarkFlagsMutuallyExclusive("subscription", "cluster")
	cmd.MarkFlagsMutuallyExclusive("cluster", "file")
	cmd.MarkFlagsMutuallyExclusive("subscription", "file")
	completeFlag(cmd, "cluster", a.complete(a.clusterNames, 1))
	cmd.ValidArgsFunction = a.complete(a.clusterNames, 1)
	a.timeoutFlag(cmd)
	kubernetesFlags(cmd, &o.kubernetesOptions)
	if fromBundle {
		f.StringVar(&o.bundle, "from-bundle", "",
			"read this `FILE` of routekeeper collect instead of Azure")
		_ = cmd.MarkFlagFilename("from-bundle", "tgz")
		cmd.MarkFlagsMutuallyExclusive("from-bundle", "subscription")
		cmd.MarkFlagsMutuallyExclusive("from-bundle", "file")
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("expected one cluster at most, found %d arguments", len(args))
		}
		if len(args) == 1 {
			o.name = args[0]
		}
		if o.name != "" && (o.cluster != "" || len(o.paths) > 0) {
			return fmt.Errorf("unexpected argument %q: a flag already names the cluster", o.name)
		}
		return nil
	}
}

// examination is what was read, and the client that read it.
type examination struct {
	diagnose.Case
	client *azure.Client // nil for a bundle
	bundle string        // the bundle's file
}

// argument is how a command line names a cluster: by its name, or by its ID where names repeat.
func (e *examination) argument(id arm.ID) string {
	for _, other := range e.Snapshot.Clusters {
		if strings.EqualFold(other.ID.Name(), id.Name()) && !other.ID.Equal(id) {
			return string(id)
		}
	}
	return id.Name()
}

// source are the flags with which another command reads the same: the bundle or the config.
func (e *examination) source() finding.CommandLine {
	if e.bundle != "" {
		return finding.Command(" --from-bundle %s", e.bundle)
	}
	return finding.Config()
}

// verifying returns the command that verifies each cluster, by the cluster's name in reports.
func (e *examination) verifying() map[string]finding.CommandLine {
	all := map[string]finding.CommandLine{}
	for i, name := range e.names() {
		all[name] = finding.Command("routekeeper cluster verify %s%s", e.argument(e.Clusters[i]),
			e.source())
	}
	return all
}

// diagnosis returns the findings, with the last writers according to the activity log.
func (e *examination) diagnosis(ctx context.Context) ([]finding.Finding, error) {
	found := diagnose.Check(e.Case)
	if changed := diagnose.Changed(found); e.client != nil && len(changed) > 0 {
		if err := e.client.ReadWriters(ctx, e.Snapshot, changed); err != nil {
			return nil, err
		}
		found = diagnose.Check(e.Case) // the writer distinguishes the causes: a policy or a person
	}
	return diagnose.Blame(found, e.Snapshot), nil
}

// names returns the names of the clusters.
func (e *examination) names() []string {
	names := []string{}
	for _, id := range e.Clusters {
		name := id.Name()
		for _, c := range e.Configs {
			if id.Equal(arm.ID(c.Spec.ClusterID)) {
				name = c.Metadata.Name
			}
		}
		names = append(names, name)
	}
	return names
}

// examine reads everything that a diagnosis needs.
func (a *app) examine(ctx context.Context, o examineOptions, progress *progress) (*examination,
	error) {
	if o.resolve && !o.egress {
		return nil, errors.New("--resolve: expected --egress, too")
	}
	e, err := a.examineAzure(ctx, o, progress)
	if err == nil && o.only != "" {
		err = e.keepOnly(o.only)
	}
	if err == nil && o.resolve {
		resolve(ctx, e.Snapshot, e.Clusters, net.DefaultResolver.LookupNetIP)
	}
	if err == nil {
		e.RouteLimit, e.Egress = o.maxRoutes, o.egress
		err = a.examineKubernetes(ctx, o.kubernetesOptions, e)
	}
	return e, err
}

func (a *app) examineAzure(ctx context.Context, o examineOptions, progress *progress) (*examination,
	error) {
	if o.bundle != "" {
		return a.openBundle(ctx, o)
	}
	var configs []v1alpha1.ClusterRoutes
	var err error
	if len(o.paths) > 0 {
		if configs, err = a.readConfig(o.paths); err != nil {
			return nil, err
		}
	}
	if strings.Contains(o.name, "/") {
		o.cluster, o.name = o.name, ""
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return nil, err
	}
	e := &examination{client: client}
	e.Configs, e.Proposed = configs, len(configs) == 0
	for i, path := range o.paths {
		if e.File = finding.Command("%s -f %s", e.File, path); i == 0 {
			e.File = finding.Command("%s", path)
		}
	}
	for _, c := range configs {
		e.Clusters = append(e.Clusters, arm.ID(c.Spec.ClusterID))
	}
	if e.Proposed {
		err = e.propose(ctx, o)
	} else {
		e.Snapshot, err = survey(ctx, client, "", e.Clusters)
	}
	if err != nil {
		return nil, err
	}
	return e, e.read(ctx, o)
}

// read reads the rest, once the clusters are known.
func (e *examination) read(ctx context.Context, o examineOptions) error {
	s := e.Snapshot
	if s.Taken.IsZero() { // the survey may be as old as this
		s.Taken = time.Now()
	}
	if err := settle(ctx, e.client, s, e.Configs); err != nil {
		return err
	}
	var groups []arm.ID
	if o.subscription == "" && !o.machines { // leave out the nodes of other clusters
		for _, id := range e.Clusters {
			if cluster := s.Cluster(id); cluster != nil {
				groups = append(groups, cluster.NodeGroup())
			}
		}
	}
	if err := e.client.Examine(ctx, s, groups...); err != nil {
		return err
	}
	if o.egress || o.firewalls {
		if err := azure.ReadEgress(ctx, e.client, s); err != nil {
			return err
		}
	}
	if o.rightless {
		return nil
	}
	scopes, principals := e.Scopes()
	return e.client.ReadRights(ctx, s, scopes, principals)
}

// propose finds the clusters, and uses the configs that init would propose.
func (e *examination) propose(ctx context.Context, o examineOptions) error {
	if o.name != "" {
		o.cluster = o.name
	}
	scope, one, err := o.find(ctx, e.client)
	if err != nil {
		return err
	}
	if e.Snapshot, err = surveyOne(ctx, e.client, scope, one); err != nil {
		return err
	}
	proposed, err := proposals(ctx, e.client, e.Snapshot, only(one))
	if err != nil {
		return err
	}
	for _, p := range proposed {
		e.Clusters = append(e.Clusters, p.Cluster)
		if p.Skip == "" {
			e.Configs = append(e.Configs, p.Config)
		}
	}
	return nil
}

// openBundle reads a bundle.
func (a *app) openBundle(ctx context.Context, o examineOptions) (*examination, error) {
	if info, err := os.Stat(o.bundle); err == nil && info.IsDir() {
		return nil, fmt.Errorf("--from-bundle: %s is a folder, expected a file of routekeeper "+
			"collect", o.bundle)
	}
	f, err := input.Open(o.bundle, input.Large)
	if err != nil {
		return nil, fmt.Errorf("--from-bundle: %w", unread(o.bundle, err))
	}
	defer f.Close()
	b, err := bundle.Read(input.Until(ctx, f))
	if err != nil {
		return nil, fmt.Errorf("--from-bundle: %s: %w", o.bundle, err)
	}
	if o.egress && b.Snapshot.Egress == nil {
		return nil, fmt.Errorf("--egress: %s has no firewalls: collect it again with this version",
			o.bundle)
	}
	e := &examination{bundle: o.bundle}
	e.Snapshot, e.Clusters, e.Configs, e.Proposed = b.Snapshot, b.Clusters, b.Configs, b.Proposed
	if meant := cmp.Or(o.name, o.cluster); meant != "" {
		var names []string
		for _, id := range b.Clusters {
			names = append(names, id.Name())
		}
		e.Clusters = slices.DeleteFunc(e.Clusters, func(id arm.ID) bool {
			return !strings.EqualFold(id.Name(), meant) && !id.Equal(arm.ID(meant))
		})
		e.Configs = slices.DeleteFunc(e.Configs, func(c v1alpha1.ClusterRoutes) bool {
			return !slices.ContainsFunc(e.Clusters, arm.ID(c.Spec.ClusterID).Equal)
		})
		if len(e.Clusters) == 0 {
			return nil, fmt.Errorf("--from-bundle: %s: no cluster %s in it%s",
				o.bundle, meant, instead(meant, names))
		}
	}
	return e, nil
}

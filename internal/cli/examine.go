package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/bundle"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/survey"
)

// examineOptions say what to read, and where from.
type examineOptions struct {
	initOptions
	choice
	paths  []string
	bundle string
	// history is the file of a history that may know what subnets had.
	history string
	kubernetesOptions
	// maxRoutes is how many routes a route table can hold; 0: the default.
	maxRoutes int
	// withoutRights leaves out role assignments: reading them takes several calls for each
	// resource.
	withoutRights bool
	// withoutPast leaves out what subnets had, because that takes a query of the activity log for
	// each of them.
	withoutPast bool
	// firewalls also reads Azure Firewalls and their rules. egress also compares them with what AKS
	// requires.
	firewalls, egress bool
	// resolve looks up the addresses of API servers in the DNS.
	resolve bool
	// allMachines includes all network interfaces, not only those of the clusters' nodes.
	allMachines bool
}

// examineFlags adds the flags that say what to read, and with fromBundle also --from-bundle.
func examineFlags(a *app, cmd *cobra.Command, o *examineOptions, fromBundle bool) {
	f := cmd.Flags()
	f.StringVar(&o.subscription, "subscription", "", "check this subscription (`ID`; default the "+
		"only visible one)")
	f.StringVar(&o.cluster, "cluster", "", "check this cluster (`NAME` or resource ID)")
	f.StringArrayVarP(&o.paths, "file", "f", nil, "check the clusters in this config `FILE`, "+
		"folder, or - (repeatable)")
	markConfig(cmd)
	cmd.MarkFlagsMutuallyExclusive("subscription", "cluster")
	cmd.MarkFlagsMutuallyExclusive("subscription", "file")
	completeFlag(cmd, "cluster", a.complete(a.clusterNames, 1))
	cmd.ValidArgsFunction = a.complete(a.clusterNames, manyArguments)
	a.timeoutFlag(cmd)
	kubernetesFlags(cmd, &o.kubernetesOptions)
	if fromBundle {
		f.StringVar(&o.bundle, "from-bundle", "",
			"read this `FILE` of routekeeper doctor collect instead of Azure")
		_ = cmd.MarkFlagFilename("from-bundle", "tgz")
		cmd.MarkFlagsMutuallyExclusive("from-bundle", "subscription")
		cmd.MarkFlagsMutuallyExclusive("from-bundle", "file")
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && o.cluster != "" {
			return fmt.Errorf("unexpected argument %q: --cluster already names the cluster",
				args[0])
		}
		return o.takeArguments(cmd, args)
	}
}

// examination is what was read, and the client that read it.
type examination struct {
	diagnose.Case
	client *azure.Client // nil for a bundle
	bundle string        // the bundle's file
	// history is the file that may know what subnets had. paths are the configs that may have one
	// next to them.
	history string
	paths   []string
	// withoutPast is as in the options.
	withoutPast bool
	// some means that Clusters leaves out clusters of the config.
	some bool
}

// source returns the flags with which another command reads the same things: the bundle or the
// config.
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
		all[name] = finding.Command("routekeeper cluster verify %s%s",
			e.Snapshot.Argument(e.Clusters[i]), e.source())
	}
	return all
}

// diagnosis returns the findings, with the last writers from the activity log.
func (e *examination) diagnosis(ctx context.Context) ([]finding.Finding, error) {
	found := e.check()
	changed := diagnose.Changed(found)
	lost := diagnose.Lost(e.Case, found)
	var notAsked []finding.Finding
	if !e.withoutPast {
		var bare []arm.ID
		bare, notAsked = diagnose.Bare(e.Case)
		lost = append(lost, bare...)
	}
	if e.client == nil || len(changed)+len(lost) == 0 {
		return diagnose.Blame(found, e.Snapshot), nil
	}
	if err := e.client.ReadWriters(ctx, e.Snapshot, changed); err != nil {
		return nil, err
	}
	knew := len(e.Snapshot.Unread)
	if err := e.client.ReadFormer(ctx, e.Snapshot, lost); err != nil {
		return nil, err
	}
	unread, err := e.recall(inventory.SortIDs(lost))
	if err != nil {
		return nil, err
	}
	if err := e.client.ReadNamed(ctx, e.Snapshot); err != nil {
		return nil, err
	}
	if len(changed)+len(e.Snapshot.Former) == 0 && len(e.Snapshot.Unread) == knew {
		return append(found, notAsked...), nil // nothing more is known
	}
	found = e.check() // the writer distinguishes the causes: a policy or a person
	for i := range found {
		if unread != "" && len(diagnose.Lost(e.Case, found[i:i+1])) > 0 {
			found[i] = found[i].With(unread)
		}
	}
	if err := e.client.ReadWriters(ctx, e.Snapshot, diagnose.Changed(found)); err != nil {
		return nil, err
	}
	return append(diagnose.Blame(found, e.Snapshot), notAsked...), nil
}

// recall notes what the history knows about subnets. The history is the file that --history names,
// or the one that history would find. It says why that file cannot be read.
func (e *examination) recall(lost []arm.ID) (unread string, err error) {
	path, _ := historyOptions{path: e.history, configs: e.paths}.find()
	if len(lost) == 0 || path == "" {
		return "", nil
	}
	all, err := history.Former(path, lost)
	if err != nil && e.history != "" {
		return "", fmt.Errorf("--history: %w", err)
	}
	if _, missing := os.Stat(path); err != nil && !errors.Is(missing, fs.ErrNotExist) {
		unread = fmt.Sprintf("what was there before may be in the history %s, which cannot be "+
			"read: %v", path, err)
	}
	for key, had := range all {
		e.Snapshot.NoteFormer(arm.ID(key), had...)
	}
	return unread, nil
}

// check returns the findings about the clusters.
func (e *examination) check() []finding.Finding {
	found := diagnose.Check(e.Case)
	if !e.some {
		return found
	}
	names := e.names()
	return slices.DeleteFunc(found, func(f finding.Finding) bool {
		return f.Cluster != "" && !slices.Contains(names, f.Cluster)
	})
}

// chosen returns the names of the clusters, or nil if they are all clusters of the config.
func (e *examination) chosen() []string {
	if !e.some {
		return nil
	}
	return e.names()
}

// networks counts the documents without a cluster.
func (e *examination) networks() (n int) {
	for _, id := range e.Clusters {
		if inventory.Clusterless(id) {
			n++
		}
	}
	return n
}

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
	e, err := examineAzure(ctx, a, o, progress)
	if err == nil && o.resolve {
		resolve(ctx, e.Snapshot, e.Clusters, net.DefaultResolver.LookupNetIP)
	}
	if err == nil {
		e.RouteLimit, e.Egress = o.maxRoutes, o.egress
		err = examineKubernetes(ctx, a, o.kubernetesOptions, e)
		progress.now("checking " + finding.Managed(len(e.Clusters), e.networks()))
	}
	return e, err
}

func examineAzure(ctx context.Context, a *app, o examineOptions, progress *progress) (*examination,
	error) {
	if o.bundle != "" {
		return openBundle(ctx, o)
	}
	if o.cluster != "" {
		o.names, o.cluster = []string{o.cluster}, ""
	}
	var configs, picked []v1alpha1.ClusterRoutes
	var err error
	if len(o.paths) > 0 {
		if configs, err = a.readConfig(o.paths); err != nil {
			return nil, err
		}
		if picked, err = o.pick(configs, o.paths); err != nil {
			return nil, err
		}
	}
	for _, name := range o.names {
		if err := (initOptions{subscription: o.subscription, cluster: name}).check(); err != nil {
			return nil, err
		}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return nil, err
	}
	e := &examination{client: client, some: len(picked) < len(configs), history: o.history,
		paths: o.paths, withoutPast: o.withoutPast}
	e.Configs, e.Proposed = configs, len(configs) == 0
	for i, path := range o.paths {
		if e.File = finding.Command("%s -f %s", e.File, path); i == 0 {
			e.File = finding.Command("%s", path)
		}
	}
	var places []arm.ID
	for _, c := range picked {
		e.Clusters = append(e.Clusters, arm.ID(c.Spec.ClusterID))
		places = append(places, survey.Places(c)...)
	}
	if e.Proposed {
		err = e.propose(ctx, o)
	} else {
		e.Snapshot, err = survey.Around(ctx, client, "", places)
	}
	if err != nil {
		return nil, err
	}
	return e, e.read(ctx, o)
}

// read reads everything else, once the clusters are known.
func (e *examination) read(ctx context.Context, o examineOptions) error {
	s := e.Snapshot
	if s.Taken.IsZero() { // the survey may be read as early as this
		s.Taken = time.Now()
	}
	if err := survey.Configured(ctx, e.client, s, e.Configs); err != nil {
		return err
	}
	var groups []arm.ID
	if o.subscription == "" && !o.allMachines { // leave out the nodes of other clusters
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
	if o.withoutRights {
		return nil
	}
	if err := azure.ReadPolicies(ctx, e.client, s); err != nil {
		return err
	}
	scopes, principals := e.Scopes()
	return e.client.ReadRights(ctx, s, scopes, principals)
}

// propose finds the clusters, and uses the configs that init would propose.
func (e *examination) propose(ctx context.Context, o examineOptions) error {
	scope, ones, err := o.findAll(ctx, e.client)
	if err != nil {
		return err
	}
	if e.Snapshot, err = survey.Of(ctx, e.client, scope, ones); err != nil {
		return err
	}
	proposed, err := survey.Propose(ctx, e.client, e.Snapshot, ones)
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

func openBundle(ctx context.Context, o examineOptions) (*examination, error) {
	if info, err := os.Stat(o.bundle); err == nil && info.IsDir() {
		return nil, fmt.Errorf("--from-bundle: %s is a folder, expected a file of routekeeper "+
			"doctor collect", o.bundle)
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
	names := o.names
	if o.cluster != "" {
		names = []string{o.cluster}
	}
	if err := e.keepNamed(names); err != nil {
		return nil, fmt.Errorf("--from-bundle: %w", err)
	}
	e.Configs = slices.DeleteFunc(e.Configs, func(c v1alpha1.ClusterRoutes) bool {
		return !slices.ContainsFunc(e.Clusters, arm.ID(c.Spec.ClusterID).Equal)
	})
	return e, nil
}

// keepNamed limits the examination to the named clusters; without names it keeps all.
func (e *examination) keepNamed(meant []string) error {
	if len(meant) == 0 {
		return nil
	}
	names := e.names()
	var kept []arm.ID
	for _, name := range meant {
		i, err := theNamed(name, e.bundle, names, e.Clusters)
		if err != nil {
			return err
		}
		if id := e.Clusters[i]; !slices.ContainsFunc(kept, id.Equal) {
			kept = append(kept, id)
		}
	}
	e.Clusters = kept
	return nil
}

package cli

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// choice says which clusters a command is about: some by name or ID, those of a config with labels
// that match a selector, or all.
type choice struct {
	names    []string
	selector string
	all      bool
}

func (c *choice) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.all, "all", false, "all clusters of the config")
	f.StringVarP(&c.selector, "selector", "l", "", "the clusters of the config whose "+
		"metadata.labels match, such as `ring=1` or ring!=1,canary")
}

// takeArguments takes the arguments of the command line.
func (c *choice) takeArguments(cmd *cobra.Command, names []string) error {
	c.names = names
	for _, name := range names {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			return fmt.Errorf("unexpected argument %q: did you mean -f %s?", name,
				finding.Show(name))
		}
	}
	if f := cmd.Flags().Lookup("file"); !f.Changed && (c.all || c.selector != "") &&
		// these commands find a config themselves
		!slices.Contains([]string{"pause", "end"}, cmd.Name()) {
		return errors.New("--all and --selector: expected -f, too: they are about a config")
	}
	if len(names) > 0 && (c.all || c.selector != "") || c.all && c.selector != "" {
		return errors.New("expected names of clusters, --all or --selector, only one of them")
	}
	return nil
}

// some reports whether the choice leaves out clusters.
func (c choice) some() bool { return len(c.names) > 0 || c.selector != "" }

// pick returns the chosen clusters of a config. A name is metadata.name or the cluster's name or ID
// in Azure.
func (c choice) pick(configs []v1alpha1.ClusterRoutes,
	paths []string) ([]v1alpha1.ClusterRoutes, error) {
	chosen := map[int]bool{}
	for _, name := range c.names {
		found, err := theNamed(name, files(paths), namesOf(configs), idsOf(configs))
		if err != nil {
			return nil, err
		}
		chosen[found] = true
	}
	selector, err := labels.Parse(c.selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	for i, config := range configs {
		fits := selector.Matches(labels.Set(config.Metadata.Labels))
		if !c.some() || c.selector != "" && fits {
			chosen[i] = true
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("--selector: no cluster in %s has labels that match %s",
			files(paths), finding.Show(c.selector))
	}
	var picked []v1alpha1.ClusterRoutes
	for _, i := range slices.Sorted(maps.Keys(chosen)) {
		picked = append(picked, configs[i])
	}
	return picked, nil
}

// inConfig returns the metadata.name of the chosen clusters, or nil if none is. Without paths it
// reads the only config in the current folder, unless the names suffice.
func (c choice) inConfig(a *app, paths []string) ([]string, error) {
	if !c.all && !c.some() || len(c.names) > 0 && len(paths) == 0 {
		return c.names, nil
	}
	paths, err := configsOrHere(paths)
	if err != nil {
		return nil, err
	}
	configs, err := a.readConfig(paths)
	if err != nil {
		return nil, err
	}
	picked, err := c.pick(configs, paths)
	return namesOf(picked), err
}

func namesOf(configs []v1alpha1.ClusterRoutes) (names []string) {
	for _, config := range configs {
		names = append(names, config.Metadata.Name)
	}
	return names
}

// idsOf returns the clusters of documents.
func idsOf(configs []v1alpha1.ClusterRoutes) (ids []arm.ID) {
	for _, config := range configs {
		ids = append(ids, arm.ID(config.Spec.ClusterID))
	}
	return ids
}

// files names the configs of -f.
func files(paths []string) string {
	names := slices.Clone(paths)
	for i, name := range names {
		if name == "-" {
			names[i] = "standard input"
		}
	}
	return strings.Join(names, ", ")
}

// theNamed returns the index of the only cluster that a name identifies: as its entry in names,
// such as metadata.name, or as its name or ID in Azure. place says where the clusters come from.
func theNamed(name, place string, names []string, ids []arm.ID) (int, error) {
	if i := slices.Index(names, name); i >= 0 && !slices.Contains(names[i+1:], name) {
		return i, nil
	}
	var found []int
	for i, id := range ids {
		if strings.EqualFold(names[i], name) || strings.EqualFold(id.Name(), name) ||
			id.Equal(arm.ID(name)) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return 0, noCluster(name, place, names)
	case 1:
		return found[0], nil
	}
	return 0, fmt.Errorf("several clusters in %s are named %s: name one by its ID", place,
		finding.Show(name))
}

// only returns the names of the documents that were picked, or nil if the choice leaves out none.
func (c choice) only(configs []v1alpha1.ClusterRoutes) (names []string) {
	if !c.some() {
		return nil
	}
	return namesOf(configs)
}

// ofClusters returns the part of a check that concerns some clusters, and the part that belongs to
// no cluster. Without names it returns the whole check.
func ofClusters(r keeper.Result, names []string) keeper.Result {
	if names == nil {
		return r
	}
	other := func(cluster string) bool { return cluster != "" && !slices.Contains(names, cluster) }
	outcome := func(o plan.Outcome) bool { return other(o.Cluster) }
	r.Configs = slices.DeleteFunc(slices.Clone(r.Configs), func(c v1alpha1.ClusterRoutes) bool {
		return other(c.Metadata.Name)
	})
	r.Changes = slices.DeleteFunc(r.Changes, outcome)
	r.OnlyObserved = slices.DeleteFunc(r.OnlyObserved, outcome)
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f finding.Finding) bool {
		return other(f.Cluster)
	})
	return r
}

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/trace"
)

// Completion of names. They come from files: the config, the history and a bundle. Azure is not
// asked, because a person who pressed a key does not wait that long. If anything fails, there are
// no completions, and nothing is printed.

// completer finds names for an unfinished command line.
type completer func(cmd *cobra.Command) []string

// complete makes a completion for arguments or the values of a flag. After most arguments, it
// completes nothing.
func (a *app) complete(names completer, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		if len(args) >= most || checkCloud(a, cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.err = io.Discard
		var fitting []cobra.Completion
		for _, name := range names(cmd) {
			if len(name) >= len(typed) && strings.EqualFold(name[:len(typed)], typed) &&
				!slices.Contains(args, name) {
				fitting = append(fitting, name)
			}
		}
		slices.Sort(fitting)
		return slices.Compact(fitting), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeWith completes a flag that accepts one of a few values.
func completeWith(cmd *cobra.Command, flag string, values []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func completeFlag(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) (
		[]cobra.Completion, cobra.ShellCompDirective) {
		return values(cmd, nil, typed)
	})
}

// manyArguments is for commands that take any number of arguments.
const manyArguments = 1 << 20

// configsAt returns the paths of the config of a command line, or of the only one in this folder.
func configsAt(cmd *cobra.Command) []string {
	for _, flag := range []string{"file", "config"} {
		paths, err := cmd.Flags().GetStringArray(flag)
		slices.Sort(paths)
		paths = slices.Compact(paths) // cobra parses flags twice to complete
		if err == nil && len(paths) > 0 && !slices.Contains(paths, "-") {
			return paths
		}
	}
	if path, err := configHere(); err == nil {
		return []string{path}
	}
	return nil
}

// configNames returns the clusters of the config, by metadata.name.
func (a *app) configNames(cmd *cobra.Command) []string {
	configs, _ := a.readConfig(configsAt(cmd))
	return namesOf(configs)
}

// clusterNames returns the clusters of the config and the bundle, by their names in Azure.
func (a *app) clusterNames(cmd *cobra.Command) (names []string) {
	configs, _ := a.readConfig(configsAt(cmd))
	for _, id := range idsOf(configs) {
		names = append(names, id.Name())
	}
	if e := bundleOf(cmd); e != nil {
		for _, id := range e.Clusters {
			names = append(names, id.Name())
		}
	}
	return names
}

// bundleOf returns the bundle of the command line, or nil.
func bundleOf(cmd *cobra.Command) *examination {
	path, err := cmd.Flags().GetString("from-bundle")
	if err != nil || path == "" {
		return nil
	}
	e, err := openBundle(cmd.Context(), examineOptions{bundle: path})
	if err != nil {
		return nil
	}
	return e
}

func (a *app) tableIDs(cmd *cobra.Command) []string { return texts(targets(a, cmd)) }

func (a *app) targetNames(cmd *cobra.Command) (names []string) {
	for _, id := range targets(a, cmd) {
		names = append(names, id.Name())
	}
	return names
}

func targets(a *app, cmd *cobra.Command) (ids []arm.ID) {
	configs, _ := a.readConfig(configsAt(cmd))
	for _, c := range configs {
		ids = append(ids, tablesOf(c)...)
	}
	return ids
}

// endNames returns the ends in a bundle that trace can name: nodes, subnets, gateways, machines and
// pods.
func endNames(cmd *cobra.Command) []string {
	e := bundleOf(cmd)
	if e == nil {
		return nil
	}
	return trace.New(e.Snapshot, trace.Options{}).Names()
}

// historyOf opens the history that a command line names, or the only one in this folder.
func historyOf(cmd *cobra.Command) (*history.Reader, error) {
	o := historyOptions{}
	o.path, _ = cmd.Flags().GetString("history")
	o.configs, _ = cmd.Flags().GetStringArray("file")
	_, r, err := o.open()
	return r, err
}

// historyNames returns the clusters in the history.
func historyNames(cmd *cobra.Command) []string {
	r, err := historyOf(cmd)
	if err != nil {
		return nil
	}
	defer r.Close()
	names, _ := r.Clusters()
	return names
}

// checkIDs returns the newest checks in the history, with what happened.
func checkIDs(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	const keepOrder = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	r, err := historyOf(cmd)
	if err != nil || len(args) > 0 {
		return nil, keepOrder
	}
	defer r.Close()
	var ids []cobra.Completion
	_ = r.Each(history.Query{Limit: 30}, func(e history.Entry) error {
		ids = append(ids, fmt.Sprintf("%d\t%s, %s", e.ID,
			e.Started.Local().Format("01-02 15:04"), pastReport(e).Summary()))
		return nil
	})
	return ids, keepOrder
}

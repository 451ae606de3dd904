package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/report"
)

type historyOptions struct {
	path    string // --history
	configs []string
	cluster string
	since   string
	kind    string
	limit   int
}

func newHistory(a *app) *cobra.Command {
	var o historyOptions
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show what was changed or refused, when, and why",
		Long: `Lists the checks in which run, sync or sync prune changed or refused
something, or found something new, newest first. "history show ID" shows one
check: its trigger, what it read, each change before and after, and its calls to
Azure. "history export" writes all checks as lines of JSON.

The history also says who took a route table off a subnet, or changed a route
that was repaired. A running keeper adds this some minutes later, when the
activity log shows it.

The history is an SQLite file next to the config (routes.history.db for
routes.yaml, routekeeper.history.db in a folder). Name the config with -f as for
run, or the file with --history. Without either, history uses the only one in
the current folder. Times are local; times in JSON are UTC.`,
		Example: `  routekeeper history --since 2d
  routekeeper history -f routes.yaml --cluster shop --kind refusal
  routekeeper history show 17
  routekeeper history export --since 2026-01-01 > checks.jsonl`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return runHistory(a, o) },
	}
	flags := cmd.PersistentFlags()
	flags.StringArrayVarP(&o.configs, "file", "f", nil,
		"config `FILE` or folder whose history to read (repeatable, as for run)")
	flags.StringVar(&o.path, "history", "", "the history's `FILE`")
	_ = cmd.MarkPersistentFlagFilename("file", "yaml", "yml", "json")
	_ = cmd.MarkPersistentFlagFilename("history", "db")
	filterFlags(a, cmd, &o)
	cmd.Flags().IntVar(&o.limit, "limit", 50, "show only the newest `N`; 0 for all")
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	cmd.AddCommand(newHistoryShow(a, &o), newHistoryExport(a, &o))
	return cmd
}

func filterFlags(a *app, cmd *cobra.Command, o *historyOptions) {
	f := cmd.Flags()
	f.StringVar(&o.cluster, "cluster", "", "only what concerns the ClusterRoutes of this `NAME`")
	f.StringVar(&o.since, "since", "", "only what began since: an age (2h, 7d) or a `TIME` "+
		"(2026-01-31, 2026-01-31T15:04:05Z)")
	f.StringVar(&o.kind, "kind", "", "only checks of this `kind`: "+
		strings.Join(history.Kinds, ", "))
	completeFlag(cmd, "cluster", a.complete(historyNames, 1))
	completeWith(cmd, "kind", history.Kinds)
}

func newHistoryShow(a *app, o *historyOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "show ID",
		Short:             "Show one check: what it read and what it changed",
		ValidArgsFunction: checkIDs,
		Example: "  routekeeper history show 17\n  routekeeper history show 17 -o " +
			"markdown",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("expected the number of one check, as routekeeper history " +
					"lists them")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runHistoryShow(a, *o, args[0]) },
	}
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	return cmd
}

func newHistoryExport(a *app, o *historyOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write all checks as lines of JSON, newest first",
		Example: "  routekeeper history export --out checks.jsonl\n" +
			"  routekeeper history export --kind change | jq .changes",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return runHistoryExport(a, *o) },
	}
	filterFlags(a, cmd, o)
	a.outFlag(cmd)
	return cmd
}

func runHistory(a *app, o historyOptions) error {
	q, err := o.query(time.Now())
	if err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	_, r, err := o.open()
	if err != nil {
		return err
	}
	defer r.Close()
	entries := []history.Entry{}
	shown := report.History{Limit: o.limit}
	if err := r.Each(q, func(e history.Entry) error {
		entries, shown.Checks = append(entries, e), append(shown.Checks, pastReport(e))
		return nil
	}); err != nil {
		return err
	}
	if len(entries) == 0 {
		if err := checkName(a, o); err != nil {
			return err
		}
	}
	repairs, err := r.Repairs(o.cluster, time.Now())
	if err != nil {
		return err
	}
	shown.Repairs = repairs.String()
	shown.Value = map[string]any{"checks": entries, "repairs": repairs}
	return shown.Write(w, format, style)
}

func runHistoryShow(a *app, o historyOptions, number string) error {
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil || id < 1 {
		return fmt.Errorf("%q is not the number of a check, as routekeeper history lists them",
			number)
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	_, r, err := o.open()
	if err != nil {
		return err
	}
	defer r.Close()
	found := false
	if err := r.Each(history.Query{ID: id}, func(e history.Entry) error {
		found = true
		if format == report.JSON {
			return report.WriteJSON(w, e)
		}
		return pastReport(e).Write(w, format, style)
	}); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("check %d is not in the history: it may have been removed for its age",
			id)
	}
	return nil
}

func runHistoryExport(a *app, o historyOptions) error {
	q, err := o.query(time.Now())
	if err != nil {
		return err
	}
	w, err := a.raw()
	if err != nil {
		return err
	}
	_, r, err := o.open()
	if err != nil {
		return err
	}
	defer r.Close()
	w = report.Safe(w, report.JSON, report.Style{})
	found := false
	if err := r.Each(q, func(e history.Entry) error {
		found = true
		return report.WriteJSON(w, e)
	}); err != nil || found {
		return err
	}
	return checkName(a, o)
}

// checkName returns an error if neither the history nor the config has the cluster of --cluster.
func checkName(a *app, o historyOptions) error {
	if o.cluster == "" {
		return nil
	}
	path, r, err := o.open()
	if err != nil {
		return err
	}
	defer r.Close()
	names, err := r.Clusters()
	if err != nil {
		return err
	}
	if paths, err := configsOrHere(o.configs); err == nil {
		configs, _ := a.readConfig(paths)
		names = append(names, namesOf(configs)...)
	}
	if len(names) == 0 || slices.Contains(names, o.cluster) {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("--cluster: the history %s has no cluster %q%s", path, o.cluster,
		instead(o.cluster, slices.Compact(names)))
}

func (o historyOptions) query(now time.Time) (history.Query, error) {
	q := history.Query{Cluster: o.cluster, Kind: o.kind, Limit: o.limit}
	if o.kind != "" && !slices.Contains(history.Kinds, o.kind) {
		return q, fmt.Errorf("--kind: unknown value %q, expected %s", o.kind,
			strings.Join(history.Kinds, ", "))
	}
	if o.limit < 0 {
		return q, fmt.Errorf("--limit: %d is out of range, expected 0 or more", o.limit)
	}
	if o.since == "" {
		return q, nil
	}
	if age, err := parseAge(o.since); err == nil {
		q.Since = now.Add(-age)
		return q, nil
	}
	for _, layout := range []string{time.DateOnly, time.DateTime, time.RFC3339} {
		if at, err := time.ParseInLocation(layout, o.since, time.Local); err == nil {
			q.Since = at
			return q, nil
		}
	}
	return q, fmt.Errorf("--since: %q is neither an age such as 2h or 7d nor a time such as "+
		"2026-01-31 or 2026-01-31T15:04:05Z", o.since)
}

// open opens the history that the flags name.
func (o historyOptions) open() (path string, r *history.Reader, err error) {
	if path, err = o.find(); err != nil {
		return "", nil, err
	}
	r, err = history.Read(path)
	return path, r, err
}

// find returns the file of the history that the flags name.
func (o historyOptions) find() (string, error) {
	if o.path != "" {
		return o.path, nil
	}
	if len(o.configs) > 0 {
		if path := historyNextTo(o.configs); path != "" {
			return path, nil
		}
		return "", errors.New("-f: a config from standard input has no history next to it: name " +
			"the file with --history")
	}
	path, err := historyHere()
	if err != nil {
		return "", fmt.Errorf("%w; name the config with -f, or the file with --history", err)
	}
	return path, nil
}

// historyHere returns the only history in the current folder.
func historyHere() (string, error) {
	here, err := filepath.Glob("*" + history.Extension)
	switch {
	case err != nil:
		return "", err
	case len(here) == 0:
		return "", errors.New("there is no history in this folder")
	case len(here) > 1:
		return "", fmt.Errorf("there are several histories in this folder (%s)",
			strings.Join(here, ", "))
	}
	return here[0], nil
}

// historyNextTo returns the file where run and sync store the history of a config: next to the
// first file, or in the folder. It is "" for a config from standard input.
func historyNextTo(configs []string) string {
	first := configs[0]
	if first == "-" {
		return ""
	}
	if info, err := os.Stat(first); err == nil && info.IsDir() {
		return filepath.Join(first, "routekeeper"+history.Extension)
	}
	return strings.TrimSuffix(first, filepath.Ext(first)) + history.Extension
}

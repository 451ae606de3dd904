package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/silence"
	"routekeeper.dev/routekeeper/internal/trace"
)

// silenceOptions say which keeper's silences the command is about.
type silenceOptions struct {
	configs []string
	history string

	cluster, resource, reason string
	length                    time.Duration
}

func (o *silenceOptions) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.history, "history", "",
		"the keeper's history `FILE`, if it is not next to the config")
	_ = cmd.MarkFlagFilename("history", "db")
}

// silenceFile returns the file with a keeper's silences and pauses. It is next to the history, even
// if that is off. It is "" for a keeper without config files and history.
func silenceFile(past string, configs []string) string {
	switch {
	case past != "" && past != noHistory:
	case len(configs) == 0:
		return ""
	default:
		if past = historyNextTo(configs); past == "" {
			return ""
		}
	}
	return strings.TrimSuffix(past, history.Extension) + silence.Extension
}

// find returns the history and the store that the flags name.
func (o silenceOptions) find() (past string, store *silence.Store, err error) {
	past, err = historyOptions{configs: o.configs, path: o.history}.find()
	if err != nil {
		return "", nil, err
	}
	return past, silence.Open(silenceFile(past, nil), nil), nil
}

// signed fills in who adds an entry, why, from where and for how long.
func (o silenceOptions) signed(e silence.Entry, length time.Duration) silence.Entry {
	e.By, e.From = person()
	e.Reason, e.Until = o.reason, time.Now().Add(length)
	return e
}

// person returns who runs the command, and from where.
func person() (by, from string) {
	by, from = "a person", "the command line"
	if u, err := user.Current(); err == nil {
		by = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		from += " on " + host
	}
	return by, from
}

func newSilence(a *app) *cobra.Command {
	var o silenceOptions
	cmd := &cobra.Command{
		Use:     "silence [CODE]",
		Aliases: []string{"ack"},
		Short:   "Silence findings for a time, with a reason",
		Long: `Silences the current findings with a code, or lists what is silenced and paused.

A silenced finding stays visible, in JSON with "silenced". But nothing calls for
attention: no message, no count on the page, no red. Repairs go on. A silence ends at its
time, when the finding becomes worse, or with silence end. A new finding, on
another cluster or resource, is not silenced.

Silences are in a file next to the history (routes.silences). The history
records who silenced what, from where and why.`,
		Example: `  routekeeper silence association-other-table -f routes.yaml --cluster shop \
    --for 1d --reason "known, ticket 4711"
  routekeeper silence
  routekeeper silence end 3`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listSilences(a, o)
			}
			return addSilence(a, o, finding.Code(args[0]))
		},
	}
	optionalConfigFlag(cmd, &o.configs)
	o.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.cluster, "cluster", "", "only findings of the cluster with this `NAME`")
	f.StringVar(&o.resource, "resource", "", "only findings of the resource with this `ID` or name")
	durationFlag(f, &o.length, "for", 8*time.Hour, "how long, at most 7d")
	f.StringVar(&o.reason, "reason", "", "why, for others to read")
	a.outputFlags(cmd, report.Text, report.JSON)
	cmd.AddCommand(newSilenceEnd(a))
	return cmd
}

func newSilenceEnd(a *app) *cobra.Command {
	var o silenceOptions
	cmd := &cobra.Command{
		Use:     "end NUMBER…",
		Short:   "End silences and pauses of clusters",
		Long:    "Ends silences and pauses of clusters, by the numbers that silence lists.",
		Example: "  routekeeper silence end 3 -f routes.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			_, store, err := o.find()
			if err != nil {
				return err
			}
			by, from := person()
			for _, arg := range args {
				n, err := strconv.Atoi(arg)
				if err != nil {
					return fmt.Errorf("%s is not a number: routekeeper silence lists them",
						strconv.Quote(arg))
				}
				ended, err := store.End(by, from, func(e silence.Entry) bool { return e.ID == n })
				if err != nil {
					return err
				}
				if len(ended) == 0 {
					return fmt.Errorf("there is no silence and no pause %d: routekeeper silence "+
						"lists them", n)
				}
				fmt.Fprintf(a.out, "Ended: %s\n", report.Plain(words(ended[0])))
			}
			return nil
		},
	}
	optionalConfigFlag(cmd, &o.configs)
	o.flags(cmd)
	return cmd
}

// words returns an entry on one line.
func words(e silence.Entry) string {
	what := "pause of " + e.Cluster
	if e.Kind == silence.Silence {
		what = "silence of " + string(e.Code)
		if e.Cluster != "" {
			what += " on " + e.Cluster
		}
		if e.Resource != "" {
			what += " (" + path.Base(e.Resource) + ")"
		}
	}
	return fmt.Sprintf("%d: %s until %s by %s: %s", e.ID, what, e.Until.Format(time.RFC3339), e.By,
		e.Reason)
}

func listSilences(a *app, o silenceOptions) error {
	_, store, err := o.find()
	if err != nil {
		return err
	}
	w, format, _, err := a.stream()
	if err != nil {
		return err
	}
	all := store.Current()
	if format == report.JSON {
		return report.WriteJSON(w, struct {
			Entries []silence.Entry `json:"entries"`
		}{all})
	}
	if len(all) == 0 {
		fmt.Fprintln(w, "Nothing is silenced, and no cluster is paused.")
	}
	for _, e := range all {
		fmt.Fprintln(w, report.Plain(words(e)))
	}
	return nil
}

// addSilence silences the current findings that the flags select, as the history has them.
func addSilence(a *app, o silenceOptions, code finding.Code) error {
	if err := knownCode(code); err != nil {
		return err
	}
	past, store, err := o.find()
	if err != nil {
		return err
	}
	r, err := history.Read(past)
	if err != nil {
		return err
	}
	defer r.Close()
	now, err := r.Now()
	if err != nil {
		return err
	}
	var entries []silence.Entry
	for _, f := range now.Findings {
		if f.Code != code || o.cluster != "" && f.Cluster != o.cluster || o.resource != "" &&
			!strings.EqualFold(f.Resource, o.resource) &&
			!strings.EqualFold(path.Base(f.Resource), o.resource) {
			continue
		}
		if err := silence.Can(f); err != nil {
			return err
		}
		entries = append(entries, o.signed(silence.Of(f), o.length))
	}
	if len(entries) == 0 {
		return fmt.Errorf("no current finding of %s is %s with these flags; only findings "+
			"of run or sync can be silenced (routekeeper status -o json lists them), not those "+
			"of doctor", past, code)
	}
	if err := store.Add(entries...); err != nil {
		return silenceError(err)
	}
	fmt.Fprintf(a.out, "Silenced %s until %s.\n", finding.Count(len(entries), "finding"),
		entries[0].Until.Format(time.RFC3339))
	return nil
}

// knownCode says why a code belongs to no finding, or returns nil.
func knownCode(code finding.Code) error {
	var codes []string
	for _, d := range finding.All() {
		codes = append(codes, string(d.Code))
	}
	if !slices.Contains(codes, string(code)) {
		return fmt.Errorf("%s is not the code of a finding%s", report.Plain(string(code)),
			trace.Near(string(code), codes))
	}
	return nil
}

// silenceError names the flag that an error is about.
func silenceError(err error) error {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "the reason"):
		return fmt.Errorf("--reason: %w", err)
	case strings.HasPrefix(text, "the time"):
		return fmt.Errorf("--for: %w", err)
	}
	return err
}

func pauseClusters(a *app, o silenceOptions, clusters []string, length time.Duration) error {
	past, store, err := o.find()
	if err != nil {
		return err
	}
	var entries []silence.Entry
	for _, name := range clusters {
		entries = append(entries,
			o.signed(silence.Entry{Kind: silence.Pause, Cluster: name}, length))
	}
	if err := store.Add(entries...); err != nil {
		return silenceError(err)
	}
	for _, e := range entries {
		fmt.Fprintf(a.out, "Paused %s until %s: the keeper with the history %s makes no changes "+
			"for it.\n", e.Cluster, e.Until.Format(time.RFC3339), past)
	}
	return nil
}

// resumeClusters ends the pauses of clusters. named means that a person named each of them.
func resumeClusters(a *app, o silenceOptions, clusters []string, named bool) error {
	_, store, err := o.find()
	if err != nil {
		return err
	}
	by, from := person()
	ended, err := store.End(by, from, func(e silence.Entry) bool {
		return e.Kind == silence.Pause && slices.Contains(clusters, e.Cluster)
	})
	if err != nil {
		return err
	}
	for _, name := range clusters {
		if slices.ContainsFunc(ended, func(e silence.Entry) bool { return e.Cluster == name }) {
			fmt.Fprintf(a.out, "Resumed %s: the keeper makes changes for it again.\n", name)
		} else if named {
			err = cmp.Or(err, errors.New(report.Plain(name)+" is not paused"))
		}
	}
	if len(ended) == 0 && err == nil {
		err = errors.New("none of these clusters is paused")
	}
	return err
}

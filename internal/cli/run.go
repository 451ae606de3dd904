package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/report"
)

const defaultClusterInterval = 5 * time.Minute

// defaultPerMinute is more than a fleet changes when it scales, and little compared to what a
// mistake could change: 1000 clusters of 20 nodes have 20,000 routes in each target.
const defaultPerMinute = 1000

// limitFlag adds the flag that limits the changes of routes.
func limitFlag(cmd *cobra.Command, perMinute *int, usual int) {
	cmd.Flags().IntVar(perMinute, "max-changes-per-minute", usual,
		"change at most `N` routes a minute, over all clusters; 0 for any number")
}

func checkLimit(perMinute int) error {
	if perMinute < 0 {
		return fmt.Errorf("--max-changes-per-minute: %d is out of range, expected 0 or more",
			perMinute)
	}
	return nil
}

// keepingOptions are the flags of the commands that run a keeper until they are interrupted.
type keepingOptions struct {
	interval        time.Duration
	clusterInterval time.Duration
	perMinute       int
	dryRun          bool
	verbose         bool
	listen          listenOptions
	history         keepOptions
}

// flags adds the flags about what to manage, and how.
func (o *keepingOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	durationFlag(f, &o.interval, "interval", 10*time.Second, "time between two checks")
	durationFlag(f, &o.clusterInterval, "cluster-interval", 0, "time between two reads of the "+
		"clusters themselves (default 5m, or --interval if that is longer)")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be done and write nothing")
	limitFlag(cmd, &o.perMinute, defaultPerMinute)
}

// check checks the flags, and sets the defaults.
func (o *keepingOptions) check() error {
	if o.interval < time.Second {
		return fmt.Errorf("--interval: %s is too short, expected 1s or more", o.interval)
	}
	if err := checkLimit(o.perMinute); err != nil {
		return err
	}
	if o.clusterInterval == 0 {
		o.clusterInterval = max(defaultClusterInterval, o.interval)
	}
	if o.clusterInterval < o.interval {
		return fmt.Errorf("--cluster-interval: %s is shorter than --interval (%s)",
			o.clusterInterval, o.interval)
	}
	return nil
}

// daemonOptions returns what a daemon needs from the flags, except its configs. paths are those of
// -f.
func daemonOptions(ctx context.Context, a *app, o keepingOptions, paths []string,
	nodes nodesOptions) (daemon.Options, error) {
	past, err := o.history.options()
	if err != nil {
		return daemon.Options{}, err
	}
	listen, err := o.listen.server(ctx, a)
	if err != nil {
		return daemon.Options{}, err
	}
	options := daemon.Options{
		Interval: o.interval, ClusterInterval: o.clusterInterval, DryRun: o.dryRun,
		ChangesPerMinute: o.perMinute,
		Connect:          a.connectTelling, Nodes: nodes.source,
		HistoryFile: o.history.file(paths), History: past,
		SilenceFile: silenceFile(o.history.path, paths),
		Listen:      listen, Actions: o.listen.actions, Version: version(),
		Log: logWithoutWaiting(a, o.verbose), LogDropped: a.lines.Dropped,
	}
	if o.dryRun {
		options.HistoryFile = ""
	}
	return options, nil
}

type runOptions struct {
	keepingOptions
	paths []string
	nodes nodesOptions
	once  bool
}

func newRun(a *app) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run -f FILE",
		Short: "Keep all configured routes and associations correct until interrupted",
		Long: `run checks the network at every interval and keeps the routes and associations
of every ClusterRoutes document correct. It logs to standard error: short lines
on a terminal, otherwise JSON. With -o json, it also writes every check with news as
a line of JSON to standard output; with --out, it appends them to a file. Checks
without news are logged once an hour, or all of them with --verbose.

With --listen, run serves pages that show the state of all clusters, /metrics,
/livez and /readyz. It also accepts events of Azure Monitor and Event Grid at
/events; an event starts a check at once. Callers from other machines must
authenticate: people with a password or a token of Entra ID, programs with such
a token or a secret. See docs/page.md and docs/events.md.

run reads the config again when its files change, or at a SIGHUP. If the new
config has an error, the old one stays in use.

run changes at most 1000 routes a minute over all clusters
(--max-changes-per-minute). So you can notice a mistake that makes many routes
look wrong before all of them are changed. The other changes wait, and the
finding changes-limited says so. Associations, and changes that you request on a
page, do not wait.

run records in a history what it changed or refused; routekeeper history shows
it. The file is next to the config (routes.history.db for routes.yaml,
routekeeper.history.db in a folder), or where --history says.

A Notify document in the config sends word of errors and repairs to Slack, Teams
or a webhook. See docs/notifications.md.

Ctrl-C finishes the write in flight and exits; a second Ctrl-C exits at once.
Under systemd (Type=notify) the service is up after its first check.

Exit code 0: interrupted; 1: an error. With --once as for sync.`,
		Example: `  routekeeper run -f routes.yaml
  routekeeper run -f routes.yaml --listen 127.0.0.1:8080
  routekeeper run -f clusters/ -o json
  routekeeper run -f routes.yaml --once --dry-run
  routekeeper run -f routes.yaml --listen :8443 --tls-cert tls.crt \
    --tls-key tls.key --event-secret-file secret`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRun(cmd.Context(), a, o) },
	}
	configFlag(cmd, &o.paths)
	f := cmd.Flags()
	o.keepingOptions.flags(cmd)
	o.nodes.flags(cmd, "kubeconfig")
	f.BoolVar(&o.once, "once", false, "check once and exit, like sync --yes")
	groupFlags(cmd, groupManage)
	o.listen.flags(cmd)
	groupFlags(cmd, groupListen)
	o.history.flags(cmd)
	groupFlags(cmd, groupHistory)
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
	f.BoolP("help", "h", false, "show this help")
	groupFlags(cmd, groupOutput)
	return cmd
}

func runRun(ctx context.Context, a *app, o runOptions) error {
	if o.once {
		if o.listen.address != "" {
			return errors.New("--once and --listen exclude each other")
		}
		return runSync(ctx, a, syncOptions{paths: o.paths, yes: true, dryRun: o.dryRun,
			perMinute: o.perMinute, nodes: o.nodes, keep: o.history})
	}
	if err := o.check(); err != nil {
		return err
	}
	configs, err := a.readConfig(o.paths)
	if err != nil {
		return err
	}
	w, format, style, err := a.stream()
	if err != nil {
		return err
	}
	options, err := daemonOptions(ctx, a, o.keepingOptions, o.paths, o.nodes)
	if err != nil {
		return err
	}
	log := options.Log
	options.Paths, options.Configs = o.paths, configs
	options.Files.Read = func() ([]v1alpha1.ClusterRoutes, error) { return a.readConfig(o.paths) }
	options.Notify = func() (*v1alpha1.Notify, error) { return readNotify(a, "-f", o.paths) }
	if !slices.Contains(o.paths, "-") { // standard input is read once
		options.Files.Fingerprint = func() (string, error) { return fingerprint(o.paths) }
	}
	if format == report.Text && a.outFile == nil {
		return daemon.Run(ctx, options) // standard output would only repeat the log
	}
	out := daemon.NewLines(w, func(dropped int64) {
		log.Warn("reports were dropped, because they were not read", "reports", dropped)
	})
	options.News = func(r keeper.Result) error {
		var text bytes.Buffer
		if err := reportOf(r, len(r.Managed)).Write(&text, format, style); err != nil {
			return err
		}
		_, err := out.Write(text.Bytes())
		return err
	}
	err = daemon.Run(ctx, options)
	out.Flush(lastWords)
	return errors.Join(err, out.Failed())
}

// lastWords is how long the program waits at its end for slow readers of its log and reports.
const lastWords = time.Second

// logWithoutWaiting makes the log of a daemon on standard error. A reader that hangs does not block
// the log. From then on, all other text for standard error takes the same way.
func logWithoutWaiting(a *app, verbose bool) *slog.Logger {
	direct, log := a.err, loggerFor(a.err, verbose)
	a.lines = daemon.NewLines(direct, func(dropped int64) {
		log(direct).Warn("log lines were dropped, because the log was not read", "lines", dropped)
	})
	a.err = a.lines
	return log(a.lines)
}

// loggerFor makes the log of a daemon on a stream: short lines for a person at a terminal, JSON for
// programs. Its lines may reach the stream through another writer.
func loggerFor(stream any, verbose bool) func(w io.Writer) *slog.Logger {
	person, style := terminal(stream), report.Style{Color: colour(stream)}
	return func(w io.Writer) *slog.Logger { return logger(w, verbose, person, style) }
}

func logger(w io.Writer, verbose, person bool, style report.Style) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	if person {
		return slog.New(terminalLog{w: report.Safe(w, report.Text, style), mu: new(sync.Mutex),
			style: style, level: level})
	}
	return slog.New(slog.NewJSONHandler(report.Safe(w, report.JSON, report.Style{}),
		&slog.HandlerOptions{Level: level}))
}

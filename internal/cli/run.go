package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/report"
)

const defaultClusterInterval = 5 * time.Minute

// defaultPerMinute is more than a fleet changes that scales, and little beside what a mistake could
// change: 1000 clusters of 20 nodes have 20,000 routes in each target.
const defaultPerMinute = 1000

// limitFlag adds the flag that limits the changes of routes.
func limitFlag(cmd *cobra.Command, perMinute *int, usual int) {
	cmd.Flags().IntVar(perMinute, "max-changes-per-minute", usual,
		"change at most `N` routes a minute, over all clusters; 0 for any number")
}

func checkLimit(perMinute int) error {
	if perMinute < 0 {
		return fmt.Errorf("--max-changes-per-minute: %d is less than nothing", perMinute)
	}
	return nil
}

type runOptions struct {
	paths           []string
	interval        time.Duration
	clusterInterval time.Duration
	perMinute       int
	once, dryRun    bool
	verbose         bool
	listen          listenOptions
	history         keepOptions
}

func (a *app) newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run -f FILE",
		Short: "Keep all configured routes and associations true until interrupted",
		Long: `Looks at the network again and again and keeps every ClusterRoutes in the config true. What happens is logged to standard
error: as text on a terminal, as JSON elsewhere. With -o json every round that brought news is also one line of JSON on
standard output; with --out the rounds are written behind what the file holds. A round without news is logged with
--verbose only, or once an hour.

With --listen it shows how everything stands on pages, with each cluster's network drawn; takes events of Azure Monitor and Event Grid
at /events, which lead to a look at once; and answers /metrics, /livez and /readyz. Beyond loopback callers must be known: people by a
password or a token of Entra ID, programs by such a token or a secret. See docs/page.md and docs/events.md.

The config is read again when its files change, or at a SIGHUP; one with a mistake is not taken, and the old one stays.

It changes at most 1000 routes a minute over all clusters (--max-changes-per-minute): so a mistake that makes many routes look wrong
is seen before all are changed. What does not fit waits, and the finding changes-limited says so. Associations, and what somebody asks
for on a page, do not wait.

What it changed or refused is kept in a history, which routekeeper history shows: each change before it is made and after. The
file is beside the config (routes.history.db for routes.yaml, routekeeper.history.db in a folder), or where --history says.

Ctrl-C finishes the write in flight and leaves; a second one leaves at once. Under systemd (Type=notify) it is up when the first round
was made.

Exit code 0: interrupted; 1: an error. With --once as of sync.`,
		Example: `  routekeeper run -f routes.yaml
  routekeeper run -f clusters/ -o json
  routekeeper run -f routes.yaml --listen :8443 --tls-cert tls.crt --tls-key tls.key --event-secret-file secret
  routekeeper run -f routes.yaml --once --dry-run`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runRun(cmd.Context(), o) },
	}
	configFlag(cmd, &o.paths)
	f := cmd.Flags()
	durationFlag(f, &o.interval, "interval", 10*time.Second, "time between two looks")
	durationFlag(f, &o.clusterInterval, "cluster-interval", 0, "time between two looks at the clusters themselves (default 5m, or --interval where that is longer)")
	f.BoolVar(&o.once, "once", false, "make one round and exit, like sync")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be done and write nothing")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
	limitFlag(cmd, &o.perMinute, defaultPerMinute)
	o.listen.flags(cmd)
	o.history.flags(cmd)
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	return cmd
}

func (a *app) runRun(ctx context.Context, o runOptions) error {
	if o.once {
		if o.listen.address != "" {
			return errors.New("--once and --listen: expected one of them")
		}
		return a.runSync(ctx, o.paths, o.dryRun, o.perMinute, o.history)
	}
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
		return fmt.Errorf("--cluster-interval: %s is shorter than --interval (%s)", o.clusterInterval, o.interval)
	}
	configs, err := a.readConfig(o.paths)
	if err != nil {
		return err
	}
	w, format, style, err := a.stream()
	if err != nil {
		return err
	}
	past, err := o.history.options()
	if err != nil {
		return err
	}
	listen, err := o.listen.server(ctx, a)
	if err != nil {
		return err
	}
	log := a.logWithoutWaiting(o.verbose)
	options := daemon.Options{
		Paths: o.paths, Configs: configs,
		Files: daemon.ConfigFiles{
			Read: func() ([]v1alpha1.ClusterRoutes, error) { return a.readConfig(o.paths) },
		},
		Interval: o.interval, ClusterInterval: o.clusterInterval, DryRun: o.dryRun,
		ChangesPerMinute: o.perMinute,
		Connect:          a.connectTelling, HistoryFile: o.history.file(o.paths), History: past,
		Listen: listen, Actions: o.listen.actions, Version: version(),
		Log: log, LogDropped: a.lines.Dropped,
	}
	if !slices.Contains(o.paths, "-") { // standard input is read once
		options.Files.Fingerprint = func() string { return fingerprint(o.paths) }
	}
	if o.dryRun && !o.listen.actions {
		options.HistoryFile = ""
	}
	if format == report.Text && a.outFile == nil {
		return daemon.Run(ctx, options) // standard output would only repeat the log
	}
	out := daemon.NewLines(w, func(dropped int64) {
		log.Warn("reports were dropped, because they were not read", "reports", dropped)
	})
	options.News = func(r keeper.Round) error {
		var text bytes.Buffer
		if err := roundReport(r, len(r.Kept)).Write(&text, format, style); err != nil {
			return err
		}
		_, err := out.Write(text.Bytes())
		return err
	}
	err = daemon.Run(ctx, options)
	out.Flush(lastWords)
	return errors.Join(err, out.Failed())
}

// lastWords is how long the end of a run waits for a log, or reports, that nobody reads.
const lastWords = time.Second

// logWithoutWaiting makes the log of a daemon on standard error, which holds up nothing while it is
// not read. What else goes to standard error goes the same way from then on.
func (a *app) logWithoutWaiting(verbose bool) *slog.Logger {
	direct, person := a.err, terminal(a.err)
	a.lines = daemon.NewLines(direct, func(dropped int64) {
		logger(direct, verbose, person).
			Warn("log lines were dropped, because the log was not read", "lines", dropped)
	})
	a.err = a.lines
	return logger(a.lines, verbose, person)
}

// logger makes the log of a daemon: text for a person, JSON for a program.
func logger(w io.Writer, verbose, person bool) *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		o.Level = slog.LevelDebug
	}
	if !person {
		return slog.New(slog.NewJSONHandler(report.Safe(w, report.JSON, report.Style{}), o))
	}
	o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.String("time", a.Value.Time().Format(time.TimeOnly))
		}
		return a
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// Package daemon implements `routekeeper run`: a keeper with its history, listener, reloads, pause
// file and log.
//
// How it works: Run connects to Azure, opens the history, starts the listener, watches the config
// files, and then runs the keeper until the context ends. The keeper reports each check to the
// metrics, the health checks, the page and the log.
//
// It must not decide anything about routes, or know flags.
package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/openfiles"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/serve/page"
	"routekeeper.dev/routekeeper/internal/silence"
)

// garbage is the GC percentage: half of Go's default. The program has little to do and runs for
// years next to others, so memory matters more than processor time.
const garbage = 50

// Options say what to run.
type Options struct {
	// Paths name the config, as -f does. Their pause files pause the keeper.
	Paths []string
	// Configs are the content of Files at the start.
	Configs []v1alpha1.ClusterRoutes
	Files   ConfigFiles
	// Follow, if set, gives the keeper its configs until the context ends. Then Files only shows
	// when to call Notify again. Nil means that the configs come from Files.
	Follow func(context.Context, Running)
	// Nodes makes keeper.Options.Nodes; nil for none.
	Nodes func(*azure.Client) keeper.Nodes
	// Notify reads the recipients of messages, at the start and when the config files change; nil
	// means none.
	Notify func() (*v1alpha1.Notify, error)
	// Withhold is keeper.Options.Withhold.
	Withhold func(keeper.Intent) string
	// Interval is the time between two checks, and ClusterInterval the time between two reads of
	// the clusters themselves.
	Interval, ClusterInterval time.Duration
	DryRun                    bool
	// ChangesPerMinute limits the changes of routes over all clusters; 0 means no limit.
	ChangesPerMinute int
	// Connect makes the client, which reports each call to called.
	Connect func(_ context.Context, log *slog.Logger, called func(azure.Call)) (*azure.Client,
		error)
	// SilenceFile is the file of silences and pauses of clusters, "" for none.
	SilenceFile string
	// HistoryFile is the file of the history, "" for none.
	HistoryFile string
	History     history.Options
	// Listen says where to listen and who may call; Run fills in the rest. Nil means that Run does
	// not listen.
	Listen *serve.Options
	// Actions lets people sync and repair on the pages.
	Actions bool
	Version string
	// Metrics are served with the keeper's; nil for none.
	Metrics prometheus.Gatherer
	// Planned receives each check before it makes its changes, Checked each check at its end. They
	// must not block. May be nil.
	Planned, Checked func(keeper.Result)
	// News receives each check with news. An error ends Run. May be nil.
	News func(keeper.Result) error
	// Log must not block: see Lines. LogDropped counts its dropped lines.
	Log        *slog.Logger
	LogDropped func() int64
}

// Running is what Follow works with.
type Running struct {
	Keeper *keeper.Keeper
	// Idle is called at least every half minute while there is no config, so that health checks do
	// not consider the keeper stuck.
	Idle func()
	// Live says why the keeper is stuck, or nil.
	Live func() error
	// Refused receives the configs that are refused now, one line for each.
	Refused func([]string)
}

// metrics returns the metrics that the program has from its start.
func (o Options) metrics() *serve.Metrics {
	m := serve.NewMetrics()
	m.LogDropped(o.LogDropped)
	m.Build(o.Version)
	if o.Metrics != nil {
		m.Also(o.Metrics)
	}
	return m
}

// Wait makes a waiting replica listen, until close is called. If that fails, Run will say so.
func Wait(o Options) (close func()) {
	if o.Listen == nil {
		return func() {}
	}
	listen := *o.Listen
	listen.Metrics, listen.Log = o.metrics(), o.Log
	listen.Metrics.Leads(false)
	server, err := serve.Start(listen, nil)
	if err != nil {
		o.Log.Warn("a waiting replica has no metrics", "error", "--listen: "+err.Error())
		return func() {}
	}
	return func() {
		if err := server.Close(); err != nil {
			o.Log.Warn("closing the listener of a waiting replica", "error", err.Error())
		}
	}
}

// Run keeps the configured clusters in sync until the context ends. That end is not an error.
func Run(ctx context.Context, o Options) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	log := o.Log
	metrics := o.metrics()
	if o.Follow != nil {
		metrics.Leads(true)
	}
	files := &openfiles.Watch{Log: log}
	manager := newSystemd(log)
	client, err := o.Connect(ctx, log, func(c azure.Call) {
		metrics.Call(c)
		files.Note(c.Err)
	})
	if err != nil {
		return err
	}
	notices, err := newNotices(o)
	if err != nil {
		return err
	}
	metrics.Messages(notices.counts)
	var past *history.Log
	if o.HistoryFile != "" {
		o.History.Log, o.History.Shortage = log, files.Note
		past = history.Open(o.HistoryFile, o.History)
	}
	defer past.Close()
	var only *alone
	if o.HistoryFile != "" {
		only = newAlone(o.HistoryFile, log, files.Note)
	}
	defer only.end()
	interrupted := ctx
	said := make(chan struct{})
	tells := context.AfterFunc(interrupted, func() {
		line := "stopping: finishing the write in flight"
		if o.Follow == nil { // the controller's log is a pod's
			line += "; press Ctrl-C again to exit at once"
		}
		log.Info(line)
		manager.tell("STOPPING=1")
		close(said)
	})
	defer tells() // the context also ends with the program
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	board := page.NewBoard()
	board.Expect(o.Interval)
	board.Configure(o.Configs)
	health := serve.NewHealth(o.Interval)
	pauses, silences := newPauses(o.Paths, log), silence.Open(o.SilenceFile, log)
	pauses.shortage = files.Note
	var nodes keeper.Nodes
	if o.Nodes != nil {
		nodes = o.Nodes(client)
	}
	k := keeper.New(client, o.Configs, past.With(keeper.Options{
		DryRun: o.DryRun, ClusterInterval: o.ClusterInterval, Log: log,
		ChangesPerMinute: o.ChangesPerMinute, Nodes: nodes,
		Own: func() []finding.Finding {
			now := time.Now()
			return slices.Concat(files.Findings(), only.findings(), notices.to.Findings(),
				pauses.forgotten(now), silence.Findings(silences.All(), now))
		},
		Paused: pauses.until, ClusterPaused: silences.Paused, Progress: health.Progress,
		Withhold: o.Withhold,
		Silenced: func(found []finding.Finding) []finding.Finding {
			return silence.Mark(silences.Current(), found)
		},
		Planned: func(r keeper.Result) {
			board.Planned(r)
			if o.Planned != nil {
				o.Planned(r)
			}
		},
	}))
	started := func() { // now it is clear that all flags name valid things
		log.Info("started", "version", o.Version, "clusters", len(o.Configs),
			"interval", o.Interval.String(), "dryRun", o.DryRun)
	}
	silences.Also(newSpecPauses(k).entries)
	var server *serve.Server
	broken := make(chan error, 1)
	if o.Listen != nil {
		listen := *o.Listen
		listen.Wrote, listen.Metrics, listen.Health = client.Wrote, metrics, health
		listen.Board, listen.Log, listen.Files = board, log, files
		if o.Actions {
			listen.Auth.Token = rand.Text()
		}
		listen.Page = page.Options{
			History: o.HistoryFile, Version: o.Version, Keeper: k, Actions: o.Actions,
			Silences: silences,
			DryRun:   o.DryRun,
			Mode:     func() string { return mode(o.DryRun, pauses.until()) },
		}
		if server, err = serve.Start(listen, k); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		started()
		attrs := []any{"address", server.Address(), "tls", listen.CertFile != ""}
		if buttons := server.Buttons(); buttons != "" {
			attrs = append(attrs, "page", buttons)
		}
		log.Info("listening", attrs...)
		defer server.Close()
		go func() {
			if err := <-server.Ended(); err != nil {
				broken <- fmt.Errorf("listening: %w", err)
				stop()
			}
		}()
	}
	if server == nil {
		started()
	}
	watch := reload{shortage: files.Note, files: o.Files, current: o.Configs, log: log,
		take: k.Reload}
	mistakes := &mistakes{metrics: metrics, board: board}
	watch.tell = func(wrong error) {
		k.HoldRemovals(wrong != nil)
		if wrong == nil {
			wrong = notices.configure(o)
		}
		mistakes.file(wrong)
	}
	if o.Follow != nil {
		watch.current, watch.take = nil, func([]v1alpha1.ClusterRoutes) {}
		go o.Follow(ctx, Running{Keeper: k, Idle: func() { health.Progress(time.Now()) },
			Live: health.Live, Refused: mistakes.objects})
	}
	go watch.run(ctx)
	// Feed the watchdog until the end, even during the last write.
	alive, dead := context.WithCancel(context.WithoutCancel(ctx))
	defer dead()
	go manager.feedWatchdog(alive, health.Live)
	go askWriters(ctx, past, client)
	delivered := make(chan struct{}) // closed once no more messages are sent
	go func() { notices.to.Run(ctx); close(delivered) }()
	news := News(log)
	var unwritten error
	ready := sync.OnceFunc(func() { manager.tell("READY=1") })
	err = k.Run(ctx, o.Interval, func(r keeper.Result) {
		notices.check(r)
		metrics.Record(r)
		health.Record(r)
		if server != nil {
			board.Record(r)
		}
		ready()
		if o.Checked != nil {
			o.Checked(r)
		}
		if news(r) && o.News != nil && unwritten == nil {
			if unwritten = o.News(r); unwritten != nil {
				stop()
			}
		}
	})
	stop()
	<-delivered
	if interrupted.Err() != nil { // the keeper may return before the reason is logged
		<-said
	}
	log.Info("stopped")
	select {
	case ended := <-broken:
		err = errors.Join(err, ended)
	default:
	}
	return errors.Join(unwritten, err)
}

// mode says what restricts the keeper at the moment, or returns "".
func mode(dryRun bool, paused string) string {
	switch {
	case dryRun:
		return "dry run"
	case paused != "":
		return "paused " + paused
	}
	return ""
}

// askWriters finds out who made the changes that were repaired, and adds them to the history, until
// the context ends.
func askWriters(ctx context.Context, l *history.Log, client *azure.Client) {
	if l == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Minute):
			l.Ask(ctx, client, time.Now())
		}
	}
}

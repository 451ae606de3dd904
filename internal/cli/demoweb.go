package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/demo"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

// The pace of a demo in the browser: people need time to see what is broken.
const (
	watchedOperation = 1500 * time.Millisecond
	watchedBetween   = 4 * time.Second
	watchedInterval  = time.Second
)

// watched is a keeper that runs as in routekeeper run, with its checks on pages. Scenes wait for
// its checks.
type watched struct {
	board *page.Board
	past  *history.Log

	mu      sync.Mutex
	keeper  *keeper.Keeper
	paused  bool
	checked chan struct{} // closed at the next check
	last    keeper.Result
	changes []plan.Outcome // since the last Reconcile
	chosen  []int          // the scenes to play, from 1
	atOnce  bool           // start the next scene without a pause
	choice  chan struct{}  // receives when scenes are chosen
}

// record takes a check of the keeper.
func (w *watched) record(r keeper.Result) {
	w.board.Record(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = r
	w.changes = append(w.changes, r.Changes...)
	close(w.checked)
	w.checked = make(chan struct{})
}

// Reconcile waits for the next check that begins from now on.
func (w *watched) Reconcile(ctx context.Context) (keeper.Result, error) {
	for now := time.Now(); ; {
		w.mu.Lock()
		r, next := w.last, w.checked
		if r.Started.After(now) {
			r.Changes, w.changes = w.changes, nil
			w.mu.Unlock()
			return r, nil
		}
		w.mu.Unlock()
		select {
		case <-next:
		case <-ctx.Done():
			return keeper.Result{}, ctx.Err()
		}
	}
}

// Ask and Wake are for the listener.
func (w *watched) Ask(ctx context.Context, r keeper.Request) (keeper.Result, error) {
	w.mu.Lock()
	k := w.keeper
	w.mu.Unlock()
	if k == nil {
		return keeper.Result{}, errors.New("the demo is starting: try again in a second")
	}
	return k.Ask(ctx, r)
}

func (w *watched) Wake(e keeper.Event, resources ...arm.ID) int {
	return w.keeper.Wake(e, resources...)
}

// pause and pausedUntil let a scene hold the keeper back.
func (w *watched) pause(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = on
}

func (w *watched) pausedUntil() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused {
		return "until you press Play"
	}
	return ""
}

// choose handles a button on the page: it plays a scene, or with 0 all scenes from the first.
// Earlier choices that have not begun are dropped.
func (w *watched) choose(scene int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chosen, w.atOnce = []int{scene}, true
	if scene == 0 {
		w.chosen = nil
		for i := range demo.Titles() {
			w.chosen = append(w.chosen, i+1)
		}
	}
	select {
	case w.choice <- struct{}{}:
	default:
	}
}

// next waits for the next scene. Between two scenes it leaves people time to read the page.
func (w *watched) next(ctx context.Context, began time.Time) (int, error) {
	for {
		w.mu.Lock()
		if len(w.chosen) > 0 && (w.atOnce || time.Since(began) >= watchedBetween) {
			scene := w.chosen[0]
			w.chosen, w.atOnce = w.chosen[1:], false
			w.mu.Unlock()
			return scene, nil
		}
		var pause <-chan time.Time
		if len(w.chosen) > 0 {
			pause = time.After(watchedBetween - time.Since(began))
		}
		w.mu.Unlock()
		select {
		case <-w.choice:
		case <-pause:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// demoPages shows a demo on pages. The function that it returns stops this.
func demoPages(ctx context.Context, address string, browser bool, o *demo.Options,
	say func(string) error) (end func() error, err error) {
	file := filepath.Join(o.Dir, "demo"+history.Extension)
	w := &watched{board: page.NewBoard(), past: history.Open(file, history.Options{}),
		checked: make(chan struct{}), choice: make(chan struct{}, 1)}
	server, err := serve.Start(serve.Options{Address: address, Metrics: serve.NewMetrics(),
		Log: slog.New(slog.DiscardHandler), Board: w.board,
		Page: page.Options{History: file, Version: version(), Keeper: w, Actions: true,
			Scenes: demo.Titles(), Play: w.choose, Mode: func() string {
				if until := w.pausedUntil(); until != "" {
					return "paused " + until
				}
				return ""
			}}}, w)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--web: %w", err), w.past.Close())
	}
	w.board.Expect(watchedInterval)
	o.OperationTime = watchedOperation
	running := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	o.NewKeeper = func(info emulator.Info, configs []v1alpha1.ClusterRoutes) (demo.Keeper, error) {
		client, err := connectEmulator(info, azure.Options{})
		if err != nil {
			return nil, err
		}
		k := keeper.New(client, configs,
			w.past.With(keeper.Options{Planned: w.board.Planned, Paused: w.pausedUntil}))
		w.mu.Lock()
		w.keeper, w.paused = k, true
		w.mu.Unlock()
		w.board.Configure(configs)
		go func() { running <- k.Run(ctx, watchedInterval, w.record) }()
		return w, nil
	}
	at := "http://" + server.Address() + "/"
	started := o.Started
	o.Started = func(info emulator.Info, d emulator.Demo, web emulator.Firewalled) {
		started(info, d, web)
		// the next scene reports a failed write
		_ = say("Watch it at " + at + " and press Play there. Ctrl-C ends it.")
		if browser {
			openBrowser(at)
		}
	}
	o.Pause = w.pause
	o.Playing = func(s demo.Scene, n, of int) {
		w.mu.Lock()
		w.changes = nil // drop the changes of earlier scenes and of the preparation of this one
		w.mu.Unlock()
		w.board.Say(fmt.Sprintf("Scene %d of %d: %s.", n, of, s.Title))
	}
	shown := o.Scene
	var began time.Time
	o.Scene = func(s demo.Scene) {
		began = time.Now()
		ended := "Went as expected: "
		if !s.OK {
			ended = "Went wrong: "
		}
		w.board.Say(s.Title + ". " + ended + s.Detail + ".")
		shown(s)
	}
	o.Next = func(ctx context.Context) (int, error) { return w.next(ctx, began) }
	return func() error {
		stop()
		wrong := server.Close()
		w.mu.Lock()
		k := w.keeper
		w.mu.Unlock()
		if k != nil {
			wrong = errors.Join(wrong, <-running)
		}
		return errors.Join(wrong, w.past.Close())
	}, nil
}

// openBrowser opens a page in the person's browser, if there is one.
func openBrowser(address string) {
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.Command("open", address)
	case "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", address)
	default:
		// Without a desktop, xdg-open would start a browser in this terminal.
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return
		}
		cmd = exec.Command("xdg-open", address)
	}
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // the address is on the terminal, too
	}
}

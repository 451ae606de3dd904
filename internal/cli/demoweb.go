package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/demo"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

// The pace of a demo in the browser: people need time to see what is broken.
const (
	watchedOperation = 1500 * time.Millisecond
	watchedBetween   = 4 * time.Second
	watchedInterval  = 2 * time.Second
)

// watched is a keeper that shows its checks on pages.
type watched struct {
	board *page.Board
	past  *history.Log

	mu      sync.Mutex
	keeper  *keeper.Keeper
	running bool // the scenes are over
}

// Reconcile makes a check of a scene.
func (w *watched) Reconcile(ctx context.Context) (keeper.Result, error) {
	r, err := w.keeper.Reconcile(ctx)
	if err == nil {
		w.board.Record(r)
	}
	return r, err
}

// Ask and Wake are for the listener.
func (w *watched) Ask(ctx context.Context, r keeper.Request) (keeper.Result, error) {
	w.mu.Lock()
	running := w.running
	w.mu.Unlock()
	if !running {
		return keeper.Result{}, errors.New("the scenes are still playing: the buttons work " +
			"afterwards")
	}
	return w.keeper.Ask(ctx, r)
}

func (w *watched) Wake(caller string, resources ...arm.ID) int {
	return w.keeper.Wake(caller, resources...)
}

// demoPages shows a demo on pages. The function that it returns ends that.
func (a *app) demoPages(address string, o *demo.Options, say func(string) error) (end func() error,
	err error) {
	file := filepath.Join(o.Dir, "demo"+history.Extension)
	w := &watched{board: page.NewBoard(), past: history.Open(file, history.Options{})}
	server, err := serve.Start(serve.Options{Address: address, Metrics: serve.NewMetrics(),
		Log: slog.New(slog.DiscardHandler), Board: w.board,
		Page: page.Options{History: file, Version: version(), Keeper: w, Actions: true}}, w)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--web: %w", err), w.past.Close())
	}
	w.board.Expect(watchedBetween)
	o.OperationTime, o.Between = watchedOperation, watchedBetween
	o.NewKeeper = func(info emulator.Info, configs []v1alpha1.ClusterRoutes) (demo.Keeper, error) {
		client, err := connectLocal(info, nil, nil)
		if err != nil {
			return nil, err
		}
		options := w.past.With(keeper.Options{Planned: w.board.Planned})
		w.keeper = keeper.New(client, configs, options)
		return w, nil
	}
	started := o.Started
	o.Started = func(info emulator.Info, d emulator.Demo) {
		started(info, d)
		// what cannot be written is noticed at the next scene
		_ = say("Watch it at http://" + server.Address() + "/")
	}
	o.Playing = func(s demo.Scene, n, of int) {
		w.board.Say(fmt.Sprintf("Scene %d of %d: %s.", n, of, s.Title))
	}
	o.Stay = func(ctx context.Context) error {
		w.board.Say("The scenes are over. The keeper continues until Ctrl-C in its terminal.")
		if err := say("The scenes are over; the keeper continues until Ctrl-C. Pages: http://" +
			server.Address() + "/"); err != nil {
			return err
		}
		w.mu.Lock()
		w.running = true
		w.mu.Unlock()
		return w.keeper.Run(ctx, watchedInterval, w.board.Record)
	}
	return func() error { return errors.Join(server.Close(), w.past.Close()) }, nil
}

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// watchEvery is how often the files of a config are looked at. One that changes is read once it has been the same for as long: it may
// be half written.
const watchEvery = time.Second

// watchConfig reads a config again when its files change, or at a SIGHUP, and hands it to take: all of it where all of it is right, and
// otherwise nothing. It tells what is wrong with the files, nil where they
// are taken, and ends with the context.
func (a *app) watchConfig(ctx context.Context, paths []string, current []v1alpha1.ClusterRoutes, log *slog.Logger, take func([]v1alpha1.ClusterRoutes), tell func(error)) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	if slices.Contains(paths, "-") {
		paths = nil // standard input is read once
	}
	read := a.look(paths)
	last := read
	for tick := time.NewTicker(watchEvery); ; {
		asked := false
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-hangup:
			asked = true
		case <-tick.C:
		}
		now := a.look(paths)
		settled := now == last
		last = now
		if len(paths) == 0 || !asked && (now == read || !settled) {
			continue
		}
		read = now
		configs, err := a.readConfig(paths)
		tell(err)
		switch {
		case err != nil:
			log.Error("the config is not taken; the old one stays", "error", err.Error())
		case reflect.DeepEqual(configs, current):
			log.Info("the config was read again and says the same")
		default:
			current = configs
			log.Info("the config was read again", "clusters", len(configs))
			take(configs)
		}
	}
}

// look tells one state of the files of a config from another.
func (a *app) look(paths []string) string {
	var b strings.Builder
	for _, path := range paths {
		names := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			names, _ = configFilesIn(path) // what is wrong with it is said when it is read
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil {
				fmt.Fprintln(&b, name, info.Size(), info.ModTime().UnixNano())
			}
		}
	}
	return b.String()
}

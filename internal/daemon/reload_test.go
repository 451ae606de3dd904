package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/openfiles"
)

// TestReloadWithoutFiles: while no more files can be opened, the config counts neither as changed
// nor as wrong. What changed meanwhile is read afterwards.
func TestReloadWithoutFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := fmt.Errorf("open routes: %w", syscall.EMFILE)
		var mu sync.Mutex // of what follows
		var wrong, cannotList, cannotRead error
		version := "1"
		var taken []string
		var told []error
		var log strings.Builder
		r := &reload{log: slog.New(slog.NewTextHandler(&log, nil)), shortage: openfiles.Is,
			files: ConfigFiles{
				Fingerprint: func() (string, error) {
					mu.Lock()
					defer mu.Unlock()
					return version, cannotList
				}, Read: func() ([]v1alpha1.ClusterRoutes, error) {
					mu.Lock()
					defer mu.Unlock()
					if err := errors.Join(cannotRead, wrong); err != nil {
						return nil, err
					}
					c := v1alpha1.ClusterRoutes{}
					c.Metadata.Name = version
					return []v1alpha1.ClusterRoutes{c}, nil
				}},
			take: func(c []v1alpha1.ClusterRoutes) { taken = append(taken, c[0].Metadata.Name) },
			tell: func(err error) { told = append(told, err) },
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.follow(ctx, nil)
		expect := func(when, configs string, reads int, change func()) {
			t.Helper()
			mu.Lock()
			change()
			mu.Unlock()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := strings.Join(taken, " "); got != configs || len(told) != reads {
				t.Errorf("%s: took %q, want %q; told %v, want %d", when, got, configs, told, reads)
			}
		}
		expect("nothing changes", "", 0, func() {})
		expect("the folder cannot be listed", "", 0, func() { cannotList = short })
		expect("a new config cannot be opened", "", 0, func() {
			cannotList, cannotRead, version = nil, short, "2"
		})
		expect("it can", "2", 1, func() { cannotRead = nil })
		expect("a config with a mistake", "2", 2, func() {
			wrong, version = errors.New("a mistake"), "3"
		})
		if strings.Count(log.String(), "has an error") != 1 {
			t.Errorf("the log:\n%s", &log)
		}
	})
}

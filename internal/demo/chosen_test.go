package demo

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// TestChosen: every scene goes as expected whenever it is chosen, also again.
func TestChosen(t *testing.T) {
	t.Parallel()
	order := []int{5, 5, 1, 3, 7, 6, 2, 1, 2, 8, 9, 8, 4}
	var paused atomic.Bool
	var played []string
	rest := slices.Clone(order)
	ctx, stop := context.WithCancel(t.Context())
	ok, err := Run(ctx, Options{
		Dir: t.TempDir(), RouteBatch: 50 * time.Millisecond,
		Pause: paused.Store,
		NewKeeper: func(info emulator.Info, configs []v1alpha1.ClusterRoutes) (Keeper, error) {
			client, err := emulatortest.Connect(info)
			if err != nil {
				return nil, err
			}
			return keeper.New(client, configs, keeper.Options{Paused: func() string {
				if paused.Load() {
					return "until a scene is played"
				}
				return ""
			}}), nil
		},
		Next: func(context.Context) (int, error) {
			if len(rest) == 0 {
				stop()
				return 0, errors.New("over")
			}
			n := rest[0]
			rest = rest[1:]
			return n, nil
		},
		Scene: func(sc Scene) {
			played = append(played, sc.Name)
			if !sc.OK {
				t.Errorf("scene %d, %s: %s", len(played), sc.Name, sc.Detail)
			}
		},
	})
	if err != nil || !ok || len(played) != len(order) {
		t.Errorf("%v, %t, played %q", err, ok, played)
	}
}

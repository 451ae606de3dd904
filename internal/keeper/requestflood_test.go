package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// TestRequestFlood: sixty callers request checks that change nothing, each again as soon as it has
// an answer. Lost associations are repaired as fast as ever, with few calls to Azure, and every
// caller is answered.
func TestRequestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		over := slowed{emulatortest.Transport(t, w.e), "", 150 * time.Millisecond}
		k := w.runOver(emulatortest.ClientOver(t, over, w.e, emulatortest.Keeper), Options{},
			10*time.Second, w.demoConfig())
		k.since(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		var mu sync.Mutex
		answers := map[int]int{}
		for i := range 60 {
			callers.Go(func() {
				for ctx.Err() == nil {
					_, err := k.Ask(ctx, Request{By: fmt.Sprint("caller ", i)})
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Errorf("caller %d: %v", i, err)
						return
					}
					mu.Lock()
					answers[i]++
					mu.Unlock()
				}
			})
		}
		k.since(20 * time.Second)
		calls := w.mark()
		began := time.Now()
		for i := range 3 {
			w.strip(w.demo.NodeSubnet)
			w.repaired(fmt.Sprintf("strip %d, during the flood", i), k,
				10*time.Second+2*time.Second+operation)
			k.since(30 * time.Second)
			k.Wake(Event{Caller: "an event"}, w.demo.GatewaySubnet)
			if !slices.ContainsFunc(k.since(2*time.Second), func(r Result) bool {
				return r.Woke.By == ByEvent && r.Woke.Caller == "an event"
			}) {
				t.Errorf("strip %d: an event did not start a check during the flood", i)
			}
		}
		if n, most := len(calls()), 8*int(time.Since(began).Seconds()); n > most {
			t.Errorf("%d calls to Azure in %s, want at most %d", n, time.Since(began), most)
		}
		cancel()
		callers.Wait()
		for i := range 60 {
			if answers[i] < 10 {
				t.Errorf("caller %d has only %d answers", i, answers[i])
			}
		}
	})
}

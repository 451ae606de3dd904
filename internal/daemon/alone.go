package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/input"
)

// alone notices another keeper with the same history. The first keeper takes a lock, which ends
// with the process in any case. A nil alone notices nothing.
type alone struct {
	history string
	lock    *flock.Flock
	log     *slog.Logger
	short   func(error) bool // as reload.shortage

	mu     sync.Mutex
	have   bool
	failed bool // the lock cannot be used, and the log says so
}

// newAlone takes the lock of a history, if it is free.
func newAlone(history string, log *slog.Logger, short func(error) bool) *alone {
	a := &alone{history: history, log: log, short: short,
		lock: flock.New(history+"-lock", flock.SetFlag(os.O_CREATE|os.O_RDWR),
			flock.SetPermissions(0o600))}
	a.findings()
	return a
}

// findings reports a keeper that has the lock. If that keeper has ended, this one takes the lock.
func (a *alone) findings() []finding.Finding {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.have {
		return nil
	}
	got, err := a.lock.TryLock()
	switch {
	case err != nil:
		if !a.short(err) && !a.failed {
			a.failed = true
			a.log.Info("it is not known whether another keeper uses this history", "error",
				err.Error())
		}
		return nil
	case got:
		a.have, a.failed = true, false
		// A lock that cannot hold text, as on Windows, still works.
		_ = os.WriteFile(a.lock.Path(), fmt.Appendf(nil, "process %d, since %s\n", os.Getpid(),
			time.Now().UTC().Format(time.RFC3339)), 0o600)
		return nil
	}
	f := finding.New(finding.AnotherKeeper, "", "", "another keeper uses the history %s: both "+
		"repair the same resources, each with limits and a memory of its own", a.history).
		WithAdvice("stop one of the two; if they manage different clusters, give each its own " +
			"config and --history")
	if raw, err := input.ReadFile(a.lock.Path(), input.Small); err == nil && len(raw) > 0 {
		f = f.With("the other one: " + strings.TrimSpace(string(raw)))
	}
	return []finding.Finding{f}
}

// end gives the lock back.
func (a *alone) end() {
	if a != nil {
		a.lock.Close()
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/report"
)

// This file shows what a command waits for: the calls to Azure that have no answer yet, and its
// progress.

// waiting has the calls under way. The zero value is ready to use.
type waiting struct {
	mu       sync.Mutex
	calls    map[int]call
	serial   int
	done, of int
	kind     string // of what
	slowest  call   // the last slow call
}

type call struct {
	what  string
	since time.Time
}

// begins records a call. It returns a function that ends it.
func (w *waiting) begins(method, at string) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = map[int]call{}
	}
	w.serial++
	key := w.serial
	w.calls[key] = call{method + " " + resourceOf(at), time.Now()}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if c := w.calls[key]; time.Since(c.since) >= slow {
			w.slowest = c
		}
		delete(w.calls, key)
	}
}

// longest names the call that a timeout has cut off: ": waited for GET routeTables/shop-rt".
func (w *waiting) longest() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.slowest.what == "" {
		return ""
	}
	return ": waited for " + w.slowest.what
}

// resourceOf shortens the path of a call to the type and name at its end, and the path of a list to
// the type and its scope.
func resourceOf(at string) string {
	parts := strings.Split(strings.Trim(path.Clean(at), "/"), "/")
	n := len(parts)
	switch {
	case n > 3 && parts[n-3] == "providers":
		return parts[n-1] + " of " + parts[n-4]
	case n > 2:
		return strings.Join(parts[n-2:], "/")
	}
	return at
}

// read records how many of a kind, such as clusters, were read.
func (w *waiting) read(done, of int, kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done, w.of, w.kind = done, of, kind
}

// slow is how long a call may take before progress names it.
const slow = time.Second

// String says how far the command is, and which call has waited longest: ", 12 of 30 clusters,
// waiting for GET routeTables/shop-rt (5 s)".
func (w *waiting) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := ""
	if w.of > 1 && w.done < w.of {
		text = fmt.Sprintf(", %d of %d %s", w.done, w.of, w.kind)
	}
	oldest := call{}
	for _, c := range w.calls {
		if oldest.since.IsZero() || c.since.Before(oldest.since) {
			oldest = c
		}
	}
	if took := time.Since(oldest.since); len(w.calls) > 0 && took >= slow {
		text += fmt.Sprintf(", waiting for %s (%d s)", oldest.what, int(took.Seconds()))
	}
	return text
}

// timeoutFlag adds --timeout to a command that reads Azure.
func (a *app) timeoutFlag(cmd *cobra.Command) {
	durationFlag(cmd.Flags(), &a.timeout, "timeout", 0,
		"give up after this time, such as 30s (default: never); a write in flight is finished")
}

// startTimeout limits the context of a command with --timeout.
func startTimeout(a *app, cmd *cobra.Command) error {
	switch {
	case !cmd.Flags().Changed("timeout") || a.timeout == 0:
		return nil
	case a.timeout < 0:
		return fmt.Errorf("--timeout: %s is out of range, expected more than 0", a.timeout)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
	cobra.OnFinalize(cancel)
	cmd.SetContext(ctx)
	return nil
}

// overdue returns the error of a command that --timeout ended.
func overdue(a *app, err error) error {
	if a.timeout <= 0 || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("not finished within --timeout %s%s", report.Duration(a.timeout),
		a.waiting.longest())
}

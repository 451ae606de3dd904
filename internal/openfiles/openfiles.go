// Package openfiles notices that the process, or the machine, can open no more files, and reports
// it as a finding of its own. Sockets count as files, so a shortage looks like other problems: a
// pause file that cannot be read, a config that has an error, an Azure that does not answer.
package openfiles

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Is reports whether an error says that the process or the machine has too many open files.
func Is(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }

// Watch remembers the last shortage. A nil Watch remembers nothing.
type Watch struct {
	// Log receives the beginning of a shortage.
	Log *slog.Logger

	mu      sync.Mutex
	callers func() (open, most int) // connections of callers; nil: there is no listener
	first   time.Time               // when the shortage began; zero: there was none
	last    time.Time               // when it was last seen
	told    time.Time               // when Findings last reported it
	why     error                   // the last error
	used    int                     // open files then; 0: unknown
}

// shortFor is how long a shortage is reported after it was last seen.
const shortFor = time.Minute

// Listens adds the connections of callers to what is reported.
func (w *Watch) Listens(connections func() (open, most int)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.callers = connections
}

// Note takes the error of something that opens a file or a connection, and reports whether it was
// a shortage. Some errors hide their reason, such as those of SQLite and of name lookups: then an
// attempt to open another file shows it.
func (w *Watch) Note(err error) bool {
	if w == nil || err == nil {
		return Is(err)
	}
	if !Is(err) {
		if err = probe(); !Is(err) {
			return false
		}
	}
	now := time.Now()
	used := w.count(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last.IsZero() || now.Sub(w.last) > shortFor {
		w.first = now
		w.Log.Warn("no more files can be opened", "limit", Limit(), "open", used, "error",
			err.Error())
	}
	w.last, w.why, w.used = now, err, used
	return true
}

// probe opens a file that can always be opened.
func probe() error {
	f, err := os.Open(os.DevNull)
	if err == nil {
		f.Close()
	}
	return err
}

// count returns how many files the process has open, 0 if that is unknown.
func (w *Watch) count(why error) int {
	if errors.Is(why, syscall.EMFILE) {
		return int(Limit()) // that is what the error says, and the list could not be opened
	}
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return len(entries) - 1 // without that of the list
}

// Findings reports the last shortage: as long as it lasts, a minute more, and at least once.
func (w *Watch) Findings() []finding.Finding {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.last.IsZero() || now.Sub(w.last) > shortFor && !w.last.After(w.told) {
		return nil
	}
	w.told = now
	what := fmt.Sprintf("this program cannot open more files: %d of %d are open", w.used, Limit())
	if errors.Is(w.why, syscall.ENFILE) {
		what = fmt.Sprintf("no program on this machine can open more files; this one has %d open",
			w.used)
	}
	f := finding.New(finding.TooManyOpenFiles, "", "",
		"%s; until some are closed, calls to Azure, the history and reloads can fail", what).
		With("since "+w.first.Format(time.RFC3339), "the last error: "+w.why.Error())
	if w.callers != nil {
		open, most := w.callers()
		f = f.With(fmt.Sprintf("connections of callers: %d now, at most %d", open, most))
	}
	const raise = "raise the limit where the program is started: LimitNOFILE= in the systemd " +
		"unit, ulimit -n in a shell, or the limit of the container runtime"
	switch {
	case errors.Is(w.why, syscall.ENFILE):
		f = f.WithAdvice("close programs that hold many files, or raise the limit of the machine " +
			"(sysctl fs.file-max)")
	case runtime.GOOS == "linux":
		f = f.WithAdvice(raise+"; this raises it until the next start").
			WithFix("sudo prlimit --pid %d --nofile=%d", os.Getpid(), 4*max(Limit(), 256))
	default:
		f = f.WithAdvice(raise)
	}
	return []finding.Finding{f}
}

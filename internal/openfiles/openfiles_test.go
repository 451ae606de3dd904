package openfiles

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestFindings: a shortage is reported at least once, and until a minute after it was last seen.
// The log says once when it begins.
func TestFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		w := &Watch{Log: slog.New(slog.NewTextHandler(&log, nil))}
		reported := func() int { return len(w.Findings()) }
		opening := fmt.Errorf("opening: %w",
			&os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE})
		if w.Note(nil) || w.Note(errors.New("anything")) || reported() != 0 {
			t.Error("a shortage without one")
		}
		if !w.Note(opening) {
			t.Error("no shortage")
		}
		time.Sleep(10 * time.Minute) // the time between two checks can be longer than a shortage
		if reported() != 1 || reported() != 0 {
			t.Error("a shortage between two checks is not reported once")
		}
		for range 5 {
			time.Sleep(50 * time.Second)
			w.Note(opening)
			if reported() != 1 {
				t.Error("a shortage that lasts is not reported")
			}
		}
		time.Sleep(59 * time.Second)
		if reported() != 1 {
			t.Error("the report ends early")
		}
		time.Sleep(2 * time.Second)
		if reported() != 0 {
			t.Error("the report does not end")
		}
		if n := strings.Count(log.String(), "no more files can be opened"); n != 2 {
			t.Errorf("the log tells of %d shortages, want 2:\n%s", n, &log)
		}
		w.Note(fmt.Errorf("socket: %w", syscall.ENFILE))
		if found := w.Findings(); len(found) != 1 ||
			!strings.Contains(found[0].Message, "no program on this machine") ||
			!strings.Contains(found[0].Advice, "fs.file-max") {
			t.Errorf("the machine's limit: %+v", found)
		}
	})
}

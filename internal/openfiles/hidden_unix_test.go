//go:build unix

package openfiles

import (
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
)

// TestHiddenReason: an error that does not say why is a shortage if there is one.
func TestHiddenReason(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = 3
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	w := &Watch{Log: slog.New(slog.DiscardHandler)}
	w.Listens(func() (open, most int) { return 7, 16 })
	noted, found := w.Note(errors.New("unable to open database file")), w.Findings()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !noted || len(found) != 1 || !strings.Contains(found[0].Message, "3 of 3 are open") ||
		!strings.Contains(strings.Join(found[0].Evidence, "\n"),
			"connections of callers: 7 now, at most 16") {
		t.Errorf("%v, %+v", noted, found)
	}
}

//go:build unix

package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPauseUnreadable: only an existing, readable pause file is a pause. If it cannot be read, its
// last content stays valid, and the log says so once.
func TestPauseUnreadable(t *testing.T) {
	config := filepath.Join(t.TempDir(), "routes.yaml")
	file := PauseFile(config)
	var log bytes.Buffer
	p := newPauses([]string{config, "-"}, slog.New(slog.NewTextHandler(&log, nil)))
	noFiles := func() (restore func()) {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE,
			&syscall.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(want, when string) {
		t.Helper()
		if until := p.until(); !strings.HasPrefix(until, want) || (until == "") != (want == "") {
			t.Errorf("%s: paused %q, want %q", when, until, want)
		}
	}
	restore := noFiles()
	expect("", "no file descriptor is left, and there never was a pause")
	expect("", "still none is left")
	restore()
	expect("", "all is well")

	if err := WritePause(file, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	expect("until 20", "paused")
	restore = noFiles()
	expect("until 20", "paused, and no file descriptor is left")
	expect("until 20", "still none is left")
	restore()
	if n := strings.Count(log.String(), "too many open files"); n != 1 {
		t.Errorf("the log says %d times that there are too many open files, want once:\n%s", n,
			log.String())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	expect("", "resumed")

	if err := os.Symlink(file, file); err != nil { // a loop
		t.Fatal(err)
	}
	expect("", "a file that leads nowhere")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("soon\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	expect("until "+file+" holds a time", "a file without a time")
	restore = noFiles()
	expect("until "+file+" holds a time", "a file without a time, and no file descriptor is left")
	restore()
}

// TestPauseEnds: a pause ends at its time, even while its file cannot be read.
func TestPauseEnds(t *testing.T) {
	config := filepath.Join(t.TempDir(), "routes.yaml")
	file := PauseFile(config)
	p := newPauses([]string{config}, slog.New(slog.DiscardHandler))
	if err := WritePause(file, time.Now().Add(2100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if p.until() == "" {
		t.Error("not paused")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, file); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); p.until() != ""; time.Sleep(
		50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the pause did not end")
		}
	}
}

// TestPauseFollowsNoLink: a link that another user made under the name of a temporary file does not
// lead the pause elsewhere.
func TestPauseFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	file, victim := filepath.Join(dir, "routes.paused"), filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, file+".new"); err != nil {
		t.Fatal(err)
	}
	if err := WritePause(file, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(victim); err != nil || string(raw) != "mine" {
		t.Errorf("the other file holds %q, %v", raw, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the pause file: %v, %v", info, err)
	}
}

// TestWritePauseFails: the error names the pause file, and not a temporary one.
func TestWritePauseFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none", "routes.paused")
	err := WritePause(file, time.Now())
	if err == nil || !strings.HasPrefix(err.Error(), file+" cannot be written: ") ||
		strings.Contains(err.Error(), ".routekeeper-") {
		t.Error(err)
	}
}

package input

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestUnwritten: the error names the file that a person knows, why it is not written, and what to
// do if the disk is full.
func TestUnwritten(t *testing.T) {
	temporary := &fs.PathError{Op: "write", Path: "f/.routekeeper-123", Err: syscall.ENOSPC}
	for _, c := range []struct {
		err  error
		want string
	}{
		{temporary, "f/a cannot be written: the disk is full: free some space, then try again"},
		{errors.Join(temporary, nil), "f/a cannot be written: the disk is full: free some space, " +
			"then try again"},
		{&os.LinkError{Op: "rename", Old: "f/.routekeeper-123", New: "f/a", Err: syscall.EACCES},
			"f/a cannot be written: permission denied"},
		{errors.New("it is a folder"), "f/a cannot be written: it is a folder"},
	} {
		got := Unwritten("f/a", c.err)
		if got.Error() != c.want || strings.Contains(got.Error(), "123") {
			t.Errorf("%v: %v, want %s", c.err, got, c.want)
		}
	}
	if !errors.Is(Unwritten("f/a", temporary), syscall.ENOSPC) {
		t.Error("the cause is lost")
	}
}

// TestDiskFull: each system has its own number for a full disk, and another meaning for those of
// the other.
func TestDiskFull(t *testing.T) {
	for _, c := range []struct {
		number syscall.Errno
		system string
		full   bool
	}{
		{syscall.ENOSPC, "linux", true}, {112, "linux", false},
		{112, "windows", true}, {39, "windows", true}, {5, "windows", false},
	} {
		err := &fs.PathError{Op: "write", Path: "f", Err: c.number}
		if got := isFull(err, c.system); got != c.full {
			t.Errorf("%d on %s: %t", c.number, c.system, got)
		}
	}
}

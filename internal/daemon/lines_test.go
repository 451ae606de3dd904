package daemon

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLines: lines for a reader that hangs wait, and the newest are dropped if too many wait. After
// the next lines that are written, the number of dropped lines follows.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe() // a write waits until it is read
		l := NewLines(w, func(n int64) { fmt.Fprintf(w, "%d dropped\n", n) })
		const extra = 50
		start := time.Now()
		for i := range 1 + bufferedLines + extra {
			fmt.Fprintf(l, "line %d\n", i)
			if i == 0 {
				synctest.Wait() // this one is being written
			}
		}
		l.Flush(time.Second)
		if took := time.Since(start); took != time.Second {
			t.Errorf("writes and the flush took %s, want a second", took)
		}
		if n := l.Dropped(); n != extra {
			t.Errorf("%d lines were dropped, want %d", n, extra)
		}
		var got []string
		read := make(chan struct{})
		go func() {
			defer close(read)
			raw, _ := io.ReadAll(r)
			got = strings.Split(strings.TrimSpace(string(raw)), "\n")
		}()
		l.Flush(time.Hour)
		fmt.Fprintln(l, "after")
		l.Flush(time.Hour)
		w.Close()
		<-read
		var want []string
		for i := range 1 + bufferedLines {
			want = append(want, fmt.Sprintf("line %d", i))
		}
		if want = append(want, "50 dropped", "after"); !slices.Equal(got, want) {
			t.Errorf("%d lines, want %d: … %q", len(got), len(want), got[max(0, len(got)-3):])
		}
		close(l.queue) // ends its goroutine, for the bubble
	})
}

// TestLinesKeepsBytes: a handler may use its buffer again.
func TestLinesKeepsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		l := NewLines(w, nil)
		text := []byte("before\n")
		if n, err := l.Write(text); n != len(text) || err != nil {
			t.Error(n, err)
		}
		copy(text, "after!")
		got := make([]byte, 100)
		n, _ := r.Read(got)
		if string(got[:n]) != "before\n" {
			t.Errorf("%q", got[:n])
		}
		close(l.queue)
	})
}

// TestLinesFail: the next write returns the error of a failed one, once. A log continues when its
// disk has room again.
func TestLinesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		r.Close()
		l := NewLines(w, nil)
		if _, err := l.Write([]byte("one\n")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if _, err := l.Write([]byte("two\n")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the next write: %v", err)
		}
		if n, err := l.Write([]byte("three\n")); n != 6 || err != nil {
			t.Errorf("the one after it: %d, %v", n, err)
		}
		l.Flush(time.Second)
		if err := l.Failed(); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("at the end: %v", err)
		}
		close(l.queue)
	})
}

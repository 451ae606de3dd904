package daemon

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"
)

// keptLines is how many lines wait for a log that nobody reads: hours of a keeper at rest.
const keptLines = 1000

// Lines is a log's writer that never waits, so that a reader that hangs holds up nothing. Lines wait
// in memory until they can be written. Where too many wait, the newest are dropped and counted.
type Lines struct {
	w       io.Writer
	queue   chan line
	say     func(dropped int64)
	unsaid  atomic.Int64 // dropped since say was called
	dropped atomic.Int64
}

// line is what Write was given, or the end of what is to be flushed.
type line struct {
	text    []byte
	flushed chan struct{}
}

// NewLines makes a Lines that writes to w. When lines were dropped and the log is read again, it
// calls say with their number; say may write to w itself.
func NewLines(w io.Writer, say func(dropped int64)) *Lines {
	l := &Lines{w: w, queue: make(chan line, keptLines), say: say}
	go l.run()
	return l
}

func (l *Lines) run() {
	for next := range l.queue {
		if next.text != nil {
			_, _ = l.w.Write(next.text) // there is nobody to tell that the log cannot be written
		}
		if len(l.queue) == 0 {
			if n := l.unsaid.Swap(0); n > 0 {
				l.say(n)
			}
		}
		if next.flushed != nil {
			close(next.flushed)
		}
	}
}

// Write takes one line, or drops it. It never fails.
func (l *Lines) Write(text []byte) (int, error) {
	select {
	case l.queue <- line{text: bytes.Clone(text)}:
	default:
		l.unsaid.Add(1)
		l.dropped.Add(1)
	}
	return len(text), nil
}

// Dropped is how many lines were dropped.
func (l *Lines) Dropped() int64 { return l.dropped.Load() }

// Flush waits until all is written that was given so far, but no longer than that.
func (l *Lines) Flush(longest time.Duration) {
	over := time.After(longest)
	flushed := make(chan struct{})
	select {
	case l.queue <- line{flushed: flushed}:
	case <-over:
		return
	}
	select {
	case <-flushed:
	case <-over:
	}
}

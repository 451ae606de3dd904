package daemon

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"
)

// bufferedLines is how many lines wait for a reader that hangs: hours of an idle keeper.
const bufferedLines = 1000

// Lines is a writer that never blocks, for a log or a stream of reports. A reader that hangs does
// not stop the keeper. Lines wait in memory until they are written. If too many wait, new ones are
// dropped and counted. Each Write is one line or one report.
type Lines struct {
	w       io.Writer
	queue   chan line
	say     func(dropped int64)
	unsaid  atomic.Int64 // dropped since say was called
	dropped atomic.Int64
	failed  atomic.Pointer[error]
}

// line is the text of a Write, or the mark of a Flush.
type line struct {
	text    []byte
	flushed chan struct{}
}

// NewLines returns a Lines that writes to w. After lines were dropped, and once w accepts lines
// again, it calls say with their number. say may write to w.
func NewLines(w io.Writer, say func(dropped int64)) *Lines {
	l := &Lines{w: w, queue: make(chan line, bufferedLines), say: say}
	go l.run()
	return l
}

func (l *Lines) run() {
	for next := range l.queue {
		if next.text != nil {
			if _, err := l.w.Write(next.text); err != nil {
				l.failed.Store(&err)
			}
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

// Write queues one line, or drops it. It returns the error of an earlier line, once.
func (l *Lines) Write(text []byte) (int, error) {
	if err := l.Failed(); err != nil {
		return 0, err
	}
	select {
	case l.queue <- line{text: bytes.Clone(text)}:
	default:
		l.unsaid.Add(1)
		l.dropped.Add(1)
	}
	return len(text), nil
}

// Failed returns the last error of a write that was not returned yet.
func (l *Lines) Failed() error {
	if err := l.failed.Swap(nil); err != nil {
		return *err
	}
	return nil
}

// Dropped returns how many lines were dropped.
func (l *Lines) Dropped() int64 { return l.dropped.Load() }

// Flush waits until all lines so far are written, but at most as long as longest.
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

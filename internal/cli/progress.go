package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/report"
)

// progress shows what a command does when it takes longer than a second. On a terminal it is one
// line that disappears at the end. Elsewhere it shows only warnings, such as long waits.
type progress struct {
	w        io.Writer
	terminal bool
	start    time.Time

	waiting *waiting // nil: not known

	mu      sync.Mutex
	doing   string
	shown   string
	stopped chan struct{}
	once    sync.Once
}

// patience is how long a command may take before progress is shown.
const patience = time.Second

// leaving is shown at the first Ctrl-C.
const leaving = "finishing the write in flight; press Ctrl-C again to exit at once"

func (a *app) progress(ctx context.Context, doing string) *progress {
	p := &progress{w: a.err, terminal: terminal(a.err), doing: doing, start: time.Now(),
		waiting: &a.waiting,
		stopped: make(chan struct{})}
	if p.terminal {
		go p.run(ctx)
	}
	return p
}

func (p *progress) run(ctx context.Context) {
	interrupted := ctx.Done()
	for next := time.NewTimer(patience); ; next.Reset(200 * time.Millisecond) {
		select {
		case <-p.stopped:
			return
		case <-interrupted:
			interrupted = nil
			if errors.Is(ctx.Err(), context.Canceled) { // not --timeout
				p.now(leaving)
			}
		case <-next.C:
		}
		p.draw()
	}
}

// now sets what the command is doing.
func (p *progress) now(doing string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doing != leaving {
		p.doing = doing
	}
}

// draw shows the line if it has changed.
func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stopped: // the line stopped while draw waited for the lock
		return
	default:
	}
	doing := p.doing
	if p.waiting != nil && doing != leaving {
		doing += p.waiting.String()
	}
	line := fmt.Sprintf("%s … %s", doing,
		report.Duration(time.Since(p.start).Truncate(time.Second)))
	if width := columns(p.w); width > 0 {
		line = report.Truncate(line, width-1) // a wrapped line cannot be cleared
	}
	if line != p.shown {
		p.shown = line
		fmt.Fprint(p.w, "\r\x1b[K"+line)
	}
}

// say prints a line that stays.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = ""
	}
	fmt.Fprintln(p.w, report.Plain(line))
}

// stop clears the line. It may be called more than once.
func (p *progress) stop() {
	p.once.Do(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.stopped)
		if p.shown != "" {
			fmt.Fprint(p.w, "\r\x1b[K")
		}
	})
}

// logger returns a log that shows its last line as progress.
func (p *progress) logger() *slog.Logger { return slog.New(progressHandler{p: p}) }

type progressHandler struct {
	p     *progress
	attrs []slog.Attr
}

func (h progressHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.p.terminal || level >= slog.LevelWarn
}

func (h progressHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	add := func(a slog.Attr) bool {
		text += " " + a.Value.String()
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	text = strings.ReplaceAll(text, "\n", " ")
	if h.p.terminal {
		h.p.now(text)
		return nil
	}
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	_, err := fmt.Fprintln(h.p.w, "routekeeper: "+text)
	return err
}

func (h progressHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

func (h progressHandler) WithGroup(string) slog.Handler { return h }

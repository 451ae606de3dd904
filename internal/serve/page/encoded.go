package page

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// reused is how long the JSON of the first page is reused while nothing visible has changed, so
// that programs that ask often, or many of them, cost one encoding a second. Only the times of
// checks can be that old.
const reused = time.Second

// encoded is the JSON of the first page, which has several megabytes for a large fleet.
type encoded struct {
	mu    sync.Mutex // also held while the JSON is made, so that other callers wait for it
	state string     // what it shows
	made  time.Time
	raw   []byte // nil: none
}

// get returns the JSON of a state, which make makes.
func (e *encoded) get(state string, make func() ([]byte, error)) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw != nil && e.state == state && time.Since(e.made) < reused {
		return e.raw, nil
	}
	began := time.Now()
	raw, err := make()
	if err != nil {
		return nil, err
	}
	e.state, e.made, e.raw = state, began, raw
	time.AfterFunc(2*reused, func() { e.drop(began) })
	return raw, nil
}

// drop frees the memory.
func (e *encoded) drop(made time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made.Equal(made) {
		e.raw = nil
	}
}

// shown identifies the content of the first page, except for the times of checks.
func (p *Pages) shown() string {
	p.board.mu.Lock()
	version := p.board.current()
	p.board.mu.Unlock()
	state := fmt.Sprint(version, " ", p.mode())
	if p.opts.Silences != nil {
		for _, e := range p.opts.Silences.Current() {
			state += fmt.Sprint(" ", e.ID, e.Cluster, e.Until)
		}
	}
	return state
}

// overviewJSON answers with the first page as JSON.
func (p *Pages) overviewJSON(w http.ResponseWriter, r *http.Request) {
	raw, err := p.encoded.get(p.shown(), func() ([]byte, error) { return inJSON(p.front()) })
	if err != nil {
		p.broken(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(raw) // the client may have gone
}

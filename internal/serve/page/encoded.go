package page

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// reused is how long the JSON of the first page is reused while nothing visible has changed, so
// that programs that ask often, or many of them, cost one encoding a second. Only the times of
// checks can be that old.
const reused = time.Second

// encoded is the JSON of the first page, which has several megabytes for a large fleet.
type encoded struct {
	mu            sync.Mutex // also held while the JSON is made, so that other callers wait for it
	state         string     // what it shows
	made          time.Time
	plain, packed []byte // packed is nil until a caller accepts gzip
}

// get returns the JSON of a state, which make makes, and whether it is compressed.
func (e *encoded) get(state string, zip bool, make func() ([]byte, error)) (raw []byte, zipped bool,
	err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.plain == nil || e.state != state || time.Since(e.made) >= reused {
		began := time.Now()
		if raw, err = make(); err != nil {
			return nil, false, err
		}
		e.state, e.made, e.plain, e.packed = state, began, raw, nil
		time.AfterFunc(2*reused, func() { e.drop(began) })
	}
	if !zip {
		return e.plain, false, nil
	}
	if e.packed == nil {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if err == nil {
			_, err = z.Write(e.plain)
		}
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			return nil, false, err
		}
		e.packed = b.Bytes()
	}
	return e.packed, true, nil
}

// drop frees the memory.
func (e *encoded) drop(made time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made.Equal(made) {
		e.plain, e.packed = nil, nil
	}
}

// shown identifies the content of the first page, except for the times of checks.
func (p *Pages) shown() string {
	p.board.mu.Lock()
	version := p.board.version
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
	raw, zipped, err := p.encoded.get(p.shown(), acceptsGzip(r), func() ([]byte, error) {
		return inJSON(p.front())
	})
	if err != nil {
		p.broken(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Add("Vary", "Accept-Encoding")
	if zipped {
		w.Header().Set("Content-Encoding", "gzip")
	}
	_, _ = w.Write(raw) // the client may have gone
}

// acceptsGzip reports whether a caller accepts compressed answers.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(name, "gzip") {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(quality), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}

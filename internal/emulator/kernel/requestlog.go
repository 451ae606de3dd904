package kernel

import (
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Request is a line of the request log.
type Request struct {
	// N counts from 1.
	N      int       `json:"n"`
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	Query  string    `json:"query,omitempty"`
	// Principal is the caller's name, "" for none.
	Principal string `json:"principal,omitempty"`
	// Status is 0 if the connection was cut before the call took effect.
	Status int    `json:"status"`
	Note   string `json:"note,omitempty"`
	// Body and Answer are the bodies of the request and the answer; absent if they were not JSON,
	// or have been dropped.
	IfMatch string          `json:"ifMatch,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

// requestLog stores the last requests, and the bodies of fewer of them.
type requestLog struct {
	keep int // bodies
	log  *slog.Logger
	mu   sync.Mutex
	n    int // of the last one
	last []Request
}

// maxRequests is the least number of stored requests; up to twice as many are stored.
const maxRequests = 100_000

func (l *requestLog) Add(c *Call, start time.Time, answer Reply, note string) {
	r := Request{
		Time: start, Method: c.Method, Path: "/" +
			strings.Join(c.Path, "/"), Query: url.Values(c.Query).Encode(),
		Principal: c.Who.Name, Status: answer.Status, Note: note, IfMatch: c.Header.Get("If-Match"),
	}
	if !c.Secret {
		if json.Valid(c.Body) {
			r.Body = c.Body
		}
		r.Answer = answer.Body
	}
	l.log.Debug("request", "method", r.Method, "path", r.Path, "status", r.Status, "principal",
		r.Principal, "elapsed", time.Since(start).String())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	r.N = l.n
	if len(l.last) == 2*maxRequests {
		l.last = append([]Request(nil), l.last[maxRequests:]...)
	}
	l.last = append(l.last, r)
	if old := len(l.last) - l.keep - 1; old >= 0 {
		l.last[old].Body, l.last[old].Answer = nil, nil
	}
}

// Since returns the logged requests with a number above since, in order.
func (l *requestLog) Since(since int) []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	skip := min(max(since-(l.n-len(l.last)), 0), len(l.last))
	return append([]Request{}, l.last[skip:]...)
}

// Last returns the number of the last request.
func (l *requestLog) Last() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

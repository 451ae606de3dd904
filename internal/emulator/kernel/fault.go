package kernel

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Fault is an error in the next calls that match. It can be an error answer, a connection that is
// cut before or after the call took effect, an answer delayed until the client has closed the
// connection, an operation that is slow or fails, or a read that shows an older state. Only a fault
// with the principal "<cluster> identity" matches the calls of a cluster's cloud provider.
type Fault struct {
	// Method and Path select the calls: "" is any method, Path is a regular expression on the path,
	// without case. Principal is a name, "" is anyone.
	Method    string `json:"method,omitempty"`
	Path      string `json:"path,omitempty"`
	Principal string `json:"principal,omitempty"`
	// Skip lets this many matching calls succeed first. Count is how many then fail: 0 means one,
	// -1 all.
	Skip  int `json:"skip,omitempty"`
	Count int `json:"count,omitempty"`
	// Rate, from 0 to 1, is the share of calls that fail, at random. The same Seed gives the same
	// calls. 0 is all.
	Rate float64 `json:"rate,omitempty"`
	Seed uint64  `json:"seed,omitempty"`
	// Status, Code, Message and RetryAfter (seconds) are the error answer. Status 403 for all GETs
	// (Count -1) simulates a permission that the caller lacks: lists leave out what the path
	// matches.
	Status     int    `json:"status,omitempty"`
	Code       string `json:"code,omitempty"`
	Message    string `json:"message,omitempty"`
	RetryAfter int    `json:"retryAfter,omitempty"`
	// Cut ends the connection without an answer, before or after the call took effect.
	Cut string `json:"cut,omitempty"`
	// Hold works like Cut, but only after the client has closed the connection.
	Hold string `json:"hold,omitempty"`
	// Slow is the time in seconds of the operation that the call starts.
	Slow int `json:"slow,omitempty"`
	// Fail accepts the call and makes its operation fail at the end, with Code and Message; the
	// resource is then Failed.
	Fail bool `json:"fail,omitempty"`
	// Stale answers reads of resources and lists, of effective routes and of next hops with the
	// state before the last write. Only writes after the fault was injected count.
	Stale bool `json:"stale,omitempty"`
	// Fired is how often it has happened; it is only reported.
	Fired int `json:"fired"`
	// Held is how many calls Hold keeps waiting now; it is only reported.
	Held int `json:"held,omitempty"`

	hadSkip bool // it began with a Skip
	path    *regexp.Regexp
	chance  *rand.Rand
	of      *Fault // the injected fault, if this is the one that matched a call
}

func (f *Fault) check() error {
	switch {
	case f.Cut != "" && f.Cut != "before" && f.Cut != "after", f.Hold != "" && f.Hold != "before" &&
		f.Hold != "after":
		return fmt.Errorf("cut and hold are before or after")
	case f.Count < -1 || f.Skip < 0:
		return fmt.Errorf("count is -1 or more, skip 0 or more")
	case f.Status != 0 && (f.Cut != "" || f.Hold == "after"):
		return fmt.Errorf("a call is answered with a status or cut, not both")
	case f.Status == 0 && f.Cut == "" && f.Hold == "" && f.Slow == 0 && !f.Fail && !f.Stale:
		return fmt.Errorf("a fault needs a status, cut, hold, slow, fail or stale")
	case f.Slow < 0 || f.Rate < 0 || f.Rate > 1:
		return fmt.Errorf("slow is 0 or more, rate 0 to 1")
	case f.Status != 0 && (f.Slow > 0 || f.Fail || f.Stale):
		return fmt.Errorf("a call that is answered with a status starts no operation and " +
			"reads nothing")
	case f.Status != 0 && (f.Status < 100 || f.Status > 599):
		return fmt.Errorf("%d is not a status", f.Status)
	}
	var err error
	f.chance = rand.New(rand.NewPCG(f.Seed, 0))
	if f.path, err = regexp.Compile("(?i)" + f.Path); err != nil {
		return fmt.Errorf("path: %q is not a regular expression", f.Path)
	}
	return nil
}

// Before reports whether the call does not take effect.
func (f *Fault) Before() bool { return f.Status != 0 || f.Cut == "before" || f.Hold == "before" }

// After reports whether the call takes effect and is not answered.
func (f *Fault) After() bool { return f.Cut == "after" || f.Hold == "after" }

// isMissingRight reports whether the fault simulates a permission to read that the caller lacks.
func (f *Fault) isMissingRight() bool {
	return f.Status == http.StatusForbidden && f.Count == -1 && f.Rate == 0 && !f.hadSkip &&
		strings.EqualFold(f.Method, http.MethodGet)
}

// Failure returns the error that is answered, or with which the operation ends.
func (f *Fault) Failure() *Failure {
	status := cmp.Or(f.Status, http.StatusInternalServerError)
	return &Failure{Status: status, Code: cmp.Or(f.Code, StatusName(status)),
		Message: cmp.Or(f.Message, "injected"), RetryAfter: f.RetryAfter}
}

// faults has the injected faults that remain. Lacking permissions come last, because a call that
// gets no answer, or is throttled, never reaches them.
type faults struct {
	mu   sync.Mutex
	list []*Fault
}

// Take returns the fault that matches a call, if any. Internal calls did not come over the network.
func (fs *faults) Take(c *Call, internal bool) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.list {
		limit := max(f.Count, 1)
		if f.Method != "" && !strings.EqualFold(f.Method, c.Method) || !f.path.MatchString(
			"/"+strings.Join(c.Path, "/")) || f.Count >= 0 && f.Fired >= limit ||
			f.Principal != "" && f.Principal != c.Who.Name || internal && f.Principal == "" {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Rate > 0 && f.chance.Float64() >= f.Rate {
			continue
		}
		f.Fired++
		fired := *f
		fired.of = f
		return &fired
	}
	return nil
}

// hold waits until the client of a call is gone.
func (fs *faults) hold(ctx context.Context, f *Fault) {
	count := func(n int) {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		f.of.Held += n
	}
	count(1)
	<-ctx.Done()
	count(-1)
}

// hidden returns a function that says which resources faults hide from the caller, or nil if they
// hide none.
func (fs *faults) hidden(who Principal) func(arm.ID) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var paths []*regexp.Regexp
	for _, f := range fs.list {
		if f.isMissingRight() && (f.Principal == "" || f.Principal == who.Name) {
			paths = append(paths, f.path)
		}
	}
	if paths == nil {
		return nil
	}
	return func(id arm.ID) bool {
		return slices.ContainsFunc(paths, func(path *regexp.Regexp) bool {
			return path.MatchString(string(id))
		})
	}
}

// Inject adds a fault. The returned function removes it.
func (fs *faults) Inject(f Fault) (remove func(), err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	f.hadSkip = f.Skip > 0
	added := &f
	fs.mu.Lock()
	defer fs.mu.Unlock()
	at := len(fs.list)
	for !added.isMissingRight() && at > 0 && fs.list[at-1].isMissingRight() {
		at--
	}
	fs.list = slices.Insert(fs.list, at, added)
	return func() {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.list = slices.DeleteFunc(fs.list, func(have *Fault) bool { return have == added })
	}, nil
}

// Injected returns the injected faults, and how often each has happened.
func (fs *faults) Injected() []Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	out := []Fault{}
	for _, f := range fs.list {
		out = append(out, *f)
	}
	return out
}

// Clear removes all faults.
func (fs *faults) Clear() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.list = nil
}

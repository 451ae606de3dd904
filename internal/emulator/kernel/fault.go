package kernel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// Fault is something that goes wrong with the next calls that match: an error answer, a connection
// cut before or after the call took effect, an answer held back until the client is gone, an
// operation that is slow or fails, or a read that shows what was. Calls of a cluster's cloud
// provider only match a fault that names its principal ("<cluster> identity").
type Fault struct {
	// Method and Path say which calls: "" is any method, Path is a regular expression on the path,
	// without case. Principal is a name, "" is anybody.
	Method    string `json:"method,omitempty"`
	Path      string `json:"path,omitempty"`
	Principal string `json:"principal,omitempty"`
	// Skip lets that many matching calls through first; Count is how many then go wrong, 0 for one,
	// -1 for all.
	Skip  int `json:"skip,omitempty"`
	Count int `json:"count,omitempty"`
	// Rate, from 0 to 1, makes only that share of them go wrong, by chance. The same Seed makes the
	// same ones go wrong. 0 is all.
	Rate float64 `json:"rate,omitempty"`
	Seed uint64  `json:"seed,omitempty"`
	// Status, Code, Message and RetryAfter (seconds) are the error answer.
	Status     int    `json:"status,omitempty"`
	Code       string `json:"code,omitempty"`
	Message    string `json:"message,omitempty"`
	RetryAfter int    `json:"retryAfter,omitempty"`
	// Cut ends the connection without an answer, before or after the call took effect.
	Cut string `json:"cut,omitempty"`
	// Hold does as Cut does, but only once the client is gone.
	Hold string `json:"hold,omitempty"`
	// Slow is how many seconds the operation that the call begins takes.
	Slow int `json:"slow,omitempty"`
	// Fail accepts the call and lets its operation fail in the end, with Code and Message; the
	// resource is Failed then.
	Fail bool `json:"fail,omitempty"`
	// Stale answers reads of resources and lists, and what asks for effective routes or a next hop,
	// with what they were before they were last written. Only writes after the fault was injected
	// count.
	Stale bool `json:"stale,omitempty"`
	// Fired is how often it has happened, and is only reported.
	Fired int `json:"fired"`

	path   *regexp.Regexp
	chance *rand.Rand
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
		return fmt.Errorf("a call that is answered with a status begins no operation and reads " +
			"nothing")
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

func (f *Fault) wait(ctx context.Context) { <-ctx.Done() }

// Failure is the error that is answered, or with which the operation ends.
func (f *Fault) Failure() *Failure {
	status := f.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	code := f.Code
	if code == "" {
		code = strings.ReplaceAll(http.StatusText(status), " ", "")
	}
	message := f.Message
	if message == "" {
		message = "injected"
	}
	return &Failure{Status: status, Code: code, Message: message, RetryAfter: f.RetryAfter}
}

// faults are the ones still to come.
type faults struct {
	mu   sync.Mutex
	list []*Fault
}

// Take returns the fault that befalls a call, if any. Internal calls do not come over the wire.
func (fs *faults) Take(c *Call, internal bool) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.list {
		limit := max(f.Count, 1)
		if f.Method != "" && !strings.EqualFold(f.Method, c.Method) ||
			!f.path.MatchString("/"+strings.Join(c.Path, "/")) ||
			f.Count >= 0 && f.Fired >= limit || f.Principal != "" && f.Principal != c.Who.Name {
			continue
		}
		if internal && f.Principal == "" {
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
		return &fired
	}
	return nil
}

// Inject makes something go wrong. The returned function takes it back.
func (k *Kernel) Inject(f Fault) (remove func(), err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	added := &f
	k.Faults.mu.Lock()
	defer k.Faults.mu.Unlock()
	k.Faults.list = append(k.Faults.list, added)
	return func() {
		k.Faults.mu.Lock()
		defer k.Faults.mu.Unlock()
		for i, have := range k.Faults.list {
			if have == added {
				k.Faults.list = append(k.Faults.list[:i:i], k.Faults.list[i+1:]...)
			}
		}
	}, nil
}

// Injected returns the faults injected and how often each has happened.
func (k *Kernel) Injected() []Fault {
	k.Faults.mu.Lock()
	defer k.Faults.mu.Unlock()
	out := []Fault{}
	for _, f := range k.Faults.list {
		out = append(out, *f)
	}
	return out
}

// ClearFaults takes all faults back.
func (k *Kernel) ClearFaults() {
	k.Faults.mu.Lock()
	defer k.Faults.mu.Unlock()
	k.Faults.list = nil
}

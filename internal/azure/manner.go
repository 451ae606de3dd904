package azure

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// manner is how to make one call. The SDK's policies see only a request's context, so the context
// carries a manner inside this package. Callers use parameters.
type manner struct {
	yield   bool   // waits for all others when few tokens remain
	calls   *Calls // counts it
	polling bool   // the call polls an operation
	// answer is how long to wait for the answer once the call may go out, and turn is how long
	// Azure may delay the call. 0 means no limit beyond the usual ones.
	answer, turn time.Duration
	until        time.Time     // when to give up at the latest; zero: no limit
	sending      func(arm.ID)  // called when the call goes out; may be nil
	status       *atomic.Int64 // the status of the last try
}

type mannerKey struct{}

func mannerOf(ctx context.Context) manner {
	m, _ := ctx.Value(mannerKey{}).(manner)
	return m
}

// withCall changes how calls are made.
func withCall(ctx context.Context, change func(*manner)) context.Context {
	m := mannerOf(ctx)
	change(&m)
	return context.WithValue(ctx, mannerKey{}, m)
}

func yields(ctx context.Context) bool { return mannerOf(ctx).yield }

// Calls counts the calls to ARM.
type Calls struct{ reads, writes, polls atomic.Int64 }

// Counts returns the number of GETs of resources and lists, of PUTs and other writes, and of GETs
// of running operations.
func (c *Calls) Counts() (reads, writes, polls int) {
	return int(c.reads.Load()), int(c.writes.Load()), int(c.polls.Load())
}

// add counts a call. A nil c counts nothing.
func (c *Calls) add(r *http.Request, polling bool) {
	switch {
	case c == nil:
	case r.Method != http.MethodGet:
		c.writes.Add(1)
	case polling:
		c.polls.Add(1)
	default:
		c.reads.Add(1)
	}
}

// limit returns a context that ends when the caller stops waiting for a call, and a function for
// the resulting error, or nil.
func limit(ctx context.Context) (limited context.Context, cancel func(),
	late func(id arm.ID) *Error) {
	m := mannerOf(ctx)
	d := m.answer
	if left := time.Until(m.until); !m.until.IsZero() && (d == 0 || left < d) {
		d = max(left, time.Millisecond).Round(time.Millisecond)
	}
	if d == 0 {
		return ctx, func() {}, func(arm.ID) *Error { return nil }
	}
	status := new(atomic.Int64)
	limited, cancel = context.WithTimeout(withCall(ctx, func(m *manner) { m.status = status }), d)
	return limited, cancel, func(id arm.ID) *Error {
		if limited.Err() == nil || ctx.Err() != nil {
			return nil
		}
		fault := &Error{Method: http.MethodGet, ID: id, Status: int(status.Load()), late: true,
			Message: fmt.Sprintf("no answer within %s", d)}
		if fault.Status != 0 {
			fault.Message = fmt.Sprintf("only HTTP %d answers within %s", fault.Status, d)
		}
		return fault
	}
}

// noteTry stores the status of a try, in case no better status follows.
func noteTry(ctx context.Context, status int) {
	if last := mannerOf(ctx).status; last != nil {
		last.Store(int64(status))
	}
}

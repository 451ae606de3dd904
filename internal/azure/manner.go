package azure

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"routekeeper.dev/routekeeper/internal/network"
)

// How calls are made is said by their context: who waits for them, and for how long.
type (
	withinKey struct{}
	yieldKey  struct{}
	callsKey  struct{}
	triesKey  struct{}
)

// Within has Read give up each call that is not answered within some time, counted from its turn, or whose turn Azure has put off for
// longer than turn. What was to be read is Unread then, and Late. 0 is no limit beyond the usual ones.
func Within(ctx context.Context, answer, turn time.Duration) context.Context {
	return context.WithValue(ctx, withinKey{}, limits{answer, turn})
}

type limits struct{ answer, turn time.Duration }

// Yielding has reads go behind all others where few tokens are left. Writes, with all the reads that belong to them, never yield.
func Yielding(ctx context.Context) context.Context { return context.WithValue(ctx, yieldKey{}, true) }

func pressing(ctx context.Context) context.Context { return context.WithValue(ctx, yieldKey{}, false) }

// Counting has the calls counted that are made with the context.
func Counting(ctx context.Context, calls *Calls) context.Context {
	return context.WithValue(ctx, callsKey{}, calls)
}

func yields(ctx context.Context) bool {
	yes, _ := ctx.Value(yieldKey{}).(bool)
	return yes
}

func within(ctx context.Context) limits {
	l, _ := ctx.Value(withinKey{}).(limits)
	return l
}

// Calls counts what was sent to ARM.
type Calls struct{ reads, writes, polls atomic.Int64 }

// Counts returns the number of GETs of resources and lists, of PUTs and other writes, and of GETs of running operations.
func (c *Calls) Counts() (reads, writes, polls int) {
	return int(c.reads.Load()), int(c.writes.Load()), int(c.polls.Load())
}

func (c *Calls) add(r *http.Request) {
	switch polling := r.Context().Value(pollKey{}) != nil; {
	case r.Method != http.MethodGet:
		c.writes.Add(1)
	case polling:
		c.polls.Add(1)
	default:
		c.reads.Add(1)
	}
}

// limit returns a context that ends when a call is not waited for any longer, and what the call ends with then, or nil.
func limit(ctx context.Context) (limited context.Context, cancel func(), late func(id network.ID) *Error) {
	d := within(ctx).answer
	if d == 0 {
		return ctx, func() {}, func(network.ID) *Error { return nil }
	}
	status := new(atomic.Int64)
	limited, cancel = context.WithTimeout(context.WithValue(ctx, triesKey{}, status), d)
	return limited, cancel, func(id network.ID) *Error {
		if limited.Err() == nil || ctx.Err() != nil {
			return nil
		}
		fault := &Error{Method: http.MethodGet, ID: id, Status: int(status.Load()), late: true, Message: fmt.Sprintf("no answer within %s", d)}
		if fault.Status != 0 {
			fault.Message = fmt.Sprintf("answered with HTTP %d, and not otherwise within %s", fault.Status, d)
		}
		return fault
	}
}

// noteTry keeps how a try was answered, for the case that no better one comes.
func noteTry(ctx context.Context, status int) {
	if last, limited := ctx.Value(triesKey{}).(*atomic.Int64); limited {
		last.Store(int64(status))
	}
}

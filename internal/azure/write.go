package azure

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Edit looks at a resource as it was just read and returns the document to put back, or nil when there is nothing to
// change. It may be called several times, each time on newer state.
type Edit func(arm.Document) ([]byte, error)

// Written is what became of a write.
type Written struct {
	// Sent is the document that was put last and may have taken effect: its answer can get lost, so look at After. Nil when
	// there is none. All are those of which that is true, in their order.
	Sent []byte
	All  [][]byte
	// After is the resource as it was read last.
	After arm.Document
}

const (
	attempts    = 8                // of reading, changing and putting back
	backoff     = time.Second      // between attempts, doubled each time
	backoffMax  = 30 * time.Second // and no longer than this
	undoneLimit = 3                // accepted writes that were gone when read back
	// busyAttempt is the attempt whose wait is the longest while another operation holds a resource
	// up, 4 seconds: longer waits would leave the moments between operations to others, time and
	// again.
	busyAttempt = 2
)

// A call of a write that hangs is given up soon, and made again: its connection may be dead, and nothing is
// gained by waiting for it. putWithin is how long the answer to a PUT is waited for; the
// operation that it begins has longer.
const putWithin = 20 * time.Second

var (
	firstRead = policy.RetryOptions{MaxRetries: 2, RetryDelay: time.Second, MaxRetryDelay: answerWithin, TryTimeout: answerWithin, StatusCodes: readRetries.StatusCodes}
	readBack  = policy.RetryOptions{MaxRetries: readRetries.MaxRetries, RetryDelay: readRetries.RetryDelay, MaxRetryDelay: readRetries.MaxRetryDelay,
		TryTimeout: answerWithin, StatusCodes: readRetries.StatusCodes}
)

// Write changes one resource: GET, edit, PUT of the whole document with If-Match, the operation's polls, and a GET that
// shows it. On a 412, and after a wait on anything transient, it starts again from fresh state; a PUT whose answer was lost
// is found done by that, or sent again. What does not end within patience is left to the next round. A context that
// ends keeps a write from being sent, and lets one that was sent be finished and read back. Calls counts them; it may be nil.
func (c *Client) Write(ctx context.Context, id arm.ID, edit Edit, calls *Calls) (Written, error) {
	w := writing{c: c, id: id, edit: edit, deadline: time.Now().Add(patience)}
	err := w.run(withCall(ctx, func(m *manner) { *m = manner{calls: calls} }))
	return w.Written, err
}

// writing is a write under way.
type writing struct {
	Written
	c        *Client
	id       arm.ID
	edit     Edit
	deadline time.Time
	last     error // what the last attempt ran into
	undone   int   // accepted writes
}

func (w *writing) run(ctx context.Context) error {
	for attempt := 0; attempt < attempts; attempt++ {
		if w.busy() {
			attempt = min(attempt, busyAttempt)
		}
		// Once something was sent, it has to be known how it went.
		finish := policy.WithRetryOptions(ctx, firstRead)
		if w.Sent != nil {
			var cancel context.CancelFunc
			finish, cancel = context.WithTimeout(policy.WithRetryOptions(context.WithoutCancel(ctx), readBack), tryTimeout)
			defer cancel()
		}
		doc, err := w.c.getResource(finish, w.id)
		if err != nil {
			return err
		}
		w.After = doc
		body, err := w.edit(doc)
		if err != nil {
			return err
		}
		settled := inventory.Settled(doc.Raw)
		if body == nil && w.Sent != nil && inventory.ProvisioningState(doc.Raw) == "Failed" {
			// It reads as it should, but the operation that made it so has failed: it is written again.
			if w.last == nil {
				w.last = &Error{Method: http.MethodPut, ID: w.id, Status: http.StatusInternalServerError, Code: "Failed", Message: "the operation failed"}
			}
			if time.Now().Add(pollInterval).After(w.deadline) {
				return w.last
			}
			body = doc.Raw
		}
		switch {
		case body == nil && (settled || w.Sent == nil):
			return nil
		case body == nil || !settled:
			// Somebody's operation is running, ours or another's; a PUT would be refused.
			w.last = &Error{Method: http.MethodPut, ID: w.id, Status: http.StatusConflict, Code: "AnotherOperationInProgress", Message: "another operation is running on it"}
			if err := w.sleep(finish, attempt, 0); err != nil {
				return err
			}
			continue
		case w.undone == undoneLimit:
			return ErrUndone
		}
		if err := w.c.throttle.wait(ctx, http.MethodPut, string(w.id)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if again, err := w.put(ctx, attempt, body, doc.ETag); !again {
			return err
		}
	}
	return w.last
}

// busy reports whether the last attempt ran into an operation that is running.
func (w *writing) busy() bool {
	var fault *Error
	return errors.As(w.last, &fault) && fault.Code == "AnotherOperationInProgress"
}

// sent notes a document that may have taken effect.
func (w *writing) sent(body []byte) { w.Sent, w.All = body, append(w.All, body) }

// put sends a document, follows its operation, and tells whether to look again.
func (w *writing) put(ctx context.Context, attempt int, body []byte, etag string) (again bool, err error) {
	sent, cancel := context.WithTimeout(policy.WithRetryOptions(context.WithoutCancel(ctx), once), putWithin)
	defer cancel()
	a, err := w.c.send(sent, http.MethodPut, w.c.address(w.id, "", apiVersion(w.id)), body, etag)
	var fault *Error
	switch {
	case err == nil:
		w.c.own.note(ctx, w.c, a.header.Get("x-ms-correlation-request-id"), w.id)
		w.sent(body)
		w.undone++
		w.last = nil
		if operation := a.header.Get("Azure-AsyncOperation"); operation != "" {
			return w.follow(ctx, attempt, operation, retryAfter(&http.Response{Header: a.header}))
		}
		return true, nil // done, or to be followed on the resource itself
	case !errors.As(err, &fault):
		return false, err
	}
	w.last = err
	switch {
	case fault.stale():
		w.c.log.Debug("the resource changed since it was read, planning again", "id", string(w.id))
		if attempt == 0 {
			return true, nil
		}
		return true, w.sleep(ctx, attempt, 0) // whoever writes it so often is given time
	case !fault.Transient():
		return false, err
	case fault.Status == 0 || fault.Status == http.StatusRequestTimeout || fault.Status >= 500: // it may have taken effect
		w.sent(body)
		return true, w.sleep(context.WithoutCancel(ctx), attempt, fault.RetryAfter)
	}
	if err := w.sleep(ctx, attempt, fault.pause()); err != nil {
		return false, err
	}
	return true, nil
}

// pollInterval is the time between polls where ARM names none.
const pollInterval = 2 * time.Second

// follow waits for an accepted write's operation to end. Whatever keeps it from being followed, the resource itself
// says in the end how it went.
func (w *writing) follow(ctx context.Context, attempt int, operation string, wait time.Duration) (again bool, err error) {
	ctx = policy.WithRetryOptions(withCall(context.WithoutCancel(ctx), func(m *manner) { m.polling = true }), readRetries)
	for {
		if wait == 0 {
			wait = pollInterval
		}
		if time.Now().Add(wait).After(w.deadline) {
			return true, nil
		}
		time.Sleep(wait)
		a, err := w.c.get(ctx, operation)
		if err != nil {
			w.c.log.Info("an operation cannot be polled, reading the resource instead", "id", string(w.id), "error", err.Error())
			return true, nil
		}
		wait = retryAfter(&http.Response{Header: a.header})
		var op struct {
			Status string `json:"status"`
		}
		if err := json.Unmarshal(a.body, &op); err != nil {
			return true, nil
		}
		switch strings.ToLower(op.Status) {
		case "succeeded":
			return true, nil
		case "failed", "canceled":
			fault := operationFault(w.id, a.body)
			w.last = fault
			w.undone--
			if fault.Transient() {
				return true, w.sleep(ctx, attempt, 0)
			}
			if doc, err := w.c.getResource(ctx, w.id); err == nil {
				w.After = doc
			}
			return false, fault
		}
	}
}

// waitLevel is the log level of a wait: one that a person notices needs an explanation.
func waitLevel(wait time.Duration) slog.Level {
	if wait >= 2*time.Second {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// sleep waits before the next attempt: as long as ARM asked, or longer each time. Where that is more than is left, the
// write ends with what it ran into.
func (w *writing) sleep(ctx context.Context, attempt int, asked time.Duration) error {
	wait := asked
	if wait == 0 {
		wait = min(backoff<<attempt, backoffMax)
	}
	if time.Now().Add(wait).After(w.deadline) {
		return w.last
	}
	w.c.log.Log(ctx, waitLevel(wait), "waiting", "for", wait.String(), "because", w.last.Error())
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

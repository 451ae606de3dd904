package azure

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Edit receives a resource as just read and returns the document to put back, or nil if there is
// nothing to change. It may be called several times, each time with newer state.
type Edit func(arm.Document) ([]byte, error)

// Written is the result of a write.
type Written struct {
	// Sent is the last document put that may have taken effect. Its answer can get lost, so compare
	// it with After. Nil if there is none. All are all such documents, in order.
	Sent []byte
	All  [][]byte
	// After is the resource as last read.
	After arm.Document
}

const (
	attempts    = 8                // to read, edit and put back
	backoff     = time.Second      // between attempts, doubled each time
	backoffMax  = 30 * time.Second // at most
	undoneLimit = 3                // accepted writes that were undone when read back
	// While another operation keeps a resource busy, the first waits last a second each, because
	// most operations on networks take some seconds (busyShort). Later waits last at most 4 seconds
	// (busyAttempt): longer ones would leave the gaps between operations to other writers.
	busyShort   = 10 * time.Second
	busyAttempt = 2
)

// putWithin is how long to wait for the answer to a PUT. The operation that it starts may take
// longer. A call that hangs is soon given up and made again, because its connection may be dead.
const putWithin = 20 * time.Second

var (
	firstRead = policy.RetryOptions{MaxRetries: 2, RetryDelay: time.Second,
		MaxRetryDelay: answerWithin, TryTimeout: answerWithin, StatusCodes: readRetries.StatusCodes}
	readBack = policy.RetryOptions{MaxRetries: readRetries.MaxRetries,
		RetryDelay: readRetries.RetryDelay, MaxRetryDelay: readRetries.MaxRetryDelay,
		TryTimeout: answerWithin, StatusCodes: readRetries.StatusCodes}
)

type acceptedKey struct{}

// OnAccepted returns a context in which Write calls f whenever Azure accepts a document.
func OnAccepted(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, acceptedKey{}, f)
}

// Write changes one resource: GET, edit, PUT of the whole document with If-Match, the operation's
// polls, and a GET that shows the result. After a 412, or a wait for anything transient, it starts
// over with fresh state. So it sees whether a PUT whose answer was lost took effect, and sends it
// again if not. A write that does not end within patience is left to the next check. If the context
// ends, an unsent write is not sent; a write that was sent is finished and read back. calls counts
// the calls and may be nil.
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
	last     error // the error of the last attempt
	undone   int   // accepted writes
}

func (w *writing) run(ctx context.Context) error {
	began := time.Now()
	for attempt := 0; attempt < attempts; attempt++ {
		switch {
		case !w.busy():
		case time.Since(began) < busyShort:
			attempt = 0
		default:
			attempt = min(attempt, busyAttempt)
		}
		// Once something was sent, its result must be read, even if the context has ended.
		finish := policy.WithRetryOptions(ctx, firstRead)
		if w.Sent != nil {
			var cancel context.CancelFunc
			finish, cancel = context.WithTimeout(policy.WithRetryOptions(context.WithoutCancel(ctx),
				readBack), tryTimeout)
			defer cancel()
		}
		doc, err := w.c.getResource(finish, w.id)
		if err != nil {
			return err
		}
		w.After = doc
		read := time.Now()
		body, err := w.edit(doc)
		if err != nil {
			return err
		}
		settled := inventory.Settled(doc.Raw)
		if body == nil && w.Sent != nil && inventory.ProvisioningState(doc.Raw) == "Failed" {
			// It reads as intended, but the operation has failed, so write it again.
			if w.last == nil {
				w.last = &Error{Method: http.MethodPut, ID: w.id,
					Status: http.StatusInternalServerError, Code: "Failed",
					Message: "the operation failed"}
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
			// An operation is running, ours or another writer's: a PUT would be refused.
			w.last = &Error{Method: http.MethodPut, ID: w.id, Status: http.StatusConflict,
				Code: "AnotherOperationInProgress", Message: "another operation is running on it"}
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
		switch same, err := w.unchanged(finish, doc, read); {
		case err != nil:
			return err
		case !same:
			w.last = &Error{Method: http.MethodPut, ID: w.id,
				Status: http.StatusPreconditionFailed, Code: "PreconditionFailed",
				Message: "it changed while the write was prepared"}
			if attempt > 0 {
				if err := w.sleep(ctx, attempt, 0); err != nil {
					return err
				}
			}
			continue
		}
		if again, err := w.put(ctx, attempt, body, doc.ETag); !again {
			return err
		}
	}
	return w.last
}

// fresh is the greatest age at which a subnet's document may be put back.
const fresh = 250 * time.Millisecond

// unchanged reports whether a subnet is still as it was read. It is not known whether Azure checks
// If-Match on subnets. Deciding on a write, and throttling, can take seconds. In this time, another
// client's write would be lost without a trace. So an older document is read again first. Only the
// activity log shows what others write between that GET and the PUT.
func (w *writing) unchanged(ctx context.Context, doc arm.Document, read time.Time) (bool, error) {
	if !w.id.Is(arm.TypeSubnet) || time.Since(read) < fresh {
		return true, nil
	}
	now, err := w.c.getResource(ctx, w.id)
	return err == nil && bytes.Equal(now.Raw, doc.Raw), err
}

// busy reports whether another operation stopped the last attempt.
func (w *writing) busy() bool {
	var fault *Error
	return errors.As(w.last, &fault) && fault.Code == "AnotherOperationInProgress"
}

// sent notes a document that may have taken effect.
func (w *writing) sent(body []byte) { w.Sent, w.All = body, append(w.All, body) }

// put sends a document, follows its operation, and reports whether to read the resource again.
func (w *writing) put(ctx context.Context, attempt int, body []byte, etag string) (again bool,
	err error) {
	sent, cancel := context.WithTimeout(policy.WithRetryOptions(context.WithoutCancel(ctx), once),
		putWithin)
	defer cancel()
	a, err := w.c.send(sent, http.MethodPut, w.c.address(w.id, "", apiVersion(w.id)), body, etag)
	var fault *Error
	switch {
	case err == nil:
		w.c.ownWrites.note(ctx, w.c.caller, a.Header.Get("x-ms-correlation-request-id"), w.id)
		if accepted, wanted := ctx.Value(acceptedKey{}).(func()); wanted {
			accepted()
		}
		w.sent(body)
		w.undone++
		w.last = nil
		return w.follow(ctx, attempt, a)
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
		return true, w.sleep(ctx, attempt, 0) // give the other writer time
	case !fault.Transient():
		return false, err
	// it may have taken effect
	case fault.Status == 0 || fault.Status == http.StatusRequestTimeout || fault.Status >= 500:
		w.sent(body)
		return true, w.sleep(context.WithoutCancel(ctx), attempt, fault.RetryAfter)
	}
	if err := w.sleep(ctx, attempt, fault.pause()); err != nil {
		return false, err
	}
	return true, nil
}

// pollInterval is the time between polls if ARM names none.
const pollInterval = 2 * time.Second

// follow waits for the operation of an accepted write to end.
func (w *writing) follow(ctx context.Context, attempt int, accepted Reply) (again bool,
	err error) {
	ctx = policy.WithRetryOptions(context.WithoutCancel(ctx), readRetries)
	fault, err := w.c.follow(ctx, w.id, accepted, w.deadline)
	if fault == nil {
		return err == nil, err
	}
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

// follow waits for the operation that an answer names to end, and returns how it failed. If there
// is no operation, or it cannot be polled, or the deadline comes first, the resource itself shows
// the result.
func (c *caller) follow(ctx context.Context, id arm.ID, accepted Reply, deadline time.Time) (
	*Error, error) {
	ctx = withCall(ctx, func(m *manner) { m.polling = true })
	operation, last := accepted.Header.Get("Azure-AsyncOperation"), accepted
	for operation != "" {
		wait := cmp.Or(last.RetryAfter(), pollInterval)
		if time.Now().Add(wait).After(deadline) {
			return nil, nil
		}
		err := Pause(ctx, wait)
		if err != nil {
			return nil, err
		}
		if last, err = c.get(ctx, operation); err != nil {
			c.log.Info("an operation cannot be polled, reading the resource instead", "id",
				string(id), "error", err.Error())
			return nil, nil
		}
		switch strings.ToLower(gjson.GetBytes(last.Body, "status").String()) {
		case "succeeded", "":
			return nil, nil
		case "failed", "canceled":
			return operationFault(id, last.Body), nil
		}
	}
	return nil, nil
}

// waitLevel returns the log level of a wait: a wait that people notice needs an explanation.
func waitLevel(wait time.Duration) slog.Level {
	if wait >= 2*time.Second {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// sleep waits before the next attempt, as long as ARM asked, or longer each time. If that exceeds
// the time left, the write ends with its last error.
func (w *writing) sleep(ctx context.Context, attempt int, asked time.Duration) error {
	wait := asked
	if wait == 0 {
		wait = min(backoff<<attempt, backoffMax)
	}
	if time.Now().Add(wait).After(w.deadline) {
		return w.last
	}
	w.c.log.Log(ctx, waitLevel(wait), "waiting", "for", wait.String(), "because", w.last.Error())
	return Pause(ctx, wait)
}

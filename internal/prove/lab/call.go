package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prove"
)

// The api-versions are those of package azure, so that the results apply to its calls.
const (
	networkVersion       = "2025-05-01"
	groupVersion         = "2024-11-01"
	clusterVersion       = "2025-10-01"
	scaleSetVersion      = "2025-04-01"
	authorizationVersion = "2022-04-01"
	lockVersion          = "2020-05-01"
	activityVersion      = "2015-04-01"
)

// pollInterval is the time between polls if Azure names none.
const pollInterval = 2 * time.Second

// tries is the number of attempts of a GET, and of a PUT that Azure throttles.
const tries = 3

func address(id arm.ID, below, version string) string {
	return string(id) + below + "?api-version=" + version
}

// versionOf returns the api-version for a resource.
func versionOf(id arm.ID) string {
	if id.Is(arm.TypeResourceGroup) {
		return groupVersion
	}
	return networkVersion
}

// send makes one call, records it, and notes what it shows about rights. The error means that there
// was no answer.
func (l *lab) send(ctx context.Context, r azure.Request) (azure.Reply, error) {
	within, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	reply, err := l.client.Exchange(within, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if err != nil {
		if ctx.Err() == nil && (within.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
			err = fmt.Errorf("no answer within %s", callWithin)
		}
		return reply, fmt.Errorf("%s %s: %w", r.Method, wordOf(reply.Address), err)
	}
	l.record.add(reply)
	l.noteRightsLocked(reply)
	return reply, nil
}

// answerOf returns the part of an answer that facts depend on.
func answerOf(r azure.Reply) prove.Answer {
	a := prove.Answer{Status: r.Status}
	if fault := r.Fault(); fault != nil {
		a.Code, a.Message, a.Again = fault.Code, fault.Message, fault.Transient()
	}
	return a
}

// fetch makes a GET, and retries it if that can help.
func (l *lab) fetch(ctx context.Context, address string) (azure.Reply, error) {
	for try := 1; ; try++ {
		reply, err := l.send(ctx, azure.Request{Method: http.MethodGet, Address: address})
		fault := reply.Fault()
		switch {
		case err == nil && fault == nil:
			return reply, nil
		case err == nil && !fault.Transient():
			return reply, refusedBy(fault)
		case err == nil:
			err = refusedBy(fault)
		}
		if try == tries || ctx.Err() != nil {
			return reply, err
		}
		if err := azure.Pause(ctx, cmp.Or(reply.RetryAfter(), pollInterval)); err != nil {
			return reply, err
		}
	}
}

// each calls a function for each item of a list, page by page.
func (l *lab) each(ctx context.Context, list string, do func(gjson.Result)) error {
	for list != "" {
		reply, err := l.fetch(ctx, list)
		if err != nil {
			return err
		}
		page := gjson.ParseBytes(reply.Body)
		for _, item := range page.Get("value").Array() {
			do(item)
		}
		list = page.Get("nextLink").String()
	}
	return nil
}

// refusedBy returns a refusal in one line, with the status.
func refusedBy(fault *azure.Error) error {
	return fmt.Errorf("%s %s: %d %w", fault.Method, wordOf(string(fault.ID)), fault.Status,
		errors.New(fault.Reason()))
}

// get reads a resource.
func (l *lab) get(ctx context.Context, id arm.ID) (arm.Document, error) {
	reply, err := l.fetch(ctx, address(id, "", versionOf(id)))
	if err != nil {
		return arm.Document{}, err
	}
	return reply.Document(id)
}

// ready reads a resource until nothing is running on it.
func (l *lab) ready(ctx context.Context, id arm.ID) (arm.Document, error) {
	for deadline := time.Now().Add(settleWithin); ; {
		doc, err := l.get(ctx, id)
		if err != nil || inventory.Settled(doc.Raw) {
			return doc, err
		}
		if time.Now().After(deadline) {
			return doc, fmt.Errorf("%s is not settled after %s", id.Short(), settleWithin)
		}
		if err := azure.Pause(ctx, pollInterval); err != nil {
			return doc, err
		}
	}
}

// put sends a document once. The error means that the answer shows nothing about the resource: a
// missing right, a fault of Azure, or no answer. A throttled PUT is sent again.
func (l *lab) put(ctx context.Context, id arm.ID, body []byte, etag string) (azure.Reply, error) {
	return l.change(ctx, azure.Request{
		Method: http.MethodPut, Address: address(id, "", versionOf(id)), Body: body, IfMatch: etag,
	})
}

func (l *lab) change(ctx context.Context, r azure.Request) (azure.Reply, error) {
	for try := 1; ; try++ {
		reply, err := l.send(ctx, r)
		if err != nil {
			return reply, err
		}
		fault := reply.Fault()
		throttled := fault != nil && fault.Status == http.StatusTooManyRequests && !fault.Busy()
		switch {
		case throttled && try < tries:
			if err := azure.Pause(ctx, cmp.Or(fault.RetryAfter, pollInterval)); err != nil {
				return reply, err
			}
			continue
		case throttled, fault != nil && (fault.Status == http.StatusForbidden ||
			fault.Status == http.StatusUnauthorized || fault.Status >= 500):
			return reply, refusedBy(fault)
		}
		if fault == nil && r.Method == http.MethodPut {
			l.noteWrite(reply)
		}
		return reply, nil
	}
}

// noteWrite stores an accepted PUT of a subnet or table, for the activity log.
func (l *lab) noteWrite(r azure.Reply) {
	id, err := arm.ParseID(gjson.GetBytes(r.Body, "id").String())
	if err != nil || !id.Is(arm.TypeSubnet) && !id.Is(arm.TypeRouteTable) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	correlation := r.Header.Get("x-ms-correlation-request-id")
	l.writes = append(l.writes, written{id: id, correlation: correlation, at: r.Sent})
}

// accepted puts a document until it is accepted, because another operation may keep the resource
// busy.
func (l *lab) accepted(ctx context.Context, id arm.ID, body []byte) (azure.Reply, error) {
	for deadline := time.Now().Add(settleWithin); ; {
		reply, err := l.put(ctx, id, body, "")
		if err != nil {
			return reply, err
		}
		fault := reply.Fault()
		if fault == nil {
			return reply, nil
		}
		if !fault.Transient() || time.Now().After(deadline) {
			return reply, refusedBy(fault)
		}
		if err := azure.Pause(ctx, cmp.Or(fault.RetryAfter, pollInterval)); err != nil {
			return reply, err
		}
	}
}

// ending is how an operation ended; Status is "" if there was none.
type ending struct {
	Status, Code string
	Again        bool // its error asks to try again
}

// follow waits for the end of an answer's operation.
func (l *lab) follow(ctx context.Context, reply azure.Reply) (ending, error) {
	link := reply.Header.Get("Azure-AsyncOperation")
	if link == "" {
		return ending{}, nil
	}
	wait := reply.RetryAfter()
	for deadline := time.Now().Add(settleWithin); ; {
		if err := azure.Pause(ctx, cmp.Or(wait, pollInterval)); err != nil {
			return ending{}, err
		}
		poll, err := l.fetch(ctx, link)
		if err != nil {
			return ending{}, err
		}
		wait = poll.RetryAfter()
		status := gjson.GetBytes(poll.Body, "status").String()
		switch strings.ToLower(status) {
		case "succeeded":
			return ending{Status: status}, nil
		case "failed", "canceled":
			fault := poll.OperationFault()
			return ending{Status: status, Code: fault.Code, Again: fault.Transient()}, nil
		}
		if time.Now().After(deadline) {
			return ending{}, fmt.Errorf("an operation is still %s after %s", status, settleWithin)
		}
	}
}

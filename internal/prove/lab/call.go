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

// caller makes the calls of a trial. Once one has failed, err says why, and the further calls are
// not made.
type caller struct {
	*lab
	ctx context.Context
	err error
}

// fail notes why the trial fails, unless it has failed already.
func (c *caller) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// send makes one call, records it, and notes what it shows about rights. Without an answer the
// trial fails.
func (c *caller) send(r azure.Request) (reply azure.Reply) {
	if c.err != nil {
		return reply
	}
	within, cancel := context.WithTimeout(c.ctx, callWithin)
	defer cancel()
	reply, err := c.client.Exchange(within, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if err != nil {
		late := within.Err() != nil || errors.Is(err, context.DeadlineExceeded)
		if c.ctx.Err() == nil && late {
			err = fmt.Errorf("no answer within %s", callWithin)
		}
		c.err = fmt.Errorf("%s %s: %w", r.Method, wordOf(reply.Address), err)
		return reply
	}
	c.record.add(reply)
	c.noteRightsLocked(reply)
	return reply
}

// pause waits as long as an answer asks.
func (c *caller) pause(d time.Duration) {
	if c.err == nil {
		c.err = azure.Pause(c.ctx, cmp.Or(d, pollInterval))
	}
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
func (c *caller) fetch(address string) (reply azure.Reply) {
	for try := 1; c.err == nil; try++ {
		reply = c.send(azure.Request{Method: http.MethodGet, Address: address})
		if c.err == nil {
			fault := reply.Fault()
			if fault == nil {
				return reply
			}
			if c.err = refusedBy(fault); !fault.Transient() {
				return reply
			}
		}
		if try < tries && c.ctx.Err() == nil {
			c.err = nil
			c.pause(reply.RetryAfter())
		}
	}
	return reply
}

// each calls a function for each item of a list, page by page.
func (c *caller) each(list string, do func(gjson.Result)) {
	for list != "" && c.err == nil {
		page := gjson.ParseBytes(c.fetch(list).Body)
		if c.err != nil {
			return
		}
		for _, item := range page.Get("value").Array() {
			do(item)
		}
		list = page.Get("nextLink").String()
	}
}

// listed reports whether the list of a group's resources of a type shows one of them as expected.
func (c *caller) listed(id arm.ID, as func(gjson.Result) bool) (found bool) {
	c.each(address(c.group, "/providers/"+id.Type(), networkVersion), func(item gjson.Result) {
		found = found || id.Equal(arm.ID(item.Get("id").String())) && as(item)
	})
	return found
}

// refusedBy returns a refusal in one line, with the status.
func refusedBy(fault *azure.Error) error {
	return fmt.Errorf("%s %s: %d %w", fault.Method, wordOf(string(fault.ID)), fault.Status,
		errors.New(fault.Reason()))
}

// get reads a resource.
func (c *caller) get(id arm.ID) (doc arm.Document) {
	reply := c.fetch(address(id, "", versionOf(id)))
	if c.err == nil {
		doc, c.err = reply.Document(id)
	}
	return doc
}

// ready reads a resource until nothing is running on it.
func (c *caller) ready(id arm.ID) arm.Document {
	for deadline := time.Now().Add(settleWithin); ; {
		doc := c.get(id)
		if c.err != nil || inventory.Settled(doc.Raw) {
			return doc
		}
		if time.Now().After(deadline) {
			c.err = fmt.Errorf("%s is not settled after %s", id.Short(), settleWithin)
		}
		c.pause(pollInterval)
	}
}

// put sends a document once. It fails if the answer shows nothing about the resource: a missing
// right, a fault of Azure, or no answer. A throttled PUT is sent again.
func (c *caller) put(id arm.ID, body []byte, etag string) azure.Reply {
	return c.change(azure.Request{
		Method: http.MethodPut, Address: address(id, "", versionOf(id)), Body: body, IfMatch: etag,
	})
}

func (c *caller) remove(id arm.ID) azure.Reply {
	return c.change(
		azure.Request{Method: http.MethodDelete, Address: address(id, "", networkVersion)})
}

func (c *caller) change(r azure.Request) azure.Reply {
	for try := 1; ; try++ {
		reply := c.send(r)
		if c.err != nil {
			return reply
		}
		fault := reply.Fault()
		throttled := fault != nil && fault.Status == http.StatusTooManyRequests && !fault.Busy()
		switch {
		case throttled && try < tries:
			c.pause(fault.RetryAfter)
			continue
		case throttled, fault != nil && (fault.Status == http.StatusForbidden ||
			fault.Status == http.StatusUnauthorized || fault.Status >= 500):
			c.err = refusedBy(fault)
		case fault == nil && r.Method == http.MethodPut:
			c.noteWrite(reply)
		}
		return reply
	}
}

// noteWrite stores an accepted PUT of a subnet or table, for the activity log.
func (c *caller) noteWrite(r azure.Reply) {
	id, err := arm.ParseID(gjson.GetBytes(r.Body, "id").String())
	if err != nil || !id.Is(arm.TypeSubnet) && !id.Is(arm.TypeRouteTable) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	correlation := r.Header.Get("x-ms-correlation-request-id")
	c.writes = append(c.writes, written{id: id, correlation: correlation, at: r.Sent})
}

// accepted puts a document until it is accepted, because another operation may keep the resource
// busy.
func (c *caller) accepted(id arm.ID, body []byte) azure.Reply {
	for deadline := time.Now().Add(settleWithin); ; {
		reply := c.put(id, body, "")
		fault := reply.Fault()
		if c.err != nil || fault == nil {
			return reply
		}
		if !fault.Transient() || time.Now().After(deadline) {
			c.err = refusedBy(fault)
		}
		c.pause(fault.RetryAfter)
	}
}

// after follows an answer's operation, and reads the resource until it is settled.
func (c *caller) after(r azure.Reply, id arm.ID) arm.Document {
	c.follow(r)
	return c.ready(id)
}

// write puts a document until it is accepted, follows the operation, and reads the resource until
// it is settled.
func (c *caller) write(id arm.ID, body []byte) arm.Document {
	return c.after(c.accepted(id, body), id)
}

// ending is how an operation ended; Status is "" if there was none.
type ending struct {
	Status, Code string
	Again        bool // its error asks to try again
}

// operationOf returns the link to the operation that an answer begins, or "".
func operationOf(reply azure.Reply) string { return reply.Header.Get("Azure-AsyncOperation") }

// follow waits for the end of an answer's operation.
func (c *caller) follow(reply azure.Reply) ending {
	link, wait := operationOf(reply), reply.RetryAfter()
	for deadline := time.Now().Add(settleWithin); link != "" && c.err == nil; {
		c.pause(wait)
		poll := c.fetch(link)
		if c.err != nil {
			break
		}
		wait = poll.RetryAfter()
		status := gjson.GetBytes(poll.Body, "status").String()
		switch strings.ToLower(status) {
		case "succeeded":
			return ending{Status: status}
		case "failed", "canceled":
			fault := poll.OperationFault()
			return ending{Status: status, Code: fault.Code, Again: fault.Transient()}
		}
		if time.Now().After(deadline) {
			c.err = fmt.Errorf("an operation is still %s after %s", status, settleWithin)
		}
	}
	return ending{}
}

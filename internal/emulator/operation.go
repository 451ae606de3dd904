package emulator

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// operation is a long-running operation. It ends by the clock, never by being polled: some clients
// poll only the resource.
type operation struct {
	ends    time.Time
	failure *failure
	names   []string // under which it is followed
	result  []byte   // what a POST or DELETE answers at its Location in the end
}

// retryAfter is what a client is told to wait between polls: whole seconds, at least one.
func (k *kernel) retryAfter() int { return max(1, int(k.opts.OperationTime.Seconds()/4)) }

// operationTime is how long the operation that a call begins takes.
func (k *kernel) operationTime(c *call) time.Duration {
	if c.fault != nil && c.fault.Slow > 0 {
		return time.Duration(c.fault.Slow) * time.Second
	}
	return k.opts.OperationTime
}

// occupy makes a resource busy with the operation that a call begins.
func (k *kernel) occupy(c *call, r *resource, doing string) {
	r.busyUntil, r.doing, r.failed = time.Now().Add(k.operationTime(c)), doing, c.failing()
	if r.etag != "" {
		r.retag(r.busyUntil)
	}
	k.store.changed(r)
}

// failing is how the operation that a call begins ends, where a fault says so.
func (c *call) failing() *failure {
	if c.fault != nil && c.fault.Fail {
		return c.fault.failure()
	}
	return nil
}

// started adds to the answer of a PUT what a client needs to follow its operation.
func (k *kernel) started(c *call, r *resource, answer reply) reply {
	if !r.busyUntil.After(time.Now()) && r.failed == nil {
		if k.saysEnded(c, r, answer.status) {
			answer.header["Azure-AsyncOperation"] = k.follow(c, r.id, &operation{ends: time.Now()},
				"operations")
		}
		return answer
	}
	answer.header["Azure-AsyncOperation"] = k.follow(c, r.id,
		&operation{ends: r.busyUntil, failure: r.failed}, "operations")
	k.wait(c, answer.header)
	return answer
}

// accepted answers a DELETE or POST whose result, if any, is ready after the operation time.
func (k *kernel) accepted(c *call, result []byte) reply {
	took, failing := k.operationTime(c), c.failing()
	if took == 0 && failing == nil {
		if result != nil {
			return reply{status: http.StatusOK, body: result}
		}
		return reply{status: http.StatusOK}
	}
	return k.acceptedUntil(c, &operation{ends: time.Now().Add(took), result: result,
		failure: failing})
}

// acceptedUntil answers with where to follow an operation.
func (k *kernel) acceptedUntil(c *call, op *operation) reply {
	id := arm.ID("/" + strings.Join(c.path, "/"))
	header := map[string]string{"Location": k.follow(c, id, op, "operationResults")}
	if !c.locationOnly {
		header["Azure-AsyncOperation"] = k.follow(c, id, op, "operations")
	}
	k.wait(c, header)
	return reply{status: http.StatusAccepted, header: header}
}

// maxOperations is how many are remembered: the oldest that ended are forgotten.
const maxOperations = 10_000

// follow remembers an operation and returns the absolute URL at which it is followed.
func (k *kernel) follow(c *call, id arm.ID, op *operation, kind string) string {
	if len(k.operations) >= maxOperations {
		for name, old := range k.operations {
			if old.ends.Before(time.Now().Add(-time.Minute)) {
				delete(k.operations, name)
			}
		}
	}
	name := uuid.NewString()
	k.operations[name] = op
	op.names = append(op.names, name)
	k.keepOperation(op)
	namespace, _, _ := strings.Cut(id.Type(), "/")
	return c.base + "/subscriptions/" + id.Subscription() + "/providers/" + namespace +
		"/locations/local/" + kind + "/" + name + "?api-version=" + c.version
}

// keepOperation notes that an operation is not what is kept of it.
func (k *kernel) keepOperation(op *operation) {
	if k.disk != nil {
		k.unkeptOperations = append(k.unkeptOperations, op.names...)
	}
}

// operationCall answers a poll.
func (k *kernel) operationCall(c *call) (reply, *failure, bool) {
	n := len(c.path)
	if n != 8 || !strings.EqualFold(c.path[2], "providers") ||
		!strings.EqualFold(c.path[4], "locations") {
		return reply{}, nil, false
	}
	kind, name := strings.ToLower(c.path[6]), c.path[7]
	op := k.operations[name]
	if op == nil {
		return reply{}, fail(http.StatusNotFound, "OperationNotFound",
			"The operation '%s' was not found.", name), true
	}
	running := op.ends.After(time.Now())
	wait := map[string]string{"Retry-After": strconv.Itoa(k.retryAfter())}
	if kind == "operationresults" {
		switch {
		case running:
			wait["Location"] = c.base + "/" + strings.Join(c.path, "/") + "?api-version=" +
				c.version
			return reply{status: http.StatusAccepted, header: wait}, nil, true
		case op.failure != nil:
			return reply{}, op.failure, true
		case op.result != nil:
			return reply{status: http.StatusOK, body: op.result}, nil, true
		}
		return reply{status: http.StatusNoContent}, nil, true
	}
	doc := object{"name": name, "status": "Succeeded"}
	switch {
	case running:
		doc["status"] = "InProgress"
	case op.failure != nil:
		doc["status"] = "Failed"
		doc["error"] = op.failure.document()
	}
	answer := ok(doc)
	if running {
		answer.header = wait
	}
	return answer, nil, true
}

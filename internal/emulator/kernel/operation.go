package kernel

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Operation is a long-running operation. It ends by the clock, never by a poll: some clients poll
// only the resource.
type Operation struct {
	Ends    time.Time `json:"ends"`
	Failure *Failure  `json:"failure,omitempty"`
	names   []string  // by which it is followed
	Result  []byte    `json:"result,omitempty"` // of a POST or DELETE, at its Location
}

// RetryAfter returns the time a client should wait between polls: whole seconds, at least one.
func (k *Kernel) RetryAfter() int { return max(1, int(k.Opts.OperationTime.Seconds()/4)) }

// OperationTime returns the duration of the operation that a call starts.
func (k *Kernel) OperationTime(c *Call) time.Duration {
	if c.Fault != nil && c.Fault.Slow > 0 {
		return time.Duration(c.Fault.Slow) * time.Second
	}
	return k.Opts.OperationTime
}

// Occupy makes a resource busy with the operation that a call starts.
func (k *Kernel) Occupy(c *Call, r *Resource, doing string) {
	occupyUntil(k, c, r, doing, time.Now().Add(k.OperationTime(c)))
}

// endOfWrite returns the end of the operation that a PUT starts. An operation that is accepted
// during another one does not end before it.
func endOfWrite(k *Kernel, c *Call, old *Resource) time.Time {
	ends := time.Now().Add(k.OperationTime(c))
	if old != nil && old.BusyUntil.After(ends) {
		return old.BusyUntil
	}
	return ends
}

func occupyUntil(k *Kernel, c *Call, r *Resource, doing string, ends time.Time) {
	r.BusyUntil, r.Doing, r.Failed = ends, doing, c.Failing()
	if r.ETag != "" {
		r.Retag(r.BusyUntil)
	}
	k.Store.Changed(r)
}

// Failing returns the failure with which a fault ends the call's operation.
func (c *Call) Failing() *Failure {
	if c.Fault != nil && c.Fault.Fail {
		return c.Fault.Failure()
	}
	return nil
}

// Started adds the headers to a PUT's answer that a client needs to follow its operation.
func (k *Kernel) Started(c *Call, r *Resource, answer Reply) Reply {
	q, running := k.on(c), r.BusyUntil.After(time.Now()) || r.Failed != nil
	if running || q.saysEnded(r, answer.Status) {
		ends := r.BusyUntil
		if now := time.Now(); ends.Before(now) {
			ends = now // since then the operation is kept for a client that asks
		}
		answer.Set("Azure-AsyncOperation", q.follow(r.ID,
			&Operation{Ends: ends, Failure: r.Failed}, "operations"))
	}
	if running {
		q.wait(&answer)
	}
	return answer
}

// Accepted answers a DELETE or POST whose result, if any, is available after the operation time.
func (k *Kernel) Accepted(c *Call, result []byte) Reply {
	took, failing := k.OperationTime(c), c.Failing()
	if took == 0 && failing == nil {
		if result != nil {
			return Reply{Status: http.StatusOK, Body: result}
		}
		return Reply{Status: http.StatusOK}
	}
	return k.AcceptedUntil(c,
		&Operation{Ends: time.Now().Add(took), Result: result, Failure: failing})
}

// AcceptedUntil answers with the URL of an operation.
func (k *Kernel) AcceptedUntil(c *Call, op *Operation) Reply {
	id := c.ID(len(c.Path))
	answer := Reply{Status: http.StatusAccepted}
	answer.Set("Location", k.on(c).follow(id, op, "operationResults"))
	if !c.LocationOnly {
		answer.Set("Azure-AsyncOperation", k.on(c).follow(id, op, "operations"))
	}
	if op.Ends.After(time.Now()) {
		k.on(c).wait(&answer)
	}
	return answer
}

// maxOperations is how many are stored: the oldest ended ones are dropped.
const maxOperations = 10_000

// follow stores an operation and returns its absolute URL.
func (q request) follow(id arm.ID, op *Operation, kind string) string {
	if len(q.Operations) >= maxOperations {
		for name, old := range q.Operations {
			if old.Ends.Before(time.Now().Add(-time.Minute)) {
				delete(q.Operations, name)
			}
		}
	}
	name := uuid.NewString()
	q.Operations[name] = op
	op.names = append(op.names, name)
	q.KeepOperation(op)
	namespace, _, _ := strings.Cut(id.Type(), "/")
	return q.c.Base + "/subscriptions/" + id.Subscription() + "/providers/" + namespace +
		"/locations/local/" + kind + "/" + name + "?api-version=" + q.c.Version
}

// KeepOperation marks an operation as changed since it was saved.
func (k *Kernel) KeepOperation(op *Operation) {
	if k.Disk != nil {
		k.Disk.operations = append(k.Disk.operations, op.names...)
	}
}

// operation answers a poll.
func (q request) operation() (Reply, *Failure, bool) {
	n := len(q.c.Path)
	if n != 8 || !strings.EqualFold(q.c.Path[2], "providers") || !strings.EqualFold(q.c.Path[4],
		"locations") || !strings.HasPrefix(strings.ToLower(q.c.Path[6]), "operation") {
		return Reply{}, nil, false
	}
	kind, name := strings.ToLower(q.c.Path[6]), q.c.Path[7]
	op := q.Operations[name]
	if op == nil {
		return Reply{}, Fail(http.StatusNotFound, "OperationNotFound",
			"The operation '%s' was not found.", name), true
	}
	running := op.Ends.After(time.Now())
	wait := map[string]string{"Retry-After": strconv.Itoa(q.RetryAfter())}
	if kind == "operationresults" {
		switch {
		case running:
			wait["Location"] = q.c.Base + "/" + strings.Join(q.c.Path, "/") + "?api-version=" +
				q.c.Version
			return Reply{Status: http.StatusAccepted, Header: wait}, nil, true
		case op.Failure != nil:
			return Reply{}, op.Failure, true
		case op.Result != nil:
			return Reply{Status: http.StatusOK, Body: op.Result}, nil, true
		}
		return Reply{Status: http.StatusNoContent}, nil, true
	}
	doc := Object{"name": name, "status": "Succeeded"}
	switch {
	case running:
		doc["status"] = "InProgress"
	case op.Failure != nil:
		doc["status"] = "Failed"
		doc["error"] = op.Failure.Document()
	}
	answer := OK(doc)
	if running {
		answer.Header = wait
	}
	return answer, nil, true
}

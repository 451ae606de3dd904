package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// savedResource is a resource as it is kept.
type savedResource struct {
	ID        arm.ID        `json:"id"`
	Body      object        `json:"body"`
	ETag      string        `json:"etag,omitempty"`
	Settled   string        `json:"settled,omitempty"`
	Settles   time.Time     `json:"settles,omitzero"`
	AsOf      time.Time     `json:"asOf,omitzero"`
	Fresh     bool          `json:"fresh,omitempty"`
	BusyUntil time.Time     `json:"busyUntil,omitzero"`
	Doing     string        `json:"doing,omitempty"`
	Failed    *savedFailure `json:"failed,omitempty"`
	Deleting  bool          `json:"deleting,omitempty"`
	Created   time.Time     `json:"created,omitzero"`
	Changed   time.Time     `json:"changed,omitzero"`
	// Extra is what its type keeps in addition to its document.
	Extra json.RawMessage `json:"inUse,omitempty"`
}

func (k *kernel) saveResource(r *resource) savedResource {
	s := savedResource{ID: r.id, Body: r.body, ETag: r.etag, Settled: r.settled, Settles: r.settles,
		AsOf: r.asOf, Fresh: r.fresh, BusyUntil: r.busyUntil, Doing: r.doing, Failed: saveFailure(
			r.failed), Deleting: r.deleting, Created: r.created, Changed: r.changed}
	if extra := k.kindOf(r.id).extra; extra != nil {
		s.Extra = extra(r)
	}
	return s
}

func (k *kernel) restoreResource(s savedResource) error {
	r := &resource{id: s.ID, body: s.Body, etag: s.ETag, settled: s.Settled, settles: s.Settles,
		asOf: s.AsOf, fresh: s.Fresh, busyUntil: s.BusyUntil, doing: s.Doing,
		failed: s.Failed.failure(), deleting: s.Deleting, created: s.Created, changed: s.Changed}
	k.store.put(r)
	if restored := k.kindOf(r.id).restored; restored != nil {
		return restored(r, s.Extra)
	}
	return nil
}

// savedActivity is a record of the activity log as it is kept.
type savedActivity struct {
	ID            string        `json:"id"`
	OperationID   string        `json:"operationID"`
	CorrelationID string        `json:"correlationID"`
	At            time.Time     `json:"at"`
	Resource      arm.ID        `json:"resource"`
	Operation     string        `json:"operation"`
	Event         string        `json:"event"`
	Status        string        `json:"status"`
	SubStatus     string        `json:"subStatus,omitempty"`
	Ends          time.Time     `json:"ends,omitzero"`
	Failure       *savedFailure `json:"failure,omitempty"`
	Who           Principal     `json:"who"`
	Body          []byte        `json:"body,omitempty"`
}

func saveActivity(r activityRecord) savedActivity {
	return savedActivity{
		ID: r.id, OperationID: r.operationID, CorrelationID: r.correlationID, At: r.at,
		Resource: r.resource, Operation: r.operation,
		Event: r.event, Status: r.status, SubStatus: r.subStatus, Ends: r.ends,
		Failure: saveFailure(r.failure), Who: r.who, Body: r.body,
	}
}

func (k *kernel) restoreActivity(s savedActivity) activityRecord {
	return activityRecord{
		kind: k.kindName(s.Resource), id: s.ID, operationID: s.OperationID,
		correlationID: s.CorrelationID, at: s.At,
		resource: s.Resource, operation: s.Operation,
		event: s.Event, status: s.Status, subStatus: s.SubStatus, ends: s.Ends,
		failure: s.Failure.failure(), who: s.Who, body: s.Body,
	}
}

// savedOperation is a long-running operation as it is kept.
type savedOperation struct {
	Name    string        `json:"name"`
	Ends    time.Time     `json:"ends"`
	Result  []byte        `json:"result,omitempty"`
	Failure *savedFailure `json:"failure,omitempty"`
}

// savedFailure is an error answer as it is kept.
type savedFailure struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []any  `json:"details,omitempty"`
}

func saveFailure(f *failure) *savedFailure {
	if f == nil {
		return nil
	}
	return &savedFailure{f.status, f.code, f.message, f.details}
}

func (s *savedFailure) failure() *failure {
	if s == nil {
		return nil
	}
	return &failure{status: s.Status, code: s.Code, message: s.Message, details: s.Details}
}

func saveOperation(name string, op *operation) savedOperation {
	return savedOperation{Name: name, Ends: op.ends, Result: op.result,
		Failure: saveFailure(op.failure)}
}

func (k *kernel) restoreOperation(s savedOperation) error {
	k.operations[s.Name] = &operation{ends: s.Ends, result: s.Result, failure: s.Failure.failure()}
	return nil
}

// savedServer is where it listened and as whom, so that clients find it again.
type savedServer struct {
	HTTPS string `json:"https,omitempty"`
	HTTP  string `json:"http,omitempty"`
	CA    []byte `json:"ca,omitempty"`    // certificate, DER
	CAKey []byte `json:"caKey,omitempty"` // SEC 1, DER
}

// thing is something that is kept in one piece.
type thing struct {
	name    string
	save    func() any
	restore func(read func(into any) error) error
}

// changedThings are the things kept in one piece that differ from what was last written.
func (k *kernel) changedThings() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, thing := range k.things {
		raw, err := json.Marshal(thing.save())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", thing.name, err)
		}
		if !bytes.Equal(raw, k.disk.wrote[thing.name]) {
			out[thing.name] = raw
		}
	}
	return out, nil
}

func (k *kernel) restoreThings(read func(name string, into any) error) error {
	for _, thing := range k.things {
		err := thing.restore(func(into any) error { return read(thing.name, into) })
		if err != nil {
			return fmt.Errorf("%s: %w", thing.name, err)
		}
	}
	return nil
}

// resumer is how a service goes on, after a restart, with what was under way: before operations in
// the activity log end, and after. ends takes over an operation, whose end the service notes.
type resumer struct {
	first, last func()
	ends        func(activityRecord) bool
}

// resume goes on with what was under way.
func (k *kernel) resume() {
	under := map[string]activityRecord{}
	for _, r := range k.activity {
		if delete(under, r.operationID); r.status == activityAccepted {
			under[r.operationID] = r
		}
	}
	for _, s := range k.services {
		if s.resume.first != nil {
			s.resume.first()
		}
	}
	for _, id := range slices.Sorted(maps.Keys(under)) {
		if !slices.ContainsFunc(k.services, func(s service) bool {
			return s.resume.ends != nil && s.resume.ends(under[id])
		}) {
			k.at(under[id].ends, func() { k.note(under[id].ended(nil)) })
		}
	}
	for _, s := range k.services {
		if s.resume.last != nil {
			s.resume.last()
		}
	}
}

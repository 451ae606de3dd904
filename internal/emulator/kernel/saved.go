package kernel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// savedResource is the saved form of a resource.
type savedResource struct {
	ID        arm.ID        `json:"id"`
	Body      Object        `json:"body"`
	ETag      string        `json:"etag,omitempty"`
	Settled   string        `json:"settled,omitempty"`
	Settles   time.Time     `json:"settles,omitzero"`
	AsOf      time.Time     `json:"asOf,omitzero"`
	Fresh     bool          `json:"fresh,omitempty"`
	BusyUntil time.Time     `json:"busyUntil,omitzero"`
	Doing     string        `json:"doing,omitempty"`
	Failed    *SavedFailure `json:"failed,omitempty"`
	Deleting  bool          `json:"deleting,omitempty"`
	Created   time.Time     `json:"created,omitzero"`
	Changed   time.Time     `json:"changed,omitzero"`
	// Extra is state that its type saves besides its document.
	Extra json.RawMessage `json:"inUse,omitempty"`
}

func (d *disk) saveResource(r *Resource) savedResource {
	s := savedResource{ID: r.ID, Body: r.Body, ETag: r.ETag, Settled: r.settled, Settles: r.settles,
		AsOf: r.AsOf, Fresh: r.Fresh, BusyUntil: r.BusyUntil, Doing: r.Doing, Failed: SaveFailure(
			r.Failed), Deleting: r.Deleting, Created: r.Created, Changed: r.Changed}
	if extra := d.KindOf(r.ID).Extra; extra != nil {
		s.Extra = extra(r)
	}
	return s
}

func (d *disk) restoreResource(s savedResource) error {
	r := &Resource{ID: s.ID, Body: s.Body, ETag: s.ETag, settled: s.Settled, settles: s.Settles,
		AsOf: s.AsOf, Fresh: s.Fresh, BusyUntil: s.BusyUntil, Doing: s.Doing,
		Failed: s.Failed.Failure(), Deleting: s.Deleting, Created: s.Created, Changed: s.Changed}
	d.Store.Put(r)
	if restored := d.KindOf(r.ID).Restored; restored != nil {
		return restored(r, s.Extra)
	}
	return nil
}

// savedActivity is the saved form of a record of the activity log.
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
	Failure       *SavedFailure `json:"failure,omitempty"`
	Who           Principal     `json:"who"`
	Body          []byte        `json:"body,omitempty"`
}

func saveActivity(r ActivityRecord) savedActivity {
	return savedActivity{
		ID: r.ID, OperationID: r.OperationID, CorrelationID: r.CorrelationID, At: r.At,
		Resource: r.Resource, Operation: r.Operation,
		Event: r.Event, Status: r.Status, SubStatus: r.SubStatus, Ends: r.ends,
		Failure: SaveFailure(r.Failure), Who: r.Who, Body: r.Body,
	}
}

func (d *disk) restoreActivity(s savedActivity) ActivityRecord {
	return ActivityRecord{
		Kind: d.KindName(s.Resource), ID: s.ID, OperationID: s.OperationID,
		CorrelationID: s.CorrelationID, At: s.At,
		Resource: s.Resource, Operation: s.Operation,
		Event: s.Event, Status: s.Status, SubStatus: s.SubStatus, ends: s.Ends,
		Failure: s.Failure.Failure(), Who: s.Who, Body: s.Body,
	}
}

// savedOperation is the saved form of a long-running operation.
type savedOperation struct {
	Name    string        `json:"name"`
	Ends    time.Time     `json:"ends"`
	Result  []byte        `json:"result,omitempty"`
	Failure *SavedFailure `json:"failure,omitempty"`
}

// SavedFailure is the saved form of an error answer.
type SavedFailure struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Details []any  `json:"details,omitempty"`
}

func SaveFailure(f *Failure) *SavedFailure {
	if f == nil {
		return nil
	}
	return &SavedFailure{f.Status, f.Code, f.Message, f.Details}
}

func (s *SavedFailure) Failure() *Failure {
	if s == nil {
		return nil
	}
	return &Failure{Status: s.Status, Code: s.Code, Message: s.Message, Details: s.Details}
}

func saveOperation(name string, op *Operation) savedOperation {
	return savedOperation{Name: name, Ends: op.Ends, Result: op.result,
		Failure: SaveFailure(op.Failure)}
}

func (d *disk) restoreOperation(s savedOperation) error {
	d.Operations[s.Name] = &Operation{Ends: s.Ends, result: s.Result, Failure: s.Failure.Failure()}
	return nil
}

// address is where a server listens, and its certificate authority, so that clients find it again.
type address struct {
	HTTPS string `json:"https,omitempty"`
	HTTP  string `json:"http,omitempty"`
	CA    []byte `json:"ca,omitempty"`    // certificate, DER
	CAKey []byte `json:"caKey,omitempty"` // SEC 1, DER
}

// Thing is state that is saved as a whole.
type Thing struct {
	Name    string
	Save    func() any
	Restore func(read func(into any) error) error
}

// changedThings returns the things that differ from what was last written.
func (d *disk) changedThings() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, thing := range d.things {
		raw, err := json.Marshal(thing.Save())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", thing.Name, err)
		}
		if !bytes.Equal(raw, d.wrote[thing.Name]) {
			out[thing.Name] = raw
		}
	}
	return out, nil
}

func (d *disk) restoreThings(read func(name string, into any) error) error {
	for _, thing := range d.things {
		err := thing.Restore(func(into any) error { return read(thing.Name, into) })
		if err != nil {
			return fmt.Errorf("%s: %w", thing.Name, err)
		}
	}
	return nil
}

// Resumer continues a service's work after a restart: before operations in the activity log end,
// and after. Ends reports whether the service itself ends an operation.
type Resumer struct {
	First, Last func()
	Ends        func(ActivityRecord) bool
}

// resume continues running operations.
func (d *disk) resume() {
	under := map[string]ActivityRecord{}
	for _, r := range d.Activity {
		if delete(under, r.OperationID); r.Status == ActivityAccepted {
			under[r.OperationID] = r
		}
	}
	for _, s := range d.services {
		if s.Resume.First != nil {
			s.Resume.First()
		}
	}
	for _, id := range slices.Sorted(maps.Keys(under)) {
		if !slices.ContainsFunc(d.services, func(s Service) bool {
			return s.Resume.Ends != nil && s.Resume.Ends(under[id])
		}) {
			d.At(under[id].ends, func() { d.Note(under[id].Ended(nil)) })
		}
	}
	for _, s := range d.services {
		if s.Resume.Last != nil {
			s.Resume.Last()
		}
	}
}

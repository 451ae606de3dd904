package kernel

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// ActivityRecord is one entry of the activity log. A write makes two, at its start and at its end,
// and a long-running write a third in between, when it is accepted.
type ActivityRecord struct {
	ID            string    `json:"id"`
	OperationID   string    `json:"operationID"`
	CorrelationID string    `json:"correlationID"`
	At            time.Time `json:"at"`
	Resource      arm.ID    `json:"resource"`
	Kind          string    `json:"-"`         // its type in Azure's case
	Operation     string    `json:"operation"` // Microsoft.Network/routeTables/write
	Event         string    `json:"event"`     // EndRequest
	Status        string    `json:"status"`    // Failed
	SubStatus     string    `json:"subStatus,omitempty"`
	Ends          time.Time `json:"ends,omitzero"` // of the operation
	Failure       *Failure  `json:"failure,omitempty"`
	Who           Principal `json:"who"`
	Body          []byte    `json:"body,omitempty"`
}

// The statuses of records.
const (
	activityStarted   = "Started"
	ActivityAccepted  = "Accepted"
	ActivitySucceeded = "Succeeded"
	activityFailed    = "Failed"
)

// maxActivity is how many records are stored.
const maxActivity = 50_000

// Record logs a write in the activity log under its caller's name.
func (k *Kernel) Record(c *Call, id arm.ID, verb string, f *Failure) {
	r := k.RecordStart(c, id, verb)
	if f != nil {
		k.Note(r.Ended(f))
		return
	}
	r.SubStatus, r.Ends = "OK", k.on(c).runsUntil(id, verb)
	if have := k.Store.Get(id); verb == "write" && have != nil && have.Created.Equal(have.Changed) {
		r.SubStatus = "Created"
	}
	failing := c.Failing()
	if !r.Ends.After(time.Now()) && failing == nil {
		r.Status = ActivitySucceeded
		k.Note(r)
		return
	}
	if verb != "write" {
		r.SubStatus = "Accepted"
	}
	r.Status = ActivityAccepted
	k.Note(r)
	k.At(r.Ends, func() { k.Note(r.Ended(failing)) })
}

// RecordOperation logs an operation whose result is known only at its end.
func (k *Kernel) RecordOperation(c *Call, id arm.ID, verb string, op *Operation) {
	r := k.RecordStart(c, id, verb)
	r.Status, r.SubStatus, r.Ends = ActivityAccepted, "Accepted", op.Ends
	k.Note(r)
	k.At(r.Ends, func() { k.Note(r.Ended(op.Failure)) })
}

// RecordStart logs the start of a write and returns the incomplete record of its end.
func (k *Kernel) RecordStart(c *Call, id arm.ID, verb string) ActivityRecord {
	r := ActivityRecord{OperationID: uuid.NewString(), CorrelationID: c.IDs[1], Resource: id,
		Kind: k.KindName(id), Operation: k.OperationOn(id) + "/" + verb, Who: c.Who}
	r.Event, r.Status, r.Body = "BeginRequest", activityStarted, c.Body
	k.Note(r)
	r.Event, r.Body = "EndRequest", nil
	return r
}

// Ended returns the record of an operation's end.
func (r ActivityRecord) Ended(f *Failure) ActivityRecord {
	r.Status, r.SubStatus = ActivitySucceeded, ""
	if f != nil {
		r.Status, r.SubStatus, r.Failure = activityFailed, StatusName(f.Status), f
	}
	return r
}

// Note adds a record to the log.
func (k *Kernel) Note(r ActivityRecord) {
	r.ID, r.At = uuid.NewString(), time.Now()
	if len(k.Activity) >= maxActivity {
		k.Activity = append([]ActivityRecord(nil), k.Activity[maxActivity/2:]...)
	}
	k.Activity = append(k.Activity, r)
	if k.Disk != nil {
		k.Disk.unkept = append(k.Disk.unkept, r)
	}
	for _, s := range k.services {
		if s.Listen != nil {
			s.Listen(r)
		}
	}
	if k.Opts.Wrote != nil && r.Event == "EndRequest" {
		k.Opts.Wrote(r.Resource)
	}
}

// runsUntil returns the end of the operation that a write has started.
func (q request) runsUntil(id arm.ID, verb string) time.Time {
	if verb != "write" {
		return time.Now().Add(q.OperationTime(q.c))
	}
	for ; id != ""; id = id.Parent() { // a part of a document is written with the whole document
		if r := q.Store.Get(id); r != nil {
			return r.BusyUntil
		}
	}
	return time.Time{}
}

// OperationOn returns the prefix of the operations on a resource: its type, except for resource
// groups.
func (k *kinds) OperationOn(id arm.ID) string {
	if id.Is(arm.TypeResourceGroup) {
		return "Microsoft.Resources/subscriptions/resourceGroups"
	}
	return k.KindName(id)
}

// StatusName returns an HTTP status as the log's SubStatus names it: BadRequest.
func StatusName(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

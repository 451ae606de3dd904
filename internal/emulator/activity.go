package emulator

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// activityRecord is one entry of the activity log. A write makes two, one when it starts and one
// when it ends, and where it takes time one more in between, when it is accepted.
type activityRecord struct {
	id, operationID, correlationID string
	at                             time.Time
	resource                       arm.ID
	kind                           string // its type in Azure's case
	operation                      string // Microsoft.Network/routeTables/write
	event, status, subStatus       string // EndRequest, Failed, BadRequest
	who                            Principal
	body                           []byte
	failure                        *failure
	ends                           time.Time // of the operation
}

// The statuses of records.
const (
	activityStarted   = "Started"
	activityAccepted  = "Accepted"
	activitySucceeded = "Succeeded"
	activityFailed    = "Failed"
)

// maxActivity is how many records are kept.
const maxActivity = 50_000

// record notes a write in the activity log under the name of its caller.
func (k *kernel) record(c *call, id arm.ID, verb string, f *failure) {
	r := k.recordStart(c, id, verb)
	if f != nil {
		k.note(r.ended(f))
		return
	}
	r.subStatus, r.ends = "OK", k.runsUntil(c, id, verb)
	if have := k.store.get(id); verb == "write" && have != nil && have.created.Equal(have.changed) {
		r.subStatus = "Created"
	}
	failing := c.failing()
	if !r.ends.After(time.Now()) && failing == nil {
		r.status = activitySucceeded
		k.note(r)
		return
	}
	if verb != "write" {
		r.subStatus = "Accepted"
	}
	r.status = activityAccepted
	k.note(r)
	k.at(r.ends, func() { k.note(r.ended(failing)) })
}

// recordOperation notes an operation of which only its end says how it ends.
func (k *kernel) recordOperation(c *call, id arm.ID, verb string, op *operation) {
	r := k.recordStart(c, id, verb)
	r.status, r.subStatus, r.ends = activityAccepted, "Accepted", op.ends
	k.note(r)
	k.at(r.ends, func() { k.note(r.ended(op.failure)) })
}

// recordStart notes the beginning of a write and returns what is to be completed to the record of
// its end.
func (k *kernel) recordStart(c *call, id arm.ID, verb string) activityRecord {
	r := activityRecord{operationID: uuid.NewString(), correlationID: c.ids[1], resource: id,
		kind: k.kindName(id), operation: k.operationOn(id) + "/" + verb, who: c.who}
	r.event, r.status, r.body = "BeginRequest", activityStarted, c.body
	k.note(r)
	r.event, r.body = "EndRequest", nil
	return r
}

// ended is the record of the end of what has begun.
func (r activityRecord) ended(f *failure) activityRecord {
	r.status, r.subStatus = activitySucceeded, ""
	if f != nil {
		r.status, r.subStatus, r.failure = activityFailed, statusName(f.status), f
	}
	return r
}

// note puts a record into the log.
func (k *kernel) note(r activityRecord) {
	r.id, r.at = uuid.NewString(), time.Now()
	if len(k.activity) >= maxActivity {
		k.activity = append([]activityRecord(nil), k.activity[maxActivity/2:]...)
	}
	k.activity = append(k.activity, r)
	if k.disk != nil {
		k.unkept = append(k.unkept, r)
	}
	for _, s := range k.services {
		if s.listen != nil {
			s.listen(r)
		}
	}
}

// runsUntil is when the operation ends that a write has started.
func (k *kernel) runsUntil(c *call, id arm.ID, verb string) time.Time {
	if verb != "write" {
		return time.Now().Add(k.operationTime(c))
	}
	for ; id != ""; id = id.Parent() { // a part of a document is written with the whole
		if r := k.store.get(id); r != nil {
			return r.busyUntil
		}
	}
	return time.Time{}
}

// operationOn is what the operations on a resource begin with: its type, save for resource groups.
func (k *kernel) operationOn(id arm.ID) string {
	if id.Is(arm.TypeResourceGroup) {
		return "Microsoft.Resources/subscriptions/resourceGroups"
	}
	return k.kindName(id)
}

// statusName is an HTTP status as the log's subStatus names it: BadRequest.
func statusName(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

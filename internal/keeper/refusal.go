package keeper

import (
	"errors"
	"net/http"
	"reflect"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// refusal is a write that Azure refused for a lasting reason: a missing permission, a lock, a
// policy.
//
// How it works. The write is not sent at every check. It is sent again
//
//   - for a subnet: always after a minute. While it is refused, the association is lost, and pods
//     are unreachable.
//   - for a route table: after 1, 2, 4 … 15 minutes.
//   - for both: at once if the cause may be gone, because the resource has another ETag, other
//     changes are planned, or lift was called. The waits then start over.
//
// A 404 is not a refusal: the next plan finds out whether the resource exists. A 412 is not one
// either: other writers kept changing the resource.
type refusal struct {
	outcomes []plan.Outcome
	findings []finding.Finding
	etag     string // of the resource when it was refused
	wait     time.Duration
	until    time.Time
	lifted   time.Time // by an event
}

const (
	refusedFirst = time.Minute
	refusedMost  = 15 * time.Minute
)

// repeat returns the refusal in place of a write that is not sent again yet: Azure would refuse the
// same changes to the same resource with the same ETag. It returns false if the write must be sent.
func (r *refusal) repeat(
	planned []plan.Change, etag string,
) ([]plan.Outcome, []finding.Finding, bool) {
	if r == nil {
		return nil, nil, false
	}
	same := etag == r.etag && len(planned) == len(r.outcomes)
	for i := 0; same && i < len(planned); i++ {
		same = reflect.DeepEqual(planned[i], r.outcomes[i].Change)
	}
	if !same {
		r.lift()
	}
	if !time.Now().Before(r.until) {
		return nil, nil, false
	}
	return r.outcomes, r.findings, true
}

// lift lets the write be sent again at the next opportunity. It is called when something may have
// ended the refusal, such as an event about the resource, a lock or a role assignment.
func (r *refusal) lift() {
	if r != nil {
		r.wait, r.until = 0, time.Time{}
	}
}

// liftEvery is the shortest time between two lifts by events.
const liftEvery = 10 * time.Second

// heard lifts a refusal because of an event about its group.
func (r *refusal) heard() {
	if now := time.Now(); r != nil && now.Sub(r.lifted) >= liftEvery {
		r.lift()
		r.lifted = now
	}
}

// next returns the refusal after one more attempt, or nil if Azure did not refuse. now is the
// resource as last read.
func (r *refusal) next(
	err error, outcomes []plan.Outcome, findings []finding.Finding, now arm.Document,
) *refusal {
	var fault *azure.Error
	if !errors.As(err, &fault) || fault.Transient() || fault.Status == http.StatusNotFound ||
		fault.Status == http.StatusPreconditionFailed {
		return nil
	}
	if len(findings) == 0 {
		return nil // the write was made nevertheless
	}
	wait := refusedFirst
	if r != nil && r.wait > 0 && !outcomes[0].Change.Resource.Is(arm.TypeSubnet) {
		wait = min(2*r.wait, refusedMost)
	}
	next := &refusal{outcomes: outcomes, findings: findings, etag: now.ETag, wait: wait,
		until: time.Now().Add(wait)}
	if r != nil {
		next.lifted = r.lifted
	}
	return next
}

// etagOf returns the ETag of a resource as read, or "".
func etagOf(seen *inventory.Snapshot, id arm.ID) string {
	if subnet := seen.Subnet(id); subnet != nil {
		return subnet.ETag
	}
	if table := seen.Table(id); table != nil {
		return table.ETag
	}
	return ""
}

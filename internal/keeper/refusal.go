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

// refusal is a write that Azure refused for a reason that does not pass by itself: a missing right,
// a lock, a policy.
//
// How it works. The write is not sent every round. It is sent again
//
//   - of a subnet: after a minute, always. While it is refused, the association is lost, and pods
//     are not reached.
//   - of a route table: after 1, 2, 4 … 15 minutes.
//   - of both: at once when its cause may be gone, because the resource has another ETag, other
//     changes are planned, or lift was called; the waits begin again then.
//
// What Azure does not find is not refused: the next plan finds out whether it is there. Nor is what
// others kept writing meanwhile (412).
type refusal struct {
	outcomes []plan.Outcome
	findings []finding.Finding
	etag     string // the resource's when it was refused
	wait     time.Duration
	until    time.Time
	lifted   time.Time // by an event
}

const (
	refusedFirst = time.Minute
	refusedMost  = 15 * time.Minute
)

// stand answers for a write that is not sent again yet: the same changes of the same resource,
// whose ETag is given, would be refused for the same reason.
func (r *refusal) stand(
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

// lift has the write sent again at the next opportunity: something happened that may have ended the
// refusal, such as an event of the resource, of a lock or of a role assignment.
func (r *refusal) lift() {
	if r != nil {
		r.wait, r.until = 0, time.Time{}
	}
}

// liftEvery is how often events may have a refused write sent again.
const liftEvery = 10 * time.Second

// heard lifts a refusal because something happened to the resources of its group.
func (r *refusal) heard() {
	if now := time.Now(); r != nil && now.Sub(r.lifted) >= liftEvery {
		r.lift()
		r.lifted = now
	}
}

// next is the refusal after one more attempt, or nil where Azure did not refuse. now is the
// resource as it was read last.
func (r *refusal) next(
	err error, outcomes []plan.Outcome, findings []finding.Finding, now arm.Document,
) *refusal {
	var fault *azure.Error
	if !errors.As(err, &fault) || fault.Transient() || fault.Status == http.StatusNotFound ||
		fault.Status == http.StatusPreconditionFailed {
		return nil
	}
	if len(findings) == 0 {
		return nil // it was made all the same
	}
	wait := refusedFirst
	if r != nil && r.wait > 0 && !outcomes[0].Change.Resource.Is(arm.TypeSubnet) {
		wait = min(2*r.wait, refusedMost)
	}
	next := &refusal{outcomes: outcomes, findings: findings, etag: now.ETag, wait: wait, until: time.Now().Add(wait)}
	if r != nil {
		next.lifted = r.lifted
	}
	return next
}

// etagOf is the ETag with which a resource was seen, "" where it was not.
func etagOf(seen *inventory.Snapshot, id arm.ID) string {
	if subnet := seen.Subnet(id); subnet != nil {
		return subnet.ETag
	}
	if table := seen.Table(id); table != nil {
		return table.ETag
	}
	return ""
}

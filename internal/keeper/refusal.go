package keeper

import (
	"errors"
	"reflect"
	"time"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
)

// refusal is a write that Azure refused for a reason that does not pass by itself. It is not sent every round, but after a
// while, and then after ever longer ones: the reason may be mended meanwhile.
type refusal struct {
	outcomes []plan.Outcome
	findings []finding.Finding
	wait     time.Duration
	until    time.Time
}

const (
	refusedFirst = time.Minute
	refusedMost  = 15 * time.Minute
)

// stand answers for a write that is not sent again yet: the same changes would be refused for the same reason.
func (r *refusal) stand(planned []plan.Change) ([]plan.Outcome, []finding.Finding, bool) {
	if r == nil || time.Now().After(r.until) || len(planned) != len(r.outcomes) {
		return nil, nil, false
	}
	for i, c := range planned {
		if !reflect.DeepEqual(c, r.outcomes[i].Change) {
			return nil, nil, false
		}
	}
	return r.outcomes, r.findings, true
}

// next is the refusal after one more attempt, or nil where the error passes by itself.
func (r *refusal) next(err error, outcomes []plan.Outcome, findings []finding.Finding) *refusal {
	var fault *azure.Error
	if !errors.As(err, &fault) || fault.Transient() || len(findings) == 0 {
		return nil
	}
	wait := refusedFirst
	if r != nil {
		wait = min(2*r.wait, refusedMost)
	}
	return &refusal{outcomes, findings, wait, time.Now().Add(wait)}
}

package apply

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// inPlaceAfter returns a function that reports whether a change is in place in a resource after a
// write. Without a sent document it reports false for every change.
func (r *Resource) inPlaceAfter(written azure.Written) func(plan.Change) bool {
	doc := written.After
	if written.Sent != nil && doc.ID.Is(arm.TypeSubnet) {
		if subnet, err := inventory.DecodeSubnet(doc.Raw); err == nil && !subnet.Failed {
			return func(c plan.Change) bool { return c.SeenInSubnet(subnet) }
		}
	} else if written.Sent != nil {
		if table, err := r.Decode(doc); err == nil && !table.Failed {
			return plan.SeenIn(table)
		}
	}
	return func(plan.Change) bool { return false }
}

// sent returns the changes in documents that may have taken effect. If Azure refused every document
// with a change that is in place now, another writer made it.
func (r *Resource) sent(written azure.Written) map[plan.ChangeKey]bool {
	var changes []plan.Change
	for _, d := range r.drafts {
		same := func(body []byte) bool { return bytes.Equal(body, d.body) }
		if slices.ContainsFunc(written.All, same) {
			changes = append(changes, d.changes...)
		}
	}
	return keysOf(changes)
}

// failed returns the outcomes and findings of a failed write.
func (r *Resource) failed(
	ctx context.Context, written azure.Written, err error,
) ([]plan.Outcome, []finding.Finding) {
	state, text := plan.Failed, err.Error()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		state, text = plan.Skipped, ""
	}
	outcomes := make([]plan.Outcome, len(r.Planned))
	seen, sent := r.inPlaceAfter(written), r.sent(written)
	var missed []plan.Change
	for i, change := range r.Planned {
		outcomes[i] = plan.Outcome{Change: change, State: state, Error: text}
		switch {
		case !seen(change):
			outcomes[i].Undone = errors.Is(err, azure.ErrUndone) && sent[change.Key()]
			missed = append(missed, change)
		case sent[change.Key()]: // it is in place anyway
			outcomes[i] = plan.Outcome{Change: change, State: plan.Done, Ended: ended(plan.Done)}
		default: // by another writer
			outcomes[i] = plan.Outcome{Change: change, State: plan.Obsolete}
		}
	}
	if state == plan.Skipped || len(missed) == 0 {
		return outcomes, nil
	}
	id, cluster := r.Planned[0].Resource, r.Planned[0].Cluster
	harm, about := plan.Harm(missed), ""
	if id.Is(arm.TypeSubnet) && len(missed) == 1 {
		about = missed[0].Key().Route // what the subnet lacks
	}
	var fault *azure.Error
	if errors.As(err, &fault) && fault.Refused() {
		return outcomes, []finding.Finding{refused(id, cluster, harm, fault).About(about)}
	}
	code, fix := finding.WriteFailed, finding.CommandLine{}
	if errors.Is(err, azure.ErrUndone) {
		code = finding.WriteUndone
		fix = finding.Command("az monitor activity-log list --resource-id %s", id)
	}
	f := finding.New(code, cluster, string(id), "%s; the write failed: %v", harm, err)
	return outcomes, []finding.Finding{f.WithFix("%s", fix).About(about)}
}

// dropped compares what was read back with what was sent.
func dropped(id arm.ID, written azure.Written, planned []plan.Change) []finding.Finding {
	if written.Sent == nil {
		return nil
	}
	lost, err := arm.Lost(written.Sent, written.After.Raw)
	if err != nil || len(lost) == 0 {
		return nil // this document was decoded before
	}
	return []finding.Finding{finding.New(finding.WriteDropped, planned[0].Cluster, string(id),
		"%s was written, but read back differently in %d fields", id.Short(), len(lost)).With(
		lost...)}
}

// ended returns the Outcome.Ended of a change whose state is known now: now if the change is done,
// otherwise zero.
func ended(state plan.OutcomeState) time.Time {
	if state == plan.Done {
		return time.Now()
	}
	return time.Time{}
}

func keysOf(changes []plan.Change) map[plan.ChangeKey]bool {
	keys := make(map[plan.ChangeKey]bool, len(changes))
	for _, c := range changes {
		keys[c.Key()] = true
	}
	return keys
}

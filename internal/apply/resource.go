// Package apply writes one resource: it reads the resource, plans again on the fresh document,
// edits it, sends it, and reports how the resource reads afterwards.
//
// It must not decide which resources are written, or when: that is the caller's job. It leaves all
// parts of the document that are not planned unchanged, byte for byte.
package apply

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// How it works. The Writer loops: GET, edit, PUT, and starts over if another writer was faster
// (412) or no answer arrived. Each time it plans again on the current document, so that it undoes
// nothing that happened since. A change is done once it was sent and is visible. The package does
// not ask whether Azure's network follows: no document says that Network Watcher answers for
// instances of scale sets, which AKS nodes are.

// Writer writes a resource: it reads it, sends the document that edit returns, and reads it again.
type Writer interface {
	Write(ctx context.Context, id arm.ID, edit azure.Edit, calls *azure.Calls) (azure.Written,
		error)
}

// Replan plans again for one resource that was read again. Late is called before a late write of a
// table, and reads the plan's sources again.
type Replan struct {
	Table  func(*inventory.RouteTable) plan.Plan
	Subnet func(*inventory.Subnet) plan.Plan
	Late   func(ctx context.Context, table arm.ID) (Replan, error)
}

// Only plans again, for chosen changes alone.
func (r Replan) Only(chosen func(plan.Change) bool) Replan {
	return Replan{
		func(table *inventory.RouteTable) plan.Plan {
			return r.Table(table).Only(chosen, func(arm.ID) *inventory.RouteTable { return table })
		},
		func(subnet *inventory.Subnet) plan.Plan { return r.Subnet(subnet).Only(chosen, nil) },
		func(ctx context.Context, table arm.ID) (Replan, error) {
			again, err := r.Late(ctx, table)
			return again.Only(chosen), err
		},
	}
}

// Resource is one resource to write.
type Resource struct {
	ID      arm.ID
	Planned []plan.Change
	Replan  Replan
	// Seen is when the plan's sources were read.
	Seen time.Time
	// Refuse says why a change of a subnet must not be made, or returns nil.
	Refuse func(context.Context, plan.Change, *inventory.Subnet) *finding.Finding
	// Allow removes from a plan the changes that must not be written now. The table is nil for a
	// subnet.
	Allow func(context.Context, plan.Plan, *inventory.RouteTable) plan.Plan
	// Intend receives the changes in the next document before it is sent.
	Intend func([]plan.Change)
	Log    *slog.Logger

	findings []finding.Finding       // why it was not written
	withheld map[plan.ChangeKey]bool // by Allow, in the last plan
	made     []plan.Change           // all changes in drafts, each as in the last draft
	drafts   []draft
	read     *inventory.RouteTable // as last read
}

// Result is the result of a write.
type Result struct {
	Outcomes []plan.Outcome
	Findings []finding.Finding
	// After is the resource as last read.
	After arm.Document
	// Err is why it was not written.
	Err error
}

// draft is a document to send, and its changes.
type draft struct {
	body    []byte
	changes []plan.Change
}

// Write changes the resource. If Azure refuses several changes of a subnet together, each is sent
// alone: one that cannot be made must not hold back the others.
func (r *Resource) Write(ctx context.Context, w Writer, calls *azure.Calls) Result {
	result := r.write(ctx, w, calls)
	if !r.ID.Is(arm.TypeSubnet) || len(r.drafts) == 0 ||
		len(r.drafts[len(r.drafts)-1].changes) < 2 || !mayRefusePart(result.Err) {
		return result
	}
	all := Result{After: result.After}
	for _, change := range r.Planned {
		one := Resource{ID: r.ID, Planned: []plan.Change{change}, Seen: r.Seen, Refuse: r.Refuse,
			Allow: r.Allow, Intend: r.Intend, Log: r.Log,
			Replan: r.Replan.Only(func(c plan.Change) bool { return c.Key() == change.Key() })}
		made := one.write(ctx, w, calls)
		all.Outcomes = append(all.Outcomes, made.Outcomes...)
		all.Findings = append(all.Findings, made.Findings...)
		if made.After.Raw != nil {
			all.After = made.After
		}
		all.Err = cmp.Or(all.Err, made.Err)
	}
	return all
}

// mayRefusePart reports whether Azure may refuse a write because of a part of it: not if a login, a
// right or a lock forbids to write the subnet at all, and not if the same write may soon succeed.
func mayRefusePart(err error) bool {
	fault, is := errors.AsType[*azure.Error](err)
	return is && fault.Status >= http.StatusBadRequest && !fault.Transient() &&
		fault.Status != http.StatusUnauthorized && fault.Status != http.StatusPreconditionFailed &&
		fault.Code != "AuthorizationFailed" && fault.Code != "ScopeLocked"
}

// write changes the resource in one write.
func (r *Resource) write(ctx context.Context, w Writer, calls *azure.Calls) Result {
	r.Log.Debug("writing", "resource", r.ID.Short())
	edit := func(doc arm.Document) ([]byte, error) { return r.edit(ctx, doc) }
	written, err := w.Write(ctx, r.ID, edit, calls)
	result := Result{After: written.After, Err: err}
	if err != nil {
		result.Outcomes, result.Findings = r.failed(ctx, written, err)
		return result
	}
	seen, sent := r.inPlaceAfter(written), r.sent(written)
	for _, change := range r.made {
		state := plan.Obsolete // it was sent and refused, and is no longer needed
		if seen(change) && sent[change.Key()] {
			state = plan.Done
			r.Log.Info("changed", change.Attrs()...)
		} else if r.withheld[change.Key()] {
			state = plan.Planned
		}
		outcome := plan.Outcome{Change: change, State: state, Ended: ended(state)}
		result.Outcomes = append(result.Outcomes, outcome)
	}
	made := keysOf(r.made)
	for _, change := range r.Planned {
		if state := plan.Obsolete; !made[change.Key()] {
			if r.withheld[change.Key()] {
				state = plan.Planned
			}
			result.Outcomes = append(result.Outcomes, plan.Outcome{Change: change, State: state})
		}
	}
	result.Findings = append(r.findings, dropped(r.ID, written, r.Planned)...)
	return result
}

// believed is the greatest age of a plan's sources when a table is written. A slow check or a wait
// for other writes can make them older.
const believed = 30 * time.Second

// edit returns the document that carries out the plan, or nil.
func (r *Resource) edit(ctx context.Context, doc arm.Document) ([]byte, error) {
	if doc.ID.Is(arm.TypeSubnet) {
		return r.editSubnet(ctx, doc)
	}
	table, err := r.Decode(doc)
	if err != nil {
		return nil, err
	}
	if now := time.Now(); now.Sub(r.Seen) > believed {
		if r.Replan, err = r.Replan.Late(context.WithoutCancel(ctx), table.ID); err != nil {
			return nil, err
		}
		r.Seen = now
	}
	p := r.allowed(ctx, r.Replan.Table(table), table)
	if len(p.Changes) == 0 {
		return nil, nil
	}
	r.note(p.Changes)
	body, err := inventory.SetRoutes(doc.Raw, p.Desired.Table(table.ID).Routes)
	return r.addDraft(p.Changes, body, err)
}

func (r *Resource) editSubnet(ctx context.Context, doc arm.Document) ([]byte, error) {
	subnet, err := inventory.DecodeSubnet(doc.Raw)
	if err != nil {
		return nil, err
	}
	p := r.allowed(ctx, r.Replan.Subnet(subnet), nil)
	r.findings = nil
	if len(p.Changes) == 0 {
		return nil, nil
	}
	refused := map[plan.ChangeKey]bool{}
	for _, change := range p.Changes {
		if why := r.Refuse(ctx, change, subnet); why != nil {
			r.findings = append(r.findings, *why)
			refused[change.Key()] = true
		}
	}
	if len(refused) > 0 {
		p = p.Only(func(c plan.Change) bool { return !refused[c.Key()] }, nil)
	}
	if len(p.Changes) == 0 {
		return nil, nil
	}
	r.note(p.Changes)
	body, err := inventory.SetProperties(doc.Raw, p.Desired.Properties(subnet.ID))
	return r.addDraft(p.Changes, body, err)
}

// allowed removes from a plan the changes that must not be written now, and notes them.
func (r *Resource) allowed(ctx context.Context, p plan.Plan,
	table *inventory.RouteTable) plan.Plan {
	r.withheld = keysOf(p.Changes)
	p = r.Allow(ctx, p, table)
	for _, change := range p.Changes {
		delete(r.withheld, change.Key())
	}
	return p
}

// note records what the next document changes.
func (r *Resource) note(changes []plan.Change) {
	now := keysOf(changes)
	r.made = slices.DeleteFunc(r.made, func(c plan.Change) bool { return now[c.Key()] })
	r.made = append(r.made, changes...)
	r.Intend(changes)
}

// addDraft records a document and its changes.
func (r *Resource) addDraft(changes []plan.Change, body []byte, err error) ([]byte, error) {
	r.drafts = append(r.drafts, draft{body, changes})
	return body, err
}

// Decode decodes the table, or returns the last one if the document is the same.
func (r *Resource) Decode(doc arm.Document) (*inventory.RouteTable, error) {
	if r.read != nil && bytes.Equal(r.read.Raw, doc.Raw) {
		return r.read, nil
	}
	table, err := inventory.DecodeRouteTable(doc.Raw)
	if err == nil {
		r.read = table
	}
	return table, err
}

package notify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// Kind is what an event is about.
type Kind string

// The kinds of events, in the order in which a message lists them.
const (
	Broken    Kind = "broken"   // the state of a cluster
	Bypassed  Kind = "bypassed" // likewise
	Error     Kind = "error"
	Conflict  Kind = "conflict"
	Decision  Kind = "decision"
	Changed   Kind = "changed" // a state or a finding that was sent has other words now
	Repaired  Kind = "repaired"
	Recovered Kind = "recovered" // a cluster is no longer broken or bypassed
	Resolved  Kind = "resolved"
	Test      Kind = "test"
)

var kinds = []Kind{Broken, Bypassed, Error, Conflict, Decision, Changed, Repaired, Recovered,
	Resolved, Test}

// Event is one piece of news.
type Event struct {
	Kind     Kind      `json:"kind"`
	At       time.Time `json:"at"`
	Code     string    `json:"code,omitempty"`
	Severity string    `json:"severity,omitempty"`
	Cluster  string    `json:"cluster,omitempty"`
	// State is the state of the cluster, and Since its beginning. Both are only set if the event is
	// about that state.
	State    verdict.State `json:"state,omitempty"`
	Since    time.Time     `json:"since,omitzero"`
	Resource string        `json:"resource,omitempty"`
	Text     string        `json:"text"`
	Fix      string        `json:"fix,omitempty"` // the command to run next

	ofNetwork bool // it is about a network without clusters

	key  string // of the finding or the cluster
	news v1alpha1.News
	was  told // what people heard before this event
}

// kindOf says what kind of news a finding is, and whether it is news at all.
func kindOf(f finding.Finding) (Kind, v1alpha1.News, bool) {
	switch {
	case f.Code == finding.NotifyFailed: // the same destination would receive it
		return "", "", false
	case f.Code == finding.Conflict || f.Code == finding.WriteUndone:
		return Conflict, v1alpha1.NewsConflicts, true
	case finding.Decides(f.Code):
		return Decision, v1alpha1.NewsDecisions, true
	case f.Severity == finding.Error:
		return Error, v1alpha1.NewsErrors, true
	}
	return "", "", false
}

// ends reports whether the event says that something is over.
func (e Event) ends() bool { return e.Kind == Resolved || e.Kind == Recovered }

// told is what people last heard about a cluster or a finding. Zero means nothing, or that it is
// over.
type told struct {
	state verdict.State // of a cluster
	text  string
	cause verdict.Cause // of the state, or the finding itself
}

// failures are the findings that say why a repair is not made.
var failures = []finding.Code{finding.WriteRefused, finding.WriteFailed}

// explained reports whether the event about a finding's cluster covers the finding. It does not
// cover a failed repair, unless the event names it as the cause.
func (n *Notifier) explained(f finding.Finding) bool {
	t := n.states[f.Cluster]
	return t.state.Harmed() && verdict.Explains(f) && (!slices.Contains(failures, f.Code) ||
		t.cause.Code == f.Code && t.cause.Resource == f.Resource)
}

// addsNothing reports whether the event adds nothing to what people heard before.
func (e Event) addsNothing() bool {
	if e.ends() {
		return e.was == told{}
	}
	if e.was.state != e.State || e.was.cause.Resource != e.Resource ||
		e.was.cause.Code != finding.Code(e.Code) {
		return false
	}
	return e.was.text == e.Text || e.State == "" && finding.Quotes(e.was.cause.Code)
}

func toldOf(v verdict.Verdict) told {
	t := told{state: v.State, text: v.Sentence}
	if v.Cause != nil {
		t.cause = *v.Cause
	}
	return t
}

// Known takes verdicts and findings that an earlier run has reported.
func (n *Notifier) Known(verdicts []verdict.Verdict, findings []finding.Finding) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range verdicts {
		if v = v.LastKnown(); v.State.Harmed() {
			n.states[v.Cluster] = toldOf(v)
		}
	}
	for _, f := range findings {
		if _, _, is := kindOf(f); is && f.Silenced == nil {
			n.told[f.Key()] = f
		}
	}
}

// Check puts the news of a check into the queues: broken clusters that are no longer managed, the
// states of the clusters that it checked, all current findings, and the changes.
func (n *Notifier) Check(at time.Time, managed []string, verdicts []verdict.Verdict,
	findings []finding.Finding, changes []plan.Outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var events []Event
	for _, name := range slices.Sorted(maps.Keys(n.states)) {
		if was := n.states[name]; !slices.Contains(managed, name) {
			delete(n.states, name)
			events = append(events, Event{Kind: Resolved, At: at, Cluster: name,
				Text: fmt.Sprintf("it is no longer managed; it was %s: %s", was.state, was.text),
				key:  stateKey(name), news: v1alpha1.NewsErrors, was: was})
		}
	}
	for _, v := range verdicts {
		if !slices.Contains(managed, v.Cluster) { // since the check began
			continue
		}
		if v.Seen() != nil {
			n.networks[v.Cluster] = v.Clusterless()
		}
		if e, is := n.stateLocked(at, v, findings); is {
			events = append(events, e)
		}
	}
	changed := finding.News(n.told, findings)
	for _, f := range slices.Concat(changed.Appeared, changed.Worse) {
		kind, news, is := kindOf(f)
		if kind == Error && n.explained(f) {
			continue
		}
		if is && f.Silenced == nil {
			events = append(events, about(kind, news, at, f, n.told[f.Key()]))
			n.told[f.Key()] = f
		}
	}
	for _, f := range changed.Reworded {
		if _, news, is := kindOf(f); is && f.Silenced == nil {
			events = append(events, about(Changed, news, at, f, n.told[f.Key()]))
			n.told[f.Key()] = f
		}
	}
	for _, f := range changed.Unrepaired { // the failed repair's own finding is sent instead
		delete(n.told, f.Key())
	}
	for _, f := range changed.Gone { // does not contain what an outage hides
		delete(n.told, f.Key())
		_, news, _ := kindOf(f)
		events = append(events, about(Resolved, news, at, f, f))
	}
	events = append(events, repairs(at, changes)...)
	for i := range events {
		events[i].ofNetwork = n.networks[events[i].Cluster]
	}
	n.queueLocked(events)
}

func stateKey(cluster string) string { return "state " + cluster }

// stateLocked returns the event about the state of a cluster, if it is news. A state that is
// unknown or silenced is no news.
func (n *Notifier) stateLocked(at time.Time, v verdict.Verdict,
	findings []finding.Finding) (e Event, news bool) {
	was := n.states[v.Cluster]
	e = Event{At: at, Cluster: v.Cluster, State: v.State, Since: v.Since, Text: v.Sentence,
		key: stateKey(v.Cluster), news: v1alpha1.NewsErrors, was: was}
	switch {
	case v.State == verdict.Unknown || v.Silenced:
		return e, false
	case !v.State.Harmed():
		delete(n.states, v.Cluster)
		e.Kind = Recovered
		return e, was.state != ""
	case v.State != was.state:
		e.Kind = Kind(v.State)
	case v.Sentence != was.text:
		e.Kind = Changed
	default:
		return e, false
	}
	n.states[v.Cluster] = toldOf(v)
	if c := v.Cause; c != nil {
		e.Code, e.Resource = string(c.Code), c.Resource
		i := slices.IndexFunc(findings, func(f finding.Finding) bool {
			return f.Cluster == v.Cluster && f.Code == c.Code && f.Resource == c.Resource
		})
		if i >= 0 {
			e.Severity, e.Fix = findings[i].Severity.String(), findings[i].Fix
		}
	}
	return e, true
}

// repairs returns events about what was restored: one for each subnet, and one for all routes of a
// cluster in a table. A new node's routes restore nothing.
func repairs(at time.Time, changes []plan.Outcome) (events []Event) {
	type routes struct{ cluster, table string }
	restored := map[routes]int{}
	for _, c := range changes {
		of := routes{c.Cluster, string(c.Resource)}
		switch {
		case c.State != plan.Done:
		case c.Verb == plan.Associate:
			property, value := c.New.Associated()
			events = append(events, Event{Kind: Repaired, At: at, Cluster: c.Cluster,
				Resource: string(c.Resource), news: v1alpha1.NewsRepairs,
				Text: fmt.Sprintf("%s has its %s %s again", c.Resource.Short(),
					property.Name(), value.Short())})
		case c.Repair:
			if restored[of]++; restored[of] == 1 {
				events = append(events, Event{Kind: Repaired, At: at, Cluster: c.Cluster,
					Resource: string(c.Resource), news: v1alpha1.NewsRepairs})
			}
		}
	}
	for i, e := range events {
		switch n := restored[routes{e.Cluster, e.Resource}]; {
		case e.Text != "":
		case n == 1:
			events[i].Text = arm.ID(e.Resource).Short() + " has 1 route again that was lost or " +
				"changed"
		default:
			events[i].Text = fmt.Sprintf("%s has %d routes again that were lost or changed",
				arm.ID(e.Resource).Short(), n)
		}
	}
	return events
}

func about(kind Kind, news v1alpha1.News, at time.Time, f, was finding.Finding) Event {
	e := Event{Kind: kind, At: at, Code: string(f.Code), Severity: f.Severity.String(),
		Cluster: f.Cluster, Resource: f.Resource, Text: f.Message, key: f.Key(), news: news,
		was: told{text: was.Message, cause: verdict.Cause{Code: was.Code, Resource: was.Resource}}}
	if kind != Resolved {
		e.Fix = f.Fix
	}
	return e
}

// queue adds events to the queues of the destinations that want them.
func (n *Notifier) queueLocked(events []Event) {
	for _, p := range n.places {
		added := false
		counts := n.counts[p.config.Name]
		for _, e := range events {
			if len(p.config.Send) > 0 && !slices.Contains(p.config.Send, e.news) {
				continue
			}
			added = true
			if p.add(e) {
				counts.Dropped++
			}
		}
		if !added {
			continue
		}
		n.counts[p.config.Name] = counts
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// byKind groups events by kind and code, in the order of the kinds.
func byKind(events []Event) [][]Event {
	type group struct {
		kind Kind
		code string
	}
	groups := map[group][]Event{}
	for _, e := range events {
		g := group{e.Kind, e.Code}
		groups[g] = append(groups[g], e)
	}
	order := slices.SortedFunc(maps.Keys(groups), func(a, b group) int {
		return cmp.Or(slices.Index(kinds, a.kind)-slices.Index(kinds, b.kind),
			cmp.Compare(a.code, b.code))
	})
	out := make([][]Event, len(order))
	for i, g := range order {
		out[i] = groups[g]
	}
	return out
}

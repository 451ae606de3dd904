package keeper

import (
	"fmt"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Recorder stores what checks did. Its own failures must not stop a check, or delay one for long.
// Several goroutines use it at once.
type Recorder interface {
	// Intend receives changes to a resource before they are sent, again if a write starts over.
	Intend(Result, []plan.Change)
	// Settle receives the outcomes of changes.
	Settle([]plan.Outcome)
	// Record receives every check when it ends, with what the check read before it wrote anything.
	// It returns findings about the recording itself.
	Record(Result, *inventory.Snapshot) []finding.Finding
}

// Cause is what triggered a check.
type Cause struct {
	// By is one of the values below.
	By string `json:"by"`
	// Caller is the sender of an event, or "" if unknown.
	Caller string `json:"caller,omitempty"`
	// Event is the first event that triggered the check; nil for other causes.
	Event *Event `json:"event,omitempty"`
}

// Event is the part of an event that is kept. The other fields have claims, mail addresses and
// network addresses of people.
type Event struct {
	Received time.Time `json:"received"`
	// Format is the schema of the event, such as "Event Grid".
	Format string `json:"format,omitempty"`
	// Caller is who changed the resources, or "" if unknown.
	Caller string `json:"caller,omitempty"`
	// Operation, Status and At are the activity log's description of the change.
	Operation   string    `json:"operation,omitempty"`
	Status      string    `json:"status,omitempty"`
	At          time.Time `json:"at,omitzero"`
	Correlation string    `json:"correlation,omitempty"`
	Resources   []arm.ID  `json:"resources,omitempty"`
}

// Causes of a check: the interval has passed, a person asked for it, or an event arrived.
const (
	ByPoll   = "poll"
	ByPerson = "person"
	ByEvent  = "event"
)

// Observation is how a resource read before a check changed or reported it.
type Observation struct {
	Resource arm.ID `json:"resource"`
	Read     string `json:"read"`
}

// noRecorder records nothing.
type noRecorder struct{}

func (noRecorder) Intend(Result, []plan.Change)                         {}
func (noRecorder) Settle([]plan.Outcome)                                {}
func (noRecorder) Record(Result, *inventory.Snapshot) []finding.Finding { return nil }

// record passes a check to the recorder, except for a dry run.
func (c *check) record(result *Result) {
	if c.k.opts.DryRun {
		return
	}
	result.Observed = observed(*result, c.s.Snapshot, c.sources)
	if found := c.k.opts.Recorder.Record(*result, c.s.Snapshot); len(found) > 0 {
		result.Findings = finding.Sort(slices.Concat(result.Findings, found))
	}
}

// observed returns how every resource that a check changed or reported read, with the source
// tables.
func observed(result Result, s *inventory.Snapshot,
	sources func(target arm.ID) []arm.ID) []Observation {
	var ids []arm.ID
	for _, c := range result.Changes {
		ids = append(ids, c.Resource)
		if c.Verb == plan.Associate {
			_, value := c.New.Associated()
			ids = append(ids, value)
		} else {
			ids = append(ids, sources(c.Resource)...)
		}
	}
	for _, f := range result.Findings {
		ids = append(ids, arm.ID(f.Resource))
	}
	var all []Observation
	for _, id := range inventory.SortIDs(ids) {
		if text := reading(s, id); text != "" {
			all = append(all, Observation{id, text})
		}
	}
	return all
}

// reading says how a resource read, or "" if it was not read.
func reading(s *inventory.Snapshot, id arm.ID) string {
	if u, failed := s.Unread[id.Key()]; failed {
		return "not read: " + u.Reason()
	}
	if table := s.Table(id); table != nil {
		return fmt.Sprintf("routes: %d", len(table.Routes()))
	}
	if subnet := s.Subnet(id); subnet != nil {
		if subnet.RouteTable == "" {
			return "no route table"
		}
		return "route table " + subnet.RouteTable.Short()
	}
	return ""
}

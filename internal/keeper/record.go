package keeper

import (
	"fmt"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Recorder keeps what rounds did. Its own trouble is its own: it stops no round, and holds none up for long. It is used by
// several goroutines at once.
type Recorder interface {
	// Intend is told of changes to a resource before they are sent; again where a write starts over.
	Intend(Round, []plan.Change)
	// Settle is told what became of changes.
	Settle([]plan.Outcome)
	// Record is told of every round at its end, with what was seen before anything was written. What it returns is wrong with
	// the record itself.
	Record(Round, *inventory.Snapshot) []finding.Finding
}

// Cause is what made a round.
type Cause struct {
	// By is one of the words below.
	By string `json:"by"`
	// Caller is who sent an event, "" where it does not say.
	Caller string `json:"caller,omitempty"`
}

// What makes a round: the interval is over, somebody typed a command, or an event came in.
const (
	ByPoll   = "poll"
	ByPerson = "person"
	ByEvent  = "event"
)

// Observation is how a resource that a round changed, or found something about, read before.
type Observation struct {
	Resource arm.ID `json:"resource"`
	Read     string `json:"read"`
}

// noRecorder records nothing.
type noRecorder struct{}

func (noRecorder) Intend(Round, []plan.Change)                         {}
func (noRecorder) Settle([]plan.Outcome)                               {}
func (noRecorder) Record(Round, *inventory.Snapshot) []finding.Finding { return nil }

// record hands a check to the recorder. A dry run is none of its business, but what a person had it change is.
func (c *check) record(round *Round) {
	if c.k.opts.DryRun && (c.request == nil || len(c.request.Verbs) == 0) {
		return
	}
	round.Observed = observed(*round, c.s.Snapshot, c.sources)
	if found := c.k.opts.Recorder.Record(*round, c.s.Snapshot); len(found) > 0 {
		round.Findings = finding.Sort(slices.Concat(round.Findings, found))
	}
}

// observed says how everything read that a round changed or found something about, with the tables it came from.
func observed(round Round, s *inventory.Snapshot, sources func(target arm.ID) []arm.ID) []Observation {
	var ids []arm.ID
	for _, c := range round.Changes {
		ids = append(ids, c.Resource)
		if c.Verb == plan.Associate {
			ids = append(ids, c.New.RouteTable)
		} else {
			ids = append(ids, sources(c.Resource)...)
		}
	}
	for _, f := range round.Findings {
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

// reading says how a resource read, "" where it was not looked at.
func reading(s *inventory.Snapshot, id arm.ID) string {
	if u, failed := s.Unread[id.Key()]; failed {
		return "not read: " + u.Reason()
	}
	if table := s.Table(id); table != nil {
		return fmt.Sprintf("routes: %d", len(table.Routes))
	}
	if subnet := s.Subnet(id); subnet != nil {
		if subnet.RouteTable == "" {
			return "no route table"
		}
		return "route table " + subnet.RouteTable.Short()
	}
	return ""
}

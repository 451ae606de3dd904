package page

import (
	"cmp"
	"slices"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// worstFirst sorts clusters by the state that the page shows, the worst first. It sorts those with
// the same state by their verdicts.
func worstFirst(clusters []Cluster) []Cluster {
	sorted := slices.Clone(clusters)
	rank := func(c Cluster) int { return -slices.Index(states, c.State) }
	slices.SortStableFunc(sorted, func(a, b Cluster) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), verdict.Compare(a.Verdict, b.Verdict),
			cmp.Compare(b.Nodes, a.Nodes))
	})
	return sorted
}

// because has the findings under a cluster in a list: the first ones, and how many more there are.
type because struct {
	Top  []finding.Finding
	More int
}

// mostBecause is how many findings a cluster in a list shows.
const mostBecause = 2

// Because returns the errors and warnings of a cluster, or nil. The cause of its state comes first.
func (c Cluster) Because() *because {
	found := slices.DeleteFunc(slices.Clone(c.Findings), func(f finding.Finding) bool {
		return f.Silenced != nil || f.Severity == finding.Info
	})
	if len(found) == 0 {
		return nil
	}
	causes := func(f finding.Finding) int {
		if cause := c.Verdict.Cause; cause != nil && f.Code == cause.Code &&
			f.Message == cause.Message {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(found, func(a, b finding.Finding) int {
		return cmp.Or(causes(b)-causes(a), cmp.Compare(b.Severity, a.Severity))
	})
	top := min(mostBecause, len(found))
	return &because{found[:top], len(found) - top}
}

// Counts counts clusters by state.
type Counts struct {
	Broken int `json:"broken"` // bad
	AtRisk int `json:"atRisk"` // noted
	Unseen int `json:"unseen"` // not everything could be read
	Busy   int `json:"busy"`   // changes are under way
	InSync int `json:"inSync"` // good
}

func (n *Counts) add(state string) {
	switch state {
	case Bad:
		n.Broken++
	case Noted:
		n.AtRisk++
	case Unseen:
		n.Unseen++
	case Busy:
		n.Busy++
	default:
		n.InSync++
	}
}

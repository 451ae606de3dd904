package page

import (
	"cmp"
	"slices"

	"routekeeper.dev/routekeeper/internal/verdict"
)

// worstFirst sorts clusters as the page marks them, the worst first, and then by their verdicts.
func worstFirst(clusters []Cluster) []Cluster {
	sorted := slices.Clone(clusters)
	rank := func(c Cluster) int { return -slices.Index(states, c.State) }
	slices.SortStableFunc(sorted, func(a, b Cluster) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), verdict.Compare(a.Verdict, b.Verdict),
			cmp.Compare(b.Nodes, a.Nodes))
	})
	return sorted
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

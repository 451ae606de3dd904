package page

import (
	"cmp"
	"slices"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/picture"
)

// harm says what is wrong with a cluster, the worst last. What breaks traffic now is worse than
// what is only out of date, however many routes it concerns.
type harm int

const (
	harmNone      harm = iota
	harmNote           // a warning
	harmStale          // targets have routes that the cluster no longer has
	harmShadow         // an unmanaged route hides pod routes in a target
	harmUnread         // not everything could be read
	harmError          // another error
	harmTarget         // targets lack pod routes, or have wrong ones
	harmSubnet         // another guarded subnet has no route table, or the wrong one
	harmNoRoutes       // nodes have no route in the cluster's route table
	harmNodesLost      // a node subnet has no route table, or the wrong one
)

// broken reports whether traffic is broken.
func (h harm) broken() bool { return h >= harmError }

// worstHarm is the worst of what is wrong with a cluster.
func (c Cluster) worstHarm() harm {
	worst := harmNone
	is := func(wrong bool, h harm) {
		if wrong {
			worst = max(worst, h)
		}
	}
	for _, f := range c.Findings {
		if f.Silenced != nil {
			continue
		}
		is(f.Severity == finding.Warning, harmNote)
		if f.Code == finding.ReadFailed || f.Code == finding.AzureUnreachable {
			is(f.Severity > finding.Info, harmUnread)
			continue
		}
		if f.Code == finding.TableUnknown && !complete(c.Cluster) { // because it was not read
			continue
		}
		is(f.Severity == finding.Error, harmError)
		is(f.Code == finding.UnmanagedShadow, harmShadow)
		is(f.Code == finding.NodeWithoutRoute, harmNoRoutes)
	}
	n := c.loud().counts()
	is(len(c.idle()) > 0, harmNote)
	is(n[picture.Stale] > 0, harmStale)
	is(c.Checked.IsZero() || !complete(c.Cluster) || c.Routes.Unknown > 0 || c.tableUnknown(),
		harmUnread)
	if c.awaySilenced() { // the routes of a table that is not on its subnet
		n[picture.Idle] = 0
	}
	is(n[picture.Missing]+n[picture.Wrong]+n[picture.Idle] > 0, harmTarget)
	is(c.unrouted() && !c.Stopped, harmNoRoutes)
	quiet := finding.Quiet(c.Findings)
	for _, s := range c.Subnets {
		if quiet[s.ID.Key()] {
			continue
		}
		lost := s.State == picture.Lost || s.State == picture.Other
		is(lost, harmSubnet)
		is(lost && s.Role == picture.RoleNodes, harmNodesLost)
	}
	return worst
}

// awaySilenced reports whether a person silenced that a subnet has no route table, or the wrong
// one.
func (c Cluster) awaySilenced() bool {
	return slices.ContainsFunc(c.Findings, func(f finding.Finding) bool {
		return f.Silenced != nil &&
			(f.Code == finding.AssociationLost || f.Code == finding.AssociationOther)
	})
}

// loud is the cluster without the route tables whose findings a person silenced.
func (c Cluster) loud() Cluster {
	if quiet := finding.Quiet(c.Findings); len(quiet) > 0 {
		c.Tables = slices.DeleteFunc(slices.Clone(c.Tables), func(t picture.Table) bool {
			return quiet[t.ID.Key()]
		})
	}
	return c
}

// counts counts the routes in all tables by state.
func (c Cluster) counts() map[string]int {
	n := map[string]int{}
	for _, t := range c.Tables {
		for _, r := range t.Routes {
			n[r.State]++
		}
	}
	return n
}

// state is the state of a cluster with that harm.
func (h harm) state() string {
	switch {
	case h.broken():
		return Bad
	case h == harmUnread:
		return Unseen
	case h > harmNone:
		return Noted
	}
	return Good
}

// worstFinding is the finding that explains a state best, or nil: the first one of the highest
// severity. An info explains nothing.
func (c Cluster) worstFinding() *finding.Finding {
	var worst *finding.Finding
	for i, f := range c.Findings {
		if f.Silenced != nil {
			continue
		}
		if f.Severity == finding.Error || f.Severity == finding.Warning && worst == nil {
			if worst = &c.Findings[i]; f.Severity == finding.Error {
				break
			}
		}
	}
	return worst
}

// worstFirst sorts clusters by harm, the worst first, and then by the number of nodes concerned.
func worstFirst(clusters []Cluster) []Cluster {
	sorted := slices.Clone(clusters)
	slices.SortStableFunc(sorted, func(a, b Cluster) int {
		if a.harm == harmNone && b.harm == harmNone {
			return cmp.Compare(slices.Index(states, b.State), slices.Index(states, a.State))
		}
		return cmp.Or(cmp.Compare(b.harm, a.harm), cmp.Compare(b.Nodes, a.Nodes))
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

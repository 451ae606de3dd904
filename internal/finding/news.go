package finding

import (
	"maps"
	"slices"
)

// blind are the codes that keep other parts of their cluster from being checked.
var blind = []Code{ReadFailed, AzureUnreachable, ClusterMissing, ClusterNotKubenet, ClusterPodCIDR,
	TableUnknown, TableMissing}

// ByKey indexes findings for News.
func ByKey(findings []Finding) map[string]Finding {
	known := map[string]Finding{}
	for _, f := range findings {
		known[f.Key()] = f
	}
	return known
}

// Changed is how findings differ from the previous ones.
type Changed struct {
	// Appeared are new. Worse and Milder were there with another severity.
	Appeared, Worse, Milder []Finding
	// Gone are resolved. Hidden are not: a new finding keeps them from being checked.
	Gone, Hidden []Finding
}

// None reports whether nothing has changed.
func (c Changed) None() bool {
	return len(c.Appeared)+len(c.Worse)+len(c.Milder)+len(c.Gone)+len(c.Hidden) == 0
}

// News compares findings with the previous ones.
func News(known map[string]Finding, now []Finding) (c Changed) {
	still, unseen := ByKey(now), map[string]bool{}
	outage := false // any cluster may be unchecked
	for _, f := range now {
		if slices.Contains(blind, f.Code) {
			unseen[f.Cluster] = true
		}
		outage = outage || f.Code == AzureUnreachable && f.Cluster == ""
		switch before, old := known[f.Key()]; {
		case !old:
			c.Appeared = append(c.Appeared, f)
		case f.Severity > before.Severity:
			c.Worse = append(c.Worse, f)
		case f.Severity < before.Severity:
			c.Milder = append(c.Milder, f)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		f := known[key]
		switch _, there := still[key]; {
		case there:
		case (outage || unseen[f.Cluster]) && !slices.Contains(blind, f.Code):
			c.Hidden = append(c.Hidden, f)
		default:
			c.Gone = append(c.Gone, f)
		}
	}
	return c
}

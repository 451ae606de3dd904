package finding

import (
	"maps"
	"slices"
	"strings"
)

// blind has the codes that prevent other checks of their cluster.
var blind = []Code{ReadFailed, AzureUnreachable, ClusterMissing, ClusterNotKubenet, ClusterPodCIDR,
	TableUnknown, TableMissing}

// unrepaired has the codes of repairs that failed, or that are not made.
var unrepaired = []Code{WriteRefused, WriteFailed, WriteUndone, Conflict, ChangesWithheld,
	UpdatesWithheld, DeletesWithheld, ChangesLimited}

// repairable has the codes of findings that a repair ends.
var repairable = []Code{AssociationLost, AssociationOther, TargetDrift}

// quoting has the codes whose messages quote an error or count what an outage hides. Their words
// can change at every check, and that is no news.
var quoting = []Code{AzureUnreachable, ReadFailed, WriteFailed, NotifyFailed}

// Quotes reports whether the words of a code's findings can change at every check.
func Quotes(code Code) bool { return slices.Contains(quoting, code) }

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
	// Appeared are new. Worse and Milder had another severity before, Reworded another message.
	Appeared, Worse, Milder, Reworded []Finding
	// Gone are resolved. Hidden are not resolved: a new finding prevents the check for them.
	// Unrepaired are not resolved either: a finding that their resource could not be repaired
	// replaces them.
	Gone, Hidden, Unrepaired []Finding
	// Quotes is set if only the quoted error, or a count, has changed. That is not news.
	Quotes bool
}

// None reports whether nothing has changed.
func (c Changed) None() bool {
	return len(c.Appeared)+len(c.Worse)+len(c.Milder)+len(c.Reworded)+len(c.Gone)+len(c.Hidden)+
		len(c.Unrepaired) == 0
}

// News compares findings with the previous ones.
func News(known map[string]Finding, now []Finding) (c Changed) {
	still, unseen := ByKey(now), map[string]bool{}
	failed, unread := map[string]bool{}, map[string]bool{} // resources; those of a cluster
	outage, silent := false, map[string]bool{}             // any cluster may be unchecked, or these
	readOf := func(f Finding) string { return f.Cluster + " " + strings.ToLower(f.Resource) }
	for _, f := range now {
		if slices.Contains(blind, f.Code) {
			unseen[f.Cluster] = true
		}
		unread[readOf(f)] = unread[readOf(f)] || f.Code == ReadFailed
		silent[f.Cluster] = silent[f.Cluster] || f.Code == AzureUnreachable
		if slices.Contains(unrepaired, f.Code) && f.Resource != "" {
			failed[strings.ToLower(f.Resource)] = true
		}
		outage = outage || f.IsOutage()
		switch before, old := known[f.Key()]; {
		case !old:
			c.Appeared = append(c.Appeared, f)
		case f.Severity > before.Severity:
			c.Worse = append(c.Worse, f)
		case f.Severity < before.Severity:
			c.Milder = append(c.Milder, f)
		case f.Message == before.Message:
		case Quotes(f.Code):
			c.Quotes = true
		default:
			c.Reworded = append(c.Reworded, f)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		f := known[key]
		switch _, there := still[key]; {
		case there:
		case (outage || silent[f.Cluster]) && f.Code != AzureUnreachable,
			unseen[f.Cluster] && !slices.Contains(blind, f.Code),
			unread[readOf(f)] && f.Code != ReadFailed && f.Code != AzureUnreachable:
			c.Hidden = append(c.Hidden, f)
		case failed[strings.ToLower(f.Resource)] && slices.Contains(repairable, f.Code):
			c.Unrepaired = append(c.Unrepaired, f)
		default:
			c.Gone = append(c.Gone, f)
		}
	}
	return c
}

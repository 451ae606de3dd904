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

// News compares findings with the previous ones: which are new, which are gone, and which are
// hidden, because a new finding keeps them from being checked. What is not checked is not resolved.
func News(known map[string]Finding, now []Finding) (appeared, gone, hidden []Finding) {
	still, unseen := ByKey(now), map[string]bool{}
	outage := false // any cluster may be unchecked
	for _, f := range now {
		if slices.Contains(blind, f.Code) {
			unseen[f.Cluster] = true
		}
		outage = outage || f.Code == AzureUnreachable && f.Cluster == ""
		if _, old := known[f.Key()]; !old {
			appeared = append(appeared, f)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		f := known[key]
		switch _, there := still[key]; {
		case there:
		case (outage || unseen[f.Cluster]) && !slices.Contains(blind, f.Code):
			hidden = append(hidden, f)
		default:
			gone = append(gone, f)
		}
	}
	return appeared, gone, hidden
}

package keeper

import (
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
)

// outages distinguishes an outage of Azure from the trouble of a few clusters. Checks of clusters
// end one by one, so no single check sees the whole outage. The outage lasts until a check that
// began after it gets an answer. If a cluster stays unanswered after others got answers, the
// trouble is its own.
type outages struct {
	silent   map[string]silence // by the cluster's name
	networks map[string]bool    // the names of networks without a cluster
	answered time.Time          // when the last answered check began
}

// silence is a cluster for which Azure does not answer.
type silence struct {
	since time.Time // when the first unanswered check began
	own   bool      // others got answers meanwhile
}

// note records the check of a cluster, and whether Azure answered.
func (o *outages) note(cluster string, began time.Time, answered bool) {
	if answered {
		delete(o.silent, cluster)
		if began.After(o.answered) {
			o.answered = began
		}
		return
	}
	s, before := o.silent[cluster]
	if !before {
		s.since = began
	}
	s.own = s.own || before && o.answered.After(s.since)
	o.silent[cluster] = s
}

// fold turns the findings of an outage into one, no matter how many clusters it affects.
func (o *outages) fold(findings []finding.Finding) []finding.Finding {
	if len(o.silent) == 0 {
		return findings
	}
	var own, others []finding.Finding
	var since time.Time
	for _, f := range findings {
		s := o.silent[f.Cluster]
		switch {
		case f.Code == finding.AzureUnreachable && s.own:
			own = append(own, f)
			continue
		case f.Code == finding.AzureUnreachable && (since.IsZero() || s.since.Before(since)):
			since = s.since
		}
		others = append(others, f)
	}
	return finding.Sort(append(finding.Outage(others, since, o.networks), own...))
}

// keep forgets clusters that are no longer configured.
func (o *outages) keep(names map[string]bool) {
	for cluster := range o.silent {
		if !names[cluster] {
			delete(o.silent, cluster)
		}
	}
}

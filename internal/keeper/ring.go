package keeper

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ring is when a cluster was named first, and by events of whom.
type ring struct {
	at      time.Time
	callers []string
}

// mostCallers is how many callers are told apart.
const mostCallers = 20

func (r ring) by(callers ...string) ring {
	for _, caller := range callers {
		if caller != "" && len(r.callers) < mostCallers && !slices.Contains(r.callers, caller) {
			r.callers = append(slices.Clip(r.callers), caller)
		}
	}
	return r
}

// firstRing is when the first of some clusters was named, or zero.
func firstRing(rung map[string]ring) (first time.Time) {
	for _, r := range rung {
		if first.IsZero() || r.at.Before(first) {
			first = r.at
		}
	}
	return first
}

// callers says whose events named clusters: the first, and how many more.
func callers(rung map[string]ring) string {
	rings := slices.SortedFunc(maps.Values(rung), func(a, b ring) int { return cmp.Or(a.at.Compare(b.at), slices.Compare(a.callers, b.callers)) })
	var all ring
	for _, r := range rings {
		all = all.by(r.callers...)
	}
	switch n := len(all.callers); n {
	case 0:
		return ""
	case 1:
		return all.callers[0]
	case mostCallers:
		return fmt.Sprintf("%s and at least %d more", all.callers[0], n-1)
	default:
		return fmt.Sprintf("%s and %d more", all.callers[0], n-1)
	}
}

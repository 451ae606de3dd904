package lab

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/prove"
)

// logInterval is the time between two reads of the activity log.
const logInterval = 15 * time.Second

// logDelay is the maximum delay of a record ("Azure activity log": 3 to 20 minutes).
const logDelay = 20 * time.Minute

// activity is what the activity log shows about the writes of this run.
type activity struct {
	// waited is how long the log was read. writes is the number of accepted writes of subnets and
	// tables.
	waited time.Duration
	writes int
	// records is the number of records about the written resources, with any correlation ID.
	// correlated is the number of writes that have records with the correlation ID of their answer,
	// ended the number of them that the log shows as ended.
	records, correlated, ended int
	// first and last are the shortest and the longest time from a write until its record appears.
	first, last time.Duration
	statuses    []string // of the records of one write, sorted
	caller      bool     // the records name this login
}

// activityLog reads the activity log until it shows the end of every write of a subnet or table, or
// the wait is over.
func (t *trial) activityLog() {
	a := activity{writes: len(t.writes)}
	began := time.Now()
	for a.writes > 0 && t.err == nil {
		t.readLog(&a)
		a.waited = time.Since(began)
		if a.correlated == a.writes && a.ended == a.writes || a.waited+logInterval > t.LogWait {
			break
		}
		t.pause(logInterval)
	}
	unmatched := untested("no record can be matched to a write")
	records, caller := unmatched, unmatched
	correlation := untested("the log showed nothing within " + seconds(a.waited))
	if a.records > 0 {
		correlation = confirmedIf(a.correlated > 0,
			fmt.Sprintf("of %d of %d writes", a.correlated, a.writes),
			fmt.Sprintf("%d records, none with the correlation ID of a write", a.records))
	}
	if len(a.statuses) > 0 {
		seen := strings.Join(a.statuses, ", ")
		records = confirmedIf(slices.Contains(a.statuses, "Started") &&
			slices.Contains(a.statuses, "Succeeded"), seen, seen)
	}
	if a.correlated > 0 {
		caller = confirmedIf(a.caller, "they name this login", "they name another caller or none")
	}
	t.fact("log-delay", a.judgeDelay())
	t.fact("log-correlation", correlation)
	t.fact("log-records", records)
	t.fact("log-caller", caller)
}

func (a activity) judgeDelay() prove.Judgement {
	nothing := "nothing within " + seconds(a.waited)
	switch {
	case a.writes == 0:
		return untested("no write was accepted")
	case a.records == 0 && a.waited < logDelay:
		return untested(nothing)
	case a.records == 0:
		return differs(nothing)
	case a.correlated == 0:
		return untested("no record can be matched to a write")
	}
	seen := fmt.Sprintf("%d of %d writes, after %s at first and %s at last",
		a.correlated, a.writes, seconds(a.first), seconds(a.last))
	return confirmedIf(a.last <= logDelay, seen, seen)
}

// readLog reads the group's log since the first write.
func (t *trial) readLog(a *activity) {
	now := time.Now()
	filter := fmt.Sprintf("eventTimestamp ge '%s' and eventTimestamp le '%s' and "+
		"resourceGroupName eq '%s'",
		t.writes[0].at.Add(-time.Minute).UTC().Format(time.RFC3339),
		now.Add(time.Minute).UTC().Format(time.RFC3339), t.group.Name())
	statuses := map[string]map[string]bool{} // by correlation ID
	a.records = 0
	t.each(address(arm.SubscriptionID(t.Subscription),
		"/providers/Microsoft.Insights/eventtypes/management/values", activityVersion)+
		"&$filter="+url.QueryEscape(filter), func(r gjson.Result) {
		id := arm.ID(r.Get("resourceId").String())
		if !slices.ContainsFunc(t.writes, func(w written) bool { return w.id.Equal(id) }) {
			return
		}
		a.records++
		correlation := strings.ToLower(r.Get("correlationId").String())
		if statuses[correlation] == nil {
			statuses[correlation] = map[string]bool{}
		}
		statuses[correlation][r.Get("status.value").String()] = true
		if t.isMine(correlation) && t.names(r) {
			a.caller = true
		}
	})
	t.sum(a, statuses, now)
}

func (t *trial) isMine(correlation string) bool {
	return slices.ContainsFunc(t.writes, func(w written) bool {
		return correlation != "" && strings.EqualFold(w.correlation, correlation)
	})
}

// names reports whether a record names this login: by its object ID, or by its client ID.
func (t *trial) names(r gjson.Result) bool {
	claims := r.Get("claims").Map()
	for _, have := range []string{r.Get("caller").String(), claims["appid"].String(),
		claims["http://schemas.microsoft.com/identity/claims/objectidentifier"].String()} {
		for _, who := range t.who {
			if who != "" && strings.EqualFold(have, who) {
				return true
			}
		}
	}
	return false
}

// sum counts the writes that the log shows, and notes when each appeared first.
func (t *trial) sum(a *activity, statuses map[string]map[string]bool, now time.Time) {
	a.correlated, a.ended = 0, 0
	for i := range t.writes {
		w := &t.writes[i]
		have := statuses[strings.ToLower(w.correlation)]
		if w.correlation == "" || have == nil {
			continue
		}
		a.correlated++
		if have["Succeeded"] || have["Failed"] {
			a.ended++
		}
		if w.shown == 0 {
			w.shown = now.Sub(w.at)
			if a.first == 0 || w.shown < a.first {
				a.first = w.shown
			}
			a.last = max(a.last, w.shown)
		}
		if len(have) > len(a.statuses) {
			a.statuses = slices.Sorted(maps.Keys(have))
		}
	}
}

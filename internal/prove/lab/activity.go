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
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/prove"
)

// logInterval is the time between two reads of the activity log.
const logInterval = 15 * time.Second

// activityLog reads the activity log until it shows the end of every write of a subnet or table, or
// the wait is over.
func (t *trial) activityLog() {
	a := &prove.Activity{Writes: len(t.writes)}
	began := time.Now()
	for a.Writes > 0 && t.err == nil {
		t.readLog(a)
		a.Waited = time.Since(began)
		if a.Correlated == a.Writes && t.ended == a.Writes || a.Waited+logInterval > t.LogWait {
			break
		}
		if t.err == nil {
			t.err = azure.Pause(t.ctx, logInterval)
		}
	}
	t.seen.Activity = a
}

// readLog reads the group's log since the first write.
func (t *trial) readLog(a *prove.Activity) {
	now := time.Now()
	filter := fmt.Sprintf("eventTimestamp ge '%s' and eventTimestamp le '%s' and "+
		"resourceGroupName eq '%s'",
		t.writes[0].at.Add(-time.Minute).UTC().Format(time.RFC3339),
		now.Add(time.Minute).UTC().Format(time.RFC3339), t.group.Name())
	statuses := map[string]map[string]bool{} // by correlation ID
	a.Records = 0
	t.each(address(arm.SubscriptionID(t.Subscription),
		"/providers/Microsoft.Insights/eventtypes/management/values", activityVersion)+
		"&$filter="+url.QueryEscape(filter), func(r gjson.Result) {
		id := arm.ID(r.Get("resourceId").String())
		if !slices.ContainsFunc(t.writes, func(w written) bool { return w.id.Equal(id) }) {
			return
		}
		a.Records++
		correlation := strings.ToLower(r.Get("correlationId").String())
		if statuses[correlation] == nil {
			statuses[correlation] = map[string]bool{}
		}
		statuses[correlation][r.Get("status.value").String()] = true
		if t.isMine(correlation) && t.names(r) {
			a.Caller = true
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
func (t *trial) sum(a *prove.Activity, statuses map[string]map[string]bool, now time.Time) {
	correlated := 0
	t.ended = 0
	for i := range t.writes {
		w := &t.writes[i]
		have := statuses[strings.ToLower(w.correlation)]
		if w.correlation == "" || have == nil {
			continue
		}
		correlated++
		if have["Succeeded"] || have["Failed"] {
			t.ended++
		}
		if w.shown == 0 {
			w.shown = now.Sub(w.at)
			if a.First == 0 || w.shown < a.First {
				a.First = w.shown
			}
			a.Last = max(a.Last, w.shown)
		}
		if len(have) > len(a.Statuses) {
			a.Statuses = slices.Sorted(maps.Keys(have))
		}
	}
	a.Correlated = correlated
}

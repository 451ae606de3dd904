package lab

import (
	"context"
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
func (l *lab) activityLog(ctx context.Context) error {
	a := &prove.Activity{Writes: len(l.writes)}
	began := time.Now()
	for a.Writes > 0 {
		if err := l.readLog(ctx, a); err != nil {
			return err
		}
		a.Waited = time.Since(began)
		if a.Correlated == a.Writes && l.ended == a.Writes || a.Waited+logInterval > l.LogWait {
			break
		}
		if err := azure.Pause(ctx, logInterval); err != nil {
			return err
		}
	}
	l.seen.Activity = a
	return nil
}

// readLog reads the group's log since the first write.
func (l *lab) readLog(ctx context.Context, a *prove.Activity) error {
	now := time.Now()
	filter := fmt.Sprintf("eventTimestamp ge '%s' and eventTimestamp le '%s' and "+
		"resourceGroupName eq '%s'",
		l.writes[0].at.Add(-time.Minute).UTC().Format(time.RFC3339),
		now.Add(time.Minute).UTC().Format(time.RFC3339), l.group.Name())
	statuses := map[string]map[string]bool{} // by correlation ID
	a.Records = 0
	subscription := arm.SubscriptionID(l.Subscription)
	next := address(subscription, "/providers/Microsoft.Insights/eventtypes/management/values",
		activityVersion) + "&$filter=" + url.QueryEscape(filter)
	for next != "" {
		reply, err := l.fetch(ctx, next)
		if err != nil {
			return err
		}
		for _, r := range gjson.GetBytes(reply.Body, "value").Array() {
			id := arm.ID(r.Get("resourceId").String())
			if !slices.ContainsFunc(l.writes, func(w written) bool { return w.id.Equal(id) }) {
				continue
			}
			a.Records++
			correlation := strings.ToLower(r.Get("correlationId").String())
			if statuses[correlation] == nil {
				statuses[correlation] = map[string]bool{}
			}
			statuses[correlation][r.Get("status.value").String()] = true
			if l.isMine(correlation) && l.names(r) {
				a.Caller = true
			}
		}
		next = gjson.GetBytes(reply.Body, "nextLink").String()
	}
	l.sum(a, statuses, now)
	return nil
}

func (l *lab) isMine(correlation string) bool {
	return slices.ContainsFunc(l.writes, func(w written) bool {
		return correlation != "" && strings.EqualFold(w.correlation, correlation)
	})
}

// names reports whether a record names this login: by its object ID, or by its client ID.
func (l *lab) names(r gjson.Result) bool {
	claims := r.Get("claims").Map()
	for _, have := range []string{r.Get("caller").String(), claims["appid"].String(),
		claims["http://schemas.microsoft.com/identity/claims/objectidentifier"].String()} {
		for _, who := range l.who {
			if who != "" && strings.EqualFold(have, who) {
				return true
			}
		}
	}
	return false
}

// sum counts the writes that the log shows, and notes when each appeared first.
func (l *lab) sum(a *prove.Activity, statuses map[string]map[string]bool, now time.Time) {
	correlated := 0
	l.ended = 0
	for i := range l.writes {
		w := &l.writes[i]
		have := statuses[strings.ToLower(w.correlation)]
		if w.correlation == "" || have == nil {
			continue
		}
		correlated++
		if have["Succeeded"] || have["Failed"] {
			l.ended++
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

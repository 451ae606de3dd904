package history

import (
	"cmp"
	"context"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Writers finds out who changed resources, from the activity log.
type Writers interface {
	OthersWrite(ctx context.Context, from, until time.Time, ids ...arm.ID) (azure.LastWrite, bool,
		error)
}

// Writer is who changed a resource before it was repaired.
type Writer struct {
	// Line says who, when and by which operation.
	Line        string    `json:"line"`
	Name        string    `json:"name,omitempty"` // of the caller
	Caller      string    `json:"caller,omitempty"`
	At          time.Time `json:"at,omitzero"`
	Operation   string    `json:"operation,omitempty"`
	Correlation string    `json:"correlation,omitempty"`
}

// unknown is the writer of a change if the log shows none. The program never guesses.
var unknown = Writer{Line: "unknown: the activity log shows no write by another identity"}

// Author is who changed something of a cluster, as found out for the change that undoes it.
type Author struct {
	Name    string
	At      time.Time
	Noticed time.Time // when the change that undoes it was planned or made
}

// Authors returns the last known author for each cluster, by its name.
func (r *Reader) Authors() (map[string]Author, error) {
	authors := map[string]Author{}
	err := each(r.db, func(scan scanner) error {
		var cluster string
		var intended int64
		var w Writer
		err := scan(&cluster, kept{&w}, &intended)
		authors[cluster] = Author{cmp.Or(w.Name, w.Caller), w.At, time.UnixMilli(intended).UTC()}
		return err
	}, "SELECT cluster, writer, intended FROM changes WHERE id IN (SELECT max(id) FROM changes "+
		"WHERE json_extract(nullif(writer, ''), '$.caller') IS NOT NULL GROUP BY cluster)")
	return authors, err
}

// delays are the times after a repair at which the activity log is queried. It lags by up to twenty
// minutes, and is complete after that.
var delays = []time.Duration{time.Minute, 3 * time.Minute, 8 * time.Minute, 15 * time.Minute,
	30 * time.Minute}

const (
	// noMoreQueries is the query count of a change that needs no more queries.
	noMoreQueries = 1000
	// earlier is how long before the last good check a write may have begun, if it became visible
	// only after that check.
	earlier = time.Minute
	// atOnce is how many resources one call queries.
	atOnce = 10
)

// repairs reports whether a change repairs another writer's change: always for a lost association,
// for a route only if that is known. Routes also come and go with nodes.
func repairs(c plan.Change) bool { return c.Verb == plan.Associate || c.Repair }

// repair is a repair and the state of its queries.
type repair struct {
	check    int64
	resource arm.ID
	route    string // "" for an association
	asked    int
	at, good time.Time
}

// Ask fills in who made the changes that were repaired, as far as the log shows it now. Call it
// about every minute, concurrently with checks.
func (l *Log) Ask(ctx context.Context, w Writers, now time.Time) {
	for _, r := range l.due(now) {
		who, last := unknown, r.asked == len(delays)-1
		from := time.Time{} // everything
		switch {
		case !r.good.IsZero():
			from = r.good.Add(-earlier)
		case r.route != "":
			l.answer(r, &unknown) // other routes in the table are written all the time
			continue
		case !last:
			// It is unknown when the resource was last correct. Until the log is complete, its
			// newest write may not be the right one.
			l.answer(r, nil)
			continue
		}
		found, known, err := r.findWriter(ctx, w, from, last)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && last:
			who = Writer{Line: "unknown: the activity log cannot be read: " + err.Error()}
		case err != nil || !known && !last:
			l.answer(r, nil)
			continue
		case known:
			who = Writer{Line: found.String(), Name: found.Name, Caller: found.Caller,
				At: found.At.UTC(), Operation: found.Operation, Correlation: found.Correlation}
		}
		l.answer(r, &who)
	}
}

// findWriter returns who changed the resource that was repaired. A route can be written alone or
// with the whole table. A write of the table is weaker evidence, because tables are also written
// for other routes: it counts only once the log has had time to show a write of the route.
func (r repair) findWriter(ctx context.Context, w Writers, from time.Time,
	last bool) (azure.LastWrite, bool, error) {
	switch {
	case r.route != "":
		found, known, err := w.OthersWrite(ctx, from, r.at, r.resource.Child("routes", r.route))
		if known || err != nil || !last {
			return found, known, err
		}
		found, known, err = w.OthersWrite(ctx, from, r.at, r.resource)
		return found, known && found.Resource.Equal(r.resource), err
	case r.resource.Is(arm.TypeSubnet): // a write of the network writes its subnets
		return w.OthersWrite(ctx, from, r.at, r.resource, r.resource.Parent())
	}
	return w.OthersWrite(ctx, from, r.at, r.resource)
}

// due returns the repairs to query now.
func (l *Log) due(now time.Time) []repair {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.j.trouble != nil || l.j.closed {
		return nil
	}
	rows, err := l.j.db.Query("SELECT check_id, change, asked, intended, true_at FROM changes "+
		"WHERE asked < 1000 AND state IN ('done', 'obsolete', 'observed', 'found') AND "+
		"intended < ? ORDER BY id DESC", now.Add(-delays[0]).UnixMilli())
	if err != nil {
		return nil // the next write fails for the same reason and reports it
	}
	defer rows.Close()
	var all []repair
	for rows.Next() && len(all) < atOnce {
		var r repair
		var at int64
		var good *int64
		var c plan.Change
		if rows.Scan(&r.check, kept{&c}, &r.asked, &at, &good) != nil {
			return all
		}
		// before the repair itself
		r.resource, r.route, r.at = c.Resource, c.Route, time.UnixMilli(at).Add(-time.Millisecond)
		if good != nil {
			r.good = time.UnixMilli(*good)
		}
		same := func(o repair) bool {
			return o.check == r.check && o.resource.Equal(r.resource) && o.route == r.route
		}
		if now.Sub(r.at) >= delays[min(r.asked, len(delays)-1)] &&
			!slices.ContainsFunc(all, same) {
			all = append(all, r)
		}
	}
	return all
}

// answer records the writer or, with nil, that the log was queried.
func (l *Log) answer(r repair, who *Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	writer, asked := "", r.asked+1
	if who != nil {
		writer, asked = document(who), noMoreQueries
	}
	l.j.run("UPDATE changes SET writer = ?, asked = ? WHERE check_id = ? AND "+
		"json_extract(change, '$.resource') = ? AND coalesce(json_extract(change, '$.route'), "+
		"'') = ?", writer, asked, r.check, string(r.resource), r.route)
	l.write()
}

package history

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Writers knows who changed things: the activity log.
type Writers interface {
	OthersWrite(ctx context.Context, from, until time.Time, ids ...arm.ID) (azure.LastWrite, bool, error)
}

// Writer is who changed a resource before it was put right.
type Writer struct {
	// Line says it in words: who, when, by which operation.
	Line        string    `json:"line"`
	Caller      string    `json:"caller,omitempty"`
	At          time.Time `json:"at,omitzero"`
	Operation   string    `json:"operation,omitempty"`
	Correlation string    `json:"correlation,omitempty"`
}

// unknown is for a change that nobody is found for. Nobody is guessed.
var unknown = Writer{Line: "unknown: the activity log shows no write by another identity"}

// delays are how long after a repair the activity log is asked: it is minutes late, up to twenty, and then knows all it will know.
var delays = []time.Duration{time.Minute, 3 * time.Minute, 8 * time.Minute, 15 * time.Minute, 30 * time.Minute}

const (
	// settledAsking is the count of questions of a change about which no more is asked.
	settledAsking = 1000
	// earlier is how long before the last good look a write may have begun that showed only after it.
	earlier = time.Minute
	// atOnce is how many resources are asked for in one go.
	atOnce = 10
)

// repairs reports whether a change puts something back that somebody changed: a lost association surely, a route where that is known.
// Routes come and go with nodes, which is nobody's doing.
func repairs(c plan.Change) bool { return c.Verb == plan.Associate || c.Repair }

// repair is what a round put back, and what is asked about it.
type repair struct {
	round    int64
	resource arm.ID
	route    string // "" for an association
	asked    int
	at, good time.Time
}

// Ask fills in who made the changes that were repaired, as far as it is known now. It is to be called every minute or so, beside the
// rounds.
func (l *Log) Ask(ctx context.Context, w Writers, now time.Time) {
	for _, r := range l.due(now) {
		who, last := unknown, r.asked == len(delays)-1
		from := time.Time{} // everything
		switch {
		case !r.good.IsZero():
			from = r.good.Add(-earlier)
		case r.route != "":
			l.answer(r, &unknown) // other routes of the table are written all the time
			continue
		case !last:
			// When it was last as it should be is not known. Until the log is complete, its newest write may not be the one.
			l.answer(r, nil)
			continue
		}
		found, known, err := r.find(ctx, w, from, last)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && last:
			who = Writer{Line: "unknown: the activity log cannot be read: " + err.Error()}
		case err != nil || !known && !last:
			l.answer(r, nil)
			continue
		case known:
			who = Writer{Line: found.String(), Caller: found.Caller, At: found.At.UTC(), Operation: found.Operation, Correlation: found.Correlation}
		}
		l.answer(r, &who)
	}
}

// find asks who wrote what was repaired. A route can be written by itself, or with the whole table; the latter says less, because the table is
// written for other routes, too, and it counts only when the log has had the time to show the former.
func (r repair) find(ctx context.Context, w Writers, from time.Time, last bool) (azure.LastWrite, bool, error) {
	switch {
	case r.route != "":
		found, known, err := w.OthersWrite(ctx, from, r.at, r.resource.Child("routes", r.route))
		if known || err != nil || !last {
			return found, known, err
		}
		found, known, err = w.OthersWrite(ctx, from, r.at, r.resource)
		return found, known && found.Resource.Equal(r.resource), err
	case r.resource.Is(arm.TypeSubnet): // written with the whole network, too
		return w.OthersWrite(ctx, from, r.at, r.resource, r.resource.Parent())
	}
	return w.OthersWrite(ctx, from, r.at, r.resource)
}

// due lists what is to be asked now.
func (l *Log) due(now time.Time) []repair {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.j.trouble != nil || l.j.closed {
		return nil
	}
	rows, err := l.j.db.Query("SELECT round, change, asked, intended, true_at FROM changes WHERE asked < 1000 AND state IN ('done', 'obsolete', 'observed') AND intended < ? ORDER BY id DESC", now.Add(-delays[0]).UnixMilli())
	if err != nil {
		return nil // the next write runs into the same, and tells of it
	}
	defer rows.Close()
	var all []repair
	for rows.Next() && len(all) < atOnce {
		var r repair
		var raw string
		var at int64
		var good *int64
		var c plan.Change
		if rows.Scan(&r.round, &raw, &r.asked, &at, &good) != nil || json.Unmarshal([]byte(raw), &c) != nil {
			return all
		}
		r.resource, r.route, r.at = c.Resource, c.Route, time.UnixMilli(at).Add(-time.Millisecond) // before the repair itself
		if good != nil {
			r.good = time.UnixMilli(*good)
		}
		same := func(o repair) bool { return o.round == r.round && o.resource.Equal(r.resource) && o.route == r.route }
		if repairs(c) && now.Sub(r.at) >= delays[min(r.asked, len(delays)-1)] && !slices.ContainsFunc(all, same) {
			all = append(all, r)
		}
	}
	return all
}

// answer notes what was found, or, with nil, that it was asked for.
func (l *Log) answer(r repair, who *Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &answer{repair: r}
	if who != nil {
		a.writer = document(who)
	}
	l.j.add(a)
	l.write()
}

// answer is the step that writes who it was.
type answer struct {
	repair
	writer string
}

func (a *answer) write(b *batch) error {
	asked := a.asked + 1
	if a.writer != "" {
		asked = settledAsking
	}
	_, err := b.Exec("UPDATE changes SET writer = ?, asked = ? WHERE round = ? AND json_extract(change, '$.resource') = ? AND coalesce(json_extract(change, '$.route'), '') = ?",
		a.writer, asked, a.round, string(a.resource), a.route)
	return err
}

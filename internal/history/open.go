package history

import (
	"database/sql"
	"encoding/json"
	"time"

	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Notes on a change whose program was killed, or gave up, before it saw the outcome.
const (
	notThere = "interrupted: the outcome is unknown, and the next check did not find the change " +
		"made"
	inPlace = "interrupted: the next check found the change in place, but this keeper or another " +
		"writer can have made it"
)

// openChange is a change that was intended but not settled.
type openChange struct {
	number int64
	change plan.Change
}

// querier is a database or a transaction.
type querier interface {
	Query(string, ...any) (*sql.Rows, error)
}

// scanner takes over the columns of a row.
type scanner func(into ...any) error

// each calls read for each row of the answer to a query.
func each(q querier, read func(scanner) error, query string, args ...any) error {
	rows, err := q.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// kept is a column with a document; "" changes nothing.
type kept struct{ into any }

// Scan implements sql.Scanner.
func (k kept) Scan(column any) error {
	text, _ := column.(string)
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), k.into)
}

// leftOpen reads the unsettled changes from before a time.
func leftOpen(q querier, before time.Time) ([]openChange, error) {
	var all []openChange
	err := each(q, func(scan scanner) error {
		var l openChange
		err := scan(&l.number, kept{&l.change})
		all = append(all, l)
		return err
	}, "SELECT id, change FROM changes WHERE state = 'intended' AND intended < ?",
		before.UnixMilli())
	return all, err
}

// settleOthers settles changes that were left open, as far as a check has read their outcome. It
// returns the keys of the ones that the check found in place when it was about to make them, so
// that they are reported only once.
func (l *Log) settleOthers(r keeper.Result, s *inventory.Snapshot) map[string]bool {
	found := map[string]bool{}
	if l.j.trouble != nil {
		return found
	}
	open, err := leftOpen(l.j.db, r.Started)
	if err != nil {
		return found // the next write fails for the same reason and reports it
	}
	tried := map[string]plan.OutcomeState{}
	for _, o := range r.Changes {
		tried[keyOf(o.Change)] = o.State
	}
	for _, o := range open {
		// another check of this program is writing it
		if c := l.open[keyOf(o.change)]; c != nil && *c.number == o.number {
			continue
		}
		made, checked := o.change.InPlace(s)
		state, again := tried[keyOf(o.change)]
		switch {
		case state == plan.Obsolete:
			made, checked = true, true
			found[keyOf(o.change)] = true
		case again:
			made, checked = false, true
		case !checked:
			continue
		}
		settled, note := Interrupted, notThere
		if made { // the state in Azure does not show who made it
			settled, note = Found, inPlace
		}
		l.opts.Log.Warn("an interrupted run left a change without an outcome",
			append(o.change.Attrs(), "made", made)...)
		l.j.run("UPDATE changes SET state = ?, note = ?, settled = ? WHERE id = ? AND "+
			"state = 'intended'", string(settled), note, time.Now().UnixMilli(), o.number)
	}
	return found
}

package history

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Entry is one check in a history.
type Entry struct {
	ID      int64        `json:"id"`
	Started time.Time    `json:"started"`
	Woke    keeper.Cause `json:"trigger"`
	// ElapsedMs is how long the check took; nil if it did not end.
	ElapsedMs *int64 `json:"elapsedMs,omitempty"`
	// Complete is set if everything was read.
	Complete bool                 `json:"complete"`
	Observed []keeper.Observation `json:"observed"`
	Changes  []Change             `json:"changes"`
	Findings []News               `json:"findings"`
	Reads    int                  `json:"reads"`
	Writes   int                  `json:"writes"`
	Polls    int                  `json:"polls"`
}

// Change is a change and its outcome.
type Change struct {
	plan.Outcome
	// Intended is when it was about to be sent, or found unnecessary. Settled is when its outcome
	// was seen.
	Intended time.Time  `json:"intended"`
	Settled  *time.Time `json:"settled,omitempty"`
	// Correct is when the resource was last seen correct before; nil if that is not known.
	Correct *time.Time `json:"lastCorrect,omitempty"`
	// Note says more about an outcome that another program found later.
	Note string `json:"note,omitempty"`
	// ChangedBy is who made the change that this one repaired; nil if that does not apply or is not
	// yet known.
	ChangedBy *Writer `json:"changedBy,omitempty"`
}

// News is a finding that appeared or disappeared.
type News struct {
	News string `json:"news"`
	finding.Finding
}

// Existed reports whether the finding existed at the end of the check, for a reader who has not
// seen it, or not in this form.
func (n News) Existed() bool {
	return n.News == New || n.News == Worse || n.News == Milder || n.News == Reworded
}

// Kinds of checks for a Query.
const (
	KindChange      = "change"      // something was changed
	KindRepair      = "repair"      // another writer's change was undone
	KindRefusal     = "refusal"     // a planned change was not made
	KindFinding     = "finding"     // a finding appeared or disappeared
	KindInterrupted = "interrupted" // the program was killed during a check
	// a change was not made because the config says Observe, on a dry run, or during a pause
	KindObserved = "observed"
)

// Kinds are all kinds.
var Kinds = []string{KindRepair, KindChange, KindRefusal, KindFinding, KindInterrupted,
	KindObserved}

var kinds = map[string]string{
	KindChange:  anyChange("c.state IN ('done', 'found')"),
	KindRepair:  anyChange(isRepair),
	KindRefusal: anyChange("c.state IN ('failed', 'skipped')"),
	KindFinding: "EXISTS (SELECT 1 FROM findings f WHERE f.check_id = r.id AND (?1 = '' OR " +
		"f.cluster = ?1))",
	KindInterrupted: "r.elapsed_ms IS NULL",
	KindObserved:    anyChange("c.state IN ('observed', 'planned')"),
}

// anyChange selects the checks with a change c of the cluster that has a property.
func anyChange(property string) string {
	return "EXISTS (SELECT 1 FROM changes c WHERE c.check_id = r.id AND " + property +
		" AND (?1 = '' OR c.cluster = ?1))"
}

// Query selects checks. The zero value selects all.
type Query struct {
	Cluster string    // only checks about this cluster
	Since   time.Time // only checks that began since
	Kind    string
	Limit   int // the newest; 0: all
	ID      int64
}

// Reader reads a history, even while a keeper writes it.
type Reader struct{ db *sql.DB }

// regular says why a file cannot be a history, or returns nil.
func regular(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no history %s; a keeper that runs with its config "+
			"writes it", path)
	case err != nil:
		return fmt.Errorf("%s: %s", path, reason(err))
	case info.IsDir():
		return fmt.Errorf("%s is a folder, expected the file of a history", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is a pipe or a device, expected the file of a history", path)
	}
	return nil
}

// Read opens a history for reading. It prepares an empty file first.
func Read(path string) (*Reader, error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	r, err := readOnly(path)
	if errors.Is(err, errEmpty) {
		prepared, failed := open(path)
		if failed != nil {
			return nil, fmt.Errorf("%s is empty and cannot be prepared: %s", path, reason(failed))
		}
		prepared.Close()
		r, err = readOnly(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %s", path, reason(err))
	}
	return r, nil
}

func readOnly(path string) (*Reader, error) {
	// In a read-only folder the file can only be read as immutable.
	return readAs(path, "mode=ro", "mode=rw", "mode=ro&immutable=1")
}

// readAs opens a file with the first parameters that can read it. It is opened for writing only if
// an interrupted transaction must be rolled back first.
func readAs(path string, ways ...string) (*Reader, error) {
	var last error
	for _, parameters := range ways {
		if parameters == "mode=rw" && !interrupted(last) {
			continue
		}
		name, err := address(path, parameters)
		if err != nil {
			return nil, err
		}
		db, err := sql.Open("sqlite", name)
		if err != nil {
			return nil, err
		}
		if last = usable(db); last == nil {
			return &Reader{db}, nil
		}
		db.Close()
		if code := resultCode(last); code != sqlite3.SQLITE_CANTOPEN &&
			code != sqlite3.SQLITE_READONLY {
			break
		}
	}
	return nil, last
}

// Close closes the file.
func (r *Reader) Close() error { return r.db.Close() }

// Each calls use with the selected checks, the newest first, until use fails.
func (r *Reader) Each(q Query, use func(Entry) error) error {
	where := []string{"r.started >= ?2", "(?3 = 0 OR r.id = ?3)"}
	if q.Cluster != "" {
		where = append(where, "(EXISTS (SELECT 1 FROM changes c WHERE c.check_id = r.id AND "+
			"c.cluster = ?1) OR EXISTS (SELECT 1 FROM findings f WHERE f.check_id = r.id AND "+
			"f.cluster = ?1))")
	}
	if q.Kind != "" {
		where = append(where, kinds[q.Kind])
	}
	limit := q.Limit
	if limit == 0 {
		limit = -1
	}
	var since int64
	if !q.Since.IsZero() {
		since = q.Since.UnixMilli()
	}
	tx, err := r.db.Begin() // a consistent state while a keeper writes
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return each(tx, func(scan scanner) error {
		e := Entry{Changes: []Change{}, Findings: []News{}}
		var started int64
		err := scan(&e.ID, &started, &e.ElapsedMs, &e.Woke.By, &e.Woke.Caller, kept{&e.Woke.Event},
			&e.Complete, kept{&e.Observed}, &e.Reads, &e.Writes, &e.Polls)
		e.Started = time.UnixMilli(started).UTC()
		if err == nil {
			err = e.readChanges(tx)
		}
		if err == nil {
			err = e.readFindings(tx)
		}
		if err != nil {
			return fmt.Errorf("check %d: %w", e.ID, err)
		}
		return use(e)
	}, "SELECT id, started, elapsed_ms, woke_by, caller, event, complete, observed, reads, "+
		"writes, polls FROM checks r WHERE "+strings.Join(where, " AND ")+
		" ORDER BY id DESC LIMIT ?4", q.Cluster, since, q.ID, limit)
}

func (e *Entry) readChanges(tx *sql.Tx) error {
	return each(tx, func(scan scanner) error {
		var c Change
		var intended int64
		var settled, correct *int64
		err := scan(kept{&c.Change}, &c.State, &c.Error, &c.Note, &intended, &settled,
			kept{&c.ChangedBy}, &correct)
		c.Intended = time.UnixMilli(intended).UTC()
		c.Settled, c.Correct = moment(settled), moment(correct)
		e.Changes = append(e.Changes, c)
		return err
	}, "SELECT change, state, error, note, intended, settled, writer, true_at FROM changes WHERE "+
		"check_id = ? ORDER BY id", e.ID)
}

// moment converts a time that is stored in the file; nil stays nil.
func moment(ms *int64) *time.Time {
	if ms == nil {
		return nil
	}
	at := time.UnixMilli(*ms).UTC()
	return &at
}

func (e *Entry) readFindings(tx *sql.Tx) error {
	return each(tx, func(scan scanner) error {
		var n News
		err := scan(&n.News, kept{&n.Finding})
		e.Findings = append(e.Findings, n)
		return err
	}, "SELECT news, finding FROM findings WHERE check_id = ? ORDER BY id", e.ID)
}

// Clusters returns the names of all clusters in the history.
func (r *Reader) Clusters() (names []string, err error) {
	err = each(r.db, func(scan scanner) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	}, "SELECT cluster FROM changes WHERE cluster <> '' UNION SELECT cluster FROM findings WHERE "+
		"cluster <> '' ORDER BY cluster")
	return names, err
}

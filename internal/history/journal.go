package history

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/input"
)

// waiting limits the steps in memory while the file cannot be written.
const waiting = 10_000

// step is one thing to write. It can be repeated after its transaction was rolled back, or its file
// replaced.
type step interface{ write(*batch) error }

// statement is the step that runs a query.
type statement struct {
	query  string
	values []any
}

func (s *statement) write(b *batch) error {
	_, err := b.exec(s.query, s.values...)
	return err
}

// batch is one transaction. If it fails, the row numbers that it assigned are reset, because other
// rows may get them.
type batch struct {
	*sql.Tx
	numbered []*int64
	prepared map[string]*sql.Stmt // by query: a batch writes many rows of a kind
	present  map[*int64]bool      // checks that are in the file
}

// insert inserts a row, or replaces the row with the same number, and stores the number.
func (b *batch) insert(id *int64, table, columns string, values ...any) error {
	names := strings.Split(columns, ", ")
	sets := make([]string, len(names))
	for i, name := range names {
		sets[i] = name + " = excluded." + name
	}
	var number any
	if *id != 0 {
		number = *id
	}
	query := fmt.Sprintf("INSERT INTO %s (id, %s) VALUES (?%s) ON CONFLICT (id) DO UPDATE SET %s",
		table, columns, strings.Repeat(", ?", len(names)), strings.Join(sets, ", "))
	result, err := b.exec(query, append([]any{number}, values...)...)
	if err != nil || *id != 0 {
		return err
	}
	if *id, err = result.LastInsertId(); err == nil {
		b.numbered = append(b.numbered, id)
	}
	return err
}

// exec runs a statement that runs often in a batch.
func (b *batch) exec(query string, values ...any) (sql.Result, error) {
	statement := b.prepared[query]
	if statement == nil {
		var err error
		if statement, err = b.Prepare(query); err != nil {
			return nil, err
		}
		b.prepared[query] = statement
	}
	return statement.Exec(values...)
}

// journal writes steps to the file, in order, and buffers them while it cannot.
type journal struct {
	path string
	log  *slog.Logger
	// shortage reports whether an error means that too many files are open
	shortage func(error) bool

	db      *file
	pending []step
	lost    int       // steps that did not fit in memory
	trouble error     // why the file cannot be written, or nil
	since   time.Time // when that began
	aside   string    // where a damaged file was moved
	asideAt time.Time
	closed  bool
}

func (j *journal) add(s step) { j.pending = append(j.pending, s) }

func (j *journal) run(query string, values ...any) { j.add(&statement{query, values}) }

// flush writes all waiting steps or none.
func (j *journal) flush() {
	if j.closed {
		return
	}
	err := j.try()
	if damaged(err) {
		err = j.replace(err)
	}
	switch {
	case err == nil && j.trouble != nil:
		j.log.Info("the history can be written again", "file", j.path, "after",
			time.Since(j.since).Round(time.Second).String(), "lost", j.lost)
		j.trouble = nil
	case err != nil && j.trouble == nil:
		j.since = time.Now()
	}
	if err != nil && j.shortage(err) {
		err = errTooManyFiles
	}
	j.trouble = err
	if over := len(j.pending) - waiting; over > 0 {
		j.pending = j.pending[over:]
		j.lost += over
	}
}

func (j *journal) try() error {
	if err := j.connect(); err != nil {
		return err
	}
	if len(j.pending) == 0 && j.trouble == nil {
		return nil
	}
	// takes the lock, so it shows whether the file can be written, even if nothing waits
	tx, err := j.db.Begin()
	if err != nil {
		return err
	}
	b := batch{Tx: tx, prepared: map[string]*sql.Stmt{}, present: map[*int64]bool{}}
	for _, s := range j.pending {
		if err = s.write(&b); err != nil {
			break
		}
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		_ = tx.Rollback() // the earlier error matters
		for _, id := range b.numbered {
			*id = 0
		}
		return err
	}
	j.pending = nil
	return nil
}

var errTooManyFiles = errors.New("too many files are open")

// connect opens the file. It opens it again if it was removed or replaced, or has to be checked for
// damage.
func (j *journal) connect() error {
	if j.db != nil {
		if j.db.inPlace(j.path) && j.db.whole() {
			return nil
		}
		j.close()
	}
	db, err := open(j.path)
	if err != nil {
		return err
	}
	j.db = db
	return nil
}

// replace moves a damaged file aside and starts a new one.
func (j *journal) replace(why error) error {
	j.close()
	aside, err := setAside(j.path, time.Now())
	if err != nil {
		return fmt.Errorf("%s: %w", reason(why), err)
	}
	j.aside, j.asideAt = aside, time.Now()
	j.log.Error("the history is damaged: starting a new one", "file", j.path, "aside", aside,
		"error", reason(why))
	return j.try()
}

func (j *journal) close() error {
	if j.db == nil {
		return nil
	}
	err := j.db.Close()
	j.db = nil
	return err
}

// findings say what is wrong with the file.
func (j *journal) findings() []finding.Finding {
	switch {
	case j.trouble != nil:
		why := reason(j.trouble)
		f := finding.New(finding.HistoryDegraded, "", "", "the history %s cannot be written: %s; "+
			"new records stay in memory until it can, and are lost if the program ends first",
			j.path, why).About(j.path)
		f = f.With(fmt.Sprintf("since %s", j.since.Format(time.DateTime)))
		if j.lost > 0 {
			f = f.With(fmt.Sprintf("%d records did not fit in memory and are lost", j.lost))
		}
		advice := "start with --history PATH where this user can write, or with --history off"
		switch {
		case why == input.DiskFull:
			advice = "or start with --history PATH on another disk"
		case errors.Is(j.trouble, errOtherProgram):
			advice = "start with --history PATH, its own file"
		case errors.Is(j.trouble, errTooManyFiles): // too-many-open-files says what to do
			return []finding.Finding{f}
		}
		return []finding.Finding{f.WithAdvice("%s", advice)}
	case j.aside != "" && time.Since(j.asideAt) < 24*time.Hour:
		return []finding.Finding{finding.New(finding.HistoryDegraded, "", "",
			"the history %s was damaged: its content is in %s, and a new history was started",
			j.path, j.aside).
			About(j.path).WithAdvice("this shows what can be recovered").
			WithFix("sqlite3 %s .recover", j.aside)}
	}
	return nil
}

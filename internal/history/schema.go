package history

import (
	"database/sql"
	"errors"
	"fmt"
)

// application marks the file as a history (PRAGMA application_id): "rkhi".
const application = 0x726b6869

// version is the version of the schema (PRAGMA user_version). A release that raises it upgrades the
// files of earlier releases. Lower numbers are of files that no release wrote.
const version = 7

// schema creates the tables of an empty file. Times are milliseconds since 1970, UTC. Documents are
// the JSON of docs/json.md.
//
// A check has no elapsed_ms while it is running or if it was interrupted. event is the event that
// triggered it, or empty. A change in state "intended" was about to be sent, and its outcome is
// unknown. true_at is when its resource was last seen correct. Its writer, who made it necessary,
// is filled in later, because the activity log lags: asked counts the queries. standing has the
// findings of the last check, and memory has what keepers must not forget.
const schema = `CREATE TABLE checks (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	started INTEGER NOT NULL,
	elapsed_ms INTEGER,
	woke_by TEXT NOT NULL,
	caller TEXT NOT NULL,
	event TEXT NOT NULL,
	complete INTEGER NOT NULL,
	observed TEXT NOT NULL,
	reads INTEGER NOT NULL,
	writes INTEGER NOT NULL,
	polls INTEGER NOT NULL
);
CREATE INDEX checks_started ON checks(started);
CREATE TABLE changes (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	check_id INTEGER NOT NULL REFERENCES checks(id) ON DELETE CASCADE,
	key TEXT NOT NULL,
	cluster TEXT NOT NULL,
	change TEXT NOT NULL,
	state TEXT NOT NULL,
	error TEXT NOT NULL,
	note TEXT NOT NULL,
	intended INTEGER NOT NULL,
	settled INTEGER,
	true_at INTEGER,
	writer TEXT NOT NULL DEFAULT '',
	asked INTEGER NOT NULL
);
CREATE INDEX changes_check ON changes(check_id);
CREATE INDEX changes_open ON changes(key) WHERE state = 'intended';
CREATE INDEX changes_unasked ON changes(intended) WHERE asked < 1000;
CREATE TABLE findings (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	check_id INTEGER NOT NULL REFERENCES checks(id) ON DELETE CASCADE,
	news TEXT NOT NULL,
	cluster TEXT NOT NULL,
	finding TEXT NOT NULL
);
CREATE INDEX findings_check ON findings(check_id);
CREATE TABLE standing (key TEXT PRIMARY KEY, finding TEXT NOT NULL);
CREATE TABLE memory (cluster TEXT PRIMARY KEY, document TEXT NOT NULL);`

var errEmpty = errors.New("it has no tables yet")

// usable returns why a file cannot be used as it is: it is not a history, or it has another schema.
func usable(q rower) error {
	var owner, has, tables int
	for query, into := range map[string]*int{"PRAGMA application_id": &owner,
		"PRAGMA user_version": &has, "SELECT count(*) FROM sqlite_schema": &tables} {
		if err := q.QueryRow(query).Scan(into); err != nil {
			return err
		}
	}
	switch {
	case owner != application && (owner != 0 || tables > 0):
		return errOtherProgram
	case has == 0:
		return errEmpty
	case has < version:
		return fmt.Errorf("no release wrote it (schema %d, this version supports %d): move it "+
			"away, and a new one is made", has, version)
	case has > version:
		return fmt.Errorf("a newer routekeeper wrote it (schema %d, this version supports %d)", has,
			version)
	}
	return nil
}

// rower is a database or a transaction.
type rower interface {
	QueryRow(string, ...any) *sql.Row
}

// prepare creates the tables in an empty file, all or nothing. It refuses files that are not a
// history, or that a newer program or no release wrote.
func prepare(db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := usable(tx); !errors.Is(err, errEmpty) {
		return err
	}
	for _, step := range []string{schema, fmt.Sprintf("PRAGMA application_id = %d", application),
		fmt.Sprintf("PRAGMA user_version = %d", version)} {
		if _, err := tx.Exec(step); err != nil {
			return err
		}
	}
	return tx.Commit()
}

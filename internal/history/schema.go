package history

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// application marks the file as a history (PRAGMA application_id): "rkhi".
const application = 0x726b6869

// upgrades lead from one schema version to the next; user_version counts the applied ones. A
// released upgrade never changes, because files made by it exist.
//
// Times are milliseconds since 1970, UTC. Documents are the JSON of docs/json.md.
var upgrades = []string{
	// Each row of rounds is a check (later versions call the table checks). It has no elapsed_ms
	// while it is running or if it was interrupted. A change in state "intended" was about to be
	// sent, and its outcome is unknown.
	`CREATE TABLE rounds (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	started INTEGER NOT NULL,
	elapsed_ms INTEGER,
	woke_by TEXT NOT NULL,
	caller TEXT NOT NULL,
	complete INTEGER NOT NULL DEFAULT 0,
	observed TEXT NOT NULL DEFAULT '[]',
	reads INTEGER NOT NULL DEFAULT 0,
	writes INTEGER NOT NULL DEFAULT 0,
	polls INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX rounds_started ON rounds(started);
CREATE TABLE changes (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	round INTEGER NOT NULL REFERENCES rounds(id) ON DELETE CASCADE,
	key TEXT NOT NULL,
	cluster TEXT NOT NULL,
	change TEXT NOT NULL,
	state TEXT NOT NULL,
	error TEXT NOT NULL DEFAULT '',
	note TEXT NOT NULL DEFAULT '',
	intended INTEGER,
	settled INTEGER
);
CREATE INDEX changes_round ON changes(round);
CREATE INDEX changes_open ON changes(key) WHERE state = 'intended';
CREATE TABLE findings (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	round INTEGER NOT NULL REFERENCES rounds(id) ON DELETE CASCADE,
	news TEXT NOT NULL,
	cluster TEXT NOT NULL,
	finding TEXT NOT NULL
);
CREATE INDEX findings_round ON findings(round);`,
	// Who made a change necessary is filled in later, because the activity log lags. true_at is
	// when the resource was last seen correct. standing has the findings of the last check, and
	// memory has what keepers must not forget.
	`ALTER TABLE changes ADD COLUMN true_at INTEGER;
ALTER TABLE changes ADD COLUMN writer TEXT NOT NULL DEFAULT '';
ALTER TABLE changes ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;
UPDATE changes SET asked = 1000;
CREATE INDEX changes_unasked ON changes(intended) WHERE asked < 1000;
CREATE TABLE standing (key TEXT PRIMARY KEY, finding TEXT NOT NULL);
CREATE TABLE memory (cluster TEXT PRIMARY KEY, document TEXT NOT NULL);`,
	// Notes are added to the last change with a key that was made.
	`CREATE INDEX changes_done ON changes(key) WHERE state = 'done';`,
	// The names that the program uses.
	`ALTER TABLE rounds RENAME TO checks;
ALTER TABLE changes RENAME COLUMN round TO check_id;
ALTER TABLE findings RENAME COLUMN round TO check_id;`,
	// The event that triggered a check.
	`ALTER TABLE checks ADD COLUMN event TEXT NOT NULL DEFAULT '';`,
	// No notes are added to changes that were made.
	`DROP INDEX changes_done;`,
}

func errNewer(version int) error {
	return fmt.Errorf("a newer routekeeper wrote it (schema %d, this version supports %d)", version,
		len(upgrades))
}

var (
	errOlder = errors.New("it has an older schema")
	errEmpty = fmt.Errorf("it has no tables yet: %w", errOlder)
)

// newest returns why a file cannot be used as it is: it is not a history, or it has another schema.
func newest(q rower) error {
	var owner, version, tables int
	for query, into := range map[string]*int{"PRAGMA application_id": &owner,
		"PRAGMA user_version": &version, "SELECT count(*) FROM sqlite_schema": &tables} {
		if err := q.QueryRow(query).Scan(into); err != nil {
			return err
		}
	}
	switch {
	case owner != application && (owner != 0 || tables > 0):
		return errOtherProgram
	case version == 0:
		return errEmpty
	case version < len(upgrades):
		return errOlder
	case version > len(upgrades):
		return errNewer(version)
	}
	return nil
}

// rower is a database or a transaction.
type rower interface {
	QueryRow(string, ...any) *sql.Row
}

// upgrade upgrades a file to the newest schema, all or nothing. It refuses files that are not a
// history or that a newer program wrote.
func upgrade(db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := newest(tx); !errors.Is(err, errOlder) {
		return err
	}
	var version int
	if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	steps := append(slices.Clone(upgrades[version:]), fmt.Sprintf("PRAGMA application_id = %d",
		application), fmt.Sprintf("PRAGMA user_version = %d", len(upgrades)))
	for _, step := range steps {
		if _, err := tx.Exec(step); err != nil {
			return err
		}
	}
	return tx.Commit()
}

package history

import (
	"database/sql"
	"fmt"
)

// application marks the file as a history (PRAGMA application_id): "rkhi".
const application = 0x726b6869

// upgrades lead from one version of the schema to the next; user_version counts those that were made. One that was released is never
// changed again: files made by it are out there.
//
// Times are milliseconds since 1970, UTC. Documents are the JSON of docs/json.md.
var upgrades = []string{
	// A round has no elapsed_ms while it is under way, or when it was interrupted. A change in state "intended" was about to be sent when
	// it was last heard of.
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
}

func errNewer(version int) error {
	return fmt.Errorf("a newer routekeeper wrote it (schema %d, this one knows %d)", version, len(upgrades))
}

// upgrade brings a file to the newest schema, all or nothing. It refuses files that are not a history, or one of a newer program.
func upgrade(db *sql.DB) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var owner, version, tables int
	for pragma, into := range map[string]*int{"application_id": &owner, "user_version": &version} {
		if err := tx.QueryRow("PRAGMA " + pragma).Scan(into); err != nil {
			return err
		}
	}
	if err := tx.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return err
	}
	switch {
	case owner != application && (owner != 0 || tables > 0):
		return errForeign
	case version > len(upgrades):
		return errNewer(version)
	case version == len(upgrades):
		return nil
	}
	for _, step := range upgrades[version:] {
		if _, err := tx.Exec(step); err != nil {
			return err
		}
	}
	for _, pragma := range []string{fmt.Sprintf("application_id = %d", application), fmt.Sprintf("user_version = %d", len(upgrades))} {
		if _, err := tx.Exec("PRAGMA " + pragma); err != nil {
			return err
		}
	}
	return tx.Commit()
}

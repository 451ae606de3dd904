package history

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// patience is how long a write waits for another program's lock. A keeper waits behind it, so it is short: what cannot be written
// now waits in memory.
const patience = time.Second

var errForeign = errors.New("it is a database of another program")

// address is the file's name for the driver. WAL lets people read while a keeper writes, and a commit is one write to one file.
// synchronous FULL syncs that write: an intent must be on the disk before Azure is told, also where the machine goes down, and a
// repair costs a few milliseconds by it, beside seconds for Azure.
func address(path string, parameters string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	slashed := filepath.ToSlash(absolute)
	if !strings.HasPrefix(slashed, "/") { // C:/…
		slashed = "/" + slashed
	}
	u := url.URL{Scheme: "file", Path: slashed, RawQuery: fmt.Sprintf("_busy_timeout=%d&%s", patience.Milliseconds(), parameters)}
	return u.String(), nil
}

// open opens a history for writing, makes it where there is none, and brings it to the newest schema.
func open(path string) (*sql.DB, error) {
	name, err := address(path, "_auto_vacuum=incremental&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(on)&_pragma=journal_size_limit(4194304)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	// The driver would say that it cannot open it, and not why.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	f.Close()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err = upgrade(db); err == nil {
		err = intact(db)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// intact looks for damage: a file that was cut off, or written over in the middle.
func intact(db *sql.DB) error {
	var found string
	if err := db.QueryRow("PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return &damage{found}
	}
	return nil
}

// damage is what a check found in the file.
type damage struct{ found string }

func (d *damage) Error() string { return "it is damaged: " + strings.ReplaceAll(d.found, "\n", " ") }

// damaged reports whether an error says that the file's content is no good, and not only that it cannot be reached.
func damaged(err error) bool {
	var d *damage
	if errors.As(err, &d) {
		return true
	}
	code := resultCode(err)
	return code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_CORRUPT
}

// resultCode is SQLite's primary result code of an error, 0 for any other.
func resultCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// reason says in a few words why the file cannot be used.
func reason(err error) string {
	var path *os.PathError
	switch resultCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "another program holds it locked"
	case sqlite3.SQLITE_FULL:
		return "the disk is full"
	case sqlite3.SQLITE_READONLY:
		return "it, or its folder, is read-only"
	case sqlite3.SQLITE_CANTOPEN:
		return "it, or its folder, cannot be opened for writing"
	case sqlite3.SQLITE_NOTADB:
		return "it is not a database"
	case sqlite3.SQLITE_CORRUPT:
		return "it is damaged"
	case sqlite3.SQLITE_IOERR:
		return "the disk fails: " + err.Error()
	}
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// setAside renames a damaged history, so that a new one can begin and nothing of the old one is lost. What may be anybody's file
// stays where it is: only one that begins as a database does, or is named as one, can have been a history.
func setAside(path string, now time.Time) (string, error) {
	if !strings.HasSuffix(path, Extension) && !beginsAsDatabase(path) {
		return "", errors.New("it is not a history, and is left alone")
	}
	aside := path + ".damaged-" + now.UTC().Format("20060102-150405")
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	for _, part := range []string{"-wal", "-shm"} { // they belong to the file, and would be taken for the new one's
		if err := os.Rename(path+part, aside+part); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return aside, nil
}

func beginsAsDatabase(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 16)
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == "SQLite format 3\x00"
}

package history

import (
	"cmp"
	"database/sql"
	"encoding/binary"
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

var errForeign = errors.New("it is another program's database")

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

// file is an open history.
type file struct {
	*sql.DB
	// raw is the same file, to look at its beginning. It is open for as long as the database is: POSIX takes all locks of a program on
	// a file away when it closes one descriptor of it (https://sqlite.org/howtocorrupt.html, 2.2).
	raw *os.File
}

// Close closes the file.
func (f *file) Close() error { return cmp.Or(f.DB.Close(), f.raw.Close()) }

// open opens a history for writing, makes it where there is none, and brings it to the newest schema.
func open(path string) (_ *file, err error) {
	raw, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err // the driver would say that it cannot open it, and not why
	}
	f := &file{raw: raw}
	defer func() {
		if err != nil {
			raw.Close()
		}
	}()
	parameters := "_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(on)&_pragma=journal_size_limit(4194304)&_txlock=immediate"
	if info, err := raw.Stat(); err != nil {
		return nil, err
	} else if info.Size() == 0 {
		parameters += "&_auto_vacuum=incremental"
	} else if err := usable(path); err != nil {
		return nil, err
	}
	name, err := address(path, parameters)
	if err != nil {
		return nil, err
	}
	if f.DB, err = sql.Open("sqlite", name); err != nil {
		return nil, err
	}
	f.SetMaxOpenConns(1)
	if err = upgrade(f.DB); err == nil {
		err = intact(f.DB)
	}
	if err != nil {
		f.DB.Close()
		return nil, err
	}
	return f, nil
}

// usable reports why a file that is there cannot be the history, without changing anything in it.
func usable(path string) error {
	name, err := address(path, "mode=ro")
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := newest(db); !errors.Is(err, errOlder) {
		return err
	}
	return nil
}

// inPlace reports whether the path still leads to this file.
func (f *file) inPlace(path string) bool {
	now, err := os.Stat(path)
	if err != nil {
		return false
	}
	opened, err := f.raw.Stat()
	return err == nil && os.SameFile(now, opened)
}

// whole looks at what a program with the file open does not notice soon: that its beginning is another one, or its end is missing
// (https://sqlite.org/fileformat2.html, the database header). It only raises a doubt: another program may be bringing over its log.
func (f *file) whole() bool {
	head := make([]byte, 32)
	n, err := f.raw.ReadAt(head, 0)
	info, statErr := f.raw.Stat()
	if statErr != nil || n == 0 && errors.Is(err, io.EOF) {
		return true // nothing was brought over from the log yet
	}
	size := int64(binary.BigEndian.Uint16(head[16:]))
	if size == 1 {
		size = 1 << 16
	}
	return err == nil && string(head[:len(magic)]) == magic && info.Size() >= size*int64(binary.BigEndian.Uint32(head[28:]))
}

// magic is how every database of SQLite 3 begins.
const magic = "SQLite format 3\x00"

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
		return "it, or its folder, cannot be opened by this user"
	case sqlite3.SQLITE_NOTADB:
		return "it is not a database"
	case sqlite3.SQLITE_CORRUPT:
		return "it is damaged"
	case sqlite3.SQLITE_IOERR:
		return "disk error: " + err.Error()
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
		return "", errors.New("it is not a routekeeper history; it stays unchanged")
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
	head := make([]byte, len(magic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == magic
}

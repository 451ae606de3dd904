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

	"routekeeper.dev/routekeeper/internal/input"
)

// patience is how long a write waits for another program's lock. It is short, because a keeper
// waits for the write. A record that cannot be written now stays in memory.
const patience = time.Second

var errOtherProgram = errors.New("it is another program's database")

// address returns the file's data source name. WAL lets people read while a keeper writes, and
// makes a commit one write to one file. synchronous FULL syncs that write: an intent must be on
// disk before Azure gets the change, even if the machine loses power. That costs a repair a few
// milliseconds, compared to seconds for Azure.
func address(path string, parameters string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	slashed := filepath.ToSlash(absolute)
	if !strings.HasPrefix(slashed, "/") { // C:/…
		slashed = "/" + slashed
	}
	u := url.URL{Scheme: "file", Path: slashed,
		RawQuery: fmt.Sprintf("_busy_timeout=%d&%s", patience.Milliseconds(), parameters)}
	return u.String(), nil
}

// file is an open history.
type file struct {
	*sql.DB
	// raw is the same file, to read its header. It stays open as long as the database: closing one
	// descriptor of a file releases all POSIX locks of the process on it
	// (https://sqlite.org/howtocorrupt.html, 2.2).
	raw *os.File
}

// Close closes the file.
func (f *file) Close() error { return cmp.Or(f.DB.Close(), f.raw.Close()) }

// open opens a history for writing, and creates it if necessary.
func open(path string) (_ *file, err error) {
	raw, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err // the driver's error would not say why
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
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	} else if info.Size() == 0 {
		parameters += "&_auto_vacuum=incremental"
	} else if err := readable(path); err != nil {
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
	if err = prepare(f.DB); err == nil {
		err = intact(f.DB)
	}
	if err != nil {
		f.DB.Close()
		return nil, err
	}
	return f, nil
}

// readable returns why an existing file cannot be the history. It changes nothing in the file,
// except that it rolls back a transaction that a loss of power interrupted: until then, no program
// can read the file.
func readable(path string) error {
	r, err := readAs(path, "mode=ro", "mode=rw")
	if err == nil {
		return r.Close()
	}
	if errors.Is(err, errEmpty) {
		return nil
	}
	return err
}

// interrupted reports whether a file holds an interrupted transaction, and was opened only for
// reading.
func interrupted(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == sqlite3.SQLITE_READONLY_ROLLBACK
}

// inPlace reports whether the path still names this file.
func (f *file) inPlace(path string) bool {
	now, err := os.Stat(path)
	if err != nil {
		return false
	}
	opened, err := f.raw.Stat()
	return err == nil && os.SameFile(now, opened)
}

// whole checks for damage that an open database does not notice soon: another header, or a missing
// end (https://sqlite.org/fileformat2.html, the database header). A failure is only a suspicion:
// another program may be checkpointing its log.
func (f *file) whole() bool {
	head := make([]byte, 32)
	n, err := f.raw.ReadAt(head, 0)
	info, statErr := f.raw.Stat()
	if statErr != nil || n == 0 && errors.Is(err, io.EOF) {
		return true // nothing has been checkpointed from the log yet
	}
	size := int64(binary.BigEndian.Uint16(head[16:]))
	if size == 1 {
		size = 1 << 16
	}
	return err == nil && string(head[:len(magic)]) == magic &&
		info.Size() >= size*int64(binary.BigEndian.Uint32(head[28:]))
}

// magic is the beginning of every SQLite 3 database.
const magic = "SQLite format 3\x00"

// intact checks for damage: a file that was truncated, or overwritten in the middle.
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

// damage is what the check found.
type damage struct{ found string }

func (d *damage) Error() string {
	return "it is damaged: " + strings.ReplaceAll(d.found, "\n", " ")
}

// damaged reports whether an error means that the file's content is damaged, and not only that it
// cannot be accessed.
func damaged(err error) bool {
	if _, ok := errors.AsType[*damage](err); ok {
		return true
	}
	code := resultCode(err)
	return code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_CORRUPT
}

// resultCode returns SQLite's primary result code of an error, or 0.
func resultCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// reason says briefly why the file cannot be used.
func reason(err error) string {
	switch resultCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "another program holds it locked"
	case sqlite3.SQLITE_FULL:
		return input.DiskFull
	case sqlite3.SQLITE_READONLY:
		return "it, or its folder, is read-only"
	case sqlite3.SQLITE_CANTOPEN:
		return "it, or its folder, cannot be opened by this user"
	case sqlite3.SQLITE_NOTADB:
		return "it is not a database"
	case sqlite3.SQLITE_CORRUPT:
		return "it is damaged"
	case sqlite3.SQLITE_IOERR:
		if full := (*sqlite.Error)(nil); errors.As(err, &full) &&
			full.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
			return input.DiskFull
		}
		return "disk error: " + err.Error()
	}
	return input.Reason(err).Error()
}

// setAside renames a damaged history, so that a new one can start and nothing of the old one is
// lost. It leaves other files alone: only a file that starts like a database, or is named like a
// history, can have been one.
func setAside(path string, now time.Time) (string, error) {
	if !strings.HasSuffix(path, Extension) && !beginsAsDatabase(path) {
		return "", errors.New("it is not a routekeeper history; it stays unchanged")
	}
	aside := path + ".damaged-" + now.UTC().Format("20060102-150405")
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	// these belong to the old file, but SQLite would use them for the new one
	for _, part := range []string{"-wal", "-shm"} {
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

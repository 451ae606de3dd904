package history

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// disk records what SQLite does to the files of a folder: every write, truncation, sync, creation
// and deletion, in order. It takes the place of functions of SQLite's layer for files.
type disk struct {
	dir string

	mu      sync.Mutex
	start   media // everything in it is synced
	ops     []op  // since then
	inodes  int
	entries map[string]int  // the inode of each name now
	opened  map[uintptr]int // the inode of each open file, by SQLite's handle
}

// media is what is on a disk: inodes with their content, and names for them.
type media struct {
	content map[int][]byte
	entries map[string]int
}

// op is one operation.
type op struct {
	kind   opKind
	name   string // of a file that is created or removed
	inode  int
	offset int64 // of a write; the new size of a truncation
	data   []byte
}

type opKind int

const (
	write opKind = iota
	truncate
	createFile
	removeFile
	syncFile   // what was done to the inode before is durable
	syncFolder // which files exist is durable
)

// function is the address of a Go function, as SQLite's tables hold it.
func function(f any) uintptr {
	type words [2]uintptr
	return (*words)(unsafe.Pointer(&f))[1]
}

// as is a value in SQLite's memory.
func as[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// called is the function at an address of SQLite's tables.
func called[F any](address uintptr) F {
	return *(*F)(unsafe.Pointer(&struct{ uintptr }{address}))
}

type (
	openFunc     = func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32
	deleteFunc   = func(*libc.TLS, uintptr, uintptr, int32) int32
	writeFunc    = func(*libc.TLS, uintptr, uintptr, int32, int64) int32
	truncateFunc = func(*libc.TLS, uintptr, int64) int32
	syncFunc     = func(*libc.TLS, uintptr, int32) int32
)

// recordDisk records a folder until the test ends. The files in it count as synced.
func recordDisk(t *testing.T, dir string) *disk {
	d := &disk{dir: dir, entries: map[string]int{}, opened: map[uintptr]int{},
		start: media{map[int][]byte{}, map[string]int{}}}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		d.inodes++
		d.start.entries[f.Name()], d.entries[f.Name()] = d.inodes, d.inodes
		if d.start.content[d.inodes], err = os.ReadFile(filepath.Join(dir, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	tls := libc.NewTLS()
	vfs := as[sqlite3.Tsqlite3_vfs](sqlite3.Xsqlite3_vfs_find(tls, 0))
	was := *vfs
	var open openFunc = func(tls *libc.TLS, vfs, path, file uintptr, flags int32,
		out uintptr) int32 {
		rc := called[openFunc](was.FxOpen)(tls, vfs, path, file, flags, out)
		if name := d.name(path); name != "" && rc == sqlite3.SQLITE_OK {
			d.open(name, file)
			d.hook(tls, file, flags&sqlite3.SQLITE_OPEN_CREATE != 0 &&
				flags&(sqlite3.SQLITE_OPEN_WAL|sqlite3.SQLITE_OPEN_MAIN_JOURNAL) != 0)
		}
		return rc
	}
	var unlink deleteFunc = func(tls *libc.TLS, vfs, path uintptr, folder int32) int32 {
		rc := called[deleteFunc](was.FxDelete)(tls, vfs, path, folder)
		if name := d.name(path); name != "" && rc == sqlite3.SQLITE_OK {
			delete(d.entries, name)
			if d.add(op{kind: removeFile, name: name}); folder != 0 {
				d.add(op{kind: syncFolder})
			}
		}
		return rc
	}
	hooks = append(hooks, open, unlink)
	vfs.FxOpen, vfs.FxDelete = function(open), function(unlink)
	t.Cleanup(func() {
		vfs.FxOpen, vfs.FxDelete = was.FxOpen, was.FxDelete
		tls.Close()
	})
	return d
}

// open notes the inode of a file, which can be new.
func (d *disk) open(name string, file uintptr) {
	inode, there := d.entries[name]
	if !there {
		d.inodes++
		inode = d.inodes
		d.entries[name] = inode
		d.add(op{kind: createFile, name: name, inode: inode})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened[file] = inode
}

// hook replaces the functions of an open file. SQLite syncs the folder after the first sync of a
// log or journal that it may have created.
func (d *disk) hook(tls *libc.TLS, file uintptr, syncsFolder bool) {
	was := *as[sqlite3.Tsqlite3_io_methods](as[sqlite3.Tsqlite3_file](file).FpMethods)
	var onWrite writeFunc = func(tls *libc.TLS, file, data uintptr, n int32, at int64) int32 {
		rc := called[writeFunc](was.FxWrite)(tls, file, data, n, at)
		d.add(op{kind: write, inode: d.inode(file), offset: at,
			data: slices.Clone(libc.GoBytes(data, int(n)))})
		return rc
	}
	var onTruncate truncateFunc = func(tls *libc.TLS, file uintptr, size int64) int32 {
		rc := called[truncateFunc](was.FxTruncate)(tls, file, size)
		d.add(op{kind: truncate, inode: d.inode(file), offset: size})
		return rc
	}
	var onSync syncFunc = func(tls *libc.TLS, file uintptr, flags int32) int32 {
		rc := called[syncFunc](was.FxSync)(tls, file, flags)
		if d.add(op{kind: syncFile, inode: d.inode(file)}); syncsFolder {
			syncsFolder = false
			d.add(op{kind: syncFolder})
		}
		return rc
	}
	// In SQLite's memory, because SQLite computes addresses in it. It is never freed.
	table := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(was)))
	methods := as[sqlite3.Tsqlite3_io_methods](table)
	*methods = was
	methods.FxWrite, methods.FxTruncate, methods.FxSync = function(onWrite), function(onTruncate),
		function(onSync)
	hooks = append(hooks, onWrite, onTruncate, onSync)
	as[sqlite3.Tsqlite3_file](file).FpMethods = table
}

// hooks keeps what only SQLite's memory points to.
var hooks []any

// name is the name of a file of the folder, or "".
func (d *disk) name(path uintptr) string {
	if path == 0 {
		return ""
	}
	if p := libc.GoString(path); filepath.Dir(p) == d.dir {
		return filepath.Base(p)
	}
	return ""
}

func (d *disk) inode(file uintptr) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened[file]
}

func (d *disk) add(o op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ops = append(d.ops, o)
}

// length is how many operations there were so far.
func (d *disk) length() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ops)
}

// with returns the media after some operations.
func (m media) with(ops ...op) media {
	next := media{maps.Clone(m.content), maps.Clone(m.entries)}
	for _, o := range ops {
		data := next.content[o.inode]
		switch o.kind {
		case write:
			grown := make([]byte, max(int64(len(data)), o.offset+int64(len(o.data))))
			copy(grown, data)
			copy(grown[o.offset:], o.data)
			next.content[o.inode] = grown
		case truncate:
			cut := make([]byte, o.offset)
			copy(cut, data)
			next.content[o.inode] = cut
		case createFile:
			next.entries[o.name] = o.inode
		case removeFile:
			delete(next.entries, o.name)
		case syncFile, syncFolder: // only make durable what is there
		}
	}
	return next
}

// write writes the files of the media into a folder.
func (m media) write(t *testing.T, dir string) {
	t.Helper()
	for name, inode := range m.entries {
		if err := os.WriteFile(filepath.Join(dir, name), m.content[inode], 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// cuts calls use for a loss of power after each operation, with what is certainly on the disk, and
// the operations that can be lost, each by itself.
func (d *disk) cuts(use func(n int, certain media, unsure []op)) {
	certain := d.start
	var unsure []op
	use(0, certain, nil)
	for n, o := range d.ops {
		if o.kind < syncFile {
			unsure = append(slices.Clip(unsure), o)
		} else {
			var durable, rest []op
			for _, earlier := range unsure {
				names := earlier.kind == createFile || earlier.kind == removeFile
				if o.kind == syncFolder && names ||
					o.kind == syncFile && !names && earlier.inode == o.inode {
					durable = append(durable, earlier)
				} else {
					rest = append(rest, earlier)
				}
			}
			certain, unsure = certain.with(durable...), rest
		}
		use(n+1, certain, unsure)
	}
}

// Package input reads files that other people may have written. It reads only regular files, up to
// a size that the caller sets: a pipe would block, a device never ends, and a parser needs many
// times the memory of its input.
package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Limits for kinds of files. What real files need is far below.
const (
	// Small is for secrets, passwords, certificates, pause files and lists.
	Small = 1 << 20
	// Text is for configs, kubeconfigs, documents and code.
	Text = 16 << 20
	// Large is for what is read piece by piece: plans and bundles.
	Large = 1 << 30
)

// Open opens a regular file. Reading more bytes from it than the limit fails.
func Open(path string, most int64) (*File, error) {
	info, err := os.Stat(path) // before it is opened: opening a device can have an effect
	if err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	// Without waiting: the file may have become a pipe in the meantime.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err = f.Stat()
	if err == nil {
		err = regular(path, info)
	}
	if err == nil && info.Size() > most {
		err = &fs.PathError{Op: "read", Path: path, Err: tooLarge(most)}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{File: f, rest: Limit(f, most)}, nil
}

// regular refuses folders, pipes, devices and sockets.
func regular(path string, info fs.FileInfo) error {
	var what string
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	default:
		what = "a device"
	}
	return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is %s, expected a file", what)}
}

// File is an open regular file.
type File struct {
	*os.File
	rest io.Reader
}

// Read reads, up to the limit.
func (f *File) Read(p []byte) (int, error) { return f.rest.Read(p) }

// WriteTo hides os.File's method, which knows no limit.
func (f *File) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, f.rest) }

// ReadFile returns a regular file of at most the given number of bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := Open(path, most)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Exposed returns a warning if every user of this machine can read a file with a secret. It returns
// "" if they cannot, or if there is no such file.
func Exposed(path string) string {
	if info, err := os.Stat(path); path == "" || err != nil || info.Mode().Perm()&0o004 == 0 {
		return ""
	}
	return fmt.Sprintf("every user of this machine can read %s: chmod o-r it", path)
}

// CheckFiles returns the first error that opening files would give. Files that do not exist are
// fine. It is for files that a library reads.
func CheckFiles(most int64, paths ...string) error {
	for _, path := range paths {
		f, err := Open(path, most)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		}
		f.Close()
	}
	return nil
}

// Limit returns a reader that fails as soon as more bytes are read than the limit.
func Limit(r io.Reader, most int64) io.Reader { return &limited{r: r, left: most, most: most} }

type limited struct {
	r          io.Reader
	left, most int64
}

func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1] // one more shows that there is more
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, tooLarge(l.most)
	}
	return n, err
}

func tooLarge(most int64) error {
	if most < 1<<20 {
		return fmt.Errorf("it is too large, expected at most %d KiB", most>>10)
	}
	return fmt.Errorf("it is too large, expected at most %d MiB", most>>20)
}

// Until returns a reader that fails when the context ends: what takes long can be interrupted
// between two reads.
func Until(ctx context.Context, r io.Reader) io.Reader { return &until{ctx, r} }

type until struct {
	ctx context.Context
	r   io.Reader
}

func (u *until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, fmt.Errorf("reading was interrupted: %w", err)
	}
	return u.r.Read(p)
}

// Folder returns a folder whose files are read as Open does, for code that expects a file system.
func Folder(root string, most int64) fs.FS { return folder{os.DirFS(root), most} }

type folder struct {
	fs.FS
	most int64
}

// Open opens a folder or a regular file.
func (f folder) Open(name string) (fs.File, error) {
	info, err := fs.Stat(f.FS, name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if err := regular(name, info); err != nil {
			return nil, err
		}
		if info.Size() > f.most {
			return nil, &fs.PathError{Op: "read", Path: name, Err: tooLarge(f.most)}
		}
	}
	opened, err := f.FS.Open(name)
	if err != nil || info.IsDir() {
		return opened, err
	}
	return &inFolder{opened, Limit(opened, f.most)}, nil
}

type inFolder struct {
	fs.File
	rest io.Reader
}

func (f *inFolder) Read(p []byte) (int, error) { return f.rest.Read(p) }

// ReadDir lists a folder: fs.Glob needs it.
func (f folder) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(f.FS, name) }

// WriteWhole replaces a file as a whole, because others may read it at any time. They can read it
// whatever the umask is. The temporary file has the extension of the file: a folder of configs may
// hold both.
func WriteWhole(path string, data []byte) error {
	// A new name that cannot be foreseen: a link of another user there would be followed.
	f, err := os.CreateTemp(filepath.Dir(path), ".routekeeper-*"+filepath.Ext(path))
	if err != nil {
		return Unwritten(path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return Unwritten(path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// DiskFull is the reason why nothing can be written to a full disk, with what to do.
const DiskFull = "the disk is full: free some space, then try again"

// Reason returns an error of the file system without the file's name, which may be that of a
// temporary file.
func Reason(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case isFull(err, runtime.GOOS):
		return fullError{err}
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// isFull reports whether an error is that of a full disk. Windows has numbers of its own, which
// syscall.ENOSPC is not: ERROR_HANDLE_DISK_FULL and ERROR_DISK_FULL (Windows' System Error Codes).
func isFull(err error, system string) bool {
	if system == "windows" {
		return errors.Is(err, syscall.Errno(39)) || errors.Is(err, syscall.Errno(112))
	}
	return errors.Is(err, syscall.ENOSPC)
}

// fullError is an error of a full disk, in plain words.
type fullError struct{ error }

func (fullError) Error() string   { return DiskFull }
func (e fullError) Unwrap() error { return e.error }

// Unwritten says that a file cannot be written, and why.
func Unwritten(path string, err error) error {
	return fmt.Errorf("%s cannot be written: %w", path, Reason(err))
}

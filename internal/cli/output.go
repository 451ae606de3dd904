package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/report"
)

// app is one run of the program: its streams and the flags that commands share.
type app struct {
	args     []string // the command line
	piped    []byte   // the whole of standard input, once it was read
	in       io.Reader
	out, err io.Writer
	lines    *daemon.Lines // writes err without waiting; nil if err may block

	timeout time.Duration // --timeout; 0: none
	waiting waiting

	emulatorDir string
	cloudName   string
	// repeat receives the flags that printed commands repeat. It sets them for the whole process.
	// So it is nil where a test runs several command lines in one process.
	repeat func(global, configs []string)
	// program is the name under which this program was called; "" is routekeeper.
	program string

	format  string
	outPath string
	force   bool // --force: an existing --out file is overwritten
	outFile *outFile
}

// outputFlags adds -o and --out to a command that writes a report in one of the given formats. The
// first one is the default.
func (a *app) outputFlags(cmd *cobra.Command, formats ...report.Format) {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = string(f)
	}
	cmd.Flags().StringVarP(&a.format, "output", "o", names[0],
		"`format`: "+strings.Join(names, ", "))
	completeWith(cmd, "output", names)
	a.outFlag(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		return oneOf("--output", "format", a.format, names)
	}
}

func (a *app) outFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.outPath, "out", "", "write to `FILE` instead of standard output (-)")
	cmd.Flags().BoolVar(&a.force, "force", false, "with --out: overwrite the file if it exists")
}

// output opens the destination of the report. Commands call it first, so that they do nothing if
// they cannot report it. A regular file is replaced only when the new one is complete. The writer
// escapes control characters.
func (a *app) output() (io.Writer, report.Format, report.Style, error) { return a.safe(replace) }

// stream opens the destination of a command that keeps running and writes lines. It appends to a
// file.
func (a *app) stream() (io.Writer, report.Format, report.Style, error) { return a.safe(appendOut) }

func (a *app) safe(how opener) (io.Writer, report.Format, report.Style, error) {
	w, err := a.open(how)
	if err != nil {
		return nil, "", report.Style{}, err
	}
	format, style := report.Format(a.format), report.Style{Color: w == a.out && colour(w)}
	return report.Safe(w, format, style), format, style, nil
}

// folded returns a writer that breaks long lines for a person at a terminal. Elsewhere it returns
// w.
func folded(a *app, w io.Writer, format report.Format) io.Writer {
	if format != report.Text || a.outFile != nil || !terminal(a.out) {
		return w
	}
	return report.Fold(w, func() int { return columns(a.out) })
}

// raw opens the destination of output that is not a report. Its bytes are written unchanged.
func (a *app) raw() (io.Writer, error) { return a.open(replace) }

// opener opens the file of --out.
type opener func(path string, overwrite bool) (*outFile, error)

// replacePrivate works like replace for a file that only its owner should read.
func replacePrivate(path string, overwrite bool) (*outFile, error) {
	f, err := replace(path, overwrite)
	if err == nil && f.place != "" {
		f.mode = 0o600
	}
	return f, err
}

// say writes text that is not part of a report. It shows text from outside on one line, with hidden
// characters escaped.
func say(w io.Writer, format string, args ...any) {
	for i, arg := range args {
		switch v := arg.(type) {
		case finding.CommandLine: // safe already
		case error, fmt.Stringer:
			args[i] = finding.Show(fmt.Sprint(v))
		default:
			if reflect.ValueOf(v).Kind() == reflect.String {
				args[i] = finding.Show(fmt.Sprint(v))
			}
		}
	}
	fmt.Fprint(w, report.SafeText(fmt.Sprintf(format, args...), report.Style{}))
}

func (a *app) open(how opener) (io.Writer, error) {
	if a.outPath == "" || a.outPath == "-" {
		return a.out, nil
	}
	f, err := how(a.outPath, a.force)
	if errors.As(err, new(occupied)) {
		return nil, fmt.Errorf("--out: %w", err)
	}
	if err != nil {
		if _, unseen := os.Stat(filepath.Dir(a.outPath)); errors.Is(unseen, fs.ErrNotExist) {
			return nil, fmt.Errorf("--out: the folder %s does not exist", filepath.Dir(a.outPath))
		}
		return nil, fmt.Errorf("--out: %s cannot be written: %w", a.outPath, reason(err))
	}
	a.outFile = f
	return f, nil
}

// outFile is an --out file being written.
type outFile struct {
	*os.File
	place   string      // the final name of the file, "" if it is written in place
	mode    fs.FileMode // the final mode
	written int
	failed  error // of the first write that failed
	// overwrite means that the file may replace one that was written in the meantime.
	overwrite bool
}

func (f *outFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.written += n
	if f.failed == nil {
		f.failed = err
	}
	return n, err
}

// occupied is the error of a path that may not be written.
type occupied string

func (e occupied) Error() string { return string(e) }

// mayWrite returns the rule for files that a flag names: without --force it overwrites no existing
// file, and it never writes through a link. Links to pipes and devices, such as /dev/stdout, are
// written to. A command that appends overwrites nothing.
func mayWrite(path string, overwrite bool) error {
	info, err := os.Lstat(path)
	if err != nil { // opening it says what is wrong
		return nil
	}
	if at, unseen := os.Stat(path); unseen == nil && !at.Mode().IsRegular() && !at.IsDir() {
		return nil
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, _ := os.Readlink(path)
		return occupied(fmt.Sprintf("%s is a link: name the file that it leads to (%s)",
			finding.Show(path), finding.Show(to)))
	case info.Mode().IsRegular() && !overwrite:
		return occupied(finding.Show(path) + " exists; --force overwrites it")
	}
	return nil
}

// replace opens a temporary file next to the one that it will replace. It writes in place if the
// destination is a pipe or a device, or if its folder does not allow new files.
func replace(path string, overwrite bool) (*outFile, error) {
	f, err := replaceWhole(path, overwrite)
	if errors.Is(err, fs.ErrPermission) {
		if there, no := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0); no == nil {
			return &outFile{File: there}, nil
		}
	}
	return f, err
}

// replaceWhole works like replace for a file that must be replaced as a whole.
func replaceWhole(path string, overwrite bool) (*outFile, error) {
	if err := mayWrite(path, overwrite); err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o644)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, errors.New("it is a folder")
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		return &outFile{File: f}, err
	case err == nil:
		mode = info.Mode().Perm()
		probe, err := os.OpenFile(path, os.O_WRONLY, 0) // do not replace a read-only file
		if err != nil {
			return nil, err
		}
		probe.Close()
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".routekeeper-*")
	return &outFile{File: f, place: path, mode: mode, overwrite: overwrite}, err
}

// appendOut opens a file to append to.
func appendOut(path string, _ bool) (*outFile, error) {
	if err := mayWrite(path, true); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	return &outFile{File: f}, err
}

// unread says why a file cannot be read.
func unread(path string, err error) error {
	info, unseen := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", path)
	case unseen == nil && info.IsDir():
		return fmt.Errorf("%s is a folder, expected a file", path)
	}
	return fmt.Errorf("%s cannot be read: %w", path, reason(err))
}

// unreadAt works like unread for an error of the file system. It returns other errors unchanged.
func unreadAt(path string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return unread(path, err)
	}
	return err
}

// reason returns an error of the file system without the file name.
func reason(err error) error { return input.Reason(err) }

// closeOutput finishes the --out file after a command that ended with an error, or nil. It returns
// the command's error, or why the file is not there. When a write fails, the command only knows the
// name of a temporary file.
func (a *app) closeOutput(err error) error {
	f := a.outFile
	if f == nil {
		return err
	}
	a.outFile = nil
	closed := f.finish(err != nil && !errors.Is(err, attention))
	if f.failed != nil {
		closed, err = f.failed, nil
	}
	if closed == nil || err != nil && !errors.Is(err, attention) {
		return err
	}
	return fmt.Errorf("--out: %s cannot be written: %w", a.outPath, reason(closed))
}

// finish moves a finished file to its place. The old file stays if the command failed before it
// wrote anything, or if a write failed.
func (f *outFile) finish(failed bool) error {
	err := f.Close()
	if f.place == "" {
		return err
	}
	if failed && f.written == 0 || f.failed != nil {
		return os.Remove(f.Name())
	}
	if err == nil {
		err = errors.Join(mayWrite(f.place, f.overwrite), os.Chmod(f.Name(), f.mode))
	}
	if err == nil {
		err = os.Rename(f.Name(), f.place)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// standardOutput remembers why a write to it failed, because help, hints and progress do not check.
// After a failed write, it writes nothing more. It uses no lock: a write to a full pipe hangs, and
// must not keep the program from reading the failure and leaving.
type standardOutput struct {
	io.Writer
	failed atomic.Pointer[error]
}

func (o *standardOutput) Write(p []byte) (int, error) {
	if err := o.failure(); err != nil {
		return 0, err
	}
	n, err := o.Writer.Write(p)
	if err != nil {
		err = input.Unwritten("standard output", err)
		o.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (o *standardOutput) failure() error {
	if err := o.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// terminal reports whether a stream is a terminal.
func terminal(stream any) bool {
	fd, is := descriptor(stream)
	return is && term.IsTerminal(fd)
}

// columns returns the width of a terminal, or 0 for anything else.
func columns(stream any) int {
	fd, is := descriptor(stream)
	if !is {
		return 0
	}
	width, _, err := term.GetSize(fd)
	if err != nil {
		return 0
	}
	return width
}

func descriptor(stream any) (fd int, is bool) {
	if out, wraps := stream.(*standardOutput); wraps {
		stream = out.Writer
	}
	f, is := stream.(*os.File)
	if !is {
		return 0, false
	}
	return int(f.Fd()), true
}

// colour reports whether to use colour on a stream: on a terminal, unless NO_COLOR is set
// (no-color.org) or TERM is dumb.
func colour(stream any) bool {
	return terminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

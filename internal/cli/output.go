package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/report"
)

// app is one run of the program: its streams and the flags every command has.
type app struct {
	piped    []byte // what has come from standard input, once it was read
	in       io.Reader
	out, err io.Writer
	lines    *daemon.Lines // what err writes through, nil where that may wait

	emulatorDir string
	cloudName   string

	format  string
	outPath string
	outFile *outFile
}

// outputFlags adds -o and --out to a command that writes a report in the given formats, the first by default.
func (a *app) outputFlags(cmd *cobra.Command, formats ...report.Format) {
	names := ""
	for i, f := range formats {
		if i > 0 {
			names += ", "
		}
		names += string(f)
	}
	cmd.Flags().StringVarP(&a.format, "output", "o", string(formats[0]), "`format`: "+names)
	a.outFlag(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		_, err := report.ParseFormat(a.format, formats...)
		return err
	}
	completions := make([]cobra.Completion, len(formats))
	for i, f := range formats {
		completions[i] = string(f)
	}
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(completions, cobra.ShellCompDirectiveNoFileComp))
}

// outFlag adds --out.
func (a *app) outFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.outPath, "out", "", "write to `FILE` instead of standard output (-)")
}

// output opens where the report goes, before anything else is done: a report that cannot be written is no use afterwards.
// A regular file takes its place only when it is complete, and keeps the one it replaces until then. What is written shows
// all that it holds.
func (a *app) output() (io.Writer, report.Format, report.Style, error) { return a.safe(replaceOut) }

// stream opens where the lines of a command that goes on go: a file can be read while it grows, and what it holds stays.
func (a *app) stream() (io.Writer, report.Format, report.Style, error) { return a.safe(appendOut) }

func (a *app) safe(how func(path string) (*outFile, error)) (io.Writer, report.Format, report.Style, error) {
	w, err := a.open(how)
	if err != nil {
		return nil, "", report.Style{}, err
	}
	format, style := report.Format(a.format), report.Style{Color: w == a.out && colour(w)}
	return report.Safe(w, format, style), format, style, nil
}

// raw opens where a file goes that is no report: its bytes stay as they are.
func (a *app) raw() (io.Writer, error) { return a.open(replaceOut) }

func (a *app) open(how func(path string) (*outFile, error)) (io.Writer, error) {
	if a.outPath == "" || a.outPath == "-" {
		return a.out, nil
	}
	f, err := how(a.outPath)
	if err != nil {
		return nil, fmt.Errorf("--out: %s cannot be written: %w", a.outPath, reason(err))
	}
	a.outFile = f
	return f, nil
}

// outFile is an --out file being written.
type outFile struct {
	*os.File
	place   string      // what the file is renamed to when it is complete, "" when it is written in place
	mode    fs.FileMode // what it is to have there
	written int
	failed  bool
}

func (f *outFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.written += n
	f.failed = f.failed || err != nil
	return n, err
}

// replaceOut opens a file beside the one it is to replace. What is no regular file (a pipe, a device) is written as it
// is, and so is a file in a folder that takes no new one.
func replaceOut(path string) (*outFile, error) {
	place, mode := path, fs.FileMode(0o644)
	if resolved, err := filepath.EvalSymlinks(path); err == nil { // the link stays, what it leads to is replaced
		place = resolved
	}
	info, err := os.Stat(place)
	switch {
	case err == nil && info.IsDir():
		return nil, errors.New("it is a folder")
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(place, os.O_WRONLY, 0)
		return &outFile{File: f}, err
	case err == nil:
		mode = info.Mode().Perm()
		probe, err := os.OpenFile(place, os.O_WRONLY, 0) // one that is read-only is meant to stay
		if err != nil {
			return nil, err
		}
		probe.Close()
	}
	f, err := os.CreateTemp(filepath.Dir(place), ".routekeeper-*")
	if errors.Is(err, fs.ErrPermission) {
		f, err := os.OpenFile(place, os.O_WRONLY|os.O_TRUNC, 0)
		return &outFile{File: f}, err
	}
	return &outFile{File: f, place: place, mode: mode}, err
}

// appendOut opens a file to write behind what it holds.
func appendOut(path string) (*outFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	return &outFile{File: f}, err
}

// reason is an error of the file system without the name of the file, which may be one the user has never heard of.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// closeOutput puts a finished --out file in its place. One that nothing was written to because the command failed leaves
// what is there alone, and so does one that could not be written to its end.
func (a *app) closeOutput(failed bool) error {
	f := a.outFile
	if f == nil {
		return nil
	}
	a.outFile = nil
	err := f.Close()
	if f.place == "" {
		return err
	}
	if failed && f.written == 0 || f.failed {
		return os.Remove(f.Name())
	}
	if err == nil {
		err = os.Chmod(f.Name(), f.mode)
	}
	if err == nil {
		err = os.Rename(f.Name(), f.place)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("--out: %s cannot be written: %w", a.outPath, reason(err))
	}
	return nil
}

// terminal reports whether a stream is one that a person looks at.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colour reports whether to use colour on a stream: on a terminal, unless NO_COLOR is set (no-color.org) or the terminal
// is a dumb one.
func colour(stream any) bool {
	return terminal(stream) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

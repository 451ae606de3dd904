package cli

import (
	"bytes"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/input"
)

// TestEveryCommandHelps: every command says what it does, with examples.
func TestEveryCommandHelps(t *testing.T) {
	for _, c := range commands((&app{}).newRoot()) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
	}
}

// helpOf is what `--help` prints for a command.
func helpOf(t *testing.T, c *cobra.Command) string {
	t.Helper()
	var out bytes.Buffer
	root := c.Root()
	root.SetOut(&out)
	if err := c.Help(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// aloneInLine is a short word alone on a line, between long lines of a paragraph.
var aloneInLine = regexp.MustCompile(`\n\w.{59,}\n\w{1,12}[.:,]?\n\w.{59,}\n`)

// TestHelpFits: no line of any help text is wider than a terminal of 80 columns, and no line ends
// with a space.
func TestHelpFits(t *testing.T) {
	root := (&app{}).newRoot()
	root.InitDefaultCompletionCmd()
	for _, c := range commands(root) {
		c.InitDefaultHelpFlag()
		text := helpOf(t, c)
		if alone := aloneInLine.FindString(text); alone != "" {
			t.Errorf("%s --help: wrapped twice: %q", c.CommandPath(), alone)
		}
		for line := range strings.SplitSeq(text, "\n") {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%s --help: %d columns: %s", c.CommandPath(), n, line)
			}
			if strings.TrimRight(line, " ") != line {
				t.Errorf("%s --help: a line ends with a space: %q", c.CommandPath(), line)
			}
		}
	}
}

// TestHelpOrder: help shows usage, examples, explanations and flags, in this order; the flags of
// run are grouped, and each is in one group.
func TestHelpOrder(t *testing.T) {
	root := (&app{}).newRoot()
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	text := helpOf(t, run)
	for _, want := range []string{
		"Usage:\n  routekeeper run -f FILE", "\nExamples:\n", "\nrun checks ",
		"\nWhat to manage:\n", "--interval", "\nListener and authentication:\n", "--auth-tenant",
		"\nHistory:\n", "--history-age", "\nOutput:\n", "--output", "\nGlobal flags:\n",
	} {
		before, after, found := strings.Cut(text, want)
		if !found {
			t.Fatalf("%q is missing, or in the wrong place, in:\n%s", want, text)
		}
		if strings.Count(before, "\n\n\n") > 0 {
			t.Errorf("two empty lines before %q", want)
		}
		text = after
	}
	if strings.Contains(helpOf(t, run), "\nFlags:\n") {
		t.Error("some flags of run have no group")
	}
}

// TestFullOutput: help that standard output does not take is an error, and one line says so.
func TestFullOutput(t *testing.T) {
	t.Parallel()
	for _, c := range commands((&app{}).newRoot()) {
		if c.DisableFlagParsing { // it has no help
			continue
		}
		path := append(strings.Fields(c.CommandPath())[1:], "--help")
		var said bytes.Buffer
		a := &app{out: full{}, err: &said}
		if code := a.run(t.Context(), path); code != 1 || said.String() != "routekeeper: "+
			"standard output cannot be written: "+input.DiskFull+"\n" {
			t.Errorf("%v exits with %d: %q", path, code, said.String())
		}
	}
}

// full is a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

package report

import (
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/lazy"
)

// Wrap breaks a line that has more columns than a terminal between words. The lines that follow are
// indented. A word that is too long, such as a resource ID, is not broken.
func Wrap(line string, columns, indent int) string {
	if width(line) <= columns {
		return line
	}
	var b strings.Builder
	at := 0
	for i, word := range strings.Split(line, " ") {
		size := width(word)
		switch {
		case i == 0:
		case word != "" && at+1+size > columns && indent+size <= columns:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += size
	}
	return b.String()
}

// pasted matches lines with a command: people paste it.
var pasted = lazy.Regexp(`^(?:next|see): |(?:^|[ (])(?:routekeeper|az|kubectl|terraform) [a-z-]`)

// Fold returns a writer that breaks long lines of a text for people. Continuation lines start below
// the line's last column, or below its words. Text that people paste stays on one line. Each write
// must consist of whole lines.
func Fold(w io.Writer, columns func() int) io.Writer { return &folder{w, columns} }

type folder struct {
	io.Writer
	columns func() int
}

func (f *folder) Write(p []byte) (int, error) {
	lines, columns := strings.Split(string(p), "\n"), f.columns()
	for i, line := range lines {
		text := strings.TrimLeft(line, " ")
		if columns > 0 && !pasted().MatchString(text) {
			lines[i] = Wrap(line, columns, hanging(line, columns))
		}
	}
	if _, err := io.WriteString(f.Writer, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// hanging returns the indent of continuation lines: that of the last column if there is room for
// it, or else two more than the line's own.
func hanging(line string, columns int) int {
	text := strings.TrimLeft(line, " ")
	own := len(line) - len(text)
	if gap := strings.LastIndex(text, "  "); gap >= 0 {
		if last := own + width(text[:gap]) + len("  "); last <= columns/2 {
			return last
		}
	}
	return own + len("  ")
}

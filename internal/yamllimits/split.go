package yamllimits

import "strings"

// Part is one document of a YAML text. Line is the number of lines before it.
type Part struct {
	Line int
	Text string
}

// Split splits a text into its documents, at lines of ---. The YAML library stops at an empty
// document and silently drops what follows. Its line numbers are wrong after CRLF, so each part
// has LF.
func Split(text string) []Part {
	var parts []Part
	var lines []string
	start, n := 0, 0
	flush := func(next int) {
		parts = append(parts,
			Part{start, strings.ReplaceAll(strings.Join(lines, ""), "\r\n", "\n")})
		lines, start = nil, next
	}
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		rest, marker := strings.CutPrefix(line, "---")
		if marker && strings.TrimLeft(rest, " \t\r\n") != rest || marker && rest == "" {
			flush(n)
			line = "   " + rest // keeps the columns of what follows the marker
		}
		lines = append(lines, line)
		n++
	}
	flush(n)
	return parts
}

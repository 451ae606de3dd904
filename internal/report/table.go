package report

import (
	"fmt"
	"io"
	"strings"
)

// Table is a plain table with lines below it. Value is its JSON.
type Table struct {
	Header []string
	Rows   [][]string
	Lines  []string
	Value  any
}

// Write writes the table in the given format.
func (t Table) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, t.Value)
	}
	var b strings.Builder
	switch format {
	case Short:
		for _, row := range t.Rows {
			fmt.Fprintln(&b, cell(strings.Join(row, " ")))
		}
	case Markdown:
		b.WriteString(MarkdownTable(t.Header, t.Rows))
		for _, line := range t.Lines {
			fmt.Fprintf(&b, "\n%s\n", prose(line))
		}
	default:
		b.WriteString(t.text(style))
		if len(t.Lines) > 0 {
			b.WriteString("\n")
			for _, line := range t.Lines {
				fmt.Fprintln(&b, cell(line))
			}
		}
	}
	return put(w, b.String())
}

// text returns the table for a terminal, without the lines below it.
func (t Table) text(style Style) string {
	header := make([]string, len(t.Header))
	for i, h := range t.Header {
		header[i] = style.Bold(h)
	}
	return aligned(append([][]string{header}, t.Rows...))
}

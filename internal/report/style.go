// Package report writes findings, plans, results and tables as text for a terminal, one-line text,
// JSON, Markdown and SARIF. It is pure: the caller says where the output goes, and whether colors
// are wanted. It must not know commands or read Azure.
package report

import (
	"strings"
	"unicode/utf8"
)

// Format is an output format.
type Format string

// Text is for people, Short is one line per item, JSON is for programs, Markdown for pull requests
// and tickets, SARIF for code scanning.
const (
	Text     Format = "text"
	Short    Format = "short"
	JSON     Format = "json"
	Markdown Format = "markdown"
	SARIF    Format = "sarif"
)

// Style says whether text may have colors.
type Style struct{ Color bool }

// paints are the color codes.
var paints = []string{"0", "1", "2", "31", "32", "33"}

// paint colors text, which may come from outside.
func (s Style) paint(code, text string) string {
	if text = plain(text); !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Red, Green, Yellow, Bold and Dim color text if colors are wanted.
func (s Style) Red(text string) string    { return s.paint("31", text) }
func (s Style) Green(text string) string  { return s.paint("32", text) }
func (s Style) Yellow(text string) string { return s.paint("33", text) }
func (s Style) Bold(text string) string   { return s.paint("1", text) }
func (s Style) Dim(text string) string    { return s.paint("2", text) }

// sign returns the sign of a change, and how it is painted.
func (s Style) sign(verb string) (sign string, paint func(string) string) {
	switch verb {
	case "create":
		return "+", s.Green
	case "update", "change", "associate":
		return "~", s.Yellow
	case "delete":
		return "-", s.Red
	case "refuse":
		return "!", s.Red
	}
	return " ", plain
}

// Truncate shortens text without colors to a width in characters, and marks the cut.
func Truncate(s string, width int) string {
	if runes := []rune(s); width > 0 && len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return s
}

// Columns aligns rows for a terminal, two spaces between columns and none after the last. It
// ignores color codes in the width of a cell.
func Columns(rows [][]string) []string {
	rows = cells(rows)
	var widths []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(text))
		}
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		var b strings.Builder
		for j, text := range row {
			if j > 0 {
				b.WriteString("  ")
			}
			b.WriteString(text)
			if j < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[j]-width(text)))
			}
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// aligned returns aligned rows as a text, a line for each.
func aligned(rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	return strings.Join(Columns(rows), "\n") + "\n"
}

// cells returns rows with every cell on one line.
func cells(rows [][]string) [][]string {
	clean := make([][]string, len(rows))
	for i, row := range rows {
		for _, text := range row {
			clean[i] = append(clean[i], cell(text))
		}
	}
	return clean
}

// width counts the characters a terminal shows.
func width(s string) int {
	n := utf8.RuneCountInString(s)
	for {
		start := strings.Index(s, "\x1b[")
		if start < 0 {
			return n
		}
		end := strings.IndexByte(s[start:], 'm')
		if end < 0 {
			return n
		}
		n -= end + 1
		s = s[start+end+1:]
	}
}

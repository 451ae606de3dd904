package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Plain makes text from outside safe for a line that the caller writes.
func Plain(s string) string { return plain(s) }

// plain makes text from outside safe for a terminal and for one line.
func plain(s string) string { return finding.Show(s) }

// cell works like plain for text that may contain the colors of Style.
func cell(s string) string {
	if !strings.Contains(s, "\x1b[") {
		return plain(s)
	}
	var b strings.Builder
	for {
		start, end := paintAt(s)
		b.WriteString(plain(s[:start]))
		if start == end {
			return b.String()
		}
		b.WriteString(s[start:end])
		s = s[end:]
	}
}

// paintAt finds the first color code of Style in a text. Both results are the end of the text if
// there is no color code.
func paintAt(s string) (start, end int) {
	start, end = len(s), len(s)
	for _, code := range paints {
		sequence := "\x1b[" + code + "m"
		if i := strings.Index(s[:min(len(s), start+len(sequence))], sequence); i >= 0 && i < start {
			start, end = i, i+len(sequence)
		}
	}
	return start, end
}

// SafeText returns text of several lines with hidden characters made visible. It is the last
// safeguard, for text that the writer of a report did not escape.
func SafeText(text string, style Style) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if trimmed := strings.TrimLeft(line, " \t"); strings.HasPrefix(trimmed, "::") {
			// GitHub Actions would take the line for a command
			line = strings.Replace(line, "::", `:\x3a`, 1)
		}
		words := strings.Split(line, "\t")
		for j, word := range words {
			if style.Color {
				words[j] = cell(word)
			} else {
				words[j] = plain(word)
			}
		}
		lines[i] = strings.Join(words, "\t")
	}
	return strings.Join(lines, "\n")
}

// SafeJSON returns JSON in which hidden characters are escaped as \u202e. Programs read the same
// values.
func SafeJSON(raw []byte) []byte {
	escaped := func(r rune) bool { return r != '\n' && finding.Hidden(r) }
	pipeline := bytes.Contains(raw, []byte("##"))
	if !pipeline && !bytes.ContainsFunc(raw, escaped) {
		return raw
	}
	if pipeline {
		raw = bytes.ReplaceAll(raw, []byte("##"), []byte(`#\u0023`)) // only in strings
	}
	var b bytes.Buffer
	b.Grow(len(raw))
	for len(raw) > 0 {
		i := bytes.IndexFunc(raw, escaped)
		if i < 0 {
			b.Write(raw)
			break
		}
		b.Write(raw[:i])
		r, size := utf8.DecodeRune(raw[i:])
		raw = raw[i+size:]
		if r <= 0xffff {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		high, low := 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff
		fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
	}
	return b.Bytes()
}

// Safe returns a writer that makes hidden characters visible. Each write must end at the end of a
// character.
func Safe(w io.Writer, format Format, style Style) io.Writer { return &safe{w, format, style} }

type safe struct {
	w      io.Writer
	format Format
	style  Style
}

func (s *safe) Write(p []byte) (int, error) {
	clean := SafeJSON
	if s.format != JSON && s.format != SARIF {
		clean = func(p []byte) []byte { return []byte(SafeText(string(p), s.style)) }
	}
	if _, err := s.w.Write(clean(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

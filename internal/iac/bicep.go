package iac

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/lazy"
)

// bicepFile is Bicep as far as a repair must understand it: the resources, and the text of their
// objects. It evaluates nothing.
type bicepFile struct {
	text string
	// mask is the text with blanks instead of comments and tildes instead of strings, so that every
	// brace in it is a real brace.
	mask      string
	resources []*bicepResource
}

// bicepResource is a resource at the top level of a file.
type bicepResource struct {
	symbol, kind, version string
	at                    int // where its declaration starts
	versionAt             int // where its api-version is
	existing, looped      bool
	body                  bicepSpan
}

// bicepSpan is a part of the text.
type bicepSpan struct{ from, to int }

// bicepMember is a member of an object.
type bicepMember struct {
	name  string
	at    int
	value bicepSpan
}

var bicepDeclaration = lazy.Regexp(`(?m)^[ \t]*resource[ \t]+(\w+)[ \t]+'([^'@\n]+)@([^'\n]+)'[ \t]*(existing[ \t]*)?=`)

func parseBicep(text string) *bicepFile {
	f := &bicepFile{text: text, mask: maskBicep(text)}
	for _, m := range bicepDeclaration().FindAllStringSubmatchIndex(text, -1) {
		keyword := m[0] + strings.Index(text[m[0]:], "resource")
		if f.mask[keyword] != 'r' || f.depth(keyword) != 0 {
			continue // in a comment, or inside another resource
		}
		r := &bicepResource{symbol: text[m[2]:m[3]], kind: text[m[4]:m[5]],
			version: text[m[6]:m[7]], at: keyword, versionAt: m[6], existing: m[8] >= 0}
		if at := f.open(m[1]); at >= 0 {
			r.looped = strings.Contains(f.mask[m[1]:at], "[")
			r.body = bicepSpan{at, f.close(at)}
			f.resources = append(f.resources, r)
		}
	}
	return f
}

// maskBicep makes the mask of a text. It keeps line breaks.
func maskBicep(text string) string {
	out := []byte(text)
	blank := func(from, to int, with byte) int {
		to = min(to, len(out))
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = with
			}
		}
		return to
	}
	for i := 0; i < len(text); {
		switch rest := text[i:]; {
		case strings.HasPrefix(rest, "//"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			i = blank(i, i+end, ' ')
		case strings.HasPrefix(rest, "/*"):
			i = blank(i, i+past(rest, 2, "*/"), ' ')
		case strings.HasPrefix(rest, "'''"):
			i = blank(i, i+past(rest, 3, "'''"), '~')
		case rest[0] == '\'':
			i = blank(i, i+bicepString(rest), '~')
		default:
			i++
		}
	}
	return string(out)
}

// past returns the offset after an end, or the end of the text.
func past(text string, from int, end string) int {
	if i := strings.Index(text[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(text)
}

// bicepString returns the length of the string at the start of a text. Its expressions, ${…}, may
// contain strings themselves.
func bicepString(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == '\'':
			return i + 1
		case text[i] == '\n':
			return i // it does not end; the compiler says so
		case strings.HasPrefix(text[i:], "${"):
			for depth, j := 0, i+1; j < len(text); j++ {
				switch text[j] {
				case '{':
					depth++
				case '}':
					depth--
				case '\'':
					j += bicepString(text[j:]) - 1
				}
				if depth == 0 {
					i = j
					break
				}
			}
		}
	}
	return len(text)
}

// depth returns the number of open braces at an offset.
func (f *bicepFile) depth(at int) int {
	return strings.Count(f.mask[:at], "{") - strings.Count(f.mask[:at], "}")
}

// open returns the first brace after an offset that opens the body of a declaration. Conditions and
// loops may precede it.
func (f *bicepFile) open(at int) int {
	depth := 0
	for i := at; i < len(f.mask); i++ {
		switch f.mask[i] {
		case '(':
			depth++
		case ')':
			depth--
		case '{':
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// close returns the offset after the bracket that closes the one at an offset.
func (f *bicepFile) close(at int) int {
	depth := 0
	for i := at; i < len(f.mask); i++ {
		switch f.mask[i] {
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(f.mask)
}

// members returns the members of the object at a span.
func (f *bicepFile) members(object bicepSpan) []bicepMember {
	var out []bicepMember
	for i := object.from + 1; i < object.to-1; {
		if c := f.mask[i]; c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' {
			i++
			continue
		}
		colon := strings.IndexByte(f.mask[i:object.to], ':')
		line := strings.IndexByte(f.mask[i:object.to], '\n')
		if colon < 0 || line >= 0 && line < colon { // no member: a nested resource, a decorator
			i = f.end(i, object.to)
			continue
		}
		m := bicepMember{name: strings.Trim(strings.TrimSpace(f.text[i:i+colon]), "'"), at: i}
		from := i + colon + 1
		for from < object.to && (f.text[from] == ' ' || f.text[from] == '\t') {
			from++
		}
		end := max(from, f.end(from, object.to))
		m.value = bicepSpan{from, from + len(strings.TrimRight(f.mask[from:end], " \t\r\n,"))}
		out = append(out, m)
		i = max(end, i+1)
	}
	return out
}

// end returns the end of the value at an offset: a line break or comma outside of brackets.
func (f *bicepFile) end(at, limit int) int {
	for i := at; i < limit-1; i++ {
		switch f.mask[i] {
		case '{', '[', '(':
			i = f.close(i) - 1
		case '\n', ',':
			return i
		}
	}
	return limit - 1
}

func (f *bicepFile) member(object bicepSpan, name string) *bicepMember {
	for _, m := range f.members(object) {
		if m.name == name {
			return &m
		}
	}
	return nil
}

// startsWith reports whether the value at a span starts with a bracket.
func (f *bicepFile) startsWith(s bicepSpan, bracket byte) bool {
	return s.from < s.to && f.mask[s.from] == bracket
}

// raw returns a value as written.
func (f *bicepFile) raw(m *bicepMember) string {
	if m == nil {
		return ""
	}
	return f.text[m.value.from:m.value.to]
}

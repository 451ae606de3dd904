package finding

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"routekeeper.dev/routekeeper/internal/lazy"
)

// Show returns text from outside on one line, safe for a terminal. It escapes every character that
// moves the cursor, changes the direction of text or is invisible: \n, \x1b, \u202e. It also breaks
// up what would be a command to the pipeline that shows the text.
func Show(s string) string {
	if shows(s) {
		return s
	}
	s = pipelineCommand().ReplaceAllString(s, `#\x23$1`)
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !Hidden(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// pipelineCommand matches the beginning of a command to GitHub Actions or Azure Pipelines, anywhere
// in a line of a log.
var pipelineCommand = lazy.Regexp(`##([A-Za-z]*\[)`)

// shows reports whether text is displayed as it is.
func shows(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, Hidden) &&
		!(strings.Contains(s, "##") && pipelineCommand().MatchString(s))
}

// Hidden reports whether a character is invisible or changes the display: C0, C1 and DEL; all
// format characters, such as bidi controls and zero-width ones; the two line separators; and
// characters that fill space without a mark.
func Hidden(r rune) bool {
	if r < 0x7f { // nearly all text, and the tables are slow
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

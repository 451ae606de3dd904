package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/report"
)

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestHostileLog: whatever a message, an attribute or an error is, a line of the log is one line
// without hidden characters, as text and as JSON, from which a program reads the value whole.
func TestHostileLog(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		part := rapid.OneOf(rapid.SampledFrom([]string{"\n", "\r", "\t", "\x1b[2J", "\x1b]0;pwn\a",
			"\u009b", "\u202e", "\u2066", "\u200b", "\u2028", "\x7f", "\x00", "\U000e0001", "\xff",
			"::error::x", "##[error]", "##vso[x]", `"`, `\`, "=", " "}), rapid.String())
		return strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		message, key, value := text.Draw(t, "message"), text.Draw(t, "key"), text.Draw(t, "value")
		for _, person := range []bool{true, false} {
			var b bytes.Buffer
			log := logger(&b, true, person, report.Style{Color: person})
			log.With("with", value).WithGroup("group").Warn(message, "value", value, key, value,
				"error", errors.New(value), "list", []string{value},
				slog.Group("inner", key, value))
			line, more, _ := strings.Cut(colours.ReplaceAllString(b.String(), ""), "\n")
			if more != "" || finding.Show(line) != line || strings.HasPrefix(line, "::") {
				t.Errorf("person %t: %q", person, b.String())
			}
			var read struct {
				Msg   string
				Group struct{ Value, Error string }
			}
			if person {
				continue
			}
			if err := json.Unmarshal(b.Bytes(), &read); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if utf8.ValidString(message+value) && key != "error" && key != "value" &&
				(read.Msg != message || read.Group.Value != value || read.Group.Error != value) {
				t.Errorf("%+v, want %q and %q", read, message, value)
			}
		}
	})
}

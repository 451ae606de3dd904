package prove

import (
	"fmt"
	"strings"
	"time"
)

// String returns an answer in one line, such as 412 PreconditionFailedEtagMismatch: message.
func (a Answer) String() string {
	text := fmt.Sprint(a.Status)
	if a.Code != "" {
		text += " " + a.Code
	}
	if a.Message != "" {
		text += ": " + a.Message
	}
	return text
}

// brief returns an answer without its message.
func (a Answer) brief() string { return Answer{Status: a.Status, Code: a.Code}.String() }

// seconds returns a duration as the report shows it.
func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

// yes returns one of two verdicts.
func yes(as bool, confirmed, differs string) (Verdict, string) {
	if as {
		return Confirmed, confirmed
	}
	return Differs, differs
}

func list(items []string) string { return strings.Join(items, ", ") }

package armtemplate

import (
	"fmt"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/lazy"
)

// The supported .NET formats: the default ones, and combinations of these parts.
var (
	defaultTime = "yyyyMMddTHHmmssZ"
	timeNames   = map[string]string{
		"u": "2006-01-02 15:04:05Z", "s": "2006-01-02T15:04:05",
		"o": "2006-01-02T15:04:05.0000000Z",
		"O": "2006-01-02T15:04:05.0000000Z", "d": "01/02/2006",
		"yyyyMMddTHHmmssZ": "20060102T150405Z",
	}
	timeParts = map[string]string{
		"yyyy": "2006", "yy": "06", "MM": "01", "dd": "02", "HH": "15", "mm": "04", "ss": "05",
		"fff": "000", "fffffff": "0000000", "T": "T", "Z": "Z", "-": "-", ":": ":", "/": "/",
		".": ".", " ": " ", "_": "_",
	}
	timePart = lazy.Regexp(`y+|M+|d+|H+|m+|s+|f+|.`)
)

// formatTime formats a time with the last argument, if there is one.
func formatTime(t time.Time, format []any) (any, error) {
	wanted := defaultTime
	if len(format) > 0 {
		is := false
		if wanted, is = format[0].(string); !is {
			return nil, fmt.Errorf("the format is %s", kindOf(format[0]))
		}
	}
	if layout, known := timeNames[wanted]; known {
		return t.UTC().Format(layout), nil
	}
	var b strings.Builder
	for _, part := range timePart().FindAllString(wanted, -1) {
		layout, known := timeParts[part]
		switch {
		case !known:
			return nil, fmt.Errorf("the time format %s is not supported", shorten(wanted))
		case strings.HasPrefix(part, "f"):
			b.WriteString(fmt.Sprintf("%09d", t.Nanosecond())[:len(part)])
		default:
			b.WriteString(t.UTC().Format(layout))
		}
	}
	return b.String(), nil
}

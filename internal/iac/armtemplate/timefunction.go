package armtemplate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/lazy"
)

// Functions on dates (template-functions-date).
var timeFunctions = map[string]function{
	"dateTimeAdd":       {min: 2, max: 3, text: true, call: dateTimeAdd},
	"dateTimeFromEpoch": {min: 1, max: 1, call: fromEpoch},
	"dateTimeToEpoch":   {min: 1, max: 1, call: toEpoch},
}

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

func parseTime(v any) (time.Time, error) {
	s, _ := v.(string)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05Z", "20060102T150405Z",
		"2006-01-02T15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is not a time", shorten(s))
}

var duration = lazy.Regexp(
	`^(-?)P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$`,
)

// dateTimeAdd adds an ISO 8601 duration. Resource Manager counts a year as 365 days and a month as
// 30.
func dateTimeAdd(_ *scope, args []any) (any, error) {
	t, err := parseTime(args[0])
	if err != nil {
		return nil, err
	}
	s, _ := args[1].(string)
	m := duration().FindStringSubmatch(s)
	if m == nil || len(s) < 3 {
		return nil, fmt.Errorf("%s is not a duration", shorten(s))
	}
	seconds := int64(0)
	for i, unit := range []int64{365 * 86400, 30 * 86400, 7 * 86400, 86400, 3600, 60, 1} {
		if m[i+2] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i+2], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s is too long", shorten(s))
		}
		seconds += n * unit
	}
	if m[1] == "-" {
		seconds = -seconds
	}
	t = time.Unix(t.Unix()+seconds, int64(t.Nanosecond()))
	if len(args) == 2 {
		return t.UTC().Format("2006-01-02T15:04:05Z"), nil
	}
	return formatTime(t, args[2:])
}

func fromEpoch(_ *scope, args []any) (any, error) {
	n, is := args[0].(int64)
	if !is {
		return nil, fmt.Errorf("expected a number, not %s", kindOf(args[0]))
	}
	return time.Unix(n, 0).UTC().Format("2006-01-02T15:04:05Z"), nil
}

func toEpoch(_ *scope, args []any) (any, error) {
	t, err := parseTime(args[0])
	if err != nil {
		return nil, err
	}
	return t.Unix(), nil
}

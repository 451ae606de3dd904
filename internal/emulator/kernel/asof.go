package kernel

import (
	"net/http"
	"time"
)

// AsOfHeader has the date as of which a request is answered, because some defaults of Azure have
// changed over the years. Replays of recorded conversations give each request its date.
const AsOfHeader = "Routekeeper-As-Of"

// asOfDate reads the header, a date or an HTTP time. If it is neither, the date of the options is
// used.
func (o Options) asOfDate(h http.Header) time.Time {
	text := h.Get(AsOfHeader)
	for _, layout := range []string{time.DateOnly, time.RFC3339, http.TimeFormat} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	return o.AsOf
}

// Since reports whether a call is answered as of a date or later.
func (c *Call) Since(date string) bool {
	return SinceDate(c.asOf, date)
}

// SinceDate reports whether a time is on a date or later; the zero time is today.
func SinceDate(at time.Time, date string) bool {
	return at.IsZero() || at.UTC().Format(time.DateOnly) >= date
}

// Now returns the time of a call, as of its date.
func (c *Call) Now() time.Time {
	if c.asOf.IsZero() {
		return time.Now()
	}
	return c.asOf
}

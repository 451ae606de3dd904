package kernel

import (
	"net/http"
	"time"
)

// AsOfHeader says in a request as of which date Azure is to answer it: what some defaults are has
// changed over the years.
// Replays of recorded conversations give each request its own date.
const AsOfHeader = "Routekeeper-As-Of"

// asOfDate reads the header, a date or a time as HTTP writes it; what is neither is the date of the
// options.
func (k *Kernel) asOfDate(h http.Header) time.Time {
	text := h.Get(AsOfHeader)
	for _, layout := range []string{time.DateOnly, time.RFC3339, http.TimeFormat} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	return k.Opts.AsOf
}

// Since reports whether a call is answered as of a date or later.
func (c *Call) Since(date string) bool {
	return SinceDate(c.asOf, date)
}

// SinceDate reports whether a time is on a date or later; the zero time is today, by whatever
// clock.
func SinceDate(at time.Time, date string) bool {
	return at.IsZero() || at.UTC().Format(time.DateOnly) >= date
}

// Now is when a call is made, as of its date.
func (c *Call) Now() time.Time {
	if c.asOf.IsZero() {
		return time.Now()
	}
	return c.asOf
}

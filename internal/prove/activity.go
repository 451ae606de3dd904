package prove

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Activity is what the activity log shows about the writes of this run.
type Activity struct {
	// Waited is how long the log was read. Writes is the number of accepted writes of subnets and
	// tables.
	Waited time.Duration
	Writes int
	// Records is the number of records about the written resources, with any correlation ID.
	// Correlated is the number of writes that have records with the correlation ID of their answer.
	Records, Correlated int
	// First and Last are the shortest and the longest time from a write until its record appears.
	First, Last time.Duration
	// Statuses are the statuses of the records of one write, sorted.
	Statuses []string
	// Caller is true if the records name this login.
	Caller bool
}

// logDelay is the maximum delay of a record ("Azure activity log": 3 to 20 minutes).
const logDelay = 20 * time.Minute

func activityFacts() []Fact {
	activity := about(trialActivity, func(o Observed) *Activity { return o.Activity })
	return []Fact{
		activity("log-delay", func(a *Activity) (Verdict, string) {
			switch {
			case a.Writes == 0:
				return Untested, "no write was accepted"
			case a.Records == 0 && a.Waited < logDelay:
				return Untested, "nothing within " + seconds(a.Waited)
			case a.Records == 0:
				return Differs, "nothing within " + seconds(a.Waited)
			case a.Correlated == 0:
				return Untested, "no record can be matched to a write"
			}
			seen := fmt.Sprintf("%d of %d writes, after %s at first and %s at last",
				a.Correlated, a.Writes, seconds(a.First), seconds(a.Last))
			return yes(a.Last <= logDelay, seen, seen)
		}),
		activity("log-correlation", func(a *Activity) (Verdict, string) {
			if a.Records == 0 {
				return Untested, "the log showed nothing within " + seconds(a.Waited)
			}
			return yes(a.Correlated > 0, fmt.Sprintf("of %d of %d writes", a.Correlated, a.Writes),
				fmt.Sprintf("%d records, none with the correlation ID of a write", a.Records))
		}),
		activity("log-records", func(a *Activity) (Verdict, string) {
			if len(a.Statuses) == 0 {
				return Untested, "no record can be matched to a write"
			}
			seen := strings.Join(a.Statuses, ", ")
			return yes(slices.Contains(a.Statuses, "Started") &&
				slices.Contains(a.Statuses, "Succeeded"),
				seen, seen)
		}),
		activity("log-caller", func(a *Activity) (Verdict, string) {
			if a.Correlated == 0 {
				return Untested, "no record can be matched to a write"
			}
			return yes(a.Caller, "they name this login", "they name another caller or none")
		}),
	}
}

package prove

import (
	"fmt"
	"slices"
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
	return []Fact{
		{
			Name: "log-delay", Trial: trialActivity,
			judge: func(o Observed) (Verdict, string) {
				a := o.Activity
				switch {
				case a == nil:
					return notMade()
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
			},
		},
		{
			Name: "log-correlation", Trial: trialActivity,
			judge: func(o Observed) (Verdict, string) {
				a := o.Activity
				switch {
				case a == nil:
					return notMade()
				case a.Records == 0:
					return Untested, "the log showed nothing within " + seconds(a.Waited)
				}
				return yes(a.Correlated > 0,
					fmt.Sprintf("of %d of %d writes", a.Correlated, a.Writes),
					fmt.Sprintf("%d records, none with the correlation ID of a write",
						a.Records))
			},
		},
		{
			Name: "log-records", Trial: trialActivity,
			judge: func(o Observed) (Verdict, string) {
				a := o.Activity
				switch {
				case a == nil:
					return notMade()
				case len(a.Statuses) == 0:
					return Untested, "no record can be matched to a write"
				}
				return yes(slices.Contains(a.Statuses, "Started") &&
					slices.Contains(a.Statuses, "Succeeded"),
					list(a.Statuses), list(a.Statuses))
			},
		},
		{
			Name: "log-caller", Trial: trialActivity,
			judge: func(o Observed) (Verdict, string) {
				switch {
				case o.Activity == nil:
					return notMade()
				case o.Activity.Correlated == 0:
					return Untested, "no record can be matched to a write"
				}
				return yes(o.Activity.Caller, "they name this login",
					"they name another caller or none")
			},
		},
	}
}

package prove

import (
	"fmt"
	"slices"
	"time"
)

// Activity is what the activity log showed of the writes of this run.
type Activity struct {
	// Waited is for how long it was read, and Writes how many accepted writes of subnets and tables
	// it was read for.
	Waited time.Duration
	Writes int
	// Records are those of the written resources, whatever their correlation ID; Correlated is how
	// many writes have records under the correlation ID of their answer.
	Records, Correlated int
	// First and Last are the shortest and the longest time from a write to its record's being
	// there.
	First, Last time.Duration
	// Statuses are those of one write's records, sorted.
	Statuses []string
	// Caller reports that the records name this login.
	Caller bool
}

// logDelay is how late a record is at most ("Azure activity log": 3 to 20 minutes).
const logDelay = 20 * time.Minute

func activityFacts() []Fact {
	return []Fact{
		{
			Name: "log-delay", Family: familyLog, Trial: trialActivity,
			Question: "How late does the activity log show a write?",
			Expected: "20 minutes at most", Source: sourceDocumented,
			Judged: "the log is read until it shows every write of this run, or --activity-wait " +
				"ends",
			Follows: "History and doctor name who wrote something later than that; alerts on " +
				"writes come " +
				"late, too. Checks by --interval do not wait for it.",
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
					return Untested, "no record can be told to be of one of the writes"
				}
				seen := fmt.Sprintf("%d of %d writes, the first %s after it, the last %s after it",
					a.Correlated, a.Writes, seconds(a.First), seconds(a.Last))
				return yes(a.Last <= logDelay, seen, seen)
			},
		},
		{
			Name: "log-correlation", Family: familyLog, Trial: trialActivity,
			Question: "Do a write's answer and its records have the same correlation ID?",
			Expected: "yes: this tells the keeper's own writes from those of others",
			Source:   sourceRecorded,
			Judged: "x-ms-correlation-request-id of each answer, and correlationId of " +
				"the records",
			Follows: "The keeper takes its own writes for those of another writer in history and " +
				"in the " +
				"finding of a conflict: go by the caller instead.",
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
					fmt.Sprintf("%d records, none with the ID of an answer", a.Records))
			},
		},
		{
			Name: "log-records", Family: familyLog, Trial: trialActivity,
			Question: "Is a write Started, perhaps Accepted, and Succeeded under one correlation " +
				"ID?",
			Expected: "yes: what counts is the record of its end", Source: sourceRecorded,
			Judged:  "the statuses of the records of one write",
			Follows: "Who changed a resource may not be found in the log: send the recording.",
			judge: func(o Observed) (Verdict, string) {
				a := o.Activity
				switch {
				case a == nil:
					return notMade()
				case len(a.Statuses) == 0:
					return Untested, "no record can be told to be of one of the writes"
				}
				return yes(slices.Contains(a.Statuses, "Started") &&
					slices.Contains(a.Statuses, "Succeeded"),
					list(a.Statuses), list(a.Statuses))
			},
		},
		{
			Name: "log-caller", Family: familyLog, Trial: trialActivity,
			Question: "Do the records name the login that wrote?",
			Expected: "yes, as caller or in its claims", Source: sourceDocumented,
			Judged: "caller and claims of the records of this run's writes",
			Follows: "history and doctor cannot say who stripped a subnet; the table that a " +
				"cluster's " +
				"identity wrote is not found: name it as routeTableID.",
			judge: func(o Observed) (Verdict, string) {
				switch {
				case o.Activity == nil:
					return notMade()
				case o.Activity.Correlated == 0:
					return Untested, "no record can be told to be of one of the writes"
				}
				return yes(o.Activity.Caller, "they name this login",
					"they name another caller, or none")
			},
		},
	}
}

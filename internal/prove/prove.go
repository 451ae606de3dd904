// Package prove holds the facts about Azure that routekeeper relies on, as a table, and judges what
// a run saw of them in a throwaway resource group.
//
// How it works. A trial makes a few calls (package lab) and records what it saw in Observed. Each
// fact names the trial that answers it, and judges the trial's record. So every fact ends as
// confirmed, differs or untested, whatever else went wrong:
//
//	the trial                          | the fact is
//	-----------------------------------|------------------------------------------------------
//	did not run, or could not end      | untested, and the trial's error says why
//	ended, and Azure did as expected   | confirmed
//	ended, and Azure did otherwise     | differs, and Follows says what that means for a config
//	ended without what it takes        | untested (an operation that ended at once is not superseded)
//
// The table is the design of the command, too: the plan, the documentation and the report are made
// from it.
package prove

import (
	"slices"
	"time"
)

// Verdict is how a fact came out.
type Verdict string

const (
	Confirmed Verdict = "confirmed"
	Differs   Verdict = "differs"
	Untested  Verdict = "untested"
)

// Fact is one thing that routekeeper takes for granted about Azure.
type Fact struct {
	Name, Family string
	Question     string
	// Expected is what routekeeper takes for granted, and Source where that comes from.
	Expected, Source string
	// Judged says what is compared with what.
	Judged string
	// Follows is what it means for a config, or for the program, where Azure does otherwise.
	Follows string
	// Trial is the trial that answers it.
	Trial string

	judge func(Observed) (Verdict, string)
}

// Result is a fact that was judged.
type Result struct {
	Fact
	Verdict Verdict
	Seen    string // what was seen, or why nothing was
}

// The families of facts, in their order.
const (
	familyETags      = "ETags"
	familyWrites     = "Writes"
	familyReads      = "Reads"
	familyWriters    = "Other writers"
	familyLog        = "Activity log"
	familyRights     = "Rights"
	sourceRecorded   = "recorded traffic of Azure, 2022 to 2025"
	sourceUnproven   = "no public source"
	sourceDocumented = "Azure's documentation"
)

// Facts returns the table of facts, in the order in which they are shown.
func Facts() []Fact {
	return slices.Concat(
		etagFacts(), writeFacts(), readFacts(), writerFacts(), activityFacts(), rightFacts())
}

// Choose returns the facts of the given names, all of them where there are none, and the names that
// no fact has.
func Choose(names []string) (chosen []Fact, unknown []string) {
	all := Facts()
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(f Fact) bool { return f.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	for _, f := range all {
		if slices.Contains(names, f.Name) {
			chosen = append(chosen, f)
		}
	}
	return chosen, unknown
}

// Judge judges facts by what was seen.
func Judge(facts []Fact, seen Observed) []Result {
	results := make([]Result, 0, len(facts))
	for _, f := range facts {
		r := Result{Fact: f}
		switch why, failed := seen.Failed[f.Trial]; {
		case failed && f.Family != familyRights: // a right is judged by refusals, too
			r.Verdict, r.Seen = Untested, why
		default:
			r.Verdict, r.Seen = f.judge(seen)
		}
		results = append(results, r)
	}
	return results
}

// Observed is what the trials saw. A trial that was not made to its end left its part nil, and a
// reason in Failed.
type Observed struct {
	Failed map[string]string // by the name of the trial

	Subnet, Table *Write
	Shared        *Shared
	Strip         *Strip
	Unknown       *Unknown
	Network       *Network
	Reads         *Reads
	Limit         *Limit
	SameTable     *Race
	Siblings      *Race
	TableOverlap  *Overlap
	SubnetOverlap *Overlap
	Interface     *Interface
	InUse         *Answer
	Activity      *Activity
	Rights        Rights
}

// Answer is what is judged of an answer.
type Answer struct {
	Status        int
	Code, Message string
	// Again reports that the answer says to try again later.
	Again bool
	Took  time.Duration
}

// OK reports whether the call was accepted.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// notMade is what is said of a trial that left nothing.
func notMade() (Verdict, string) { return Untested, "it was not tried" }

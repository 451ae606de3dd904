// Package prove has the facts about Azure that routekeeper relies on, and judges what a run
// observed about them.
//
// How it works. A trial makes a few calls (package lab) and records its observations in Observed.
// Each fact names the trial that answers it, and judges the trial's record. So every fact ends as
// confirmed, differs or untested, whatever else fails:
//
//	the trial                          | the fact is
//	-----------------------------------|------------------------------------------------------
//	did not run, or could not end      | untested, and the trial's error says why
//	ended, and Azure did as expected   | confirmed
//	ended, and Azure did otherwise     | differs, and Follows has the consequence for a config
//	ended, but tested nothing          | untested (an operation that ended at once is not superseded)
//
// The texts of the facts are in docs/prove.md. The package
// must not call Azure.
package prove

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/docs"
)

// Verdict is the result of a fact.
type Verdict string

const (
	Confirmed Verdict = "confirmed"
	Differs   Verdict = "differs"
	Untested  Verdict = "untested"
)

// Fact is one assumption of routekeeper about Azure.
type Fact struct {
	Name     string `json:"name"`
	Family   string `json:"family"`
	Question string `json:"question"`
	// Expected is the assumption, and Source its source.
	Expected string `json:"expected"`
	Source   string `json:"source"`
	// Judged says what is compared.
	Judged string `json:"judged"`
	// Trial is the trial that tests it.
	Trial string `json:"trial"`
	// Follows is the consequence for a config or the program if Azure differs.
	Follows string `json:"-"`

	judge func(Observed) (Verdict, string)
}

// Result is a fact with its verdict.
type Result struct {
	Fact
	Verdict Verdict `json:"verdict,omitempty"`
	Seen    string  `json:"seen,omitempty"` // what was observed, or why nothing was
	// So is the consequence, "" unless Azure differs.
	So string `json:"follows,omitempty"`
}

// familyRights is the family of the facts about rights.
const familyRights = "Rights"

// Facts returns the facts in the order of display. Those about rights are made from the keeper's
// roles. The texts of the others are in the tables of docs/prove.md, one for each family: name,
// question, what is expected with its source in brackets, how it is judged, and what follows.
func Facts() []Fact {
	judged := map[string]Fact{}
	for _, f := range slices.Concat(etagFacts(), writeFacts(), readFacts(), writerFacts(),
		activityFacts()) {
		judged[f.Name] = f
	}
	var all []Fact
	family := ""
	for line := range strings.Lines(docs.Prove) {
		if title, is := strings.CutPrefix(line, "### "); is {
			family = strings.TrimSpace(title)
		}
		cells := strings.Split(line, " | ")
		f, is := judged[strings.Trim(cells[0], "| `")]
		if len(cells) != 5 || !is {
			continue
		}
		source := strings.LastIndex(cells[2], " (")
		f.Family, f.Question, f.Judged = family, cells[1], cells[3]
		f.Expected, f.Source = cells[2][:source], strings.TrimSuffix(cells[2][source+2:], ")")
		f.Follows = strings.TrimSuffix(strings.TrimSpace(cells[4]), " |")
		all = append(all, f)
	}
	return append(all, rightFacts()...)
}

// Choose returns the named facts, or all of them without names, and the names that no fact has.
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

// Judge judges facts by the observations.
func Judge(facts []Fact, seen Observed) []Result {
	results := make([]Result, 0, len(facts))
	for _, f := range facts {
		r := Result{Fact: f}
		switch why, failed := seen.Failed[f.Trial]; {
		case failed && f.Family != familyRights: // refusals are evidence about rights
			r.Verdict, r.Seen = Untested, why
		default:
			r.Verdict, r.Seen = f.judge(seen)
		}
		if r.Verdict == Differs {
			r.So = f.Follows
		}
		results = append(results, r)
	}
	return results
}

// Observed has the observations of the trials. Failed has the reason why a trial did not complete;
// what its field shows does not count.
type Observed struct {
	Failed map[string]string // by trial

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

// Answer is the part of an answer that facts depend on.
type Answer struct {
	Status        int
	Code, Message string
	// Again is true if the answer asks to try again later.
	Again bool
}

// OK reports whether the call was accepted.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

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

// about returns how the facts of a trial are made from their names and from what judges its record.
// Without a record they are untested.
func about[T any](trial string, record func(Observed) *T,
) func(name string, judge func(*T) (Verdict, string)) Fact {
	return func(name string, judge func(*T) (Verdict, string)) Fact {
		return Fact{Name: name, Trial: trial, judge: func(o Observed) (Verdict, string) {
			if r := record(o); r != nil {
				return judge(r)
			}
			return Untested, "it was not tested"
		}}
	}
}

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

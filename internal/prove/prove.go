// Package prove has the facts about Azure that routekeeper relies on, and the trials that test
// them.
//
// How it works. A trial makes a few calls, and judges its facts by the answers (package lab). Every
// call also shows something about rights, even a refused one: the facts about rights are judged at
// the end (right.go). So every fact ends as confirmed, differs or untested, whatever else fails:
//
//	the trial                          | the fact is
//	-----------------------------------|------------------------------------------------------
//	did not run, or could not end      | untested, and the trial's error says why
//	ended, and Azure did as expected   | confirmed
//	ended, and Azure did otherwise     | differs, and Follows has the consequence for a config
//	ended, but tested nothing          | untested (an operation that ended at once is not superseded)
//
// The texts of the facts are in docs/prove.md. The package must not call Azure.
package prove

import (
	"fmt"
	"slices"
	"strings"

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

	action string // the one that a fact about a right is about
}

// Judgement is the verdict on a fact.
type Judgement struct {
	Verdict Verdict `json:"verdict,omitempty"`
	Seen    string  `json:"seen,omitempty"` // what was observed, or why nothing was
}

// Result is a fact with its verdict.
type Result struct {
	Fact
	Judgement
	// So is the consequence, "" unless Azure differs.
	So string `json:"follows,omitempty"`
}

// familyRights is the family of the facts about rights.
const familyRights = "Rights"

// Facts returns the facts in the order of display. The ones about rights are made from the keeper's
// roles. The texts of the others are in the tables of docs/prove.md, one for each family: name,
// question, what is expected with its source in brackets, how it is judged, and what follows.
func Facts() []Fact {
	trialOf := map[string]string{}
	for _, t := range trials {
		for _, fact := range t.facts {
			trialOf[fact] = t.Name
		}
	}
	var all []Fact
	family := ""
	for line := range strings.Lines(docs.Prove) {
		if title, is := strings.CutPrefix(line, "### "); is {
			family = strings.TrimSpace(title)
		}
		cells := strings.Split(line, " | ")
		name := strings.Trim(cells[0], "| `")
		if len(cells) != 5 || trialOf[name] == "" {
			continue
		}
		source := strings.LastIndex(cells[2], " (")
		all = append(all, Fact{
			Name: name, Family: family, Question: cells[1], Judged: cells[3], Trial: trialOf[name],
			Expected: cells[2][:source], Source: strings.TrimSuffix(cells[2][source+2:], ")"),
			Follows: strings.TrimSuffix(strings.TrimSpace(cells[4]), " |"),
		})
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

// Judge returns the results of facts by what the trials observed.
func Judge(facts []Fact, seen Observed) []Result {
	results := make([]Result, 0, len(facts))
	for _, f := range facts {
		r := Result{Fact: f, Judgement: seen.Facts[f.Name]}
		switch why, failed := seen.Failed[f.Trial]; {
		case f.Family == familyRights: // refusals are evidence about rights
			r.Judgement = judgeRight(seen, f.action)
		case failed:
			r.Judgement = Judgement{Untested, why}
		case r.Verdict == "":
			r.Judgement = Judgement{Untested, "it was not tested"}
		}
		if r.Verdict == Differs {
			r.So = f.Follows
		}
		results = append(results, r)
	}
	return results
}

// Observed has what the trials observed. Failed has the reason why a trial did not complete; what
// Facts has about that trial's facts does not count.
type Observed struct {
	Failed map[string]string    // by trial
	Facts  map[string]Judgement // without the ones about rights
	Rights Rights
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

// Brief returns an answer without its message.
func (a Answer) Brief() string { return Answer{Status: a.Status, Code: a.Code}.String() }

package prove

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTable: each fact is complete and unique, and has a trial.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, f := range Facts() {
		for field, text := range map[string]string{"Family": f.Family, "Question": f.Question,
			"Expected": f.Expected, "Source": f.Source, "Judged": f.Judged, "Follows": f.Follows} {
			if text == "" || strings.ContainsAny(text, "|\n") {
				t.Errorf("%s: %s %q does not fit into a table", f.Name, field, text)
			}
		}
		if names[f.Name] || f.Name == "" || strings.ContainsAny(f.Name, " /") {
			t.Errorf("the name %q is there twice, or cannot be typed", f.Name)
		}
		names[f.Name] = true
		if !slices.ContainsFunc(trials, func(x Trial) bool { return x.Name == f.Trial }) {
			t.Errorf("%s: no trial is named %q", f.Name, f.Trial)
		}
	}
	for _, x := range trials {
		answers := slices.ContainsFunc(Facts(), func(f Fact) bool { return f.Trial == x.Name })
		if !answers && x.Name != TrialSetup && x.Name != TrialCleanUp {
			t.Errorf("the trial %s answers no fact", x.Name)
		}
	}
}

// TestNothingSeen: without any trial, every fact is untested, with a reason.
func TestNothingSeen(t *testing.T) {
	for _, r := range Judge(Facts(), Observed{Rights: Rights{Unread: "no call"}}) {
		if r.Verdict != Untested || r.Seen == "" {
			t.Errorf("%s: %s %q", r.Name, r.Verdict, r.Seen)
		}
	}
}

// TestChoose: facts are chosen by name, with the trials that they need.
func TestChoose(t *testing.T) {
	facts, unknown := Choose([]string{"log-delay", "nonsense"})
	if len(facts) != 1 || len(unknown) != 1 || unknown[0] != "nonsense" {
		t.Errorf("%v, %v", facts, unknown)
	}
	var names []string
	for _, x := range Trials(facts) {
		names = append(names, x.Name)
	}
	want := []string{TrialSetup, trialStrip, trialActivity, TrialCleanUp}
	if !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if all, _ := Choose(nil); len(all) != len(Facts()) || len(Trials(all)) != len(trials) {
		t.Error("not all of them")
	}
}

// TestOverlap: which codes count as superseded.
func TestOverlap(t *testing.T) {
	ok, busy := Answer{Status: 200}, Answer{Status: 429, Code: "RetryableError", Again: true}
	for name, c := range map[string]struct {
		seen Overlap
		want Verdict
		text string
	}{
		"superseded": {Overlap{Running: true, First: ok, Second: ok, End: "Canceled",
			EndCode: "CanceledAndSupersededDueToAnotherOperation", EndAgain: true,
			SecondSeen: true},
			Confirmed, "ended as Canceled (CanceledAndSuperseded"},
		"both end": {Overlap{Running: true, First: ok, Second: ok, End: "Succeeded",
			SecondSeen: true},
			Confirmed, "Succeeded"},
		"lost": {Overlap{Running: true, First: ok, Second: ok, End: "Succeeded"},
			Differs, "is lost"},
		"busy": {Overlap{Running: true, First: ok, Second: busy, End: "Succeeded"},
			Confirmed, "for now"},
		"for good": {Overlap{Running: true, First: ok, Second: Answer{Status: 409}},
			Differs, "for good"},
		"new code": {Overlap{Running: true, First: ok, Second: ok, End: "Canceled", EndCode: "X"},
			Differs, "(X)"},
		"at once":   {Overlap{First: ok}, Untested, "at once"},
		"not begun": {Overlap{First: busy}, Untested, "refused"},
	} {
		facts, _ := Choose([]string{"subnet-overlap"})
		r := Judge(facts, Observed{SubnetOverlap: &c.seen})[0]
		if r.Verdict != c.want || !strings.Contains(r.Seen, c.text) {
			t.Errorf("%s: %s %q", name, r.Verdict, r.Seen)
		}
	}
}

// TestRefusedEither: If-Match works only if the refused PUT had no effect.
func TestRefusedEither(t *testing.T) {
	facts, _ := Choose([]string{"table-if-match"})
	w := Write{First: Answer{Status: 200}, Stale: Answer{Status: 412}, Applied: true}
	if r := Judge(facts, Observed{Table: &w})[0]; r.Verdict != Differs {
		t.Errorf("%s %s", r.Verdict, r.Seen)
	}
	w.Applied = false
	if r := Judge(facts, Observed{Table: &w})[0]; r.Verdict != Confirmed {
		t.Errorf("%s %s", r.Verdict, r.Seen)
	}
}

// TestLateLog: a log that is later than documented differs, even if it finally shows everything.
func TestLateLog(t *testing.T) {
	facts, _ := Choose([]string{"log-delay"})
	for last, want := range map[time.Duration]Verdict{time.Minute: Confirmed, time.Hour: Differs} {
		a := Activity{Writes: 1, Records: 2, Correlated: 1, First: time.Second, Last: last}
		if r := Judge(facts, Observed{Activity: &a})[0]; r.Verdict != want {
			t.Errorf("%s: %s %s", last, r.Verdict, r.Seen)
		}
	}
}

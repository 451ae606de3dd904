package prove

import (
	"slices"
	"strings"
	"testing"
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
		for _, fact := range x.facts {
			if !names[fact] {
				t.Errorf("docs/prove.md has no fact %s", fact)
			}
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
	want := []string{TrialSetup, "strip-and-repair", TrialActivity, TrialCleanUp}
	if !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if all, _ := Choose(nil); len(all) != len(Facts()) || len(Trials(all)) != len(trials) {
		t.Error("not all of them")
	}
}

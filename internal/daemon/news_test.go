package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestNews: only news is logged, and once an hour that there is none.
func TestNews(t *testing.T) {
	var log bytes.Buffer
	n := newsOf(slog.New(slog.NewTextHandler(&log, nil)))
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	change := func(state plan.OutcomeState, route string) plan.Outcome {
		return plan.Outcome{State: state, Change: plan.Change{Cluster: "shop", Verb: plan.Delete,
			Resource: "/subscriptions/s", Route: route, Old: &plan.Value{
				AddressPrefix: "10.0.0.0/24"}}}
	}
	held, unread := finding.New(finding.DeletesWithheld, "shop", "",
		"held"), finding.New(finding.ReadFailed, "shop", "", "unread")
	grown := held
	grown.Message = "2 held"
	milder := held
	milder.Severity = finding.Warning
	for i, step := range []struct {
		after    time.Duration
		of       []string
		changes  []plan.Outcome
		observed []plan.Outcome
		findings []finding.Finding
		news     bool
		want     []string // parts of the lines, in order
	}{
		{news: true, want: []string{"msg=check done=0 findings=0"}},
		{},
		{changes: []plan.Outcome{change(plan.Planned, "a")}, news: true,
			want: []string{"msg=planned verb=delete", "msg=check done=0 planned=1"}},
		{changes: []plan.Outcome{change(plan.Planned, "a")}},
		{changes: []plan.Outcome{change(plan.Planned, "a"), change(plan.Planned, "b")}, news: true,
			want: []string{"route=b", "planned=2"}},
		{changes: []plan.Outcome{change(plan.Failed, "a"), change(plan.Skipped, "b"),
			change(plan.Done, "c"), change(plan.Obsolete, "d")}, news: true,
			want: []string{"done=1 failed=1 obsolete=1 skipped=1"}},
		{changes: []plan.Outcome{change(plan.Failed, "a"), change(plan.Skipped, "b")}},
		{of: []string{"play"}},                 // another cluster was checked
		{news: true, want: []string{"done=0"}}, // no longer failing
		{observed: []plan.Outcome{change(plan.Observed, "a")}, news: true,
			want: []string{"msg=observed verb=delete", "msg=check done=0 observed=1"}},
		{observed: []plan.Outcome{change(plan.Observed, "a")}},
		{news: true, want: []string{"done=0"}}, // no longer needed
		{findings: []finding.Finding{held}, news: true,
			want: []string{"msg=finding code=deletes-withheld", "findings=1"}},
		{findings: []finding.Finding{held}},
		{findings: []finding.Finding{milder}, news: true,
			want: []string{`level=WARN msg=finding code=deletes-withheld cluster=shop resource="" ` +
				"message=held was=error", "findings=1"}},
		{findings: []finding.Finding{held}, news: true,
			want: []string{`level=ERROR msg=finding code=deletes-withheld cluster=shop resource="" ` +
				"message=held was=warning", "findings=1"}},
		{findings: []finding.Finding{grown}, news: true,
			want: []string{`level=ERROR msg=finding code=deletes-withheld cluster=shop resource="" ` +
				`message="2 held" was=held`, "findings=1"}},
		{findings: []finding.Finding{held}, news: true, want: []string{"was=\"2 held\"", ""}},
		{after: time.Hour, findings: []finding.Finding{held},
			want: []string{"msg=check done=0 findings=1"}},
		{findings: []finding.Finding{unread}, news: true,
			want: []string{"msg=finding code=read-failed",
				`msg="not checked" code=deletes-withheld`, "findings=1"}},
		{findings: []finding.Finding{held}, news: true,
			want: []string{"msg=finding code=deletes-withheld", "msg=resolved code=read-failed",
				"findings=1"}},
		{news: true, want: []string{"msg=resolved code=deletes-withheld", "findings=0"}},
	} {
		at = at.Add(10*time.Second + step.after)
		log.Reset()
		if got := n.report(keeper.Result{Started: at, Of: step.of, Changes: step.changes,
			OnlyObserved: step.observed, Findings: step.findings}); got != step.news {
			t.Errorf("step %d: news %v", i, got)
		}
		lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
		if log.Len() == 0 {
			lines = nil
		}
		if len(lines) != len(step.want) {
			t.Errorf("step %d: %d lines, want %d:\n%s", i, len(lines), len(step.want), log.String())
			continue
		}
		for j, part := range step.want {
			if !strings.Contains(lines[j], part) {
				t.Errorf("step %d: %s\nlacks %s", i, lines[j], part)
			}
		}
	}
}

// TestStateNews: a state that changes is logged, and what more a broken cluster loses. The other
// sentences of a state are in its findings.
func TestStateNews(t *testing.T) {
	var log bytes.Buffer
	n := newsOf(slog.New(slog.NewTextHandler(&log, nil)))
	for i, step := range []struct {
		state    verdict.State
		sentence string
		want     string
	}{
		{verdict.InSync, "fine", ""},
		{verdict.Broken, "one", "level=ERROR msg=cluster cluster=shop state=broken message=one " +
			"was=in-sync"},
		{verdict.Broken, "one", ""},
		{verdict.Broken, "two", "level=ERROR msg=cluster cluster=shop state=broken message=two " +
			"was=one"},
		{verdict.AtRisk, "two", "level=WARN msg=cluster cluster=shop state=at-risk message=two " +
			"was=broken"},
		{verdict.AtRisk, "three", ""},
	} {
		log.Reset()
		n.verdicts(keeper.Result{Managed: []string{"shop"}, Verdicts: []verdict.Verdict{
			{Cluster: "shop", State: step.state, Sentence: step.sentence}}})
		_, got, _ := strings.Cut(strings.TrimSpace(log.String()), " ")
		if got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// TestOutageNews: an outage of all clusters is a line at its begin, one once it has reached them
// all, and one at its end. What was known before is not told again.
func TestOutageNews(t *testing.T) {
	var log bytes.Buffer
	n := newsOf(slog.New(slog.NewTextHandler(&log, nil)))
	names := []string{"a", "b", "c"}
	lost := finding.New(finding.AssociationLost, "a", "/x", "lost")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	round := func(dark bool, state verdict.State, found ...finding.Finding) string {
		log.Reset()
		for i, name := range names {
			all := found
			if dark {
				var silent []finding.Finding
				for _, c := range names[:i+1] {
					silent = append(silent, finding.New(finding.AzureUnreachable, c, "", "x"))
				}
				all = append(finding.Outage(silent, at, nil), found...)
			}
			n.report(keeper.Result{Started: at, Managed: names, Of: []string{name}, Findings: all,
				Verdicts: []verdict.Verdict{{Cluster: name, State: state}}})
		}
		return log.String()
	}
	round(false, verdict.Broken, lost)
	began := round(true, verdict.Unknown)
	if lines := strings.Split(strings.TrimSpace(began), "\n"); len(lines) != 4 ||
		!strings.Contains(lines[0], "a is not checked") ||
		!strings.Contains(lines[2], "3 clusters are not checked") {
		t.Errorf("its begin:\n%s", began)
	}
	if again := round(true, verdict.Unknown); again != "" {
		t.Errorf("the next checks:\n%s", again)
	}
	over := round(false, verdict.Broken, lost)
	if lines := strings.Split(strings.TrimSpace(over), "\n"); len(lines) != 2 ||
		!strings.Contains(lines[0], "msg=resolved code=azure-unreachable") {
		t.Errorf("its end:\n%s", over)
	}
}

package lab

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/prove"
)

// TestOverlap: which codes count as superseded.
func TestOverlap(t *testing.T) {
	ok := prove.Answer{Status: 200}
	busy := prove.Answer{Status: 429, Code: "RetryableError", Again: true}
	for name, c := range map[string]struct {
		first  ending
		second prove.Answer
		seen   bool
		want   prove.Verdict
		text   string
	}{
		"superseded": {ending{Status: "Canceled", Again: true,
			Code: "CanceledAndSupersededDueToAnotherOperation"}, ok, true,
			prove.Confirmed, "ended as Canceled (CanceledAndSuperseded"},
		"both end": {ending{Status: "Succeeded"}, ok, true, prove.Confirmed, "Succeeded"},
		"lost":     {ending{Status: "Succeeded"}, ok, false, prove.Differs, "is lost"},
		"busy":     {ending{Status: "Succeeded"}, busy, false, prove.Confirmed, "for now"},
		"for good": {ending{}, prove.Answer{Status: 409}, false, prove.Differs, "for good"},
		"new code": {ending{Status: "Canceled", Code: "X"}, ok, false, prove.Differs, "(X)"},
	} {
		j := judgeOverlap(c.first, c.second, c.seen)
		if j.Verdict != c.want || !strings.Contains(j.Seen, c.text) {
			t.Errorf("%s: %s %q", name, j.Verdict, j.Seen)
		}
	}
}

// TestOverlapNotBegun: if the first PUT is refused, nothing is superseded.
func TestOverlapNotBegun(t *testing.T) {
	b := bench{opts: slowly, facts: []string{"subnet-overlap"},
		bends: []bend{refusing(func(r *http.Request) bool { return is(r, "PUT", endNodes) },
			409, "RetryableError", "busy")}}
	r := b.run(t, nil)["subnet-overlap"]
	if r.Verdict != prove.Untested || !strings.Contains(r.Seen, "refused: 409 RetryableError") {
		t.Errorf("%s %q", r.Verdict, r.Seen)
	}
}

// TestRefusedEither: If-Match works only if the refused PUT had no effect.
func TestRefusedEither(t *testing.T) {
	p := putResults{first: prove.Answer{Status: 200}, stale: prove.Answer{Status: 412},
		applied: true}
	if j := judgeStale(p); j.Verdict != prove.Differs {
		t.Errorf("%s %s", j.Verdict, j.Seen)
	}
	p.applied = false
	if j := judgeStale(p); j.Verdict != prove.Confirmed {
		t.Errorf("%s %s", j.Verdict, j.Seen)
	}
}

// TestLateLog: a log that is later than documented differs, even if it finally shows everything.
func TestLateLog(t *testing.T) {
	for last, want := range map[time.Duration]prove.Verdict{
		time.Minute: prove.Confirmed, time.Hour: prove.Differs,
	} {
		a := activity{writes: 1, records: 2, correlated: 1, first: time.Second, last: last}
		if j := a.judgeDelay(); j.Verdict != want {
			t.Errorf("%s: %s %s", last, j.Verdict, j.Seen)
		}
	}
}

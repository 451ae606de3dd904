package finding

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func unreachable(cluster, reason string) Finding {
	return New(AzureUnreachable, cluster, "", "no answer").With(reason)
}

// TestOutage: however many clusters are not answered, it is one finding, and the others stay.
func TestOutage(t *testing.T) {
	since := time.Date(2026, 5, 4, 9, 12, 44, 0, time.UTC)
	other := New(PrefixTaken, "shop", "/subscriptions/s", "taken")
	if got := Outage([]Finding{other}, since, nil); len(got) != 1 || got[0].Code != PrefixTaken {
		t.Errorf("no outage: %v", got)
	}
	if got := Outage(nil, since, nil); got != nil {
		t.Errorf("nothing: %v", got)
	}
	for _, n := range []int{1, 2, 300} {
		findings := []Finding{other}
		for i := range n {
			findings = append(findings,
				unreachable(fmt.Sprintf("c%03d", i), fmt.Sprintf("reason %d", i%5)))
		}
		before := slices.Clone(findings)
		got := Outage(findings, since, nil)
		if len(got) != 2 || got[0].Code != AzureUnreachable || got[1].Code != PrefixTaken {
			t.Fatalf("%d clusters: %v", n, got)
		}
		f := got[0]
		concerned := fmt.Sprintf("%d clusters are", n)
		if n == 1 {
			concerned = "c000 is"
		}
		if want := "Azure has not answered since 09:12:44: " + concerned +
			" not checked, and nothing is changed"; f.Message != want {
			t.Errorf("%q, want %q", f.Message, want)
		}
		if f.Key() != (Finding{Code: AzureUnreachable}).Key() {
			t.Error("its key depends on who is concerned, so it would be news each time")
		}
		text := strings.Join(f.Evidence, "\n")
		if !strings.HasPrefix(text, "since 2026-05-04T09:12:44Z\nnot checked: c000") ||
			len(f.Evidence) > 5 || strings.Count(text, "reason") != min(n, 3) {
			t.Errorf("%d clusters: %s", n, text)
		}
		if n == 300 && !strings.Contains(text, "c009, and 290 more") {
			t.Error(text)
		}
		if !slices.EqualFunc(findings, before, func(a, b Finding) bool {
			return a.Key() == b.Key()
		}) {
			t.Error("the caller's findings are changed")
		}
	}
}

// TestOutageNews: what is not seen in an outage has not resolved itself, of no cluster.
func TestOutageNews(t *testing.T) {
	before := []Finding{New(PrefixTaken, "shop", "", "taken"),
		New(PrefixTaken, "play", "", "taken"), New(ReadFailed, "play", "", "403")}
	now := Outage([]Finding{unreachable("shop", "EOF"), unreachable("play", "EOF")},
		time.Now(), nil)
	c := News(ByKey(before), now)
	if len(c.Appeared) != 1 || len(c.Gone) != 0 || len(c.Hidden) != 3 {
		t.Errorf("%+v", c)
	}
}

// TestSeverityNews: a finding that grows to an error is news, and so is one that becomes milder.
func TestSeverityNews(t *testing.T) {
	warning := New(NodeWithoutRoute, "shop", "", "no route")
	warning.Severity = Warning
	worse := warning
	worse.Severity = Error
	up, down := News(ByKey([]Finding{warning}), []Finding{worse}), News(ByKey([]Finding{worse}),
		[]Finding{warning})
	if len(up.Worse) != 1 || len(up.Appeared)+len(up.Milder)+len(up.Gone) != 0 || up.None() {
		t.Errorf("worse: %+v", up)
	}
	if len(down.Milder) != 1 || len(down.Appeared)+len(down.Worse)+len(down.Gone) != 0 {
		t.Errorf("milder: %+v", down)
	}
	grown := worse
	grown.Message = "2 nodes have no route"
	if c := News(ByKey([]Finding{worse}), []Finding{grown}); len(c.Reworded) != 1 || c.None() {
		t.Errorf("other words: %+v", c)
	}
	out := unreachable("", "EOF")
	more := out
	more.Message = "2 clusters are not checked"
	if c := News(ByKey([]Finding{out}), []Finding{more}); !c.None() {
		t.Errorf("an outage that grows: %+v", c)
	}
	if same := News(ByKey([]Finding{worse}), []Finding{worse}); !same.None() {
		t.Errorf("the same: %+v", same)
	}
}

// TestFailedRepair: a finding is not resolved if its place takes one that the repair failed. Of
// another resource, it is.
func TestFailedRepair(t *testing.T) {
	lost := New(AssociationLost, "shop", "/subscriptions/s/subnets/nodes", "lost")
	drift := New(TargetDrift, "shop", "/subscriptions/s/routeTables/t", "drift")
	refused := New(WriteRefused, "shop", "/subscriptions/s/subnets/NODES", "403")
	c := News(ByKey([]Finding{lost, drift}), []Finding{refused})
	if len(c.Unrepaired) != 1 || c.Unrepaired[0].Code != AssociationLost || len(c.Gone) != 1 ||
		len(c.Appeared) != 1 {
		t.Errorf("refused: %+v", c)
	}
	if c := News(ByKey([]Finding{refused}), nil); len(c.Gone) != 1 {
		t.Errorf("repaired: %+v", c)
	}
}

// TestUnreadNews: a table that is not read may still be missing.
func TestUnreadNews(t *testing.T) {
	gone := New(TableMissing, "shop", "/t", "it does not exist")
	unread, other := New(ReadFailed, "shop", "/t", "no answer"), New(ReadFailed, "b", "/t", "no")
	if c := News(ByKey([]Finding{gone}), []Finding{unread}); len(c.Hidden) != 1 || len(c.Gone) > 0 {
		t.Errorf("%+v", c)
	}
	if c := News(ByKey([]Finding{gone}), []Finding{other}); len(c.Gone) != 1 {
		t.Errorf("%+v", c)
	}
	elsewhere := New(TableMissing, "shop", "/other", "it does not exist")
	if c := News(ByKey([]Finding{elsewhere}), []Finding{unread}); len(c.Gone) != 1 {
		t.Errorf("%+v", c)
	}
	if c := News(ByKey([]Finding{unread}), []Finding{gone}); len(c.Gone) != 1 {
		t.Errorf("%+v", c)
	}
}

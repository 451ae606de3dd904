package notify

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// is checks a cluster that is in a state.
func (n *Notifier) is(s verdict.State, sentence string, found ...finding.Finding) {
	n.Check(time.Now(), []string{"shop"},
		[]verdict.Verdict{{Cluster: "shop", State: s, Sentence: sentence}}, found, nil)
}

// TestLastWord: what people heard last is how the cluster is, whatever it was in between.
func TestLastWord(t *testing.T) {
	type step struct {
		state    verdict.State
		sentence string
	}
	fine := step{verdict.InSync, "fine"}
	nodes, gateway := step{verdict.Broken, "nodes lost"}, step{verdict.Broken, "gateway lost"}
	both, egress := step{verdict.Broken, "both lost"}, step{verdict.Bypassed, "egress"}
	for name, c := range map[string]struct {
		heard, then []step // then within a minute
		want        string
	}{
		"bypassed, then broken":     {[]step{egress}, []step{fine, nodes}, "1 cluster broken"},
		"another cause":             {[]step{nodes}, []step{fine, gateway}, "1 cluster broken"},
		"the same again":            {[]step{nodes}, []step{fine, nodes}, ""},
		"it grew, and shrank again": {[]step{nodes}, []step{both, nodes}, ""},
		"it grew, recovered, is back": {[]step{nodes}, []step{both, fine, both},
			"1 cluster broken"},
		"the same as before it grew": {[]step{nodes}, []step{both, fine, nodes}, ""},
		"replaced, then recovered": {[]step{nodes}, []step{fine, gateway, fine},
			"1 cluster recovered"},
		"recovered, then came and went": {[]step{nodes, fine}, []step{nodes, gateway, fine}, ""},
		"never heard":                   {nil, []step{nodes, fine, gateway}, "1 cluster broken"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(n *Notifier, ch *chat, _ func()) {
				for _, s := range c.heard {
					n.is(s.state, s.sentence)
					time.Sleep(2 * time.Minute)
				}
				ch.told()
				for _, s := range c.then {
					n.is(s.state, s.sentence)
				}
				time.Sleep(2 * time.Minute)
				if got := strings.Join(ch.told(), " | "); got != c.want {
					t.Errorf("told %q, want %q", got, c.want)
				}
			})
		})
	}
}

// TestReturns: a finding that comes back with other words before its end was sent has changed. A
// quoted error is no news.
func TestReturns(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		one, two := errorOn("shop"), errorOn("shop")
		two.Message = "lost, and more"
		for i, step := range []struct {
			back finding.Finding
			want []string
		}{{one, []string{"1 new error"}}, {one, nil}, {two, []string{"1 changed"}}} {
			n.check()
			n.check(step.back)
			time.Sleep(2 * time.Minute)
			if got := c.told(); !slices.Equal(got, step.want) {
				t.Errorf("step %d: told %q, want %q", i, got, step.want)
			}
		}
		failed := func(why string) finding.Finding {
			return finding.New(finding.WriteFailed, "play", "/t", "%s", why)
		}
		n.check(two, failed("timeout at 09:14"))
		time.Sleep(2 * time.Minute)
		c.told()
		n.check(two)
		n.check(two, failed("timeout at 09:15"))
		time.Sleep(2 * time.Minute)
		if got := c.told(); len(got) > 0 {
			t.Errorf("told %q of a quoted error", got)
		}
	})
}

// TestNewestFacts: news that changes before it is sent is sent with its newest cause and next step.
func TestNewestFacts(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		c.set(http.StatusServiceUnavailable, 0) // so the news stays
		checked := func(state verdict.State, sentence string, cause finding.Finding) {
			n.Check(time.Now(), []string{"shop"}, []verdict.Verdict{{Cluster: "shop", State: state,
				Sentence: sentence, Cause: &verdict.Cause{Code: cause.Code,
					Resource: cause.Resource}}}, []finding.Finding{cause}, nil)
		}
		cause := errorOn("shop")
		checked(verdict.Bypassed, "egress", cause)
		cause.Fix = "second"
		checked(verdict.Broken, "1 node", cause)
		cause = finding.New(finding.TableMissing, "shop", "/t", "gone")
		cause.Fix = "third"
		checked(verdict.Broken, "2 nodes", cause)
		n.mu.Lock()
		defer n.mu.Unlock()
		waiting := slices.DeleteFunc(slices.Clone(n.places[0].waiting), func(e Event) bool {
			return e.State == ""
		})
		if len(waiting) != 1 {
			t.Fatalf("%d events: %+v", len(waiting), waiting)
		}
		if e := waiting[0]; e.Kind != Broken || e.Text != "2 nodes" || e.Fix != "third" ||
			e.Code != string(finding.TableMissing) || e.Resource != "/t" {
			t.Errorf("%+v", e)
		}
	})
}

// TestRefusedRepair: people hear that the repair of a broken cluster failed, and its next step, but
// once.
func TestRefusedRepair(t *testing.T) {
	lost := finding.New(finding.AssociationLost, "shop", "/nodes", "lost")
	for _, failed := range []finding.Finding{
		finding.New(finding.WriteRefused, "shop", "/nodes", "refused"),
		finding.New(finding.WriteFailed, "shop", "/nodes", "timeout"),
	} {
		bubble(t, func(n *Notifier, c *chat, _ func()) {
			n.is(verdict.Broken, "nodes lost", lost)
			time.Sleep(2 * time.Minute)
			if got := c.told(); !slices.Equal(got, []string{"1 cluster broken"}) {
				t.Errorf("told %q", got)
			}
			for range 3 {
				n.is(verdict.Broken, "nodes lost", failed)
				time.Sleep(2 * time.Minute)
			}
			if got := c.told(); !slices.Equal(got, []string{"1 new error"}) {
				t.Errorf("told %q of %s", got, failed.Code)
			}
		})
		bubble(t, func(n *Notifier, c *chat, _ func()) { // the event about the cluster says it
			for range 3 {
				n.Check(time.Now(), []string{"shop"}, []verdict.Verdict{{Cluster: "shop",
					State: verdict.Broken, Sentence: "nodes lost",
					Cause: &verdict.Cause{Code: failed.Code, Resource: failed.Resource}}},
					[]finding.Finding{failed}, nil)
				time.Sleep(2 * time.Minute)
			}
			if got := c.told(); !slices.Equal(got, []string{"1 cluster broken"}) {
				t.Errorf("told %q, which %s causes", got, failed.Code)
			}
			n.is(verdict.InSync, "fine")
			n.is(verdict.Broken, "nodes lost", lost) // the next step is another one
			time.Sleep(2 * time.Minute)
			if got := c.told(); !slices.Equal(got, []string{"1 cluster broken"}) {
				t.Errorf("told %q of another cause", got)
			}
		})
	}
}

// TestUnmanaged: people hear when a broken cluster is managed no more, and again when it is back
// and broken. A check that began before says nothing of it.
func TestUnmanaged(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		broken := []verdict.Verdict{{Cluster: "shop", State: verdict.Broken, Sentence: "lost"}}
		fine := []verdict.Verdict{{Cluster: "play", State: verdict.InSync}}
		shop, play := []string{"shop", "play"}, []string{"play"}
		for i, step := range []struct {
			managed  []string
			verdicts []verdict.Verdict
			want     string
		}{
			{shop, broken, "1 cluster broken"},
			{shop, fine, ""}, // a check of the other cluster
			{play, fine, "1 resolved"},
			{play, broken, ""},
			{play, fine, ""},
			{shop, broken, "1 cluster broken"},
		} {
			n.Check(time.Now(), step.managed, step.verdicts, nil, nil)
			time.Sleep(2 * time.Minute)
			if got := strings.Join(c.told(), " | "); got != step.want {
				t.Errorf("step %d: told %q, want %q", i, got, step.want)
			}
		}
		n.Check(time.Now(), play, fine, nil, nil)
		n.Check(time.Now(), shop, []verdict.Verdict{{Cluster: "shop", State: verdict.Bypassed,
			Sentence: "egress"}}, nil, nil)
		time.Sleep(2 * time.Minute)
		if got := c.told(); !slices.Equal(got, []string{"1 cluster bypassed"}) {
			t.Errorf("told %q of a cluster that is back", got)
		}
	})
}

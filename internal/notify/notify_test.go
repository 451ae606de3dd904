package notify

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// chat takes messages in a bubble.
type chat struct {
	mu      sync.Mutex
	status  int           // of its answers
	hang    time.Duration // before each answer
	titles  []string
	arrived []time.Time
}

func (c *chat) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.mu.Lock()
	status, hang := c.status, c.hang
	c.mu.Unlock()
	select {
	case <-time.After(hang):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived = append(c.arrived, time.Now())
	if status == http.StatusOK {
		var title string
		raw := make([]byte, 1<<20)
		n, _ := r.Body.Read(raw)
		if _, rest, is := strings.Cut(string(raw[:n]), `"title":"routekeeper: `); is {
			title, _, _ = strings.Cut(rest, `"`)
		}
		c.titles = append(c.titles, title)
	}
	w.WriteHeader(status)
	return w.Result(), nil
}

func (c *chat) set(status int, hang time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.hang = status, hang
}

// told returns the titles since the last call.
func (c *chat) told() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	titles := c.titles
	c.titles = nil
	return titles
}

// bubble runs a notifier with one place.
func bubble(t *testing.T, test func(n *Notifier, c *chat, stop func()), send ...v1alpha1.News) {
	synctest.Test(t, func(t *testing.T) {
		c := &chat{status: http.StatusOK}
		client := NewClient()
		client.Transport = c
		n := New(Options{Client: client, Secret: fixed("https://hook.example" + secretPath)})
		n.Configure(v1alpha1.NotifySpec{Places: []v1alpha1.Place{{Name: "team",
			Type: v1alpha1.PlaceWebhook, Send: send}}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { n.Run(ctx); close(done) }()
		test(n, c, func() { cancel(); <-done })
		cancel()
		<-done
	})
}

func errorOn(cluster string) finding.Finding {
	return finding.New(finding.AssociationLost, cluster, "/subscriptions/s/x/"+cluster, "lost")
}

func (n *Notifier) check(findings ...finding.Finding) {
	n.Check(time.Now(), nil, nil, findings, nil)
}

// TestGrouped: a check of many clusters is one message, and later news waits for its minute.
func TestGrouped(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		var all []finding.Finding
		for i := range 30 { // 30 checks, each of one cluster
			all = append(all, errorOn(fmt.Sprintf("c%02d", i)))
			n.check(all...)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(gather)
		if got := c.told(); !slices.Equal(got, []string{"30 new errors"}) {
			t.Errorf("told %q", got)
		}
		n.check(all...) // nothing new
		n.check(all[:28]...)
		time.Sleep(40 * time.Second)
		if got := c.told(); len(got) > 0 {
			t.Errorf("told %q within a minute", got)
		}
		n.check(all[:28]...)
		time.Sleep(20 * time.Second)
		if got := c.told(); !slices.Equal(got, []string{"2 resolved"}) {
			t.Errorf("told %q", got)
		}
		time.Sleep(time.Hour)
		if got := c.told(); len(got) > 0 {
			t.Errorf("told %q without news", got)
		}
	})
}

// TestFlapping: what comes and goes between two messages is not told, and an hour of it is at most
// 60 messages.
func TestFlapping(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		n.check(errorOn("shop"))
		time.Sleep(5 * time.Second)
		n.check()
		time.Sleep(5 * time.Minute)
		if got := c.told(); len(got) > 0 {
			t.Errorf("told %q", got)
		}
		for i := range 360 {
			if i%7 < 3 {
				n.check(errorOn("shop"), errorOn("play"))
			} else {
				n.check()
			}
			time.Sleep(10 * time.Second)
		}
		if got := c.told(); len(got) == 0 || len(got) > 60 {
			t.Errorf("%d messages in an hour", len(got))
		}
	})
}

// restored is a route that was put back.
func restored(cluster, table, name string) plan.Outcome {
	return plan.Outcome{State: plan.Done, Change: plan.Change{Verb: plan.Create, Cluster: cluster,
		Resource: arm.ID(table), Route: name, New: &plan.Value{}, Repair: true}}
}

// TestRepairs: the restored routes of a cluster in a table are one event.
func TestRepairs(t *testing.T) {
	var texts []string
	for _, e := range repairs(time.Now(), []plan.Outcome{restored("shop", "/t/appgw-rt", "a"),
		restored("play", "/t/appgw-rt", "a"), restored("shop", "/t/appgw-rt", "b")}) {
		texts = append(texts, e.Cluster+": "+e.Text)
	}
	if want := []string{"shop: appgw-rt has 2 routes again that were lost or changed",
		"play: appgw-rt has 1 route again that was lost or changed"}; !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}

// TestKinds: repairs, conflicts and decisions are sent; warnings and notes are not. What an outage
// hides is not resolved, and not new afterwards.
func TestKinds(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		n.Check(time.Now(), nil, nil, []finding.Finding{
			finding.New(finding.Conflict, "shop", "/a", "x"),
			finding.New(finding.DeletesWithheld, "shop", "/b", "x"),
			finding.New(finding.TargetDrift, "shop", "/c", "a warning"),
			errorOn("shop"),
		}, []plan.Outcome{
			{State: plan.Done, Change: plan.Change{Verb: plan.Associate, Cluster: "shop",
				Resource: arm.ID("/subnets/nodes"), New: &plan.Value{RouteTable: "/t/rt"}}},
			{State: plan.Done, Change: plan.Change{Verb: plan.Create, New: &plan.Value{}}},
			{State: plan.Failed, Change: plan.Change{Verb: plan.Associate, New: &plan.Value{}}},
			restored("shop", "/t/appgw-rt", "a"), restored("shop", "/t/appgw-rt", "b"),
			restored("shop", "/t/other-rt", "a"), restored("play", "/t/appgw-rt", "a"),
		})
		time.Sleep(2 * time.Minute)
		if got := c.told(); !slices.Equal(got,
			[]string{"1 new error, 1 conflict, 1 decision to make, 4 repairs"}) {
			t.Errorf("told %q", got)
		}
		outage := finding.New(finding.AzureUnreachable, "", "", "Azure has not answered")
		n.check(outage)
		time.Sleep(2 * time.Minute)
		if got := c.told(); !slices.Equal(got, []string{"1 new error"}) {
			t.Errorf("told %q of an outage", got)
		}
		n.check(errorOn("shop"))
		time.Sleep(2 * time.Minute)
		if got := c.told(); !slices.Equal(got, []string{"3 resolved"}) {
			t.Errorf("told %q after it", got)
		}
	})
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		n.check(errorOn("shop"), finding.New(finding.Conflict, "shop", "/a", "x"))
		time.Sleep(time.Minute)
		if got := c.told(); !slices.Equal(got, []string{"1 conflict"}) {
			t.Errorf("a place for conflicts gets %q", got)
		}
	}, v1alpha1.NewsConflicts)
}

// TestKnown: a restart tells nothing again. A silenced finding is not told; one that becomes worse
// than it was is.
func TestKnown(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		n.Known(nil, []finding.Finding{errorOn("shop")})
		silenced := errorOn("play")
		silenced.Silenced = &finding.Silence{Reason: "we know"}
		n.check(errorOn("shop"), silenced)
		time.Sleep(time.Minute)
		if got := c.told(); len(got) > 0 {
			t.Errorf("told %q", got)
		}
		n.check(errorOn("shop"), errorOn("play")) // the silence has ended
		time.Sleep(time.Minute)
		if got := c.told(); !slices.Equal(got, []string{"1 new error"}) {
			t.Errorf("told %q", got)
		}
		unread := finding.New(finding.ReadFailed, "play", "/x", "unread")
		unread.Silenced = silenced.Silenced
		n.check(errorOn("shop"), unread) // it hides the other finding
		time.Sleep(time.Minute)
		if got := c.told(); len(got) > 0 {
			t.Errorf("told %q", got)
		}
		n.check()
		time.Sleep(time.Minute)
		if got := c.told(); !slices.Equal(got, []string{"2 resolved"}) {
			t.Errorf("told %q", got)
		}
	})
}

// TestFailing: a place that fails is a finding and gets the news later; what does not fit into the
// queue is counted. Attempts become rare.
func TestFailing(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		c.set(http.StatusServiceUnavailable, 0)
		n.check(errorOn("shop"))
		time.Sleep(15 * time.Second)
		f := n.Findings()
		if len(f) != 1 || f[0].Code != finding.NotifyFailed ||
			!strings.Contains(f[0].Message, "team does not take messages since") ||
			!strings.Contains(f[0].Message, "503 Service Unavailable") {
			t.Errorf("findings %+v", f)
		}
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		if tries := len(c.arrived); tries < 20 || tries > 120 {
			t.Errorf("%d attempts in six hours", tries)
		}
		for i := range mostWaiting + 4 {
			n.check(errorOn("shop"), errorOn(fmt.Sprint("c", i)))
		}
		var many []finding.Finding
		for i := range mostWaiting + 4 {
			many = append(many, errorOn(fmt.Sprint("c", i)))
		}
		n.check(append(many, errorOn("shop"))...)
		c.set(http.StatusOK, 0)
		time.Sleep(longestPause + time.Minute)
		want := []string{"1000 new errors, 5 dropped"}
		if got := c.told(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		counts := n.Counts()["team"]
		if len(n.Findings()) > 0 || counts.Sent != 1 || counts.Failed < 10 || counts.Dropped != 5 {
			t.Errorf("%v, counts %+v", n.Findings(), counts)
		}
	})
}

// TestHanging: a place that hangs delays no check, and the end of the program only for a moment.
func TestHanging(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, stop func()) {
		c.set(http.StatusOK, time.Hour)
		began := time.Now()
		for i := range 5000 {
			n.check(errorOn(fmt.Sprint("c", i)))
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("the checks waited for %s", waited)
		}
		time.Sleep(time.Minute)
		if f := n.Findings(); len(f) != 1 ||
			!strings.Contains(f[0].Message, "it does not answer within 10s") {
			t.Errorf("findings %+v", f)
		}
		began = time.Now()
		stop()
		if waited := time.Since(began); waited > lastWords {
			t.Errorf("the end waited for %s", waited)
		}
	})
}

// TestLastWords: what waits when the program ends is sent.
func TestLastWords(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, stop func()) {
		n.check(errorOn("shop"))
		time.Sleep(time.Second)
		stop()
		if got := c.told(); !slices.Equal(got, []string{"1 new error"}) {
			t.Errorf("told %q", got)
		}
	})
}

// TestConfigure: a removed place gets no more messages, a new one does, and news that waits stays.
func TestConfigure(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		n.check(errorOn("shop"))
		team := v1alpha1.Place{Name: "team", Type: v1alpha1.PlaceWebhook}
		other := v1alpha1.Place{Name: "other", Type: v1alpha1.PlaceWebhook}
		n.Configure(v1alpha1.NotifySpec{Places: []v1alpha1.Place{other, team}})
		n.check(errorOn("shop"), errorOn("play"))
		time.Sleep(time.Minute)
		got := c.told()
		slices.Sort(got)
		if !slices.Equal(got, []string{"1 new error", "2 new errors"}) {
			t.Errorf("told %q", got)
		}
		n.Configure(v1alpha1.NotifySpec{})
		n.check()
		time.Sleep(time.Hour)
		if got := c.told(); len(got) > 0 {
			t.Errorf("told %q without places", got)
		}
	})
}

// TestStates: a cluster that is broken is one event, with the findings that explain it. It is sent
// again when it grows, and when the cluster recovers. An outage, and a silence, are no recovery.
func TestStates(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		is := func(s verdict.State, sentence string, found ...finding.Finding) string {
			t.Helper()
			n.is(s, sentence, found...)
			time.Sleep(2 * time.Minute)
			return strings.Join(c.told(), " | ")
		}
		quiet := func() string {
			n.Check(time.Now(), []string{"shop"}, []verdict.Verdict{{Cluster: "shop",
				State: verdict.AtRisk, Silenced: true}}, nil, nil)
			time.Sleep(2 * time.Minute)
			return strings.Join(c.told(), " | ")
		}
		other := finding.New(finding.Conflict, "shop", "/a", "x")
		for i, step := range []struct{ got, want string }{
			{is(verdict.InSync, "fine"), ""},
			{is(verdict.Broken, "1 node", errorOn("shop")), "1 cluster broken"},
			{is(verdict.Broken, "1 node", errorOn("shop")), ""},
			{is(verdict.Broken, "2 nodes", errorOn("shop"), other), "1 conflict, 1 changed"},
			{is(verdict.Unknown, "not read", other), ""},
			{quiet(), "1 resolved"}, // the conflict
			{is(verdict.Bypassed, "egress", errorOn("shop")), "1 cluster bypassed"},
			{is(verdict.AtRisk, "drift"), "1 cluster recovered"},
			{is(verdict.InSync, "fine"), ""},
		} {
			if step.got != step.want {
				t.Errorf("step %d: told %q, want %q", i, step.got, step.want)
			}
		}
	})
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		broken := []verdict.Verdict{{Cluster: "shop", State: verdict.Broken, Sentence: "1 node"}}
		n.Known(broken, nil)
		n.Check(time.Now(), []string{"shop"}, broken,
			[]finding.Finding{errorOn("shop"), errorOn("play")}, nil)
		time.Sleep(time.Minute)
		if got := c.told(); !slices.Equal(got, []string{"1 new error"}) { // of the other cluster
			t.Errorf("told %q after a restart", got)
		}
	})
}

// TestRecovers: a recovery is sent although other news of the cluster still waits, which is not.
func TestRecovers(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		n.is(verdict.Broken, "1 node")
		time.Sleep(11 * time.Second)
		n.is(verdict.Broken, "2 nodes")
		n.is(verdict.Bypassed, "egress")
		n.is(verdict.InSync, "fine")
		time.Sleep(2 * time.Minute)
		if got := c.told(); !slices.Equal(got,
			[]string{"1 cluster broken", "1 cluster recovered"}) {
			t.Errorf("told %q", got)
		}
		n.is(verdict.Broken, "1 node")
		n.is(verdict.Bypassed, "egress")
		n.is(verdict.InSync, "fine")
		time.Sleep(2 * time.Minute)
		if got := c.told(); len(got) > 0 {
			t.Errorf("told %q of what came and went", got)
		}
	})
}

// TestChanged: words that change before the message is sent are in it, and later ones are sent.
func TestChanged(t *testing.T) {
	bubble(t, func(n *Notifier, c *chat, _ func()) {
		grown := errorOn("shop")
		grown.Message = "lost, and more"
		n.check(errorOn("shop"))
		n.check(grown)
		time.Sleep(2 * time.Minute)
		n.check(errorOn("shop"))
		time.Sleep(2 * time.Minute)
		if got := c.told(); !slices.Equal(got, []string{"1 new error", "1 changed"}) {
			t.Errorf("told %q", got)
		}
	})
}

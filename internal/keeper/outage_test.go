package keeper

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestOutageIsOneFinding: when Azure stops answering in any way, every check reports it in one
// finding without a cluster, which names the beginning of the outage. It appears soon, and
// disappears when Azure is back.
func TestOutageIsOneFinding(t *testing.T) {
	const soon = 30 * time.Second
	for name, fault := range map[string]emulator.Fault{
		"no connection": {Count: -1, Cut: "before"},
		"hangs":         {Count: -1, Hold: "before"},
		"only errors": {Count: -1, Path: "subscriptions", Status: 503,
			Code: "ServiceUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				one, two := w.addCluster("one", "50"), w.addCluster("two", "60")
				k := w.run(10*time.Second, w.demoConfig(),
					configure("one", one.cluster, one.target), configure("two", two.cluster,
						two.target))
				k.since(time.Minute)
				began := time.Now()
				fix := w.inject(fault)
				first, message := time.Duration(0), ""
				for _, r := range k.since(10 * time.Minute) {
					n := 0
					for _, f := range r.Findings {
						if f.Code == finding.AzureUnreachable {
							n++
							message = f.Message
						}
						if f.Cluster != "" {
							t.Errorf("%s is reported for %s: %s", f.Code, f.Cluster, f.Message)
						}
					}
					if at := r.Started.Add(r.Elapsed).Sub(began); n == 1 && first == 0 {
						first = at
					} else if n != 1 && at > soon {
						t.Errorf("after %s: %d findings of an outage", at, n)
					}
				}
				if first == 0 || first > soon {
					t.Errorf("it is reported after %s", first)
				}
				var since time.Time
				if _, rest, told := strings.Cut(message, "has not answered since "); told {
					text := began.Format(time.DateOnly) + " " + rest[:len(time.TimeOnly)]
					since, _ = time.Parse(time.DateTime, text)
				}
				if late := since.Sub(began); late < -time.Second || late > 10*time.Second {
					t.Errorf("it began %s, and is reported as: %s", began.Format(time.TimeOnly),
						message)
				}
				fix()
				k.since(5 * time.Minute)
				for _, r := range k.since(30 * time.Second) {
					w.expect(r, "")
				}
			})
		})
	}
}

// TestOutages: checks that end one by one, answered (+) or not (-), and the resulting findings.
func TestOutages(t *testing.T) {
	const outage = "an outage"
	for name, c := range map[string]struct {
		checks []string
		want   map[string]bool // outage, and clusters with their own trouble
	}{
		"all is well":       {[]string{"a+", "b+"}, nil},
		"the first of many": {[]string{"a+", "b+", "a-"}, map[string]bool{outage: true}},
		"all": {[]string{"a+", "b+", "a-", "b-", "a-", "b-"},
			map[string]bool{outage: true}},
		"one of two": {[]string{"a+", "b+", "a-", "b+", "a-"}, map[string]bool{"a": true}},
		"one of two, told once": {[]string{"a+", "b+", "a-", "b+", "a-", "b+", "b+"},
			map[string]bool{"a": true}},
		"it is over, not yet for b": {[]string{"a-", "b-", "a+"}, map[string]bool{outage: true}},
		"it is over, but not for b": {[]string{"a-", "b-", "a+", "b-"}, map[string]bool{"b": true}},
		"it is over":                {[]string{"a-", "b-", "a+", "b+"}, nil},
		"one, and then all": {[]string{"a-", "b+", "c+", "a-", "b-", "c-"},
			map[string]bool{"a": true, outage: true}},
		"the only one": {[]string{"a+", "a-", "a-"}, map[string]bool{outage: true}},
		"trouble that ended, and an": {[]string{"a-", "b+", "a-", "a+", "a-", "b-"},
			map[string]bool{outage: true}},
	} {
		o := outages{silent: map[string]silence{}}
		unanswered := map[string]finding.Finding{}
		for i, check := range c.checks {
			cluster, answered := check[:1], check[1] == '+'
			o.note(cluster, time.Unix(int64(i), 0), answered)
			delete(unanswered, cluster)
			if !answered {
				unanswered[cluster] = finding.New(finding.AzureUnreachable, cluster, "",
					"no answer")
			}
		}
		var findings []finding.Finding
		for _, f := range unanswered {
			findings = append(findings, f)
		}
		got := map[string]bool{}
		for _, f := range o.fold(findings) {
			if f.Cluster == "" {
				got[outage] = true
			} else {
				got[f.Cluster] = true
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		for what := range c.want {
			if !got[what] {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	}
}

package deploy

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// anchors are the anchors of a Markdown page, as GitHub makes them.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(raw), -1) {
		all = append(all, strings.ReplaceAll(strings.ToLower(m[1]), " ", "-"))
	}
	return all
}

// TestRunbooks: each alert says in words how bad it is, and links to its section of the runbooks;
// there is no section without an alert.
func TestRunbooks(t *testing.T) {
	sections := anchors(t, "../docs/runbooks.md")
	told := map[string]bool{"runbooks": true}
	for _, r := range newPrometheus(t).rules {
		want := strings.ToLower(r.Alert)
		told[want] = true
		if r.Annotations["runbook_url"] != "docs/runbooks.md#"+want ||
			!slices.Contains(sections, want) {
			t.Errorf("%s leads to %s, and the runbooks have %v", r.Alert,
				r.Annotations["runbook_url"], sections)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" ||
			!slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
			t.Errorf("%s lacks words, or has the severity %q", r.Alert, r.Labels["severity"])
		}
	}
	for _, s := range sections {
		if !told[s] {
			t.Errorf("the runbooks have a section %s of no alert", s)
		}
	}
}

// TestMetricsPage: docs/events.md has every metric that a keeper exports, with its labels, and no
// other.
func TestMetricsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`routekeeper_.*?) \\| (.*?) ?\\|").
		FindAllStringSubmatch(section, -1) {
		var labels []string
		for _, label := range strings.Split(regexp.MustCompile(`:[^;]*`).ReplaceAllString(row[2],
			""), ",") {
			if label = strings.TrimSpace(label); label != "" {
				labels = append(labels, label)
			}
		}
		for _, name := range strings.Split(row[1], ", ") {
			listed[strings.Trim(name, "`")] = labels
		}
	}
	scraped := []string{"__name__", "instance", "job", "namespace", "service", "le"}
	exported := map[string]bool{}
	for name, labels := range told(t) {
		name = regexp.MustCompile(`_seconds_(bucket|sum|count)$`).ReplaceAllString(name, "_seconds")
		if !strings.HasPrefix(name, "routekeeper_") {
			continue
		}
		exported[name] = true
		labels = slices.DeleteFunc(labels, func(label string) bool {
			return slices.Contains(scraped, label)
		})
		slices.Sort(labels)
		slices.Sort(listed[name])
		if page, on := listed[name]; !on || !slices.Equal(labels, page) {
			t.Errorf("%s has the labels %q, and the page %q (listed: %t)", name, labels, page, on)
		}
	}
	for name := range listed {
		if !exported[name] {
			t.Errorf("the page lists %s, which is not exported", name)
		}
	}
}

// told are the labels of every metric of a keeper after everything happened once, by its name.
func told(t *testing.T) map[string][]string {
	t.Helper()
	m := serve.NewMetrics()
	m.Build("1.2.3")
	m.Leads(true)
	seen := inventory.NewSnapshot()
	const cluster = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/shop"
	const subnet = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/n"
	for _, doc := range []string{
		`{"id":"` + cluster +
			`","properties":{"networkProfile":{"networkPlugin":"kubenet"},"agentPoolProfiles":[{"name":"np","count":3,"vnetSubnetID":"` + subnet + `"}]}}`,
		`{"id":"` + subnet + `","properties":{"addressPrefix":"10.0.0.0/24"}}`,
	} {
		if err := seen.Add([]byte(doc)); err != nil {
			t.Fatal(err)
		}
	}
	config := v1alpha1.ClusterRoutes{Metadata: v1alpha1.Metadata{Name: "shop"},
		Spec: v1alpha1.Spec{ClusterID: cluster}}
	silenced := finding.New(finding.SourceHop, "shop", "y", "")
	silenced.Silenced = &finding.Silence{Reason: "known"}
	m.Record(keeper.Result{
		Configs: []v1alpha1.ClusterRoutes{config}, Seen: plan.Facts{Snapshot: seen},
		Managed: []string{"shop"}, Findings: []finding.Finding{
			finding.New(finding.SourceHop, "shop", "x", ""), silenced},
		Verdicts: []verdict.Verdict{{Cluster: "shop", State: verdict.Broken}},
		Tables:   []keeper.Fill{{Table: "/t", Routes: 1, Limit: 2}},
		Changes: []plan.Outcome{{Change: plan.Change{Verb: plan.Associate, Cluster: "shop"},
			State: plan.Failed}},
		OnlyObserved: []plan.Outcome{{Change: plan.Change{Verb: plan.Create, Cluster: "shop"}}},
	})
	m.Messages(func(count func(place, outcome string, n int64)) { count("ops", "sent", 1) })
	m.LogDropped(func() int64 { return 0 })
	m.Call(azure.Call{Method: "GET", Status: 200, Subscription: "s", Kind: "reads", Remaining: 1})
	s, err := serve.Start(serve.Options{Address: "127.0.0.1:0", Metrics: m,
		Log: slog.New(slog.DiscardHandler)}, asleep{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	response, err := http.Get("http://" + s.Address() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	p := newPrometheus(t)
	p.take(text, time.Now())
	// A ServiceMonitor adds the last two.
	all := map[string][]string{"up": {"__name__", "job", "instance", "namespace", "service"}}
	for _, s := range p.series {
		var names []string
		s.labels.Range(func(l labels.Label) { names = append(names, l.Name) })
		all[s.labels.Get("__name__")] = names
	}
	const leader = "routekeeper_leader" // only in Kubernetes
	all[leader] = append(all[leader], "namespace", "service")
	return all
}

type asleep struct{}

func (asleep) Wake(keeper.Event, ...arm.ID) int { return 0 }

// checkNames checks that an expression uses existing metrics, labels and codes of findings.
func checkNames(t *testing.T, expr string, told map[string][]string) {
	t.Helper()
	tree, err := promQL.ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", expr, err)
		return
	}
	var known []string // labels of all metrics in it
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		names, there := told[v.Name]
		if !there {
			t.Errorf("%s: no keeper exports %s", expr, v.Name)
		}
		known = append(known, names...)
		for _, m := range v.LabelMatchers {
			if !slices.Contains(names, m.Name) {
				t.Errorf("%s: %s has no label %s", expr, v.Name, m.Name)
			}
			for _, code := range strings.Split(m.Value, "|") {
				if m.Name == "code" && finding.Describe(finding.Code(code)).Title == "" {
					t.Errorf("%s: there is no finding %s", expr, code)
				}
			}
		}
		return nil
	})
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		var asked []string
		switch n := n.(type) {
		case *parser.AggregateExpr:
			asked = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				asked = n.VectorMatching.MatchingLabels
			}
		}
		for _, l := range asked {
			if !slices.Contains(known, l) {
				t.Errorf("%s: no metric in it has a label %s", expr, l)
			}
		}
		return nil
	})
}

// TestNames: the alerts use only what a listener exports.
func TestNames(t *testing.T) {
	all := told(t)
	for _, r := range newPrometheus(t).rules {
		checkNames(t, r.Expr, all)
	}
}

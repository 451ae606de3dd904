package page_test

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/serve/page"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// newFleet is a keeper that only observes the fleet scenario: 30 clusters, four of them broken, and
// one that cannot be read.
func newFleet(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, log: slog.New(slog.DiscardHandler), azure: emulatortest.New(t,
		emulator.Options{Buckets: emulatortest.NoLimits, RouteBatch: 50 * time.Millisecond}),
		board: page.NewBoard()}
	if _, err := emulator.BuildFleet(w.azure, emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	names := []string{"big-50", "huge-390"}
	for i := range 28 {
		names = append(names, fmt.Sprintf("shop-%02d", i+1))
	}
	for _, name := range names {
		id := func(kind, suffix string) string {
			return string(arm.ResourceID(emulator.DefaultSubscription, name+"-rg", kind,
				name+suffix))
		}
		c := v1alpha1.ClusterRoutes{Metadata: v1alpha1.Metadata{Name: name}}
		c.Spec.ClusterID = id(arm.TypeCluster, "")
		c.Spec.RouteTableID = id(arm.TypeRouteTable, "-rt")
		c.Spec.Guard.Mode = v1alpha1.GuardObserve
		c.Spec.Targets = []v1alpha1.Target{{RouteTableID: id(arm.TypeRouteTable, "-appgw-rt"),
			Policy: v1alpha1.PolicyObserve}}
		w.configs = append(w.configs, c)
	}
	w.keeps = keeper.New(emulatortest.Client(t, w.azure, emulatortest.Keeper), w.configs,
		keeper.Options{Planned: w.board.Planned})
	r, err := w.keeps.Reconcile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.board.Record(r)
	w.serve(w.board, page.Options{Keeper: w.keeps})
	return w
}

// worst are the first clusters of the fleet's list: what breaks traffic, what cannot be read, and
// what is at risk.
var worst = []string{"big-50", "shop-05", "shop-06", "shop-07", "shop-28", "shop-09"}

var (
	rowName = regexp.MustCompile(`<a\s+href="/clusters/([^"]+)">[^<]+</a>(?:\s*<span[^>]*>[^<]*` +
		`</span>)*</th>`)
	title = regexp.MustCompile(`<title>([^<]*)</title>`)
)

// rows are the clusters in the list of a page, in its order.
func rows(body string) (names []string) {
	for _, m := range rowName.FindAllStringSubmatch(body, -1) {
		names = append(names, m[1])
	}
	return names
}

// TestFleet: what breaks traffic now stands above what is out of date. The words of a row are the
// reason for its symbol. Counters, search and filters select clusters.
func TestFleet(t *testing.T) {
	t.Parallel()
	w := newFleet(t)
	t.Run("many rows", func(t *testing.T) { testManyRows(t, w) })
	t.Run("an outage", func(t *testing.T) { testOutage(t, w) })
	t.Run("many clusters", func(t *testing.T) { testManyClusters(t, *w) })
	body := w.get("/").body
	if got := rows(body)[:len(worst)]; !slices.Equal(got, worst) {
		t.Errorf("the worst clusters are %v, want %v", got, worst)
	}
	if got := title.FindStringSubmatch(body)[1]; got != "4 broken · routekeeper" {
		t.Errorf("the title is %q", got)
	}
	if n := strings.Count(body, "<svg class=\"wide\""); n != 1 {
		t.Errorf("%d drawings", n)
	}
	states := map[string]page.Cluster{}
	for _, c := range w.overview().Clusters {
		states[c.Name] = c
	}
	for name, want := range map[string]struct{ state, sentence string }{
		"shop-05": {page.Bad, "has lost its route table"},
		"shop-09": {page.Noted, "has the wrong route table; all packets to pods are delivered"},
		"big-50": {page.Bad, "its route table has no pod routes to its 50 nodes; 50 routes to " +
			"them in other tables stay"},
		"shop-07":  {page.Bad, "1 pod route missing"},
		"shop-28":  {page.Unseen, "route table shop-28-rt and 2 more could not be read"},
		"shop-06":  {page.Bad, "packets from subnet appgw to pods on 1 node are dropped"},
		"shop-03":  {page.Good, "all 8 pod routes are correct"}, // one for the surge node
		"huge-390": {page.Good, "all 780 pod routes are correct"},
	} {
		if c := states[name]; c.State != want.state ||
			!strings.Contains(c.Sentence, want.sentence) || c.Since.IsZero() {
			t.Errorf("%s is %s since %s: %s", name, c.State, c.Since, c.Sentence)
		}
	}
	if n := w.overview().Counts; n != (page.Counts{Broken: 4, Unseen: 1, AtRisk: 4, InSync: 21}) {
		t.Errorf("counts: %+v", n)
	}
	if body := w.get("/?q=shop-05").body; !strings.Contains(body, "association-lost") ||
		strings.Contains(body, "unmanaged-shadow</code>") {
		t.Error("a selection does not show the findings of its clusters only")
	}
	for query, want := range map[string][]string{
		"?state=bad&sort=name":               {"big-50", "shop-05", "shop-06", "shop-07"},
		"?state=unseen":                      {"shop-28"},
		"?state=unreachable":                 {"shop-28"},
		"?state=migrating":                   {"shop-03"},
		"?finding=read-failed":               {"shop-28"},
		"?q=HUGE":                            {"huge-390"},
		"?finding=unmanaged-shadow":          {"shop-06"},
		"?q=shop-05&state=good":              nil,
		"?q=50&sort=nodes":                   {"big-50"},
		"?state=stopped":                     {"shop-16"},
		"?subscription=" + "none&q=&page=-3": nil,
	} {
		if got := rows(w.get("/" + query).body); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// testManyRows: the page of a cluster with many nodes shows what is wrong, and everything page by
// page.
func testManyRows(t *testing.T, w *world) {
	t.Helper()
	count := func(path string) int {
		return strings.Count(w.get("/clusters/"+path).body, `class="node-below">aks-`)
	}
	for path, want := range map[string]int{
		"huge-390": 0, "huge-390?rows=all": 50, "huge-390?rows=all&page=8": 40,
		"huge-390?rows=all&page=99": 40, "huge-390?rows=all&q=vmss00000b": 1,
		"huge-390?rows=all&q=10.244.7.": 1, "shop-01": 3,
	} {
		if got := count(path); got != want {
			t.Errorf("%s shows %d rows, want %d", path, got, want)
		}
	}
	for cluster, wants := range map[string][]string{
		"huge-390": {"Nothing is wrong.", ">nodepool1: 390 nodes<", ">390 of 390<"},
		"big-50": {"50 of 50 destinations wrong", ">nodepool1: 50 nodes<", ">50 routes kept<",
			">0 of 50 work<"},
		// the table that the subnet has, and the way that breaks
		"shop-09": {`class="association has"`, `class="association other"`},
		"shop-06": {`class="route cut"`, ">1 of 3 pod routes broken<",
			"packets are dropped: another route hides it"},
	} {
		body := w.get("/clusters/" + cluster).body
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("the page of %s does not say %q", cluster, want)
			}
		}
	}
}

// testManyClusters: 1,000 clusters (with -short, 120) make pages of 40, and findings of one code
// make one group.
func testManyClusters(t *testing.T, w world) {
	t.Helper()
	board := page.NewBoard()
	r, err := w.keeps.Reconcile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.Configs = nil
	clusters := 1000
	if testing.Short() {
		clusters = 120
	}
	for i := range clusters {
		c := w.configs[2+i%28]
		c.Metadata.Name = fmt.Sprintf("c-%04d", i)
		r.Configs = append(r.Configs, c)
	}
	r.Of, r.Managed = nil, nil
	r.Verdicts = verdict.Of(r.Seen, r.Configs, r.Configs, plan.TakenBy(r.Configs), r.Findings)
	board.Record(r)
	server, err := serve.Start(serve.Options{Address: "127.0.0.1:0", Metrics: serve.NewMetrics(),
		Board: board, Page: page.Options{}, Log: slog.New(slog.DiscardHandler)}, w.keeps)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	w.URL = "http://" + server.Address()
	body := w.get("/?state=good").body
	if got := rows(body); len(got) != 40 || !strings.Contains(body, "page 1 of") {
		t.Errorf("%d rows", len(got))
	}
	if next := w.get(fmt.Sprintf("/?sort=name&page=%d", clusters/40)).body; len(rows(next)) != 40 ||
		strings.Contains(next, `rel="next"`) {
		t.Errorf("the last page has %d rows", len(rows(next)))
	}
}

// testOutage: while Azure answers nothing, one sentence says so, and what was seen before is marked
// as old.
func testOutage(t *testing.T, w *world) {
	t.Helper()
	r, err := w.keeps.Reconcile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := r.Findings
	r.Findings = append(slices.Clone(before),
		finding.New(finding.AzureUnreachable, "", "", "Azure has not answered since 01:13"))
	read := slices.Clone(r.Verdicts)
	for i, v := range read {
		r.Verdicts[i].State, r.Verdicts[i].Sentence = verdict.Unknown, "it could not be read"
		r.Verdicts[i].Before = &verdict.Before{State: v.State, Sentence: v.Sentence}
	}
	w.board.Record(r)
	body := w.get("/").body
	if strings.Contains(body, "it could not be read") ||
		!strings.Contains(body, "big-50") || !strings.Contains(body, "clusters were in sync") {
		t.Error("the list does not show what was before the outage")
	}
	if o := w.overview(); o.Sentence != "Azure has not answered since 01:13" ||
		o.State != page.Bad || !strings.Contains(body, "Before the outage: 30 clusters") {
		t.Errorf("%s: %s", o.State, o.Sentence)
	}
	r.Findings, r.Verdicts = before, read
	w.board.Record(r)
	if strings.Contains(w.get("/").body, "Before the outage") {
		t.Error("the outage has ended")
	}
}

package deploy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

var promQL = parser.NewParser(parser.Options{})

// prometheus is Prometheus' engine over a few series in memory, with our rules. It replaces
// Prometheus' storage and rule manager, which depend on the modules of every cloud.
type prometheus struct {
	t      testing.TB
	engine *promql.Engine
	series map[string]*series
	named  map[string][]*series // by metric
	rules  []rulefmt.Rule
	active map[string]time.Time // since when an alert's expression is true, by rule and labels
}

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// sample is one value: chunks.Sample has histograms as well, which are not used.
type sample struct {
	t int64
	v float64
}

func (s sample) ST() int64                   { return 0 }
func (s sample) T() int64                    { return s.t }
func (s sample) F() float64                  { return s.v }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

func newPrometheus(t testing.TB) *prometheus {
	p := &prometheus{t: t, series: map[string]*series{}, named: map[string][]*series{},
		active: map[string]time.Time{}}
	p.engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute,
		Parser: promQL})
	groups, errs := rulefmt.ParseFile("prometheus/routekeeper.rules.yaml", false,
		model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	for _, g := range groups.Groups {
		p.rules = append(p.rules, g.Rules...)
	}
	if len(p.rules) == 0 {
		t.Fatal("there are no rules")
	}
	return p
}

// add appends a sample.
func (p *prometheus) add(l labels.Labels, at time.Time, v float64) {
	s := p.series[l.String()]
	if s == nil {
		s = &series{labels: l}
		p.series[l.String()] = s
		p.named[l.Get("__name__")] = append(p.named[l.Get("__name__")], s)
	}
	s.samples = append(s.samples, sample{timestamp.FromTime(at), v})
}

// scrape reads a listener's /metrics, as Prometheus' job does.
func (p *prometheus) scrape(h http.Handler, at time.Time) {
	p.t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	up, text := 0.0, []byte{}
	if w.Code == http.StatusOK {
		up, text = 1, w.Body.Bytes()
	}
	p.take(text, at)
	p.add(labels.FromStrings("__name__", "up", "job", "routekeeper", "instance", "keeper:8443"), at,
		up)
}

// take adds the series of a scrape.
func (p *prometheus) take(text []byte, at time.Time) {
	p.t.Helper()
	in := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	seen := map[string]bool{}
	for {
		entry, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.t.Fatal(err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		in.Labels(&l)
		_, _, v := in.Series()
		l = labels.NewBuilder(l).Set("job", "routekeeper").Set("instance", "keeper:8443").Labels()
		seen[l.String()] = true
		p.add(l, at, v)
	}
	// a series that is gone is marked so, and not used for another five minutes
	for key, s := range p.series {
		if last := s.samples[len(s.samples)-1]; !seen[key] && s.labels.Get("__name__") != "up" &&
			!value.IsStaleNaN(last.F()) {
			p.add(s.labels, at, math.Float64frombits(value.StaleNaN))
		}
	}
}

// load adds series as Prometheus' own tests write them, such as `up{job="routekeeper"} 1x10`, a
// sample every step.
func (p *prometheus) load(from time.Time, step time.Duration, lines string) {
	p.t.Helper()
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		l, values, err := promQL.ParseSeriesDesc(line)
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		if l.Get("job") == "" {
			l = labels.NewBuilder(l).Set("job", "routekeeper").Set("instance",
				"keeper:8443").Labels()
		}
		for i, v := range values {
			if !v.Omitted {
				p.add(l, from.Add(time.Duration(i)*step), v.Value)
			}
		}
	}
}

// Querier makes prometheus a storage.Queryable.
func (p *prometheus) Querier(mint, maxt int64) (storage.Querier, error) {
	return &querier{p, mint, maxt}, nil
}

type querier struct {
	*prometheus
	mint, maxt int64
}

func (q *querier) Select(_ context.Context, _ bool, _ *storage.SelectHints,
	matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{}
	name := slices.IndexFunc(matchers, func(m *labels.Matcher) bool { return m.Name == "__name__" })
	for _, s := range q.named[matchers[name].Value] { // every expression here names its metric
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
			return !m.Matches(s.labels.Get(m.Name))
		}) {
			continue
		}
		from := sort.Search(len(s.samples), func(i int) bool { return s.samples[i].T() >= q.mint })
		until := sort.Search(len(s.samples), func(i int) bool { return s.samples[i].T() > q.maxt })
		if from < until {
			found.all = append(found.all, storage.NewListSeries(s.labels, s.samples[from:until]))
		}
	}
	slices.SortFunc(found.all, func(a, b storage.Series) int {
		return labels.Compare(a.Labels(), b.Labels())
	})
	return found
}

func (*querier) LabelValues(context.Context, string, *storage.LabelHints,
	...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames and LabelValues are only for browsing.
func (*querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	return nil, nil, nil
}

func (*querier) Close() error { return nil }

type seriesSet struct {
	all []storage.Series
	n   int
}

func (s *seriesSet) Next() bool                      { s.n++; return s.n <= len(s.all) }
func (s *seriesSet) At() storage.Series              { return s.all[s.n-1] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// query evaluates an expression, which must succeed without a warning.
func (p *prometheus) query(expr string, at time.Time) promql.Vector {
	p.t.Helper()
	q, err := p.engine.NewInstantQuery(p.t.Context(), p, nil, expr, at)
	if err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	result := q.Exec(p.t.Context())
	if result.Err != nil || len(result.Warnings.AsErrors()) > 0 {
		p.t.Fatalf("%s: %v %v", expr, result.Err, result.Warnings)
	}
	switch v := result.Value.(type) {
	case promql.Vector:
		return slices.Clone(v)
	case promql.Scalar:
		return promql.Vector{{F: v.V}}
	}
	p.t.Fatalf("%s is a %s", expr, result.Value.Type())
	return nil
}

// alert is a firing alert.
type alert struct {
	name                 string
	labels               map[string]string
	summary, description string
}

// evaluate evaluates all rules, as Prometheus does periodically, and returns the firing alerts:
// those whose expression was true at every evaluation for as long as the rule says.
func (p *prometheus) evaluate(at time.Time) []alert {
	p.t.Helper()
	var firing []alert
	active := map[string]time.Time{}
	for _, r := range p.rules {
		for _, found := range p.query(r.Expr, at) {
			key := r.Alert + r.Expr + found.Metric.String()
			since, pending := p.active[key]
			if !pending {
				since = at
			}
			active[key] = since
			if at.Sub(since) >= time.Duration(r.For) {
				l := found.Metric.Map()
				firing = append(firing,
					alert{r.Alert, l, p.expand(r.Annotations["summary"], l, found),
						p.expand(r.Annotations["description"], l, found)})
			}
		}
	}
	p.active = active
	slices.SortFunc(firing, func(a, b alert) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.summary, b.summary))
	})
	return firing
}

// expand fills in an annotation.
func (p *prometheus) expand(text string, l map[string]string, found promql.Sample) string {
	p.t.Helper()
	text = "{{$labels := .Labels}}{{$value := .Value}}" + text
	out, err := template.NewTemplateExpander(p.t.Context(), text, "annotation",
		template.AlertTemplateData(l, nil, "", found), model.Time(found.T), nil, &url.URL{}, nil).
		Expand()
	if err != nil {
		p.t.Errorf("%s: %v", text, err)
	}
	if strings.Contains(out, "<no value>") || strings.Contains(out, "  ") ||
		bytes.ContainsAny([]byte(out), "{}") {
		p.t.Errorf("an annotation reads %q", out)
	}
	return out
}

// names are the names of alerts, each once.
func names(alerts []alert) []string {
	var out []string
	for _, a := range alerts {
		out = append(out, a.name)
	}
	return slices.Compact(out)
}

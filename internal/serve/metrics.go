package serve

import (
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Metrics are the metrics for Prometheus, listed in docs/events.md. They count checks, ARM calls
// and events.
type Metrics struct {
	registry *prometheus.Registry
	also     prometheus.Gatherers // other programs' metrics
	managed  []string             // names of clusters, as of the last check

	findings      *prometheus.GaugeVec   // code, severity, cluster
	silenced      *prometheus.GaugeVec   // code, severity, cluster
	changes       *prometheus.CounterVec // verb, outcome, cluster
	unmade        *prometheus.GaugeVec   // verb, cluster
	observed      *prometheus.GaugeVec   // verb, cluster
	waits         *waits
	checks        *prometheus.CounterVec // cause
	last          *prometheus.GaugeVec   // cluster
	states        *prometheus.GaugeVec   // cluster, state
	stateOf       map[string]string      // the cluster's state in states
	routes        *prometheus.GaugeVec   // table
	limit         *prometheus.GaugeVec   // table
	free          *prometheus.GaugeVec   // subnet
	surge         *prometheus.GaugeVec   // subnet
	checked       map[string]time.Time   // when each table and subnet was last checked
	swept         time.Time              // when unseen ones were last removed
	calls         *prometheus.CounterVec // method, status
	remaining     *tokens
	events        *prometheus.CounterVec // result
	dropped       prometheus.Counter
	refusedCalls  *prometheus.CounterVec // result
	refusedConfig prometheus.Gauge
}

// retired is when AKS retires kubenet.
var retired = time.Date(2028, time.March, 31, 0, 0, 0, 0, time.UTC)

// results are the possible results of an event.
var results = []string{"woke", "own", "unknown", "handshake", "unauthorized", "malformed", "large"}

// NewMetrics returns the metrics of one keeper.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), checked: map[string]time.Time{},
		remaining: newTokens(), stateOf: map[string]string{}}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "routekeeper_" + name, Help: help},
			labels)
		m.registry.MustRegister(g)
		return g
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "routekeeper_" + name,
			Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	m.findings = gauge("findings", "Current findings that no person has silenced, by code.",
		"code", "severity", "cluster")
	m.silenced = gauge("findings_silenced", "Current findings that a person has silenced, by code.",
		"code", "severity", "cluster")
	m.changes = counter("changes_total", "Changes by verb, outcome and cluster.", "verb", "outcome",
		"cluster")
	m.unmade = gauge("changes_unmade", "Changes that the last check of a cluster planned and "+
		"did not make, by verb and cluster.", "verb", "cluster")
	m.observed = gauge("changes_observed",
		"Changes that the config's Observe withheld at the last check, by verb and cluster.",
		"verb", "cluster")
	m.refusedConfig = gauge("config_refused", "How many configs are refused: 1 while the files "+
		"have a mistake, and 1 for each refused object of the controller.").WithLabelValues()
	m.checks = counter("checks_total", "Checks, by cause: poll, event or person.", "cause")
	m.last = gauge("cluster_last_success_timestamp_seconds", "When a check last read all of "+
		"a cluster, or of a network without clusters, and made all required changes; 0: never "+
		"since the start.", "cluster")
	m.states = gauge("cluster_state_since_timestamp_seconds", "Since when a cluster, or "+
		"a network without clusters, has its state, by its name and state: broken, bypassed, "+
		"at-risk, unknown, stopped, observed or in-sync. Each has one state.", "cluster", "state")
	m.routes = gauge("table_routes", "Routes in a table.", "table")
	m.limit = gauge("table_routes_limit", "How many routes a target can hold.", "table")
	m.free = gauge("subnet_addresses_free",
		"Free IPv4 addresses in a subnet of nodes or pods.", "subnet")
	m.surge = gauge("subnet_addresses_surge",
		"Addresses in a subnet that the next upgrade needs for its surge nodes.", "subnet")
	m.calls = counter("arm_calls_total", "Calls to Azure Resource Manager, by method and status; "+
		"0: no answer.", "method", "status")
	m.events = counter("events_total", "Events, by result: "+
		strings.Join(results, ", ")+".", "result")
	m.refusedCalls = counter("calls_refused_total", "Calls to pages, metrics and events that were "+
		"refused, by result: "+strings.Join(refusalResults, ", ")+".", "result")
	for _, result := range refusalResults {
		m.refusedCalls.WithLabelValues(result)
	}
	m.dropped = counter("connections_dropped_total", "Connections that were closed because there "+
		"were too many.").WithLabelValues()
	m.waits = newWaits(m.registry)
	m.registry.MustRegister(m.remaining, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "routekeeper_kubenet_retirement_days",
			Help: "Days until AKS retires kubenet."}, func() float64 {
			return time.Until(retired).Hours() / 24
		}))
	// Create these counters at the start. Otherwise Prometheus would miss their first increase.
	for _, result := range results {
		m.events.WithLabelValues(result)
	}
	for _, cause := range []string{keeper.ByPoll, keeper.ByEvent, keeper.ByPerson} {
		m.checks.WithLabelValues(cause)
	}
	return m
}

// Handler serves the metrics without authentication.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(append(prometheus.Gatherers{m.registry}, m.also...), promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Also serves other metrics, too. Their names must differ. Call it before Handler.
func (m *Metrics) Also(other prometheus.Gatherer) { m.also = append(m.also, other) }

// refusalResults are the possible results of a refused call.
var refusalResults = []string{"unauthorized", "forbidden", "slowed", "not-compared"}

func (m *Metrics) turnedAway(result string) { m.refusedCalls.WithLabelValues(result).Inc() }

func (m *Metrics) event(result string) { m.events.WithLabelValues(result).Inc() }

// Build notes which build this is.
func (m *Metrics) Build(version string) {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "routekeeper_build_info",
		Help: "The build of the program; always 1."}, []string{"version", "goversion"})
	m.registry.MustRegister(g)
	g.WithLabelValues(version, runtime.Version()).Set(1)
}

// Leads notes whether this replica of a controller is the one that works.
func (m *Metrics) Leads(leads bool) {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "routekeeper_leader",
		Help: "Whether this replica of the controller works (1) or waits (0)."})
	m.registry.MustRegister(g)
	if leads {
		g.Set(1)
	}
}

// Refused notes how many configs are refused.
func (m *Metrics) Refused(n int) { m.refusedConfig.Set(float64(n)) }

// LogDropped adds how many lines of the log were dropped.
func (m *Metrics) LogDropped(count func() int64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "routekeeper_log_lines_dropped_total", Help: "Log lines dropped because nothing " +
			"read the log.",
	}, func() float64 { return float64(count()) }))
}

// Messages adds the counts of messages to people: each calls count for every place and outcome.
func (m *Metrics) Messages(each func(count func(place, outcome string, n int64))) {
	m.registry.MustRegister(messageCounts(each))
}

// messageCounts collects the counts of messages.
type messageCounts func(count func(place, outcome string, n int64))

var messagesDesc = prometheus.NewDesc("routekeeper_notifications_total",
	"Messages to people that were sent or failed, and events that were dropped.",
	[]string{"place", "outcome"}, nil)

func (messageCounts) Describe(to chan<- *prometheus.Desc) { to <- messagesDesc }

func (m messageCounts) Collect(to chan<- prometheus.Metric) {
	m(func(place, outcome string, n int64) {
		to <- prometheus.MustNewConstMetric(messagesDesc, prometheus.CounterValue, float64(n),
			place, outcome)
	})
}

// Call counts an answer of Azure.
func (m *Metrics) Call(c azure.Call) {
	m.calls.WithLabelValues(c.Method, strconv.Itoa(c.Status)).Inc()
	if c.Remaining >= 0 {
		m.remaining.note(c, time.Now())
	}
}

// Record records the result of a check. Calls must not overlap.
func (m *Metrics) Record(r keeper.Result) {
	cause, began := keeper.ByPoll, r.Started
	if !r.Asked.IsZero() {
		cause, began = keeper.ByEvent, r.Asked
	}
	if r.Woke.By == keeper.ByPerson {
		cause = keeper.ByPerson
	}
	m.checks.WithLabelValues(cause).Inc()
	m.findings.Reset()
	m.silenced.Reset()
	for _, f := range r.Findings {
		to := m.findings
		if f.Silenced != nil { // use another metric, so that no alert on the findings fires
			to = m.silenced
		}
		to.WithLabelValues(string(f.Code), f.Severity.String(), f.Cluster).Inc()
	}
	for _, c := range r.Changes {
		if slices.Contains(r.Managed, c.Cluster) {
			m.changes.WithLabelValues(string(c.Verb), string(c.State), c.Cluster).Inc()
		}
	}
	end := r.Started.Add(r.Elapsed)
	m.waits.record(r, began)
	m.recordUnmade(r)
	m.keepManaged(r.Managed)
	for _, cluster := range r.CheckedNames() {
		if successful(r, cluster) {
			m.last.WithLabelValues(cluster).Set(float64(end.UnixMilli()) / 1000)
		}
	}
	for _, v := range r.Verdicts {
		if was := m.stateOf[v.Cluster]; was != string(v.State) {
			m.states.DeleteLabelValues(v.Cluster, was)
			m.stateOf[v.Cluster] = string(v.State)
		}
		m.states.WithLabelValues(v.Cluster, string(v.State)).Set(
			float64(v.Since.UnixMilli()) / 1000)
	}
	m.recordSizes(r, end)
}

// keepManaged removes the metrics of clusters that are no longer managed, and adds clusters that
// were never checked. With thousands of clusters, one check of all of them can arrive as hundreds
// of results.
func (m *Metrics) keepManaged(names []string) {
	if slices.Equal(m.managed, names) {
		return
	}
	for _, cluster := range m.managed {
		if !slices.Contains(names, cluster) {
			m.last.DeleteLabelValues(cluster)
			m.states.DeleteLabelValues(cluster, m.stateOf[cluster])
			delete(m.stateOf, cluster)
			m.changes.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
			m.unmade.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
			m.observed.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
		}
	}
	m.managed = names
	for _, cluster := range names {
		m.last.WithLabelValues(cluster)
	}
}

// unseen is how long the metrics show a table or subnet after its last check: the config may no
// longer name it, or it cannot be read.
const unseen = time.Hour

// recordSizes records how full tables and node subnets are.
func (m *Metrics) recordSizes(r keeper.Result, now time.Time) {
	if r.Of == nil && r.Complete { // all was read: a missing table is no target any more
		m.checked = map[string]time.Time{}
		for _, g := range []*prometheus.GaugeVec{m.routes, m.limit, m.free, m.surge} {
			g.Reset()
		}
	}
	for _, f := range r.Tables {
		key := f.Table.Key()
		m.checked[key] = now
		m.routes.WithLabelValues(key).Set(float64(f.Routes))
		if f.Limit > 0 {
			m.limit.WithLabelValues(key).Set(float64(f.Limit))
		} else {
			m.limit.DeleteLabelValues(key)
		}
	}
	if r.Seen.Snapshot != nil {
		for _, room := range plan.Rooms(r.Seen.Snapshot, r.Checked()) {
			key := room.Subnet.Key()
			m.checked[key] = now
			m.free.WithLabelValues(key).Set(float64(room.Free))
			m.surge.WithLabelValues(key).Set(float64(room.Surge))
		}
	}
	if now.Sub(m.swept) < time.Minute { // recordSizes runs for each group of clusters
		return
	}
	m.swept = now
	for key, at := range m.checked {
		if now.Sub(at) > unseen {
			delete(m.checked, key)
			for _, g := range []*prometheus.GaugeVec{m.routes, m.limit, m.free, m.surge} {
				g.DeleteLabelValues(key)
			}
		}
	}
}

// recordUnmade records the changes that a check did not make, except those of resources whose
// findings a person silenced. Clusters that were not read retain their values.
func (m *Metrics) recordUnmade(r keeper.Result) {
	of := map[string][]finding.Finding{}
	for _, f := range r.Findings {
		of[f.Cluster] = append(of[f.Cluster], f)
	}
	for _, cluster := range r.CheckedNames() {
		if hasFinding(r, cluster, finding.ReadFailed, finding.AzureUnreachable) {
			continue
		}
		m.unmade.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
		quiet := finding.Quiet(of[cluster])
		for _, c := range r.Changes {
			if c.Cluster == cluster && c.State != plan.Done && c.State != plan.Obsolete &&
				!quiet[c.Resource.Key()] {
				m.unmade.WithLabelValues(string(c.Verb), cluster).Inc()
			}
		}
		m.observed.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
		for _, c := range r.OnlyObserved {
			if c.Cluster == cluster {
				m.observed.WithLabelValues(string(c.Verb), cluster).Inc()
			}
		}
	}
}

// unsuccessful has the findings that mean that a cluster was not fully read, or not all changes
// were made.
var unsuccessful = []finding.Code{
	finding.ReadFailed, finding.AzureUnreachable, finding.ClusterMissing, finding.TableMissing,
	finding.TableUnknown,
	finding.WriteFailed, finding.WriteRefused, finding.WriteUndone,
}

// successful reports whether a cluster was fully read, and all changes were made. Silenced findings
// do not count.
func successful(r keeper.Result, cluster string) bool {
	r.Findings = finding.Loud(r.Findings)
	return !hasFinding(r, cluster, unsuccessful...)
}

// hasFinding reports whether a finding with one of the codes is about a cluster, or about all.
func hasFinding(r keeper.Result, cluster string, codes ...finding.Code) bool {
	return slices.ContainsFunc(r.Findings, func(f finding.Finding) bool {
		if f.Code == finding.AzureUnreachable && r.Complete {
			return false // the finding is about other clusters
		}
		return (f.Cluster == cluster || f.Cluster == "") && slices.Contains(codes, f.Code)
	})
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

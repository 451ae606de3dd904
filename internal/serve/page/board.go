// Package page shows a running keeper in a browser. It shows one sentence for all clusters, the
// findings, a drawing of each cluster's network, its route tables side by side, and recent checks.
// Every page also answers as JSON.
//
// How it works: the keeper reports each check to the Board, which keeps the latest state of each
// cluster. Pages renders the Board as HTML or JSON. Open pages listen on /live and load themselves
// again when the Board's version goes up.
//
// The package decides nothing. Package serve decides who may call it, and the keeper makes the
// changes that a person requests with a button.
package page

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// Board holds the latest state of all clusters. One goroutine at a time reports checks to it; any
// number may read it.
type Board struct {
	now func() time.Time

	mu       sync.Mutex
	configs  []v1alpha1.ClusterRoutes // as of the last check
	clusters map[string]*Cluster      // by name, without what "with" adds
	order    []string                 // of the config
	findings []finding.Finding
	notice   string
	version  uint64        // goes up with each visible change
	changed  chan struct{} // closed at the next check

	every time.Duration // between two checks; 0: not known
	took  time.Duration // how long the last check of all clusters took
	late  int           // clusters that were overdue when the version was last read
}

// NewBoard returns an empty board. Its version is 1, because 0 marks a page without a board.
func NewBoard() *Board {
	return &Board{
		now: time.Now, clusters: map[string]*Cluster{}, version: 1, changed: make(chan struct{}),
	}
}

// Planned receives a check before it makes its changes, so that the page shows what is wrong.
func (b *Board) Planned(r keeper.Result) { b.take(r, true) }

// Record receives a check at its end.
func (b *Board) Record(r keeper.Result) { b.take(r, false) }

// Say shows a line at the top of the overview; "" removes it.
func (b *Board) Say(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notice = line
	b.show(true)
}

func (b *Board) take(r keeper.Result, acting bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := r.Started.Add(r.Elapsed)
	if acting {
		at = b.now()
	}
	news := b.configure(r.Configs)
	checked := r.Checked()
	for i := range checked {
		name := checked[i].Metadata.Name
		v, found := verdictOn(r.Verdicts, name)
		if !found {
			continue
		}
		before := b.clusters[name]
		c := &Cluster{Cluster: v.Seen().Picture, Verdict: v, Since: v.Since, Checked: at,
			Seen: before.Seen}
		of := func(o plan.Outcome) bool { return o.Cluster == name }
		c.Changes = chosen(r.Changes, func(o plan.Outcome) bool {
			return of(o) && o.State == plan.Planned
		})
		c.Acting = acting && len(c.Changes) > 0
		c.OnlyObserved = before.OnlyObserved
		if !acting { // a check reports at its end what it only observes
			c.OnlyObserved = chosen(r.OnlyObserved, of)
		}
		if verdict.Complete(c.Cluster) {
			c.Seen = at
		}
		news = news || b.overdue(before) || before.Acting != c.Acting ||
			before.Verdict.State != v.State || before.Verdict.Sentence != v.Sentence ||
			!reflect.DeepEqual(before.Cluster, c.Cluster) ||
			!reflect.DeepEqual(before.Changes, c.Changes) ||
			!reflect.DeepEqual(before.OnlyObserved, c.OnlyObserved)
		b.clusters[name] = c
	}
	if !acting { // only a check at its end has all its findings
		news = news || !reflect.DeepEqual(b.findings, r.Findings) || len(r.Changes) > 0
		b.findings = r.Findings
		if r.Of == nil {
			b.took = r.Elapsed
		}
	}
	b.show(news)
}

// verdictOn returns the verdict on a cluster.
func verdictOn(all []verdict.Verdict, name string) (verdict.Verdict, bool) {
	i := slices.IndexFunc(all, func(v verdict.Verdict) bool { return v.Cluster == name })
	if i < 0 {
		return verdict.Verdict{}, false
	}
	return all[i], true
}

func findingsByCluster(all []finding.Finding) map[string][]finding.Finding {
	by := map[string][]finding.Finding{}
	for _, f := range all {
		by[f.Cluster] = append(by[f.Cluster], f)
	}
	return by
}

// Configure sets the configs before the first check.
func (b *Board) Configure(configs []v1alpha1.ClusterRoutes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.show(b.configure(configs))
}

// configure stores the configs of the managed clusters if they changed. It reports whether the page
// changes with them.
func (b *Board) configure(configs []v1alpha1.ClusterRoutes) (news bool) {
	if len(configs) == len(b.configs) && (len(configs) == 0 || &configs[0] == &b.configs[0]) {
		return false
	}
	b.configs = configs
	clusters := make(map[string]*Cluster, len(configs))
	order := make([]string, len(configs))
	for i := range configs {
		name := configs[i].Metadata.Name
		order[i], clusters[name] = name, b.clusters[name]
		if clusters[name] == nil {
			clusters[name] = &Cluster{Cluster: picture.Cluster{Name: name},
				Changes: []plan.Outcome{}, OnlyObserved: []plan.Outcome{}}
			if configs[i].Clusterless() {
				clusters[name].Plugin = inventory.NoCluster
			}
		}
	}
	news = !slices.Equal(order, b.order)
	b.clusters, b.order = clusters, order
	return news
}

// show wakes all open pages. news means that they must load again.
func (b *Board) show(news bool) {
	if news {
		b.version++
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// next returns the version, the time of the last check of a cluster (or of all if the name is ""),
// and a channel that is closed at the next check.
func (b *Board) next(cluster string) (version uint64, checked time.Time, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch c := b.clusters[cluster]; {
	case c != nil:
		checked = c.Checked
	case cluster == "":
		checked = b.checked()
	}
	return b.current(), checked, b.changed
}

// checked returns the oldest last check of all clusters.
func (b *Board) checked() (at time.Time) {
	for _, c := range b.clusters {
		if at.IsZero() || !c.Checked.IsZero() && c.Checked.Before(at) {
			at = c.Checked
		}
	}
	return at
}

// names returns the clusters' names, in the order of the config.
func (b *Board) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.order
}

// The states of a cluster and of all as the page shows them, worst last. They are the verdict's
// colors, except for a cluster that is being repaired or whose check is overdue.
const (
	Good   = verdict.Good
	Noted  = verdict.Noted
	Busy   = "busy" // changes are under way
	Unseen = verdict.Unseen
	Bad    = verdict.Bad
)

var states = []string{Good, Noted, Busy, Unseen, Bad}

func worse(a, b string) string {
	if slices.Index(states, b) > slices.Index(states, a) {
		return b
	}
	return a
}

// Overview is the first page.
type Overview struct {
	// Sentence sums up all clusters, without the time of the check.
	Sentence string    `json:"sentence"`
	State    string    `json:"state"`
	Notice   string    `json:"notice,omitempty"`
	Checked  time.Time `json:"checked,omitzero"`
	// Since is the age of the worst cluster's state; absent if all is well.
	Since time.Time `json:"since,omitzero"`
	// Routes counts the pod routes in all tables. Associations are not counted, but no route of a
	// table counts as correct without its association.
	Routes   picture.Counted   `json:"podRoutes"`
	Findings []finding.Finding `json:"findings"`
	Clusters []Cluster         `json:"clusters"`
	Counts   Counts            `json:"counts"`
	Version  uint64            `json:"version"`
	// Repairs sums up the time to repair; nil without a history.
	Repairs *history.Repairs `json:"repairs,omitempty"`
}

// Cluster is the state of one cluster.
type Cluster struct {
	picture.Cluster
	Verdict  verdict.Verdict   `json:"verdict"`
	Sentence string            `json:"sentence"`
	State    string            `json:"state"`
	Checked  time.Time         `json:"checked,omitzero"`
	Seen     time.Time         `json:"seen,omitzero"` // the last check that could read everything
	Routes   picture.Counted   `json:"podRoutes"`
	Findings []finding.Finding `json:"findings"`
	// Changes are under way if Acting is set. Otherwise they are planned and not made: the keeper
	// is paused or on a dry run.
	Changes []plan.Outcome `json:"changes"`
	Acting  bool           `json:"acting"`
	// OnlyObserved are the changes that are not made because the config says Observe.
	OnlyObserved []plan.Outcome `json:"onlyObserved"`
	// Paused says until when the keeper makes no changes to the cluster, or is "".
	Paused string `json:"paused,omitempty"`
	// Since is the verdict's; zero before the first check.
	Since time.Time `json:"since,omitzero"`
	// ChangedBy is who made the change that broke the cluster; "" if that is not known, and in the
	// overview as JSON.
	ChangedBy string `json:"changedBy,omitempty"`

	old bool // the state is the last known one
}

// overview returns the state of all clusters, in the order of the config.
func (b *Board) overview() Overview {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := Overview{
		State: Good, Notice: b.notice, Checked: b.checked(), Findings: b.findings,
		Clusters: []Cluster{}, Version: b.current(),
	}
	if o.Findings == nil {
		o.Findings = []finding.Finding{}
	}
	byCluster := findingsByCluster(b.findings)
	for _, name := range b.order {
		c := b.clusters[name].with(byCluster[name])
		if b.overdue(b.clusters[name]) {
			c.State = worse(c.State, Unseen)
			c.Sentence = "last checked more than " + ago(b.patience()) + "; at that time: " +
				c.Sentence
		}
		o.Clusters = append(o.Clusters, c)
		o.Counts.add(c.State)
		o.Routes.All += c.Routes.All
		o.Routes.Correct += c.Routes.Correct
		o.Routes.Unknown += c.Routes.Unknown
		o.State = worse(o.State, c.State)
	}
	for _, f := range byCluster[""] {
		if f.Silenced != nil {
			continue
		}
		o.State = worse(o.State, stateOf(f))
	}
	if o.Checked.IsZero() {
		o.State = worse(o.State, Unseen)
	}
	o.Sentence = o.sentence()
	if first := worstFirst(o.Clusters); len(first) > 0 && first[0].State == o.State &&
		o.State != Good {
		o.Since = first[0].Since
	}
	return o
}

func stateOf(f finding.Finding) string {
	switch f.Severity {
	case finding.Error:
		return Bad
	case finding.Warning:
		return Noted
	case finding.Info:
	}
	return Good
}

// with returns the cluster with its current findings, and what follows from them and the verdict.
func (c Cluster) with(findings []finding.Finding) Cluster {
	c.State, c.Findings = Unseen, findings
	if c.Findings == nil {
		c.Findings = []finding.Finding{}
	}
	c.Routes = c.Cluster.Routes()
	if c.Unrouted() { // every node lacks its route
		c.Routes.All += c.Nodes
	}
	if !c.Checked.IsZero() {
		c.State = c.Verdict.State.Color()
	}
	if c.Acting {
		c.State = worse(c.State, Busy)
	}
	c.Sentence = c.sentence()
	return c
}

// lastKnown returns the state of a cluster before an outage.
func (c Cluster) lastKnown() Cluster {
	if c.Verdict.Before != nil {
		c.Verdict, c.old = c.Verdict.LastKnown(), true
		c.State, c.Since, c.Sentence = c.Verdict.State.Color(), c.Verdict.Since, c.Verdict.Sentence
	}
	return c
}

// Sync returns the text of the button that writes pod routes, and Repair of the one that restores
// associations: how much a person's click would change, as of the last check. If the config says
// Observe, the button promises nothing, and its page says why. "" means no button, as a click would
// change nothing.
func (c Cluster) Sync() string { return c.button("Sync", "route", false) }

// Repair works like Sync.
func (c Cluster) Repair() string { return c.button("Repair", "association", true) }

func (c Cluster) button(does, what string, associations bool) string {
	of := func(changes []plan.Outcome) (n int) {
		for _, change := range changes {
			if (change.Verb == plan.Associate) == associations {
				n++
			}
		}
		return n
	}
	if n := of(c.Changes); n > 0 && !c.Acting {
		return does + " " + finding.Count(n, what) + "…"
	}
	if of(c.OnlyObserved) > 0 {
		return does + "…"
	}
	return ""
}

// Package page is what people see of a running keeper: one sentence, what stands in the way, each cluster's network drawn, its tables side
// by side, and what was done. Every page also answers as JSON.
//
// It shows what rounds told and decides nothing. Who may see it is the listener's business (package serve); what a person asks for with a
// button is done by the keeper, on its own rules.
package page

import (
	"cmp"
	"reflect"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Board is what is known of all clusters at the moment. It is told of rounds, one after the other, and read by many at once.
type Board struct {
	now func() time.Time

	mu       sync.Mutex
	configs  []v1alpha1.ClusterRoutes // as the last round had them
	taken    plan.Taken
	clusters map[string]*standing // by name
	order    []string             // in that of the config
	findings []finding.Finding
	notice   string
	version  uint64        // goes up with everything that shows
	changed  chan struct{} // closed at the next round

	every time.Duration // between two looks, 0 where nobody said
	took  time.Duration // the last one of all clusters
	late  *time.Timer   // until the next cluster is overdue; nil: none will be
}

// standing is how a cluster stands.
type standing struct {
	picture picture.Cluster
	checked time.Time      // when it was last looked at
	seen    time.Time      // when all of it was last seen
	working []plan.Outcome // changes under way, or planned and not to be made
	would   []plan.Outcome // changes that are not made because the config says Observe
	acting  bool           // they are under way
}

// NewBoard makes a board that knows nothing yet.
func NewBoard() *Board {
	return &Board{now: time.Now, clusters: map[string]*standing{}, version: 1, changed: make(chan struct{})} // a page without a board has version 0
}

// Planned is told of a round that is about to change something: that is what is wrong with the network.
func (b *Board) Planned(r keeper.Round) { b.take(r, true) }

// Round is told of every round at its end.
func (b *Board) Round(r keeper.Round) { b.take(r, false) }

// Say shows a line above everything else, "" for none.
func (b *Board) Say(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notice = line
	b.show(true)
}

func (b *Board) take(r keeper.Round, acting bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var news bool
	at := r.Started.Add(r.Elapsed)
	if acting {
		at = b.now()
	}
	news = b.configure(r.Configs)
	checked := r.Checked()
	if r.Seen.Snapshot == nil {
		checked = nil
	}
	for i := range checked {
		name := checked[i].Metadata.Name
		before := b.clusters[name]
		s := &standing{picture: picture.Of(r.Seen, &checked[i], r.Configs, b.taken), checked: at, acting: acting}
		for _, c := range r.Changes {
			if c.Cluster == name && c.State == plan.Planned {
				s.working = append(s.working, c)
			}
		}
		for _, c := range r.OnlyObserved {
			if c.Cluster == name {
				s.would = append(s.would, c)
			}
		}
		if acting { // what it only observes is told at its end
			s.would = before.would
		}
		if complete(s.picture) {
			s.seen = at
		} else {
			s.seen = before.seen
		}
		news = news || b.overdue(before) || before.acting != s.acting || !reflect.DeepEqual(before.picture, s.picture) || !reflect.DeepEqual(before.working, s.working) || !reflect.DeepEqual(before.would, s.would)
		b.clusters[name] = s
	}
	if !acting { // before it acts, a round does not know all that it finds
		news = news || !reflect.DeepEqual(b.findings, r.Findings) || len(r.Changes) > 0
		b.findings = r.Findings
		if r.Of == nil {
			b.took = r.Elapsed
		}
	}
	b.show(news)
	b.watch()
}

// configure takes the configs of the managed clusters, where these are others than before, and reports
// whether that shows.
func (b *Board) configure(configs []v1alpha1.ClusterRoutes) (news bool) {
	if len(configs) == len(b.configs) && (len(configs) == 0 || &configs[0] == &b.configs[0]) {
		return false
	}
	b.configs, b.taken = configs, plan.TakenBy(configs)
	clusters := make(map[string]*standing, len(configs))
	order := make([]string, len(configs))
	for i := range configs {
		name := configs[i].Metadata.Name
		order[i], clusters[name] = name, b.clusters[name]
		if clusters[name] == nil {
			clusters[name] = &standing{picture: picture.Cluster{Name: name}}
		}
	}
	news = !slices.Equal(order, b.order)
	b.clusters, b.order = clusters, order
	return news
}

// show lets everybody who waits look again.
func (b *Board) show(news bool) {
	if news {
		b.version++
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// next returns the version, when everything was last looked at, or a cluster, and a channel that is closed at the next round.
func (b *Board) next(cluster string) (version uint64, checked time.Time, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch s := b.clusters[cluster]; {
	case s != nil:
		checked = s.checked
	case cluster == "":
		checked = b.checked()
	}
	return b.version, checked, b.changed
}

// checked is when the cluster was looked at whose turn was the longest ago: the others say nothing of it.
func (b *Board) checked() (at time.Time) {
	for _, s := range b.clusters {
		if at.IsZero() || !s.checked.IsZero() && s.checked.Before(at) {
			at = s.checked
		}
	}
	return at
}

// complete reports whether all of a cluster could be seen.
func complete(c picture.Cluster) bool {
	return c.Unread == "" && !slices.ContainsFunc(c.Subnets, func(s picture.Subnet) bool { return s.Unread != "" }) &&
		!slices.ContainsFunc(c.Tables, func(t picture.Table) bool { return t.Unread != "" })
}

// The states of a cluster and of all, worst last.
const (
	Good   = "good"   // everything is as it has to be
	Noted  = "noted"  // and something is worth knowing
	Busy   = "busy"   // changes are being made
	Unseen = "unseen" // not everything could be seen
	Bad    = "bad"    // something is not as it has to be
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
	// Sentence is everything in one sentence, without when that was.
	Sentence string    `json:"sentence"`
	State    string    `json:"state"`
	Notice   string    `json:"notice,omitempty"`
	Checked  time.Time `json:"checked,omitzero"`
	// Routes are the pod routes in all tables; an association counts as none, but without it no route of its table is true.
	Routes   picture.Counted   `json:"podRoutes"`
	Findings []finding.Finding `json:"findings"`
	Clusters []Cluster         `json:"clusters"`
	Version  uint64            `json:"version"`
}

// Cluster is how one cluster stands.
type Cluster struct {
	picture.Cluster
	Sentence string            `json:"sentence"`
	State    string            `json:"state"`
	Checked  time.Time         `json:"checked,omitzero"`
	Seen     time.Time         `json:"seen,omitzero"` // when all of it was last seen
	Routes   picture.Counted   `json:"podRoutes"`
	Findings []finding.Finding `json:"findings"`
	// Changes are under way where Acting is set; otherwise they are planned, and nobody makes them: the keeper is paused, or on a dry run.
	Changes []plan.Outcome `json:"changes"`
	Acting  bool           `json:"acting"`
	// OnlyObserved are the changes that are not made because the config says Observe.
	OnlyObserved []plan.Outcome `json:"onlyObserved"`
}

// overview returns how everything stands, the clusters in the order of the config.
func (b *Board) overview() Overview {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := Overview{State: Good, Notice: b.notice, Checked: b.checked(), Findings: b.findings, Clusters: []Cluster{}, Version: b.version}
	if o.Findings == nil {
		o.Findings = []finding.Finding{}
	}
	byCluster := map[string][]finding.Finding{}
	for _, f := range b.findings {
		byCluster[f.Cluster] = append(byCluster[f.Cluster], f)
	}
	for _, name := range b.order {
		c := b.clusters[name].stand(byCluster[name])
		if b.overdue(b.clusters[name]) {
			c.State = worse(c.State, Unseen)
			c.Sentence = "last looked at more than " + ago(b.patience()) + ", and then: " + c.Sentence
		}
		o.Clusters = append(o.Clusters, c)
		o.Routes.All += c.Routes.All
		o.Routes.True += c.Routes.True
		o.Routes.Unknown += c.Routes.Unknown
		o.State = worse(o.State, c.State)
	}
	for _, f := range byCluster[""] {
		o.State = worse(o.State, stateOf(f))
	}
	if o.Checked.IsZero() {
		o.State = worse(o.State, Unseen)
	}
	o.Sentence = o.sentence()
	return o
}

func stateOf(f finding.Finding) string {
	switch f.Severity {
	case finding.Error:
		return Bad
	case finding.Warning:
		return Noted
	}
	return Good
}

func (s *standing) stand(findings []finding.Finding) Cluster {
	c := Cluster{Cluster: s.picture, State: Good, Checked: s.checked, Seen: s.seen, Findings: findings, Changes: s.working, Acting: s.acting, OnlyObserved: s.would}
	if c.Findings == nil {
		c.Findings = []finding.Finding{}
	}
	if c.Changes == nil {
		c.Changes = []plan.Outcome{}
	}
	if c.OnlyObserved == nil {
		c.OnlyObserved = []plan.Outcome{}
	}
	c.Routes = c.Cluster.Routes()
	for _, f := range findings {
		c.State = worse(c.State, stateOf(f))
	}
	if s.checked.IsZero() || !complete(s.picture) || c.Routes.Unknown > 0 || c.ownUnknown() {
		c.State = worse(c.State, Unseen)
	}
	if len(c.idle()) > 0 {
		c.State = worse(c.State, Noted)
	}
	if c.Routes.Wrong() > 0 || c.Broken() > 0 || c.unrouted() {
		c.State = Bad
	} else if s.acting {
		c.State = worse(c.State, Busy)
	}
	c.Sentence = c.sentence()
	return c
}

// worstFirst orders clusters for a list that is too long to be read to its end.
func worstFirst(clusters []Cluster) []Cluster {
	sorted := slices.Clone(clusters)
	slices.SortStableFunc(sorted, func(a, b Cluster) int {
		return cmp.Compare(slices.Index(states, b.State), slices.Index(states, a.State))
	})
	return sorted
}

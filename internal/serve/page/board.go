// Package page is what people see of a running keeper: one sentence, what stands in the way, each cluster's network drawn, its tables side
// by side, and what was done. Every page also answers as JSON.
//
// It shows what rounds told and decides nothing. Who may see it is the listener's business (package serve); what a person asks for with a
// button is done by the keeper, on its own rules.
package page

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
)

// Board is what is known of all clusters at the moment. It is told of rounds, one after the other, and read by many at once.
type Board struct {
	now func() time.Time

	mu       sync.Mutex
	clusters map[string]*standing // by name
	order    []string             // in that of the config
	findings []finding.Finding
	checked  time.Time // when the last look was over
	notice   string
	version  uint64        // goes up with everything that shows
	changed  chan struct{} // closed at the next round
}

// standing is how a cluster stands.
type standing struct {
	picture picture.Cluster
	checked time.Time      // when it was last looked at
	seen    time.Time      // when all of it was last seen
	working []plan.Outcome // changes under way, or planned and not to be made
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
	news := false
	at := r.Started.Add(r.Elapsed)
	if acting {
		at = b.now()
	}
	taken := plan.TakenBy(r.Configs)
	kept := map[string]*standing{}
	order := make([]string, len(r.Configs))
	for i := range r.Configs {
		name := r.Configs[i].Metadata.Name
		order[i] = name
		before := b.clusters[name]
		if r.Seen == nil || r.Of != nil && !slices.Contains(r.Of, name) {
			kept[name] = before
			if before == nil {
				kept[name] = &standing{picture: picture.Cluster{Name: name}}
			}
			continue
		}
		s := &standing{picture: picture.Of(r.Seen, &r.Configs[i], taken), checked: at, acting: acting}
		for _, c := range r.Changes {
			if c.Cluster == name && c.State == plan.Planned {
				s.working = append(s.working, c)
			}
		}
		if complete(s.picture) {
			s.seen = at
		} else if before != nil {
			s.seen = before.seen
		}
		news = news || before == nil || before.acting != s.acting || !reflect.DeepEqual(before.picture, s.picture) || !reflect.DeepEqual(before.working, s.working)
		kept[name] = s
	}
	news = news || !slices.Equal(order, b.order)
	b.clusters, b.order = kept, order
	b.checked = at
	if !acting { // before it acts, a round does not know all that it finds
		news = news || !reflect.DeepEqual(b.findings, r.Findings) || len(r.Changes) > 0
		b.findings = r.Findings
	}
	b.show(news)
}

// show lets everybody who waits look again.
func (b *Board) show(news bool) {
	if news {
		b.version++
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// next returns the version, when the last round was, or the last one of a cluster, and a channel that is closed at the next one.
func (b *Board) next(cluster string) (version uint64, checked time.Time, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	checked = b.checked
	if s := b.clusters[cluster]; s != nil {
		checked = s.checked
	}
	return b.version, checked, b.changed
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
}

// overview returns how everything stands, the clusters in the order of the config.
func (b *Board) overview() Overview {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := Overview{State: Good, Notice: b.notice, Checked: b.checked, Findings: b.findings, Clusters: []Cluster{}, Version: b.version}
	if o.Findings == nil {
		o.Findings = []finding.Finding{}
	}
	byCluster := map[string][]finding.Finding{}
	for _, f := range b.findings {
		byCluster[f.Cluster] = append(byCluster[f.Cluster], f)
	}
	for _, name := range b.order {
		c := b.clusters[name].stand(byCluster[name])
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
	c := Cluster{Cluster: s.picture, State: Good, Checked: s.checked, Seen: s.seen, Findings: findings, Changes: s.working, Acting: s.acting}
	if c.Findings == nil {
		c.Findings = []finding.Finding{}
	}
	if c.Changes == nil {
		c.Changes = []plan.Outcome{}
	}
	c.Routes = c.Cluster.Routes()
	for _, f := range findings {
		c.State = worse(c.State, stateOf(f))
	}
	if s.checked.IsZero() || !complete(s.picture) {
		c.State = worse(c.State, Unseen)
	}
	if c.Routes.Wrong() > 0 || c.Broken() > 0 {
		c.State = Bad
	} else if s.acting {
		c.State = worse(c.State, Busy)
	}
	c.Sentence = c.sentence()
	return c
}

// sentence says of a cluster what matters most.
func (c Cluster) sentence() string {
	broken := c.Broken()
	text := ""
	switch {
	case c.Checked.IsZero():
		return "not looked at yet"
	case broken > 0:
		text = fmt.Sprintf("%s; %d of %s do not carry", c.astray(), c.Routes.Wrong(), report.Count(c.Routes.All, "pod route"))
	case c.Routes.Wrong() > 0:
		text = c.wrong()
	case c.Unread != "":
		return "cannot be read: " + c.Unread
	case !complete(c.Cluster):
		return fmt.Sprintf("not everything could be read: %d of %s true", c.Routes.True, report.Count(c.Routes.All, "pod route"))
	case c.Routes.All == 0:
		text = "no pod routes"
	case c.State == Bad:
		text = fmt.Sprintf("all %s true, but something stands in the way", report.Count(c.Routes.All, "pod route"))
	default:
		text = fmt.Sprintf("all %s true", report.Count(c.Routes.All, "pod route"))
	}
	if c.Acting {
		text += "; being put right"
	} else if len(c.Changes) > 0 {
		text += fmt.Sprintf("; %s planned and not made", report.Count(len(c.Changes), "change"))
	}
	return text
}

// astray names the subnets that do not have the tables they have to have.
func (c Cluster) astray() string {
	names := map[string][]string{}
	for _, s := range c.Subnets {
		names[s.State] = append(names[s.State], s.ID.Name())
	}
	var parts []string
	for _, kind := range []struct{ state, one, several string }{
		{picture.Lost, "has lost its route table", "have lost their route tables"}, {picture.Other, "has another route table", "have other route tables"},
	} {
		switch some := names[kind.state]; len(some) {
		case 0:
		case 1:
			parts = append(parts, "subnet "+some[0]+" "+kind.one)
		default:
			parts = append(parts, "subnets "+strings.Join(some[:len(some)-1], ", ")+" and "+some[len(some)-1]+" "+kind.several)
		}
	}
	return strings.Join(parts, ", ")
}

// wrong counts what is wrong with the routes, by kind.
func (c Cluster) wrong() string {
	n := map[string]int{}
	for _, t := range c.Tables {
		for _, r := range t.Routes {
			n[r.State]++
		}
	}
	var parts []string
	for _, kind := range []struct{ state, word string }{{picture.Missing, "missing"}, {picture.Wrong, "wrong"}, {picture.Stale, "stale"}, {picture.Idle, "idle"}} {
		if n[kind.state] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", report.Count(n[kind.state], "pod route"), kind.word))
		}
	}
	return strings.Join(parts, ", ")
}

// sentence says everything in one.
func (o Overview) sentence() string {
	if o.Checked.IsZero() && len(o.Clusters) == 0 {
		return "The first look is under way"
	}
	var bad []string
	var worst Cluster
	for _, c := range o.Clusters {
		if c.State != Good && c.State != Noted {
			if len(bad) == 0 || c.State == Bad && worst.State != Bad {
				worst = c
			}
			bad = append(bad, c.Name)
		}
	}
	switch {
	case len(bad) == 0 && o.State == Bad:
		return fmt.Sprintf("All %s true on %s, but something stands in the way", report.Count(o.Routes.All, "pod route"), report.Count(len(o.Clusters), "cluster"))
	case len(bad) == 0:
		return fmt.Sprintf("All %s true on %s", report.Count(o.Routes.All, "pod route"), report.Count(len(o.Clusters), "cluster"))
	case len(bad) == 1:
		return worst.Name + ": " + worst.Sentence
	}
	return fmt.Sprintf("%d of %s need attention; %s: %s", len(bad), report.Count(len(o.Clusters), "cluster"), worst.Name, worst.Sentence)
}

// worstFirst orders clusters for a list that is too long to be read to its end.
func worstFirst(clusters []Cluster) []Cluster {
	sorted := slices.Clone(clusters)
	slices.SortStableFunc(sorted, func(a, b Cluster) int {
		return cmp.Compare(slices.Index(states, b.State), slices.Index(states, a.State))
	})
	return sorted
}

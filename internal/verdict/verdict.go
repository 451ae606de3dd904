// Package verdict judges a managed cluster: whether the packets that the config and the cluster
// need are delivered. The page, status, the log, metrics, the history, conditions and the doctor
// show this one value, and judge nothing themselves.
//
// How it works. See gathers the evidence: which packets the route tables deliver (packets.go), and
// a picture of subnets and routes. Judge adds the findings, and returns the first state of the
// ladder that holds:
//
//	state      what was seen
//	---------  ---------------------------------------------------------------------------
//	unknown    the cluster was not read
//	stopped    the cluster is stopped, and no finding is a warning or an error
//	broken     packets are dropped, as routes show or a finding says; or a pod route is missing
//	           or wrong, and nothing shows that its packets arrive
//	bypassed   all is delivered, but egress does not take the declared way; or no config declares
//	           one, and a finding says that egress takes a wrong way
//	at-risk    all is delivered, and a warning or an error says that this may end
//	unknown    something was not read, or it depends on what ARM does not show
//	observed   all is delivered, and the config says Observe everywhere
//	in-sync    all is delivered
//
// That a route exists is evidence, but not the verdict: if a subnet's wrong table still delivers
// everything, the cluster is at risk, and not broken.
//
// The package is pure. It must not read anything, and must not decide what is written.
package verdict

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

// State is the state of a cluster.
type State string

// The states, the worst first.
const (
	Broken   State = "broken"   // packets that the config or the cluster needs are dropped
	Bypassed State = "bypassed" // delivered, but not through the declared next hop
	AtRisk   State = "at-risk"  // delivered, but the reason for that is missing or will end
	Unknown  State = "unknown"  // not everything that decides was read
	Stopped  State = "stopped"  // the cluster is stopped
	Observed State = "observed" // delivered, and the config only observes
	InSync   State = "in-sync"  // delivered
)

// States are all states, the worst first.
var States = []State{Broken, Bypassed, AtRisk, Unknown, Stopped, Observed, InSync}

// The colors of states show how much a state matters, for signs and counters.
const (
	Good   = "good"   // all packets are delivered, as far as is known
	Noted  = "noted"  // all packets are delivered, but something threatens that
	Unseen = "unseen" // not everything was read
	Bad    = "bad"    // packets are dropped
)

// Harmed reports whether packets do not arrive, or do not take the declared way.
func (s State) Harmed() bool { return s == Broken || s == Bypassed }

// Color returns the color of a state.
func (s State) Color() string {
	switch s {
	case Broken:
		return Bad
	case Bypassed, AtRisk:
		return Noted
	case Stopped, Observed, InSync:
		return Good
	case Unknown:
	}
	return Unseen
}

// Verdict is the state of one cluster, and why.
type Verdict struct {
	Cluster string `json:"cluster"`
	State   State  `json:"state"`
	// Since is when the state began.
	Since time.Time `json:"since,omitzero"`
	// Sentence says what is wrong and its effect, without a period.
	Sentence string  `json:"sentence"`
	Packets  Packets `json:"packets"`
	// CutOff counts the nodes whose pods do not get all packets.
	CutOff int `json:"cutOff"`
	// Breaks has the packets that are not delivered, grouped by cause, the worst first.
	Breaks []trace.Break `json:"breaks,omitempty"`
	Egress []Egress      `json:"egress,omitempty"`
	// Cause is the finding that causes the state; absent if no finding does.
	Cause *Cause `json:"cause,omitempty"`
	// Before is what was last known. It is set only if the state is Unknown.
	Before *Before `json:"before,omitempty"`
	// Silenced is set if the state would be broken or bypassed, but a person silenced every finding
	// that explains it.
	Silenced bool `json:"silenced,omitempty"`

	evidence *Evidence
}

// Before is a state with its age, as it was before a cluster could not be read.
type Before struct {
	State    State     `json:"state"`
	Since    time.Time `json:"since,omitzero"`
	Sentence string    `json:"sentence"`
	CutOff   int       `json:"cutOff"`
}

// LastKnown returns the verdict as it was before an outage.
func (v Verdict) LastKnown() Verdict {
	if b := v.Before; b != nil {
		v.State, v.Since, v.Sentence, v.CutOff = b.State, b.Since, b.Sentence, b.CutOff
	}
	return v
}

// Cause names a finding.
type Cause struct {
	Code     finding.Code `json:"code"`
	Resource string       `json:"resource,omitempty"`
	Message  string       `json:"message"`
}

// Packets counts pairs of a sender and a node's pods. Senders are the other nodes, their pods, and
// subnets that must reach pods.
type Packets struct {
	Delivered int `json:"delivered"`
	Dropped   int `json:"dropped"`
	Unknown   int `json:"unknown"`
}

// Evidence is what was read about a cluster, without findings.
type Evidence struct {
	Picture picture.Cluster
	packets trace.Matrix
	egress  []Egress
	observe bool // the config only observes
	routes  int  // of spec.egress
}

// mostBreaks is how many breaks a verdict lists, and mostEnds how many ends on each side of one.
const mostBreaks, mostEnds = 5, 10

// breaks returns the first breaks, with the first ends of each.
func (e *Evidence) breaks() []trace.Break {
	first := slices.Clone(e.packets.Broken[:min(len(e.packets.Broken), mostBreaks)])
	for i := range first {
		b := &first[i]
		b.From, b.To = b.From[:min(len(b.From), mostEnds)], b.To[:min(len(b.To), mostEnds)]
	}
	return first
}

// See gathers the evidence on each of some clusters. configs are their configs; all has the configs
// of all managed clusters. The evidence is in the order of configs.
func See(s plan.Facts, configs, all []v1alpha1.ClusterRoutes, taken plan.Taken) []Evidence {
	var whole *tracing
	if diagnoses(s.Snapshot) {
		// a subnet that no config and no document shows to need the pods does not break a cluster
		t := trace.New(s.Snapshot, trace.Options{Certain: true})
		whole = &tracing{s: s.Snapshot, t: t, lost: lostBy(t)}
	}
	lost := s.Lost.Lookup
	if s.Lost == nil && whole == nil { // a diagnosis that could not read machines
		lost = lostBy(trace.New(s.Snapshot, trace.Options{}))
	}
	seen := make([]Evidence, len(configs))
	for i := range configs {
		// as the plan sees it: the cluster's table has no routes any more, and needs none
		if cluster := s.Cluster(arm.ID(configs[i].Spec.ClusterID)); plan.HasLeft(s, &configs[i],
			taken) {
			s = s.Fork()
			s.Clusters[cluster.ID.Key()] = cluster.Left()
		}
		e := &seen[i]
		e.Picture = picture.Of(s, &configs[i], all, taken)
		t, cluster := whole, s.Cluster(e.Picture.ID)
		if t == nil {
			t = assume(s, &configs[i], plan.Discover(s, &configs[i], taken))
			t.lost = lost
		}
		// Without pod routes, a keeper does not read what decides about packets to pods.
		if t == whole || cluster == nil || plan.Routed(&configs[i], cluster) {
			e.packets = t.packets(e.Picture)
		}
		e.egress = t.egress(e.Picture, &configs[i])
		e.observe, e.routes = observes(&configs[i]), len(configs[i].Spec.Egress.Routes)
	}
	return seen
}

// diagnoses reports whether a snapshot was read for a diagnosis. It then has the machines of a
// cluster, or any machine in a snapshot without clusters. Interfaces of appliances do not count: a
// keeper reads those for next hops.
func diagnoses(s *inventory.Snapshot) bool {
	if len(s.InterfacesOf) > 0 || len(s.Clusters) == 0 && len(s.Interfaces) > 0 {
		return true
	}
	for _, nic := range s.Interfaces {
		for _, c := range s.Clusters {
			if c.NodeResourceGroup != "" && nic.ID.Group().Equal(c.NodeGroup()) {
				return true
			}
		}
	}
	return false
}

// Of returns the verdicts on clusters, as See and Judge compute them. Their age is not known here.
func Of(s plan.Facts, configs, all []v1alpha1.ClusterRoutes, taken plan.Taken,
	findings []finding.Finding) []Verdict {
	by := map[string][]finding.Finding{}
	for _, f := range findings {
		by[f.Cluster] = append(by[f.Cluster], f)
	}
	seen := See(s, configs, all, taken)
	verdicts := make([]Verdict, len(seen))
	for i := range seen {
		verdicts[i] = seen[i].Judge(by[configs[i].Metadata.Name])
	}
	return verdicts
}

// observes reports whether a config changes nothing.
func observes(config *v1alpha1.ClusterRoutes) bool {
	return config.Spec.Guard.Mode != v1alpha1.GuardEnforce &&
		config.Spec.Egress.Mode != v1alpha1.GuardEnforce &&
		!slices.ContainsFunc(config.Spec.Targets, func(t v1alpha1.Target) bool {
			return t.Policy != v1alpha1.PolicyObserve
		})
}

// Judge returns the verdict for gathered evidence and the cluster's current findings.
func (e *Evidence) Judge(findings []finding.Finding) Verdict {
	v := Verdict{Cluster: e.Picture.Name, evidence: e, Egress: e.egress,
		Packets: Packets{Delivered: e.packets.Delivered, Dropped: e.packets.Dropped,
			Unknown: e.packets.Unknown},
		Breaks: e.breaks()}
	j := judgement{Evidence: e}
	for _, f := range findings {
		if f.Silenced == nil {
			j.loud = append(j.loud, f)
		} else {
			j.silenced = append(j.silenced, f)
		}
	}
	var cause *finding.Finding
	v.State, cause = j.state()
	v.CutOff = e.cutOff(e.Picture.Unrouted() ||
		slices.ContainsFunc(findings, func(f finding.Finding) bool {
			return f.Severity == finding.Error && f.Code == finding.NodeWithoutRoute
		}))
	if cause != nil {
		v.Cause = &Cause{cause.Code, cause.Resource, cause.Message}
	}
	v.Sentence = j.sentence(v, cause)
	return v.Quiet(findings)
}

// Quiet returns the verdict with the present silences: broken and bypassed become at risk if a
// person silenced every finding that can explain them. People know about these, so nothing must
// page them again. Only its own finding explains a next hop that no resource has.
func (v Verdict) Quiet(findings []finding.Finding) Verdict {
	silenced, lost := false, slices.ContainsFunc(v.Egress, Egress.nextHopLost)
	for _, f := range findings {
		lost = lost && f.Code != finding.NextHopUnreachable
		if Explains(f) && f.Silenced == nil {
			return v
		}
		silenced = silenced || Explains(f)
	}
	if silenced && !lost && v.State.Harmed() {
		v.State, v.Silenced = AtRisk, true
	}
	return v
}

// Missed returns the nodes whose pods do not get the packets of a subnet. nodes is set if it is a
// node subnet. A verdict from a file knows only the first of these nodes.
func (v Verdict) Missed(subnet arm.ID, nodes bool) map[string]bool {
	all := v.Breaks
	if v.evidence != nil {
		all = v.evidence.packets.Broken
	}
	missed := map[string]bool{}
	for _, b := range all {
		sends := nodes
		if strings.HasPrefix(b.Kind, "subnet") {
			sends = slices.Contains(b.From, subnet.Short())
		}
		if b.Verdict != trace.Dropped || b.Answer || !sends {
			continue
		}
		for _, node := range b.To {
			missed[node] = true
		}
	}
	return missed
}

// Clusterless reports whether the verdict is on a document without a cluster.
func (v Verdict) Clusterless() bool {
	return v.evidence != nil && v.evidence.Picture.Plugin == inventory.NoCluster
}

// Seen returns the evidence of the verdict, or nil if the verdict was read from a file.
func (v Verdict) Seen() *Evidence { return v.evidence }

// judgement is evidence with findings.
type judgement struct {
	*Evidence
	loud, silenced []finding.Finding // by whether a person silenced them
}

// unread has findings about what could not be read: it is unknown what they hide.
var unread = []finding.Code{finding.ReadFailed, finding.AzureUnreachable}

// state returns the first state of the ladder that holds, and the finding that causes it, or nil.
func (j *judgement) state() (State, *finding.Finding) {
	c := j.Picture
	worst := j.worst(j.loud, func(f finding.Finding) bool {
		return finding.Threatens(f.Code) && !slices.Contains(unread, f.Code)
	})
	past := j.worst(j.loud, func(f finding.Finding) bool {
		return f.Code == finding.EgressBypassed
	})
	switch {
	case c.Unread != "" || c.Plugin == "":
		return Unknown, j.worst(j.loud, anyFinding)
	case c.Stopped && worst == nil && past == nil:
		return Stopped, nil
	}
	cause := j.worst(j.loud, Explains)
	if cause == nil {
		cause = j.worst(j.silenced, Explains)
	}
	if j.dropping() {
		if c.Stopped {
			return AtRisk, cause
		}
		return Broken, cause
	}
	// A resource that was not read may drop packets, unless they are shown to arrive.
	blind := !Complete(c) && (j.packets.Delivered == 0 || j.packets.Unknown > 0)
	switch {
	case slices.ContainsFunc(j.egress, func(e Egress) bool { return !e.Dropped }):
		return Bypassed, cause
	case past != nil && past.Severity == finding.Error:
		return Bypassed, past
	case past != nil && worst == nil:
		return AtRisk, past
	case worst != nil && !blind:
		return AtRisk, worst
	case j.pending() && !blind:
		return AtRisk, nil
	case !Complete(c) || c.Unsourced != "" || j.packets.Unknown > 0 || c.Routes().Unknown > 0:
		return Unknown, j.worst(j.loud, anyFinding)
	case j.observe:
		return Observed, nil
	}
	return InSync, nil
}

func anyFinding(finding.Finding) bool { return true }

// Explains reports whether a finding can be the reason why packets are lost.
func Explains(f finding.Finding) bool {
	return f.Severity > finding.Info &&
		(finding.BreaksTraffic(f.Code) || slices.Contains(mayDrop, f.Code))
}

// mayDrop lists findings of the keeper that can mean dropped packets, although their code does not
// say so.
var mayDrop = []finding.Code{finding.TargetDrift, finding.TargetFull, finding.PrefixTaken,
	finding.UnmanagedShadow, finding.SourceEmpty, finding.SourceHop, finding.PodCIDRsExclude,
	finding.WriteRefused, finding.WriteFailed, finding.WriteUndone, finding.Conflict,
	finding.ChangesWithheld, finding.UpdatesWithheld, finding.DeletesWithheld,
	finding.TargetMissing, finding.ChangesLimited}

// invisible lists errors that mean dropped packets which the routes of nodes do not show. The nodes
// in question have no routes, or no config says where their egress must go.
var invisible = []finding.Code{finding.NodeWithoutRoute, finding.RouteHalf, finding.TableFull,
	finding.TableMissing, finding.EgressRouteMissing, finding.EgressDropped,
	finding.EgressHopGone, finding.GatewayNoTable}

// dropping reports whether packets are dropped. A target that lacks a pod route, or has a wrong
// one, drops packets unless they are shown to arrive: a wrong next hop may be a node, which
// forwards them.
func (j *judgement) dropping() bool {
	n := j.Picture.Counts()
	return j.packets.Dropped > 0 || j.Picture.Unrouted() ||
		j.packets.Unknown > 0 && n[picture.Missing]+n[picture.Wrong]+n[picture.Idle] > 0 ||
		slices.ContainsFunc(j.egress, func(e Egress) bool { return e.Dropped }) ||
		slices.ContainsFunc(slices.Concat(j.loud, j.silenced), func(f finding.Finding) bool {
			return f.Severity == finding.Error && slices.Contains(invisible, f.Code) &&
				!(f.Code == finding.NodeWithoutRoute && j.othersDeliver())
		})
}

// othersDeliver reports whether other tables are shown to deliver the packets to pods: the
// cluster's own table is on no subnet of its nodes, so what it lacks drops nothing.
func (j *judgement) othersDeliver() bool {
	own := j.Picture.RouteTable()
	return own != nil && j.packets.Delivered > 0 && j.packets.Unknown == 0 &&
		!slices.ContainsFunc(j.Picture.Subnets, func(s picture.Subnet) bool {
			return s.Unread != "" || s.Table.Equal(own.ID)
		})
}

// pending reports whether a target differs, or has no effect, although no finding says so.
func (j *judgement) pending() bool {
	n := j.Picture.Counts()
	return n[picture.Missing]+n[picture.Wrong]+n[picture.Idle]+n[picture.Stale] > 0 ||
		j.Picture.Broken() > 0 || len(j.Picture.Idle()) > 0
}

// worst returns the worst finding that fits, or nil if none is a warning or an error. Of several
// the first one counts: findings are sorted.
func (j *judgement) worst(of []finding.Finding, fit func(finding.Finding) bool) *finding.Finding {
	var worst *finding.Finding
	for i, f := range of {
		if f.Severity == finding.Info || !fit(f) || f.Code == finding.TableUnknown &&
			!Complete(j.Picture) { // because something was not read
			continue
		}
		if worst == nil || f.Severity > worst.Severity {
			worst = &of[i]
		}
	}
	return worst
}

// cutOff counts the nodes whose pods do not get all packets. It includes nodes whose pod route is
// missing or wrong, unless the packets are shown to arrive. If a node is known to lack its row in
// the cluster's table, the count includes all nodes without a row, and at least one: a keeper need
// not know which they are.
func (e *Evidence) cutOff(unrouted bool) int {
	nodes, lacking := map[string]bool{}, map[string]bool{}
	for _, t := range e.Picture.Tables {
		for _, r := range t.Routes {
			if r.State == picture.Missing || r.State == picture.Wrong || r.State == picture.Idle {
				lacking[r.Node] = true
			}
		}
	}
	for _, b := range e.packets.Broken {
		for _, name := range b.To {
			if b.Verdict == trace.Dropped || lacking[name] {
				nodes[name] = true
			}
		}
	}
	own := e.Picture.RouteTable()
	if !unrouted || !e.Picture.Kubenet() || own == nil || own.Unread != "" {
		return len(nodes)
	}
	routed := e.Picture.RoutedNodes()
	without := 0
	for name := range nodes {
		if !routed[name] {
			without++
		}
	}
	return max(1, len(nodes)-without+max(without, e.Picture.Nodes-len(routed)))
}

// Complete reports whether all resources of a cluster could be read.
func Complete(c picture.Cluster) bool {
	return c.Unread == "" &&
		!slices.ContainsFunc(c.Subnets, func(s picture.Subnet) bool { return s.Unread != "" }) &&
		!slices.ContainsFunc(c.Tables, func(t picture.Table) bool { return t.Unread != "" })
}

// Compare orders verdicts, the worst first: by state, then by how many nodes are cut off, then by
// age.
func Compare(a, b Verdict) int {
	return cmp.Or(cmp.Compare(slices.Index(States, a.State), slices.Index(States, b.State)),
		cmp.Compare(b.CutOff, a.CutOff), a.Since.Compare(b.Since))
}

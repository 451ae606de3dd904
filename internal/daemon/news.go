package daemon

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// news logs what is new in a check: changes, and findings and pending changes that have appeared or
// disappeared. Other lines would only fill the log.
type news struct {
	log      *slog.Logger
	known    map[string]finding.Finding
	states   map[string]verdict.Verdict
	inOutage map[string]bool // clusters that were checked in an outage of Azure
	unmade   map[string]bool // changes that were planned, observed, failed or skipped
	said     time.Time       // when a check was last logged; zero before the first
	silence  time.Duration   // a check without news is logged after this time
}

// News returns a function that logs what is new in a check, and reports whether there was anything.
func News(log *slog.Logger) func(keeper.Result) bool { return newsOf(log).report }

func newsOf(log *slog.Logger) *news {
	return &news{log: log, known: map[string]finding.Finding{}, unmade: map[string]bool{},
		states: map[string]verdict.Verdict{}, inOutage: map[string]bool{},
		silence: time.Hour}
}

// report logs what is new, and reports whether there was anything.
func (n *news) report(r keeper.Result) bool {
	counts := map[plan.OutcomeState]int{}
	unmade := map[string]bool{}
	for _, c := range slices.Concat(r.Changes, r.OnlyObserved) {
		counts[c.State]++
		switch c.State {
		case plan.Done, plan.Obsolete:
			continue
		case plan.Planned, plan.Failed, plan.Skipped, plan.Observed:
		}
		key := strings.Join([]string{
			c.Cluster, string(c.State), string(c.Verb), c.Resource.Key(), c.Route, c.New.String(),
		}, " ")
		unmade[key] = true
		if (c.State == plan.Planned || c.State == plan.Observed) && !n.unmade[key] {
			n.log.Info(string(c.State), c.Change.Attrs()...)
		}
	}
	if r.Of != nil { // pending changes of clusters that were not checked stay
		for key := range n.unmade {
			if cluster, _, _ := strings.Cut(key, " "); !slices.Contains(r.Of, cluster) {
				unmade[key] = true
			}
		}
	}
	outage, whole := n.outage(r)
	something := n.verdicts(r)
	something = n.findings(r.Findings, outage, whole) || something
	something = something || n.said.IsZero() || counts[plan.Done] > 0 ||
		counts[plan.Obsolete] > 0 || !maps.Equal(unmade, n.unmade)
	n.unmade = unmade
	level := slog.LevelDebug
	if something || r.Started.Sub(n.said) >= n.silence {
		level, n.said = slog.LevelInfo, r.Started
	}
	attrs := []any{"done", counts[plan.Done]}
	for _, state := range []plan.OutcomeState{plan.Planned, plan.Failed, plan.Obsolete,
		plan.Skipped, plan.Observed} {
		if counts[state] > 0 {
			attrs = append(attrs, string(state), counts[state])
		}
	}
	n.log.Log(context.Background(), level, "check", append(attrs, "findings", len(r.Findings),
		"elapsed", report.Duration(r.Elapsed),
		"armReads", r.Reads, "armWrites", r.Writes, "armPolls", r.Polls)...)
	return something
}

// stateLevels has the level at which a cluster's new state is logged.
var stateLevels = map[verdict.State]slog.Level{verdict.Broken: slog.LevelError,
	verdict.Bypassed: slog.LevelError, verdict.AtRisk: slog.LevelWarn,
	verdict.Unknown: slog.LevelWarn}

// outage returns the finding that Azure answers nothing, or nil, and whether the outage has just
// reached the last cluster. An outage logs a line at its begin, one when it reaches the last
// cluster, and one at its end, no matter how many clusters there are.
func (n *news) outage(r keeper.Result) (outage *finding.Finding, whole bool) {
	i := slices.IndexFunc(r.Findings, finding.Finding.IsOutage)
	if i < 0 {
		clear(n.inOutage)
		return nil, false
	}
	before := len(n.inOutage)
	for _, v := range r.Verdicts {
		n.inOutage[v.Cluster] = true
	}
	now := len(n.inOutage)
	return &r.Findings[i], now > before && now == len(r.Managed) && before > 0
}

// verdicts logs the clusters whose state has changed, and further losses of a broken cluster. The
// first state of a cluster is news unless all is well.
func (n *news) verdicts(r keeper.Result) (something bool) {
	for _, v := range r.Verdicts {
		was := n.states[v.Cluster]
		if n.inOutage[v.Cluster] && v.State == verdict.Unknown {
			continue // the line about the outage says it
		}
		if was.State == v.State && (was.Sentence == v.Sentence || !v.State.Harmed()) {
			continue
		}
		n.states[v.Cluster] = verdict.Verdict{State: v.State, Sentence: v.Sentence}
		level := stateLevels[v.State]
		if was.State == "" && level == slog.LevelInfo {
			continue
		}
		something = true
		attrs := []any{"cluster", v.Cluster, "state", string(v.State), "message", v.Sentence}
		switch {
		case was.State == v.State:
			attrs = append(attrs, "was", was.Sentence)
		case was.State != "":
			attrs = append(attrs, "was", string(was.State))
		}
		n.log.Log(context.Background(), level, "cluster", attrs...)
	}
	if len(n.states) > len(r.Managed) { // some have left the config
		maps.DeleteFunc(n.states, func(name string, _ verdict.Verdict) bool {
			return !slices.Contains(r.Managed, name)
		})
	}
	return something
}

var levels = map[finding.Severity]slog.Level{
	finding.Info: slog.LevelInfo, finding.Warning: slog.LevelWarn, finding.Error: slog.LevelError,
}

// findings logs new findings, known findings with another severity or other words, and known
// findings that are gone. Findings that an outage hides stay known: they are not gone, and not new
// afterwards.
func (n *news) findings(all []finding.Finding, outage *finding.Finding,
	whole bool) (something bool) {
	known, changed := n.known, finding.News(n.known, all)
	n.known = finding.ByKey(all)
	if outage != nil {
		for _, f := range changed.Hidden {
			n.known[f.Key()] = f
		}
		changed.Hidden = nil
		if _, old := known[outage.Key()]; old && whole {
			changed.Reworded = append(changed.Reworded, *outage)
		}
	}
	for _, f := range slices.Concat(changed.Appeared, changed.Worse, changed.Milder,
		changed.Reworded) {
		attrs := []any{"code", string(f.Code), "cluster", f.Cluster, "resource", f.Resource,
			"message", f.Message}
		switch before, old := known[f.Key()]; {
		case old && before.Severity == f.Severity:
			attrs = append(attrs, "was", before.Message)
		case old:
			attrs = append(attrs, "was", before.Severity.String())
		}
		if len(f.Evidence) > 0 {
			attrs = append(attrs, "evidence", f.Evidence)
		}
		if f.Advice != "" {
			attrs = append(attrs, "advice", f.Advice)
		}
		if f.Fix != "" {
			attrs = append(attrs, "fix", f.Fix)
		}
		level := levels[f.Severity]
		if f.Silenced != nil { // alerts can depend on the level
			level = slog.LevelInfo
			attrs = append(attrs, "silenced", "until "+f.Silenced.Until+" by "+f.Silenced.By+": "+
				f.Silenced.Reason)
		}
		n.log.Log(context.Background(), level, "finding", attrs...)
	}
	for _, f := range changed.Gone {
		n.log.Info("resolved", "code", string(f.Code), "cluster", f.Cluster, "message", f.Message)
	}
	for _, f := range changed.Unrepaired {
		n.log.Warn("not repaired", "code", string(f.Code), "cluster", f.Cluster, "message",
			f.Message)
	}
	for _, f := range changed.Hidden {
		n.log.Info("not checked", "code", string(f.Code), "cluster", f.Cluster, "message",
			f.Message)
	}
	return !changed.None()
}

package page

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// RoutesRead reports whether the cluster's route table was read.
func (c Cluster) RoutesRead() bool {
	table := c.RouteTable()
	return table != nil && table.Unread == ""
}

// sentence returns the verdict's sentence, and what the keeper is doing about it.
func (c Cluster) sentence() string {
	if c.Checked.IsZero() {
		return "not checked yet"
	}
	text := c.Verdict.Sentence
	if c.Acting {
		text += "; repair under way"
	} else if len(c.Changes) > 0 {
		text += fmt.Sprintf("; %s planned, not made", finding.Count(len(c.Changes), "change"))
	}
	if n := c.quiet(); n > 0 {
		text += "; " + finding.Count(n, "finding") + " silenced"
	}
	if len(c.OnlyObserved) > 0 {
		text += "; the config says Observe: it would " + would(c.OnlyObserved)
	}
	return text
}

// quiet counts the silenced findings.
func (c Cluster) quiet() (n int) {
	for _, f := range c.Findings {
		if f.Silenced != nil {
			n++
		}
	}
	return n
}

// would says what changes would do, such as "repair 1 association and add 3 routes".
func would(changes []plan.Outcome) string {
	count := map[plan.Verb]int{}
	for _, c := range changes {
		count[c.Verb]++
	}
	var parts []string
	for _, kind := range []struct {
		verb       plan.Verb
		does, what string
	}{
		{plan.Associate, "repair", "association"}, {plan.Create, "add", "route"},
		{plan.Update, "change", "route"}, {plan.Delete, "remove", "route"},
	} {
		if n := count[kind.verb]; n > 0 {
			parts = append(parts, kind.does+" "+finding.Count(n, kind.what))
		}
	}
	if last := len(parts) - 1; last > 0 {
		return strings.Join(parts[:last], ", ") + " and " + parts[last]
	}
	return strings.Join(parts, "")
}

// outage returns the finding that Azure answers nothing, or nil.
func (o Overview) outage() *finding.Finding {
	i := slices.IndexFunc(o.Findings, finding.Finding.IsOutage)
	if i < 0 {
		return nil
	}
	return &o.Findings[i]
}

// Outage reports whether Azure answers nothing, so that everything shown is old.
func (o Overview) Outage() bool { return o.outage() != nil }

// sentence sums up all clusters.
func (o Overview) sentence() string {
	switch {
	case !o.Checked.IsZero():
	case len(o.Clusters) == 0:
		return "The first check is under way"
	default:
		return "The first check of " + managed(o.Clusters) + " is under way"
	}
	if f := o.outage(); f != nil {
		return report.UpperFirst(f.Message)
	}
	var bad, risk []string
	var worst Cluster
	for _, c := range worstFirst(o.Clusters) {
		switch c.State {
		case Good:
			continue
		case Noted:
			risk = append(risk, c.Name)
		default:
			bad = append(bad, c.Name)
		}
		if worst.Name == "" {
			worst = c
		}
	}
	all := managed(o.Clusters)
	switch {
	case len(bad)+len(risk) == 1:
		return worst.Name + ": " + worst.Sentence
	case len(bad) > 0:
		return fmt.Sprintf("%d of %s need attention; %s: %s", len(bad), all, worst.Name,
			worst.Sentence)
	case len(risk) > 0:
		return fmt.Sprintf("%d of %s are at risk; %s: %s", len(risk), all, worst.Name,
			worst.Sentence)
	}
	return o.fine()
}

// fine says that no cluster and no network is at risk.
func (o Overview) fine() string {
	clusters := len(o.Clusters) - networks(o.Clusters)
	text := "No pod routes on " + finding.Managed(clusters, 0)
	if o.Routes.All > 0 {
		text = report.UpperFirst(verdict.AllCorrect(o.Routes.All)) + " on " +
			finding.Managed(clusters, 0)
	}
	switch n := networks(o.Clusters); {
	case len(o.Clusters) == 1 && n == 1:
		text = o.Clusters[0].Name + ": " + o.Clusters[0].Sentence
	case n > 0 && clusters == 0:
		text = "Nothing needs attention on " + finding.Managed(n, n)
	case n > 0:
		text += "; nothing needs attention on " + finding.Managed(n, n)
	}
	if o.State == Bad {
		text += ", but there are errors"
	}
	return text
}

// networks counts what has no cluster.
func networks(clusters []Cluster) (n int) {
	for _, c := range clusters {
		if c.Plugin == inventory.NoCluster {
			n++
		}
	}
	return n
}

// managed counts clusters and networks.
func managed(clusters []Cluster) string {
	return finding.Managed(len(clusters), networks(clusters))
}

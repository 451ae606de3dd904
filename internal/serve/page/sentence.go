package page

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
)

// tableUnknown reports whether the cluster's route table is not known.
func (c Cluster) tableUnknown() bool { return c.kubenet() && c.RouteTable() == nil }

// unrouted reports whether the cluster's route table was read and has no route to any node.
func (c Cluster) unrouted() bool {
	return c.kubenet() && c.Nodes > 0 && c.Routes.All == 0 && complete(c.Cluster) &&
		!c.tableUnknown()
}

// RoutesRead reports whether the cluster's route table was read.
func (c Cluster) RoutesRead() bool {
	table := c.RouteTable()
	return table != nil && table.Unread == ""
}

func (c Cluster) kubenet() bool { return strings.EqualFold(c.Plugin, "kubenet") }

// idle returns the targets that are on no subnet.
func (c Cluster) idle() (names []string) {
	for _, t := range c.Tables {
		if t.Idle {
			names = append(names, t.ID.Name())
		}
	}
	return names
}

// useless says that route tables are on no subnet, as an addition to a sentence.
func useless(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "; route table " + names[0] + " is on no subnet"
	}
	return fmt.Sprintf("; %d route tables are on no subnet", len(names))
}

// sentence says what matters most about a cluster.
func (c Cluster) sentence() string {
	text := ""
	unread := c.unread()
	switch wrong := c.Routes.Wrong(); {
	case c.Checked.IsZero():
		return "not checked yet"
	case c.Broken() == 0 && c.unrouted() && !c.Stopped:
		text = "its route table has no pod routes to its " + report.Count(c.Nodes, "node")
		if kept := c.counts()[picture.Kept]; kept > 0 {
			text += "; " + report.Count(kept, "route") + " to them in other tables stay"
		}
	case c.Broken() > 0:
		text = c.astray()
		if wrong > 0 {
			text += fmt.Sprintf("; %d of %s do not work", wrong,
				report.Count(c.Routes.All, "pod route"))
		}
		text += also(unread)
	case wrong > 0:
		text = c.wrong() + also(unread)
	case unread != "":
		text = unread
		switch pods := report.Count(c.Routes.All, "pod route"); {
		case c.Routes.All == 0:
		case c.Routes.Unknown == c.Routes.All:
			text += "; it is not known whether " + pods + " work"
		default:
			text += fmt.Sprintf("; %d of the %s that were read are correct", c.Routes.Correct, pods)
		}
	case c.Plugin != "" && !c.kubenet():
		text = "no pod routes: its network plugin is " + c.Plugin + ", not kubenet"
	case c.worstFinding() != nil:
		text = c.worstFinding().Message
	case c.Routes.All == 0:
		text = "no pod routes"
	default:
		text = allCorrect(c.Routes.All)
	}
	text += useless(c.idle())
	if c.Acting {
		text += "; repair under way"
	} else if len(c.Changes) > 0 {
		text += fmt.Sprintf("; %s planned, not made", report.Count(len(c.Changes), "change"))
	}
	if n := c.quiet(); n > 0 {
		text += "; " + report.Count(n, "finding") + " silenced"
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

// allCorrect says that all pod routes are correct.
func allCorrect(n int) string {
	if n == 1 {
		return "the only pod route is correct"
	}
	return "all " + report.Count(n, "pod route") + " are correct"
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
			parts = append(parts, kind.does+" "+report.Count(n, kind.what))
		}
	}
	if last := len(parts) - 1; last > 0 {
		return strings.Join(parts[:last], ", ") + " and " + parts[last]
	}
	return strings.Join(parts, "")
}

func also(text string) string {
	if text == "" {
		return ""
	}
	return "; " + text
}

// unread says what could not be read, or "".
func (c Cluster) unread() string {
	if c.Unread != "" {
		return "cannot be read: " + c.Unread
	}
	var what []string
	for _, t := range c.Tables {
		if t.Unread != "" {
			what = append(what, "route table "+t.ID.Name())
		}
	}
	for _, s := range c.Subnets {
		if s.Unread != "" {
			what = append(what, "subnet "+s.ID.Name())
		}
	}
	switch {
	case len(what) == 1:
		return what[0] + " could not be read"
	case len(what) > 1:
		return fmt.Sprintf("%s and %d more could not be read", what[0], len(what)-1)
	case c.tableUnknown():
		return "the cluster's route table is not known"
	case c.Routes.Unknown > 0:
		return "not everything could be read"
	}
	return ""
}

// astray names the subnets that have no route table or the wrong one.
func (c Cluster) astray() string {
	names := map[string][]string{}
	for _, s := range c.Subnets {
		names[s.State] = append(names[s.State], s.ID.Name())
	}
	var parts []string
	for _, kind := range []struct{ state, one, several string }{
		{picture.Lost, "has lost its route table", "have lost their route tables"},
		{picture.Other, "has the wrong route table", "have the wrong route tables"},
	} {
		switch some := names[kind.state]; len(some) {
		case 0:
		case 1:
			parts = append(parts, "subnet "+some[0]+" "+kind.one)
		default:
			parts = append(parts, "subnets "+strings.Join(some[:len(some)-1], ", ")+" and "+
				some[len(some)-1]+" "+kind.several)
		}
	}
	return strings.Join(parts, ", ")
}

// wrong counts the pod routes that do not work, by kind.
func (c Cluster) wrong() string {
	n := map[string]int{}
	for _, t := range c.Tables {
		for _, r := range t.Routes {
			n[r.State]++
		}
	}
	var parts []string
	for _, kind := range []struct{ state, word string }{
		{picture.Missing, "missing"}, {picture.Wrong, "wrong"},
		{picture.Stale, "stale"}, {picture.Idle, "not used"},
	} {
		if n[kind.state] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", report.Count(n[kind.state], "pod route"),
				kind.word))
		}
	}
	return strings.Join(parts, ", ")
}

// outage is the finding that Azure answers nothing, or nil.
func (o Overview) outage() *finding.Finding {
	i := slices.IndexFunc(o.Findings, func(f finding.Finding) bool {
		return f.Code == finding.AzureUnreachable && f.Cluster == ""
	})
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
		return "The first check of " + report.Count(len(o.Clusters), "cluster") + " is under way"
	}
	if f := o.outage(); f != nil {
		return upper(f.Message)
	}
	var bad, risk, idle []string
	var worst Cluster
	for _, c := range worstFirst(o.Clusters) {
		idle = append(idle, c.idle()...)
		switch {
		case c.State != Good && c.State != Noted:
			bad = append(bad, c.Name)
		case c.State == Noted && c.worstFinding() != nil:
			risk = append(risk, c.Name)
		default:
			continue
		}
		if worst.Name == "" {
			worst = c
		}
	}
	all := report.Count(len(o.Clusters), "cluster")
	switch {
	case len(bad)+len(risk) == 1:
		return worst.Name + ": " + worst.Sentence
	case len(bad) > 0:
		return fmt.Sprintf("%d of %s need attention; %s: %s", len(bad), all, worst.Name,
			worst.Sentence)
	case len(risk) > 0:
		return fmt.Sprintf("%d of %s are at risk; %s: %s", len(risk), all, worst.Name,
			worst.Sentence)
	case o.Routes.All == 0:
		return "No pod routes on " + all + useless(idle)
	}
	text := upper(allCorrect(o.Routes.All)) + " on " + all
	if o.State == Bad {
		text += ", but there are errors"
	}
	return text + useless(slices.Compact(slices.Sorted(slices.Values(idle))))
}

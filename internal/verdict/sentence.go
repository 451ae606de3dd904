package verdict

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/trace"
)

// sentence says what matters most: what is wrong, and its effect.
func (j *judgement) sentence(v Verdict, cause *finding.Finding) string {
	c := j.Picture
	routes, unread := c.Routes(), Unread(c)
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	switch wrong := routes.Wrong(); {
	case c.Broken() == 0 && c.Unrouted() && !c.Stopped:
		add("its route table has no pod routes to its " + finding.Count(c.Nodes, "node"))
		if kept := c.Counts()[picture.Kept]; kept > 0 {
			add(finding.Count(kept, "route") + " to them in other tables stay")
		}
	case c.Broken() > 0:
		add(astray(c))
		add(unread)
	case wrong > 0:
		add(wrongRoutes(c))
		add(unread)
	case unread != "":
		add(unread)
		switch pods := finding.Count(routes.All, "pod route"); {
		case routes.All == 0:
		case routes.Unknown == routes.All:
			add("it is not known whether " + pods + " work")
		default:
			add(fmt.Sprintf("%d of the %s that were read are correct", routes.Correct, pods))
		}
	case cause != nil:
		add(cause.Message)
	case guarded(c)+j.routes > 0 && routes.All == 0:
		var kept []string
		if n := guarded(c); n > 0 {
			kept = append(kept, finding.Count(n, "guarded subnet"))
		}
		if j.routes > 0 {
			kept = append(kept, finding.Count(j.routes, "egress route"))
		}
		text := "no pod routes; "
		if c.Plugin == inventory.NoCluster {
			text = ""
		}
		add(text + list(kept) + " in sync")
	case c.Plugin != "" && !c.Kubenet() && routes.All == 0:
		add("no pod routes: its network plugin is " + c.Plugin + ", not kubenet")
	case routes.All == 0:
		add("no pod routes")
	default:
		add(AllCorrect(routes.All))
	}
	add(j.lost(v))
	if v.State == Broken && cause != nil && !j.shown() && !slices.Contains(parts, cause.Message) {
		add(cause.Message)
	}
	if cause == nil && j.packets.Dropped > 0 && c.Broken() == 0 && routes.Wrong() == 0 &&
		!c.Unrouted() && unread == "" {
		add(j.packets.Broken[0].Why) // no other clause says it
	}
	add(j.doubt(v))
	for _, e := range j.egress {
		add(e.String())
	}
	add(idle(c))
	return strings.Join(parts, "; ")
}

// shown reports whether the evidence shows what is dropped.
func (j *judgement) shown() bool {
	return j.packets.Dropped > 0 || j.Picture.Unrouted() ||
		slices.ContainsFunc(j.egress, func(e Egress) bool { return e.Dropped })
}

// lost says which packets are dropped, or that all are delivered although something is wrong.
func (j *judgement) lost(v Verdict) string {
	switch {
	case j.Picture.Stopped: // it has no pods
		return ""
	case j.packets.Dropped == 0 && v.State == AtRisk && j.Picture.Broken() > 0 &&
		j.packets.Unknown == 0 && j.packets.Delivered > 0:
		return "all packets to pods are delivered nevertheless"
	case j.packets.Dropped == 0:
		return ""
	}
	from := map[string]bool{}
	for _, b := range j.packets.Broken {
		if b.Verdict != trace.Dropped {
			continue
		}
		switch {
		case strings.HasPrefix(b.Kind, "subnet"):
			for _, name := range b.From {
				from["subnet "+name[strings.LastIndexByte(name, '/')+1:]] = true
			}
		default:
			from[strings.TrimSuffix(b.Kind, " to pod")+"s"] = true
		}
	}
	var names []string
	for name := range from {
		names = append(names, name)
	}
	slices.Sort(names)
	const most = 3
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more subnets", more))
	}
	cut, nodes := v.CutOff, "nodes"
	if cut == 1 {
		nodes = "node"
	}
	return fmt.Sprintf("packets from %s to pods on %d %s are dropped", list(names), cut, nodes)
}

// doubt says why it is unknown whether packets arrive, if no other reason makes the state unknown.
func (j *judgement) doubt(v Verdict) string {
	if v.State != Unknown || j.packets.Unknown == 0 || Unread(j.Picture) != "" {
		return ""
	}
	for _, b := range j.packets.Broken {
		if b.Verdict == trace.Unknown {
			return fmt.Sprintf("whether %s of packets arrive is not known: %s",
				finding.Count(j.packets.Unknown, "way"), b.Why)
		}
	}
	return ""
}

// list writes names as a part of a sentence: a, b and c.
func list(names []string) string {
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

// AllCorrect returns the words for pod routes that are all correct.
func AllCorrect(n int) string {
	if n == 1 {
		return "the only pod route is correct"
	}
	return "all " + finding.Count(n, "pod route") + " are correct"
}

// idle says which route tables are on no subnet.
func idle(c picture.Cluster) string {
	switch names := c.Idle(); len(names) {
	case 0:
		return ""
	case 1:
		return "route table " + names[0] + " is on no subnet"
	default:
		return fmt.Sprintf("%d route tables are on no subnet", len(names))
	}
}

// Unread says what could not be read, or "".
func Unread(c picture.Cluster) string {
	if c.Unread != "" {
		return "cannot be read: " + c.Unread
	}
	var gone, failed []string
	add := func(name, why string) {
		switch why {
		case "":
		case absent:
			gone = append(gone, name)
		default:
			failed = append(failed, name)
		}
	}
	for _, t := range c.Tables {
		add("route table "+t.ID.Name(), t.Unread)
	}
	for _, s := range c.Subnets {
		add("subnet "+s.ID.Name(), s.Unread)
	}
	switch {
	case len(gone)+len(failed) > 0:
		return strings.Join(slices.DeleteFunc([]string{
			some(gone, "does not exist", "do not exist"),
			some(failed, "could not be read", "could not be read"),
		}, func(text string) bool { return text == "" }), "; ")
	case c.Unsourced != "":
		return c.Unsourced
	case c.Routes().Unknown > 0:
		return "not everything could be read"
	}
	return ""
}

// absent is the reason for a resource that could not be read because it does not exist.
var absent = inventory.Unread{Absent: true}.Reason()

// some returns a clause about one or several resources, or "" if there are none.
func some(names []string, does, do string) string {
	switch more := len(names) - 1; {
	case more < 0:
		return ""
	case more == 0:
		return names[0] + " " + does
	default:
		return fmt.Sprintf("%s and %d more %s", names[0], more, do)
	}
}

// astray names the subnets that lack what they must have, or have something else.
func astray(c picture.Cluster) string {
	var parts []string
	for _, kind := range []struct{ state, one, several string }{
		{picture.Lost, "has lost its", "have lost their"},
		{picture.Other, "has the wrong", "have the wrong"},
	} {
		var whats []string             // what subnets lack, in the order of the subnets
		names := map[string][]string{} // by what they lack
		for _, s := range c.Subnets {
			var lacks []string
			for _, p := range s.Required() {
				if p.State == kind.state {
					lacks = append(lacks, p.Property.Name())
				}
			}
			if what := list(lacks); what != "" {
				if names[what] == nil {
					whats = append(whats, what)
				}
				names[what] = append(names[what], s.ID.Name())
			}
		}
		for _, what := range whats {
			if some := names[what]; len(some) == 1 {
				parts = append(parts, "subnet "+some[0]+" "+kind.one+" "+what)
			} else {
				parts = append(parts, "subnets "+list(some)+" "+kind.several+" "+
					strings.NewReplacer(", ", "s, ", " and ", "s and ").Replace(what)+"s")
			}
		}
	}
	return strings.Join(parts, ", ")
}

// guarded counts the subnets whose requirements are known.
func guarded(c picture.Cluster) int {
	n := 0
	for _, s := range c.Subnets {
		if s.Wanted != "" || len(s.Properties) > 0 {
			n++
		}
	}
	return n
}

// wrongRoutes counts the pod routes that do not work, by kind.
func wrongRoutes(c picture.Cluster) string {
	n := c.Counts()
	var parts []string
	for _, kind := range []struct{ state, word string }{
		{picture.Missing, "missing"}, {picture.Wrong, "wrong"},
		{picture.Stale, "stale"}, {picture.Idle, "not used"},
	} {
		if n[kind.state] > 0 {
			parts = append(parts, finding.Count(n[kind.state], "pod route")+" "+kind.word)
		}
	}
	return strings.Join(parts, ", ")
}

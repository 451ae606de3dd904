package report

import (
	"fmt"
	"io"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/trace"
)

// Ways are the path of a packet between two ends, and the path of its answer.
type Ways struct {
	From  trace.Endpoint `json:"from"`
	To    trace.Endpoint `json:"to"`
	There trace.Way      `json:"there"`
	Back  trace.Way      `json:"back"`
}

// Dropped reports whether the packet or its answer is dropped.
func (a Ways) Dropped() bool {
	return a.There.Verdict == trace.Dropped || a.Back.Verdict == trace.Dropped
}

// Bypassing reports whether the packet or its answer bypasses a declared way.
func (a Ways) Bypassing() bool { return a.There.Bypasses != "" || a.Back.Bypasses != "" }

// Write writes the paths in the given format.
func (a Ways) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, a)
	}
	return put(w, wayText("there", a.There, a.From, a.To, style)+"\n"+
		wayText("back", a.Back, a.To, a.From, style))
}

func wayText(direction string, way trace.Way, from, to trace.Endpoint, style Style) string {
	named := func(a netip.Addr, e trace.Endpoint) string {
		if e.What == "" || a != e.Addr {
			return a.String()
		}
		return a.String() + " (" + e.What + ")"
	}
	ends := fmt.Sprintf("%s: %s -> %s", direction, named(way.From, from), named(way.To, to))
	text := style.Bold(ends) + "\n"
	rows := make([][]string, len(way.Hops))
	for i, h := range way.Hops {
		rows[i] = []string{fmt.Sprintf("  %d. %s", i+1, h.At), h.What, style.Dim(h.Route)}
	}
	for i, line := range Columns(rows) {
		text += line + "\n"
		if h := way.Hops[i]; h.Because != "" {
			text += style.Dim("     route: "+h.Because) + "\n"
		}
		for _, r := range way.Hops[i].Filters {
			text += style.Dim("     "+map[bool]string{true: "in", false: "out"}[r.Inbound]+": "+
				r.Why) + "\n"
		}
	}
	text += "  " + verdictPaint(way.Verdict, style)(string(way.Verdict)) + ": " + plain(way.Why) +
		"\n"
	for _, u := range way.Unseen {
		text += style.Dim("  not seen: "+u) + "\n"
	}
	return text
}

// Matrix is the result for all pairs of ends.
type Matrix struct {
	trace.Matrix
	// Trace is the command that follows one packet.
	Trace func(from, to netip.Addr, cluster string) finding.CommandLine `json:"-"`
}

// Write writes the matrix in the given format.
func (m Matrix) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, m.Matrix)
	}
	return put(w, m.text(style))
}

// text returns a summary and then the causes, the worst first, with as many ends as fit on a line.
func (m Matrix) text(style Style) string {
	text, paint := fmt.Sprintf("all %s are delivered", finding.Count(m.Pairs, "pair")), style.Green
	if m.Delivered < m.Pairs {
		text, paint = fmt.Sprintf("of %s %d are delivered, %d dropped, %d unknown",
			finding.Count(m.Pairs, "pair"), m.Delivered, m.Dropped, m.Unknown), style.Bold
	}
	if m.Pairs == 0 {
		text, paint = "no pods are known: there is nothing to trace", style.Bold
	}
	text = paint(text) + "\n"
	for _, b := range m.Broken {
		direction := ""
		if b.Answer {
			direction = ", the answer"
		}
		text += fmt.Sprintf("\n%s %s, %s%s: %s\n",
			verdictPaint(b.Verdict, style)(string(b.Verdict)),
			finding.Count(b.Pairs, "pair"), plain(b.Kind), direction, plain(b.Why))
		text += fmt.Sprintf("  from %s to the pods of %s\n", plain(some(b.From)), plain(some(b.To)))
		see := m.Trace(b.Example[0], b.Example[1], string(b.Cluster))
		text += style.Dim("  see: "+see.String()) + "\n"
	}
	for _, u := range m.Unseen {
		text += style.Dim("not seen: "+u) + "\n"
	}
	return text
}

// some lists a few names, and the number of the others.
func some(names []string) string {
	if len(names) <= 4 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
}

func verdictPaint(v trace.Verdict, style Style) func(string) string {
	return map[trace.Verdict]func(string) string{
		trace.Delivered: style.Green, trace.Dropped: style.Red,
		trace.Leaves: style.Yellow, trace.Unknown: style.Yellow,
	}[v]
}

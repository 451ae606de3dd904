package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/egress"
	"routekeeper.dev/routekeeper/internal/trace"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// Egress shows what the appliances behind the default routes of clusters allow.
type Egress struct {
	Exits []egress.Exit `json:"exits"`
	// Astray is the egress that does not take the way that the configs declare.
	Astray []Astray `json:"astray"`
	// None are clusters whose nodes have no default route to an appliance.
	None []string `json:"withoutAppliance"`
	// Groups has the decisions of the nodes' network security groups.
	Groups []trace.Filtered `json:"groups"`
}

// Astray is the egress of a cluster that does not take the declared way.
type Astray struct {
	Cluster string `json:"cluster"`
	verdict.Egress
}

// Lacking reports whether a firewall lacks a rule, a group denies what is required, or packets do
// not take the declared way.
func (e Egress) Lacking() bool {
	if len(e.Astray) > 0 || slices.ContainsFunc(e.Groups, func(f trace.Filtered) bool {
		return f.Ruling.Decision == trace.Denied
	}) {
		return true
	}
	return slices.ContainsFunc(e.Exits, func(exit egress.Exit) bool {
		return exit.Firewall != "" && !exit.Partly && len(exit.Lacking()) > 0
	})
}

// Write writes it in the given format.
func (e Egress) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, e)
	}
	return put(w, e.text(style))
}

func (e Egress) text(style Style) string {
	var b strings.Builder
	e.groups(&b, style)
	for _, a := range e.Astray {
		fmt.Fprintln(&b, style.Red(plain(a.Cluster+": "+a.String())))
	}
	for _, id := range e.None {
		fmt.Fprintf(&b, "%s: its nodes have no default route to an appliance: nothing to compare\n",
			plain(id))
	}
	for _, exit := range e.Exits {
		to := "an appliance that is no Azure Firewall that was read; ask whether it allows"
		if exit.Firewall != "" {
			to = "firewall " + exit.Firewall.Short()
		}
		fmt.Fprintf(&b, "%s\n",
			style.Bold(fmt.Sprintf("%s -> %s, %s", exit.Cluster.Name(), exit.Hop, plain(to))))
		rows := make([][]string, len(exit.Names))
		for i, n := range exit.Names {
			why := ""
			switch {
			case n.Rule != "":
				why = "rule " + plain(n.Rule)
			case n.Verdict == egress.Missing || n.Verdict == egress.Check:
				why = "no rule"
			}
			switch {
			case n.Why != "":
				why += "; " + plain(n.Why)
			case n.Verdict == egress.Ask && n.If != "":
				why = "needed if " + plain(n.If)
			}
			rows[i] = []string{"  " + string(n.Verdict), plain(n.Endpoint()), why}
		}
		for i, line := range Columns(rows) {
			if v := exit.Names[i].Verdict; v == egress.Denied || v == egress.Missing {
				line = style.Red(line)
			}
			b.WriteString(line + "\n")
		}
		for _, note := range exit.Notes {
			fmt.Fprintf(&b, "  note: %s\n", plain(note))
		}
		fmt.Fprintf(&b, "  %s\n", style.Dim("what AKS requires, as of "+exit.AsOf))
		if next := exit.Next.String(); next != "" {
			fmt.Fprintf(&b, "  next: %s\n", next)
		}
	}
	return b.String()
}

// groups writes what network security groups decide.
func (e Egress) groups(b *strings.Builder, style Style) {
	rows := make([][]string, len(e.Groups))
	for i, f := range e.Groups {
		rows[i] = []string{"  " + string(f.Ruling.Decision), plain(f.Name), plain(f.Ruling.Why)}
	}
	for i, line := range Columns(rows) {
		f := e.Groups[i]
		if i == 0 || f.Nodes != e.Groups[i-1].Nodes || !f.Cluster.Equal(e.Groups[i-1].Cluster) {
			fmt.Fprintf(b, "%s\n", style.Bold(fmt.Sprintf("%s: network security groups of nodes "+
				"such as %s", plain(f.Cluster.Name()), f.Nodes)))
		}
		if f.Ruling.Decision == trace.Denied {
			line = style.Red(line)
		}
		b.WriteString(line + "\n")
	}
}

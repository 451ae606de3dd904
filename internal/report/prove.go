package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/prove"
)

// Proof is what prove does, or would do, and the result for each fact.
type Proof struct {
	Subscription string `json:"subscription"`
	Location     string `json:"location,omitempty"`
	DryRun       bool   `json:"dryRun"`
	// Trials are in the order of execution.
	Trials []prove.Trial `json:"trials"`
	// Seconds is about how long they take. LogSeconds is how long prove then waits at most for the
	// activity log. MostSeconds is when the program gives up.
	Seconds     int `json:"seconds"`
	LogSeconds  int `json:"logSeconds"`
	MostSeconds int `json:"mostSeconds"`
	// Cost is what Azure bills for it, in words.
	Cost      string           `json:"cost"`
	Leftovers []prove.Leftover `json:"leftovers"`
	// Group is the ID of the resource group that was created. Deleted is set if the group is proven
	// to be gone.
	Group     string         `json:"group,omitempty"`
	Deleted   bool           `json:"deleted"`
	Calls     int            `json:"calls"`
	Recording string         `json:"recording,omitempty"`
	Facts     []prove.Result `json:"facts"`
	Confirmed int            `json:"confirmed"`
	Differs   int            `json:"differs"`
	Untested  int            `json:"untested"`
}

// proofCost is what the trials cost: none of the types has a price (Azure: pricing of virtual
// networks).
const proofCost = "nothing: resource groups, route tables, networks, subnets, security groups " +
	"and network interfaces have no price, and no traffic flows"

// PlannedProof says how facts will be tested.
func PlannedProof(facts []prove.Fact, logWait, most time.Duration) Proof {
	p := Proof{Trials: prove.Trials(facts), Leftovers: []prove.Leftover{}, Cost: proofCost,
		Facts: []prove.Result{}, MostSeconds: int(most.Seconds())}
	takes, log := prove.Takes(p.Trials, logWait)
	p.Seconds, p.LogSeconds = int(takes.Seconds()), int(log.Seconds())
	for _, f := range facts {
		p.Facts = append(p.Facts, prove.Result{Fact: f})
	}
	return p
}

// Judged adds the result for each fact.
func (p *Proof) Judged(results []prove.Result) {
	p.Facts = results
	for _, r := range results {
		switch r.Verdict {
		case prove.Confirmed:
			p.Confirmed++
		case prove.Differs:
			p.Differs++
		default:
			p.Untested++
		}
	}
}

// WritePlan writes as text what will be done; in a preview with the calls.
func (p Proof) WritePlan(w io.Writer, style Style) error {
	var out strings.Builder
	fmt.Fprintf(&out, "Tests %s in a throwaway resource group of subscription %s, in %s:\n\n",
		finding.Count(len(p.Facts), "fact"), plain(p.Subscription), plain(p.Location))
	var rows [][]string
	for _, t := range p.Trials {
		took := ""
		if t.Seconds > 0 {
			took = fmt.Sprintf("%d s", t.Seconds)
		}
		rows = append(rows, []string{"  " + style.Bold(t.Name), t.What, took})
	}
	for i, row := range Columns(rows) {
		fmt.Fprintln(&out, row)
		if p.DryRun {
			fmt.Fprintf(&out, "      %s\n", style.Dim(calls(p.Trials[i].Calls)))
		}
	}
	fmt.Fprintf(&out, "\nTime: about %s", Duration(time.Duration(p.Seconds)*time.Second))
	if p.LogSeconds > 0 {
		fmt.Fprintf(&out, ", plus up to %s for the activity log",
			Duration(time.Duration(p.LogSeconds)*time.Second))
	}
	fmt.Fprintf(&out, "; %s at most.\n", Duration(time.Duration(p.MostSeconds)*time.Second))
	fmt.Fprintf(&out, "Cost: %s.\n", p.Cost)
	fmt.Fprintf(&out, "Everything is in one new resource group, routekeeper-prove-<random>, "+
		"which is deleted at the end.\n")
	for _, l := range p.Leftovers {
		if l.Stale {
			fmt.Fprintf(&out, "Also deletes %s, which an earlier run left behind.\n",
				plain(string(l.Group)))
		} else {
			fmt.Fprintf(&out, "Leaves %s in place, because another run may be using it; --clean "+
				"deletes it.\n",
				plain(string(l.Group)))
		}
	}
	return put(w, out.String())
}

func calls(all []prove.Call) string {
	var parts []string
	for _, c := range all {
		part := c.Method + " " + c.What
		switch {
		case c.Times == 0:
			part += " (as often as it takes)"
		case c.Times > 1:
			part += fmt.Sprintf(" ×%d", c.Times)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// Write writes the result as text or JSON.
func (p Proof) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, p)
	}
	var out strings.Builder
	family := ""
	for _, f := range p.Facts {
		if f.Family != family {
			family = f.Family
			fmt.Fprintf(&out, "\n%s\n", style.Bold(family))
		}
		fmt.Fprintf(&out, "  %s  %s: %s\n", wording(f.Verdict, style), plain(f.Name), plain(f.Seen))
		if f.Verdict == prove.Differs {
			fmt.Fprintf(&out, "             expected: %s\n             so: %s\n", f.Expected, f.So)
		}
	}
	fmt.Fprintf(&out, "\n%d confirmed, %d differ, %d untested. ", p.Confirmed, p.Differs,
		p.Untested)
	switch {
	case p.Group == "":
		fmt.Fprint(&out, "Nothing was created.\n")
	case p.Deleted:
		fmt.Fprint(&out, "The resource group is deleted: Azure answers 404 for it.\n")
	default:
		fmt.Fprintf(&out, "%s still exists.\n", plain(p.Group))
	}
	if p.Recording != "" {
		fmt.Fprintf(&out, "%s recorded in %s, without anything that identifies you: send the "+
			"file to the maintainers.\n",
			finding.Count(p.Calls, "call"), plain(p.Recording))
	}
	return put(w, out.String())
}

func wording(v prove.Verdict, style Style) string {
	text := fmt.Sprintf("%-9s", v)
	switch v {
	case prove.Confirmed:
		return style.Green(text)
	case prove.Differs:
		return style.Red(text)
	default:
		return style.Yellow(text)
	}
}

package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/monitor"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Alerts is what is, or would be, set up in Azure Monitor.
type Alerts struct {
	Changes []AlertChange `json:"changes"`
	// Watched are the scopes by subscription, and Operations are what is watched in them. Both are
	// absent for a removal.
	Watched    []monitor.Scopes `json:"watched,omitempty"`
	Operations []string         `json:"operations,omitempty"`
	// Unknown says what could not be read.
	Unknown []string `json:"unknown,omitempty"`
}

// AlertChange is a resource of Azure Monitor that is written or deleted.
type AlertChange struct {
	Verb     plan.Verb         `json:"verb"`
	Resource arm.ID            `json:"resource"`
	Kind     string            `json:"kind"`
	Why      []string          `json:"why,omitempty"`
	State    plan.OutcomeState `json:"state"`
	Error    string            `json:"error,omitempty"`
}

// Write writes it as text or JSON.
func (a Alerts) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, a)
	}
	counts := counted{}
	var rows [][]string
	for _, c := range a.Changes {
		counts.add(c.State, c.Verb)
		state := ""
		if c.State == plan.Failed || c.State == plan.Skipped {
			state = style.Red(string(c.State))
		}
		sign, paint := style.sign(string(c.Verb))
		rows = append(rows, []string{" ", paint(sign), c.Kind, c.Resource.Name(),
			"in " + c.Resource.ResourceGroup(), plain(c.words()), state})
	}
	sentence := counts.sentence(func(plan.Verb) string { return "resource" })
	var b strings.Builder
	fmt.Fprintln(&b, style.Bold(UpperFirst(cmp.Or(sentence, "nothing to do"))+"."))
	if len(rows) > 0 {
		b.WriteString("\n" + aligned(rows))
	}
	for _, s := range a.Watched {
		fmt.Fprintf(&b, "\nWatched in subscription %s:\n", plain(s.Subscription))
		for _, id := range s.IDs {
			fmt.Fprintln(&b, "  "+plain(string(id)))
		}
	}
	for _, line := range a.Unknown {
		fmt.Fprintf(&b, "\n%s %s.\n", style.Yellow("Unknown:"), plain(line))
	}
	return put(w, b.String())
}

// words returns the reason and the error.
func (c AlertChange) words() string {
	words := strings.Join(c.Why, "; ")
	if c.Error != "" {
		words = strings.TrimPrefix(words+": "+c.Error, ": ")
	}
	return words
}

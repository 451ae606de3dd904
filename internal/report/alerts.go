package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Alerts is what is, or would be, set up in Azure Monitor.
type Alerts struct {
	Changes []AlertChange `json:"changes"`
	// Watched are the scopes by subscription, and Operations are what is watched in them. Both are
	// absent for a removal.
	Watched    []AlertScopes `json:"watched,omitempty"`
	Operations []string      `json:"operations,omitempty"`
	// Unknown says what could not be read.
	Unknown []string `json:"unknown,omitempty"`
}

// AlertChange is a resource of Azure Monitor that is written or deleted.
type AlertChange struct {
	Verb     string   `json:"verb"`
	Resource string   `json:"resource"`
	Kind     string   `json:"kind"`
	Group    string   `json:"-"`
	Name     string   `json:"-"`
	Why      []string `json:"why,omitempty"`
	State    string   `json:"state"`
	Error    string   `json:"error,omitempty"`
}

// AlertScopes are the resources of one subscription whose operations are watched.
type AlertScopes struct {
	Subscription string   `json:"subscription"`
	Scopes       []string `json:"scopes"`
}

// States of an AlertChange, as for other changes.
const (
	AlertPlanned = "planned"
	AlertDone    = "done"
	AlertFailed  = "failed"
	AlertSkipped = "skipped"
)

// Pending reports whether something is only planned.
func (a Alerts) Pending() bool {
	return slices.ContainsFunc(a.Changes, func(c AlertChange) bool {
		return c.State == AlertPlanned
	})
}

// summary says in one line what happened.
func (a Alerts) summary() string {
	var parts []string
	for _, state := range []struct{ name, before, after string }{
		{AlertPlanned, "to ", ""}, {AlertDone, "", "d"}, {AlertFailed, "to ", " failed"}, {
			AlertSkipped, "to ", " skipped"},
	} {
		for _, verb := range []string{"create", "update", "delete"} {
			n := 0
			for _, c := range a.Changes {
				if c.State == state.name && c.Verb == verb {
					n++
				}
			}
			if n > 0 {
				parts = append(parts,
					finding.Count(n, "resource")+" "+state.before+verb+state.after)
			}
		}
	}
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}

// Write writes it in the given format.
func (a Alerts) Write(w io.Writer, format Format, style Style) error {
	var b strings.Builder
	switch format {
	case JSON:
		return WriteJSON(w, a)
	case Short:
		for _, c := range a.Changes {
			fmt.Fprintln(&b, plain(
				strings.TrimSpace(strings.Join([]string{c.State, c.Verb, c.Resource, c.words()},
					" "))))
		}
		for _, line := range a.Unknown {
			fmt.Fprintln(&b, "unknown "+plain(line))
		}
	case Markdown:
		fmt.Fprintf(&b, "**%s.**\n", UpperFirst(a.summary()))
		if len(a.Changes) > 0 {
			var rows [][]string
			for _, c := range a.Changes {
				rows = append(rows,
					[]string{c.State, c.Verb, c.Kind, c.Name, c.Group, plain(c.words())})
			}
			b.WriteString("\n" +
				MarkdownTable([]string{"state", "verb", "what", "name", "resource group", "why"},
					rows))
		}
		for _, s := range a.Watched {
			fmt.Fprintf(&b, "\nWatched in subscription %s:\n\n", prose(s.Subscription))
			for _, id := range s.Scopes {
				fmt.Fprintf(&b, "- %s\n", codeSpan(id))
			}
		}
		for _, line := range a.Unknown {
			fmt.Fprintf(&b, "\nUnknown: %s.\n", prose(line))
		}
	default:
		b.WriteString(a.text(style))
	}
	return put(w, b.String())
}

func (a Alerts) text(style Style) string {
	var b strings.Builder
	fmt.Fprintln(&b, style.Bold(UpperFirst(a.summary())+"."))
	sign := map[string]string{"create": style.Green("+"), "update": style.Yellow("~"),
		"delete": style.Red("-")}
	var rows [][]string
	for _, c := range a.Changes {
		state := ""
		if c.State == AlertFailed || c.State == AlertSkipped {
			state = style.Red(c.State)
		}
		rows = append(rows,
			[]string{" ", sign[c.Verb], c.Kind, c.Name, "in " + c.Group, plain(c.words()), state})
	}
	if len(rows) > 0 {
		b.WriteString("\n")
	}
	b.WriteString(aligned(rows))
	for _, s := range a.Watched {
		fmt.Fprintf(&b, "\nWatched in subscription %s:\n", plain(s.Subscription))
		for _, id := range s.Scopes {
			fmt.Fprintln(&b, "  "+plain(id))
		}
	}
	for _, line := range a.Unknown {
		fmt.Fprintf(&b, "\n%s %s.\n", style.Yellow("Unknown:"), plain(line))
	}
	return b.String()
}

// words returns the reason and the error.
func (c AlertChange) words() string {
	words := strings.Join(c.Why, "; ")
	if c.Error != "" {
		words = strings.TrimPrefix(words+": "+c.Error, ": ")
	}
	return words
}

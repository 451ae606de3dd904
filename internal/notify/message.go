package notify

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"routekeeper.dev/routekeeper/internal/finding"
)

const (
	// mostLines and mostRunes limit a message: chats refuse long ones.
	mostLines, mostRunes = 20, 400
	// mostNames limits the clusters that one line names.
	mostNames = 10
	// mostEvents limits the events in the JSON of a webhook.
	mostEvents = 200
)

// Message is what a destination receives.
type Message struct {
	Version int      `json:"version"`
	Title   string   `json:"title"`
	Lines   []string `json:"lines"`
	// Page is the address of the keeper's page.
	Page   string  `json:"page,omitempty"`
	Events []Event `json:"events"`
	// More counts the events that did not fit, and Dropped the events that were lost before.
	More    int `json:"more,omitempty"`
	Dropped int `json:"dropped,omitempty"`
}

// nouns name the kinds in a title, for one and for several events. Kinds without a noun are states.
var nouns = map[Kind][2]string{
	Changed: {"changed", "changed"},
	Error:   {"new error", "new errors"}, Conflict: {"conflict", "conflicts"},
	Decision: {"decision to make", "decisions to make"}, Repaired: {"repair", "repairs"},
	Resolved: {"resolved", "resolved"}, Test: {"test message", "test messages"},
}

// compose makes one message of events, with a line for each kind and code, no matter how many
// clusters they concern.
func compose(events []Event, dropped int, page string) Message {
	m := Message{Version: 1, Page: page, Dropped: dropped}
	counts, networks := map[Kind]int{}, map[Kind]int{}
	for _, e := range events {
		if counts[e.Kind]++; e.ofNetwork {
			networks[e.Kind]++
		}
	}
	var parts []string
	for _, kind := range kinds {
		n := counts[kind]
		noun, counted := nouns[kind]
		switch {
		case n == 0:
		case !counted:
			parts = append(parts, finding.Managed(n, networks[kind])+" "+string(kind))
		case n == 1:
			parts = append(parts, "1 "+noun[0])
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, noun[1]))
		}
	}
	if dropped > 0 {
		parts = append(parts, fmt.Sprintf("%d dropped", dropped))
	}
	m.Title = "routekeeper: " + strings.Join(parts, ", ")
	groups := byKind(events)
	for i, g := range groups {
		if i == mostLines {
			m.Lines = append(m.Lines,
				fmt.Sprintf("and %d more kinds of news", len(groups)-mostLines))
			break
		}
		m.Lines = append(m.Lines, short(line(g)))
	}
	if dropped > 0 {
		m.Lines = append(m.Lines, fmt.Sprintf("%d earlier events were dropped: the history and "+
			"the page have them", dropped))
	}
	m.Events = make([]Event, 0, min(len(events), mostEvents))
	for _, e := range events[:min(len(events), mostEvents)] {
		e.Cluster, e.Resource = finding.Show(e.Cluster), finding.Show(e.Resource)
		e.Text, e.Fix = short(e.Text), finding.Show(e.Fix)
		m.Events = append(m.Events, e)
	}
	m.More = len(events) - len(m.Events)
	return m
}

// line returns the line of events of one kind and code.
func line(events []Event) string {
	first := events[0]
	label := strings.ToUpper(string(first.Kind))
	if first.Code != "" {
		label += " " + first.Code
	}
	if len(events) == 1 {
		text := label
		if first.Cluster != "" {
			text += " (" + first.Cluster + ")"
		}
		text = finding.Show(text + ": " + first.Text)
		next := "; next: " + finding.Show(first.Fix)
		// part of a command, or one with other characters in it, must not be pasted
		if first.Fix != "" && inert(next) == next &&
			utf8.RuneCountInString(text+next) <= mostRunes {
			text += next
		}
		return text
	}
	networks := map[string]bool{}
	for _, e := range events {
		if e.Cluster != "" {
			networks[e.Cluster] = e.ofNetwork
		}
	}
	names, without := slices.Sorted(maps.Keys(networks)), 0
	for _, network := range networks {
		if network {
			without++
		}
	}
	on := ""
	if n := len(names); n > 1 {
		more := ""
		if n > mostNames {
			more = fmt.Sprintf(" and %d more", n-mostNames)
		}
		on = fmt.Sprintf(" on %s (%s%s)", finding.Managed(n, without),
			strings.Join(names[:min(n, mostNames)], ", "), more)
	} else if n == 1 {
		on = " on " + names[0]
	}
	return fmt.Sprintf("%s: %d times%s; one of them: %s", label, len(events), on, first.Text)
}

// short makes text from outside safe for one line, and short.
func short(text string) string {
	runes := []rune(finding.Show(text))
	if len(runes) > mostRunes {
		return string(runes[:mostRunes]) + "…"
	}
	return string(runes)
}

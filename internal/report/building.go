package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/build"
)

// Building is what cluster create and cluster delete do, or would do.
type Building struct {
	Cluster string      `json:"cluster"`
	Steps   []BuildStep `json:"steps"`
	// Next are the commands for the next steps.
	Next []string `json:"next,omitempty"`
	// Left is what a removal left in place. Unchecked is what it could not check.
	Left      []string `json:"left,omitempty"`
	Unchecked []string `json:"unchecked,omitempty"`
}

// BuildStep is one resource.
type BuildStep struct {
	Verb        string             `json:"verb"` // create, keep, change, refuse, delete
	Kind        string             `json:"kind"`
	Resource    string             `json:"resource"`
	Name        string             `json:"-"`
	Note        string             `json:"note,omitempty"`
	State       string             `json:"state"` // planned, done, failed, skipped, kept
	Seconds     float64            `json:"seconds,omitempty"`
	Error       string             `json:"error,omitempty"`
	Differences []build.Difference `json:"differences,omitempty"`
}

// Write writes it as text or JSON.
func (b Building) Write(w io.Writer, format Format, style Style) error {
	if format == JSON {
		return WriteJSON(w, b)
	}
	var rows [][]string
	for _, s := range b.Steps {
		sign, paint := style.sign(s.Verb)
		rows = append(rows, []string{paint(sign), s.Kind, plain(s.Name), plain(s.Note)})
	}
	var out strings.Builder
	lines := Columns(rows)
	for i, s := range b.Steps {
		fmt.Fprintln(&out, lines[i])
		for _, d := range s.Differences {
			fmt.Fprintf(&out, "    %s: %s -> %s\n", plain(d.Path),
				plain(cmp.Or(d.Have, "not set")), plain(d.Want))
		}
		if s.Error != "" {
			fmt.Fprintf(&out, "    %s\n", plain(s.Error))
		}
	}
	fmt.Fprintf(&out, "%s\n", UpperFirst(b.summary()))
	return put(w, out.String())
}

// summary counts the steps by verb.
func (b Building) summary() string {
	n := map[string]int{}
	for _, s := range b.Steps {
		n[s.Verb]++
	}
	var parts []string
	for _, v := range []string{"create", "change", "delete", "refuse"} {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d to %s", n[v], v))
		}
	}
	if len(parts) == 0 {
		return "nothing to do."
	}
	return strings.Join(parts, ", ") + "."
}

// Pending reports whether something is left to do.
func (b Building) Pending() bool {
	return slices.ContainsFunc(b.Steps, func(s BuildStep) bool { return s.Verb != "keep" })
}

// Package finding holds Finding, the one form in which the program reports a problem. It has a
// stable code, a severity, the resource, the evidence and the next command. Every check and every
// front end uses it. It is pure. It must not know Azure, or how findings are shown.
package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says how much a finding matters.
type Severity int

// Info is worth knowing. Warning will do harm, or hides a problem. Error means that the network
// does not match the config and will not recover by itself.
const (
	Info Severity = iota
	Warning
	Error
)

var severityNames = []string{"info", "warning", "error"}

// String returns info, warning or error.
func (s Severity) String() string { return severityNames[s] }

// MarshalText writes the severity's name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the severity's name.
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severityNames, string(text))
	if i < 0 {
		return fmt.Errorf("unknown severity %q, expected one of %s", text,
			strings.Join(severityNames, ", "))
	}
	*s = Severity(i)
	return nil
}

// Finding is a problem, or something worth knowing.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	// Cluster is the metadata.name of the ClusterRoutes it concerns, or "".
	Cluster string `json:"cluster,omitempty"`
	// Resource is the ID of the Azure resource, or "".
	Resource string `json:"resource,omitempty"`
	// Subject is the part of the resource it concerns, such as a route's name, if there can be
	// several.
	Subject string `json:"subject,omitempty"`
	// File and Line are the place in the code, "" and 0 if there is none or it is unknown.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Message is one sentence that says what is wrong, and names both sides if there are two.
	Message string `json:"message"`
	// Evidence is what was seen, one line each.
	Evidence []string `json:"evidence,omitempty"`
	// Advice says in words what to do next, if a command is not enough.
	Advice string `json:"advice,omitempty"`
	// Fix is the command to run next, ready to paste.
	Fix string `json:"fix,omitempty"`
	// Link is the page that explains the code.
	Link string `json:"link"`
	// Silenced is set while a person has silenced the finding.
	Silenced *Silence `json:"silenced,omitempty"`
}

// New returns a finding with the severity of its code.
func New(code Code, cluster, resource, format string, args ...any) Finding {
	return Finding{
		Code: code, Severity: Describe(code).Severity, Cluster: cluster, Resource: resource,
		Message: fmt.Sprintf(format, args...), Link: "docs/findings.md#" + string(code),
	}
}

// With returns the finding with more lines of evidence.
func (f Finding) With(evidence ...string) Finding {
	f.Evidence = append(slices.Clip(f.Evidence), evidence...)
	return f
}

// WithAdvice returns the finding with advice.
func (f Finding) WithAdvice(format string, args ...any) Finding {
	f.Advice = fmt.Sprintf(format, args...)
	return f
}

// WithFix returns the finding with the command to run next. Template and values are those of
// Command, so the line is safe to paste.
func (f Finding) WithFix(template string, values ...any) Finding {
	f.Fix = Command(template, values...).String()
	return f
}

// About returns the finding with its subject.
func (f Finding) About(subject string) Finding {
	f.Subject = subject
	return f
}

// At returns the finding with its place in the code.
func (f Finding) At(file string, line int) Finding {
	f.File, f.Line = file, line
	return f
}

// Key identifies a finding over time: the same problem has the same key, even if its words change.
func (f Finding) Key() string {
	return strings.Join([]string{string(f.Code), f.Cluster, strings.ToLower(f.Resource),
		strings.ToLower(f.Subject)}, "\x00")
}

// Sort returns the findings worst first, then by cluster, code, resource and subject, each once.
func Sort(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(b.Severity, a.Severity),
			cmp.Compare(a.Cluster, b.Cluster),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Key(), b.Key()),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.CompactFunc(findings, func(a, b Finding) bool { return a.Key() == b.Key() })
}

// Worst returns the highest severity among the findings, and false when there are none.
func Worst(findings []Finding) (Severity, bool) {
	if len(findings) == 0 {
		return Info, false
	}
	worst := Info
	for _, f := range findings {
		worst = max(worst, f.Severity)
	}
	return worst, true
}

// Blocking reports whether one of the findings is an error.
func Blocking(findings []Finding) bool {
	worst, any := Worst(findings)
	return any && worst == Error
}

// Count writes a number with its noun: 1 route, 3 routes.
func Count(n int, noun string) string { return CountOf(n, noun, noun+"s") }

// CountOf writes a number with one of two words: 1 node has, 3 nodes have.
func CountOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Managed counts what a keeper manages: clusters, and networks without clusters, such as a hub.
// These have a name and a state as clusters do, and no nodes and pods.
func Managed(all, networks int) string {
	switch {
	case networks > 0 && networks < all:
		return fmt.Sprintf("%d clusters and networks", all)
	case networks > 0:
		return Count(all, "network")
	}
	return Count(all, "cluster")
}

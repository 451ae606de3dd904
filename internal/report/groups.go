package report

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// manyClusters is how many clusters of a group are written out.
const manyClusters = 10

// explained writes findings with their meaning. It writes the meaning of a code once. Findings with
// the same code on several clusters form one group, because a fleet has the same few many times.
func explained(findings []finding.Finding, style Style) string {
	var b strings.Builder
	said := map[finding.Code]bool{}
	for _, group := range groups(findings) {
		code := group[0].Code
		meaning := ""
		if !said[code] {
			said[code], meaning = true, finding.Describe(code).Meaning
		}
		if len(clustersOf(group)) > 1 {
			b.WriteString(groupText(group, meaning, style))
			continue
		}
		for _, f := range group {
			b.WriteString(findingText(f, meaning, style))
			meaning = ""
		}
	}
	return b.String()
}

// groups puts findings with the same code and severity together, in the place of the first one.
func groups(findings []finding.Finding) (all [][]finding.Finding) {
	type kind struct {
		code     finding.Code
		severity finding.Severity
	}
	at := map[kind]int{}
	for _, f := range findings {
		k := kind{f.Code, f.Severity}
		i, known := at[k]
		if !known {
			i = len(all)
			at[k], all = i, append(all, nil)
		}
		all[i] = append(all[i], f)
	}
	return all
}

func clustersOf(group []finding.Finding) (names []string) {
	for _, f := range group {
		if f.Cluster != "" && !slices.Contains(names, f.Cluster) {
			names = append(names, f.Cluster)
		}
	}
	return names
}

// groupText writes findings with the same code on several clusters. Each gets a line with its next
// step. For mere information it writes only the names of the clusters.
func groupText(group []finding.Finding, meaning string, style Style) string {
	var b strings.Builder
	names := clustersOf(group)
	first := group[0]
	fmt.Fprintf(&b, "\n%s %s (%s): %s\n", severityText(first.Severity, style),
		style.Bold(string(first.Code)), finding.Count(len(group), "finding"),
		finding.Describe(first.Code).Title)
	if meaning != "" {
		fmt.Fprintf(&b, "  means: %s\n", meaning)
	}
	if first.Severity == finding.Info {
		fmt.Fprintf(&b, "  on: %s (-o short and -o json have each)\n",
			plain(strings.Join(names, ", ")))
		return b.String()
	}
	shown := group
	if len(shown) > manyClusters {
		shown = shown[:manyClusters]
	}
	for _, f := range shown {
		fmt.Fprintf(&b, "  %s: %s\n", plain(f.Cluster), plain(f.Message))
		if f.Advice != "" {
			fmt.Fprintf(&b, "    do: %s\n", plain(f.Advice))
		}
		if f.Fix != "" {
			fmt.Fprintf(&b, "    next: %s\n", plain(f.Fix))
		}
	}
	if more := group[len(shown):]; len(more) > 0 {
		fmt.Fprintf(&b, "  and %d more, on %s (-o short and -o json have each)\n", len(more),
			plain(strings.Join(clustersOf(more), ", ")))
	}
	return b.String()
}

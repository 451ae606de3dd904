package report

import (
	"fmt"
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/finding"
)

// Verification is what is correct about clusters, and what is wrong.
type Verification struct {
	// Clusters are the names of the verified clusters.
	Clusters []string      `json:"clusters"`
	Claims   []build.Claim `json:"claims"`
	// Findings are the reasons for wrong claims.
	Findings []finding.Finding `json:"findings"`
}

// AllRight reports whether every claim is right, except claims that need Kubernetes when it was not
// read.
func (v Verification) AllRight() bool { return allRight(countClaims(v.Claims)) }

func allRight(counts map[build.ClaimState]int) bool {
	return counts[build.ClaimRight] > 0 && counts[build.ClaimWrong] == 0 &&
		counts[build.ClaimUnchecked] == 0
}

func countClaims(claims []build.Claim) map[build.ClaimState]int {
	counts := map[build.ClaimState]int{}
	for _, c := range claims {
		counts[c.State]++
	}
	return counts
}

// claimsSentence sums up the claims: all 14 claims are right.
func claimsSentence(claims []build.Claim) string {
	counts := countClaims(claims)
	unasked, rest := counts[build.ClaimUnasked], ""
	all := len(claims) - unasked
	if unasked > 0 {
		rest = fmt.Sprintf(", %d not asked of Kubernetes", unasked)
	}
	if allRight(counts) {
		if all == 1 {
			return "its only claim is right" + rest
		}
		return fmt.Sprintf("all %s are right", finding.Count(all, "claim")) + rest
	}
	are := "are"
	if all == 1 {
		are = "is"
	}
	return fmt.Sprintf("%d of %s %s right, %d wrong, %d not checked", counts[build.ClaimRight],
		finding.Count(all, "claim"), are, counts[build.ClaimWrong],
		counts[build.ClaimUnchecked]) + rest
}

// Write writes it in the given format.
func (v Verification) Write(w io.Writer, format Format, style Style) error {
	var b strings.Builder
	switch format {
	case JSON:
		return WriteJSON(w, v)
	case Markdown:
		for _, claims := range byCluster(v.Claims) {
			fmt.Fprintf(&b, "**%s: %s.**\n\n", prose(claims[0].Cluster), claimsSentence(claims))
			b.WriteString(MarkdownTable(claimsHeader, claimRows(claims, Style{})) + "\n")
		}
		b.WriteString(strings.TrimPrefix(FindingsMarkdown(v.Findings), "\n"))
	default:
		for i, claims := range byCluster(v.Claims) {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(style.Bold(claims[0].Cluster+": "+claimsSentence(claims)+".") + "\n\n")
			b.WriteString(aligned(claimRows(claims, style)))
		}
		b.WriteString(explained(v.Findings, style))
	}
	return put(w, b.String())
}

var claimsHeader = []string{"state", "claim", "detail"}

// claimStates are the states for people.
var claimStates = map[build.ClaimState]string{
	build.ClaimRight: "right", build.ClaimWrong: "wrong", build.ClaimUnchecked: "not checked",
	build.ClaimUnasked: "not asked",
}

func claimPaint(style Style) map[build.ClaimState]func(string) string {
	return map[build.ClaimState]func(string) string{
		build.ClaimRight: style.Green, build.ClaimWrong: style.Red,
		build.ClaimUnchecked: style.Yellow, build.ClaimUnasked: style.Dim,
	}
}

func claimRows(claims []build.Claim, style Style) [][]string {
	paint := claimPaint(style)
	rows := make([][]string, len(claims))
	for i, c := range claims {
		rows[i] = []string{paint[c.State](claimStates[c.State]), plain(c.Claim), plain(c.Detail)}
	}
	return rows
}

// byCluster groups claims by cluster, in their order.
func byCluster(claims []build.Claim) (parts [][]build.Claim) {
	for i, c := range claims {
		if i == 0 || c.Cluster != claims[i-1].Cluster {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], c)
	}
	return parts
}

// whatIsRight ends a diagnosis. For one cluster it lists the correct claims and the ones that were
// not checked. For several it counts claims. Wrong claims are listed only if no finding explains
// them.
func whatIsRight(claims []build.Claim, verify map[string]finding.CommandLine, style Style) string {
	parts := byCluster(claims)
	var b strings.Builder
	if len(parts) > 1 {
		var rows [][]string
		for _, part := range parts {
			state, counts := build.ClaimRight, countClaims(part)
			switch {
			case counts[build.ClaimWrong] > 0:
				state = build.ClaimWrong
			case counts[build.ClaimUnchecked] > 0:
				state = build.ClaimUnchecked
			}
			sentence := claimsSentence(part)
			if state != build.ClaimRight {
				sentence += fmt.Sprintf(" (%s)", verify[part[0].Cluster])
			}
			rows = append(rows, []string{"  " + claimPaint(style)[state](claimStates[state]),
				plain(part[0].Cluster), sentence})
		}
		b.WriteString("\n" + style.Bold("Clusters") + "\n" + aligned(rows))
		return b.String()
	}
	block := func(title string, in func(build.Claim) bool) {
		var rows [][]string
		for _, c := range claims {
			if in(c) {
				rows = append(rows, []string{"  " + plain(c.Claim), plain(c.Detail)})
			}
		}
		if len(rows) > 0 {
			b.WriteString("\n" + style.Bold(title) + "\n" + aligned(rows))
		}
	}
	block("What is right", func(c build.Claim) bool { return c.State == build.ClaimRight })
	block("What was not checked", func(c build.Claim) bool {
		return c.State == build.ClaimUnchecked
	})
	block("What Kubernetes was not asked", func(c build.Claim) bool {
		return c.State == build.ClaimUnasked
	})
	block("What is wrong as well", func(c build.Claim) bool {
		return c.State == build.ClaimWrong && len(c.Findings) == 0
	})
	return b.String()
}

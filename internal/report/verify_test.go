package report

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/finding"
)

func claimOf(cluster, what string, state build.ClaimState, codes ...finding.Code) build.Claim {
	return build.Claim{Cluster: cluster, Topic: "t", Claim: what, State: state,
		Detail: "seen \x1b[31m", Findings: codes}
}

// TestWhatIsRight: a diagnosis ends with the claims of one cluster, or with their counts where
// there are several; what a finding says already is not said again.
func TestWhatIsRight(t *testing.T) {
	d := Diagnosis{Clusters: []string{"a"}, Claims: []build.Claim{
		claimOf("a", "nodes", build.ClaimRight), claimOf("a", "paths", build.ClaimWrong),
		claimOf("a", "routes", build.ClaimWrong, finding.WrongHop), claimOf("a", "pods",
			build.ClaimUnchecked),
	}}
	var b strings.Builder
	if err := d.Write(&b, Text, Style{}); err != nil {
		t.Fatal(err)
	}
	want := "No problem found on a.\n\nWhat is right\n  nodes  seen \\x1b[31m\n\nWhat was not " +
		"checked\n  pods  seen \\x1b[31m\n" +
		"\nWhat is wrong as well\n  paths  seen \\x1b[31m\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	d.Claims = append(d.Claims, claimOf("b", "nodes", build.ClaimRight))
	b.Reset()
	if err := d.Write(&b, Text, Style{}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"  a: 1 of 4 claims are right, 2 wrong, 1 not checked (routekeeper cluster verify a)\n",
		"  b: all 1 claim are right (routekeeper cluster verify b)\n",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("no %q in %q", line, b.String())
		}
	}
}

func TestAllRight(t *testing.T) {
	right, unchecked := claimOf("a", "x", build.ClaimRight), claimOf("a", "y", build.ClaimUnchecked)
	for _, tt := range []struct {
		claims []build.Claim
		want   bool
	}{{nil, false}, {[]build.Claim{right}, true}, {[]build.Claim{right, unchecked}, false}} {
		if got := (Verification{Claims: tt.claims}).AllRight(); got != tt.want {
			t.Errorf("%v: %t", tt.claims, got)
		}
	}
}

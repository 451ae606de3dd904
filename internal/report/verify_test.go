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

// TestWhatIsRight: a diagnosis ends with the claims of one cluster, or with their counts for
// several clusters. It does not repeat what a finding says.
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
	d.Verify = map[string]finding.CommandLine{"a": finding.Command("routekeeper cluster verify a")}
	b.Reset()
	if err := d.Write(&b, Text, Style{}); err != nil {
		t.Fatal(err)
	}
	if got, want := claimsSentence([]build.Claim{claimOf("c", "x", build.ClaimUnchecked)}),
		"0 of 1 claim is right, 0 wrong, 1 not checked"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, line := range []string{
		"  wrong  a  1 of 4 claims are right, 2 wrong, 1 not checked (routekeeper cluster verify " +
			"a)\n",
		"  right  b  its only claim is right\n",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("no %q in %q", line, b.String())
		}
	}
}

func TestAllRight(t *testing.T) {
	right, unchecked := claimOf("a", "x", build.ClaimRight), claimOf("a", "y", build.ClaimUnchecked)
	unasked := claimOf("a", "z", build.ClaimUnasked)
	if got, want := claimsSentence([]build.Claim{right, right, unasked}),
		"all 2 claims are right, 1 not asked of Kubernetes"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, tt := range []struct {
		claims []build.Claim
		want   bool
	}{{nil, false}, {[]build.Claim{right}, true}, {[]build.Claim{right, unchecked}, false},
		{[]build.Claim{right, unasked}, true}, {[]build.Claim{unasked}, false}} {
		if got := (Verification{Claims: tt.claims}).AllRight(); got != tt.want {
			t.Errorf("%v: %t", tt.claims, got)
		}
	}
}

// TestGroups: findings of several clusters are written once, those of one cluster in full; hidden
// findings still count.
func TestGroups(t *testing.T) {
	of := func(code finding.Code, cluster string) finding.Finding {
		return finding.New(code, cluster, "/r/"+cluster, "says %s", cluster).WithFix("fix %s",
			cluster)
	}
	d := Diagnosis{Clusters: []string{"a", "b", "c"}, Findings: []finding.Finding{
		of(finding.AssociationLost, "a"), of(finding.AssociationLost, "b"), of(finding.WrongHop,
			"c"),
		of(finding.EgressInTable, "a"), of(finding.EgressInTable, "b"),
	}}
	var b strings.Builder
	if err := d.Write(&b, Text, Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nerror association-lost (2 findings): " + finding.Describe(finding.AssociationLost).Title,
		"\n  a: says a\n    next: fix a\n  b: says b\n    next: fix b\n",
		"\n" + finding.Describe(finding.WrongHop).Severity.String() +
			" wrong-next-hop (c): says c\n",
		"\ninfo egress-in-cluster-table (2 findings): ", "\n  on: a, b (",
	} {
		if strings.Count(b.String(), want) != 1 {
			t.Errorf("not once: %q in %s", want, b.String())
		}
	}
	d.Least = finding.Error
	b.Reset()
	if err := d.Write(&b, Short, Style{}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "info ") || !strings.Contains(b.String(), "error ") {
		t.Errorf("from errors on: %s", b.String())
	}
	if !strings.Contains(d.Sentence(), "3 problems") {
		t.Errorf("it counts all: %s", d.Sentence())
	}
}

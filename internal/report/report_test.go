package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

const (
	table  = arm.ID("/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/g/providers/Microsoft.Network/routeTables/gw-rt")
	subnet = arm.ID("/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/nodes")
)

func sample() Result {
	elapsed := int64(2345)
	route := func(verb plan.Verb, state plan.OutcomeState, name string, old,
		new *plan.Value) plan.Outcome {
		return plan.Outcome{Change: plan.Change{Verb: verb, Resource: table, Cluster: "shop",
			Route: name, Old: old, New: new, Why: "because"}, State: state}
	}
	v := func(prefix, hop string) *plan.Value {
		return &plan.Value{AddressPrefix: prefix, NextHopType: "VirtualAppliance",
			NextHopIPAddress: hop}
	}
	failed := route(plan.Delete, plan.Failed, "n2", v("10.244.2.0/24", "10.0.0.6"), nil)
	failed.Error = "no"
	return Result{
		Clusters: 2, ElapsedMs: &elapsed, ARM: &Calls{Reads: 3, Writes: 1},
		Changes: []plan.Outcome{
			route(plan.Create, plan.Done, "n0", nil, v("10.244.0.0/24", "10.0.0.4")),
			route(plan.Update, plan.Done, "n1", v("10.244.1.0/24", "10.0.0.5"),
				v("10.244.1.0/24", "10.0.0.55")),
			failed,
			{Change: plan.Change{Verb: plan.Associate, Resource: subnet, Cluster: "shop",
				New: &plan.Value{RouteTable: table}, Why: "lost"}, State: plan.Skipped},
		},
		Findings: []finding.Finding{
			finding.New(finding.PrefixTaken, "shop", string(table),
				"a|b is <taken>").With("seen").WithFix("az network %s", "x"),
			finding.New(finding.UnmanagedOverlap, "", "", "covers"),
		},
	}
}

func write(t *testing.T, r Result, f Format, s Style) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, f, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRoundText(t *testing.T) {
	want := `1 route created, 1 route updated, 1 route to delete failed, 1 subnet to associate skipped.

gw-rt  /subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/g/providers/Microsoft.Network/routeTables/gw-rt
  +  10.244.0.0/24  -> 10.0.0.4            n0  because
  ~  10.244.1.0/24  10.0.0.5 -> 10.0.0.55  n1  because
  -  10.244.2.0/24  -> 10.0.0.6            n2  because  failed

v/nodes  /subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/nodes
  ~  v/nodes  route table  no table -> gw-rt  lost  skipped

error prefix-taken (shop): a|b is <taken>
  on: /subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/g/providers/Microsoft.Network/routeTables/gw-rt
    seen
  next: az network x

info unmanaged-overlap: covers

2 clusters, 2.3 s; ARM: 3 reads, 1 write, 0 polls
`
	if got := write(t, sample(), Text, Style{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	coloured := write(t, sample(), Text, Style{Color: true})
	for _, code := range []string{"\x1b[32m", "\x1b[31m", "\x1b[33m"} {
		if !strings.Contains(coloured, code) {
			t.Errorf("no %q in colour", code)
		}
	}
	// Colors do not count as width.
	strip := strings.NewReplacer("\x1b[32m", "", "\x1b[31m", "", "\x1b[33m", "", "\x1b[1m", "",
		"\x1b[2m", "", "\x1b[0m", "")
	if got := strip.Replace(coloured); got != want {
		t.Errorf("without its colours:\n%s", got)
	}
}

// TestObserved: observed changes are shown apart from planned ones.
func TestObserved(t *testing.T) {
	r := sample()
	r.Findings, r.ARM = nil, nil
	for i := range r.Changes {
		r.Changes[i].State = plan.Observed
	}
	r.Changes[0].State = plan.Planned
	got := write(t, r, Text, Style{})
	for _, want := range []string{
		"1 route to create, 1 route would be updated, 1 route would be deleted, 1 subnet would " +
			"be associated.\n",
		"n0  because\n", "n1  because  observed\n", "lost  observed\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	if short := write(t, r, Short, Style{}); !strings.Contains(short,
		"observed associate v/nodes route table no table -> gw-rt\n") {
		t.Errorf("short:\n%s", short)
	}
}

func TestRoundOtherFormats(t *testing.T) {
	want := `done create gw-rt 10.244.0.0/24 -> 10.0.0.4
done update gw-rt 10.244.1.0/24 10.0.0.5 -> 10.0.0.55
failed delete gw-rt 10.244.2.0/24 -> 10.0.0.6
skipped associate v/nodes route table no table -> gw-rt
error prefix-taken shop: a|b is <taken>
info unmanaged-overlap covers
`
	if got := write(t, sample(), Short, Style{}); got != want {
		t.Errorf("short:\n%s", got)
	}
	markdown := write(t, sample(), Markdown, Style{})
	for _, line := range []string{"| done | create | gw-rt | 10.244.0.0/24 | -> 10.0.0.4 | n0 | " +
		"because |", "- **error** `prefix-taken`: a|b is \\<taken>", "  `az network x`"} {
		if !strings.Contains(markdown, line+"\n") {
			t.Errorf("markdown lacks %q:\n%s", line, markdown)
		}
	}
	raw := write(t, sample(), JSON, Style{})
	if strings.Count(raw, "\n") != 1 || !strings.Contains(raw, `"message":"a|b is <taken>"`) {
		t.Errorf("JSON: %s", raw)
	}
	var back Result
	if err := json.Unmarshal([]byte(raw), &back); err != nil || len(back.Changes) != 4 ||
		back.Findings[0].Severity != finding.Error || *back.ElapsedMs != 2345 ||
		back.ARM.Reads != 3 {
		t.Errorf("%v: %+v", err, back)
	}
	if got := write(t, Result{}, JSON, Style{}); got != `{"changes":[],"findings":[]}`+"\n" {
		t.Errorf("an empty check: %s", got)
	}
	if got := write(t, Result{}, Text, Style{}); got != "Nothing to do.\n" {
		t.Errorf("an empty check: %q", got)
	}
}

// TestFromOutside: names that come from outside cannot move the cursor or start a line; an error is
// not "nothing to do".
func TestFromOutside(t *testing.T) {
	r := Result{
		Changes: []plan.Outcome{
			{Change: plan.Change{Verb: plan.Delete, Resource: table, Route: "a\x1b[2Jb\n+ c",
				Old: &plan.Value{AddressPrefix: "10.0.0.0/24", NextHopType: "x\ry"}},
				State: plan.Done}},
		Findings: []finding.Finding{finding.New(finding.PrefixTaken, "shop", "",
			"taken by \x1b[31mme")},
	}
	for _, format := range []Format{Text, Short, Markdown} {
		if got := write(t, r, format, Style{}); strings.ContainsAny(got, "\x1b\r") ||
			strings.Contains(got, "\n+ c") || !strings.Contains(got, `\x1b[31mme`) {
			t.Errorf("%s: %q", format, got)
		}
	}
	r.Changes = nil
	if got := write(t, r, Text, Style{}); !strings.HasPrefix(got, "Nothing done: 1 error.\n") {
		t.Errorf("only an error: %q", got)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 340 * time.Millisecond: "340 ms", 2400 * time.Millisecond: "2.4 s",
		185 * time.Second: "3 min 5 s", 2*time.Hour + 3*time.Minute: "2 h 3 min",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestMarkdownTable(t *testing.T) {
	if got, want := MarkdownTable([]string{"a"}, [][]string{{"x|y\nz"}}), "| a |\n| --- |\n| "+
		"x\\|y z |\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestConfigYAML: the output of init reads back as intended, whatever the names.
func TestConfigYAML(t *testing.T) {
	s := inventory.NewSnapshot()
	for _, name := range []string{"Shop_1", "shop.1", "no: yes #"} {
		id := arm.ResourceID("11111111-1111-1111-1111-111111111111", "Rg (x)", arm.TypeCluster,
			name)
		c, err := inventory.DecodeCluster([]byte(`{"id":"` + string(id) +
			`","properties":{"nodeResourceGroup":"mc","networkProfile":{"networkPlugin":"kubenet","podCidr":"10.244.0.0/16"},"agentPoolProfiles":[{"name":"np","count":1,"vnetSubnetID":"` + string(subnet) + `"}]}}`))
		if err != nil {
			continue // a name that Azure refuses
		}
		s.Clusters[c.ID.Key()] = c
	}
	proposals := plan.Propose(s)
	if got := ConfigYAML(proposals, "x", []string{"that group: no"}); !strings.Contains(got,
		"\n# NOTE: could not be read, so there may be more targets: that group: no\n") ||
		strings.Contains(got, "no other route table seems") {
		t.Errorf("what was not seen:\n%s", got)
	}
	text := ConfigYAML(proposals, "subscription s", nil)
	configs, err := config.Read(config.File{Name: "init.yaml", Data: []byte(text)})
	if err != nil || len(configs) != len(proposals) || len(configs) != 2 {
		t.Fatalf("%v, %d configs of %d:\n%s", err, len(configs), len(proposals), text)
	}
	flat := proposals[0]
	flat.Config.Spec.Source, flat.Config.Spec.RouteTableID, flat.Table = "Nodes", "", ""
	flat.Config.Spec.Targets = append(flat.Config.Spec.Targets[:0], v1alpha1.Target{
		Policy: "Observe", RouteTableID: string(subnet.Group()) + "/providers/" +
			arm.TypeRouteTable + "/vms-rt"})
	flat.TargetWhy = []string{"it has 3 routes to the cluster's pods"}
	text = ConfigYAML([]plan.Proposal{flat}, "x", nil)
	taken, err := config.Read(config.File{Data: []byte(text)})
	if err != nil || len(taken) != 1 || taken[0].Spec.Source != v1alpha1.SourceNodes ||
		len(taken[0].Spec.Targets) != 1 {
		t.Errorf("a config with source Nodes: %v, %+v\n%s", err, taken, text)
	}
	for i, c := range configs {
		if c.Spec.ClusterID != proposals[i].Config.Spec.ClusterID ||
			c.Metadata.Name != proposals[i].Config.Metadata.Name {
			t.Errorf("%+v\nwant\n%+v", c, proposals[i].Config)
		}
	}
}

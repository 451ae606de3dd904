package capacity

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func setup(plugin Plugin, subnet string, maxPods int) Setup {
	return Setup{Plugin: plugin, Subnet: netip.MustParsePrefix(subnet),
		PodCIDR:   netip.MustParsePrefix("10.244.0.0/16"),
		PodSubnet: netip.MustParsePrefix("10.1.0.0/16"), MaxPods: maxPods, Surge: Surge{
			Nodes: 1}, RouteLimit: 400}
}

// TestFits: numbers of Azure's documentation and some that are plain to count.
func TestFits(t *testing.T) {
	for name, tt := range map[string]struct {
		setup       Setup
		nodes, pods int
		limitedBy   string
	}{
		// configure-kubenet: a /24 holds 251 nodes; an upgrade needs one.
		"kubenet /24":           {setup(Kubenet, "10.0.0.0/24", 0), 250, 27_500, "node subnet"},
		"node-subnet /24":       {setup(NodeSubnet, "10.0.0.0/24", 30), 7, 210, "node subnet"},
		"kubenet, wide":         {setup(Kubenet, "10.0.0.0/16", 0), 255, 28_050, "pod CIDR"},
		"overlay /24":           {setup(Overlay, "10.0.0.0/24", 0), 250, 62_500, "node subnet"},
		"too small for a surge": {setup(NodeSubnet, "10.0.0.0/26", 30), 0, 0, "node subnet"},
		// 65531 / 272 = 240
		"pods batch by batch": {setup(PodSubnet, "10.0.0.0/16", 250), 239, 59_750, "pod subnet"},
		// 65531 / 32 = 2047
		"few pods a node": {setup(PodSubnet, "10.0.0.0/16", 10), 2046, 20_460, "pod subnet"},
		"static blocks":   {setup(PodSubnetStatic, "10.0.0.0/16", 31), 2046, 63_426, "pod subnet"},
	} {
		f := tt.setup.Fits()
		if f.Nodes != tt.nodes || f.Pods != tt.pods ||
			!strings.HasPrefix(f.LimitedBy, tt.limitedBy) {
			t.Errorf("%s: %d nodes, %d pods, limited by %s; want %d, %d, %s\n%+v", name, f.Nodes,
				f.Pods, f.LimitedBy, tt.nodes, tt.pods, tt.limitedBy, f.Limits)
		}
	}
	wide := setup(Kubenet, "10.0.0.0/16", 0)
	wide.PodCIDR = netip.MustParsePrefix("10.0.0.0/8")
	if f := wide.Fits(); f.Nodes != 399 || f.LimitedBy != "route table" {
		t.Errorf("%+v", f)
	}
	wide.DualStack = true
	if f := wide.Fits(); f.Nodes != 199 {
		t.Errorf("dual-stack: %+v", f)
	}
	if n := PodCIDRNodes(netip.MustParsePrefix("10.244.0.0/16")); n != 256 {
		t.Errorf("a /16 serves %d nodes", n)
	}
}

func TestStaticBlocks(t *testing.T) {
	for maxPods, want := range map[int]int{30: 2, 31: 2, 32: 3, 15: 1, 16: 2, 250: 16} {
		if got := setup(PodSubnetStatic, "10.0.0.0/24",
			maxPods).PodsPerNode() / podBatch; got != want {
			t.Errorf("%d pods: %d blocks, want %d", maxPods, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	s := setup(NodeSubnet, "10.0.0.0/24", 30).SizesFor(Need{Nodes: 50, Pods: 1500})
	if s.Nodes != 50 || s.Surge != 1 || s.SubnetAddresses != 1581 || s.Subnet != 21 ||
		s.PodCIDR != 0 || s.PodSubnet != 0 || s.TooMuch != "" {
		t.Errorf("%+v", s)
	}
	if s := setup(Kubenet, "10.0.0.0/24", 0).SizesFor(Need{Pods: 50_000}); s.Nodes != 455 ||
		s.TooMuch != "route table" {
		t.Errorf("%+v", s)
	}
	if s := setup(Overlay, "10.0.0.0/24", 0).SizesFor(Need{Nodes: 300}); s.PodCIDR != 15 ||
		s.Subnet != 23 {
		t.Errorf("%+v", s)
	}
}

func TestSurge(t *testing.T) {
	for text, want := range map[string]Surge{"1": {Nodes: 1}, "10%": {Percent: 10}, "0": {},
		" 33% ": {Percent: 33}} {
		if got, err := ParseSurge(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "x", "101%", "1.5"} {
		if got, err := ParseSurge(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if n := (Surge{Percent: 10}).Of(11); n != 2 {
		t.Errorf("10%% of 11 is %d", n)
	}
}

// TestSizesFit: what is needed fits into what was found to be needed, and not into half of it; one
// node more than fits does not fit.
func TestSizesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Setup{
			Plugin: rapid.SampledFrom(Plugins()).Draw(t, "plugin"), MaxPods: rapid.IntRange(
				LeastMaxPods, MostMaxPods).Draw(t, "maxPods"),
			Surge: rapid.SampledFrom([]Surge{{}, {Nodes: 1}, {Nodes: 5}, {Percent: 10},
				{Percent: 33}}).Draw(t, "surge"),
			Other: rapid.IntRange(0, 20).Draw(t, "other"), RouteLimit: 1000,
		}
		need := Need{Nodes: rapid.IntRange(1, 200).Draw(t, "nodes"),
			Pods: rapid.IntRange(0, 3000).Draw(t, "pods")}
		sizes := s.SizesFor(need)
		at := func(bits int) netip.Prefix {
			if bits == 0 {
				return netip.Prefix{}
			}
			return netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), bits)
		}
		if sizes.TooMuch != "" { // then no sizes help
			s.Subnet, s.PodSubnet, s.PodCIDR = at(8), at(8), at(8)
			if s.Fits().Meets(need) {
				t.Fatalf("%+v is too much for %s, and fits", need, sizes.TooMuch)
			}
			return
		}
		s.Subnet, s.PodSubnet, s.PodCIDR = at(sizes.Subnet), at(sizes.PodSubnet), at(sizes.PodCIDR)
		fit := s.Fits()
		if !fit.Meets(need) {
			t.Fatalf("%+v does not fit into %+v: %+v", need, sizes, fit)
		}
		if total := fit.Nodes + 1 + s.Surge.Of(fit.Nodes+1); total <= fit.Limits[0].Nodes {
			t.Fatalf("%d nodes are said to fit, but one more would: %+v", fit.Nodes, fit)
		}
		if sizes.Subnet < smallestSubnet {
			if s.Subnet = at(sizes.Subnet + 1); s.Fits().Meets(need) {
				t.Fatalf("%+v fits into half of the subnet %+v", need, sizes)
			}
		}
	})
}

// TestGrow: pools share the pod CIDR and the route table, and each has what is free in its subnets.
func TestGrow(t *testing.T) {
	a, b := setup(Kubenet, "10.0.0.0/24", 0), setup(Kubenet, "10.0.1.0/27", 0)
	got := Grow([]Pool{
		{Name: "a", Setup: a, Nodes: 10, Used: 12, Autoscaler: 240},
		{Name: "b", Setup: b, Nodes: 20, Used: 20, Autoscaler: 30},
	})
	// a: 251 - 12 in use = 239 more than 10, but 256 pod CIDRs - 20 = 236; b: 27 - 20 = 7 more.
	want := []Growth{{Pool: "a", Nodes: 10, Most: 235, Surge: 1,
		LimitedBy: "pod CIDR 10.244.0.0/16"},
		{Pool: "b", Nodes: 20, Most: 26, Surge: 1, LimitedBy: "node subnet 10.0.1.0/27"}}
	for i, w := range want {
		g := got[i]
		if g.Pool != w.Pool || g.Nodes != w.Nodes || g.Most != w.Most || g.Surge != w.Surge ||
			g.LimitedBy != w.LimitedBy || *g.Enough {
			t.Errorf("%+v, want %+v", g, w)
		}
	}
	cni := setup(NodeSubnet, "10.0.0.0/24", 30)
	// (251 - 93) / 31 = 5 more, one of them for upgrades
	if g := Grow([]Pool{{Name: "np", Setup: cni, Nodes: 3, Used: 93}})[0]; g.Most != 7 ||
		g.Enough != nil {
		t.Errorf("%+v", g)
	}
	full := setup(PodSubnet, "10.0.0.0/24", 250)
	full.PodSubnet = setup(PodSubnet, "10.1.0.0/22", 0).Subnet // 1019 / 272 = 3
	if g := Grow([]Pool{{Name: "np", Setup: full, Nodes: 2, Used: 2,
		PodsUsed: 32}})[0]; g.Most != 2 {
		t.Errorf("%+v", g)
	}
}

// TestGrowAtMaximum: two pools that each have room for themselves have it for both, or not; in
// another subnet nothing is lost.
func TestGrowAtMaximum(t *testing.T) {
	shared, alone := setup(NodeSubnet, "10.0.0.0/24", 9), setup(NodeSubnet, "10.0.1.0/24", 9)
	pools := []Pool{
		{Name: "a", Setup: shared, Nodes: 1, Used: 20, Autoscaler: 12},
		{Name: "b", Setup: shared, Nodes: 1, Used: 20, Autoscaler: 14},
		{Name: "c", Setup: alone, Nodes: 1, Used: 10, Autoscaler: 20},
	}
	// a: (251 - 20) / 10 = 23 more, and 13 of them are b's, and one is for upgrades; b: 23 - 11 -
	// 1; c: (251 - 10) / 10 = 24, one for upgrades.
	for i, want := range []int{10, 12, 24} {
		if got := GrowAtMaximum(pools)[i]; got.Most != want ||
			*got.Enough != (want >= pools[i].Autoscaler) {
			t.Errorf("%s: %+v, want %d at most", got.Pool, got, want)
		}
		if got := Grow(pools)[i]; got.Most < 23 {
			t.Errorf("%s alone: %+v", got.Pool, got)
		}
	}
	dynamic := setup(PodSubnet, "10.0.0.0/24", 24) // 32 pod addresses a node
	dynamic.PodSubnet = setup(PodSubnet, "10.1.0.0/24", 0).Subnet
	pods := []Pool{{Name: "a", Setup: dynamic, Nodes: 1, Used: 2, PodsUsed: 64, Autoscaler: 3},
		{Name: "b", Setup: dynamic, Nodes: 1, Used: 2, PodsUsed: 64, Autoscaler: 5}}
	// 251 / 32 = 7 nodes, 5 of them b's, and one is for upgrades
	if a := GrowAtMaximum(pods)[0]; a.Most != 1 {
		t.Errorf("%+v", a)
	}
	overlay := setup(Overlay, "10.0.0.0/24", 0)
	overlay.PodCIDR = setup(Overlay, "10.244.0.0/20", 0).Subnet
	// 16 less 7, and one is for upgrades
	if a := GrowAtMaximum([]Pool{{Name: "a", Setup: overlay, Nodes: 1, Autoscaler: 9},
		{Name: "b", Setup: overlay, Nodes: 1, Autoscaler: 7}})[0]; a.Most != 8 {
		t.Errorf("%+v", a)
	}
}

// TestWidestPodSubnet: dynamic allocation uses a /16 at most.
func TestWidestPodSubnet(t *testing.T) {
	s := setup(PodSubnet, "10.0.0.0/14", 110)
	at := s.Fits()
	s.PodSubnet = setup(PodSubnet, "10.0.0.0/14", 0).Subnet
	if wide := s.Fits(); wide.Nodes != at.Nodes || wide.Nodes != 510 {
		t.Errorf("%+v, a /16 serves %d", wide, at.Nodes)
	}
	if n := s.SizesFor(Need{Nodes: 550}); n.TooMuch != "pod subnet /16" {
		t.Errorf("%+v", n)
	}
}

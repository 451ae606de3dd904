package build

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const sub = "5ab00000-0000-4000-8000-000000000001"

func shop(plugin capacity.Plugin) Cluster {
	return Cluster{Name: "shop", Subscription: sub, Location: "westeurope", Blueprint: plugin,
		Pools: []Pool{{Name: "system", VMSize: "Standard_D4s_v5", Count: 3}}}
}

// document is an answer of Azure: the body with an ID, and additional fields.
func document(t *testing.T, s Step, made Made) arm.Document {
	t.Helper()
	body := s.Body(made)
	body["id"], body["etag"] = string(s.ID), `W/"1"`
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return arm.Document{ID: s.ID, Raw: raw}
}

// TestRoundTrip: for every blueprint, what was built reads correctly, and needs no change.
func TestRoundTrip(t *testing.T) {
	for _, plugin := range capacity.Plugins() {
		for _, gateway := range []*Gateway{nil, {Most: 10}} {
			c := shop(plugin)
			c.ApplicationGateway = gateway
			c, err := c.Complete()
			if err != nil {
				t.Fatal(err)
			}
			made := Made{}
			for _, s := range c.Steps() {
				if s.What() == s.ID.Type() {
					t.Errorf("no word says what %s is", s.ID.Short())
				}
				if d := s.Decide(c, nil, made, false); d.Verb != Create {
					t.Errorf("%s %s: %s", plugin, s.ID.Short(), d.Verb)
				}
				doc := document(t, s, made)
				made[s.ID.Key()] = doc
				if d := s.Decide(c, &doc, made, false); d.Verb != Keep {
					t.Errorf("%s %s: %s %+v", plugin, s.ID.Short(), d.Verb, d.Differences)
				}
			}
		}
	}
}

// TestDecide: a resource of another owner is refused, or adopted. Our own is changed, and
// everything else in it stays, byte for byte.
func TestDecide(t *testing.T) {
	c, err := shop(capacity.Kubenet).Complete()
	if err != nil {
		t.Fatal(err)
	}
	var table, cluster Step
	for _, s := range c.Steps() {
		switch {
		case s.ID.Equal(c.NodeTableID()):
			table = s
		case s.ID.Equal(c.ClusterID()):
			cluster = s
		}
	}
	for _, test := range []struct {
		name, raw string
		step      Step
		adopt     bool
		want      Verb
		why       string
	}{
		{"another's", `{"location":"westeurope","tags":{"routekeeper-cluster":"a/b"}}`, table, true,
			Refuse, "belongs to the cluster a/b"},
		{"untagged", `{"location":"westeurope","properties":{"routes":[{"name":"x"}]}}`, table,
			false, Refuse, "--adopt"},
		{"adopted", `{"location":"westeurope","properties":{"routes":[{"name":"x"}]}}`, table, true,
			Change, ""},
		{"elsewhere", `{"location":"northeurope","tags":{"routekeeper-cluster":"shop-rg/shop"}}`,
			table, false, Refuse, "created again"},
		{"ours", `{"location":"WestEurope","tags":{"routekeeper-cluster":"shop-rg/SHOP"}}`, table,
			false, Keep, ""},
		{"of another plugin",
			`{"location":"westeurope","tags":{"routekeeper-cluster":"shop-rg/shop"},"properties":{"networkProfile":{"networkPlugin":"azure"}}}`, cluster, false, Refuse, "networkPlugin"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := test.step.Decide(c, &arm.Document{ID: test.step.ID, Raw: []byte(test.raw)}, Made{},
				test.adopt)
			if d.Verb != test.want || !strings.Contains(d.Why, test.why) {
				t.Errorf("%s: %s", d.Verb, d.Why)
			}
		})
	}
	const foreign = `{"zz":1.50,"location":"westeurope","properties":{"routes":[ {"name":"x"} ]}}`
	d := table.Decide(c, &arm.Document{ID: table.ID, Raw: []byte(foreign)}, Made{}, true)
	edited, err := d.Edit([]byte(foreign))
	if err != nil || !strings.Contains(string(edited), `"routes":[ {"name":"x"} ]`) ||
		!strings.Contains(string(edited), `"zz":1.50`) {
		t.Errorf("%s %v", edited, err)
	}
	if verb, why := c.Removal(arm.Document{ID: table.ID, Raw: edited}); verb != Keep {
		t.Errorf("what was adopted would be deleted: %s %s", verb, why)
	}
}

// TestLayout: a request is either refused, or nothing overlaps and everything fits.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := shop(rapid.SampledFrom(capacity.Plugins()).Draw(t, "plugin"))
		bits := rapid.IntRange(12, 27).Draw(t, "space")
		c.Space = []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("10.224.0.0"), bits).Masked()}
		c.Pools[0].Count = rapid.IntRange(1, 500).Draw(t, "nodes")
		c.Pools[0].MaxPods = rapid.SampledFrom([]int{0, 10, 30, 110, 250}).Draw(t, "maxPods")
		if rapid.Bool().Draw(t, "gateway") {
			c.ApplicationGateway = &Gateway{Most: rapid.IntRange(1, 125).Draw(t, "instances")}
		}
		c, err := c.Complete()
		if err != nil {
			if e, is := err.(*Error); !is || e.Field == "" {
				t.Fatalf("names no field: %v", err)
			}
			return
		}
		subnets := []netip.Prefix{c.Nodes, c.Pods, c.Gateway}
		for i, p := range subnets {
			for _, q := range subnets[:i] {
				if p.IsValid() && q.IsValid() && p.Overlaps(q) {
					t.Fatalf("%s overlaps %s", p, q)
				}
			}
			if p.IsValid() && !within(c.Space, p) {
				t.Fatalf("%s is outside of %s", p, c.Space)
			}
		}
		setup := capacity.Setup{Plugin: c.Blueprint, MaxPods: c.Pools[0].MaxPods,
			Surge: capacity.SurgeOf(""), Subnet: c.Nodes, PodSubnet: c.Pods, PodCIDR: c.PodCIDR,
			RouteLimit: inventory.DefaultRouteLimit}
		if fit := setup.Fits(); fit.Nodes < c.Pools[0].Count {
			t.Fatalf("%d nodes, %d of them fit: %s", c.Pools[0].Count, fit.Nodes, fit.LimitedBy)
		}
	})
}

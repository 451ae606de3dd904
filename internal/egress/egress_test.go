package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const shop = arm.ID("/subscriptions/s/resourceGroups/g/providers/" + arm.TypeCluster + "/shop")

var nodes = []netip.Prefix{netip.MustParsePrefix("10.42.1.0/24"),
	netip.MustParsePrefix("10.42.2.0/24")}

// rule is an application rule for HTTPS.
func rule(name, names, more string) string {
	return fmt.Sprintf(`{"ruleType":"ApplicationRule","name":%q,"targetFqdns":[%q],"protocols":[`+
		`{"protocolType":"Https","port":443}]%s}`, name, names, more)
}

// collection is a rule collection of a policy.
func collection(priority int, action, rules string) string {
	return fmt.Sprintf(`{"priority":%d,"action":{"type":%q},"rules":[%s]}`, priority, action, rules)
}

// policy decodes rule collection groups of a policy that depth others inherit from, in the order in
// which Azure lists them.
func policy(t *testing.T, depth int, groups ...string) (rules []inventory.FirewallRule) {
	t.Helper()
	for _, text := range groups {
		priority, collections, _ := strings.Cut(text, " ")
		read, err := inventory.DecodeRuleGroup([]byte(fmt.Sprintf(`{"id":"/subscriptions/s/`+
			`resourceGroups/g/providers/Microsoft.Network/firewallPolicies/p/ruleCollectionGroups/`+
			`r","properties":{"priority":%s,"ruleCollections":[%s]}}`, priority, collections)))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range read.Rules {
			r.Depth = depth
			rules = append(rules, r)
		}
	}
	return rules
}

// TestOrder: the first rule in the firewall's own order decides: network rules before application
// rules, parent policies first, then the priorities of groups and of collections.
func TestOrder(t *testing.T) {
	const any = `,"sourceAddresses":["*"]`
	allow, deny := rule("allow", "mcr.microsoft.com", any), rule("deny", "*.microsoft.com", any)
	network := func(name, to string) string {
		return fmt.Sprintf(`{"ruleType":"NetworkRule","name":%q,"ipProtocols":["TCP"],`+
			`"sourceAddresses":["*"],"destinationAddresses":[%q],"destinationPorts":["443"]}`, name,
			to)
	}
	for _, c := range []struct {
		name          string
		parent, child []string
		want          string
	}{
		{"only the rule that allows", nil, []string{"200 " + collection(100, "Allow", allow)},
			"allowed allow"},
		{"nothing", nil, nil, "missing "},
		{"a collection that denies comes first", nil, []string{"200 " +
			collection(300, "Allow", allow) + "," + collection(200, "Deny", deny)}, "denied deny"},
		{"a collection that denies comes later", nil, []string{"200 " +
			collection(300, "Deny", deny) + "," + collection(200, "Allow", allow)},
			"allowed allow"},
		{"the priorities of groups count more", nil, []string{
			"300 " + collection(100, "Deny", deny), "200 " + collection(900, "Allow", allow)},
			"allowed allow"},
		{"a parent's rule comes first, whatever the priorities are",
			[]string{"900 " + collection(900, "Deny", deny)},
			[]string{"100 " + collection(100, "Allow", allow)}, "denied deny"},
		{"a parent allows, a child denies", []string{"900 " + collection(900, "Allow", allow)},
			[]string{"100 " + collection(100, "Deny", deny)}, "allowed allow"},
		{"a network rule of a child comes before the parent's application rules",
			[]string{"100 " + collection(100, "Allow", allow)},
			[]string{"900 " + collection(900, "Deny", network("all", "*"))}, "denied all"},
		{"a network rule that denies other addresses says nothing of names", nil,
			[]string{"100 " + collection(100, "Deny", network("some", "203.0.113.0/24")) + "," +
				collection(200, "Allow", allow)}, "allowed allow"},
		{"a rule for other ports", nil, []string{"100 " + collection(100, "Deny",
			strings.Replace(network("all", "*"), `"443"`, `"80"`, 1)) + "," +
			collection(200, "Allow", allow)}, "allowed allow"},
		{"rules that translate addresses do not count", nil,
			[]string{"100 " + collection(100, "DNAT", allow)}, "missing "},
		{"a tag that is denied", nil, []string{"100 " + collection(100, "Deny",
			`{"ruleType":"ApplicationRule","name":"tag","fqdnTags":["AzureKubernetesService"],`+
				`"sourceAddresses":["*"]}`) + "," + collection(200, "Allow", allow)}, "denied tag"},
	} {
		rules := append(policy(t, 0, c.child...), policy(t, 1, c.parent...)...)
		inventory.SortRules(rules)
		v, by := decide(rules, Name{Name: "mcr.microsoft.com", Port: "443", tagged: true}, nodes)
		if got := string(v) + " " + by; got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}

// TestSources: a rule that allows must match all nodes, one that denies some of them.
func TestSources(t *testing.T) {
	for _, c := range []struct {
		sources     string
		allow, deny bool
	}{
		{`"10.42.0.0/16"`, true, true}, {`"10.42.1.0/24"`, false, true},
		{`"10.42.1.0/24","10.42.2.0/24"`, true, true}, {`"10.42.1.7"`, false, true},
		{`"10.43.0.0/16"`, false, false}, {`"*"`, true, true},
		{`"10.42.1.1-10.42.1.9"`, true, false}, // not understood
		{``, true, false},                      // an IP group that was not read
	} {
		for _, action := range []string{"Allow", "Deny"} {
			r := policy(t, 0, "100 "+collection(100, action,
				rule("r", "*", `,"sourceAddresses":[`+c.sources+`]`)))[0]
			want := map[string]bool{"Allow": c.allow, "Deny": c.deny}[action]
			if fromNodes(r, nodes) != want {
				t.Errorf("%s from %s: %t", action, c.sources, !want)
			}
		}
	}
}

// TestRequired: each feature and each cloud adds its names, and nothing else does.
func TestRequired(t *testing.T) {
	names := func(change func(*inventory.Cluster)) (out []string) {
		c := &inventory.Cluster{Document: arm.Document{ID: shop, Location: "West Europe"},
			Hosts: []string{
				"shop-1.hcp.westeurope.azmk8s.io"}, Pools: []inventory.Pool{
				{Size: "Standard_D4s_v5"}, {Size: "Standard_NP10s"}}}
		change(c)
		s := inventory.NewSnapshot()
		s.WithEgress().ExtensionsOf = []arm.ID{c.ID}
		for _, n := range compareAt(s, c, netip.Addr{}, nil).Names {
			if n.Protocol != "" || n.If != "" {
				continue
			}
			if n.Verdict != Ask || strings.Contains(n.Name, "REGION") {
				t.Errorf("%+v", n)
			}
			if slices.Contains(out, n.Name) {
				t.Errorf("%s twice", n.Name)
			}
			out = append(out, n.Name)
		}
		return out
	}
	none := func(*inventory.Cluster) {}
	base := names(none)
	if len(base) != 8 || base[0] != "*.hcp.westeurope.azmk8s.io" {
		t.Errorf("%v", base)
	}
	for _, c := range []struct {
		name   string
		change func(*inventory.Cluster)
		more   int
		one    string
	}{
		{"GPU", func(c *inventory.Cluster) { c.Pools[0].Size = "Standard_NC4as_T4_v3" }, 3,
			"us.download.nvidia.com"},
		{"Windows", func(c *inventory.Cluster) { c.Pools[0].Windows = true }, 5,
			"www.msftconnecttest.com"},
		{"Defender", func(c *inventory.Cluster) { c.Defender = true }, 2,
			"*.ods.opinsights.azure.com"},
		{"Prometheus", func(c *inventory.Cluster) { c.Metrics = true }, 3,
			"westeurope.ingest.monitor.azure.com"},
		{"monitor", func(c *inventory.Cluster) { c.Addons = []string{"omsagent"} }, 6,
			"dc.services.visualstudio.com"},
		{"policy", func(c *inventory.Cluster) { c.Addons = []string{"azurepolicy"} }, 3,
			"dc.services.visualstudio.com"},
		{"both", func(c *inventory.Cluster) { c.Addons = []string{"azurepolicy", "omsagent"} }, 8,
			"data.policy.core.windows.net"},
		{"secrets", func(c *inventory.Cluster) {
			c.Addons = []string{"azurekeyvaultsecretsprovider"}
		}, 1, "vault.azure.net"},
		{"cost analysis", func(c *inventory.Cluster) { c.CostAnalysis = true }, 0,
			"login.microsoftonline.com"},
		{"cost analysis in China", func(c *inventory.Cluster) {
			c.CostAnalysis, c.Hosts = true,
				[]string{"a.hcp.chinaeast2.cx.prod.service.azk8s.cn"}
		}, 1, "login.microsoftonline.cn"},
		{"private", func(c *inventory.Cluster) { c.PrivateZone = "system" }, -1,
			"management.azure.com"},
		{"Government", func(c *inventory.Cluster) {
			c.Hosts = []string{"a.hcp.usgovvirginia.cx.aks.containerservice.azure.us"}
		}, -1, "management.usgovcloudapi.net"},
		{"China", func(c *inventory.Cluster) {
			c.Hosts = []string{"a.hcp.chinaeast2.cx.prod.service.azk8s.cn"}
		}, 0, "*.tun.westeurope.cx.prod.service.azk8s.cn"},
	} {
		got := names(c.change)
		if len(got) != len(base)+c.more || !slices.Contains(got, c.one) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

package iac

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
)

// verdicts are the verdicts of the plans in testdata/terraform: the code for the subnet aks-nodes
// or its table, "" for none.
var verdicts = map[string]finding.Code{
	"s01-inline-subnet-strips":            finding.IaCStrips,
	"s02-inline-subnet-with-table-keeps":  "",
	"s03-association-destroyed":           finding.IaCStrips,
	"s04-association-replaced":            finding.IaCAnotherTable,
	"s05-standalone-subnet-keeps":         "",
	"s06-write-only-table-removed":        finding.IaCStrips,
	"s07-inline-routes-remove-pod-routes": finding.IaCRoutes,
	"s08-subnet-renamed":                  finding.IaCRecreates,
	"s09-silent-strip-stale-state":        finding.IaCMayStrip,
	"s10-ignore-changes-subnet-keeps":     "",
	"s11-table-renamed-cascades":          finding.IaCAnotherTable,
	"s13-ignore-routes-keeps-pod-routes":  "",
	"s14-tag-only-stale-state-keeps":      "",
}

// mutation is another plan with the same verdict; subnet is the name of aks-nodes in it.
type mutation struct {
	name, subnet string
	change       func(t *testing.T, plan map[string]any) map[string]any
}

var mutations = []mutation{
	{"as it is", "aks-nodes", func(_ *testing.T, p map[string]any) map[string]any { return p }},
	{"renamed", "pool-a", renamed},
	{"in a module", "aks-nodes", func(t *testing.T, p map[string]any) map[string]any {
		p = moved(t, p, "module.net.", "")
		return nested(p, "net")
	}},
	{"in a module with for_each", "aks-nodes", func(t *testing.T, p map[string]any) map[string]any {
		p = moved(t, p, `module.net["we.st"].`, "")
		return nested(p, "net")
	}},
	{"with count", "aks-nodes", func(t *testing.T, p map[string]any) map[string]any {
		return moved(t, p, "", "[0]")
	}},
	{"with for_each", "aks-nodes", func(t *testing.T, p map[string]any) map[string]any {
		return moved(t, p, "", `["a.b[x]"]`)
	}},
	{"two networks", "aks-nodes", func(t *testing.T, p map[string]any) map[string]any {
		return joined(p, renamed(t, load(t, "s05-standalone-subnet-keeps")))
	}},
	{"OpenTofu", "aks-nodes", func(t *testing.T, p map[string]any) map[string]any {
		return replaced(t, p, "registry.terraform.io", "registry.opentofu.org")
	}},
	{"other case", "AKS-Nodes", func(t *testing.T, p map[string]any) map[string]any {
		return replaced(t, p, "resourceGroups/", "resourcegroups/")
	}},
	{"null for empty", "aks-nodes", func(t *testing.T, p map[string]any) map[string]any {
		return replaced(t, p, `"route_table_id":""`, `"route_table_id":null`)
	}},
	{"empty for null", "aks-nodes", func(t *testing.T, p map[string]any) map[string]any {
		return replaced(t, p, `"route_table_id":null`, `"route_table_id":""`)
	}},
	{"without the configuration", "aks-nodes", func(_ *testing.T, p map[string]any) map[string]any {
		delete(p, "configuration")
		return p
	}},
}

func load(t *testing.T, name string) map[string]any {
	raw, err := os.ReadFile(filepath.Join("../../testdata/terraform", name, "plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p map[string]any
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func dump(t *testing.T, p map[string]any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(p); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func replaced(t *testing.T, p map[string]any, pairs ...string) map[string]any {
	text := strings.NewReplacer(pairs...).Replace(string(dump(t, p)))
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func renamed(t *testing.T, p map[string]any) map[string]any {
	return replaced(t, p, "aks-nodes", "pool-a", "shop-vnet", "hub", "shop-nodes-rt",
		"egress-table", "shop-gateway-rt", "other", "shop-net", "platform",
		"azurerm_virtual_network.shop", "azurerm_virtual_network.this", `"name":"shop"`,
		`"name":"this"`,
		"azurerm_route_table.nodes", "azurerm_route_table.rt", "azurerm_subnet.nodes",
		"azurerm_subnet.one", "azurerm_subnet_route_table_association.nodes",
		"azurerm_subnet_route_table_association.link",
		"aks-system-31418127", "aks-userpool-12345678", "000000000001/", "000000000002/")
}

var resource = regexp.MustCompile(`^azurerm_\w+\.\w+$`)

// moved adds a prefix and an instance key to the address of every resource.
func moved(t *testing.T, p map[string]any, prefix, key string) map[string]any {
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				visit(item)
			}
		case map[string]any:
			if address, ok := v["address"].(string); ok && resource.MatchString(address) {
				v["address"] = prefix + address + key
				if prefix != "" {
					v["module_address"] = strings.TrimSuffix(prefix, ".")
				}
				if key != "" {
					var index any
					if err := json.Unmarshal([]byte(strings.Trim(key, "[]")), &index); err != nil {
						index = "a.b[x]"
					}
					v["index"] = index
				}
			}
			for _, value := range v {
				visit(value)
			}
		}
	}
	for _, part := range []string{"resource_changes", "resource_drift", "prior_state",
		"planned_values"} {
		visit(p[part])
	}
	return p
}

// nested moves the configuration into a module.
func nested(p map[string]any, name string) map[string]any {
	c := p["configuration"].(map[string]any)
	c["root_module"] = map[string]any{
		"module_calls": map[string]any{
			name: map[string]any{"source": "./net", "module": c["root_module"]}}}
	values := p["prior_state"].(map[string]any)["values"].(map[string]any)
	values["root_module"] = map[string]any{"child_modules": []any{values["root_module"]}}
	return p
}

// joined combines two plans.
func joined(a, b map[string]any) map[string]any {
	list := func(v any) []any {
		out, _ := v.([]any)
		return out
	}
	a["resource_changes"] = append(list(b["resource_changes"]), list(a["resource_changes"])...)
	if a["resource_drift"] != nil {
		a["resource_drift"] = append(list(a["resource_drift"]), list(b["resource_drift"])...)
	}
	root := func(p map[string]any) map[string]any {
		return p["configuration"].(map[string]any)["root_module"].(map[string]any)
	}
	root(a)["resources"] = append(list(root(a)["resources"]), list(root(b)["resources"])...)
	return a
}

// TestVerdicts: every real plan, and every variation of it, has its verdict, with and without
// --subnet.
func TestVerdicts(t *testing.T) {
	for name, want := range verdicts {
		for _, m := range mutations {
			t.Run(name+"/"+m.name, func(t *testing.T) {
				p := m.change(t, load(t, name))
				r, err := readPlain("plan.json", bytes.NewReader(dump(t, p)))
				if err != nil {
					t.Fatal(err)
				}
				unknown := r.Findings(Known{})
				known := r.Findings(Known{Carriers: []Carrier{Named(m.subnet, "it carries pods")}})
				check(t, unknown, want, lower(want))
				check(t, known, want, worst(want))
				if len(r.Carriers) > 0 || r.Before == nil || r.After == nil {
					t.Errorf("carriers %v, before %v, after %v", r.Carriers, r.Before, r.After)
				}
			})
		}
	}
}

// TestClusterInPlan: a kubenet cluster in the plan has the same effect as --subnet, and the subnet
// afterwards matches the verdict.
func TestClusterInPlan(t *testing.T) {
	for name, want := range verdicts {
		p := load(t, name)
		list := p["resource_changes"].([]any)
		var nodes string
		for _, r := range list {
			change := r.(map[string]any)["change"].(map[string]any)
			if before := change["before"].(map[string]any); r.(map[string]any)["type"] == tfVNet {
				nodes = before["id"].(string) + "/subnets/aks-nodes"
			}
		}
		cluster := map[string]any{
			"id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/shop", "name": "shop",
			"network_profile":   []any{map[string]any{"network_plugin": "kubenet"}},
			"default_node_pool": []any{map[string]any{"name": "system", "vnet_subnet_id": nodes}},
		}
		p["resource_changes"] = append(list, map[string]any{
			"address": "azurerm_kubernetes_cluster.shop", "mode": "managed", "type": tfCluster,
			"name": "shop",
			"change": map[string]any{"actions": []any{"no-op"}, "before": cluster,
				"after": cluster},
		})
		r, err := readPlain("plan.json", bytes.NewReader(dump(t, p)))
		if err != nil {
			t.Fatal(err)
		}
		check(t, r.Findings(Known{}), want, worst(want))
		before, after := r.Before.Subnet(arm.ID(nodes)), r.After.Subnet(arm.ID(nodes))
		switch {
		case before == nil || r.After.Cluster(arm.ID(cluster["id"].(string))) == nil:
			t.Errorf("%s: the subnet or the cluster is not pictured", name)
		case want == finding.IaCRecreates && after != nil,
			want == finding.IaCStrips &&
				(after == nil || before.RouteTable == "" || after.RouteTable != ""),
			want == finding.IaCRoutes && len(r.After.Table(before.RouteTable).Routes()) != 1,
			want == "" && (after == nil || !after.RouteTable.Equal(before.RouteTable)):
			t.Errorf("%s: %+v becomes %+v", name, before, after)
		}
	}
}

// lower and worst are the severities of a code for an unknown subnet, and for one that carries
// pods.
func lower(code finding.Code) finding.Severity {
	if code == finding.IaCRoutes { // the routes show it by themselves
		return finding.Error
	}
	return worst(code) - 1
}

func worst(code finding.Code) finding.Severity { return finding.Describe(code).Severity }

// check checks that this is the only finding above Info.
func check(t *testing.T, found []finding.Finding, want finding.Code, severity finding.Severity) {
	t.Helper()
	there := false
	for _, f := range found {
		switch {
		case f.Code == want && f.Severity == severity:
			there = true
		case f.Severity > finding.Info || f.Code != finding.IaCMayStrip:
			t.Errorf("unexpected %s %s: %s", f.Severity, f.Code, f.Message)
		}
	}
	if !there && want != "" {
		t.Errorf("no %s %s in %v", severity, want, found)
	}
}

// TestState: a state shows what exists and changes nothing, in both of its forms.
func TestState(t *testing.T) {
	p := load(t, "s03-association-destroyed")
	state := p["prior_state"].(map[string]any)
	r, err := readPlain("state.json", bytes.NewReader(dump(t, state)))
	if err != nil || r.Format != TerraformState || len(r.Effects) != 0 {
		t.Errorf("read %+v, %v", r, err)
	}
	raw := `{"version":4,"terraform_version":"1.11.4","serial":3,"lineage":"x","outputs":{},"resources":[
	 {"mode":"managed","type":"azurerm_kubernetes_cluster","name":"shop","provider":"provider[\"registry.terraform.io/hashicorp/azurerm\"]","instances":[
	  {"schema_version":2,"attributes":{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/shop","network_profile":[{"network_plugin":"kubenet"}],
	   "default_node_pool":[{"vnet_subnet_id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/nodes"}]}}]},
	 {"module":"module.net","mode":"managed","type":"azurerm_subnet","name":"n","instances":[{"index_key":"a","attributes":{
	   "id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/nodes","name":"nodes"}}]}]}`
	r, err = readPlain("terraform.tfstate", strings.NewReader(raw))
	if err != nil || len(r.Carriers) != 1 {
		t.Fatalf("read %+v, %v", r, err)
	}
	if c := r.Carriers[0]; c.Name != "nodes" ||
		!strings.Contains(c.Why, "azurerm_kubernetes_cluster.shop") {
		t.Errorf("carrier %+v", c)
	}
}

// TestOutdatedState: a state that contradicts itself has a note, and others do not.
func TestOutdatedState(t *testing.T) {
	state := func(table string) string {
		return `{"version":4,"terraform_version":"1.11.4","serial":3,"lineage":"x","resources":[
		 {"mode":"managed","type":"azurerm_virtual_network","name":"hub","instances":[{"attributes":` + vnetOf(inlineBlock("nodes", table, "")) + `}]},
		 {"mode":"managed","type":"azurerm_subnet_route_table_association","name":"nodes","instances":[{"attributes":` + association(rtID) + `}]}]}`
	}
	for table, want := range map[string]int{`""`: 1, "null": 1, `"` + rtID + `"`: 0} {
		r, err := readPlain("terraform.tfstate", strings.NewReader(state(table)))
		if err != nil || len(r.Notes) != want || len(r.Effects) != 0 {
			t.Errorf("with %s: %+v, %v", table, r, err)
		}
	}
}

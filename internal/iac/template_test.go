package iac

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

var shop = armtemplate.Options{Subscription: "11111111-1111-1111-1111-111111111111",
	ResourceGroup: "shop-rg", Location: "westeurope", DeploymentName: "main"}

func bicep(t *testing.T, name string, changes ...string) File {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "bicep", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%s has no %q", name, changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	return File{name, []byte(text)}
}

func readTemplate(t *testing.T, f File, o TemplateOptions) *Reading {
	t.Helper()
	if o.Where == (armtemplate.Options{}) {
		o.Where = shop
	}
	r, err := ReadTemplate(f, o)
	if err != nil {
		t.Fatal(err)
	}
	hostile(f.Data, func(data []byte) (*Reading, error) {
		return ReadTemplate(File{f.Name, data}, o)
	})
	return r
}

// said formats a reading, one line each: verb, subnet or table, file and line; and what is unknown.
func said(r *Reading) []string {
	var lines []string
	for _, e := range r.Effects {
		name := e.What.Name
		if e.What.VNet != "" {
			name = e.What.VNet + "/" + name
		}
		lines = append(lines, fmt.Sprintf("%s %s %d", e.Verb, name, e.By.Line))
	}
	for _, n := range r.Notes {
		if n.Unknown {
			lines = append(lines, "? "+n.Text)
		}
	}
	return lines
}

func sameLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCompiledModule(t *testing.T) {
	parameters := bicep(t, "module-loop.parameters.json")
	for name, p := range map[string]File{"parameter file": parameters,
		"bicepparam": bicep(t, "module-loop.bicepparam.json")} {
		r := readTemplate(t, bicep(t, "module-loop.json"), TemplateOptions{Parameters: []File{p}})
		sameLines(t, name, said(r), "loses shop-vnet/aks-nodes-2 120",
			"may-lose shop-vnet/endpoints 120")
		var carriers []string
		for _, c := range r.Carriers {
			carriers = append(carriers, string(c.ID))
		}
		base := "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/shop-rg/providers/Microsoft.Network/"
		sameLines(t, "carriers", carriers, base+"virtualNetworks/shop-vnet/subnets/aks-nodes", base+
			"virtualNetworks/shop-vnet/subnets/aks-nodes-2")
		nodes := r.After.Subnet(arm.ID(base + "virtualNetworks/shop-vnet/subnets/aks-nodes"))
		if nodes == nil || string(nodes.RouteTable) != base+"routeTables/shop-rt" ||
			fmt.Sprint(nodes.Prefixes) != "[10.20.0.0/22]" {
			t.Errorf("aks-nodes would be %+v", nodes)
		}
		if cluster := r.After.Cluster(arm.ResourceID(shop.Subscription, shop.ResourceGroup,
			arm.TypeCluster, "shop-aks")); cluster == nil || !cluster.Kubenet() ||
			len(cluster.Pools) != 2 {
			t.Errorf("the cluster would be %+v", cluster)
		}
		f := r.Findings(Known{})
		if len(f) == 0 || f[0].Code != finding.IaCStrips || f[0].Severity != finding.Error ||
			f[0].File != "module-loop.json" || f[0].Line != 120 {
			t.Errorf("findings %+v", f)
		}
	}
	// Without the parameter file, missing parameters are reported by name and type.
	r := readTemplate(t, bicep(t, "module-loop.json"), TemplateOptions{})
	sameLines(t, "no parameters", said(r),
		"? its list of subnets is unknown, so it is unknown which of them keep a route table",
		"? the parameter namePrefix (string) has no value, so what depends on it is unknown: "+
			"name its parameter file",
		"? the parameter subnets (array) has no value, so what depends on it is unknown: "+
			"name its parameter file")
	// A nested deployment has a mode of its own.
	nested := readTemplate(t, File{"main.json", []byte(`{"$schema": "https://schema.management.` +
		`azure.com/schemas/2019-04-01/deploymentTemplate.json#", "resources": [{"type": ` +
		`"Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "n", ` +
		`"resourceGroup": "g", "properties": {"mode": "complete", "template": {"$schema": ` +
		`"https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", ` +
		`"resources": []}}}]}`)}, TemplateOptions{})
	if n := nested.Notes; len(n) != 1 || !strings.HasPrefix(n[0].Text, "in complete mode") ||
		n[0].Line != 1 {
		t.Errorf("a nested deployment in complete mode: %+v", n)
	}
	// Comments may stand before all.
	if r, err := readPlain("main.json", strings.NewReader("// the network\n/* of the shop */\n"+
		string(bicep(t, "plain.json").Data))); err != nil || r.Format != ARMTemplate {
		t.Errorf("with comments: %v", err)
	}
	// A cluster that needs no table makes no effect certain.
	r = readTemplate(t, bicep(t, "module-loop.json", `"networkPlugin": "kubenet"`,
		`"networkPlugin": "azure", "networkPluginMode": "overlay"`),
		TemplateOptions{Parameters: []File{parameters}})
	sameLines(t, "overlay", said(r), "may-lose shop-vnet/aks-nodes-2 120",
		"may-lose shop-vnet/endpoints 120")
	r = readTemplate(t, bicep(t, "module-loop.json", `"networkPlugin": "kubenet"`,
		`"networkPlugin": "azure", "outboundType": "userDefinedRouting"`),
		TemplateOptions{Parameters: []File{parameters}})
	sameLines(t, "egress", said(r), "loses shop-vnet/aks-nodes-2 120",
		"may-lose shop-vnet/endpoints 120")
	// --subnet counts too, by name, if the scope is unknown.
	r, err := ReadTemplate(bicep(t, "module-loop.json"),
		TemplateOptions{Parameters: []File{parameters},
			Carriers: []Carrier{{Place: Place{Name: "endpoints"}, Why: "--subnet"}}})
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, "--subnet", said(r), "loses shop-vnet/aks-nodes-2 120",
		"loses shop-vnet/endpoints 120")
}

func TestSymbolicSubnets(t *testing.T) {
	r := readTemplate(t, bicep(t, "symbolic-subnets.json"), TemplateOptions{})
	sameLines(t, "with tables", said(r))
	r = readTemplate(t, bicep(t, "symbolic-subnets.json"), TemplateOptions{Parameters: []File{
		{"p.json", []byte(`{"parameters": {"routed": {"value": false}}}`)}}})
	sameLines(t, "without", said(r), "may-lose shop-vnet/aks-nodes 46", "loses shop-vnet/appgw 46")
	// Before 2023-09-01 the network without subnets deletes them; then each is created again.
	r = readTemplate(t, bicep(t, "symbolic-subnets.json", `"Microsoft.Network/virtualNetworks",
      "apiVersion": "2024-05-01"`, `"Microsoft.Network/virtualNetworks",
      "apiVersion": "2023-06-01"`), TemplateOptions{})
	sameLines(t, "an empty list",
		said(mustRead(t, File{"e.json",
			[]byte(`{"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", "resources": [
		{"type": "Microsoft.Network/virtualNetworks", "apiVersion": "2024-05-01", "name": "hub", "properties": {"subnets": []}}]}`)}, TemplateOptions{})),
		"? its list of subnets is empty: a deployment deletes the subnets that the network has, "+
			"which Azure refuses while they are in use: leave them out, at api-version "+
			"2023-09-01 or later")
	sameLines(t, "old api-version", said(r), "recreated shop-vnet/aks-nodes 33",
		"recreated shop-vnet/appgw 33",
		"? at api-version 2023-06-01 a deployment deletes the subnets of the network, because it "+
			"lists none; Azure refuses that while they are in use: use 2023-09-01 or later")
	// A network that lists one of them without a table removes it for a moment, and deletes the
	// other.
	listed := `"addressSpace": {"addressPrefixes": ["10.20.0.0/16"]}, "subnets": [{"name": "appgw", "properties": {"addressPrefix": "10.20.1.0/24"}}]`
	r = readTemplate(t, bicep(t, "symbolic-subnets.json", `"addressSpace": {
          "addressPrefixes": [
            "10.20.0.0/16"
          ]
        }`, listed), TemplateOptions{})
	sameLines(t, "inline and separate", said(r), "recreated shop-vnet/aks-nodes 33",
		"flaps shop-vnet/appgw 39")
	// Without dependsOn it is unknown which comes last.
	r = readTemplate(t, bicep(t, "symbolic-subnets.json", `"addressSpace": {
          "addressPrefixes": [
            "10.20.0.0/16"
          ]
        }`, listed, `      "dependsOn": [
        "vnet"
      ]`, `"tags": {}`), TemplateOptions{})
	sameLines(t, "race", said(r), "recreated shop-vnet/aks-nodes 33", "loses shop-vnet/appgw 39")
	if how := r.Effects[1].How; !strings.Contains(how, "their order is undefined") {
		t.Errorf("how: %s", how)
	}
}

func TestReadFirst(t *testing.T) {
	o := TemplateOptions{
		Parameters: []File{
			{"p.json", []byte(`{"parameters": {"vnetName": {"value": "shop-vnet"}}}`)}},
		Carriers: []Carrier{{Place: Place{Name: "aks-nodes", VNet: "shop-vnet"}}}}
	r := readTemplate(t, bicep(t, "read-first.json"), o)
	sameLines(t, "passed on", said(r))
	if len(r.After.Subnets) != 0 || len(r.After.Unread) != 0 {
		t.Errorf("after: %v %v", r.After.Subnets, r.After.Unread)
	}
	// Another subnet's table is not this one's.
	r = readTemplate(t,
		bicep(t, "read-first.json", `parameters('vnetName'), 'aks-nodes'), '2024-05-01')`,
			`parameters('vnetName'), 'other'), '2024-05-01')`), o)
	sameLines(t, "of another", said(r), "may-lose shop-vnet/aks-nodes 17")
	r = readTemplate(t,
		bicep(t, "read-first.json", `"routeTable": "[reference(`, `"x": "[reference(`), o)
	sameLines(t, "not passed on", said(r), "loses shop-vnet/aks-nodes 17")
}

func TestPlainTemplate(t *testing.T) {
	r := readTemplate(t, bicep(t, "plain.json"), TemplateOptions{})
	sameLines(t, "as it is", said(r), "loses shop-vnet/appgw 61", "may-lose shop-vnet/bastion 62",
		"may-lose-routes shop-rt-prod 25")
	table := r.After.Table(arm.ResourceID(shop.Subscription, shop.ResourceGroup, arm.TypeRouteTable,
		"shop-rt-prod"))
	if table == nil || len(table.Routes()) != 2 {
		t.Errorf("the table would be %+v", table)
	}
	r = readTemplate(t, bicep(t, "plain.json"), TemplateOptions{Parameters: []File{
		{"p.json",
			[]byte(`{"parameters": {"withGateway": {"value": false}, "nothing": {"value": 1}}}`)}}})
	sameLines(t, "no gateway", said(r), "may-lose shop-vnet/appgw 61",
		"may-lose shop-vnet/bastion 62", "may-lose-routes shop-rt-prod 25")
	if len(r.Notes) != 1 || r.Notes[0].Unknown ||
		!strings.Contains(r.Notes[0].Text, "no parameter nothing") {
		t.Errorf("notes %+v", r.Notes)
	}
	// The named subnet shows that the table is a kubenet cluster's.
	nodes := Named("aks-nodes", "--subnet")
	r = readTemplate(t, bicep(t, "plain.json"), TemplateOptions{Carriers: []Carrier{nodes}})
	known := Known{Carriers: []Carrier{nodes}}
	if got := ParametersFor(`a\main.json`, []string{`a\main.json`, "b/other.json"},
		[]File{{Name: "main.parameters.json"}, {Name: "other.json.parameters"},
			{Name: "shared.json"}}); len(got) != 2 || got[0].Name != "main.parameters.json" ||
		got[1].Name != "shared.json" {
		t.Errorf("parameter files %v", got)
	}
	severities := map[finding.Code]finding.Severity{}
	for _, f := range r.Findings(known) {
		severities[f.Code] = max(severities[f.Code], f.Severity)
	}
	if severities[finding.IaCMayRoutes] != finding.Warning ||
		severities[finding.IaCStrips] != finding.Error {
		t.Errorf("severities %v", severities)
	}
}

// TestHostileTemplates checks that no template grows without end: one line says why it is not read.
func TestHostileTemplates(t *testing.T) {
	head := `{"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", `
	var doubling strings.Builder
	for i := range 60 {
		fmt.Fprintf(&doubling, `"v%d": "[createArray(variables('v%d'), variables('v%d'))]", `, i+1,
			i, i)
	}
	vnet := `{"type": "Microsoft.Network/virtualNetworks", "apiVersion": "2024-05-01", "name": "a", "properties": `
	for name, text := range map[string]string{
		"empty":       ``,
		"no JSON":     `{"a": `,
		"no template": `{"a": 1}`,
		"foreign":     `[1, 2]`,
		"deep": head + `"resources": ` + strings.Repeat("[", 5000) +
			strings.Repeat("]", 5000) + `}`,
		"copies": head +
			`"resources": [{"copy": {"name": "c", "count": 801}, "type": "a/b", "name": "x"}]}`,
		"copies of copies": head +
			`"variables": {"copy": [{"name": "a", "count": 800, "input": "[variables('b')]"}, {"name": "b", "count": 800, "input": {"copy": [{"name": "x", "count": 800, "input": {"copy": [{"name": "y", "count": 800, "input": 1}]}}]}}]}, "resources": [` + vnet + `"[variables('a')]"}]}`,
		"doubling": head + `"variables": {` + doubling.String() +
			`"v0": [1]}, "resources": [` + vnet + `{"subnets": "[variables('v60')]"}}]}`,
	} {
		r, err := ReadTemplate(File{name, []byte(text)}, TemplateOptions{})
		if err == nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 200 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	// A template that refers to itself is reported, and the rest is evaluated.
	r := readTemplate(t,
		File{"t.json", []byte(head +
			`"variables": {"a": "[variables('b')]", "b": "[variables('a')]"}, "resources": [` +
			vnet + `{"subnets": [{"name": "n", "properties": {"routeTable": {"id": "[variables('a')]"}}}, {"name": "m", "properties": {}}]}}]}`)}, TemplateOptions{})
	sameLines(t, "cycle", said(r), "may-lose a/m 1",
		"? [variables('a')] cannot be evaluated: variables: variables.a refers to itself")
}

// TestReadParameters: a parameter file is recognised by its schema, and a broken one is reported as
// broken. Other files that mention the schema are not parameter files.
func TestReadParameters(t *testing.T) {
	const head = `{"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentParameters.json#", "parameters": {`
	for _, c := range []struct {
		name, text  string
		is, refused bool
	}{
		{"one", head + `}}`, true, false},
		{"a truncated one", head, false, true},
		{"a compiled one, with its template",
			`{"templateJson": "{\"$schema\": \"deploymentTemplate.json#\"}", "parametersJson": "{\"$schema\": \"deploymentParameters.json#\", \"parameters\": {}}"}`, true, false},
		{"a plan that names the schema",
			`{"format_version": "1.2", "variables": {"x": {"value": "deploymentParameters.json"}}, "resource_changes": [`, false, false},
		{"a template that names it",
			`{"$schema": "deploymentTemplate.json#", "x": "deploymentParameters.json", `, false,
			false},
		{"code that names it", "# deploymentParameters.json\n", false, false},
	} {
		f, err := ReadParameters("p", strings.NewReader(c.text))
		if (f != nil) != c.is || (err != nil) != c.refused {
			t.Errorf("%s: %v, %v", c.name, f != nil, err)
		}
	}
}

// TestOnlyOnce: a resource that a template only makes if it does not exist loses nothing.
func TestOnlyOnce(t *testing.T) {
	text := `{"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
		"languageVersion": "2.0", "resources": {
		"table": {"type": "Microsoft.Network/routeTables", "apiVersion": "2025-05-01", "name": "rt", "properties": {}, "@options": {"onlyIfNotExists": ONCE}},
		"nodes": {"type": "Microsoft.Network/virtualNetworks/subnets", "apiVersion": "2025-05-01", "name": "v/nodes", "properties": {"addressPrefix": "10.0.0.0/24"}, "@options": {"onlyIfNotExists": ONCE}},
		"other": {"type": "Microsoft.Network/virtualNetworks", "apiVersion": "2022-01-01", "name": "w", "properties": {}, "@options": {"onlyIfNotExists": ONCE}}
	}}`
	for once, want := range map[string]int{"true": 0, "false": 3} {
		r := readTemplate(t, File{"t.json", []byte(strings.ReplaceAll(text, "ONCE", once))},
			TemplateOptions{})
		if got := len(r.Effects) + len(r.Notes); got != want {
			t.Errorf("once %s: %+v %+v, want %d of them", once, r.Effects, r.Notes, want)
		}
	}
}

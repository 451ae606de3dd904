package iac

import (
	"bytes"
	"strings"
	"testing"
)

// fixedTemplate repairs a template, and checks that no finding is left and that a second repair
// changes nothing.
func fixedTemplate(t *testing.T, f File, o TemplateOptions, left ...string) *TemplateFix {
	t.Helper()
	o.Where = shop
	fix, err := FixTemplate(f, o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := FixTemplate(File{f.Name, fix.After}, o)
	if err != nil || !bytes.Equal(again.After, fix.After) || len(again.Done) > 0 {
		t.Errorf("again: %v %v\n%s", err, again.Done, again.After)
	}
	r := mustRead(t, File{f.Name, fix.After}, o)
	var rest []string
	for _, e := range r.Effects {
		if e.Verb != MayLose && e.Verb != MayLoseRoutes {
			rest = append(rest, string(e.Verb)+" "+e.What.subnetName())
		}
	}
	sameLines(t, "left", rest, left...)
	return fix
}

func mustRead(t *testing.T, f File, o TemplateOptions) *Reading {
	t.Helper()
	r, err := ReadTemplate(f, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, f.Data)
	}
	return r
}

// notCompiled turns a compiled template into one that a person may have written.
func notCompiled(f File) File {
	return File{f.Name,
		bytes.ReplaceAll(f.Data, []byte(`"name": "bicep"`), []byte(`"name": "another"`))}
}

func TestFixTemplate(t *testing.T) {
	plain := bicep(t, "plain.json")
	fix := fixedTemplate(t, plain, TemplateOptions{})
	sameLines(t, "done", fix.Done, "shop-vnet/appgw gets its present route table: a nested "+
		"deployment reads it first. The subnet and its network must exist already")
	after := string(fix.After)
	for _, want := range []string{
		`{ "name": "appgw", "properties": { "routeTable": "[tryGet(reference('keep-route-table-appgw').outputs.present.value, 'routeTable')]", "addressPrefix": "10.20.8.0/24" } }`,
		"\"parameters\": {\n          \"network\": {\n            \"value\": " +
			"\"[variables('vnet')]\"",
		`// The network team's template.`, `/* one for each environment */`,
		`parameters('subnet')), '2022-07-01')]"`,
	} {
		if !strings.Contains(after, want) {
			t.Errorf("no %q in\n%s", want, after)
		}
	}
	// Every other line is unchanged.
	for _, line := range strings.Split(string(plain.Data), "\n") {
		if !strings.Contains(after, line) && !strings.Contains(line, `"appgw"`) {
			t.Errorf("the line %q is gone", line)
		}
	}

	// A table that is written as null is replaced, and --subnet counts.
	f := bicep(t, "plain.json", `"addressPrefix": "10.20.9.0/24"`,
		`"addressPrefix": "10.20.9.0/24", "routeTable": null`)
	fix = fixedTemplate(t, f, TemplateOptions{Carriers: []Carrier{Named("bastion", "")}})
	if len(fix.Done) != 2 ||
		!strings.Contains(string(fix.After),
			`"routeTable": "[tryGet(reference('keep-route-table-bastion')`) {
		t.Errorf("%v\n%s", fix.Done, fix.After)
	}

	// The table that another resource of the template gives is used.
	symbolic := notCompiled(bicep(t, "symbolic-subnets.json"))
	text := strings.Replace(string(symbolic.Data), `"properties": {
        "addressSpace": {
          "addressPrefixes": [
            "10.20.0.0/16"
          ]
        }
      }`, `"properties": {
        "addressSpace": {"addressPrefixes": ["10.20.0.0/16"]},
        "subnets": [{"name": "one", "properties": {"addressPrefix": "10.20.5.0/24"}}]
      }
    },
    "one": {
      "type": "Microsoft.Network/virtualNetworks/subnets", "apiVersion": "2024-05-01", "name": "shop-vnet/one", "dependsOn": ["vnet"],
      "properties": {"addressPrefix": "10.20.5.0/24", "routeTable": {"id": "[resourceId('Microsoft.Network/routeTables', 'x')]"}}`, 1)
	fix = fixedTemplate(t, File{"s.json", []byte(text)}, TemplateOptions{},
		"recreated shop-vnet/aks-nodes", "recreated shop-vnet/appgw")
	sameLines(t, "done", fix.Done, "shop-vnet/one gets the routeTable that line 45 gives it")
	if !strings.Contains(string(fix.After),
		`{"name": "one", "properties": {"routeTable": {"id": "[resourceId('Microsoft.Network/routeTables', 'x')]"}, "addressPrefix": "10.20.5.0/24"}}`) || len(fix.Left) != 2 {
		t.Errorf("%v\n%s", fix.Left, fix.After)
	}

	// Subnets with one name in two networks are read by deployments with two names, which are not
	// too long.
	long := strings.Repeat("n", 60)
	two := strings.NewReplacer("NAME",
		long).Replace(`{"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", "resources": [
  {"type": "Microsoft.Network/virtualNetworks", "apiVersion": "2024-05-01", "name": "a", "properties": {"subnets": [{"name": "pods", "properties": {}}, {"name": "NAME", "properties": {}}]}},
  {"type": "Microsoft.Network/virtualNetworks", "apiVersion": "2024-05-01", "name": "b", "properties": {"subnets": [{"name": "pods", "properties": {}}]}}
]}`)
	fix = fixedTemplate(t, File{"two.json", []byte(two)},
		TemplateOptions{Carriers: []Carrier{Named("pods", ""), Named(long, "")}})
	for _, want := range []string{`'keep-route-table-pods'`, `'keep-route-table-b-pods'`,
		`'keep-route-table-` + long[:47] + `'`} {
		if !strings.Contains(string(fix.After), want) {
			t.Errorf("no %s in %s", want, fix.After)
		}
	}

	// A network without subnets gets the api-version that keeps them.
	old := notCompiled(bicep(t, "symbolic-subnets.json", `"Microsoft.Network/virtualNetworks",
      "apiVersion": "2024-05-01"`, `"Microsoft.Network/virtualNetworks",
      "apiVersion": "2023-06-01"`))
	fix = fixedTemplate(t, old, TemplateOptions{})
	sameLines(t, "done", fix.Done, "shop-vnet gets the apiVersion 2023-09-01, which keeps "+
		"subnets that it does not list (line 35)")

	// A separate subnet, with and without symbols; its name is an expression.
	own := bicep(t, "read-first.json",
		`"routeTable": "[reference(resourceId('Microsoft.Resources/deployments', 'read'), '2022-09-01').outputs.routeTable.value]",`, ``)
	o := TemplateOptions{Carriers: []Carrier{Named("aks-nodes", "")}, Parameters: []File{
		{"p.json", []byte(`{"parameters": {"vnetName": {"value": "shop-vnet"}}}`)}}}
	fix = fixedTemplate(t, notCompiled(own), o)
	if !strings.Contains(string(fix.After),
		`"value": "[first(split(format('{0}/{1}', parameters('vnetName'), 'aks-nodes'), '/'))]"`) {
		t.Errorf("%s", fix.After)
	}
	// A compiled template must be repaired in its source.
	fix = fixedTemplate(t, own, o, "loses shop-vnet/aks-nodes")
	sameLines(t, "left", fix.Left, "shop-vnet/aks-nodes: the template is compiled: repair its "+
		".bicep source")
	// A person has to repair properties that several subnets share.
	module := notCompiled(bicep(t, "module-loop.json"))
	fix = fixedTemplate(t, module,
		TemplateOptions{Parameters: []File{bicep(t, "module-loop.parameters.json")}},
		"loses shop-vnet/aks-nodes-2")
	if len(fix.Left) != 1 || !strings.Contains(fix.Left[0], "those of several subnets") {
		t.Errorf("%v", fix.Left)
	}
}

package iac

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"routekeeper.dev/routekeeper/internal/finding"
)

// TestConfiguration: what .tf files could do without a plan, and what they are safe from.
func TestConfiguration(t *testing.T) {
	vnet := func(in string) string {
		return "resource \"azurerm_virtual_network\" \"hub\" {\n  name = \"hub\"\n" + in + "\n}\n"
	}
	nodes := `  subnet {
    name = "nodes"
  }`
	for _, c := range []struct{ name, code, want string }{
		{"a block without a table", vnet(nodes), "may-lose hub/nodes"},
		{"a block with one",
			vnet(strings.Replace(nodes, "\"nodes\"",
				"\"nodes\"\n route_table_id = azurerm_route_table.rt.id", 1)), ""},
		{"a block that says null",
			vnet(strings.Replace(nodes, "\"nodes\"", "\"nodes\"\n route_table_id = null", 1)),
			"may-lose hub/nodes"},
		{"a block that says nothing",
			vnet(strings.Replace(nodes, "\"nodes\"", "\"nodes\"\n route_table_id = \"\"", 1)),
			"may-lose hub/nodes"},
		{"an attribute that says null",
			vnet(`subnet = [{ name = "nodes", route_table_id = null }]`), "may-lose hub/nodes"},
		{"a dynamic block that says null", vnet("dynamic \"subnet\" {\n for_each = var.subnets\n " +
			"content {\n name = subnet.key\n route_table_id = null\n }\n }"),
			"may-lose azurerm_virtual_network.hub"},
		{"a dynamic block that names what it is given",
			vnet("dynamic \"subnet\" {\n for_each = var.subnets\n content {\n name = " +
				"subnet.key\n route_table_id = try(subnet.value.rt, null)\n }\n }"), ""},
		{"a dynamic block", vnet("dynamic \"subnet\" {\n for_each = var.subnets\n content {\n " +
			"name = subnet.key\n }\n }"), "may-lose azurerm_virtual_network.hub"},
		{"an attribute",
			vnet(`subnet = [{ name = "nodes" }, { name = "edge", route_table_id = var.x }]`),
			"may-lose hub/nodes"},
		{"protected", vnet(nodes + "\nlifecycle {\n ignore_changes = [tags, subnet]\n}"), ""},
		{"protected from all", vnet(nodes + "\nlifecycle {\n ignore_changes = all\n}"), ""},
		{"protected in part",
			vnet(nodes + "\nlifecycle {\n ignore_changes = [subnet[0].route_table_id]\n}"),
			"useless hub, may-lose hub/nodes"},
		{"protected by a splat",
			vnet(nodes + "\nlifecycle {\n ignore_changes = [subnet[*].route_table_id]\n}"),
			"useless hub, may-lose hub/nodes"},
		{"a provider that reads first", "terraform {\n required_providers {\n azurerm = {\n " +
			"source = \"hashicorp/azurerm\"\n version = \"~> 3.90\"\n }\n }\n}\n" +
			vnet(nodes), ""},
		{"a provider that may be either", "terraform {\n required_providers {\n azurerm = {\n " +
			"version = \">= 3.90\"\n }\n }\n}\n" + vnet(nodes), "may-lose hub/nodes"},
		{"a separate subnet", "resource \"azurerm_subnet\" \"n\" {\n name = \"nodes\"\n}", ""},
		{"its table ignored", "resource \"azurerm_subnet\" \"n\" {\n name = \"nodes\"\n " +
			"lifecycle {\n ignore_changes = [\"route_table_id\"]\n }\n}", "useless nodes"},
		{"something else ignored", "resource \"azurerm_subnet\" \"n\" {\n name = \"nodes\"\n " +
			"lifecycle {\n ignore_changes = [service_endpoints]\n }\n}", ""},
		{"inline routes", "resource \"azurerm_route_table\" \"rt\" {\n name = \"rt\"\n route {\n " +
			"name = \"a\"\n }\n}", "may-lose-routes rt"},
		{"inline routes, protected", "resource \"azurerm_route_table\" \"rt\" {\n name = " +
			"\"rt\"\n route {\n name = \"a\"\n }\n lifecycle {\n ignore_changes = [route]\n }\n}",
			""},
		{"no inline routes", "resource \"azurerm_route_table\" \"rt\" {\n name = \"rt\"\n}", ""},
		{"an azapi subnet", "resource \"azapi_resource\" \"n\" {\n type = \"" + subnetType +
			"\"\n name = \"nodes\"\n body = {\n properties = {\n addressPrefix = " +
			"\"10.0.0.0/24\"\n }\n }\n}", "may-lose nodes"},
		{"an azapi subnet with a table", "resource \"azapi_resource\" \"n\" {\n type = \"" +
			subnetType + "\"\n name = \"nodes\"\n body = jsonencode({\n properties = {\n " +
			"routeTable = { id = var.rt }\n }\n })\n}", ""},
		{"an azapi subnet that says null", "resource \"azapi_resource\" \"n\" {\n type = \"" +
			subnetType + "\"\n name = \"nodes\"\n body = {\n properties = {\n routeTable = " +
			"null\n }\n }\n}", "may-lose nodes"},
		{"an azapi subnet with a table without ID", "resource \"azapi_resource\" \"n\" {\n type " +
			"= \"" + subnetType + "\"\n name = \"nodes\"\n body = {\n properties = {\n " +
			"routeTable = { id = null }\n }\n }\n}", "may-lose nodes"},
		{"an azapi network", "resource \"azapi_resource\" \"n\" {\n type = \"" + vnetType +
			"\"\n name = \"hub\"\n body = jsonencode({\n properties = {\n subnets = [{ name = " +
			"\"nodes\", properties = {} }]\n }\n })\n}", "may-lose hub/nodes"},
	} {
		r, err := readPlain("main.tf", strings.NewReader(c.code))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var have []string
		for _, e := range r.Effects {
			have = append(have, string(e.Verb)+" "+e.What.subnetName())
			if e.By.File != "main.tf" || e.By.Line == 0 {
				t.Errorf("%s: no place: %+v", c.name, e.By)
			}
		}
		if strings.Join(have, ", ") != c.want {
			t.Errorf("%s: %q, expected %q", c.name, strings.Join(have, ", "), c.want)
		}
	}
}

// TestCarriersInCode: subnets without a separate resource, and those of azapi, count too.
func TestCarriersInCode(t *testing.T) {
	const vnet = "resource \"azurerm_virtual_network\" \"v\" {\n name = \"hub\"\n subnet {\n " +
		"name = \"nodes\"\n }\n subnet {\n name = \"edge\"\n }\n}\n"
	gateway := func(subnet string) string {
		return "resource \"azurerm_application_gateway\" \"g\" {\n gateway_ip_configuration {\n " +
			"subnet_id = " + subnet + "\n }\n}\n"
	}
	for _, c := range []struct{ name, code, want string }{
		{"a block that is named", vnet +
			gateway(`one([for s in azurerm_virtual_network.v.subnet : s.id if s.name == "edge"])`),
			"hub/edge"},
		{"a block that is not", vnet + gateway("tolist(azurerm_virtual_network.v.subnet)[0].id"),
			"hub/edge hub/nodes"},
		{"by azapi", vnet + gateway("azapi_resource.n.id") +
			"resource \"azapi_resource\" \"n\" {\n type = \"" + subnetType +
			"\"\n name = \"gw\"\n body = {\n properties = {}\n }\n}\n", "gw"},
		{"something else by azapi", vnet + gateway("azapi_resource.n.id") +
			"resource \"azapi_resource\" \"n\" {\n type = " +
			"\"Microsoft.Storage/storageAccounts@2023-01-01\"\n}\n", ""},
	} {
		r, err := readPlain("main.tf", strings.NewReader(c.code))
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, e := range r.Effects {
			if f := (&Reading{Effects: []Effect{e}, Carriers: r.Carriers}).Findings(Known{}); len(
				f) == 1 && f[0].Severity == finding.Warning {
				have = append(have, e.What.subnetName())
			}
		}
		slices.Sort(have)
		if strings.Join(have, " ") != c.want {
			t.Errorf("%s: %q, expected %q", c.name, have, c.want)
		}
	}
}

// TestAzapiListsNone: a network without subnets at an api-version that then deletes them, in the
// code and in a plan that knows none; and one whose subnets are not known yet.
func TestAzapiListsNone(t *testing.T) {
	code := func(version, properties string) string {
		return "resource \"azapi_resource\" \"hub\" {\n type = " +
			"\"Microsoft.Network/virtualNetworks@" + version + "\"\n body = {\n properties = {\n " +
			properties + "\n }\n }\n}"
	}
	plan := func(version string) string {
		b := body("Microsoft.Network/virtualNetworks@"+version, netID, `{"properties":{}}`)
		return `{"format_version":"1.2","resource_changes":[` + changes(tfAzapi, "hub", "update", b,
			b) + `]}`
	}
	for _, c := range []struct {
		name, file, text string
		want             bool
	}{
		{"code, old", "main.tf", code("2022-01-01", "x = 1"), true},
		{"code, old, with subnets", "main.tf", code("2022-01-01", "subnets = []"), false},
		{"code, with subnets that it does not show", "main.tf",
			code("2024-01-01", "subnets = var.subnets"), true},
		{"code, new", "main.tf", code("2023-09-01", "x = 1"), false},
		{"plan, old", "plan", plan("2022-01-01"), true},
		{"plan, new", "plan", plan("2023-09-01"), false},
		{"plan, new, not known yet", "plan", strings.Replace(plan("2023-09-01"), `"after":`,
			`"after_unknown":{"body":{"properties":{"subnets":true}}},"after":`, 1), true},
	} {
		r, err := readPlain(c.file, strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if noted := len(r.Notes) == 1 && r.Notes[0].Unknown &&
			strings.Contains(r.Notes[0].Text, "body"); noted != c.want || len(r.Effects) != 0 {
			t.Errorf("%s: %+v, %+v", c.name, r.Notes, r.Effects)
		}
	}
}

// TestModulesElsewhere: each module whose code is not here is named, with a warning if it may be
// about networks.
func TestModulesElsewhere(t *testing.T) {
	files := fstest.MapFS{
		"main.tf": {Data: []byte(`module "net" {
  source = "./net"
}
module "names" {
  source  = "Azure/naming/azurerm"
  version = "0.4.2"
}
module "hub" {
  source = var.hub
  subnets = {}
}
`)},
		"net/net.tf": {Data: []byte(`module "vnet" {
  source = "Azure/avm-res-network-virtualnetwork/azurerm"
}
module "up" {
  source = "../../vnet"
}
`)}}
	s, err := ReadSource(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range s.Reading().Notes {
		got = append(got,
			fmt.Sprintf("%s %s:%d %v %s", n.Address, n.File, n.Line, n.Unknown, n.Text))
	}
	const says = " is not in the folder, so what it does to subnets and route tables is not " +
		"checked: check a plan"
	want := []string{
		"module.names main.tf:4 false the code of module Azure/naming/azurerm" + says,
		"module.hub main.tf:8 true the code of module named by an expression" + says,
		"module.net.module.vnet net/net.tf:1 true the code of module " +
			"Azure/avm-res-network-virtualnetwork/azurerm" + says,
		"module.net.module.up net/net.tf:4 true the code of module ../../vnet" + says,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestModules: resources of modules with a local path are found, with file and line, and carriers
// too.
func TestModules(t *testing.T) {
	files := fstest.MapFS{
		"infra/main.tf": {Data: []byte("module \"net\" {\n  source = \"../modules/net\"\n  " +
			"for_each = var.x\n}\nmodule \"far\" {\n source = \"Azure/vnet/azurerm\"\n}\n")},
		"modules/net/net.tf": {Data: []byte(`resource "azurerm_subnet" "nodes" {
  name                 = "nodes"
  virtual_network_name = "hub"
}

resource "azurerm_kubernetes_cluster" "shop" {
  default_node_pool {
    vnet_subnet_id = azurerm_subnet.nodes.id
  }
  network_profile {
    network_plugin = "kubenet"
  }
}

resource "azurerm_route_table" "rt" {
  name = "rt"
  route = []
}

resource "azurerm_subnet_route_table_association" "n" {
  subnet_id      = azurerm_subnet.nodes.id
  route_table_id = azurerm_route_table.rt.id
}
`)},
	}
	s, err := ReadSource(files, "infra")
	if err != nil {
		t.Fatal(err)
	}
	table := s.resource(`module.net["a.b"].azurerm_route_table.rt`)
	if table == nil || table.place.File != "modules/net/net.tf" || table.place.Line != 15 {
		t.Errorf("found %+v", table)
	}
	findings := s.Reading().Findings(Known{})
	if len(findings) != 2 || findings[0].Code != finding.IaCMayRoutes ||
		findings[0].Severity != finding.Warning || findings[1].Code != finding.IaCUnknown {
		t.Errorf("a table that the cluster's subnet has, and module far: %+v", findings)
	}
	// OpenTofu's files replace Terraform's.
	tofu := fstest.MapFS{"a.tf": {Data: []byte("resource \"azurerm_subnet\" \"old\" {}\n")},
		"a.tofu": {Data: []byte("resource \"azurerm_subnet\" \"new\" {}\n")}, "b.tf": {
			Data: []byte("resource \"azurerm_subnet\" \"b\" {}\n")}}
	if s, err = ReadSource(tofu, "."); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{"azurerm_subnet.old": false,
		"azurerm_subnet.new": true, "azurerm_subnet.b": true} {
		if is := s.resource(address) != nil; is != want {
			t.Errorf("%s: %v", address, is)
		}
	}
	if r, err := readPlain("x.tofu",
		strings.NewReader("resource \"azurerm_subnet\" \"n\" {}\n")); err != nil ||
		r.Format != TerraformConfig {
		t.Errorf("a file alone: %v", err)
	}
	// A cluster in one module, its subnet in another, its table in a third.
	apart := fstest.MapFS{
		"main.tf": {Data: []byte(`locals {
  subnet = module.net["x"].subnet_id
}

module "net" {
  source   = "./net"
  for_each = var.x
  table    = azurerm_route_table.rt.id
}

module "aks" {
  source = "./outer"
  subnet = local.subnet
}

resource "azurerm_route_table" "rt" {
  name = "rt"
  route = []
}
`)},
		"outer/main.tf": {
			Data: []byte("module \"aks\" {\n source = \"../aks\"\n subnet = var.subnet\n}\n")},
		"aks/main.tf": {Data: []byte("resource \"azurerm_kubernetes_cluster\" \"c\" {\n " +
			"default_node_pool {\n vnet_subnet_id = var.subnet\n }\n network_profile {\n " +
			"network_plugin = \"kubenet\"\n }\n}\n")},
		"net/main.tf": {Data: []byte("resource \"azurerm_subnet\" \"n\" {\n name = " +
			"\"nodes\"\n}\nresource \"azurerm_subnet_route_table_association\" \"n\" {\n " +
			"subnet_id = azurerm_subnet.n.id\n route_table_id = var.table\n}\noutput " +
			"\"subnet_id\" {\n value = azurerm_subnet.n.id\n}\n")},
	}
	if s, err = ReadSource(apart, "."); err != nil {
		t.Fatal(err)
	}
	r := s.Reading()
	if len(r.Carriers) != 1 || r.Carriers[0].Name != "nodes" ||
		r.Carriers[0].Address != "module.net.azurerm_subnet.n" {
		t.Errorf("carriers: %+v", r.Carriers)
	}
	if findings := r.Findings(Known{}); len(findings) != 1 ||
		findings[0].Severity != finding.Warning {
		t.Errorf("a table that the cluster's subnet has by two modules: %+v", findings)
	}
	cycle := fstest.MapFS{
		"main.tf": {Data: []byte("locals {\n a = local.b\n b = [local.a, local.b]\n}\nresource " +
			"\"azurerm_application_gateway\" \"g\" {\n gateway_ip_configuration {\n subnet_id = " +
			"local.a\n }\n}\n")}}
	if s, err = ReadSource(cycle, "."); err != nil || len(s.Reading().Carriers) != 0 {
		t.Errorf("locals in a circle: %v", err)
	}
	loop := fstest.MapFS{"a/main.tf": {Data: []byte("module \"a\" {\n source = \"./../a\"\n}")}}
	if _, err := ReadSource(loop, "a"); err == nil ||
		!strings.Contains(err.Error(), "calls itself") {
		t.Errorf("a module that calls itself: %v", err)
	}
}

package iac

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
)

// folderSays returns what the configuration in a folder could do, a line for each finding: its
// severity, code and first words, and its line.
func folderSays(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := fstest.MapFS{}
	for name, text := range files {
		folder[name] = &fstest.MapFile{Data: []byte(text)}
	}
	s, err := ReadSource(folder, ".")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range s.Reading().Findings(Known{}) {
		words := strings.Fields(f.Message)
		name := words[1]
		if f.Code == finding.IaCUnknown || f.Code == finding.IaCNote {
			name = words[0]
		} else if f.Code == finding.IaCMayRoutes {
			name = words[2]
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %d", f.Severity, f.Code, name, f.Line))
	}
	return strings.Join(lines, ", ")
}

// TestValues: what variables, locals, loops and conditions make of a subnet counts like what is
// written out; what the code does not show is given.
func TestValues(t *testing.T) {
	const head = `resource "azurerm_virtual_network" "v" {
  name = "hub-${var.stage}"
`
	const stage = `
variable "stage" {
  default = "prod"
}
`
	const cluster = `
resource "azurerm_kubernetes_cluster" "c" {
  default_node_pool {
    vnet_subnet_id = %s
  }
  network_profile {
    network_plugin = %s
  }
}
`
	const byName = `one([for s in azurerm_virtual_network.v.subnet : s.id if s.name == "aks"])`
	kubenet := fmt.Sprintf(cluster, byName, `"kubenet"`)
	const dynamic = `
  dynamic "subnet" {
    for_each = var.subnets
    content {
      name           = subnet.key
      route_table_id = subnet.value.table
    }
  }
}
`
	const table = `
variable "table" {
  type    = string
  default = null
}
`
	const named = `
  subnet {
    name           = "aks"
    route_table_id = var.table
  }
  subnet {
    name           = "edge"
    route_table_id = azurerm_route_table.rt.id
  }
}
`
	const separate = `resource "azurerm_virtual_network" "v" {
  name = "hub"
}
`
	azapi := func(kind, body string) string {
		return "resource \"azapi_resource\" \"x\" {\n  type = \"Microsoft.Network/" + kind +
			"@2024-05-01\"\n  name = \"x\"\n  body = " + body + "\n}\n"
	}
	for _, c := range []struct {
		name, code, want string
		files            []string
	}{
		{"optional attributes that the default leaves out", head + dynamic + stage + kubenet + `
variable "subnets" {
  type = map(object({ prefix = string, table = optional(string) }))
  default = {
    aks = { prefix = "10.0.0.0/22" }
    rt  = { prefix = "10.0.4.0/24", table = "/x" }
  }
}
`, "warning iac-may-strip hub-prod/aks 4", nil},
		{"optional attributes with a default", head + dynamic + stage + kubenet + `
variable "subnets" {
  type = map(object({ table = optional(string, "/x") }))
  default = { aks = {} }
}
`, "", nil},
		{"a variable without a value", head + dynamic + stage + kubenet +
			"variable \"subnets\" {}\n", "", nil},
		{"empty by default, and none is given a table", head + strings.Replace(dynamic,
			"subnet.value.table", "null", 1) + stage + "variable \"subnets\" {\n  default = {}\n}\n",
			"info iac-may-strip azurerm_virtual_network.v 4", nil},
		{"empty by default", head + dynamic + stage + "variable \"subnets\" {\n  default = " +
			"{}\n}\n", "", nil},
		{"tables found by key", head + strings.Replace(dynamic, "subnet.value.table",
			"lookup(local.tables, subnet.key, null)", 1) + stage + kubenet + `
variable "subnets" {
  default = { aks = {}, edge = {} }
}
locals {
  tables = { aks = azurerm_route_table.aks[0].id }
}
`, "info iac-may-strip hub-prod/edge 4", nil},
		{"tables found by a key that is not known", head + strings.Replace(dynamic,
			"subnet.value.table", "lookup(local.tables, var.key, null)", 1) + stage + kubenet +
			"locals {\n  tables = { aks = \"/x\" }\n}\nvariable \"subnets\" {\n  default = { aks = {} " +
			"}\n}\n", "", nil},
		{"tables that may be found", head + strings.Replace(dynamic, "subnet.value.table",
			"try(azurerm_route_table.all[subnet.key].id, null)", 1) + stage + kubenet +
			"variable \"subnets\" {\n  default = { aks = {} }\n}\n", "", nil},
		{"the first of several", head + strings.Replace(named, "var.table",
			`coalesce("", azurerm_route_table.rt.id)`, 1) + stage + kubenet, "", nil},
		{"an object with its ID", head + strings.Replace(dynamic, "subnet.value.table",
			"try(subnet.value.table.id, null)", 1) + stage + kubenet + `
variable "subnets" {
  type = map(object({ table = optional(object({ id = string })) }))
  default = { aks = {}, edge = { table = { id = "/x" } } }
}
`, "warning iac-may-strip hub-prod/aks 4", nil},
		{"an iterator of another name", head + `
  dynamic "subnet" {
    for_each = toset(["aks", "edge"])
    iterator = each_one
    content {
      name           = each_one.value
      route_table_id = each_one.value == "aks" ? null : "/x"
    }
  }
}
` + stage + kubenet, "warning iac-may-strip hub-prod/aks 4", nil},
		{"null by default", head + named + stage + table + kubenet,
			"warning iac-may-strip hub-prod/aks 4", nil},
		{"not null in terraform.tfvars", head + named + stage + table + kubenet, "",
			[]string{"terraform.tfvars", `table = "/x"`}},
		{"null again in a later file", head + named + stage + table + kubenet,
			"warning iac-may-strip hub-test/aks 4", []string{"terraform.tfvars", `table = "/x"`,
				"z.auto.tfvars", "table = null\nstage = \"test\"\n"}},
		{"a condition", head + strings.Replace(named, "var.table", "local.egress ? "+
			"azurerm_route_table.rt.id : null", 1) + stage + kubenet +
			"locals {\n  egress = var.stage == \"test\"\n}\n",
			"warning iac-may-strip hub-prod/aks 4", nil},
		{"the provider of the lock file", head + named + stage + table + kubenet, "",
			[]string{".terraform.lock.hcl", "provider \"registry.terraform.io/hashicorp/azurerm\"" +
				" {\n  version = \"3.117.0\"\n}\n"}},
		{"a newer provider in the lock file", head + named + stage + table + kubenet,
			"warning iac-may-strip hub-prod/aks 4", []string{".terraform.lock.hcl",
				"provider \"registry.opentofu.org/hashicorp/azurerm\" {\n  version = \"4.1.0\"\n}\n"}},
		{"an argument that is a loop", head + `
  subnet = [for name in ["aks", "edge"] : { name = name, route_table_id = null }]
}
` + stage + kubenet, "warning iac-may-strip hub-prod/aks 4, info iac-may-strip hub-prod/edge 4",
			nil},

		{"a plugin by default", head + named + stage + table + fmt.Sprintf(cluster, byName,
			"var.plugin") + "variable \"plugin\" {\n  default = \"kubenet\"\n}\n",
			"warning iac-may-strip hub-prod/aks 4", nil},
		{"overlay by default", head + named + stage + table + fmt.Sprintf(cluster, byName,
			"var.plugin") + "variable \"plugin\" {\n  default = \"azure\"\n}\n",
			"info iac-may-strip hub-prod/aks 4", nil},
		{"a plugin that is not known", head + named + stage + table + fmt.Sprintf(cluster, byName,
			"var.plugin"), "warning iac-may-strip hub-prod/aks 4", nil},
		{"a subnet by data", head + named + stage + table + fmt.Sprintf(cluster,
			"data.azurerm_subnet.s.id", `"kubenet"`) + `
data "azurerm_subnet" "s" {
  name                 = "aks"
  virtual_network_name = azurerm_virtual_network.v.name
}
`, "warning iac-may-strip hub-prod/aks 4", nil},
		{"another subnet by data", head + named + stage + table + fmt.Sprintf(cluster,
			"data.azurerm_subnet.s.id", `"kubenet"`) + `
data "azurerm_subnet" "s" {
  name                 = "aks"
  virtual_network_name = "spoke"
}
`, "info iac-may-strip hub-prod/aks 4", nil},
		{"a subnet that has its table", head + strings.Replace(strings.Replace(named, "var.table",
			"azurerm_route_table.rt.id", 1), "azurerm_route_table.rt.id\n  }\n}", "null\n  }\n}", 1) +
			stage + kubenet, "info iac-may-strip hub-prod/edge 8", nil},

		{"dynamic routes", `resource "azurerm_route_table" "rt" {
  name = "rt"
  dynamic "route" {
    for_each = var.routes
    content {
      name = route.key
    }
  }
}
`, "info iac-may-remove-routes rt 1", nil},
		{"no dynamic routes", `resource "azurerm_route_table" "rt" {
  name = "rt"
  dynamic "route" {
    for_each = []
    content {
      name = route.key
    }
  }
}
`, "", nil},
		{"a table by azapi", azapi("routeTables", "{ properties = {} }") + separate + `
resource "azurerm_subnet" "aks" {
  name                 = "aks"
  virtual_network_name = azurerm_virtual_network.v.name
}
resource "azurerm_subnet_route_table_association" "a" {
  subnet_id      = azurerm_subnet.aks.id
  route_table_id = azapi_resource.x.id
}
` + fmt.Sprintf(cluster, "azurerm_subnet.aks.id", `"kubenet"`),
			"warning iac-may-remove-routes x 1", nil},
		{"the routes of a table updated by azapi", strings.Replace(azapi("routeTables",
			"{ properties = { routes = [] } }"), "azapi_resource", "azapi_update_resource", 1),
			"info iac-may-remove-routes x 1", nil},
		{"something else of a table updated by azapi", strings.Replace(azapi("routeTables",
			"{ properties = { disableBgpRoutePropagation = true } }"), "azapi_resource",
			"azapi_update_resource", 1), "", nil},
		{"properties in a local", azapi("virtualNetworks/subnets", "{ properties = local.p }") +
			"locals {\n  p = merge({ addressPrefix = \"x\" }, { natGateway = null })\n}\n",
			"info iac-may-strip x 1", nil},
		{"properties in a local, with the table", azapi("virtualNetworks/subnets",
			"{ properties = local.p }") + "locals {\n  p = merge({ addressPrefix = " +
			"cidrsubnet(var.x, 4, 1) }, { routeTable = { id = azurerm_route_table.rt.id } })\n}\n",
			"", nil},
		{"properties that the code does not show", azapi("virtualNetworks/subnets",
			"{ properties = merge(var.p, { addressPrefix = \"x\" }) }"),
			"warning iac-not-understood azapi_resource.x: 1", nil},
		{"subnets by a local", head + "  subnet = local.all\n}\n" + stage + kubenet + `
locals {
  all = [{ name = "aks" }, { name = "edge", route_table_id = "/x" }]
}
`, "warning iac-may-strip hub-prod/aks 3", nil},
		{"subnets by a variable without a value", head + "  subnet = var.all\n}\n" + stage +
			"variable \"all\" {}\n", "warning iac-not-understood azurerm_virtual_network.v: 1", nil},
		{"no subnets", head + "  subnet = []\n}\n" + stage, "", nil},
		{"a list of subnets that is a loop", azapi("virtualNetworks",
			`{ properties = { subnets = [for n in ["aks"] : { name = n, properties = {} }] } }`),
			"info iac-may-strip x/aks 1", nil},

		{"an association that a removed block destroys", `
removed {
  from = module.x.azurerm_subnet_route_table_association.a
}
removed {
  from = azurerm_subnet_route_table_association.a
}
`, "info iac-may-strip azurerm_subnet_route_table_association.a 5, " +
			"info iac-may-strip module.x.azurerm_subnet_route_table_association.a 2", nil},
		{"an association that it only forgets", `
removed {
  from = azurerm_subnet_route_table_association.a
  lifecycle {
    destroy = false
  }
}
`, "", nil},
		{"a template that mentions networks", `
resource "azurerm_resource_group_template_deployment" "d" {
  template_content = file("vnet.json")
}
`, "warning iac-not-understood azurerm_resource_group_template_deployment.d: 2", nil},
		{"another template", `
resource "azurerm_resource_group_template_deployment" "d" {
  template_content = file("logic-app.json")
}
`, "info iac-note azurerm_resource_group_template_deployment.d: 2", nil},
	} {
		files := map[string]string{"main.tf": c.code}
		for i := 0; i < len(c.files); i += 2 {
			files[c.files[i]] = c.files[i+1]
		}
		if have := folderSays(t, files); have != c.want {
			t.Errorf("%s: %q, expected %q", c.name, have, c.want)
		}
	}
}

// TestValuesOfModules: a module's variables have the values that its caller gives.
func TestValuesOfModules(t *testing.T) {
	have := folderSays(t, map[string]string{
		"main.tf": `
module "net" {
  source = "./net"
  name   = local.name
  table  = null
}
locals {
  name = "hub"
}
`, "net/main.tf": `
variable "name" {}
variable "table" {
  default = "/x"
}
resource "azurerm_virtual_network" "v" {
  name = var.name
  subnet {
    name           = "aks"
    route_table_id = var.table
  }
}
`})
	if want := "info iac-may-strip hub/aks 8"; have != want {
		t.Errorf("%q, expected %q", have, want)
	}
}

// TestHostileValues: code that grows without end, or that refers to itself, is unknown, and takes
// no time.
func TestHostileValues(t *testing.T) {
	chain := func(step string) string {
		var b strings.Builder
		b.WriteString("locals {\n  l0 = [\"a\", \"b\", \"c\"]\n")
		for i := range 300 {
			from := fmt.Sprintf("local.l%d", i)
			fmt.Fprintf(&b, "  l%d = %s\n", i+1, strings.ReplaceAll(step, "L", from))
		}
		return b.String() + "}\n"
	}
	start := time.Now()
	for name, code := range map[string]string{
		"lists":    chain("[L, L]"),
		"text":     chain(`"${L}${L}"`),
		"merge":    chain("concat(L, L, L)"),
		"loops":    chain("[for a in L : [for b in L : [for c in L : [a, b, c]]]]"),
		"splats":   chain("[L[*], L[*]]"),
		"itself":   "locals {\n  l300 = local.a\n  a = [local.l300]\n}\n",
		"variable": "variable \"x\" {\n  default = var.x\n}\nlocals {\n  l300 = var.x\n}\n",
		"a name":   "locals {\n  l300 = azurerm_virtual_network.v.name\n}\n",
	} {
		code += `resource "azurerm_virtual_network" "v" {
  name = local.l300
  dynamic "subnet" {
    for_each = local.l300
    content {
      name = "x"
    }
  }
}
`
		have := folderSays(t, map[string]string{"main.tf": code})
		if !strings.Contains(have, "info iac-may-strip") {
			t.Errorf("%s: %.200s", name, have)
		}
	}
	// code that is too large is said to be, and what it writes out counts
	list := "[" + strings.Repeat("\"x\",", 300) + "]"
	have := folderSays(t, map[string]string{"main.tf": "locals {\n  l = [for a in " + list +
		" : [for b in " + list + " : [for c in " + list + " : c]]]\n}\n" +
		"resource \"azurerm_virtual_network\" \"v\" {\n  name = local.l\n  subnet {\n    name = " +
		"\"aks\"\n    route_table_id = null\n  }\n}\n"})
	if have != "warning iac-not-understood the 0, info iac-may-strip aks 6" {
		t.Errorf("too large: %s", have)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestSettingsDamaged: values or versions that cannot be read are an error, with file and line.
func TestSettingsDamaged(t *testing.T) {
	for _, name := range []string{"terraform.tfvars", "a.auto.tfvars", ".terraform.lock.hcl"} {
		_, err := ReadSource(fstest.MapFS{"main.tf": {Data: []byte("locals {}\n")},
			name: {Data: []byte("provider \"x\" {\n")}}, ".")
		if err == nil || !strings.HasPrefix(err.Error(), name+":1: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

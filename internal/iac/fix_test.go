package iac

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"routekeeper.dev/routekeeper/internal/finding"
)

func sourceOf(t *testing.T, code string) *Source {
	t.Helper()
	s, err := ReadSource(fstest.MapFS{"main.tf": {Data: []byte(code)}}, ".")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fixed makes repairs until there is nothing to change, which must be the case after the first
// time.
func fixed(t *testing.T, s *Source, repairs []*Repair) (code string, why []string) {
	t.Helper()
	edits, why := s.Fix(repairs)
	after, err := s.Apply(edits)
	if err != nil {
		t.Fatalf("what it wrote is no HCL: %v: %s", err, edits[0].After)
	}
	if again, _ := after.Fix(repairs); len(again) != 0 {
		t.Errorf("it is not idempotent: %s, and then %s", edits[0].After, again[0].After)
	}
	return string(after.content("main.tf")), why
}

// TestFixFixtures: everything repairable in the real plans is repaired, in the layout of terraform
// fmt; the rest stays.
func TestFixFixtures(t *testing.T) {
	want := map[string]string{
		"s01-inline-subnet-strips": "    address_prefixes = [\"10.240.0.0/24\"]\n    " +
			"route_table_id   = azurerm_route_table.nodes.id\n",
		"s03-association-destroyed": "resource \"azurerm_subnet_route_table_association\" " +
			"\"nodes\" {\n  subnet_id      = azurerm_subnet.nodes.id\n  route_table_id = " +
			"azurerm_route_table.nodes.id\n}\n",
		"s04-association-replaced": "  route_table_id = azurerm_route_table.nodes.id\n",
		"s06-write-only-table-removed": "  route_table_id_wo         = " +
			"azurerm_route_table.nodes.id\n  route_table_id_wo_version = 1\n",
		"s07-inline-routes-remove-pod-routes": "  lifecycle {\n    ignore_changes = [route]\n  }\n",
		"s08-subnet-renamed":                  "left",
		"s09-silent-strip-stale-state": "  lifecycle {\n    ignore_changes = [subnet]\n  " +
			"}\n",
		"s11-table-renamed-cascades": "left",
	}
	for name := range verdicts {
		t.Run(name, func(t *testing.T) {
			code, err := os.ReadFile(filepath.Join("../../testdata/terraform", name, "main.tf"))
			if err != nil {
				t.Fatal(err)
			}
			r, err := readPlain("plan.json", bytes.NewReader(dump(t, load(t, name))))
			if err != nil {
				t.Fatal(err)
			}
			_, repairs := r.Repairs(Known{
				Carriers: []Carrier{Named("aks-nodes", "it carries pods")}}, finding.Warning)
			after, why := fixed(t, sourceOf(t, string(code)), repairs)
			switch {
			case want[name] == "" && len(repairs) > 0:
				t.Errorf("something is repaired that is not broken: %s", after)
			case want[name] == "left" && (len(why) != 1 || why[0] == "" || after != string(code)):
				t.Errorf("this needs your decision: %q, %s", why, after)
			case want[name] != "left" && !strings.Contains(after, want[name]):
				t.Errorf("%q is not in %s", want[name], after)
			}
			if string(hclwrite.Format([]byte(after))) != after {
				t.Errorf("terraform fmt would change %s", after)
			}
		})
	}
}

// TestFixConfiguration: what a configuration alone shows is repaired, comments and layout stay, and
// the result passes the check.
func TestFixConfiguration(t *testing.T) {
	for _, c := range []struct{ name, code, want string }{
		{"a list that grows", "resource \"azurerm_virtual_network\" \"v\" {\n  subnet {\n    " +
			"name = \"nodes\" # of the cluster\n  }\n  lifecycle {\n    ignore_changes = " +
			"[tags]\n  }\n}\n", "ignore_changes = [tags, subnet]\n"},
		{"a list of lines", "resource \"azurerm_virtual_network\" \"v\" {\n  subnet {\n    name " +
			"= \"nodes\"\n  }\n  lifecycle {\n    ignore_changes = [\n      tags, # by policy\n  " +
			"  ]\n  }\n}\n", "    ignore_changes = [\n      tags, # by policy\n      subnet,\n   " +
			" ]\n"},
		{"a list of lines without the last comma", "resource \"azurerm_virtual_network\" \"v\" " +
			"{\n  subnet {\n    name = \"nodes\"\n  }\n  lifecycle {\n    ignore_changes = [\n   " +
			"   tags # by policy\n    ]\n  }\n}\n", "    ignore_changes = [\n      tags, # by " +
			"policy\n      subnet\n    ]\n"},
		{"an empty list", "resource \"azurerm_virtual_network\" \"v\" {\n  subnet {\n    name = " +
			"\"nodes\"\n  }\n  lifecycle {\n    ignore_changes = []\n  }\n}\n", "ignore_changes " +
			"= [subnet]\n"},
		{"a lifecycle for something else", "resource \"azurerm_virtual_network\" \"v\" {\n  " +
			"subnet {\n    name = \"nodes\"\n  }\n  lifecycle {\n    prevent_destroy = true\n  " +
			"}\n}\n", "    prevent_destroy = true\n    ignore_changes  = [subnet]\n"},
		{"a part of the set", "resource \"azurerm_virtual_network\" \"v\" {\n  subnet {\n    " +
			"name = \"nodes\"\n  }\n  lifecycle {\n    ignore_changes = [tags, " +
			"subnet[0].route_table_id]\n  }\n}\n", "ignore_changes = [tags, subnet]\n"},
		{"parts of the set, with comments", "resource \"azurerm_virtual_network\" \"v\" {\n  " +
			"subnet {\n    name = \"nodes\"\n  }\n  lifecycle {\n    ignore_changes = [\n      # " +
			"first\n      tags, # by policy\n      subnet[0].route_table_id, # by others\n      " +
			"subnet[1], # too\n      # last\n    ]\n  }\n}\n", "    ignore_changes = [\n      # " +
			"first\n      tags, # by policy\n      subnet, # by others\n      # last\n    ]\n"},
		{"parts of the set, on a line", "resource \"azurerm_virtual_network\" \"v\" {\n  subnet " +
			"{\n    name = \"nodes\"\n  }\n  lifecycle {\n    ignore_changes = [subnet[0], " +
			"tags[\"a\"], subnet[1]] # why\n  }\n}\n", "    ignore_changes = [subnet, " +
			"tags[\"a\"]] # why\n"},
		{"a lifecycle on one line", "resource \"azurerm_virtual_network\" \"v\" {\n  subnet {\n  " +
			"  name = \"nodes\"\n  }\n  lifecycle { prevent_destroy = true } # why\n}\n",
			"  lifecycle {\n    prevent_destroy = true\n    ignore_changes  = [subnet]\n  } # " +
				"why\n}\n"},
		{"an empty lifecycle", "resource \"azurerm_virtual_network\" \"v\" {\n  subnet {\n    " +
			"name = \"nodes\"\n  }\n  lifecycle {}\n}\n", "  lifecycle {\n    ignore_changes = " +
			"[subnet]\n  }\n}\n"},
		{"a list on one line", "resource \"azurerm_virtual_network\" \"v\" {\n  subnet {\n    " +
			"name = \"nodes\"\n  }\n  lifecycle { ignore_changes = [tags] }\n}\n",
			"  lifecycle { ignore_changes = [tags, subnet] }\n}\n"},
		{"a protection of nothing among others, with comments", "resource \"azurerm_subnet\" " +
			"\"n\" {\n  name = \"nodes\"\n  lifecycle {\n    ignore_changes = [\n      " +
			"route_table_id, # by others\n      delegation, # by a service\n    ]\n  }\n}\n",
			"    ignore_changes = [\n      delegation, # by a service\n    ]\n"},
		{"a protection of nothing, the last of several", "resource \"azurerm_subnet\" \"n\" {\n  " +
			"name = \"nodes\"\n  lifecycle {\n    ignore_changes = [delegation, " +
			"route_table_id]\n  }\n}\n", "ignore_changes = [delegation]\n"},
		{"a protection of nothing", "resource \"azurerm_subnet\" \"n\" {\n  name = \"nodes\" # " +
			"keep\n  lifecycle {\n    ignore_changes = [route_table_id]\n  }\n}\n",
			"resource \"azurerm_subnet\" \"n\" {\n  name = \"nodes\" # keep\n}\n"},
		{"a useless protection next to a useful one", "resource \"azurerm_subnet\" \"n\" " +
			"{\n  name = \"nodes\"\n  lifecycle {\n    ignore_changes = [route_table_id, " +
			"delegation]\n  }\n}\n", "ignore_changes = [delegation]\n"},
		{"another layout", "resource \"azurerm_virtual_network\" \"v\" {\n      " +
			"name=\"hub\"\n  subnet {\n    name    = \"nodes\"\n  }\n}\n", "      name=\"hub\"\n " +
			" subnet {\n    name    = \"nodes\"\n  }\n\n  lifecycle {\n    ignore_changes = " +
			"[subnet]\n  }\n}\n"},
		{"the line ends of Windows, in code that terraform fmt wrote", "resource " +
			"\"azurerm_virtual_network\" \"v\" {\r\n  subnet {\r\n    name = \"nodes\"\r\n  " +
			"}\r\n  lifecycle {\r\n    prevent_destroy = true\r\n  }\r\n}\r\n",
			"    prevent_destroy = true\r\n    ignore_changes  = [subnet]\r\n  }\r\n"},
		{"a splat", "resource \"azurerm_virtual_network\" \"v\" {\n  subnet {\n    name = " +
			"\"nodes\"\n  }\n  lifecycle {\n    ignore_changes = [subnet[*].route_table_id, " +
			"tags,]\n  }\n}\n", "    ignore_changes = [subnet, tags,]\n"},
		{"the line ends of Windows", "resource \"azurerm_virtual_network\" \"v\" {\r\n  subnet " +
			"{\r\n    name = \"nodes\"\r\n  }\r\n}\r\n", "\r\n\r\n  lifecycle {\r\n    " +
			"ignore_changes = [subnet]\r\n  }\r\n}\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sourceOf(t, c.code)
			known := Known{Carriers: []Carrier{Named("nodes", "it carries pods")}}
			_, repairs := s.Reading().Repairs(known, finding.Warning)
			after, why := fixed(t, s, repairs)
			if strings.Join(why, "") != "" || !strings.Contains(after, c.want) {
				t.Errorf("%q is not in %s (%q)", c.want, after, why)
			}
			if left := sourceOf(t, after).Reading().Findings(known); len(left) != 0 {
				t.Errorf("the result does not pass: %v", left)
			}
		})
	}
}

// TestFixBodies: the bodies of azapi resources get the table if they are literals.
func TestFixBodies(t *testing.T) {
	set := []Setting{{"routeTable", "{ id = azurerm_route_table.rt.id }"}}
	for _, c := range []struct{ name, kind, body, want string }{
		{"an object", subnetType, "{\n    properties = {\n      addressPrefix = \"10.0.0.0/24\" " +
			"# why\n    }\n  }", "    properties = {\n      routeTable    = { id = " +
			"azurerm_route_table.rt.id }\n      addressPrefix = \"10.0.0.0/24\" # why\n    }\n"},
		{"as text", subnetType, "jsonencode({ properties = { addressPrefix = \"10.0.0.0/24\" } })",
			"body = jsonencode({ properties = { routeTable = { id = azurerm_route_table.rt.id }, " +
				"addressPrefix = \"10.0.0.0/24\" } })\n"},
		{"an empty one", subnetType, "{ properties = {} }",
			"body = { properties = { routeTable = { id = azurerm_route_table.rt.id } } }\n"},
		{"one that says null", subnetType, "{ properties = { routeTable = null } }",
			"body = { properties = { routeTable = { id = azurerm_route_table.rt.id } } }\n"},
		{"a network", vnetType, "{ properties = { subnets = [{ name = \"edge\", properties = {} " +
			"}, { name = \"nodes\", properties = { x = 1 } }] } }", "{ name = \"edge\", " +
			"properties = {} }, { name = \"nodes\", properties = { routeTable = { id = " +
			"azurerm_route_table.rt.id }, x = 1 } }"},
		{"an expression", subnetType, "local.body", ""},
	} {
		code := "resource \"azapi_resource\" \"n\" {\n  type = \"" + c.kind + "\"\n  body = " +
			c.body + "\n}\n"
		after, why := fixed(t, sourceOf(t, code),
			[]*Repair{{Address: "azapi_resource.n", Subnet: "nodes", Set: set}})
		if c.want == "" && (after != code || !strings.Contains(why[0], "is an expression: add")) ||
			!strings.Contains(after, c.want) {
			t.Errorf("%s: %q is not in %s (%q)", c.name, c.want, after, why)
		}
	}
}

// TestFixLeaves: what cannot be repaired stays unchanged, with a reason.
func TestFixLeaves(t *testing.T) {
	inlineRepair := func(address, value string) *Repair {
		return &Repair{Address: address, Subnet: "nodes", Set: []Setting{{"route_table_id", value}}}
	}
	const vnet = "resource \"azurerm_virtual_network\" \"v\" {\n  subnet {\n    name = " +
		"\"nodes\"\n  }\n}\n"
	for _, c := range []struct {
		name, code string
		repairs    []*Repair
		want       string
	}{
		{"code that is missing", vnet,
			[]*Repair{inlineRepair("azurerm_virtual_network.other", "x")}, "was not found"},
		{"instances that share their code", vnet,
			[]*Repair{inlineRepair("azurerm_virtual_network.v[0]", `"/subscriptions/a"`)},
			"share the code"},
		{"instances that share their body", "resource \"azapi_resource\" \"n\" {\n  body = { " +
			"properties = {} }\n}\n", []*Repair{{Address: "azapi_resource.n[0]", Subnet: "nodes",
			Set: []Setting{{"routeTable", `{ id = "/subscriptions/a" }`}}}}, "share the code"},
		{"a block on one line", "resource \"azurerm_virtual_network\" \"v\" {\n  subnet { name = " +
			"\"nodes\" }\n}\n", []*Repair{inlineRepair("azurerm_virtual_network.v", "x.y")},
			"on one line"},
		{"a resource on one line", "resource \"azurerm_virtual_network\" \"v\" {}\n",
			[]*Repair{{Address: "azurerm_virtual_network.v", Ignore: "subnet"}}, "on one line"},
		{"an expression", "resource \"azurerm_virtual_network\" \"v\" {\n  lifecycle {\n    " +
			"ignore_changes = local.x\n  }\n}\n", []*Repair{
			{Address: "azurerm_virtual_network.v", Ignore: "subnet"}}, "not a plain list"},
		{"nothing to do it with", vnet, []*Repair{nil}, "this needs your decision"},
	} {
		after, why := fixed(t, sourceOf(t, c.code), c.repairs)
		if after != c.code || !strings.Contains(strings.Join(why, ""), c.want) {
			t.Errorf("%s: %q, expected %q, and %s", c.name, why, c.want, after)
		}
	}
	// ignored for all of them, whatever their tables
	for _, address := range []string{`azurerm_virtual_network.v["a"]`,
		"azurerm_virtual_network.v"} {
		code := "resource \"azurerm_virtual_network\" \"v\" {\n  dynamic \"subnet\" {\n    " +
			"for_each = var.x\n    content {\n      name = subnet.key\n    }\n  }\n}\n"
		r := inlineRepair(address, `"/subscriptions/a"`)
		r.Shared = true
		if after, why := fixed(t, sourceOf(t, code), []*Repair{r}); !strings.Contains(after,
			"ignore_changes = [subnet]") || why[0] != "" {
			t.Errorf("%s: %q: %s", address, why, after)
		}
	}
	dynamic := "resource \"azurerm_virtual_network\" \"v\" {\n  dynamic \"subnet\" {\n    " +
		"for_each = var.x\n    content {\n      name = subnet.key\n    }\n  }\n}\n"
	if after, _ := fixed(t, sourceOf(t, dynamic),
		[]*Repair{inlineRepair("azurerm_virtual_network.v", "x.y")}); !strings.Contains(
		after, "ignore_changes = [subnet]") {
		t.Errorf("blocks that are not written out: %s", after)
	}
}

// TestFixKeepsBytes: tabs, and line ends of either kind, stay where they are.
func TestFixKeepsBytes(t *testing.T) {
	const code = "resource \"azurerm_virtual_network\" \"v\" {\r\n\tname\t= \"v\" // a\tb\r\n\r\n" +
		"\tsubnet {\n\t\tname = \"nodes\" /* x */\r\n\t}\r\n}\r\n\r\nlocals {\r\n\tx\t=   1\n}\n\n"
	s := sourceOf(t, code)
	after, _ := fixed(t, s, []*Repair{{Address: "azurerm_virtual_network.v", Ignore: "subnet"}})
	at := strings.Index(code, "}\r\n\r\nlocals")
	if want := code[:at] + "\r\n  lifecycle {\r\n    ignore_changes = [subnet]\r\n  }\r\n" +
		code[at:]; after != want {
		t.Errorf("%q, expected %q", after, want)
	}
	// What is between two changes stays, too.
	const table = "resource \"azurerm_route_table\" \"rt\" {\n\troute {\n\t}\n}\n"
	s = sourceOf(t, strings.ReplaceAll(code+table, "\r\n", "\n"))
	after, _ = fixed(t, s, []*Repair{{Address: "azurerm_virtual_network.v", Ignore: "subnet"},
		{Address: "azurerm_route_table.rt", Ignore: "route"}})
	if between := "\nlocals {\n\tx\t=   1\n}\n\n" + strings.TrimSuffix(table,
		"}\n"); !strings.Contains(after, between) || strings.Count(after, "ignore_changes") != 2 {
		t.Errorf("%q does not have %q", after, between)
	}
}

// TestFixModule: the ID of a table is not written into a module, which can be called from anywhere.
// A table of the module itself is named.
func TestFixModule(t *testing.T) {
	files := fstest.MapFS{
		"main.tf": {Data: []byte("module \"a\" {\n  source = \"./m\"\n}\n\nmodule \"b\" {\n  " +
			"source = \"./m\"\n}\n")},
		"m/main.tf": {Data: []byte("resource \"azurerm_subnet_route_table_association\" \"n\" " +
			"{\n  route_table_id = var.table\n}\n")}}
	s, err := ReadSource(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		table string
		add   bool
		want  string
	}{
		{`"/subscriptions/a"`, false, "in as a variable"},
		{`"/subscriptions/a"`, true, "in as a variable"},
		{"azurerm_route_table.rt.id", false, ""},
		{"azurerm_route_table.rt.id", true, ""},
	} {
		r := &Repair{Address: "module.a.azurerm_subnet_route_table_association.n",
			Set: []Setting{{"route_table_id", c.table}}}
		if c.add {
			r.Address, r.Next, r.Add = "module.a.azurerm_subnet_route_table_association.new",
				r.Address, true
		}
		edits, why := s.Fix([]*Repair{r})
		if !strings.Contains(why[0], c.want) || (len(edits) == 0) != (c.want != "") {
			t.Errorf("%+v: %q, %d edits", c, why, len(edits))
		}
	}
}

// TestFixImport: an association that exists in Azure but not in the state is imported, by the root
// module, once.
func TestFixImport(t *testing.T) {
	const link = "resource \"azurerm_subnet_route_table_association\" \"n\" {\n  subnet_id = " +
		"azurerm_subnet.n.id # keep\n}\n"
	for _, c := range []struct{ name, address, table, want string }{
		{"in the root module", "azurerm_subnet_route_table_association.n", rtID, "main.tf: " +
			link + "\nimport {\n  to = azurerm_subnet_route_table_association.n\n  id = \"" +
			nodesID + "\"\n}\n"},
		{"an instance", `azurerm_subnet_route_table_association.n["a"]`, rtID,
			"import {\n  to = azurerm_subnet_route_table_association.n[\"a\"]\n"},
		{"in a module", `module.net["a"].azurerm_subnet_route_table_association.n`, rtID,
			"net.tf: module \"net\" {\n  source = \"./net\"\n}\n\nimport {\n  to = " +
				"module.net[\"a\"].azurerm_subnet_route_table_association.n\n"},
		{"in a module that was not found", "module.far.azurerm_subnet_route_table_association.n",
			rtID, ""},
		{"with another table", "azurerm_subnet_route_table_association.n", otherID, ""},
		{"with code in its key", `azurerm_subnet_route_table_association.n[file("x")]`, rtID, ""},
		{"with a template in its key", `azurerm_subnet_route_table_association.n["${file("x")}"]`,
			rtID, ""},
	} {
		s, err := ReadSource(fstest.MapFS{"main.tf": {Data: []byte(link)},
			"net.tf":      {Data: []byte("module \"net\" {\n  source = \"./net\"\n}\n")},
			"net/main.tf": {Data: []byte(link)}}, ".")
		if err != nil {
			t.Fatal(err)
		}
		r, err := readPlain("plan", strings.NewReader(`{"format_version":"1.2","resource_changes":[`+
			changes(tfSubnet, "n", "no-op", subnetOf(`,"route_table_id":"`+rtID+`"`), "null")+
			`,{"address":`+strconv.Quote(c.address)+`,"module_address":`+
			strconv.Quote(moduleOf(c.address))+
			`,"type":"azurerm_subnet_route_table_association","name":"n","change":{"actions":["create"],"before":null,"after":`+association(c.table)+`}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		_, repairs := r.Repairs(Known{}, finding.Warning)
		edits, _ := s.Fix(repairs)
		have := ""
		for _, e := range edits {
			have += e.File + ": " + string(e.After)
		}
		if !strings.Contains(have, c.want) || c.want == "" && have != "" {
			t.Errorf("%s: %q is not in %s", c.name, c.want, have)
		}
		after, err := s.Apply(edits)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := after.Fix(repairs); len(again) != 0 {
			t.Errorf("%s: it is not idempotent: %s", c.name, again[0].After)
		}
	}
}

// TestFixShared: a value for one instance is not written into code that instances share, and no
// table is named that the same plan destroys.
func TestFixShared(t *testing.T) {
	link := func(key, subnet, action, before, after string) string {
		return fmt.Sprintf(
			`{"address":"azurerm_subnet_route_table_association.n[\"%s\"]","type":"azurerm_subnet_route_table_association","name":"n","change":{"actions":[%q],"before":{"id":%q,"subnet_id":%q,"route_table_id":%q},"after":{"id":%q,"subnet_id":%q,"route_table_id":%q}}}`,
			key, action, subnet, subnet, before, subnet, subnet, after)
	}
	table := func(name, id, action string) string {
		return changes(tfTable, name, action, fmt.Sprintf(`{"id":%q,"name":%q}`, id, name), "null")
	}
	const code = "resource \"azurerm_subnet\" \"n\" {\n  name = \"nodes\"\n}\n\nresource " +
		"\"azurerm_subnet_route_table_association\" \"n\" {\n  for_each       = var.x\n  " +
		"route_table_id = each.value\n}\n"
	for _, c := range []struct {
		name  string
		parts []string
		want  string // what is left, "" if it is repaired
	}{
		{"the other one has another table",
			[]string{table("rt", rtID, "no-op"), link("a", nodesID, "update", rtID, otherID),
				link("b", edgeID, "no-op", otherID, otherID)}, "several instances share the code"},
		{"the other one has the same", []string{table("rt", rtID, "no-op"),
			link("a", nodesID, "update", rtID, otherID), link("b", edgeID, "no-op", rtID, rtID)},
			""},
		{"there is no other",
			[]string{table("rt", rtID, "no-op"), link("a", nodesID, "update", rtID, otherID)}, ""},
		{"the table goes", []string{table("rt", rtID, "delete"),
			link("a", nodesID, "update", rtID, otherID)}, "this needs your decision"},
		{"the table goes with its association", []string{table("rt", rtID, "delete"),
			changes(tfSubnet, "n", "no-op", subnetOf(""), "null"), changes(tfAssociation, "gone",
				"delete", association(rtID), "null")}, "this needs your decision"},
	} {
		r, err := readPlain("plan", strings.NewReader(`{"format_version":"1.2","resource_changes":[`+
			strings.Join(c.parts, ",")+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		_, repairs := r.Repairs(Known{}, finding.Warning)
		after, why := fixed(t, sourceOf(t, code), repairs)
		if left := strings.Join(why, ""); len(why) != 1 || (c.want == "") != (left == "") ||
			!strings.Contains(left, c.want) || (after == code) != (c.want != "") {
			t.Errorf("%s: %q, expected %q: %s", c.name, why, c.want, after)
		}
	}
}

// TestFixMany: repairs of one file are made together. Read again after each, a file of this size
// would take minutes.
func TestFixMany(t *testing.T) {
	const blocks = 2000
	var code strings.Builder
	var repairs []*Repair
	for i := range blocks {
		fmt.Fprintf(&code, "resource \"azurerm_subnet_route_table_association\" \"n%d\" {\n  "+
			"route_table_id = var.x\n}\n\n", i)
		repairs = append(repairs, &Repair{
			Address: fmt.Sprintf("azurerm_subnet_route_table_association.n%d", i),
			Set:     []Setting{{"route_table_id", fmt.Sprint("var.t", i)}}})
	}
	// The second repair of a block sees the first.
	for _, attribute := range []string{"route_table_id", "subnet_id"} {
		repairs = append(repairs, &Repair{Address: "azurerm_subnet_route_table_association.n7",
			Ignore: attribute})
	}
	after, why := fixed(t, sourceOf(t, code.String()), repairs)
	if left := strings.Join(why, ""); left != "" {
		t.Fatal(left)
	}
	for i := range blocks {
		if !strings.Contains(after, fmt.Sprintf("= var.t%d\n", i)) {
			t.Errorf("repair %d is missing", i)
		}
	}
	if !strings.Contains(after, "= var.t7\n\n  lifecycle {\n    ignore_changes = [route_table_id, "+
		"subnet_id]") {
		t.Errorf("%.900s", after)
	}
}

// FuzzFix: for any code, the result of a repair is HCL, a second repair changes nothing, and the
// resources are the same.
func FuzzFix(f *testing.F) {
	for name := range verdicts {
		raw, err := os.ReadFile(filepath.Join("../../testdata/terraform", name, "main.tf"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw[bytes.Index(raw, []byte(`resource "azurerm_virtual_network"`)):])
	}
	f.Add([]byte("resource \"azurerm_route_table\" \"r\" {\n  route {}\n  lifecycle {\n    " +
		"ignore_changes = [route[0], tags]\n  }\n}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := ReadSource(fstest.MapFS{"main.tf": {Data: raw}}, ".")
		if err != nil {
			return
		}
		_, repairs := s.Reading().Repairs(Known{}, finding.Info)
		edits, _ := s.Fix(repairs)
		after, err := s.Apply(edits)
		if err != nil {
			t.Fatalf("%q becomes %q: %v", raw, edits[0].After, err)
		}
		if again, _ := after.Fix(repairs); len(again) != 0 {
			t.Errorf("%q becomes %q, and then %q", raw, edits[0].After, again[0].After)
		}
		if a, b := len(s.modules[0].resources), len(after.modules[0].resources); a != b {
			t.Errorf("%d resources become %d", a, b)
		}
	})
}

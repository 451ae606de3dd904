package iac

import (
	"fmt"
	"strings"
	"testing"
)

// TestReferences: a value that is known only after apply is followed through variables, outputs,
// for_each and instances to its resource, and nowhere else.
func TestReferences(t *testing.T) {
	link := func(address, module, index string) string {
		return fmt.Sprintf(
			`{"address":%q,"module_address":%q,"mode":"managed","type":"azurerm_subnet_route_table_association","name":"n"%s,"change":{"actions":["delete","create"],"before":%s,"after":{"subnet_id":%q},"after_unknown":{"route_table_id":true}}}`,
			address, module, index, association(rtID), nodesID)
	}
	table := func(address, module, index, name string) string {
		return fmt.Sprintf(
			`{"address":%q,"module_address":%q,"mode":"managed","type":"azurerm_route_table","name":"rt"%s,"change":{"actions":["create"],"before":null,"after":{"name":%q}}}`, address, module, index, name)
	}
	resource := func(references string) string {
		return `{"type":"azurerm_subnet_route_table_association","name":"n","expressions":{"route_table_id":{"references":[` + references + `]}}}`
	}
	for _, c := range []struct{ name, resources, root, want string }{
		{"in the same module", link("azurerm_subnet_route_table_association.n", "", "") + "," +
			table("azurerm_route_table.rt", "", "", "new"),
			`"resources":[` + resource(`"azurerm_route_table.rt.id","azurerm_route_table.rt"`) +
				`]`, "new"},
		{"the instance with the same key", link(`azurerm_subnet_route_table_association.n["b"]`, "",
			`,"index":"b"`) + "," +
			table(`azurerm_route_table.rt["a"]`, "", `,"index":"a"`, "of a") + "," +
			table(`azurerm_route_table.rt["b"]`, "", `,"index":"b"`, "of b"),
			`"resources":[` + resource(`"azurerm_route_table.rt","each.key"`) + `]`, "of b"},
		{"one of several, unknown which", link("azurerm_subnet_route_table_association.n", "",
			"") + "," + table("azurerm_route_table.rt[0]", "", `,"index":0`, "a") + "," +
			table("azurerm_route_table.rt[1]", "", `,"index":1`, "b"),
			`"resources":[` + resource(`"azurerm_route_table.rt"`) + `]`, ""},
		{"through a variable", link("module.m.azurerm_subnet_route_table_association.n", "module.m",
			"") + "," + table("azurerm_route_table.rt", "", "", "outside"),
			`"module_calls":{"m":{"expressions":{"table":{"references":["azurerm_route_table.rt.id","azurerm_route_table.rt"]}},"module":{"resources":[` + resource(`"var.table"`) + `]}}}`, "outside"},
		{"through an output", link("azurerm_subnet_route_table_association.n", "", "") + "," +
			table("module.m.azurerm_route_table.rt", "module.m", "", "inside"),
			`"resources":[` + resource(`"module.m.table","module.m"`) +
				`],"module_calls":{"m":{"module":{"outputs":{"table":{"expression":{"references":["azurerm_route_table.rt.id","azurerm_route_table.rt"]}}}}}}`, "inside"},
		{"from module to module", link("module.a.azurerm_subnet_route_table_association.n",
			"module.a", "") + "," +
			table("module.b.azurerm_route_table.rt", "module.b", "", "next door"),
			`"module_calls":{"a":{"expressions":{"t":{"references":["module.b.table","module.b"]}},"module":{"resources":[` + resource(`"var.t"`) + `]}},"b":{"module":{"outputs":{"table":{"expression":{"references":["azurerm_route_table.rt.id"]}}}}}}`, "next door"},
		{"over for_each", link(`azurerm_subnet_route_table_association.n["x"]`, "",
			`,"index":"x"`) + "," + table("azurerm_route_table.rt", "", "", "each"),
			`"resources":[{"type":"azurerm_subnet_route_table_association","name":"n","expressions":{"route_table_id":{"references":["each.value.id","each.value"]}},"for_each_expression":{"references":["azurerm_route_table.rt"]}}]`, "each"},
		{"a local, which no plan shows", link("azurerm_subnet_route_table_association.n", "", "") +
			"," + table("azurerm_route_table.rt", "", "", "new"),
			`"resources":[` + resource(`"local.table"`) + `]`, ""},
		{"in a circle", link("module.m.azurerm_subnet_route_table_association.n", "module.m", ""),
			`"module_calls":{"m":{"expressions":{"t":{"references":["module.m.t"]}},"module":{"resources":[` + resource(`"var.t"`) + `],"outputs":{"t":{"expression":{"references":["var.t"]}}}}}}`, ""},
	} {
		r, err := readPlain("plan",
			strings.NewReader(`{"format_version":"1.2","configuration":{"root_module":{`+c.root+
				`}},"resource_changes":[`+c.resources+`]}`))
		if err != nil || len(r.Effects) != 1 {
			t.Errorf("%s: %+v, %v", c.name, r, err)
			continue
		}
		if e := r.Effects[0]; e.After != c.want || (e.Verb == Another) != (c.want != "") {
			t.Errorf("%s: %s %q, expected %q", c.name, e.Verb, e.After, c.want)
		}
	}
}

// TestAddresses: instance keys can contain anything.
func TestAddresses(t *testing.T) {
	for _, c := range []struct{ address, plain, key, module string }{
		{"azurerm_subnet.n", "azurerm_subnet.n", "", ""},
		{"azurerm_subnet.n[0]", "azurerm_subnet.n", "[0]", ""},
		{`module.a["x.y"].module.b[1].azurerm_subnet.n["k[0].azurerm_subnet.n"]`,
			"module.a.module.b.azurerm_subnet.n", `["k[0].azurerm_subnet.n"]`,
			`module.a["x.y"].module.b[1]`},
		{`module.a["q\"]."].azurerm_subnet.n`, "module.a.azurerm_subnet.n", "",
			`module.a["q\"]."]`},
		{"module.a.data.azurerm_subnet.n", "module.a.data.azurerm_subnet.n", "", "module.a"},
	} {
		if plain, key, module := withoutKeys(c.address), keyOf(c.address),
			moduleOf(c.address); plain != c.plain || key != c.key || module != c.module {
			t.Errorf("%s: %q, %q, %q", c.address, plain, key, module)
		}
	}
}

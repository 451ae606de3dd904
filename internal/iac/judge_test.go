package iac

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const judgeAPI = "2024-05-01"

// TestTemplatesAgainstAzure deploys random templates to the emulator and compares what happens to
// associations with what the reading predicts: a subnet that had a table loses it, is without one
// for a moment, or is deleted; and a table loses its routes.
func TestTemplatesAgainstAzure(t *testing.T) {
	c := newEmulator(t)
	n, seen := 0, map[string]int{}
	missing := func() []Verb {
		return slices.DeleteFunc([]Verb{"", Loses, Flaps, Recreated, MayLoseRoutes},
			func(v Verb) bool { return seen[string(v)] > 0 })
	}
	judge := func(t *rapid.T) {
		n++
		w := &judgeWorld{t: t, c: c, group: fmt.Sprint("g", n)}
		w.build()
		text := w.template()
		file := File{"t.json", []byte(text)}
		o := TemplateOptions{Where: armtemplate.Options{Subscription: emulator.DefaultSubscription,
			ResourceGroup: w.group}}
		for name, table := range w.tables() {
			if table != "" {
				o.Carriers = append(o.Carriers,
					Carrier{Place: subnetPlace(string(w.subnet(name))), Why: "it has a table"})
			}
		}
		reading, err := ReadTemplate(file, o)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, note := range reading.Notes {
			if note.Unknown && !strings.Contains(note.Text, "deletes the subnets") {
				t.Fatalf("%s\n%s", note.Text, text)
			}
		}
		said := map[string]Verb{}
		for _, effect := range reading.Effects {
			said[effect.What.Name] = effect.Verb
		}
		happened, deployed := w.deploy(file, o.Where)
		if !deployed {
			seen["refused"]++
			return
		}
		for name, verb := range happened {
			seen[string(verb)]++
			if got := said[name]; got != verb &&
				!(w.unordered && verb == "" || w.unordered && got != "" && verb != "") {
				t.Fatalf("%s: %q was said, and %q happened\n%s", name, got, verb, text)
			}
		}
		// The predicted tables exist.
		for name, table := range w.tables() {
			after := reading.After.Subnet(w.subnet(name))
			if after != nil && !w.unordered && !after.RouteTable.Equal(arm.ID(table)) {
				t.Fatalf("%s: it was said to have %q, and has %q\n%s", name, after.RouteTable,
					table, text)
			}
		}
	}
	rapid.Check(t, judge)
	// some effects are rare
	for tries := 0; len(missing()) > 0 && tries < 20 && !t.Failed(); tries++ {
		rapid.Check(t, judge)
	}
	if verbs := missing(); len(verbs) > 0 {
		t.Errorf("no %q among %v: the test does not reach what it is for", verbs, seen)
	}
	if seen["refused"]*4 > n {
		t.Errorf("%d of %d were refused", seen["refused"], n)
	}
}

// TestFixedTemplatesAgainstAzure repairs random templates, deploys them, and checks that no subnet
// with a table is ever without one, unless the repair says that something is left.
func TestFixedTemplatesAgainstAzure(t *testing.T) {
	c := newEmulator(t)
	n, repaired := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		w := &judgeWorld{t: t, c: c, group: fmt.Sprint("f", n)}
		w.build()
		text := w.template()
		o := TemplateOptions{Where: armtemplate.Options{Subscription: emulator.DefaultSubscription,
			ResourceGroup: w.group}}
		for name, table := range w.tables() {
			if table != "" {
				o.Carriers = append(o.Carriers, Carrier{Place: subnetPlace(string(w.subnet(name))),
					Why: "it has a table"})
			}
		}
		fix, err := FixTemplate(File{"t.json", []byte(text)}, o)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		happened, deployed := w.deploy(File{"t.json", fix.After}, o.Where)
		if !deployed {
			return
		}
		for name, verb := range happened {
			left := slices.ContainsFunc(fix.Left, func(line string) bool {
				return strings.HasPrefix(line, "v/"+name+":")
			})
			if verb != "" && verb != MayLoseRoutes && !left {
				t.Fatalf("%s: %s, and nothing is left (%v)\n%s\nof\n%s", name, verb, fix.Left,
					fix.After, text)
			}
			if verb == "" && len(fix.Done) > 0 {
				repaired++
			}
		}
	})
	if repaired == 0 {
		t.Error("nothing was repaired: the test does not reach what it is for")
	}
}

// newEmulator starts an emulator without limits.
func newEmulator(t *testing.T) *emulator.Client {
	e, err := emulator.New(emulator.Options{LogBodies: 10,
		Buckets: emulator.Buckets{Reads: emulator.Bucket{Size: 1e9, PerSecond: 1},
			Writes:   emulator.Bucket{Size: 1e9, PerSecond: 1},
			Clusters: emulator.Bucket{Size: 1e9, PerSecond: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	c, err := e.Client(emulator.DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type judgeWorld struct {
	t         *rapid.T
	c         *emulator.Client
	group     string
	unordered bool
}

var judgeSubnets = []string{"a", "b", "c", "d"}

func (w *judgeWorld) id(kind, name string) arm.ID {
	return arm.ResourceID(emulator.DefaultSubscription, w.group, kind, name)
}

func (w *judgeWorld) subnet(name string) arm.ID {
	return w.id(arm.TypeVNet, "v").Child("subnets", name)
}

func (w *judgeWorld) put(id arm.ID, version string, body any) (int, []byte) {
	raw, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.c.Do(http.MethodPut, id, version, raw)
}

func judgePrefix(name string) string {
	return fmt.Sprintf("10.0.%d.0/24", slices.Index(judgeSubnets, name))
}

// build creates a network with associations.
func (w *judgeWorld) build() {
	type doc = map[string]any
	must := func(id arm.ID, body any) {
		if status, answer := w.put(id, judgeAPI, body); status >= 300 {
			w.t.Fatalf("%s: %d %s", id, status, answer)
		}
	}
	must(arm.GroupID(emulator.DefaultSubscription, w.group), doc{"location": "westeurope"})
	for _, name := range []string{"t0", "t1"} {
		must(w.id(arm.TypeRouteTable, name), doc{"location": "westeurope", "properties": doc{
			"routes": []doc{{"name": "pods",
				"properties": doc{"addressPrefix": "10.244.0.0/24",
					"nextHopType": "VirtualAppliance", "nextHopIpAddress": "10.0.0.4"}}}}})
	}
	var subnets []doc
	for _, name := range judgeSubnets[:3] {
		p := doc{"addressPrefix": judgePrefix(name)}
		if table := rapid.SampledFrom([]string{"", "t0", "t1"}).Draw(w.t, "table of "+
			name); table != "" {
			p["routeTable"] = doc{"id": w.id(arm.TypeRouteTable, table)}
		}
		subnets = append(subnets, doc{"name": name, "properties": p})
	}
	must(w.id(arm.TypeVNet, "v"),
		doc{"location": "westeurope",
			"properties": doc{"addressSpace": doc{"addressPrefixes": []string{"10.0.0.0/16"}},
				"subnets": subnets}})
}

// tables returns the tables of the existing subnets.
func (w *judgeWorld) tables() map[string]string {
	out := map[string]string{}
	for _, name := range judgeSubnets {
		status, body := w.c.Do(http.MethodGet, w.subnet(name), judgeAPI, nil)
		if status != http.StatusOK {
			continue
		}
		s, err := inventory.DecodeSubnet(body)
		if err != nil {
			w.t.Fatal(err)
		}
		out[name] = string(s.RouteTable)
	}
	return out
}

// table draws a table for a subnet, in one of the forms of templates.
func (w *judgeWorld) table(label string) string {
	name := rapid.SampledFrom([]string{"", "", "t0", "t1"}).Draw(w.t, label)
	way := rapid.IntRange(0, 4).Draw(w.t, label+" way")
	if name == "" {
		return []string{`"tags": {}`, `"routeTable": null`, `"routeTable": "[null()]"`,
			`"routeTable": "[if(parameters('no'), createObject('id', 'x'), null())]"`,
			`"routeTable": "[tryGet(createObject(), 'none')]"`}[way]
	}
	id := fmt.Sprintf("resourceId('Microsoft.Network/routeTables', '%s')", name)
	return []string{
		`"routeTable": {"id": "` + string(w.id(arm.TypeRouteTable, name)) + `"}`,
		`"routeTable": {"id": "[` + id + `]"}`,
		`"routeTable": "[if(not(parameters('no')), createObject('id', ` + id + `), null())]"`,
		`"routeTable": {"id": "[format('{0}/providers/Microsoft.Network/routeTables/{1}', resourceGroup().id, '` + name + `')]"}`,
		`"routeTable": "[union(createObject('id', 'x'), createObject('id', ` + id + `))]"`,
	}[way]
}

// template draws a template.
func (w *judgeWorld) template() string {
	draw := func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(w.t, label) }
	var resources []string
	parameters := `"no": {"type": "bool", "defaultValue": false}`
	if draw("writes the table", 3) == 0 {
		resources = append(resources,
			`{"type": "Microsoft.Network/routeTables", "apiVersion": "2024-05-01", "name": "t0", "location": "westeurope", "properties": {"routes": []}}`)
	}
	// The network.
	version := rapid.SampledFrom([]string{"2022-07-01", "2023-06-01", "2023-09-01", "2024-05-01"}).
		Draw(w.t, "api-version")
	written := draw("writes the network", 4) > 0
	if written {
		properties := `"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}`
		var listed []string
		for _, name := range judgeSubnets {
			if draw("lists "+name, 3) > 0 {
				listed = append(listed,
					fmt.Sprintf(`{"name": "%s", "properties": {"addressPrefix": "%s", %s}}`, name,
						judgePrefix(name), w.table("inline "+name)))
			}
		}
		switch draw("how it lists", 4) {
		case 0:
		case 1:
			properties += `, "subnets": [` + strings.Join(listed, ",") + `]`
		case 2:
			properties += `, "subnets": null`
		case 3: // a loop over the values of a parameter
			parameters += `, "subnets": {"type": "array", "defaultValue": [` +
				strings.ReplaceAll(strings.Join(listed, ","), `"[`, `"[[`) + `]}`
			if !strings.Contains(strings.Join(listed, ","), `"[`) {
				properties += `, "copy": [{"name": "subnets", "count": "[length(parameters('subnets'))]", "input": {"name": "[parameters('subnets')[copyIndex('subnets')].name]", "properties": "[parameters('subnets')[copyIndex('subnets')].properties]"}}]`
			}
		}
		resources = append(resources,
			fmt.Sprintf(`{"type": "Microsoft.Network/virtualNetworks", "apiVersion": "%s", "name": "v", "location": "westeurope", "properties": {%s}}`, version, properties))
	}
	// Separate subnets, one after the other, or without any order.
	before := ""
	if written {
		before = "[resourceId('Microsoft.Network/virtualNetworks', 'v')]"
	}
	w.unordered = draw("unordered", 4) == 0
	for _, name := range judgeSubnets {
		if draw("own "+name, 3) > 0 {
			continue
		}
		depends := fmt.Sprintf(`"dependsOn": ["%s"], `, before)
		if before == "" || w.unordered {
			depends = ""
		}
		condition := rapid.SampledFrom([]string{``, `"condition": true, `,
			`"condition": "[parameters('no')]", `, `"condition": "[not(parameters('no'))]", `}).
			Draw(w.t, "condition of "+name)
		resources = append(resources,
			fmt.Sprintf(`{%s%s"type": "Microsoft.Network/virtualNetworks/subnets", "apiVersion": "2024-05-01", "name": "[format('{0}/%s', 'v')]", "properties": {"addressPrefix": "%s", %s}}`, condition, depends, name, judgePrefix(name), w.table("own "+name)))
		// A dependency on a resource that is not deployed does not count
		// (conditional-resource-deployment).
		if before != "" && !w.unordered && !strings.Contains(condition, `"[parameters`) {
			before = fmt.Sprintf("[resourceId('Microsoft.Network/virtualNetworks/subnets', 'v', "+
				"'%s')]", name)
		}
	}
	list := rapid.Permutation(resources).Draw(w.t, "order")
	return `{"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", "contentVersion": "1.0.0.0", "parameters": {` + parameters + `}, "resources": [` + strings.Join(list, ",\n") + `]}`
}

// fill replaces what a template reads at deployment: the present tables of subnets.
func fill(v any, read map[string]string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			fill(item, read)
		}
	case *armtemplate.Object:
		for i, m := range v.Members {
			u, is := m.Value.(*armtemplate.Unknown)
			if !is {
				fill(m.Value, read)
				continue
			}
			v.Members[i].Value = nil
			if table := read[arm.ID(u.Of).Key()]; table != "" && u.Path == "routeTable" {
				v.Members[i].Value = &armtemplate.Object{
					Members: []armtemplate.Member{{Name: "id", Value: table}}}
			}
		}
	}
}

// deploy PUTs the evaluated template, in an order that its dependencies allow, and returns what
// happened to subnets and tables.
func (w *judgeWorld) deploy(f File, where armtemplate.Options) (happened map[string]Verb,
	done bool) {
	doc, err := armtemplate.Parse(f.Name, f.Data)
	if err != nil {
		w.t.Fatal(err)
	}
	result, err := armtemplate.Evaluate(doc.(*armtemplate.Object), nil, where)
	if err != nil {
		w.t.Fatal(err)
	}
	first := w.tables()
	happened = map[string]Verb{}
	for name, table := range first {
		if table != "" {
			happened[name] = ""
		}
	}
	rest := slices.Clone(result.Resources)
	read := map[string]string{} // what nested deployments read before anything is written
	for name, table := range first {
		read[w.subnet(name).Key()] = table
	}
	for len(rest) > 0 {
		next := slices.IndexFunc(rest, func(r *armtemplate.Resource) bool {
			return !slices.ContainsFunc(rest, func(other *armtemplate.Resource) bool {
				return r.After(other)
			})
		})
		r := rest[next]
		rest = slices.Delete(rest, next, next+1)
		if r.Type == "Microsoft.Resources/deployments" {
			continue
		}
		fill(r.Body, read)
		body := plainObject(r.Body)
		for _, name := range []string{"type", "apiVersion", "name", "dependsOn"} {
			delete(body, name)
		}
		if status, _ := w.put(arm.ID(r.ID), r.APIVersion, body); status >= 300 {
			return nil, false
		}
		now := w.tables()
		for name := range happened {
			table, there := now[name]
			switch {
			case !there:
				happened[name] = Recreated
			case table == "" && happened[name] != Recreated:
				happened[name] = Loses
			case table != "" && happened[name] == Loses:
				happened[name] = Flaps
			}
		}
	}
	if status, body := w.c.Do(http.MethodGet, w.id(arm.TypeRouteTable, "t0"), judgeAPI,
		nil); status == http.StatusOK {
		table, err := inventory.DecodeRouteTable(body)
		if err != nil {
			w.t.Fatal(err)
		}
		if happened["t0"] = ""; len(table.Routes()) == 0 {
			happened["t0"] = MayLoseRoutes
		}
	}
	return happened, true
}

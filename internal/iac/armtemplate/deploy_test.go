package armtemplate

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// stubWorld has a resource for any ID, and records the calls.
type stubWorld struct{ asked []string }

func (w *stubWorld) Resource(id, version string) (*Object, error) {
	w.asked = append(w.asked, lastOf(id))
	if strings.HasSuffix(id, "/none") {
		return nil, fmt.Errorf("ResourceNotFound: there is none")
	}
	doc, err := Parse("",
		[]byte(`{"id": "`+id+
			`", "location": "westeurope", "tenantId": "t", "properties": {"x": "of `+lastOf(id)+
			`", "outputs": {"o": {"value": 1}}}}`))
	o, _ := doc.(*Object)
	return o, err
}

func (w *stubWorld) List(function, id, version string, body any) (any, error) {
	return function + " " + lastOf(id), nil
}
func (w *stubWorld) NewGUID() string { return "guid" }
func (w *stubWorld) Now() time.Time  { return time.Date(2026, 11, 22, 10, 30, 5, 0, time.UTC) }

func prepared(t *testing.T, rest string) (*Deployment, *stubWorld, error) {
	t.Helper()
	doc, err := Parse("t.json", []byte(`{`+rgSchema+`, `+rest+`}`))
	if err != nil {
		t.Fatal(err)
	}
	w := &stubWorld{}
	d, err := Prepare(doc.(*Object), nil,
		Options{Subscription: "s", ResourceGroup: "g", DeploymentName: "d"}, w)
	return d, w, err
}

// TestDeployFunctions evaluates functions that only a deployment knows, in outputs.
func TestDeployFunctions(t *testing.T) {
	for expression, want := range map[string]string{
		`resourceGroup().location`: `"westeurope"`,
		`subscription().tenantId`:  `"t"`,
		`tenant().tenantId`:        `"t"`,
		`deployment().name`:        `"d"`,
		`parameters('now')`:        `"2026-11-22 10:30"`,
		`parameters('id')`:         `"guid"`,
		`reference('a').x`:         `"of a"`,
		`reference(resourceId('A/b', 'other'), '2020-01-01').x`:                     `"of other"`,
		`reference('a', '2020-01-01', 'Full').location`:                             `"westeurope"`,
		`listKeys('a', '2020-01-01')`:                                               `"listKeys a"`,
		`tryGet(reference('a'), 'nothing')`:                                         `null`,
		`if(true(), 1, reference(resourceId('A/b', 'none'), '2020-01-01'))`:         `1`,
		`map(range(0, 2), lambda('i', reference(concat('a', ''), '2020-01-01').x))`: `["of a","of a"]`,
		`uri('http://contoso.org/firstpath/', 'nested/x.json')`:                     `"http://contoso.org/firstpath/nested/x.json"`,
		// An unknown value is an error, and never omitted.
		`reference(resourceId('A/b', 'none'), '2020-01-01').x`: "! ResourceNotFound",
		`reference(resourceId('A/b', 'other')).x`:              "! name an API version",
		`reference('nothing').x`: "! neither a resource of the " +
			"template",
		`reference('a').nothing`:                "! there is no member nothing",
		`newGuid()`:                             "! default value of a parameter",
		`environment().name`:                    "! environment()",
		`dateTimeAdd(parameters('now'), 'P1D')`: "! dateTimeAdd()",
		`groupBy(createArray('a'), lambda('x', lambdaVariables('x'))).a`: "! groupBy()",
		`fantasy('x')`: "! fantasy",
	} {
		d, _, err := prepared(t,
			`"parameters": {"now": {"type": "string", "defaultValue": "[utcNow('yyyy-MM-dd HH:mm')]"}, "id": {"type": "string", "defaultValue": "[newGuid()]"}},
  "resources": [{"type": "A/b", "apiVersion": "2020-01-01", "name": "a"}], "outputs": {"o": {"type": "object", "value": "[`+expression+`]"}}`)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		outputs, err := d.Outputs()
		got := ""
		if err != nil {
			got = "! " + err.Error()
		} else {
			got = string(JSON(outputs.Object("o").Get("value")))
		}
		if rest, wrong := strings.CutPrefix(want, "! "); got != want &&
			!(wrong && strings.HasPrefix(got, "! ") && strings.Contains(got, rest)) {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
}

// TestDeployOrder finds the dependencies, and reads no state too early.
func TestDeployOrder(t *testing.T) {
	d, w, err := prepared(t, `"resources": [
  {"type": "A/b", "apiVersion": "1", "name": "last", "dependsOn": ["[resourceId('A/b', 'named')]", "loop"], "properties": {"x": "[reference('implied').x]", "y": "[if(equals(reference('other').x, 1), reference('branch').x, 2)]"}},
  {"type": "A/b", "apiVersion": "1", "name": "named"}, {"type": "A/b", "apiVersion": "1", "name": "implied"}, {"type": "A/b", "apiVersion": "1", "name": "other"}, {"type": "A/b", "apiVersion": "1", "name": "branch"},
  {"type": "A/b", "apiVersion": "1", "name": "[concat('copy', copyIndex())]", "copy": {"name": "loop", "count": 2}},
  {"type": "Microsoft.Resources/deployments", "apiVersion": "1", "name": "nest", "properties": {"mode": "Incremental", "template": {`+rgSchema+`, "resources": [
    {"type": "A/b", "apiVersion": "1", "name": "inner", "properties": {"x": "[reference('named').x]"}}]}}}
]`)
	if err != nil {
		t.Fatal(err)
	}
	if len(w.asked) > 0 {
		t.Errorf("it asked for %v before anything was deployed", w.asked)
	}
	for _, r := range d.Resources() {
		var names []string
		for _, need := range d.Needs(r) {
			names = append(names, need.Name)
		}
		want := map[string]string{"last": "named copy0 copy1 implied other branch",
			"nest": "named"}[r.Name]
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s needs %q, want %q", r.Name, got, want)
		}
	}
	last := d.Resources()[0]
	if body, err := d.Planned(last); err != nil ||
		body.Object("properties").Text("x") != "[reference('implied').x]" {
		t.Errorf("planned: %s %v", JSON(body), err)
	}
	if body, err := d.Body(last); err != nil ||
		body.Object("properties").Text("x") != "of implied" {
		t.Errorf("its turn: %s %v", JSON(body), err)
	}
	nested, err := d.Nested(d.Resources()[7], false)
	if err != nil || len(nested.Resources()) != 1 {
		t.Fatalf("nested: %v", err)
	}
	if body, err := nested.Body(nested.Resources()[0]); err != nil ||
		body.Object("properties").Text("x") != "of named" {
		t.Errorf("nested: %s %v", JSON(body), err)
	}
}

// FuzzDeploy prepares anything, and deploys the result: it ends, with errors of one line.
func FuzzDeploy(f *testing.F) {
	f.Add([]byte(`{` + rgSchema +
		`, "parameters": {"p": {"type": "string", "defaultValue": "[newGuid()]"}}, "resources": [{"type": "A/b", "apiVersion": "1", "name": "[parameters('p')]", "copy": {"name": "c", "count": 2}, "properties": {"x": "[reference('y', '1').z]"}},
  {"type": "Microsoft.Resources/deployments", "apiVersion": "1", "name": "n", "properties": {"mode": "Incremental", "template": {` + rgSchema + `, "resources": []}}}], "outputs": {"o": {"type": "string", "value": "[utcNow()]"}}}`))
	f.Add([]byte(`{template: {` + rgSchema +
		`, "resources": {"a": {"type": "A/b", "name": "x", "dependsOn": ["a"]}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse("t.json", data)
		o, is := doc.(*Object)
		if err != nil || !is {
			return
		}
		check := func(err error) {
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
		}
		d, err := Prepare(o, nil, Options{Subscription: "s", ResourceGroup: "g"}, &stubWorld{})
		check(err)
		if err != nil {
			return
		}
		for _, r := range d.Resources() {
			_, err := d.Planned(r)
			check(err)
			_, err = d.Body(r)
			check(err)
			_, err = d.Nested(r, false)
			check(err)
		}
		_, err = d.Outputs()
		check(err)
	})
}

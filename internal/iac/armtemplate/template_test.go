package armtemplate

import (
	"fmt"
	"strings"
	"testing"
)

const rgSchema = `"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"`

func evaluate(t *testing.T, text string, o Options) *Result {
	t.Helper()
	doc, err := Parse("t.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Evaluate(doc.(*Object), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var here = Options{Subscription: "sub", ResourceGroup: "rg", Location: "westeurope",
	DeploymentName: "main"}

// TestResourceIDs has the forms that template-functions-resource gives for resourceId and related
// functions.
func TestResourceIDs(t *testing.T) {
	for expression, want := range map[string]string{
		`resourceId('Microsoft.Storage/storageAccounts','examplestorage')`:                                                "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/examplestorage",
		`resourceId('otherResourceGroup', 'Microsoft.Storage/storageAccounts','examplestorage')`:                          "/subscriptions/sub/resourceGroups/otherResourceGroup/providers/Microsoft.Storage/storageAccounts/examplestorage",
		`resourceId('xxxx', 'otherResourceGroup', 'Microsoft.Storage/storageAccounts','examplestorage')`:                  "/subscriptions/xxxx/resourceGroups/otherResourceGroup/providers/Microsoft.Storage/storageAccounts/examplestorage",
		`resourceId('Microsoft.SQL/servers/databases', 'serverName', 'databaseName')`:                                     "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.SQL/servers/serverName/databases/databaseName",
		`subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'abc')`:                                        "/subscriptions/sub/providers/Microsoft.Authorization/roleDefinitions/abc",
		`subscriptionResourceId('other', 'Microsoft.Authorization/roleDefinitions', 'abc')`:                               "/subscriptions/other/providers/Microsoft.Authorization/roleDefinitions/abc",
		`tenantResourceId('Microsoft.Authorization/policyDefinitions', 'abc')`:                                            "/providers/Microsoft.Authorization/policyDefinitions/abc",
		`managementGroupResourceId('mg', 'Microsoft.Authorization/policyDefinitions', 'abc')`:                             "/providers/Microsoft.Management/managementGroups/mg/providers/Microsoft.Authorization/policyDefinitions/abc",
		`extensionResourceId(resourceId('Microsoft.Storage/storageAccounts', 'a'), 'Microsoft.Authorization/locks', 'l')`: "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/a/providers/Microsoft.Authorization/locks/l",
		`resourceGroup().id`:                          "/subscriptions/sub/resourceGroups/rg",
		`resourceGroup().location`:                    "westeurope",
		`subscription().id`:                           "/subscriptions/sub",
		`deployment().name`:                           "main",
		`concat('a', 'b').length`:                     "",
		`format('{0:D3}-{1:000}-{{x}}', 7, 5)`:        "007-005-{x}",
		`format('{0} {1}', true(), createArray('a'))`: `True ["a"]`,
	} {
		r := evaluate(t, fmt.Sprintf(
			`{%s, "resources": [], "outputs": {"x": {"type": "string", "value": "[%s]"}}}`,
			rgSchema, expression), here)
		if got := r.Outputs.Object("x").Text("value"); got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}

// TestEscapes: which texts are expressions (template-expressions).
func TestEscapes(t *testing.T) {
	r := evaluate(t, `{`+rgSchema+`, "resources": [], "outputs": {
		"literal": {"value": "[[test value]"}, "open": {"value": "[test] value"}, "quote": {"value": "[concat('it''s', ' \"', '[x]')]"}, "spaces": {"value": "[ concat( 'a' ,\n 'b' ) ]"},
		"lines": {"value": "a
b"}}}`, here)
	for name, want := range map[string]string{"literal": "[test value]", "open": "[test] value",
		"quote": `it's "[x]`, "spaces": "ab", "lines": "a\nb"} {
		if got := r.Outputs.Object(name).Text("value"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestUnknown: an unknown value makes everything that depends on it unknown, and nothing else.
func TestUnknown(t *testing.T) {
	const parameters = `"parameters": {"name": {"type": "string"}, "on": {"type": "bool"}, "list": {"type": "array"}}`
	for expression, want := range map[string]string{
		`parameters('name')`:                                              "{name}",
		`concat(parameters('name'), '-rt')`:                               "{name}-rt",
		`format('{0}-{1}', 'a', parameters('name'))`:                      "a-{name}",
		`toLower(concat('A', parameters('name')))`:                        "a{name}",
		`resourceId('A/b', parameters('name'))`:                           "/subscriptions/{subscription}/resourceGroups/{resource-group}/providers/A/b/{name}",
		`equals(parameters('name'), 'a')`:                                 "?",
		`equals(parameters('name'), parameters('name'))`:                  "true",
		`equals(createArray(1, parameters('name')), createArray(2, 'a'))`: "false",
		`and(parameters('on'), false())`:                                  "false",
		`and(parameters('on'), true())`:                                   "?",
		`or(parameters('on'), true())`:                                    "true",
		`not(parameters('on'))`:                                           "?",
		`if(parameters('on'), 'a', 'b')`:                                  "?",
		`if(parameters('on'), 'a', 'a')`:                                  "a",
		`if(true(), 'a', parameters('list')[0])`:                          "a",
		`coalesce(null(), 'a', parameters('list'))`:                       "a",
		`coalesce(parameters('on'), 'a')`:                                 "?",
		`empty(parameters('name'))`:                                       "?",
		`empty(concat('a', parameters('name')))`:                          "false",
		`length(parameters('name'))`:                                      "?",
		`length(createArray(parameters('name')))`:                         "1",
		`contains(createArray('a', parameters('name')), 'a')`:             "true",
		`contains(createArray('b', parameters('name')), 'a')`:             "?",
		`createObject('a', parameters('list')).a`:                         "?",
		`createObject('a', parameters('list'), 'b', 'c').b`:               "c",
		`parameters('list')[0].name`:                                      "?",
		`listKeys('x', '2020-01-01').keys[0]`:                             "?",
		`reference(resourceId('A/b', 'c')).d`:                             "?",
		`environment().suffixes.storage`:                                  "?",
		`guid(resourceGroup().id)`:                                        "{guid-",
		`guid('a', 'b')`:                                                  "2d796349-",
		`uniqueString(resourceGroup().id)`:                                "{uniqueString-",
	} {
		r := evaluate(t, fmt.Sprintf(
			`{%s, %s, "resources": [], "outputs": {"x": {"type": "string", "value": "[%s]"}}}`,
			rgSchema, parameters, expression), Options{})
		got := ""
		switch v := r.Outputs.Object("x").Get("value").(type) {
		case *Unknown:
			got = "?"
		case bool, int64, string, Opaque:
			got = fmt.Sprint(v)
		}
		if got != want && !(strings.HasSuffix(want, "-") && strings.HasPrefix(got, want)) {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
		for _, n := range r.Notes {
			if !strings.Contains(n.Text, "has no value") {
				t.Errorf("%s: %+v", expression, n)
			}
		}
	}
}

// lines formats resources as their IDs with a value each.
func lines(r *Result) string {
	var b strings.Builder
	for _, res := range r.Resources {
		maybe := ""
		if res.Maybe != nil {
			maybe = " maybe"
		}
		fmt.Fprintf(&b, "%s %s%s %s\n", res.ID, res.Address, maybe,
			res.Body.Object("properties").Text("v"))
	}
	return b.String()
}

// TestNestedScopes: expressions of a nested template are evaluated in the outer scope unless it
// says inner (linked-templates). Resources go to the scope of the deployment.
func TestNestedScopes(t *testing.T) {
	nested := func(scope, more string) string {
		return `{` + rgSchema +
			`, "variables": {"v": "outer"}, "resources": [{"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "n", "resourceGroup": "other", "properties": {` + scope + `"mode": "Incremental", "template": {` + rgSchema + `, "variables": {"v": "inner"},
			"resources": [{"type": "A/b", "apiVersion": "1", "name": "c", "properties": {"v": "[concat(variables('v'), ' ', resourceGroup().name)]"}}]` + more + `}}}]}`
	}
	const deployment = "/subscriptions/sub/resourceGroups/other/providers/Microsoft.Resources/deployments/n resources[0] \n"
	const b = "/subscriptions/sub/resourceGroups/other/providers/A/b/c " +
		"resources[0].properties.template.resources[0] "
	for scope, want := range map[string]string{
		``: deployment + b + "outer rg\n",
		`"expressionEvaluationOptions": {"scope": "outer"}, `: deployment + b + "outer rg\n",
		`"expressionEvaluationOptions": {"scope": "inner"}, `: deployment + b + "inner other\n",
	} {
		if got := lines(evaluate(t, nested(scope, ""), here)); got != want {
			t.Errorf("%s:\n%swant\n%s", scope, got, want)
		}
	}
	r := evaluate(t, `{`+rgSchema+
		`, "resources": [{"type": "Microsoft.Resources/deployments", "apiVersion": "1", "name": "n", "properties": {"templateLink": {"uri": "https://x/y.json"}}}]}`, here)
	if len(r.Notes) != 1 || !r.Notes[0].Unknown ||
		!strings.Contains(r.Notes[0].Text, "linked template https://x/y.json") {
		t.Errorf("%+v", r.Notes)
	}
	// A subscription's template: groups, and deployments into them.
	r = evaluate(t, `{"$schema": "https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentTemplate.json#", "resources": [
		{"type": "Microsoft.Resources/resourceGroups", "apiVersion": "1", "name": "g", "location": "x"},
		{"type": "Microsoft.Resources/deployments", "apiVersion": "1", "name": "n", "resourceGroup": "g", "properties": {"expressionEvaluationOptions": {"scope": "inner"}, "template": {`+rgSchema+`, "resources": [{"type": "A/b", "apiVersion": "1", "name": "c", "properties": {"v": "[resourceGroup().name]"}}]}}}]}`, here)
	if got, want := lines(r), "/subscriptions/sub/resourceGroups/g resources[0] "+
		"\n/subscriptions/sub/resourceGroups/g/providers/Microsoft.Resources/deployments/n "+
		"resources[1] \n/subscriptions/sub/resourceGroups/g/providers/A/b/c "+
		"resources[1].properties.template.resources[0] g\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestResources(t *testing.T) {
	base := "/subscriptions/sub/resourceGroups/rg/providers/"
	for name, tt := range map[string]struct{ resources, want string }{
		"copies": {
			`[{"copy": {"name": "c", "count": 2}, "type": "A/b", "apiVersion": "1", "name": "[concat('n', copyIndex(1))]", "properties": {"v": "[string(copyIndex('c'))]"}}]`, base + "A/b/n1 resources[0][0] 0\n" + base + "A/b/n2 resources[0][1] 1\n"},
		"no copies": {
			`[{"copy": {"name": "c", "count": 0}, "type": "A/b", "apiVersion": "1", "name": "n"}]`,
			""},
		"false condition": {
			`[{"condition": false, "type": "A/b", "apiVersion": "1", "name": "n", "resources": [{"type": "c", "apiVersion": "1", "name": "m"}]}]`, base + "A/b/n/c/m resources[0].resources[0] \n"},
		"condition not known": {
			`[{"condition": "[reference('x').y]", "type": "A/b", "apiVersion": "1", "name": "n"}]`,
			base + "A/b/n resources[0] maybe \n"},
		"symbols": {
			`{"a": {"existing": true, "type": "A/b", "apiVersion": "1", "name": "n"}, "c": {"type": "A/b", "apiVersion": "1", "name": "m", "properties": {"v": "[resourceInfo('a').id]"}}}`, base + "A/b/n resources.a \n" + base + "A/b/m resources.c " + base + "A/b/n\n"},
		"reference": {
			`[{"type": "A/b", "apiVersion": "1", "name": "n", "properties": {"v": "[reference(resourceId('A/b', 'm')).v]"}}, {"type": "A/b", "apiVersion": "1", "name": "m", "properties": {"v": "x"}}]`, base + "A/b/n resources[0] x\n" + base + "A/b/m resources[1] x\n"},
		"extension": {
			`[{"scope": "[resourceId('A/b', 'n')]", "type": "Microsoft.Authorization/locks", "apiVersion": "1", "name": "l"}, {"scope": "A/b/n", "type": "Microsoft.Authorization/locks", "apiVersion": "1", "name": "m"}]`, base + "A/b/n/providers/Microsoft.Authorization/locks/l resources[0] \n" + base + "A/b/n/providers/Microsoft.Authorization/locks/m resources[1] \n"},
		"no name": {
			`[{"type": "A/b", "apiVersion": "1", "name": "[reference('x').y]"}]`, base +
				"A/b/{resources[0]} resources[0] \n"},
		"another extension": {
			`{"a": {"import": "kubernetes", "type": "core/Pod@v1", "properties": {}}}`, ""},
	} {
		r := evaluate(t, `{`+rgSchema+`, "resources": `+tt.resources+`}`, here)
		if got := lines(r); got != tt.want {
			t.Errorf("%s:\n%swant\n%s", name, got, tt.want)
		}
	}
	// References to itself are noted.
	r := evaluate(t, `{`+rgSchema+
		`, "resources": [{"type": "A/b", "apiVersion": "1", "name": "n", "properties": {"v": "[reference('n').v]"}}]}`, here)
	if len(r.Notes) != 1 || !r.Notes[0].Unknown {
		t.Errorf("%+v", r.Notes)
	}
}

func FuzzExpression(f *testing.F) {
	for _, s := range []string{"concat('a', 'b')", "parameters('x')[0].y", "format('{0:D2}', 1)",
		"map(range(0, 3), lambda('i', lambdaVariables('i')))", "ns.f(1)", "'it''s'",
		"cidrSubnet('10.0.0.0/8', 16, 1)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		r := &run{parsed: map[string]expression{}, noted: map[string]bool{}}
		x := &scope{d: &deployment{run: r, template: &Object{},
			at: target{subscription: "s", group: "g"}}}
		defer func() {
			if p := recover(); p != nil {
				if _, is := p.(limit); !is {
					panic(p)
				}
			}
		}()
		v := x.text("[" + source + "]")
		x.json(v)
		for _, n := range r.notes {
			if strings.Contains(n.Text, "\n") {
				t.Errorf("%q", n.Text)
			}
		}
	})
}

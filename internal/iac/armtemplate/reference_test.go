package armtemplate

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

const (
	// The parameters and variables of the examples, from Microsoft's pages.
	exampleParameters = `{
  "stringToTest": {"type": "string", "defaultValue": "OneTwoThree"},
  "objectToTest": {"type": "object", "defaultValue": {"one": "a", "two": "b", "three": "c"}},
  "arrayToTest": {"type": "array", "defaultValue": ["one", "two", "three"]},
  "coalesced": {"type": "object", "defaultValue": {"null1": null, "null2": null, "string": "default", "int": 1, "object": {"first": "default"}, "array": [1]}}
}`
	exampleVariables = `{
  "copy": [
    {"name": "itemForLoop", "count": "[length(range(0, 10))]", "input": "[range(0, 10)[copyIndex('itemForLoop')]]"},
    {"name": "modifiedListOfEntities", "count": "[length(items(variables('entities')))]", "input": {
      "key": "[items(variables('entities'))[copyIndex('modifiedListOfEntities')].key]",
      "fullName": "[items(variables('entities'))[copyIndex('modifiedListOfEntities')].value.displayName]",
      "itemEnabled": "[items(variables('entities'))[copyIndex('modifiedListOfEntities')].value.enabled]"}}
  ],
  "entities": {
    "item002": {"enabled": false, "displayName": "Example item 2", "number": 200},
    "item001": {"enabled": true, "displayName": "Example item 1", "number": 300}
  },
  "dogs": [
    {"name": "Evie", "age": 5, "interests": ["Ball", "Frisbee"]},
    {"name": "Casper", "age": 3, "interests": ["Other dogs"]},
    {"name": "Indy", "age": 2, "interests": ["Butter"]},
    {"name": "Kira", "age": 8, "interests": ["Rubs"]}
  ],
  "ages": "[map(variables('dogs'), lambda('dog', lambdaVariables('dog').age))]",
  "firstObject": {"property": {"one": "a", "two": "b", "three": "c1"}, "nestedArray": [1, 2]},
  "secondObject": {"property": {"three": "c2", "four": "d", "five": "e"}, "nestedArray": [3, 4]},
  "firstArray": [["one", "two"], ["three"]],
  "secondArray": [["three"], ["four", "two"]]
}`
)

// outputs evaluates a template of outputs only.
func outputs(t *testing.T, parameters, variables, list string) (*Object, []Note) {
	t.Helper()
	doc, err := Parse("t.json",
		[]byte(`{"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", "parameters": `+parameters+`, "variables": `+variables+`, "resources": [], "outputs": `+list+`}`))
	if err != nil {
		t.Fatal(err)
	}
	result, err := Evaluate(doc.(*Object), nil,
		Options{Subscription: "00000000-0000-0000-0000-000000000000", ResourceGroup: "my-rg"})
	if err != nil {
		t.Fatal(err)
	}
	return result.Outputs, result.Notes
}

// one evaluates one expression with the examples' parameters and variables.
func one(t *testing.T, expression string) (any, []Note) {
	t.Helper()
	text, _ := json.Marshal(expression)
	o, notes := outputs(t, exampleParameters, exampleVariables,
		`{"x": {"type": "object", "value": `+string(text)+`}}`)
	return o.Object("x").Get("value"), notes
}

// plain is a value as encoding/json decodes it.
func plain(t *testing.T, v any) any {
	t.Helper()
	x := &scope{d: &deployment{run: &run{}}}
	var out any
	if err := json.Unmarshal([]byte(x.json(v)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFunctionReference has the examples of Microsoft's reference with their results. Each line of
// the table is the page, one of
// learn.microsoft.com/azure/azure-resource-manager/templates/template-functions-<page> as of 2024,
// the expression and the result.
func TestFunctionReference(t *testing.T) {
	for _, tt := range []struct{ page, expression, want string }{
		{"array", `[array(1)]`, `[1]`},
		{"array", `[array('efgh')]`, `["efgh"]`},
		{"array", `[array(createObject('a', 'b', 'c', 'd'))]`, `[{"a": "b", "c": "d"}]`},
		{"array", `[concat(createArray('1-1', '1-2', '1-3'), createArray('2-1', '2-2', '2-3'))]`,
			`["1-1", "1-2", "1-3", "2-1", "2-2", "2-3"]`},
		{"array", `[contains(parameters('stringToTest'), 'e')]`, `true`},
		{"array", `[contains(parameters('stringToTest'), 'z')]`, `false`},
		{"array", `[contains(parameters('objectToTest'), 'one')]`, `true`},
		{"array", `[contains(parameters('objectToTest'), 'a')]`, `false`},
		{"array", `[contains(parameters('arrayToTest'), 'three')]`, `true`},
		{"array", `[contains(parameters('arrayToTest'), 'four')]`, `false`},
		{"array", `[createArray('a', 'b', 'c')]`, `["a", "b", "c"]`},
		{"array", `[createArray(1, 2, 3)]`, `[1, 2, 3]`},
		{"array", `[createArray(parameters('objectToTest'))]`,
			`[{"one": "a", "two": "b", "three": "c"}]`},
		{"array", `[createArray(parameters('arrayToTest'))]`, `[["one", "two", "three"]]`},
		{"array", `[createArray()]`, `[]`},
		{"array", `[empty(createArray())]`, `true`},
		{"array", `[empty(createObject())]`, `true`},
		{"array", `[empty('')]`, `true`},
		{"array", `[first(parameters('arrayToTest'))]`, `"one"`},
		{"array", `[first('One Two Three')]`, `"O"`},
		{"array", `[last(parameters('arrayToTest'))]`, `"three"`},
		{"array", `[last('One Two Three')]`, `"e"`},
		{"array", `[length(parameters('arrayToTest'))]`, `3`},
		{"array", `[length('One Two Three')]`, `13`},
		{"array", `[length(createObject('propA', 'one', 'propB', 'two', 'propC', 'three', 'propD', createObject('propD-1', 'sub', 'propD-2', 'sub')))]`, `4`},
		{"array", `[max(createArray(0, 3, 2, 5, 4))]`, `5`},
		{"array", `[max(0,3,2,5,4)]`, `5`},
		{"array", `[min(createArray(0, 3, 2, 5, 4))]`, `0`},
		{"array", `[min(0,3,2,5,4)]`, `0`},
		{"array", `[range(5, 3)]`, `[5, 6, 7]`},
		{"array", `[skip(parameters('arrayToTest'), 2)]`, `["three"]`},
		{"array", `[skip('one two three', 4)]`, `"two three"`},
		{"array", `[take(parameters('arrayToTest'), 2)]`, `["one", "two"]`},
		{"array", `[take('one two three', 2)]`, `"on"`},
		{"array", `[union(createObject('one', 'a', 'two', 'b', 'three', 'c1'), createObject('three', 'c2', 'four', 'd', 'five', 'e'))]`, `{"one": "a", "two": "b", "three": "c2", "four": "d", "five": "e"}`},
		{"array", `[union(parameters('arrayToTest'), createArray('three', 'four'))]`,
			`["one", "two", "three", "four"]`},

		{"object", `[union(variables('firstObject'), variables('secondObject'))]`,
			`{"property":{"one":"a","two":"b","three":"c2","four":"d","five":"e"},"nestedArray":[3,4]}`},
		{"object", `[union(variables('firstArray'), variables('secondArray'))]`,
			`[["one","two"],["three"],["four","two"]]`},
		{"object", `[createObject('intProp', 1, 'stringProp', 'abc', 'boolProp', true(), 'arrayProp', createArray('a', 'b', 'c'), 'objectProp', createObject('key1', 'value1'))]`, `{"intProp": 1, "stringProp": "abc", "boolProp": true, "arrayProp": ["a", "b", "c"], "objectProp": {"key1": "value1"}}`},
		{"object", `[items(variables('entities'))]`,
			`[{"key": "item001", "value": {"displayName": "Example item 1", "enabled": true, "number": 300}}, {"key": "item002", "value": {"displayName": "Example item 2", "enabled": false, "number": 200}}]`},
		{"object", `[variables('modifiedListOfEntities')]`,
			`[{"fullName": "Example item 1", "itemEnabled": true, "key": "item001"}, {"fullName": "Example item 2", "itemEnabled": false, "key": "item002"}]`},
		{"object", `[empty(json('null'))]`, `true`},
		{"object", `[json('{"a": "b"}')]`, `{"a": "b"}`},
		{"object", `[json('"test"')]`, `"test"`},
		{"object", `[json('true')]`, `true`},
		{"object", `[json('3')]`, `3`},
		{"object", `[json(concat('{"a": "', 'demo value', '"}'))]`, `{"a": "demo value"}`},
		{"object", `[empty(null())]`, `true`},

		{"string", `[base64('one, two, three')]`, `"b25lLCB0d28sIHRocmVl"`},
		{"string", `[base64ToString('b25lLCB0d28sIHRocmVl')]`, `"one, two, three"`},
		{"string", `[base64ToJson(base64('{''one'': ''a'', ''two'': ''b''}'))]`,
			`{"one": "a", "two": "b"}`},
		{"string", `[startsWith('abcdef', 'ab')]`, `true`},
		{"string", `[startsWith('abcdef', 'A')]`, `true`},
		{"string", `[startsWith('abcdef', 'e')]`, `false`},
		{"string", `[endsWith('abcdef', 'ef')]`, `true`},
		{"string", `[endsWith('abcdef', 'F')]`, `true`},
		{"string", `[endsWith('abcdef', 'e')]`, `false`},
		{"string", `[format('{0}, {1}. Formatted number: {2:N0}', 'Hello', 'User', 8175133)]`,
			`"Hello, User. Formatted number: 8,175,133"`},
		{"string", `[indexOf('test', 't')]`, `0`},
		{"string", `[lastIndexOf('test', 't')]`, `3`},
		{"string", `[indexOf('abcdef', 'CD')]`, `2`},
		{"string", `[lastIndexOf('abcdef', 'AB')]`, `0`},
		{"string", `[indexOf('abcdef', 'z')]`, `-1`},
		{"string", `[padLeft('123', 10, '0')]`, `"0000000123"`},
		{"string", `[replace('123-123-1234', '-', '')]`, `"1231231234"`},
		{"string", `[replace('123-123-1234', '1234', 'xxxx')]`, `"123-123-xxxx"`},
		{"string", `[split('one,two,three', ',')]`, `["one", "two", "three"]`},
		{"string", `[split('one;two,three', createArray(',', ';'))]`, `["one", "two", "three"]`},
		{"string", `[string(createObject('valueA', 10, 'valueB', 'Example Text'))]`,
			`"{\"valueA\":10,\"valueB\":\"Example Text\"}"`},
		{"string", `[string(createArray('a', 'b', 'c'))]`, `"[\"a\",\"b\",\"c\"]"`},
		{"string", `[string(5)]`, `"5"`},
		{"string", `[substring('one two three', 4, 3)]`, `"two"`},
		{"string", `[toLower('One Two Three')]`, `"one two three"`},
		{"string", `[toUpper('One Two Three')]`, `"ONE TWO THREE"`},
		{"string", `[trim('    one two three   ')]`, `"one two three"`},

		{"numeric", `[add(5, 3)]`, `8`},
		{"numeric", `[div(8, 3)]`, `2`},
		{"numeric", `[int('4')]`, `4`},
		{"numeric", `[mod(7, 3)]`, `1`},
		{"numeric", `[mul(5, 3)]`, `15`},
		{"numeric", `[sub(7, 3)]`, `4`},

		{"comparison", `[coalesce(parameters('coalesced').null1, parameters('coalesced').null2, parameters('coalesced').string)]`, `"default"`},
		{"comparison", `[coalesce(parameters('coalesced').null1, parameters('coalesced').null2, parameters('coalesced').int)]`, `1`},
		{"comparison", `[coalesce(parameters('coalesced').null1, parameters('coalesced').null2, parameters('coalesced').object)]`, `{"first": "default"}`},
		{"comparison", `[coalesce(parameters('coalesced').null1, parameters('coalesced').null2, parameters('coalesced').array)]`, `[1]`},
		{"comparison", `[empty(coalesce(parameters('coalesced').null1, parameters('coalesced').null2))]`, `true`},
		{"comparison", `[equals(1, 1)]`, `true`},
		{"comparison", `[equals('a', 'a')]`, `true`},
		{"comparison", `[equals(createArray('a', 'b'), createArray('a', 'b'))]`, `true`},
		{"comparison", `[equals(createObject('a', 'b'), createObject('a', 'b'))]`, `true`},
		{"comparison", `[not(equals(1, 2))]`, `true`},
		{"comparison", `[greater(1, 2)]`, `false`},
		{"comparison", `[greater('A', 'a')]`, `true`},
		{"comparison", `[greaterOrEquals(1, 2)]`, `false`},
		{"comparison", `[greaterOrEquals('A', 'a')]`, `true`},
		{"comparison", `[less(1, 2)]`, `true`},
		{"comparison", `[less('A', 'a')]`, `false`},
		{"comparison", `[lessOrEquals(1, 2)]`, `true`},
		{"comparison", `[lessOrEquals('A', 'a')]`, `false`},

		{"cidr", `[parseCidr('10.144.0.0/20')]`,
			`{"network":"10.144.0.0", "netmask":"255.255.240.0", "broadcast":"10.144.15.255", "firstUsable":"10.144.0.1", "lastUsable":"10.144.15.254", "cidr":20}`},
		{"cidr", `[parseCidr('fdad:3236:5555::/48')]`,
			`{"network":"fdad:3236:5555::", "netmask":"ffff:ffff:ffff::", "firstUsable":"fdad:3236:5555::", "lastUsable":"fdad:3236:5555:ffff:ffff:ffff:ffff:ffff", "cidr":48}`},
		{"cidr", `[map(range(0, 5), lambda('i', cidrSubnet('10.144.0.0/20', 24, lambdaVariables('i'))))]`, `["10.144.0.0/24", "10.144.1.0/24", "10.144.2.0/24", "10.144.3.0/24", "10.144.4.0/24"]`},
		{"cidr", `[map(range(0, 5), lambda('i', cidrSubnet('fdad:3236:5555::/48', 52, lambdaVariables('i'))))]`, `["fdad:3236:5555::/52", "fdad:3236:5555:1000::/52", "fdad:3236:5555:2000::/52", "fdad:3236:5555:3000::/52", "fdad:3236:5555:4000::/52"]`},
		{"cidr", `[map(range(0, 5), lambda('i', cidrHost('10.144.3.0/24', lambdaVariables('i'))))]`,
			`["10.144.3.1", "10.144.3.2", "10.144.3.3", "10.144.3.4", "10.144.3.5"]`},
		{"cidr", `[map(range(0, 5), lambda('i', cidrHost('fdad:3236:5555:3000::/52', lambdaVariables('i'))))]`, `["fdad:3236:5555:3000::1", "fdad:3236:5555:3000::2", "fdad:3236:5555:3000::3", "fdad:3236:5555:3000::4", "fdad:3236:5555:3000::5"]`},

		{"lambda", `[filter(variables('dogs'), lambda('dog', greaterOrEquals(lambdaVariables('dog').age, 5)))]`, `[{"name":"Evie","age":5,"interests":["Ball","Frisbee"]},{"name":"Kira","age":8,"interests":["Rubs"]}]`},
		{"lambda", `[filter(variables('itemForLoop'), lambda('i', greater(lambdaVariables('i'), 5)))]`, `[6, 7, 8, 9]`},
		{"lambda", `[filter(range(0, 10), lambda('i', equals(0, mod(lambdaVariables('i'), 2))))]`,
			`[0, 2, 4, 6, 8]`},
		{"lambda", `[map(variables('dogs'), lambda('dog', lambdaVariables('dog').name))]`,
			`["Evie","Casper","Indy","Kira"]`},
		{"lambda", `[map(variables('dogs'), lambda('dog', format('Hello {0}!', lambdaVariables('dog').name)))]`, `["Hello Evie!","Hello Casper!","Hello Indy!","Hello Kira!"]`},
		{"lambda", `[map(range(0, length(variables('dogs'))), lambda('i', createObject('i', lambdaVariables('i'), 'dog', variables('dogs')[lambdaVariables('i')].name, 'greeting', format('Ahoy, {0}!', variables('dogs')[lambdaVariables('i')].name))))]`, `[{"i":0,"dog":"Evie","greeting":"Ahoy, Evie!"},{"i":1,"dog":"Casper","greeting":"Ahoy, Casper!"},{"i":2,"dog":"Indy","greeting":"Ahoy, Indy!"},{"i":3,"dog":"Kira","greeting":"Ahoy, Kira!"}]`},
		{"lambda", `[reduce(variables('ages'), 0, lambda('cur', 'next', add(lambdaVariables('cur'), lambdaVariables('next'))))]`, `18`},
		{"lambda", `[reduce(variables('ages'), 1, lambda('cur', 'next', add(lambdaVariables('cur'), lambdaVariables('next'))))]`, `19`},
		{"lambda", `[reduce(createArray(createObject('foo', 123), createObject('bar', 456), createObject('baz', 789)), createObject(), lambda('cur', 'next', union(lambdaVariables('cur'), lambdaVariables('next'))))]`, `{"foo":123,"bar":456,"baz":789}`},
		{"lambda", `[map(sort(variables('dogs'), lambda('a', 'b', less(lambdaVariables('a').age, lambdaVariables('b').age))), lambda('d', lambdaVariables('d').name))]`, `["Indy", "Casper", "Evie", "Kira"]`},
		{"lambda", `[toObject(variables('dogs'), lambda('entry', lambdaVariables('entry').name), lambda('entry', lambdaVariables('entry').age))]`, `{"Evie": 5, "Casper": 3, "Indy": 2, "Kira": 8}`},

		// Bicep's announcement of newer functions: Azure/bicep#13658.
		{"bicep#13658", `[objectKeys(createObject('a', 1, 'b', 2))]`, `["a", "b"]`},
		{"bicep#13658", `[flatten(createArray(createArray(1), createArray(2, 3), createArray(4)))]`,
			`[1, 2, 3, 4]`},
	} {
		v, notes := one(t, tt.expression)
		var want any
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if got := plain(t, v); !reflect.DeepEqual(got, want) || len(notes) > 0 {
			t.Errorf("%s: %s is %v, want %s (%v)", tt.page, tt.expression, got, tt.want, notes)
		}
	}
}

// TestUniqueString has values from Azure: from a gist like
// github.com/maskati/23f329e7db43c00184143f04498e537c, from the tests of
// github.com/JasonWhall/go-azure-uniquestring and terraform-provider-arm2tf, and from
// stackoverflow.com/questions/43295720.
func TestUniqueString(t *testing.T) {
	for want, texts := range map[string][]string{
		"rbgf3xv4ufgzg": {"test"},
		"fsnwonksnm7cy": {"t"},
		"cgtzqvhu4i23s": {"abc"},
		"zcztcwvu6iyg6": {"tyeth"},
		"a7wkljktk6wne": {"hello", "world"},
		"xzi4ioaxtmth4": {"foo", "bar", "baz"},
		"bqgd334z2uj64": {"test", "test2", "test3"},
		"bmg7c6xu4tw46": {
			"/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/my-rg"},
	} {
		if got := uniqueString(texts...); got != want {
			t.Errorf("uniqueString%q is %s, want %s", texts, got, want)
		}
	}
	if got, _ := one(t, "[uniqueString(resourceGroup().id)]"); got != "bmg7c6xu4tw46" {
		t.Errorf("uniqueString(resourceGroup().id) is %v", got)
	}
}

// TestErrors checks that an expression that Azure refuses has a note with the reason, and an
// unknown value.
func TestErrors(t *testing.T) {
	for expression, want := range map[string]string{
		// template-functions-string, substring
		`[substring('1234567890', 0, 11)]`:   "must refer to a location within the string",
		`[parameters('nowhere')]`:            "no parameter nowhere",
		`[variables('nowhere')]`:             "no variable nowhere",
		`[createArray(1)[1]]`:                "no element 1 among 1",
		`[createObject('a', 1).b]`:           "no member b",
		`[format('{1}', 'a')]`:               "names none of the 1 values",
		`[concat('a', createArray())]`:       "not with an array",
		`[add(1, 'a')]`:                      "argument 2: expected an integer, not a string",
		`[div(1, 0)]`:                        "no result",
		`[mul(9223372036854775807, 2)]`:      "no result",
		`[cidrSubnet('10.0.0.0/24', 20, 0)]`: "no such part",
		`[wonder('a')]`:                      "the function wonder is not supported",
		`[toLower('a']`:                      ", or )",
		`[toLower('a)]`:                      "does not end",
		`[toLower('a', 'b')]`:                "number of arguments: 2",
		`[resourceId('Microsoft.Network/virtualNetworks', 'a', 'b')]`: "takes 1 names, not 2",
	} {
		v, notes := one(t, expression)
		if _, unknown := v.(*Unknown); !unknown || len(notes) != 1 || !notes[0].Unknown ||
			!strings.Contains(notes[0].Text, want) || strings.Contains(notes[0].Text, "\n") {
			t.Errorf("%s: %v %v, want unknown and %q", expression, v, notes, want)
		}
	}
}

package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/deployments"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const (
	deploymentScope = group + "/providers/Microsoft.Resources/deployments"
	deploymentAPI   = "2022-09-01"
	groupSchema     = `"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", "contentVersion": "1.0.0.0"`
	table           = `{"type": "Microsoft.Network/routeTables", "apiVersion": "2024-05-01", "name": "%s", "location": "[resourceGroup().location]", "properties": {}%s}`
)

// incremental is the body of a deployment.
func incremental(template string, parameters ...string) string {
	return `{"properties": {"mode": "Incremental", "template": ` + template + `, "parameters": {` +
		strings.Join(
			parameters,
			",",
		) + `}}}`
}

// deploys makes a deployment and returns it once it has ended.
func (b *bench) deploys(name, body string) kernel.Object {
	b.t.Helper()
	id := deploymentScope + arm.ID("/"+name)
	status, answer := b.c.Do(http.MethodPut, id, deploymentAPI, []byte(body))
	if status != http.StatusCreated ||
		!strings.Contains(string(answer), `"provisioningState":"Accepted"`) {
		b.t.Fatalf("PUT %s: %d %s", name, status, answer)
	}
	return b.ends(name)
}

func (b *bench) ends(name string) kernel.Object {
	b.t.Helper()
	for range 1000 {
		doc, err := b.c.Get(deploymentScope+arm.ID("/"+name), deploymentAPI)
		if err != nil {
			b.t.Fatal(err)
		}
		p := kernel.ObjectAt(doc, "properties")
		if state := kernel.Text(p, "provisioningState"); state != deployments.Accepted &&
			state != deployments.Running {
			if doc["run"] != nil || doc["source"] != nil {
				b.t.Error("the deployment shows what only the emulator needs")
			}
			return p
		}
		time.Sleep(time.Second)
	}
	b.t.Fatalf("%s does not end", name)
	return nil
}

func asJSON(v any) string { return string(kernel.Encode(v)) }

func (b *bench) is(id arm.ID) bool {
	status, _ := b.c.Do(http.MethodGet, id, api, nil)
	return status == http.StatusOK
}

func TestDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 4 * time.Second})
		p := b.deploys("all", incremental(`{`+groupSchema+`,
  "parameters": {"Names": {"type": "array"}, "password": {"type": "securestring", "defaultValue": "secret"}, "when": {"type": "string", "defaultValue": "[utcNow('yyyy')]"}, "id": {"type": "string", "defaultValue": "[newGuid()]"}},
  "variables": {"copy": [{"name": "upper", "count": "[length(parameters('Names'))]", "input": "[toUpper(parameters('Names')[copyIndex('upper')])]"}]},
  "resources": [
    {"type": "Microsoft.Network/virtualNetworks", "apiVersion": "2024-05-01", "name": "vnet", "location": "[resourceGroup().location]",
     "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}, "copy": [{"name": "subnets", "count": "[length(parameters('Names'))]", "input": {
       "name": "[parameters('Names')[copyIndex('subnets')]]", "properties": {"addressPrefix": "[cidrSubnet('10.0.0.0/16', 24, copyIndex('subnets'))]",
         "routeTable": {"id": "[reference(format('rt-{0}', copyIndex('subnets')), '2024-05-01', 'Full').id]"}}}}]}},
    {"type": "Microsoft.Network/routeTables", "apiVersion": "2024-05-01", "name": "[format('rt-{0}', copyIndex())]", "location": "[resourceGroup().location]", "copy": {"name": "tables", "count": 2},
     "properties": {"routes": "[if(equals(copyIndex(), 0), createArray(createObject('name', 'egress', 'properties', createObject('addressPrefix', '0.0.0.0/0', 'nextHopType', 'Internet'))), createArray())]"}},
    {"condition": false, "type": "Microsoft.Network/routeTables", "apiVersion": "2024-05-01", "name": "not", "location": "x", "properties": {}}
  ],
  "outputs": {"Subnets": {"type": "array", "copy": {"count": 2, "input": "[reference(resourceId('Microsoft.Network/virtualNetworks', 'vnet')).subnets[copyIndex()].properties.routeTable.id]"}},
    "upper": {"type": "array", "value": "[variables('upper')]"}, "who": {"type": "string", "value": "[deployer().objectId]"},
    "name": {"type": "string", "value": "[concat(deployment().name, '-', parameters('when'))]"}, "secret": {"type": "securestring", "value": "[parameters('password')]"}}
}`, `"Names": {"value": ["a", "b"]}`))
		if kernel.Text(p, "provisioningState") != deployments.Succeeded {
			t.Fatal(asJSON(p))
		}
		rts := group + "/providers/Microsoft.Network/routeTables/rt-"
		want := fmt.Sprintf(
			`{"name":{"type":"String","value":"all-%d"},"secret":{"type":"Securestring"},"subnets":{"type":"Array","value":["%s0","%s1"]},"upper":{"type":"Array","value":["A","B"]},"who":{"type":"String","value":"%s"}}`,
			time.Now().Year(),
			rts,
			rts,
			DefaultPrincipal.ObjectID,
		)
		if got := asJSON(p["outputs"]); got != want {
			t.Errorf("outputs\n got %s\nwant %s", got, want)
		}
		if parameters := asJSON(p["parameters"]); strings.Contains(parameters, "secret") ||
			!strings.Contains(parameters, `"names":{"type":"Array","value":["a","b"]}`) {
			t.Errorf("parameters %s", parameters)
		}
		if got, want := asJSON(p["outputResources"]), fmt.Sprintf(
			`[{"id":"%s0"},{"id":"%s1"},{"id":"%s"}]`, rts, rts, vnet); got != want {
			t.Errorf("it made %s, want %s", got, want)
		}
		if routes := kernel.ListAt(b.get(rts+"0"), "properties", "routes"); len(routes) != 1 ||
			b.is(group+"/providers/Microsoft.Network/routeTables/not") {
			t.Errorf("%v", routes)
		}
		if got := p["duration"]; got != "PT8S" { // the tables, then the network
			t.Errorf("it took %v", got)
		}
		var operations struct {
			Value []struct {
				Properties struct {
					ProvisioningOperation, ProvisioningState, StatusCode string
					TargetResource                                       struct{ ID string }
				}
			}
		}
		_, raw := b.c.Do(http.MethodGet, deploymentScope+"/all/operations", deploymentAPI, nil)
		if err := json.Unmarshal(raw, &operations); err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, o := range operations.Value {
			q := o.Properties
			said = append(
				said,
				strings.Join(
					[]string{
						q.ProvisioningOperation,
						q.ProvisioningState,
						q.StatusCode,
						arm.ID(q.TargetResource.ID).Name(),
					},
					" ",
				),
			)
		}
		if want := []string{"Create Succeeded Created vnet", "Create Succeeded Created rt-1",
			"Create Succeeded Created rt-0",
			"EvaluateDeploymentOutput Succeeded OK "}; !slices.Equal(
			said,
			want,
		) {
			t.Errorf("operations %q", said)
		}
	})
}

func TestNestedDeployments(t *testing.T) {
	b := newBench(t, Options{})
	other := arm.GroupID(sub, "other")
	b.put(other, `{"location":"northeurope"}`)
	nested := func(name, scope, where, needs string) string {
		return `{"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "` +
			name + `"` + where + needs + `, "properties": {"mode": "Incremental"` + scope + `,
  "template": {` + groupSchema +
			`, "parameters": {"tag": {"type": "string", "defaultValue": "inner"}}, "variables": {"v": "inner"}, "resources": [
    {"type": "Microsoft.Network/routeTables", "apiVersion": "2024-05-01", "name": "` + name +
			`", "location": "[resourceGroup().location]", "tags": {"tag": "[parameters('tag')]", "v": "[variables('v')]"}, "properties": {}}],
   "outputs": {"group": {"type": "string", "value": "[resourceGroup().name]"}}}}}`
	}
	p := b.deploys(
		"nest",
		incremental(
			`{`+groupSchema+`, "parameters": {"tag": {"type": "string", "defaultValue": "outer"}}, "variables": {"v": "outer"}, "resources": [`+
				nested(
					"deep",
					`, "expressionEvaluationOptions": {"scope": "inner"}, "parameters": {"tag": {"value": "[concat('given', reference('plain').outputs.group.value)]"}}`,
					`, "resourceGroup": "other"`,
					``,
				)+`,`+nested(
				"plain",
				``,
				``,
				``,
			)+`], "outputs": {"deep": {"type": "string", "value": "[reference('deep').outputs.group.value]"}}}`,
		),
	)
	if kernel.Text(p, "provisioningState") != deployments.Succeeded ||
		kernel.Text(p, "outputs", "deep", "value") != "other" {
		t.Fatal(asJSON(p))
	}
	for id, want := range map[arm.ID]string{
		group + "/providers/Microsoft.Network/routeTables/plain": `westeurope {"tag":"outer","v":"outer"}`,
		other + "/providers/Microsoft.Network/routeTables/deep":  `northeurope {"tag":"givennet-rg","v":"inner"}`,
	} {
		doc := b.get(id)
		if got := kernel.Text(doc, "location") + " " + asJSON(doc["tags"]); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	if doc, err := b.c.Get(other+"/providers/Microsoft.Resources/deployments/deep",
		deploymentAPI); err != nil ||
		kernel.Text(doc, "properties", "provisioningState") != deployments.Succeeded {
		t.Errorf("%v %v", doc, err)
	}
}

func TestDeploymentRefused(t *testing.T) {
	b := newBench(t, Options{})
	plain := func(rest string) string {
		return incremental(
			`{` + groupSchema + rest + `, "resources": [` + fmt.Sprintf(table, "t", "") + `]}`,
		)
	}
	many := func(list ...string) string {
		return incremental(`{` + groupSchema + `, "resources": [` + strings.Join(list, ",") + `]}`)
	}
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"complete": {strings.Replace(plain(""), "Incremental", "Complete", 1), 501,
			"CompleteModeNotSupported"},
		"no mode": {strings.Replace(plain(""), `"mode": "Incremental",`, "", 1), 400,
			"InvalidDeploymentMode"},
		"link": {
			`{"properties": {"mode": "Incremental", "templateLink": {"id": "/subscriptions/x/resourceGroups/y/providers/Microsoft.Resources/templateSpecs/z"}}}`, 501, "TemplateLinkNotSupported"},
		"no template": {`{"properties": {"mode": "Incremental"}}`, 400, "InvalidRequestContent"},
		"no JSON":     {`{"properties"`, 400, "InvalidRequestContent"},
		"no value":    {plain(`, "parameters": {"x": {"type": "string"}}`), 400, "InvalidTemplate"},
		"not allowed": {
			plain(`, "parameters": {"x": {"type": "string", "defaultValue": "a", "allowedValues": ["b"]}}`), 400, "InvalidTemplate"},
		"no such value": {strings.Replace(plain(``), `"parameters": {`,
			`"parameters": {"y": {"value": 1}`, 1), 400, "InvalidTemplate"},
		"wrong type": {plain(`, "parameters": {"x": {"type": "int", "defaultValue": "a"}}`),
			400, "InvalidTemplate"},
		"subscription": {strings.Replace(plain(""), "2019-04-01/deploymentTemplate",
			"2018-05-01/subscriptionDeploymentTemplate", 1), 400, "InvalidTemplate"},
		"no api version": {strings.Replace(plain(""), `"apiVersion": "2024-05-01", `, "", 1), 400,
			"InvalidTemplate"},
		"no such resource": {many(fmt.Sprintf(table, "t", `, "dependsOn": ["nothing"]`)), 400,
			"InvalidTemplate"},
		"a circle": {many(fmt.Sprintf(table, "t", `, "dependsOn": ["u"]`),
			fmt.Sprintf(table, "u", `, "dependsOn": ["t"]`)), 400, "InvalidTemplate"},
		"twice": {many(fmt.Sprintf(table, "t", ""), fmt.Sprintf(table, "T", "")), 400,
			"InvalidTemplate"},
		"later name": {many(fmt.Sprintf(table, "[reference('x').y]", "")), 400,
			"InvalidTemplate"},
		"now anywhere": {many(fmt.Sprintf(table, "[utcNow()]", "")), 400, "InvalidTemplate"},
		"unknown function": {many(fmt.Sprintf(table, "[pickZones('a', 'b', 'c')]", "")), 400,
			"InvalidTemplate"},
		"an option": {
			many(fmt.Sprintf(table, "t", `, "@options": {"retryOn": []}`)), 501,
			"ResourceOptionNotSupported",
		},
		"linked nested": {
			many(`{"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "n", "properties": {"mode": "Incremental", "templateLink": {"uri": "[uri(parameters('base'), 'x.json')]"}}}`),
			501, "TemplateLinkNotSupported"},
		"no group": {many(
			`{"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "n", "resourceGroup": "none", "properties": {"mode": "Incremental", "template": {` + groupSchema + `, "resources": [` + fmt.Sprintf(table, "t", "") + `]}}}`),
			404, "ResourceGroupNotFound"},
	} {
		for _, call := range []struct {
			method string
			id     arm.ID
		}{{http.MethodPut, deploymentScope + "/d"}, {http.MethodPost, deploymentScope +
			"/d/validate"}} {
			if status, code := b.try(call.method, call.id, deploymentAPI,
				c.body); status != c.status ||
				code != c.code {
				t.Errorf(
					"%s %s: %d %s, want %d %s",
					call.method,
					name,
					status,
					code,
					c.status,
					c.code,
				)
			}
		}
	}
	if b.is(group+"/providers/Microsoft.Network/routeTables/t") || b.is(deploymentScope+"/d") {
		t.Error("something was made")
	}
	b.refused(http.MethodGet, deploymentScope+"/d", "", 404, "DeploymentNotFound")
}

// TestDeploymentFails checks the result of a failure in the middle: resources that were made,
// and resources that do not depend on the failed one.
func TestDeploymentFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 2 * time.Second})
		if _, err := b.e.Inject(Fault{Method: "PUT", Path: "/routeTables/second$", Fail: true,
			Code: "InternalServerError", Message: "broken"}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.e.Inject(Fault{Method: "PUT", Path: "/routeTables/apart$", Status: 429,
			Code: "RetryableError", RetryAfter: 3}); err != nil {
			t.Fatal(err)
		}
		p := b.deploys(
			"fails",
			incremental(`{`+groupSchema+`, "resources": [`+strings.Join([]string{
				fmt.Sprintf(
					table,
					"first",
					"",
				), fmt.Sprintf(table, "second", `, "dependsOn": ["first"]`),
				fmt.Sprintf(
					table,
					"third",
					`, "dependsOn": ["second"]`,
				), fmt.Sprintf(table, "apart", ""),
			}, ",")+`]}`),
		)
		e := kernel.ObjectAt(p, "error")
		if kernel.Text(p, "provisioningState") != deployments.Failed ||
			kernel.Text(e, "code") != "DeploymentFailed" ||
			asJSON(e["details"]) != `[{"code":"InternalServerError","message":"broken"}]` ||
			p["outputs"] != nil {
			t.Errorf("%s", asJSON(p))
		}
		there := ""
		for _, name := range []string{"first", "second", "third", "apart"} {
			if id := group + "/providers/Microsoft.Network/routeTables/" + arm.ID(name); b.is(id) {
				there += name + " " + kernel.Text(b.get(id), "properties", "provisioningState") +
					"; "
			}
		}
		if there != "first Succeeded; second Failed; apart Succeeded; " {
			t.Errorf("it left %s", there)
		}
		_, raw := b.c.Do(http.MethodGet, deploymentScope+"/fails/operations", deploymentAPI, nil)
		if s := string(raw); strings.Count(s, `"provisioningState":"Succeeded"`) != 2 ||
			strings.Count(s, `"provisioningState":"Failed"`) != 1 ||
			!strings.Contains(s, `"statusMessage":{"error":{"code":"InternalServerError"`) {
			t.Errorf("operations %s", s)
		}
		// The second time it succeeds.
		if p := b.deploys("fails", incremental(`{`+groupSchema+`, "resources": [`+
			fmt.Sprintf(table, "second", "")+`]}`)); kernel.Text(
			p,
			"provisioningState",
		) != deployments.Succeeded {
			t.Errorf("%s", asJSON(p))
		}
	})
}

// TestSubscriptionDeployment makes a group, and deploys into it.
func TestSubscriptionDeployment(t *testing.T) {
	b := newBench(t, Options{})
	id := arm.ID("/subscriptions/" + sub + "/providers/Microsoft.Resources/deployments/top")
	template := `{"$schema": "https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentTemplate.json#",
  "contentVersion": "1.0.0.0", "resources": [
  {"type": "Microsoft.Resources/resourceGroups", "apiVersion": "2021-04-01", "name": "made", "location": "[deployment().location]"},
  {"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "into", "resourceGroup": "made", "dependsOn": ["made"],
   "properties": {"mode": "Incremental", "expressionEvaluationOptions": {"scope": "inner"},
    "template": {` + groupSchema + `, "resources": [` + fmt.Sprintf(table, "t", "") + `]}}}
]}`
	body := incremental(template)
	b.refused(http.MethodPut, id, body, 400, "LocationRequired")
	body = `{"location": "northeurope", ` + body[1:]
	if status, answer := b.c.Do(http.MethodPut, id, deploymentAPI, []byte(body)); status != 201 {
		t.Fatalf("%d %s", status, answer)
	}
	p := kernel.ObjectAt(b.get(id), "properties")
	made := b.get("/subscriptions/" + sub +
		"/resourceGroups/made/providers/Microsoft.Network/routeTables/t")
	if kernel.Text(p, "provisioningState") != deployments.Succeeded ||
		kernel.Text(made, "location") != "northeurope" {
		t.Errorf("%s %s", asJSON(p), asJSON(made))
	}
	// A deployment is deleted with its group, and its running operations with it.
	if status, _ := b.try(http.MethodDelete, arm.GroupID(sub, "made"), api, ""); status != 200 {
		t.Errorf("deleting the group: %d", status)
	}
	if len(b.e.deployments.Runs) != 1 {
		t.Errorf("%d deployments are left", len(b.e.deployments.Runs))
	}
}

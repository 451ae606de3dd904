package emulator

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/deployments"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

func TestDeploymentByRoles(t *testing.T) {
	guest := Principal{
		Name:     "guest",
		ClientID: "0a0a0000-0000-4000-8000-000000000009",
		ObjectID: "0b0b0000-0000-4000-8000-000000000009",
		Secret:   "s",
		NoRoles:  true,
	}
	e, err := New(Options{Principals: []Principal{DefaultPrincipal, guest}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	owner, err := e.Client(DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t, e, owner}
	b.put(group, `{"location":"westeurope"}`)
	as, err := e.Client(guest)
	if err != nil {
		t.Fatal(err)
	}
	body := incremental(`{` + groupSchema + `, "resources": [` + fmt.Sprintf(table, "t", "") + `]}`)
	grant := func(name string, actions string) {
		role := "/subscriptions/" + sub + "/providers/Microsoft.Authorization/roleDefinitions/" +
			name
		b.put(
			arm.ID(role),
			`{"properties": {"roleName": "`+name+`", "permissions": [{"actions": [`+actions+
				`]}], "assignableScopes": ["/subscriptions/`+sub+`"]}}`,
		)
		b.put(
			group+"/providers/Microsoft.Authorization/roleAssignments/"+arm.ID(name),
			`{"properties": {"roleDefinitionId": "`+role+`", "principalId": "`+guest.ObjectID+`"}}`,
		)
	}
	try := func() string {
		_, answer := as.Do(http.MethodPut, deploymentScope+"/d", deploymentAPI, []byte(body))
		return string(answer)
	}
	if got := try(); !strings.Contains(got, "AuthorizationFailed") ||
		!strings.Contains(got, "Microsoft.Resources/deployments/write") {
		t.Errorf("without rights: %s", got)
	}
	grant(
		"11111111-0000-4000-8000-000000000001",
		`"Microsoft.Resources/deployments/*", "Microsoft.Resources/subscriptions/resourceGroups/read"`,
	)
	if got := try(); !strings.Contains(got, "InvalidTemplateDeployment") || !strings.Contains(
		got,
		"Authorization failed for template resource 't' "+
			"of type 'Microsoft.Network/routeTables'",
	) {
		t.Errorf("with those of deployments alone: %s", got)
	}
	grant("11111111-0000-4000-8000-000000000002", `"Microsoft.Network/routeTables/*"`)
	if got := try(); !strings.Contains(got, `"Accepted"`) ||
		kernel.Text(b.ends("d"), "provisioningState") != deployments.Succeeded {
		t.Errorf("with both: %s", got)
	}
}

func TestDeploymentAgainstPolicy(t *testing.T) {
	b := newBench(t, Options{})
	definition := "/subscriptions/" + sub +
		"/providers/Microsoft.Authorization/policyDefinitions/tagged"
	b.put(
		arm.ID(definition),
		`{"properties": {"policyRule": {"if": {"allOf": [{"field": "type", "equals": "Microsoft.Network/routeTables"}, {"field": "tags.owner", "exists": "false"}]}, "then": {"effect": "deny"}}}}`,
	)
	b.put(
		group+"/providers/Microsoft.Authorization/policyAssignments/tagged",
		`{"properties": {"policyDefinitionId": "`+definition+`"}}`,
	)
	body := incremental(
		`{` + groupSchema + `, "resources": [` + fmt.Sprintf(
			table,
			"ok",
			`, "tags": {"owner": "me"}`,
		) + `,` + fmt.Sprintf(
			table,
			"not",
			"",
		) + `]}`,
	)
	_, answer := b.c.Do(http.MethodPut, deploymentScope+"/d", deploymentAPI, []byte(body))
	if s := string(answer); !strings.Contains(s, "InvalidTemplateDeployment") || !strings.Contains(
		s,
		`"details":[{"code":"RequestDisallowedByPolicy","message":"Resource 'not' was disallowed by policy`,
	) {
		t.Errorf("known before it begins: %s", s)
	}
	if b.is(group + "/providers/Microsoft.Network/routeTables/ok") {
		t.Error("something was made")
	}
	// An expression that is evaluated only in the middle fails there.
	later := `, "tags": "[if(equals(reference('ok', '2024-05-01', 'Full').location, 'westeurope'), createObject('x', 'y'), createObject('owner', 'me'))]"`
	p := b.deploys(
		"d",
		incremental(
			`{`+groupSchema+`, "resources": [`+fmt.Sprintf(
				table,
				"ok",
				`, "tags": {"owner": "me"}`,
			)+`,`+fmt.Sprintf(
				table,
				"not",
				later,
			)+`]}`,
		),
	)
	if s := asJSON(p["error"]); kernel.Text(p, "provisioningState") != deployments.Failed ||
		!strings.Contains(s, "RequestDisallowedByPolicy") ||
		!b.is(group+"/providers/Microsoft.Network/routeTables/ok") {
		t.Errorf("known in the middle: %s", s)
	}
	// A lock forbids the deployment's writes.
	b.put(rt, `{"location":"westeurope","tags":{"owner":"me"}}`)
	b.put(rt+"/providers/Microsoft.Authorization/locks/l", `{"properties": {"level": "ReadOnly"}}`)
	p = b.deploys(
		"d",
		incremental(
			`{`+groupSchema+`, "resources": [`+fmt.Sprintf(
				table,
				"rt",
				`, "tags": {"owner": "you"}`,
			)+`]}`,
		),
	)
	if s := asJSON(p["error"]); !strings.Contains(s, "ScopeLocked") {
		t.Errorf("a lock: %s", s)
	}
}

// TestDeploymentRestart ends the emulator in the middle of a nested deployment: in another one with
// its state, both deployments have failed, and what they made is there.
func TestDeploymentRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := Options{
			OperationTime: 10 * time.Second,
			StateFile:     filepath.Join(t.TempDir(), "state"),
		}
		b := newBench(t, options)
		body := incremental(
			`{` + groupSchema +
				`, "parameters": {"id": {"type": "string", "defaultValue": "[newGuid()]"}}, "resources": [` +
				fmt.Sprintf(
					table,
					"first",
					`, "tags": {"id": "[parameters('id')]"}`,
				) + `,
  {"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "inside", "dependsOn": ["first"], "properties": {"mode": "Incremental", "template": {` + groupSchema + `, "resources": [` +
				fmt.Sprintf(
					table,
					"second",
					`, "tags": {"id": "[parameters('id')]"}`,
				) + `,` + fmt.Sprintf(
				table,
				"third",
				`, "dependsOn": ["second"]`,
			) + `], "outputs": {"x": {"type": "string", "value": "[parameters('id')]"}}}}}
], "outputs": {"id": {"type": "string", "value": "[parameters('id')]"}, "x": {"type": "string", "value": "[reference('inside').outputs.x.value]"}}}`,
		)
		if status, answer := b.c.Do(http.MethodPut, deploymentScope+"/d", deploymentAPI,
			[]byte(body)); status != http.StatusCreated {
			t.Fatalf("%d %s", status, answer)
		}
		time.Sleep(15 * time.Second) // first is done, second is running
		b.get(deploymentScope + "/inside")
		b.e.kernel.Mu.Lock()
		if err := b.e.kernel.Disk.DB.Close(); err != nil {
			t.Fatal(err)
		}
		b.e.kernel.Closed = true
		b.e.kernel.Mu.Unlock()

		again, err := New(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(again.Close)
		c, err := again.Client(DefaultPrincipal)
		if err != nil {
			t.Fatal(err)
		}
		r := &bench{t, again, c}
		time.Sleep(time.Minute) // nothing more is started
		for _, name := range []string{"/d", "/inside"} {
			p := r.properties(deploymentScope + arm.ID(name))
			if kernel.Text(p, "provisioningState") != deployments.Failed ||
				kernel.Text(p, "error", "code") != "DeploymentInterrupted" {
				t.Errorf("%s: %s", name, asJSON(p))
			}
		}
		for name, want := range map[string]bool{"first": true, "second": true, "third": false} {
			if r.is(group+"/providers/Microsoft.Network/routeTables/"+arm.ID(name)) != want {
				t.Errorf("%s exists: %v", name, !want)
			}
		}
		if p := r.deploys("d", body); kernel.Text(p, "provisioningState") != deployments.Succeeded {
			t.Errorf("once more: %s", asJSON(p))
		}
		ends := map[string]int{}
		for _, a := range again.kernel.Activity {
			if a.Operation == deployments.TypeDeployment+"/write" {
				ends[a.Status]++
			}
		}
		if ends["Failed"] != 1 || ends[kernel.ActivitySucceeded] != 1 {
			t.Errorf("the activity log says %v", ends)
		}
	})
}

func TestDeploymentCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 10 * time.Second})
		body := incremental(
			`{` + groupSchema + `, "resources": [` + fmt.Sprintf(
				table,
				"first",
				"",
			) + `,` + fmt.Sprintf(
				table,
				"second",
				`, "dependsOn": ["first"]`,
			) + `]}`,
		)
		b.c.Do(http.MethodPut, deploymentScope+"/d", deploymentAPI, []byte(body))
		b.refused(http.MethodPut, deploymentScope+"/d", body, 409, "DeploymentActive")
		b.refused(http.MethodDelete, deploymentScope+"/d", "", 409, "DeploymentActive")
		if status, answer := b.c.Do(http.MethodPost, deploymentScope+"/d/cancel", deploymentAPI,
			nil); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, answer)
		}
		time.Sleep(time.Minute)
		p := b.ends("d")
		if kernel.Text(p, "provisioningState") != deployments.Canceled ||
			!b.is(group+"/providers/Microsoft.Network/routeTables/first") ||
			b.is(group+"/providers/Microsoft.Network/routeTables/second") {
			t.Errorf("%s", asJSON(p))
		}
		b.refused(http.MethodPost, deploymentScope+"/d/cancel", "", 409,
			"DeploymentCannotBeCancelled")
		status, answer := b.c.Do(
			http.MethodPost,
			deploymentScope+"/d/exportTemplate",
			deploymentAPI,
			nil,
		)
		if status != 200 || !strings.Contains(string(answer), `[resourceGroup().location]`) {
			t.Errorf("exported %d %s", status, answer)
		}
		if status, _ := b.c.Do(http.MethodDelete, deploymentScope+"/d", deploymentAPI,
			nil); status != http.StatusAccepted ||
			b.is(deploymentScope+"/d") {
			t.Errorf("deleted: %d", status)
		}
		_, list := b.c.Do(http.MethodGet, deploymentScope, deploymentAPI, nil)
		if string(list) != `{"value":[]}` {
			t.Errorf("listed: %s", list)
		}
	})
}

// TestNestedCancel: a nested deployment that is cancelled by itself fails the one around it.
func TestNestedCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 10 * time.Second})
		body := incremental(`{` + groupSchema + `, "resources": [
{"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "inside", "properties": {"mode": "Incremental", "template": {` +
			groupSchema + `, "resources": [` + fmt.Sprintf(table, "first", "") + `]}}}]}`)
		b.c.Do(http.MethodPut, deploymentScope+"/d", deploymentAPI, []byte(body))
		if status, answer := b.c.Do(http.MethodPost, deploymentScope+"/inside/cancel",
			deploymentAPI, nil); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, answer)
		}
		time.Sleep(time.Minute)
		for name, want := range map[arm.ID]string{"inside": deployments.Canceled,
			"d": deployments.Failed} {
			p := kernel.ObjectAt(b.get(deploymentScope+"/"+name), "properties")
			if got := kernel.Text(p, "provisioningState"); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
	})
}

// TestDeploymentSerial checks that a serial loop makes its copies one batch after the other.
func TestDeploymentSerial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 10 * time.Second})
		p := b.deploys(
			"d",
			incremental(
				`{`+groupSchema+`, "resources": [`+fmt.Sprintf(
					table,
					"[concat('t', copyIndex())]",
					`, "copy": {"name": "all", "count": 5, "mode": "serial", "batchSize": 2}`,
				)+`,`+fmt.Sprintf(
					table,
					"last",
					`, "dependsOn": ["all"]`,
				)+`]}`,
			),
		)
		if p["duration"] != "PT40S" {
			t.Errorf("%s", asJSON(p))
		}
	})
}

func TestWhatIf(t *testing.T) {
	synctest.Test(t, testWhatIf)
}

func testWhatIf(t *testing.T) {
	b := newBench(t, Options{OperationTime: time.Second})
	b.put(
		rt,
		`{"location":"westeurope","properties":{"routes":[{"name":"egress","properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"Internet"}}]}}`,
	)
	time.Sleep(2 * time.Second)
	b.put(
		vnet,
		`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]},"subnets":[{"name":"nodes","properties":{"addressPrefix":"10.0.1.0/24","routeTable":{"id":"`+string(
			rt,
		)+`"}}}]}}`,
	)
	time.Sleep(2 * time.Second)
	b.put(group+"/providers/Microsoft.Network/routeTables/other", `{"location":"westeurope"}`)
	time.Sleep(2 * time.Second)
	body := incremental(`{` + groupSchema + `, "resources": [
  {"type": "Microsoft.Network/virtualNetworks", "apiVersion": "2024-05-01", "name": "vnet", "location": "West Europe", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
    "subnets": [{"name": "nodes", "properties": {"addressPrefix": "10.0.1.0/24"}}]}},` +
		strings.Replace(
			fmt.Sprintf(table, "rt", ""),
			`"properties": {}`,
			`"properties": {"routes": [{"name": "egress", "properties": {"addressPrefix": "0.0.0.0/0", "nextHopType": "Internet"}}]}`,
			1,
		) + `,` + fmt.Sprintf(table, "new", `, "tags": {"x": "[reference('rt').y]"}`) + `]}`)
	result := b.whatIf(body)
	if b.is(deploymentScope + "/d") {
		t.Error("something was made")
	}
	var said []string
	for _, c := range kernel.ListAt(result, "properties", "changes") {
		said = append(
			said,
			kernel.Text(c, "changeType")+" "+arm.ID(kernel.Text(c, "resourceId")).Name()+" "+
				asJSON(c["delta"]),
		)
	}
	want := []string{
		`Create new null`, `Ignore other null`, `NoChange rt null`,
		`{"before":{"id":"` + string(
			rt,
		) + `"},"path":"properties.routeTable","propertyChangeType":"Delete"}`,
	}
	// the network's change also shows Azure's noise: properties that no template sets
	for i, w := range want {
		if i >= len(said) || !strings.Contains(said[i], w) {
			t.Errorf("what-if says\n%s\nwant\n%s", strings.Join(said, "\n"), w)
		}
	}
	if !strings.Contains(asJSON(result), `"x":"[reference('rt').y]"`) {
		t.Error("what reference() says is not known before")
	}
}

// whatIf requests the changes of a deployment, and follows the answer.
func (b *bench) whatIf(body string) kernel.Object {
	b.t.Helper()
	ask := func(method, url, body string) *recorder {
		r, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			b.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+b.c.token)
		w := &recorder{header: http.Header{}}
		b.e.ServeHTTP(w, r)
		return w
	}
	first := ask(
		http.MethodPost,
		"https://h"+string(deploymentScope)+"/d/whatIf?api-version="+deploymentAPI,
		body,
	)
	if first.status != http.StatusAccepted || first.header.Get("Location") == "" {
		b.t.Fatalf("%d %s", first.status, first.body.String())
	}
	time.Sleep(time.Second)
	result, f := kernel.DecodeObject(ask(http.MethodGet, first.header.Get("Location"),
		"").body.Bytes())
	if f != nil {
		b.t.Fatal(f.Message)
	}
	return result
}

// TestDeploymentWithoutTime: where operations take no time, no answer about a deployment asks a
// client to wait.
func TestDeploymentWithoutTime(t *testing.T) {
	b := newBench(t, Options{})
	url := "http://h" + string(deploymentScope) + "/d"
	for _, call := range [][2]string{{http.MethodPut, ""}, {http.MethodPost, "/whatIf"}} {
		method, path := call[0], call[1]
		status, header, _ := b.call(method, url+path+"?api-version="+deploymentAPI,
			incremental(`{`+groupSchema+`, "resources": [`+fmt.Sprintf(table, "t", "")+`]}`))
		if status >= 300 || header.Get("Retry-After") != "" {
			t.Errorf("%s%s: %d %v", method, path, status, header)
		}
	}
	status, header, _ := b.call(http.MethodDelete, url+"?api-version="+deploymentAPI, "")
	if status != http.StatusAccepted || header.Get("Retry-After") != "" {
		t.Errorf("DELETE: %d %v", status, header)
	}
}

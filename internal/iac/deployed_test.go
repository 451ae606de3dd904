package iac

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

const (
	deployedGroup = "/subscriptions/" + emulator.DefaultSubscription + "/resourceGroups/shop-rg"
	deployedNet   = deployedGroup + "/providers/Microsoft.Network/virtualNetworks/shop-vnet"
	podTable      = deployedGroup + "/providers/Microsoft.Network/routeTables/pods"
)

// cloud is an emulator to deploy templates to.
type cloud struct {
	*testing.T
	c *emulator.Client
}

func newCloud(t *testing.T) cloud {
	t.Helper()
	e, err := emulator.New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	c, err := e.Client(emulator.DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	w := cloud{t, c}
	w.do(http.MethodPut, deployedGroup, `{"location": "westeurope"}`)
	return w
}

func (w cloud) do(method, id, body string) gjson.Result {
	w.Helper()
	version := "2024-05-01"
	status, answer := w.c.Do(method, arm.ID(id), version, []byte(body))
	if status >= 300 {
		w.Fatalf("%s %s: %d %s", method, id, status, answer)
	}
	return gjson.ParseBytes(answer)
}

// deploy deploys a template, and returns the result.
func (w cloud) deploy(f File, parameters string) gjson.Result {
	w.Helper()
	const id = deployedGroup + "/providers/Microsoft.Resources/deployments/d"
	w.do(http.MethodPut, id, deploymentBody(f, parameters))
	return w.do(http.MethodGet, id, "").Get("properties")
}

// deploymentBody has the template as written, with comments, as az sends it.
func deploymentBody(f File, parameters string) string {
	return `{"properties": {"mode": "Incremental", "parameters": {` + parameters + `}, template:` +
		string(
			f.Data,
		) + `}}`
}

func (w cloud) table(subnet string) string {
	w.Helper()
	return arm.ID(w.do(http.MethodGet, deployedNet+"/subnets/"+subnet,
		"").Get("properties.routeTable.id").String()).
		Name()
}

// associate creates the pod table, and associates it with a subnet as a person does.
func (w cloud) associate(subnet, prefix string) {
	w.Helper()
	w.do(http.MethodPut, podTable, `{"location": "westeurope"}`)
	body, err := json.Marshal(
		map[string]any{
			"properties": map[string]any{
				"addressPrefix": prefix,
				"routeTable":    map[string]string{"id": podTable},
			},
		},
	)
	if err != nil {
		w.Fatal(err)
	}
	w.do(http.MethodPut, deployedNet+"/subnets/"+subnet, string(body))
	if got := w.table(subnet); got != "pods" {
		w.Fatalf("%s has the table %q", subnet, got)
	}
}

// TestDeployed deploys a template that strips a subnet, and then the repaired template: it keeps
// the table, and it works if the network does not exist yet or the subnet has no table.
func TestDeployed(t *testing.T) {
	w := newCloud(t)
	plain := bicep(t, "plain.json")
	if p := w.deploy(plain, ""); p.Get("provisioningState").String() != "Succeeded" {
		t.Fatal(p.Raw)
	}
	w.associate("appgw", "10.20.8.0/24")
	if p := w.deploy(plain, ""); p.Get("provisioningState").String() != "Succeeded" ||
		w.table("appgw") != "" ||
		w.table("aks-nodes") != "shop-rt-prod" {
		t.Fatalf("the template does not strip: %q\n%s", w.table("appgw"), p.Raw)
	}
	fix := fixedTemplate(t, plain, TemplateOptions{})
	fixed := File{"fixed.json", fix.After}
	if p := w.deploy(fixed, ""); p.Get("provisioningState").String() != "Succeeded" ||
		w.table("appgw") != "" {
		t.Errorf("a subnet without a table: %q\n%s", w.table("appgw"), p.Raw)
	}
	w.associate("appgw", "10.20.8.0/24")
	for range 2 {
		if p := w.deploy(fixed, ""); p.Get("provisioningState").String() != "Succeeded" ||
			w.table("appgw") != "pods" ||
			w.table("aks-nodes") != "shop-rt-prod" {
			t.Errorf("the fix does not keep: %q\n%s", w.table("appgw"), p.Raw)
		}
	}
	// Without the subnet there is nothing to read: the repair says so, and Azure stops there.
	empty := newCloud(t)
	if p := empty.deploy(fixed, ""); p.Get("provisioningState").String() != "Failed" ||
		!strings.Contains(p.Get("error").Raw, "ParentResourceNotFound") &&
			!strings.Contains(p.Get("error").Raw, "NotFound") {
		t.Errorf("a subnet that is not there: %s", p.Raw)
	}
}

// TestDeployedCompiled deploys output of the Bicep compiler, including symbols and modules in
// loops.
func TestDeployedCompiled(t *testing.T) {
	w := newCloud(t)
	w.do(
		http.MethodPut,
		deployedNet,
		`{"location": "westeurope", "properties": {"addressSpace": {"addressPrefixes": ["10.20.0.0/16"]}}}`,
	)
	for _, subnet := range []string{"aks-nodes", "appgw"} {
		w.associate(
			subnet,
			map[string]string{"aks-nodes": "10.20.0.0/22", "appgw": "10.20.8.0/24"}[subnet],
		)
	}
	f := bicep(t, "read-first.json")
	if p := w.deploy(f, `"vnetName": {"value": "shop-vnet"}`); p.Get("provisioningState").
		String() !=
		"Succeeded" ||
		w.table("aks-nodes") != "pods" {
		t.Errorf("it reads first: %q\n%s", w.table("aks-nodes"), p.Raw)
	}
	// The repair of a template that does not read the table.
	own := notCompiled(
		bicep(
			t,
			"read-first.json",
			`"routeTable": "[reference(resourceId('Microsoft.Resources/deployments', 'read'), '2022-09-01').outputs.routeTable.value]",`,
			``,
		),
	)
	fix := fixedTemplate(
		t,
		own,
		TemplateOptions{
			Carriers: []Carrier{Named("aks-nodes", "")},
			Parameters: []File{
				{"p.json", []byte(`{"parameters": {"vnetName": {"value": "shop-vnet"}}}`)},
			},
		},
	)
	if p := w.deploy(File{"f.json", fix.After}, `"vnetName": {"value": "shop-vnet"}`); p.Get(
		"provisioningState").
		String() !=
		"Succeeded" ||
		w.table("aks-nodes") != "pods" {
		t.Errorf("its fix: %q\n%s", w.table("aks-nodes"), p.Raw)
	}
	if p := w.deploy(own, `"vnetName": {"value": "shop-vnet"}`); w.table("aks-nodes") != "" {
		t.Errorf("it does not strip: %q\n%s", w.table("aks-nodes"), p.Raw)
	}
}

// TestWhatIfOfEmulator reads a result of the emulator.
func TestWhatIfOfEmulator(t *testing.T) {
	w := newCloud(t)
	plain := bicep(t, "plain.json")
	w.deploy(plain, "")
	w.associate("appgw", "10.20.8.0/24")
	id := deployedGroup + "/providers/Microsoft.Resources/deployments/d"
	ask := func(f File) *Reading {
		t.Helper()
		return readWhatIf(
			t,
			File{"w.json", []byte(w.do(http.MethodPost, id+"/whatIf", deploymentBody(f, "")).Raw)},
		)
	}
	sameLines(t, "plain", said(ask(plain)), "loses shop-vnet/appgw 0")
	fix := fixedTemplate(t, plain, TemplateOptions{})
	sameLines(t, "fixed", said(ask(File{"fixed.json", fix.After})), "may-lose shop-vnet/appgw 0")
}

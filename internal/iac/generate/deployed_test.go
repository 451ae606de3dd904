package generate

import (
	"net/http"
	"os"
	"testing"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestDeployedTemplate deploys what Bicep makes of the written code to an emulator that asks of a
// cluster what AKS asks. Deployed again it keeps the nodes' table, with the pod routes in it.
func TestDeployedTemplate(t *testing.T) {
	template, err := os.ReadFile("testdata/compiled/kubenet.json")
	if err != nil {
		t.Fatal(err)
	}
	e, err := emulator.New(emulator.Options{CheckClusterIdentity: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	c, err := e.Client(emulator.DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	do := func(method, id, body string) gjson.Result {
		t.Helper()
		status, answer := c.Do(method, arm.ID(id), "2025-05-01", []byte(body))
		if status >= 300 {
			t.Fatalf("%s %s: %d %s", method, id, status, answer)
		}
		return gjson.ParseBytes(answer)
	}
	const subscription = "/subscriptions/" + emulator.DefaultSubscription
	const network = subscription + "/resourceGroups/shop-rg/providers/Microsoft.Network"
	const deployment = subscription + "/providers/Microsoft.Resources/deployments/all"
	for n := range 2 {
		do(http.MethodPut, deployment, `{"location": "westeurope", "properties": {"mode": "Incremental", "template":`+string(template)+`}}`)
		p := do(http.MethodGet, deployment, "").Get("properties")
		if p.Get("provisioningState").String() != "Succeeded" || p.Get("outputs.principalId.value").String() == "" {
			t.Fatalf("deployment %d: %s", n, p.Raw)
		}
		nodes := do(http.MethodGet, p.Get("outputs.nodeSubnetId.value").String(), "")
		routes := do(http.MethodGet, network+"/routeTables/shop-nodes-rt", "").Get("properties.routes.#").Int()
		if n == 0 { // a route that AKS does not write
			do(http.MethodPut, network+"/routeTables/shop-nodes-rt/routes/mine", `{"properties": {"addressPrefix": "10.99.0.0/16", "nextHopType": "None"}}`)
			routes++
		}
		if table := arm.ID(nodes.Get("properties.routeTable.id").String()).Name(); table != "shop-nodes-rt" || routes != 4 {
			t.Errorf("deployment %d: the nodes have the table %q with %d routes", n, table, routes)
		}
	}
}

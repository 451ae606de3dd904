package emulator

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// shelf is where linked templates lie.
type shelf map[string]string

func (s shelf) RoundTrip(r *http.Request) (*http.Response, error) {
	body, there := s[r.URL.String()]
	if !there && strings.HasPrefix(r.URL.Host, "none") {
		return nil, fmt.Errorf("no such host: %s", r.URL.Host)
	}
	answer := &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{}, Request: r}
	if !there {
		answer.StatusCode = 404
	}
	return answer, nil
}

// The linked templates that people are advised to strip no association with: one asks the subnet
// for its table, the other writes the subnet with what it is given.
const (
	linkedRead = `{` + groupSchema + `, "parameters": {"subnet": {"type": "string"}},
		"resources": [], "outputs": {"table": {"type": "string", "value":
		"[reference(parameters('subnet'), '2024-05-01').routeTable.id]"}}}`
	linkedWrite = `{` + groupSchema + `, "parameters": {"table": {"type": "string"}},
		"resources": [{"type": "Microsoft.Network/virtualNetworks/subnets",
			"apiVersion": "2024-05-01", "name": "vnet/a", "properties": {
			"addressPrefix": "10.0.1.0/24", "serviceEndpoints": [{"service": "Microsoft.Storage"}],
			"routeTable": {"id": "[parameters('table')]"}}}]}`
	linkedMain = `{` + groupSchema + `, "resources": [
		{"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "read",
			"properties": {"mode": "Incremental", "templateLink": {"relativePath": "parts/read.json"},
			"parameters": {"subnet": {"value":
			"[resourceId('Microsoft.Network/virtualNetworks/subnets', 'vnet', 'a')]"}}}},
		{"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": "write",
			"dependsOn": ["read"], "properties": {"mode": "Incremental",
			"templateLink": {"uri": "https://shelf.example/parts/write.json", "contentVersion": "1.0.0.0"},
			"parameters": {"table": {"value": "[reference('read').outputs.table.value]"}}}}]}`
)

// TestLinkedTemplates: a deployment whose templates lie elsewhere asks for the table of a subnet
// before it writes it, so that the association stays. Without that it would be lost.
func TestLinkedTemplates(t *testing.T) {
	b := withNetwork(t, Options{Templates: shelf{
		"https://shelf.example/main.json":        linkedMain,
		"https://shelf.example/parts/read.json":  linkedRead,
		"https://shelf.example/parts/write.json": linkedWrite,
		"https://shelf.example/page.html":        "<html>",
	}})
	if len(kernel.ListAt(kernel.ObjectAt(b.get(vnet), "properties"), "subnets")) == 0 ||
		kernel.LinkOf(b.get(vnet+"/subnets/a"), "routeTable") == "" {
		t.Fatal("the subnet has no table")
	}
	link := func(uri string) string {
		return `{"properties": {"mode": "Incremental", "templateLink": {"uri": "` + uri + `"}}}`
	}
	if p := b.deploys("keep", link("https://shelf.example/main.json")); kernel.Text(p,
		"provisioningState") != "Succeeded" {
		t.Fatalf("%s", kernel.Encode(p))
	}
	subnet := b.get(vnet + "/subnets/a")
	if kernel.LinkOf(subnet, "routeTable") == "" ||
		len(kernel.ListAt(kernel.ObjectAt(subnet, "properties"), "serviceEndpoints")) != 1 {
		t.Errorf("%s", kernel.Encode(subnet))
	}
	plain := strings.Replace(linkedWrite, `,
			"routeTable": {"id": "[parameters('table')]"}`, "", 1)
	if p := b.deploys("strip", incremental(plain, `"table": {"value": ""}`)); kernel.Text(p,
		"provisioningState") != "Succeeded" ||
		kernel.LinkOf(b.get(vnet+"/subnets/a"), "routeTable") != "" {
		t.Errorf("the template without the association does not strip it: %s", kernel.Encode(p))
	}
	for _, uri := range []string{"https://shelf.example/nothing.json", "https://none.example/x",
		"https://shelf.example/page.html", "file:///etc/passwd"} {
		b.refused(http.MethodPut, deploymentScope+"/d", link(uri), 400, "InvalidContentLink")
		b.refused(http.MethodPost, deploymentScope+"/d/validate", link(uri), 400,
			"InvalidContentLink")
		nested := `{` + groupSchema + `, "resources": [{"type": "Microsoft.Resources/deployments",
			"apiVersion": "2022-09-01", "name": "n", "properties": {"mode": "Incremental",
			"templateLink": {"uri": "` + uri + `"}}}]}`
		b.refused(http.MethodPut, deploymentScope+"/d", incremental(nested), 400,
			"InvalidContentLink")
	}
}

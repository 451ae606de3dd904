package emulator

import (
	"net/http"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestEntra logs in at API servers with tokens of Entra ID: on clusters that accept them, with the
// rights of Azure's roles, and with local accounts besides.
func TestEntra(t *testing.T) {
	b, _ := withGuest(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	with := func(fields string) {
		b.put(aksID,
			strings.Replace(clusterBody(``, ``), `"networkProfile"`, fields+`"networkProfile"`, 1))
	}
	token := func(p Principal, audience string) string {
		token, _, err := b.e.Token(p, audience)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	visitor, owner := token(guest, aks.AksServer), token(DefaultPrincipal, aks.AksServer)
	nodes := func(token string) int {
		status, _ := b.apiServer(aksID, http.MethodGet, "/api/v1/nodes", token)
		return status
	}
	forbidden := func(path, token, message string) {
		t.Helper()
		if status, doc := b.apiServer(aksID, http.MethodGet, path, token); status != 403 ||
			kernel.Text(doc, "message") != message || kernel.Text(doc, "reason") != "Forbidden" {
			t.Errorf("%s: %d %s", path, status, kernel.Encode(doc))
		}
	}
	with(``)
	b.sees(aksID, "/api/v1/nodes", owner, 401, "Unauthorized") // no Entra ID

	with(`"aadProfile":{"managed":true},`)
	b.sees(aksID, "/api/v1/nodes", token(DefaultPrincipal, "https://management.core.windows.net/"),
		401, "Unauthorized")
	forbidden("/api/v1/nodes", visitor, `nodes is forbidden: User "`+guest.ObjectID+
		`" cannot list resource "nodes" in API group "" at the cluster scope`)
	if nodes(owner) != 200 || nodes("") != 200 {
		t.Error("the owner, or a local account, sees no nodes")
	}

	with(`"aadProfile":{"managed":true,"enableAzureRBAC":true},"disableLocalAccounts":true,`)
	const noRole = ": User does not have access to the resource in Azure. Update role assignment " +
		"to allow access."
	b.sees(aksID, "/api/v1/nodes", "", 401, "Unauthorized") // a local account
	forbidden("/api/v1/namespaces/default/pods", visitor, `pods is forbidden: User "`+
		guest.ObjectID+`" cannot list resource "pods" in API group "" in the namespace "default"`+
		noRole)
	b.grant(1, aksID, guest.ObjectID, "Contributor") // not inside the cluster
	if nodes(visitor) != 403 {
		t.Error("a Contributor sees nodes")
	}
	b.grant(2, aksID, guest.ObjectID, "Azure Kubernetes Service RBAC Reader")
	if status, _ := b.apiServer(aksID, http.MethodGet, "/api/v1/pods", visitor); status != 200 {
		t.Errorf("a Reader sees no pods: %d", status)
	}
	forbidden("/api/v1/nodes", visitor, `nodes is forbidden: User "`+guest.ObjectID+
		`" cannot list resource "nodes" in API group "" at the cluster scope`+noRole)
	b.grant(3, group, guest.ObjectID, "Azure Kubernetes Service RBAC Cluster Admin")
	if nodes(visitor) != 200 {
		t.Error("an admin sees no nodes")
	}
}

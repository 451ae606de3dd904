package emulator

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const uai = group + "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/aks-id"

// userAssigned is the cluster of existing, with the identity uai.
func userAssigned(count int) string {
	return strings.Replace(fmt.Sprintf(existing, count), `{`,
		`{"identity":{"type":"UserAssigned","userAssignedIdentities":{"`+string(uai)+`":{}}},`, 1)
}

// TestClusterServicePrincipal: a cluster with a service principal may use an existing table, unlike
// one with a system-assigned identity (recorded).
func TestClusterServicePrincipal(t *testing.T) {
	b := newBench(t, Options{CheckClusterIdentity: true})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(aksID, strings.Replace(fmt.Sprintf(existing, 1), `"properties":{`, `"properties":{`+
		`"servicePrincipalProfile":{"clientId":"5e000000-0000-4000-8000-000000000001",`+
		`"secret":"x"},`, 1))
}

// TestClusterIdentity: a cluster in an existing network needs an identity with roles on it, at its
// creation and later.
func TestClusterIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		afterMinute := func() {
			time.Sleep(time.Minute)
			synctest.Wait() // for what is due at the same moment
		}
		b := newBench(t, Options{CheckClusterIdentity: true, RouteBatch: 30 * time.Second,
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		b.put(rt, `{"location":"westeurope"}`)
		b.put(vnet, plainVNet)
		a := vnet.Child("subnets", "a")
		b.says(http.MethodPut, aksID, fmt.Sprintf(existing, 1), 400,
			"CustomRouteTableWithUnsupportedMSIType",
			"Clusters using managed identity type SystemAssigned do not support bringing your "+
				"own route table. Please see https://aka.ms/aks/customrt for more information")
		b.refused(http.MethodPut, aksID, userAssigned(1), 400, "FailedIdentityOperation")
		b.put(uai, `{"location":"westeurope"}`)
		who := entra.IdentityOf(b.e.kernel.Store.Get(uai))
		b.says(http.MethodPut, aksID, userAssigned(1), 400, "CustomRouteTableMissingPermission",
			"Managed identity or service principle must be given permission to read and write to "+
				"custom route table "+string(rt)+". Please see https://aka.ms/aks/customrt for "+
				"more information")
		onTable := b.grant(1, rt, who.ObjectID, "Network Contributor")
		b.refused(http.MethodPut, aksID, userAssigned(1), 403, "AuthorizationFailed")
		b.grant(2, a, who.ObjectID, "Reader")
		b.refused(http.MethodPut, aksID, userAssigned(1), 403, "LinkedAuthorizationFailed")
		b.refused(http.MethodGet, aksID, "", 404, "ResourceNotFound")
		b.grant(3, a, who.ObjectID, "Network Contributor")
		b.put(aksID, userAssigned(1))
		afterMinute()
		if n := len(b.podRoutes(rt)); n != 1 {
			t.Errorf("%d routes", n)
		}
		b.refused(http.MethodPut, aksID.Child("agentPools", "more"),
			`{"properties":{"count":1,"vnetSubnetID":"`+string(vnet)+
				`/subnets/b"}}`, 403, "AuthorizationFailed")
		assigned := kernel.ObjectAt(b.get(aksID), "identity", "userAssignedIdentities", string(uai))
		if kernel.Text(assigned, "principalId") != who.ObjectID ||
			kernel.Text(assigned, "clientId") != who.ClientID {
			t.Errorf("the cluster shows %v", assigned)
		}

		// Without the role the cloud provider's writes fail, and it logs that.
		if status, _ := b.try(http.MethodDelete, onTable, api, ""); status != 200 {
			t.Fatal(status)
		}
		if err := b.e.Scale(aksID, "np", 3); err != nil {
			t.Fatal(err)
		}
		afterMinute()
		if n := len(b.podRoutes(rt)); n != 1 {
			t.Errorf("%d routes without the role", n)
		}
		if !strings.Contains(log.String(), "level=WARN") ||
			!strings.Contains(log.String(), "AuthorizationFailed") {
			t.Errorf("the log: %s", log.String())
		}
		b.grant(4, group, who.ObjectID, "Network Contributor")
		afterMinute()
		if n := len(b.podRoutes(rt)); n != 3 {
			t.Errorf("%d routes with the role again", n)
		}

		// A deleted identity gets no token, whatever roles it had.
		if status, _ := b.try(http.MethodDelete, uai, api, ""); status != 200 {
			t.Fatal(status)
		}
		if err := b.e.Scale(aksID, "np", 4); err != nil {
			t.Fatal(err)
		}
		afterMinute()
		if n := len(b.podRoutes(rt)); n != 3 ||
			!strings.Contains(log.String(), "InvalidAuthenticationToken") {
			t.Errorf("%d routes without the identity", n)
		}
	})
}

// TestClusterLinks: the creator of a cluster must be allowed to join its subnets and to assign its
// identity.
func TestClusterLinks(t *testing.T) {
	b, g := withGuest(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(uai, `{"location":"westeurope"}`)
	b.grant(1, group, guest.ObjectID, "Azure Kubernetes Service Contributor Role")
	a := vnet.Child("subnets", "a")
	g.says(http.MethodPut, aksID, userAssigned(1), 403, "LinkedAuthorizationFailed", "The client '"+
		guest.ClientID+"' with object id '"+guest.ObjectID+
		"' has permission to perform action 'Microsoft.ContainerService/managedClusters/write' "+
		"on scope '"+string(aksID)+"'; however, it does not have permission to perform action(s) "+
		"'Microsoft.ManagedIdentity/userAssignedIdentities/assign/action,Microsoft.Network/virtualNetworks/subnets/join/action' on the linked scope(s) '"+
		string(uai)+","+string(a)+"' (respectively) or the linked scope(s) are invalid.")
	b.grant(2, uai, guest.ObjectID, "Managed Identity Operator")
	g.refused(http.MethodPut, aksID, userAssigned(1), 403, "LinkedAuthorizationFailed")
	b.grant(3, a, guest.ObjectID, "Network Contributor")
	g.put(aksID, userAssigned(1))
}

// TestPodSubnetIdentity: the identity needs a role on the nodes' subnet, and none on the pods': az
// assigns only that one, and such a cluster works.
func TestPodSubnetIdentity(t *testing.T) {
	b := newBench(t, Options{CheckClusterIdentity: true})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(uai, `{"location":"westeurope"}`)
	who := entra.IdentityOf(b.e.kernel.Store.Get(uai))
	nodes, pods := vnet.Child("subnets", "a"), vnet.Child("subnets", "b")
	cluster := `{"location":"westeurope","identity":{"type":"UserAssigned","userAssignedIdentities":{"` + string(uai) + `":{}}},"properties":{"networkProfile":{"networkPlugin":"azure","serviceCidr":"10.96.0.0/16","dnsServiceIP":"10.96.0.10"},"agentPoolProfiles":[
		{"name":"np","count":1,"vnetSubnetID":"` + string(nodes) + `","podSubnetID":"` +
		string(pods) + `"}]}}`
	b.refused(http.MethodPut, aksID, cluster, 403, "AuthorizationFailed")
	b.grant(2, nodes, who.ObjectID, "Reader")
	b.refused(http.MethodPut, aksID, cluster, 403, "LinkedAuthorizationFailed")
	b.grant(3, nodes, who.ObjectID, "Network Contributor")
	b.put(aksID, cluster)
}

// TestRestartedIdentities: after a restart, deleted identities stay deleted, and the others can log
// in.
func TestRestartedIdentities(t *testing.T) {
	options := Options{StateFile: filepath.Join(t.TempDir(), "state.db")}
	b := newBench(t, options)
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(uai, `{"location":"westeurope"}`)
	b.put(uai+"2", `{"location":"westeurope"}`)
	b.put(aksID, userAssigned(1))
	gone, stays := entra.IdentityOf(b.e.kernel.Store.Get(uai)), entra.IdentityOf(
		b.e.kernel.Store.Get(uai+"2"))
	if status, _ := b.try(http.MethodDelete, uai, api, ""); status != 200 {
		t.Fatal(status)
	}
	const keys = `{"keys":[{"kty":"RSA","kid":"k","n":"AQAB","e":"AQAB"}]}`
	if err := b.e.RegisterIssuer("https://issuer", []byte(keys)); err != nil {
		t.Fatal(err)
	}
	b.e.Close()
	again, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.entra.Identity.Has(gone) || !again.entra.Identity.Has(stays) {
		t.Errorf("the deleted identity is there: %v; the other one: %v",
			again.entra.Identity.Has(gone),
			again.entra.Identity.Has(stays))
	}
	if len(again.entra.Identity.Issuers["https://issuer"].Keys) != 1 {
		t.Errorf("issuers %v", again.entra.Identity.Issuers)
	}
}

// TestOwnNetwork: a cluster with AKS's network needs no role, and has its role on its node resource
// group.
func TestOwnNetwork(t *testing.T) {
	b := newBench(t, Options{CheckClusterIdentity: true})
	b.put(aksID, `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet"},"agentPoolProfiles":[{"name":"np","count":2}]}}`)
	tables := kernel.ListAt(b.get("/subscriptions/"+arm.ID(sub)+
		"/resourceGroups/MC_net-rg_c_westeurope/providers/Microsoft.Network/routeTables"), "value")
	if len(tables) != 1 || len(b.podRoutes(arm.ID(kernel.Text(tables[0], "id")))) != 2 {
		t.Errorf("tables %v", names(tables))
	}
}

// TestLockdown: only the cluster can change a locked-down node resource group, or join its
// resources.
func TestLockdown(t *testing.T) {
	b, g := withGuest(t, Options{})
	b.grant(1, "/subscriptions/"+arm.ID(sub), guest.ObjectID, "Owner")
	b.put(aksID, `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet"},"nodeResourceGroupProfile":{"restrictionLevel":"ReadOnly"},"agentPoolProfiles":[{"name":"np","count":2}]}}`)
	nodes := arm.ID("/subscriptions/" + sub + "/resourceGroups/MC_net-rg_c_westeurope")
	table := arm.ID(kernel.Text(
		kernel.ListAt(b.get(nodes+"/providers/Microsoft.Network/routeTables"),
			"value")[0], "id"))
	deny := kernel.ListAt(b.get(nodes+"/providers/Microsoft.Authorization/denyAssignments"),
		"value")
	if len(deny) != 1 {
		t.Fatalf("deny assignments %v", deny)
	}
	for _, filter := range []string{"", "atScope()"} {
		_, doc := b.request(http.MethodGet, "/subscriptions/"+sub+
			"/providers/Microsoft.Authorization/denyAssignments", url.Values{
			"$filter": {filter}}, "")
		if got, below := len(kernel.ListAt(doc, "value")), filter == ""; (got == 1) != below {
			t.Errorf("$filter=%s at the subscription: %d deny assignments", filter, got)
		}
	}
	for _, who := range []struct {
		*bench
		p Principal
	}{{b, DefaultPrincipal}, {g, guest}} {
		who.get(table)
		who.says(http.MethodPut, table, `{"location":"westeurope"}`, 403,
			"DenyAssignmentAuthorizationFailed",
			fmt.Sprintf("The client '%s' with object id '%s' has permission to perform action "+
				"'Microsoft.Network/routeTables/write' on scope '%s'; however, the access is "+
				"denied because of the deny assignment with name '%s' and Id '%s' at scope '%s'.",
				who.p.ClientID, who.p.ObjectID, table, kernel.Text(deny[0], "properties",
					"denyAssignmentName"), kernel.Text(deny[0], "id"), nodes))
		who.refused(http.MethodDelete, nodes, "", 403, "DenyAssignmentAuthorizationFailed")
		who.put(vnet, `{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]}}}`)
		who.refused(http.MethodPut, vnet.Child("subnets", "a"),
			`{"properties":{"addressPrefix":"10.0.1.0/24","routeTable":{"id":"`+string(table)+
				`"}}}`, 403, "LinkedAuthorizationFailed")
	}
	if err := b.e.Scale(aksID, "np", 3); err != nil || len(b.podRoutes(table)) != 3 {
		t.Errorf("the cluster itself: %v, %d routes", err, len(b.podRoutes(table)))
	}
	b.put(aksID, `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet"},"nodeResourceGroupProfile":{"restrictionLevel":"Unrestricted"},"agentPoolProfiles":[{"name":"np","count":2}]}}`)
	b.put(table, `{"location":"westeurope"}`)
	b.put(aksID, `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet"},"nodeResourceGroupProfile":{"restrictionLevel":"ReadOnly"},"agentPoolProfiles":[{"name":"np","count":2}]}}`)
	if status, code := b.try(http.MethodDelete, aksID, api, ""); status != 204 {
		t.Errorf("DELETE of the cluster: %d %s", status, code)
	}
}

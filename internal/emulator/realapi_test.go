package emulator

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// askedAPI is an API server that only records its callers.
type askedAPI struct {
	cluster arm.ID
	user    string
	groups  []string
}

func (a *askedAPI) Serve(w http.ResponseWriter, _ *http.Request, cluster arm.ID, user string,
	groups []string) {
	a.cluster, a.user, a.groups = cluster, user, groups
	w.WriteHeader(http.StatusTeapot)
}

// TestServeKubernetes passes calls to another API server, with the user whom the emulator knows.
func TestServeKubernetes(t *testing.T) {
	b, _ := withGuest(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	with := func(fields string) {
		b.put(aksID,
			strings.Replace(clusterBody(``, ``), `"networkProfile"`, fields+`"networkProfile"`, 1))
	}
	with(``)
	api := &askedAPI{}
	b.e.ServeKubernetes(api)
	sees := func(method, path, token, user string, admin bool) {
		t.Helper()
		*api = askedAPI{}
		status, doc := b.apiServer(aksID, method, path, token)
		if status != http.StatusTeapot || api.user != user ||
			slices.Contains(api.groups, "system:masters") != admin || !api.cluster.Equal(aksID) {
			t.Errorf("%s %s: %d %s, %+v", method, path, status, kernel.Encode(doc), api)
		}
	}
	const pods, deployments = "/api/v1/namespaces/default/pods",
		"/apis/apps/v1/namespaces/default/deployments"
	sees(http.MethodPost, deployments, "", "masterclient", true)
	sees(http.MethodGet, pods, "a service account's", "", false)

	b.inject(Fault{Path: "/deployments$", Status: 500, Count: 1})
	if status, _ := b.apiServer(aksID, http.MethodGet, deployments, ""); status != 500 {
		t.Errorf("a fault: %d", status)
	}

	with(`"aadProfile":{"managed":true,"enableAzureRBAC":true},"disableLocalAccounts":true,`)
	visitor, _, err := b.e.Token(guest, aks.AksServer)
	if err != nil {
		t.Fatal(err)
	}
	b.sees(aksID, pods, "", 401, "Unauthorized") // a local account
	sees(http.MethodGet, pods, visitor, guest.ObjectID, false)
	b.grant(1, aksID, guest.ObjectID, "Azure Kubernetes Service RBAC Reader")
	sees(http.MethodGet, pods, visitor, guest.ObjectID, true)
	sees(http.MethodGet, pods+"/x/log", visitor, guest.ObjectID, true)
	sees(http.MethodGet, pods+"/x/exec", visitor, guest.ObjectID, false) // no read
	sees(http.MethodDelete, pods+"/x", visitor, guest.ObjectID, false)
	sees(http.MethodPatch, deployments+"/x", visitor, guest.ObjectID, false)
	b.grant(2, aksID, guest.ObjectID, "Azure Kubernetes Service RBAC Cluster Admin")
	sees(http.MethodPatch, deployments+"/x", visitor, guest.ObjectID, true)
	sees(http.MethodGet, pods+"/x/exec", visitor, guest.ObjectID, true)
}

// TestKubernetesClusters checks the state for a real API server.
func TestKubernetesClusters(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(``, `,"count":2`))
	wanted := func(id arm.ID) bool { return id.Equal(aksID) }
	all := b.e.KubernetesClusters(wanted)
	if len(all) != 1 || !all[0].Running || len(all[0].Nodes) != 2 || all[0].ServiceCIDR == "" ||
		len(all[0].Workloads) != 4 {
		t.Fatalf("%+v", all)
	}
	if n := all[0].Nodes[1]; len(n.Addrs) != 1 || len(n.PodCIDRs) != 1 || n.PodAddrs != nil ||
		kernel.ObjectAt(n.Document, "spec")["podCIDR"] != n.PodCIDRs[0].String() {
		t.Errorf("%+v", n)
	}
	if none := b.e.KubernetesClusters(func(arm.ID) bool { return false }); len(none) != 1 ||
		none[0].Nodes != nil {
		t.Errorf("without nodes: %+v", none)
	}
	if status, code := b.try(http.MethodPost, aksID+"/stop", api, ""); status >= 300 {
		t.Fatal(status, code)
	}
	same := all[0].Incarnation
	if all = b.e.KubernetesClusters(wanted); len(all) != 1 || all[0].Running ||
		all[0].Incarnation != same {
		t.Errorf("stopped: %+v", all)
	}
}

package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// local is an emulator over HTTPS with the demo's cluster, and its kubeconfig.
type local struct {
	*testing.T
	e      *emulator.Emulator
	demo   emulator.Demo
	file   string
	client *emulator.Client
}

func newLocal(t *testing.T) *local {
	t.Helper()
	l := &local{T: t, e: emulatortest.New(t, emulator.Options{})}
	var err error
	if l.demo, err = emulator.BuildDemo(l.e, emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	if l.client, err = l.e.Client(emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	emulatortest.Serve(t, l.e)
	l.file = emulatortest.Kubeconfig(t, l.e, l.demo.Cluster)
	return l
}

// cluster reads a cluster's document.
func (l *local) cluster(id arm.ID) *inventory.Cluster {
	l.Helper()
	status, raw := l.client.Do("GET", id, "2025-10-01", nil)
	c, err := inventory.DecodeCluster(raw)
	if err != nil {
		l.Fatal(status, err)
	}
	return c
}

// TestEmulator reads the nodes and pods of a cluster over HTTPS, with the kubeconfig of az aks
// get-credentials.
func TestEmulator(t *testing.T) {
	l := newLocal(t)
	cluster := l.cluster(l.demo.Cluster)
	c := load(t, Options{Kubeconfig: l.file, Cluster: cluster})
	if !c.proven || c.Context() != "shop" {
		t.Errorf("context %s is the cluster's by its name: %v", c.Context(), c.proven)
	}
	k, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, raw := l.client.Do("GET", l.demo.ClusterTable, "2025-05-01", nil)
	table, err := inventory.DecodeRouteTable(raw)
	if err != nil {
		t.Fatal(err)
	}
	routes := map[string]bool{}
	for _, r := range table.Routes() {
		routes[fmt.Sprint(r.Prefix, r.Hop)] = true
	}
	for _, n := range k.Nodes {
		if len(n.PodCIDRs) != 1 || len(n.Addresses) != 1 ||
			!routes[fmt.Sprint(n.PodCIDRs[0], n.Addresses[0])] {
			t.Errorf("the table has no route to %v: %v", n, routes)
		}
		if !n.Ready || n.NetworkUnavailable == nil || n.NetworkUnavailable.True {
			t.Errorf("%+v", n)
		}
	}
	if len(k.Nodes) != 3 || len(k.Pods) != 12 || k.Note != "" {
		t.Errorf("%d nodes, %d pods, note %q", len(k.Nodes), len(k.Pods), k.Note)
	}

	// The server can refuse pods, or the login.
	refuse := func(path string, status int, message string) {
		if _, err := l.e.Inject(emulator.Fault{Path: path, Status: status, Message: message,
			Count: 1}); err != nil {
			t.Fatal(err)
		}
	}
	refuse("/api/v1/pods$", 403,
		`pods is forbidden: User "eve" cannot list resource "pods" in API group "" at the cluster scope`)
	if k, err = c.Read(t.Context()); err != nil || len(k.Nodes) != 3 || k.Pods != nil ||
		!strings.Contains(k.Note, "--user=eve") {
		t.Errorf("%+v, %v", k, err)
	}
	refuse("/api/v1/nodes$", 401, "Unauthorized")
	_, err = c.Read(t.Context())
	says(t, err, "rejects the login", "az aks get-credentials -g shop-rg -n shop")

	// Many pods come in pages.
	if err := l.e.Scale(l.demo.Cluster, l.demo.Pool, 200); err != nil {
		t.Fatal(err)
	}
	since := l.e.LastRequest()
	if k, err = c.Read(t.Context()); err != nil || len(k.Nodes) != 200 || len(k.Pods) != 800 {
		t.Fatalf("%+v, %v", k, err)
	}
	if calls := len(l.e.Requests(since)); calls != 3 {
		t.Errorf("%d calls for 200 nodes and 800 pods", calls)
	}

	// A stopped cluster has no API server.
	if status, raw := l.client.Do("POST", l.demo.Cluster+"/stop", "2025-10-01",
		nil); status >= 300 {
		t.Fatal(status, string(raw))
	}
	_, err = c.Read(t.Context())
	says(t, err, "does not answer at https://127.0.0.1:", "--from-nodes")
}

// TestAnotherCluster: a kubeconfig of another cluster, and one whose server is unreachable.
func TestAnotherCluster(t *testing.T) {
	l := newLocal(t)
	id := arm.ResourceID(l.demo.Cluster.Subscription(), "shop-rg", arm.TypeCluster, "other")
	if err := l.client.Put(id, "2025-10-01",
		map[string]any{"location": "westeurope", "properties": map[string]any{
			"agentPoolProfiles": []any{map[string]any{"name": "np", "mode": "System",
				"count": 1}},
			"apiServerAccessProfile": map[string]any{"enablePrivateCluster": true},
		}}); err != nil {
		t.Fatal(err)
	}
	other := l.cluster(id)
	_, err := load(t, Options{Kubeconfig: l.file, Cluster: other}).Read(t.Context())
	says(t, err, "context shop is for another cluster than other", "MC_shop-rg_other_westeurope",
		"az aks get-credentials -g shop-rg -n other")

	t.Setenv("KUBECONFIG", l.file)
	_, err = Load(Options{Cluster: other})
	says(t, err, "no kubeconfig context is for this cluster",
		"az aks get-credentials -g shop-rg -n other")

	_, err = load(t, Options{Kubeconfig: emulatortest.Kubeconfig(t, l.e, id),
		Cluster: other}).Read(t.Context())
	says(t, err, "does not answer at https://"+other.Hosts[1], "private cluster",
		"--from-nodes and --from-pods")
}

// TestKubelogin logs in to a cluster with Entra ID through a plugin named kubelogin, with more and
// more Azure roles.
func TestKubelogin(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: the plugin is a shell script, and Windows has no shell for it")
	}
	guest := emulator.Principal{Name: "guest", ClientID: "0a0a0000-0000-4000-8000-000000000009",
		ObjectID: "0b0b0000-0000-4000-8000-000000000009", Secret: "s", NoRoles: true}
	e := emulatortest.New(t,
		emulator.Options{Principals: []emulator.Principal{emulatortest.Keeper, guest}})
	client, err := e.Client(emulatortest.Keeper)
	if err != nil {
		t.Fatal(err)
	}
	group := arm.GroupID(emulator.DefaultSubscription, "shop-rg")
	id := arm.ResourceID(group.Subscription(), group.Name(), arm.TypeCluster, "shop")
	put := func(id arm.ID, version string, body map[string]any) {
		t.Helper()
		if err := client.Put(id, version, body); err != nil {
			t.Fatal(err)
		}
	}
	put(group, "2024-03-01", map[string]any{"location": "westeurope"})
	put(id, "2025-10-01", map[string]any{"location": "westeurope", "properties": map[string]any{
		"agentPoolProfiles": []any{map[string]any{"name": "np", "mode": "System", "count": 2}},
		"aadProfile":        map[string]any{"managed": true, "enableAzureRBAC": true},
	}})
	l := &local{T: t, e: e, client: client}
	emulatortest.Serve(t, e)
	file := emulatortest.Kubeconfig(t, e, id)
	token, _, err := e.Token(guest, "6dae42f8-4368-4678-94ff-3960e28e3630")
	if err != nil {
		t.Fatal(err)
	}
	plugins := t.TempDir()
	script := `#!/bin/sh
case "$*" in "get-token --environment AzurePublicCloud --server-id 6dae42f8-4368-4678-94ff-3960e28e3630 "*) ;; *) echo "called with $*" >&2; exit 1 ;; esac
echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"` + token + `"}}'
`
	if err := os.WriteFile(filepath.Join(plugins, "kubelogin"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", plugins+string(filepath.ListSeparator)+os.Getenv("PATH"))
	read := func() (*inventory.Kubernetes, error) {
		return load(t, Options{Kubeconfig: file, Trusted: true, Cluster: l.cluster(id)}).Read(
			t.Context())
	}
	_, err = read()
	says(t, err, "does not show nodes", `--assignee `+guest.ObjectID+
		` --role 'Azure Kubernetes Service RBAC Cluster Admin' --scope `+string(id))
	grant := func(n int, role string) {
		put(id+arm.ID(fmt.Sprintf(
			"/providers/Microsoft.Authorization/roleAssignments/a5000000-0000-4000-8000-%012d", n)),
			"2022-04-01", map[string]any{"properties": map[string]any{
				"roleDefinitionId": "/subscriptions/" + id.Subscription() +
					"/providers/Microsoft.Authorization/roleDefinitions/" +
					role, "principalId": guest.ObjectID,
			}})
	}
	grant(1, "7f6c6a51-bcf8-42ba-9220-52d62157d7db") // RBAC Reader: pods, but not nodes
	if k, err := read(); err != nil || k.Nodes != nil || len(k.Pods) != 10 ||
		!strings.Contains(k.Note, "does not show nodes") {
		t.Errorf("a Reader: %+v, %v", k, err)
	}
	grant(2, "b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b") // RBAC Cluster Admin
	if k, err := read(); err != nil || len(k.Nodes) != 2 || k.Note != "" {
		t.Errorf("an admin: %+v, %v", k, err)
	}
}

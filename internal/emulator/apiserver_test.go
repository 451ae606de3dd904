package emulator

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// apiServer calls a cluster's API server with a token, by default that of the cluster's user.
func (b *bench) apiServer(cluster arm.ID, method, path, token string) (int, kernel.Object) {
	b.t.Helper()
	if token == "" {
		token = b.e.aks.APIServers.ClusterToken(cluster, "clusterUser")
	}
	r, err := http.NewRequest(method, aks.ApiServerURL("http://h", cluster)+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	w := &recorder{header: http.Header{}}
	b.e.Public().ServeHTTP(w, r)
	doc, _ := kernel.DecodeObject(w.body.Bytes()) // no object: nil
	return w.status, doc
}

// kubernetes decodes what the API server lists, as a diagnosis does.
func (b *bench) kubernetes(cluster arm.ID) ([]inventory.Node, []inventory.Pod) {
	b.t.Helper()
	status, doc := b.apiServer(cluster, http.MethodGet, "/api/v1/nodes", "")
	nodes, err := inventory.DecodeNodes(kernel.Encode(doc))
	if status != 200 || err != nil {
		b.t.Fatal(status, err)
	}
	_, doc = b.apiServer(cluster, http.MethodGet, "/api/v1/pods", "")
	pods, err := inventory.DecodePods(kernel.Encode(doc))
	if err != nil {
		b.t.Fatal(err)
	}
	return nodes, pods
}

// TestNodesAndPods checks the nodes and pods of every network plugin: pods have addresses as the
// plugin assigns them.
func TestNodesAndPods(t *testing.T) {
	subnetA := netip.MustParsePrefix("10.0.1.0/24")
	for name, test := range map[string]struct {
		profile, pool string
		podCIDR       bool
		// the range of the pods' own addresses; none: they wait for their network
		pods netip.Prefix
	}{
		"kubenet":     {``, ``, true, netip.MustParsePrefix("10.244.0.0/16")},
		"overlay":     {`,"networkPlugin":"azure","networkPluginMode":"overlay","podCidr":"192.168.0.0/16"`, ``, true, netip.MustParsePrefix("192.168.0.0/16")},
		"node subnet": {`,"networkPlugin":"azure"`, ``, false, subnetA},
		"pod subnet": {`,"networkPlugin":"azure"`, `,"podSubnetID":"` + string(vnet) +
			`/subnets/b"`, false, netip.MustParsePrefix("10.0.2.0/24")},
		"no plugin": {`,"networkPlugin":"none"`, ``, false, netip.Prefix{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := withNetwork(t, Options{})
			b.put(aksID,
				clusterBody(test.profile, `,"count":3,"nodeLabels":{"team":"shop"}`+test.pool))
			cluster, err := inventory.DecodeCluster(kernel.Encode(b.get(aksID)))
			if err != nil {
				t.Fatal(err)
			}
			nodes, pods := b.kubernetes(aksID)
			if ours, _ := cluster.Holds(nodes); !ours || len(nodes) != 3 {
				t.Fatalf("%d nodes, of the cluster: %v", len(nodes), ours)
			}
			by, taken := map[string]inventory.Node{}, map[netip.Addr]string{}
			for _, n := range nodes {
				by[n.Name] = n
				if n.Pool != "np" || len(n.Addresses) != 1 || !subnetA.Contains(n.Addresses[0]) ||
					n.Created.IsZero() || n.Ready != (name != "no plugin") {
					t.Errorf("%+v", n)
				}
				if (len(n.PodCIDRs) == 1) != test.podCIDR {
					t.Errorf("%s has pod CIDRs %v", n.Name, n.PodCIDRs)
				}
				if n.NetworkUnavailable == nil != (name != "kubenet") {
					t.Errorf("%s has condition %v", n.Name, n.NetworkUnavailable)
				}
				taken[n.Addresses[0]] = n.Name
			}
			own := 0
			for _, p := range pods {
				n, here := by[p.Node]
				if !here || p.Ended() {
					t.Errorf("%+v", p)
				}
				if p.HostNetwork {
					if !slices.Equal(p.Addresses, n.Addresses) {
						t.Errorf("%s has %v, its node %v", p.Name, p.Addresses, n.Addresses)
					}
					continue
				}
				own++
				if !test.pods.IsValid() {
					if len(p.Addresses) != 0 || p.Phase != "Pending" {
						t.Errorf("%+v", p)
					}
					continue
				}
				if len(p.Addresses) != 1 || !test.pods.Contains(p.Addresses[0]) ||
					test.podCIDR && !n.PodCIDRs[0].Contains(p.Addresses[0]) {
					t.Errorf("%+v on %+v", p, n)
				}
				if who := taken[p.Addresses[0]]; who != "" {
					t.Errorf("%s has the address of %s", p.Name, who)
				}
				taken[p.Addresses[0]] = p.Name
			}
			if own != 6 {
				t.Errorf("%d pods with an address of their own", own)
			}
		})
	}
}

// TestDualStackNodes shows nodes and pods with addresses of both families. A node's IPv4 address is
// the first.
func TestDualStackNodes(t *testing.T) {
	b := newBench(t, Options{})
	b.put(aksID, `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet","ipFamilies":["IPv4","IPv6"]},"agentPoolProfiles":[{"name":"np","mode":"System","count":1}]}}`)
	nodes, pods := b.kubernetes(aksID)
	if n := nodes[0]; len(n.PodCIDRs) != 2 || len(n.Addresses) != 2 || !n.Addresses[0].Is4() ||
		!n.Addresses[1].Is6() {
		t.Errorf("%+v", n)
	}
	for _, p := range pods {
		if len(p.Addresses) != 2 {
			t.Errorf("%+v", p)
		}
	}
}

// unavailable are the reasons of the nodes' conditions NetworkUnavailable, in the nodes' order.
func (b *bench) unavailable() []string {
	b.t.Helper()
	var out []string
	nodes, _ := b.kubernetes(aksID)
	for _, n := range nodes {
		reason := "none"
		if c := n.NetworkUnavailable; c != nil {
			reason = fmt.Sprint(c.True, " ", c.Reason)
		}
		out = append(out, reason)
	}
	return out
}

// TestNetworkUnavailable follows the condition while routes are written, refused, and lost without
// the cloud provider noticing.
func TestNetworkUnavailable(t *testing.T) {
	const there = "false RouteCreated"
	synctest.Test(t, func(t *testing.T) {
		b := provided(t, Options{})
		if got := b.unavailable(); !slices.Equal(got, []string{there}) {
			t.Errorf("at the start %q", got)
		}
		b.touch()
		if err := b.e.Scale(aksID, "np", 2); err != nil {
			t.Fatal(err)
		}
		if got := b.unavailable(); !slices.Equal(got, []string{there, "none"}) {
			t.Errorf("before the check: %q", got)
		}
		time.Sleep(35 * time.Second)
		// cleared without the route (cloud-provider-azure#11003)
		if got := b.unavailable(); !slices.Equal(got, []string{there, there}) ||
			len(b.podRoutes(rt)) != 1 {
			t.Errorf("while writes fail %q", got)
		}
		time.Sleep(3 * time.Minute)
		if got := b.unavailable(); !slices.Equal(got, []string{there, there}) ||
			len(b.podRoutes(rt)) != 2 {
			t.Errorf("at the end %q", got)
		}
		// The routes are deleted while it is paused: nothing reports it.
		b.e.PauseRoutes(aksID, true)
		b.put(rt, `{"location":"westeurope"}`)
		if got := b.unavailable(); !slices.Equal(got, []string{there, there}) {
			t.Errorf("after the strip %q", got)
		}
	})
}

// TestAPIServerPages lists page by page, and forgets a list after five minutes.
func TestAPIServerPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withNetwork(t, Options{})
		b.put(aksID, clusterBody(``, `,"count":5`))
		_, whole := b.apiServer(aksID, http.MethodGet, "/api/v1/pods", "")
		var all []string
		next, last := "", ""
		for pages := 1; ; pages++ {
			_, doc := b.apiServer(aksID, http.MethodGet, "/api/v1/pods?limit=3&continue="+
				url.QueryEscape(next), "")
			for _, p := range kernel.ListAt(doc, "items") {
				all = append(all, kernel.Text(p, "metadata", "name"))
			}
			if pages == 1 {
				time.Sleep(4 * time.Minute) // counted from the first page
			}
			last = next
			if next = kernel.Text(doc, "metadata", "continue"); next == "" {
				if pages != 7 {
					t.Errorf("%d pages", pages)
				}
				break
			}
		}
		var want []string
		for _, p := range kernel.ListAt(whole, "items") {
			want = append(want, kernel.Text(p, "metadata", "name"))
		}
		if len(want) != 20 || !slices.Equal(all, want) {
			t.Errorf("%d by pages, %d at once", len(all), len(want))
		}
		b.sees(aksID, "/api/v1/pods?limit=3&continue=garbage", "", 400, "BadRequest")
		time.Sleep(time.Minute + time.Second)
		b.sees(aksID, "/api/v1/pods?limit=3&continue="+url.QueryEscape(last), "", 410, "Expired")
	})
}

// sees expects a Status from an API server.
func (b *bench) sees(cluster arm.ID, path, token string, status int, reason string) {
	b.t.Helper()
	got, doc := b.apiServer(cluster, http.MethodGet, path, token)
	if got != status || doc["kind"] != "Status" || kernel.Text(doc, "reason") != reason ||
		kernel.NumberOf(doc, "code") != status || kernel.Text(doc, "message") == "" {
		b.t.Errorf("GET %s: %d %s, want %d %s", path, got, kernel.Encode(doc), status, reason)
	}
}

// TestAPIServerRefuses asks for objects that do not exist, and without a valid token.
func TestAPIServerRefuses(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(``, ``))
	other := arm.ID(strings.TrimSuffix(string(aksID), "/c") + "/d")
	b.sees(aksID, "/api/v1/nodes", "stranger", 401, "Unauthorized")
	b.sees(aksID, "/api/v1/nodes", b.c.token, 401, "Unauthorized") // ARM's
	b.sees(aksID, "/api/v1/nodes", b.e.aks.APIServers.ClusterToken(other, "clusterUser"), 401,
		"Unauthorized")
	b.sees(aksID, "/api/v1/secrets", "", 404, "NotFound")
	b.sees(aksID, "/api/v1/nodes/missing", "", 404, "NotFound")
	b.sees(aksID, "/api/v1/namespaces/default/nodes", "", 404, "NotFound")
	b.inject(Fault{Path: "/api/v1/pods$", Status: 403, Code: "Forbidden",
		Message: `pods is forbidden: User "x" cannot list resource "pods" in API group "" at the cluster scope`, Count: 1})
	b.sees(aksID, "/api/v1/pods", "", 403, "Forbidden")
	if status, doc := b.apiServer(aksID, http.MethodDelete, "/api/v1/nodes/x", ""); status != 405 ||
		kernel.Text(doc, "reason") != "MethodNotAllowed" {
		t.Errorf("a delete: %d %s", status, kernel.Encode(doc))
	}
	nodes, _ := b.kubernetes(aksID)
	if status, doc := b.apiServer(aksID, http.MethodGet, "/api/v1/nodes/"+nodes[0].Name,
		""); status != 200 || doc["kind"] != "Node" {
		t.Errorf("one node: %d %s", status, kernel.Encode(doc))
	}
	if _, doc := b.apiServer(aksID, http.MethodGet, "/api/v1/namespaces/default/pods",
		""); len(kernel.ListAt(doc, "items")) != 1 {
		t.Errorf("pods of a namespace: %s", kernel.Encode(doc))
	}
	if status, doc := b.apiServer(aksID, http.MethodGet, "/version", ""); status != 200 ||
		doc["gitVersion"] != "v"+aks.KubernetesVersions[0] {
		t.Errorf("version: %d %s", status, kernel.Encode(doc))
	}
}

// TestAPIServerGone calls clusters that are stopped or never existed: they do not answer at all.
func TestAPIServerGone(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(``, ``))
	gone := func(cluster arm.ID) (gone bool) {
		defer func() { gone = recover() == http.ErrAbortHandler }()
		b.apiServer(cluster, http.MethodGet, "/api/v1/nodes", "")
		return false
	}
	if gone(aksID) || !gone(aksID+"none") {
		t.Error("the wrong cluster answers")
	}
	if status, code := b.try(http.MethodPost, aksID+"/stop", api, ""); status >= 300 {
		t.Fatal(status, code)
	}
	if !gone(aksID) {
		t.Error("a stopped cluster answers")
	}
	if status, code := b.try(http.MethodPost, aksID+"/start", api, ""); status >= 300 ||
		gone(aksID) {
		t.Errorf("after the start: %d %s", status, code)
	}
}

// TestKubeconfig reads the kubeconfigs of public and private clusters, and of ones without local
// accounts.
func TestKubeconfig(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(``, ``))
	config := func(call string) string {
		_, answer := b.c.Do(http.MethodPost, aksID+arm.ID("/"+call), api, nil)
		doc, _ := kernel.DecodeObject(answer)
		raw, err := base64.StdEncoding.DecodeString(
			kernel.Text(kernel.ListAt(doc, "kubeconfigs")[0], "value"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	fqdn := func(field string) string {
		return kernel.Text(b.get(aksID), "properties", field)
	}
	user, admin := config("listClusterUserCredential"), config("listClusterAdminCredential")
	for _, part := range []string{"server: " + aks.ApiServerURL("http://localhost", aksID),
		"tls-server-name: " + fqdn("fqdn"), "current-context: c\n", "token: " +
			b.e.aks.APIServers.ClusterToken(aksID, "clusterUser")} {
		if !strings.Contains(user, part) {
			t.Errorf("%s\nhas no %s", user, part)
		}
	}
	// az adds -admin
	if !strings.Contains(admin, "user: clusterAdmin_net-rg_c\n") ||
		!strings.Contains(admin, "current-context: c\n") ||
		strings.Contains(admin, b.e.aks.APIServers.ClusterToken(aksID, "clusterUser")) {
		t.Error(admin)
	}
	with := func(field string) string {
		return strings.Replace(clusterBody(``, ``), `"networkProfile"`, field+`,"networkProfile"`,
			1)
	}
	b.put(aksID, with(`"disableLocalAccounts":true,"aadProfile":{"managed":true}`))
	if entra := config("listClusterUserCredential"); !strings.Contains(entra,
		"command: kubelogin\n") || !strings.Contains(entra, "- "+aks.AksServer+"\n") ||
		strings.Contains(entra, "token:") {
		t.Error(entra)
	}
	b.refused(http.MethodPost, aksID+"/listClusterAdminCredential", "", 400, "BadRequest")
	b.put(aksID, with(
		`"apiServerAccessProfile":{"enablePrivateCluster":true,"enablePrivateClusterPublicFQDN":false}`))
	if private := fqdn("privateFQDN"); fqdn("fqdn") != "" || private == "" ||
		!strings.Contains(config("listClusterUserCredential"), "server: https://"+private+":443") {
		t.Errorf("fqdn %q, private %q", fqdn("fqdn"), private)
	}

	// Clients send no token over plain HTTP, so the kubeconfig names the TLS port.
	b.put(aksID, with(`"apiServerAccessProfile":{"enablePrivateCluster":false}`))
	server, err := b.e.Start(t.TempDir(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if plain := config("listClusterUserCredential"); !strings.Contains(plain, "server: "+
		aks.ApiServerURL(server.Info.HTTPS, aksID)+"\n") {
		t.Errorf("asked for over HTTP: %s", plain)
	}
	b.e.kernel.Server.HTTPS = "[::]:8443"
	for base, want := range map[string]string{
		"http://azure.example:8080": "https://azure.example:8443",
		"http://[::1]:8080":         "https://[::1]:8443",
		"https://azure.example":     "https://azure.example"} {
		if got := b.e.aks.APIServers.OverTLS(base); got != want {
			t.Errorf("%s is %s", base, got)
		}
	}
}

// TestKubernetesRestart keeps what the API server shows, and its tokens, over a restart.
func TestKubernetesRestart(t *testing.T) {
	opts := Options{StateFile: filepath.Join(t.TempDir(), "state.db")}
	first := withNetwork(t, opts)
	first.put(aksID, clusterBody(``, `,"count":2`))
	first.e.PauseRoutes(aksID, true)
	token := first.e.aks.APIServers.ClusterToken(aksID, "clusterUser")
	_, nodes := first.apiServer(aksID, http.MethodGet, "/api/v1/nodes", token)
	first.e.Close()
	e, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	status, after := (&bench{t: t, e: e}).apiServer(aksID, http.MethodGet, "/api/v1/nodes", token)
	if status != 200 ||
		string(kernel.Encode(after["items"])) != string(kernel.Encode(nodes["items"])) {
		t.Errorf("%d\n%s\nwant\n%s", status, kernel.Encode(after), kernel.Encode(nodes))
	}
}

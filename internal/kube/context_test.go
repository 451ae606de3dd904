package kube

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// contexts writes a kubeconfig with contexts for servers: "name server [tls-server-name]". The
// first is the current one.
func contexts(t *testing.T, lines ...string) string {
	t.Helper()
	var all, clusters strings.Builder
	for _, line := range lines {
		f := strings.Fields(line + " ")
		fmt.Fprintf(&all, "- {name: %s, context: {cluster: %[1]s, user: u}}\n", f[0])
		fmt.Fprintf(&clusters, "- {name: %s, cluster: {server: %q", f[0], f[1])
		if len(f) > 2 {
			fmt.Fprintf(&clusters, ", tls-server-name: %s", f[2])
		}
		clusters.WriteString("}}\n")
	}
	current, _, _ := strings.Cut(lines[0], " ")
	file := filepath.Join(t.TempDir(), "config")
	config := "apiVersion: v1\nkind: Config\ncurrent-context: " + current + "\ncontexts:\n" +
		all.String() + "clusters:\n" + clusters.String() + "users: [{name: u, user: {token: t}}]\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const shopHost = "shop-1a2b3c4d.hcp.westeurope.azmk8s.io"

// TestContext selects the context of the cluster, and never one of another cluster.
func TestContext(t *testing.T) {
	cluster := shop(t, "Shop-1a2b3c4d.hcp.westeurope.azmk8s.io")
	mine, other := "shop https://"+shopHost+
		":443", "other https://other-5e6f.hcp.westeurope.azmk8s.io:443"
	for name, test := range map[string]struct {
		contexts []string // by KUBECONFIG, a file each
		o        Options
		want     string // a context, or after "!" what the error says
	}{
		"the current one without a cluster": {[]string{other, mine}, Options{}, "other"},
		"the cluster's, not the current one": {[]string{other, mine}, Options{Cluster: cluster},
			"shop"},
		"the current one of two": {
			[]string{"z-admin https://" + shopHost, "a https://" + shopHost}, Options{
				Cluster: cluster}, "z-admin"},
		"through a tunnel": {[]string{other, "bastion https://localhost:44443 " + shopHost},
			Options{Cluster: cluster}, "bastion"},
		"named": {[]string{mine, other}, Options{Cluster: cluster, Context: "other"}, "other"},
		"none leads there": {[]string{other}, Options{Cluster: cluster},
			"!no kubeconfig context is for this cluster: "},
		"another host that begins the same": {[]string{"evil https://" + shopHost + ".example"},
			Options{Cluster: cluster},
			"!az aks get-credentials -g shop-rg -n shop --subscription "},
		"named, and not there": {[]string{mine, other}, Options{Context: "prod"},
			`!has no context "prod" (it has shop, other)`},
		"stopped": {[]string{mine},
			Options{Cluster: &inventory.Cluster{Document: cluster.Document, Stopped: true}},
			"!az aks start -g shop-rg -n shop --subscription " + cluster.ID.Subscription()},
		"a file that is not there, among two": {[]string{"", mine}, Options{Cluster: cluster},
			"shop"},
	} {
		t.Run(name, func(t *testing.T) {
			var files []string
			for _, c := range test.contexts {
				file := filepath.Join(t.TempDir(), "missing")
				if c != "" {
					file = contexts(t, c)
				}
				files = append(files, file)
			}
			t.Setenv("KUBECONFIG", strings.Join(files, string(filepath.ListSeparator)))
			c, err := Load(test.o)
			if part, fails := strings.CutPrefix(test.want, "!"); fails {
				says(t, err, part)
				if wanted := test.o.Cluster != nil &&
					!test.o.Cluster.Stopped; errors.Is(err, ErrNoContext) != wanted {
					t.Errorf("%v is ErrNoContext: %v", err, !wanted)
				}
				return
			}
			if err != nil || c.Context() != test.want {
				t.Fatalf("context %v, %v, want %s", c, err, test.want)
			}
		})
	}
}

// TestNoKubeconfig says how to get one.
func TestNoKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err := Load(Options{Cluster: shop(t, shopHost)})
	says(t, err, "az aks get-credentials -g shop-rg -n shop --subscription "+
		"5ab00000-0000-4000-8000-000000000001 --overwrite-existing")
	if !errors.Is(err, ErrNoContext) {
		t.Errorf("%v is not ErrNoContext", err)
	}
	_, err = Load(Options{})
	says(t, err, "no current context", "it has none")
	_, err = Load(Options{Kubeconfig: "/does/not/exist"})
	says(t, err, "/does/not/exist does not exist", "az aks get-credentials")

	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("{ this: [is no kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Load(Options{Kubeconfig: garbage})
	says(t, err, "kubeconfig", garbage)

	_, err = Load(Options{Kubeconfig: writeConfig(t, "half", "server: https://h",
		"client-certificate: gone.pem\n    client-key: gone.key")})
	says(t, err, "kubeconfig context half", "gone.pem")
	_, err = Load(Options{Kubeconfig: writeConfig(t, "old", "server: https://h",
		"auth-provider: {name: azure}")})
	says(t, err, "kubeconfig context old", "azure")
	_, err = Load(Options{Kubeconfig: writeConfig(t, "nowhere", "server: ':::'", "token: t")})
	says(t, err, "kubeconfig context nowhere", ":::")
}

// TestInCluster uses a pod's service account if there is no kubeconfig, and reports an error if
// there is none either.
func TestInCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	_, err := Load(Options{})
	says(t, err, "context in-cluster", "serviceaccount")
}

// TestWhoseNodes: an address that the cluster's document does not name is accepted only if its
// nodes' machines are the cluster's.
func TestWhoseNodes(t *testing.T) {
	nodes := func(items ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, listOf("Node", "", items...))
		}
	}
	no := func(w http.ResponseWriter, _ *http.Request) { status(w, 403, "Forbidden", "no") }
	for name, test := range map[string]struct {
		fqdn  string // the server is 127.0.0.1
		nodes http.HandlerFunc
		want  string // "": read
	}{
		"a tunnel to it": {shopHost, nodes(node("a", "mc_shop"), node("virtual", "")), ""},
		"a tunnel to another": {shopHost, nodes(node("a", "mc_other")),
			"is for another cluster than shop: its nodes' machines are not in MC_shop"},
		"a tunnel to an unknown cluster": {shopHost, nodes(node("a", "")),
			"may be for another cluster than shop"},
		"a tunnel to no nodes":      {shopHost, nodes(), "may be for another cluster than shop"},
		"a tunnel, nodes not shown": {shopHost, no, "verb list on the resource nodes is missing"},
		"its address":               {"127.0.0.1", nodes(node("a", "")), ""},
		"its address, no nodes":     {"127.0.0.1", nodes(), ""},
		"its address, others' nodes": {"127.0.0.1", nodes(node("a", "mc_other")),
			"is for another cluster"},
		"nothing known of its address": {"", nodes(node("a", "MC_shop")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := kubeconfig(t, serve(t, apiServer{nodes: test.nodes}), "token: t")
			k, err := load(t, Options{Kubeconfig: file, Cluster: shop(t, test.fqdn)}).Read(
				t.Context())
			if test.want != "" {
				says(t, err, test.want)
				return
			}
			if err != nil || k.Nodes == nil || k.Pods == nil {
				t.Errorf("read %+v, %v", k, err)
			}
		})
	}
}

package kube

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// shop is the expected cluster of these tests.
func shop(t *testing.T, fqdn string) *inventory.Cluster {
	t.Helper()
	c, err := inventory.DecodeCluster(fmt.Appendf(nil,
		`{"id":"/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/shop-rg/providers/Microsoft.ContainerService/managedClusters/shop",
		"properties":{"nodeResourceGroup":"MC_shop","fqdn":%q,"networkProfile":{"networkPlugin":"kubenet"}}}`, fqdn))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// node is a node whose machine is in a resource group, or whose machine is unknown.
func node(name, group string) string {
	provider := ""
	if group != "" {
		provider = "azure:///subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/" +
			group + "/providers/Microsoft.Compute/virtualMachineScaleSets/aks-np-vmss/virtualMachines/0"
	}
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"providerID":%q}}`, name, provider)
}

func listOf(kind, next string, items ...string) string {
	return fmt.Sprintf(
		`{"kind":"%sList","apiVersion":"v1","metadata":{"continue":%q},"items":[%s]}`, kind, next,
		strings.Join(items, ","))
}

func status(w http.ResponseWriter, code int, reason, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1",
		"status": "Failure", "code": code, "reason": reason, "message": message})
}

// apiServer is an API server with the test's answers; nil answers are empty lists.
type apiServer struct {
	nodes, pods http.HandlerFunc
}

func (a apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := map[string]http.HandlerFunc{"/api/v1/nodes": a.nodes,
		"/api/v1/pods": a.pods}[r.URL.Path]
	if answer != nil {
		answer(w, r)
		return
	}
	kind := map[string]string{"/api/v1/nodes": "Node", "/api/v1/pods": "Pod"}[r.URL.Path]
	if kind == "" {
		status(w, http.StatusNotFound, "NotFound",
			"the server could not find the requested resource")
		return
	}
	fmt.Fprint(w, listOf(kind, ""))
}

// kubeconfig writes a kubeconfig with one context, "here", and returns its file.
func kubeconfig(t *testing.T, server *httptest.Server, user string) string {
	t.Helper()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}))
	return writeConfig(t, "here",
		fmt.Sprintf("server: %s\n    certificate-authority-data: %s", server.URL, ca), user)
}

func writeConfig(t *testing.T, context, cluster, user string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: %[1]s
contexts: [{name: %[1]s, context: {cluster: %[1]s, user: %[1]s}}]
clusters:
- name: %[1]s
  cluster:
    %[2]s
users:
- name: %[1]s
  user:
    %[3]s
`, context, cluster, user)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	return server
}

func load(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	c.pause = time.Millisecond
	return c
}

// says checks that an error is one line that contains all parts.
func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}

// TestRefusals: the error and the next step for each answer of an API server that is not a list.
func TestRefusals(t *testing.T) {
	t.Parallel()
	forbidden := `nodes is forbidden: User "ann@shop.example" cannot list resource "nodes" in API group "" at the cluster scope`
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		says   []string
	}{
		"login refused": {func(w http.ResponseWriter, _ *http.Request) {
			status(w, 401, "Unauthorized", "Unauthorized")
		}, []string{"rejects the login (401 Unauthorized)", "az aks get-credentials -g " +
			"shop-rg -n shop"}},
		"right missing": {func(w http.ResponseWriter, _ *http.Request) {
			status(w, 403, "Forbidden", forbidden)
		}, []string{"verb list on the resource nodes is missing", "kubectl create clusterrole " +
			"routekeeper --verb=list --resource=nodes,pods", "--user=ann@shop.example"}},
		"a hostile name": {func(w http.ResponseWriter, _ *http.Request) {
			status(w, 403, "Forbidden", "User \"$(reboot)\" cannot")
		}, []string{"--user=NAME"}},
		"not found": {func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) },
			[]string{"404", "check the server"}},
		"broken": {func(w http.ResponseWriter, _ *http.Request) {
			status(w, 500, "InternalError", "etcd is\naway")
		}, []string{"500 etcd is away", "try again"}},
		"a login page": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://login.example/", http.StatusFound)
		}, []string{"redirects to https://login.example/", "not a Kubernetes API"}},
		"HTML": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html>hello</html>")
		}, []string{"did not answer with a list of nodes", "not JSON"}},
		"another list": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, listOf("Pod", ""))
		}, []string{"did not answer with a list of nodes", `"PodList"`, "NodeList"}},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			fmt.Fprint(w, "{")
		}, []string{"cut off", "--from-nodes"}},
		"an endless list": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, listOf("Node", "again"))
		}, []string{"does not end"}},
		"always gone": {func(w http.ResponseWriter, _ *http.Request) {
			status(w, 410, "Expired", "too old resource version")
		}, []string{"before it can be read to its end", "try again"}},
		"silence": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			[]string{"does not answer", "no answer within 2s", "--from-nodes and --from-pods"}},
		"half, silence": {func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, `{"kind":`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, []string{"cut off", "no answer within 2s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, apiServer{nodes: test.answer, pods: test.answer})
			wait := time.Minute // only silence waits as long as that
			if strings.Contains(name, "silence") {
				wait = 2 * time.Second
			}
			c := load(t, Options{Kubeconfig: kubeconfig(t, server, "token: t"),
				Cluster: shop(t, "127.0.0.1"), Timeout: wait})
			k, err := c.Read(t.Context())
			says(t, err, append(test.says, "the Kubernetes API of context here")...)
			if k != nil {
				t.Errorf("something was read all the same: %+v", k)
			}
		})
	}
}

// TestPartRefused reads what the server shows, and notes what it does not.
func TestPartRefused(t *testing.T) {
	no := func(w http.ResponseWriter, _ *http.Request) { status(w, 403, "Forbidden", "no") }
	one := func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, listOf("Node", "", node("a", "mc_SHOP")))
	}
	for name, test := range map[string]struct {
		server      apiServer
		nodes, pods int // -1: not read
	}{
		"pods":  {apiServer{nodes: one, pods: no}, 1, -1},
		"nodes": {apiServer{nodes: no}, -1, 0},
	} {
		k, err := load(t, Options{Kubeconfig: kubeconfig(t, serve(t, test.server), "token: t"),
			Cluster: shop(t, "127.0.0.1")}).Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if count(k.Nodes) != test.nodes || count(k.Pods) != test.pods || k.Failed != "" {
			t.Errorf("%s refused: read %+v", name, k)
		}
		if want := "does not show " + name; !strings.Contains(k.Note, want) {
			t.Errorf("the note %q does not say %q", k.Note, want)
		}
	}
}

// count is a list's length, or -1 if it was not read.
func count[T any](list []T) int {
	if list == nil {
		return -1
	}
	return len(list)
}

// TestGoneWhilePaging starts over if the snapshot of the first pages has expired, and drops those
// pages.
func TestGoneWhilePaging(t *testing.T) {
	asked := []string{}
	k, err := load(t, Options{
		Kubeconfig: kubeconfig(t,
			serve(t, apiServer{nodes: func(w http.ResponseWriter, r *http.Request) {
				next := r.URL.Query().Get("continue")
				asked = append(asked, next)
				switch {
				case r.URL.Query().Get("limit") != "500":
					status(w, 400, "BadRequest", "without a limit")
				case len(asked) == 1:
					fmt.Fprint(w, listOf("Node", "p&=2", node("gone", "")))
				case len(asked) == 2:
					status(w, 410, "Expired", "The provided continue parameter is too old")
				case next == "":
					fmt.Fprint(w, listOf("Node", "p&=2", node("c", ""), node("d", "")))
				default:
					fmt.Fprint(w, listOf("Node", "", node("b", "")))
				}
			}}), "token: t")}).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, n := range k.Nodes {
		names += n.Name
	}
	if names != "bcd" || strings.Join(asked, ",") != ",p&=2,,p&=2" {
		t.Errorf("read %q by asking for %q", names, asked)
	}
}

// TestBusy retries if the server is busy, and obeys Retry-After.
func TestBusy(t *testing.T) {
	t.Parallel()
	var at []time.Time
	_, err := load(t, Options{
		Kubeconfig: kubeconfig(t,
			serve(t, apiServer{nodes: func(w http.ResponseWriter, _ *http.Request) {
				if at = append(at, time.Now()); len(at) == 1 {
					w.Header().Set("Retry-After", "1")
					status(w, 429, "TooManyRequests", "later")
					return
				}
				fmt.Fprint(w, listOf("Node", ""))
			}}), "token: t")}).Read(t.Context())
	if err != nil || len(at) != 2 || at[1].Sub(at[0]) < time.Second {
		t.Errorf("%v, asked at %v", err, at)
	}
}

// TestUnreachable: the error names the alternative for private clusters.
func TestUnreachable(t *testing.T) {
	server := serve(t, apiServer{})
	file := kubeconfig(t, server, "token: t")
	server.Close()
	_, err := load(t, Options{Kubeconfig: file}).Read(t.Context())
	says(t, err, "does not answer at https://127.0.0.1:", "refused", "private cluster",
		"--from-nodes and --from-pods")

	file = writeConfig(t, "far", "server: https://shop.privatelink.westeurope.invalid", "token: t")
	_, err = load(t, Options{Kubeconfig: file}).Read(t.Context())
	says(t, err, "does not answer at https://shop.privatelink.westeurope.invalid", "--from-nodes")
}

// TestUntrusted: a server with another authority's certificate gets no call and no token.
func TestUntrusted(t *testing.T) {
	seen := false
	server := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen = true }))
	file := writeConfig(t, "here", "server: "+server.URL, "token: t")
	_, err := load(t, Options{Kubeconfig: file, Cluster: shop(t, "127.0.0.1")}).Read(t.Context())
	says(t, err, "certificate that the kubeconfig does not trust",
		"az aks get-credentials -g shop-rg -n shop")
	if seen {
		t.Error("an untrusted server was called")
	}
}

// TestPlugins logs in with exec plugins like kubelogin: working, failing, missing and hanging ones.
func TestPlugins(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: the plugins are shell scripts, and Windows has no shell for them")
	}
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			status(w, 401, "Unauthorized", "Unauthorized")
			return
		}
		apiServer{}.ServeHTTP(w, r)
	}))
	plugin := func(script string) string {
		file := filepath.Join(t.TempDir(), "kubelogin")
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
		return "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: " +
			"IfAvailable, command: " + file + "}"
	}
	token := func(value string) string {
		return `echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"` + value + `"}}'`
	}
	patience := time.Minute
	read := func(user string) error {
		ctx, cancel := context.WithTimeoutCause(t.Context(), patience,
			fmt.Errorf("patience is over"))
		defer cancel()
		_, err := load(t, Options{Kubeconfig: kubeconfig(t, server, user), Trusted: true,
			Timeout: time.Second}).Read(ctx)
		return err
	}
	// longer than the limit for an answer
	if err := read(plugin("sleep 1.2\n" + token("good"))); err != nil {
		t.Errorf("a good plugin: %v", err)
	}
	says(t, read(plugin(token("old"))), "rejects the login", "az login, or kubelogin remove-tokens")
	says(t, read(plugin("exit 1")), "kubelogin could not log in", "az login")
	says(t, read("exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, "+
		"command: not-there}"), "not-there could not log in", "not found")
	patience = time.Second
	says(t, read(plugin("sleep 2")), "patience is over")
}

// TestClientCertificate logs in with a client certificate, as the admin of an AKS cluster does.
func TestClientCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1),
		Subject: pkix.Name{CommonName: "masterclient"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	rawKey, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	data := func(kind string, raw []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind,
			Bytes: raw}))
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		if len(r.TLS.PeerCertificates) != 1 ||
			r.TLS.PeerCertificates[0].Subject.CommonName != "masterclient" {
			status(w, 401, "Unauthorized", "Unauthorized")
			return
		}
		apiServer{}.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	user := "client-certificate-data: " + data("CERTIFICATE", der) + "\n    client-key-data: " +
		data("EC PRIVATE KEY", rawKey)
	if k, err := load(t, Options{Kubeconfig: kubeconfig(t, server, user)}).Read(
		t.Context()); err != nil || k.Nodes == nil {
		t.Errorf("%+v, %v", k, err)
	}
	_, err = load(t, Options{Kubeconfig: kubeconfig(t, server, "{}")}).Read(t.Context())
	says(t, err, "rejects the login")
}

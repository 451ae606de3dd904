package kubernetes_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/emulator/kubernetes"
	"routekeeper.dev/routekeeper/internal/emulator/kubernetes/kubernetestest"
)

type object = map[string]any

// joined is an emulator with the demo's cluster on a real control plane, and kubectl.
type joined struct {
	t      *testing.T
	e      *emulator.Emulator
	demo   emulator.Demo
	k      *kubernetes.Kubernetes
	config string
	mu     sync.Mutex
	lost   map[[2]netip.Addr]bool // from, to
}

// join starts one, with the resources that build makes.
func join(t *testing.T, build ...func(*emulator.Client)) *joined {
	binaries := kubernetestest.Binaries(t)
	e := emulatortest.New(t, emulator.Options{RouteBatch: 50 * time.Millisecond})
	j := &joined{t: t, e: e, lost: map[[2]netip.Addr]bool{}}
	var err error
	if j.demo, err = emulator.BuildDemo(e, emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	for _, build := range build {
		client, err := e.Client(emulatortest.Keeper)
		if err != nil {
			t.Fatal(err)
		}
		build(client)
	}
	folder := t.TempDir()
	j.k, err = kubernetes.Join(e, kubernetes.Options{Binaries: binaries,
		Folder: filepath.Join(folder, "kubernetes"), Fresh: true,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Way: func(_ context.Context, p kubernetes.Packet) (string, error) {
			j.mu.Lock()
			defer j.mu.Unlock()
			if j.lost[[2]netip.Addr{p.From, p.To}] {
				return "lost by the test", nil
			}
			return "", nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.k.Close)
	server, err := e.Start(folder, "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	j.config = filepath.Join(folder, "config")
	j.credentials(j.demo.Cluster, "listClusterAdminCredential")
	return j
}

// credentials makes kubectl a user of a cluster.
func (j *joined) credentials(cluster arm.ID, call string) {
	client, err := j.e.Client(emulatortest.Keeper)
	if err != nil {
		j.t.Fatal(err)
	}
	status, body := client.Do(http.MethodPost, cluster+arm.ID("/"+call), "2025-10-01", nil)
	raw, err := base64.StdEncoding.DecodeString(gjson.GetBytes(body,
		"kubeconfigs.0.value").String())
	if status != 200 || err != nil {
		j.t.Fatal(status, err)
	}
	info, err := emulator.ReadInfo(filepath.Dir(j.config))
	if err != nil {
		j.t.Fatal(err)
	}
	text := strings.Replace(string(raw), "server: http://localhost/", "server: "+info.HTTPS+"/", 1)
	if err := os.WriteFile(j.config, []byte(text), 0o600); err != nil {
		j.t.Fatal(err)
	}
}

func (j *joined) command(args ...string) *exec.Cmd {
	c := exec.CommandContext(j.t.Context(), kubernetestest.Kubectl(j.t), args...)
	c.Env = append(os.Environ(), "KUBECONFIG="+j.config, "HOME="+filepath.Dir(j.config),
		"NO_PROXY=127.0.0.1")
	return c
}

func (j *joined) kubectl(args ...string) string {
	j.t.Helper()
	out, err := j.command(args...).CombinedOutput()
	if err != nil {
		j.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestKubectl runs common kubectl commands.
func TestKubectl(t *testing.T) {
	t.Parallel()
	j := join(t)
	j.kubectl("rollout", "status", "-n", "kube-system", "ds/kube-proxy", "--timeout=180s")
	j.kubectl("rollout", "status", "ds/web", "--timeout=180s")
	nodes := j.kubectl("get", "nodes", "-o", "json")
	if ready := gjson.Get(nodes, `items.#(status.conditions.#(type=="Ready").status=="True")#|#`).
		Int(); ready != 3 {
		t.Errorf("%d nodes are ready: %s", ready, nodes)
	}
	all := j.kubectl("get", "all", "-A", "-o", "wide")
	for _, line := range []string{
		`default +pod/web-\w+ +1/1 +Running +0 +\S+ +10\.244\.[012]\.\d+ +aks-`,
		`kube-system +pod/kube-proxy-\w+ +1/1 +Running +0 +\S+ +10\.42\.1\.[456] +aks-`,
		`default +service/kubernetes +ClusterIP`,
		`kube-system +daemonset\.apps/kube-proxy +3 +3 +3 +3 +3`,
	} {
		if !regexp.MustCompile(line).MatchString(all) {
			t.Errorf("no line %s in\n%s", line, all)
		}
	}

	// The objects that kubectl create makes, as a walk-through's manifest: applied, served,
	// changed, and deleted.
	manifest := filepath.Join(t.TempDir(), "hello.yaml")
	if err := os.WriteFile(manifest,
		[]byte(j.kubectl("create", "deployment", "nginx", "--image=nginx:1.29", "--port=80",
			"--replicas=3", "--dry-run=client", "-o", "yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	j.kubectl("apply", "-f", manifest)
	j.kubectl("expose", "deployment", "nginx", "--port=80")
	j.kubectl("rollout", "status", "deployment/nginx", "--timeout=180s")
	for _, what := range []string{"deployment/nginx", "service/nginx"} {
		if page := j.forward(what, "80", "/"); !strings.Contains(page,
			"is simulated by routekeeper emulator: nginx:1.29 does not run") {
			t.Errorf("the page of %s: %s", what, page)
		}
	}
	if log := j.kubectl("logs", "deployment/nginx", "--all-pods"); !strings.Contains(log,
		"nginx:1.29 does not run") || !strings.Contains(log, "GET /") {
		t.Errorf("logs: %s", log)
	}
	if page := j.kubectl("get", "--raw",
		"/api/v1/namespaces/default/services/nginx/proxy/"); !strings.Contains(page, "nginx:1.29") {
		t.Errorf("by the API server's proxy: %s", page)
	}
	if out, err := j.command("exec", "deployment/nginx", "--",
		"true").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "does not support exec") {
		t.Errorf("exec: %v %s", err, out)
	}
	// A service of type LoadBalancer gets an address, and its finalizer lets it go.
	j.kubectl("expose", "deployment", "nginx", "--name=outside", "--port=80", "--type=LoadBalancer")
	j.kubectl("wait", "--for=jsonpath={.status.loadBalancer.ingress[0].ip}", "service/outside",
		"--timeout=60s")
	j.kubectl("delete", "service/outside", "--timeout=30s")
	j.kubectl("delete", "-f", manifest, "--timeout=30s")
	j.kubectl("wait", "--for=delete", "pod", "-l", "app=nginx", "--timeout=30s")

	// Another token is refused, and a header gives no administrator rights.
	config, err := os.ReadFile(j.config)
	if err != nil {
		t.Fatal(err)
	}
	server := regexp.MustCompile(`server: (\S+)`).FindStringSubmatch(string(config))[1]
	for _, header := range []http.Header{
		{"X-Remote-User": {"someone"}, "X-Remote-Group": {"system:masters"}}, {
			"Authorization": {"Bearer stranger"}, "X-Remote-User": {"someone"}, "X-Remote-Group": {
				"system:masters"}},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			strings.Replace(server, "https:", "http:", 1)+"/api/v1/secrets", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		w := httptest.NewRecorder()
		j.e.Public().ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden {
			t.Errorf("with the headers %v: %d %s", header, w.Code, w.Body)
		}
	}
	if out, err := j.command("--token=stranger", "get", "nodes").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "must be logged in") {
		t.Errorf("with another token: %v %s", err, out)
	}
}

// TestNodesFollow scales, and stops the kubelet of a deleted node.
func TestNodesFollow(t *testing.T) {
	t.Parallel()
	j := join(t)
	j.kubectl("rollout", "status", "ds/web", "--timeout=180s")
	if err := j.e.Scale(j.demo.Cluster, j.demo.Pool, 5); err != nil {
		t.Fatal(err)
	}
	j.until("5", "get", "ds/web", "-o", "jsonpath={.status.numberReady}")
	if err := j.e.Scale(j.demo.Cluster, j.demo.Pool, 1); err != nil {
		t.Fatal(err)
	}
	j.until("1", "get", "ds/web", "-o", "jsonpath={.status.numberReady}")
	j.until("1", "get", "nodes", "-o", "go-template={{len .items}}")
	if pods := j.kubectl("get", "pods", "-A", "-o", "go-template={{len .items}}"); pods != "4" {
		t.Errorf("%s pods are left on one node, want 4", pods)
	}
	// A node that is created again with another pod CIDR has it in Kubernetes, too, where it never
	// changes.
	node := j.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
	before := j.kubectl("get", "node", node, "-o", "jsonpath={.status.addresses[0].address}")
	if err := j.e.Readdress(j.demo.Cluster, node); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if j.kubectl("get", "node", node, "-o",
			"jsonpath={.status.addresses[0].address}") != before {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the node keeps its address")
		}
	}
}

// TestPlugins checks the addresses of pods with addresses of the network, in two clusters at once,
// and pods that wait for a network.
func TestPlugins(t *testing.T) {
	t.Parallel()
	group := arm.ResourceID(emulator.DefaultSubscription, "flat-rg", arm.TypeVNet, "vnet").Group()
	vnet := arm.ResourceID(emulator.DefaultSubscription, "flat-rg", arm.TypeVNet, "vnet")
	named := func(name string) arm.ID {
		return arm.ResourceID(emulator.DefaultSubscription, "flat-rg", arm.TypeCluster, name)
	}
	j := join(t, func(c *emulator.Client) {
		put := func(id arm.ID, version string, body object) {
			if err := c.Put(id, version, body); err != nil {
				t.Fatal(err)
			}
		}
		put(group, "2024-03-01", object{"location": "westeurope"})
		subnet := func(name, prefix string) object {
			return object{"name": name, "properties": object{"addressPrefix": prefix}}
		}
		put(vnet, "2025-05-01", object{"location": "westeurope", "properties": object{
			"addressSpace": object{"addressPrefixes": []any{"10.20.0.0/16"}},
			"subnets":      []any{subnet("nodes", "10.20.1.0/24"), subnet("pods", "10.20.2.0/24")},
		}})
		for name, plugin := range map[string]string{"node-subnet": "azure", "pod-subnet": "azure",
			"bare": "none"} {
			pool := object{"name": "np", "mode": "System", "count": 2,
				"vnetSubnetID": string(vnet) + "/subnets/nodes"}
			if name == "pod-subnet" {
				pool["podSubnetID"] = string(vnet) + "/subnets/pods"
			}
			put(named(name), "2025-10-01",
				object{"location": "westeurope", "identity": object{"type": "SystemAssigned"},
					"properties": object{"agentPoolProfiles": []any{pool},
						"networkProfile": object{"networkPlugin": plugin,
							"serviceCidr": "172.16.0.0/16", "dnsServiceIP": "172.16.0.10"}}})
		}
	})
	const own = `{{range .items}}{{if not .spec.hostNetwork}}{{.status.phase}} {{.status.podIP}} {{.spec.nodeName}};{{end}}{{end}}`
	for name, where := range map[string]netip.Prefix{
		"node-subnet": netip.MustParsePrefix("10.20.1.0/24"), "pod-subnet": netip.MustParsePrefix(
			"10.20.2.0/24"), "bare": {},
	} {
		j.credentials(named(name), "listClusterAdminCredential")
		if !where.IsValid() {
			j.until("2", "get", "ds/kube-proxy", "-n", "kube-system", "-o",
				"jsonpath={.status.numberReady}")
			if got := j.kubectl("get", "nodes", "-o",
				`jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`); got != "False False" {
				t.Errorf("%s: nodes are ready: %s", name, got)
			}
			continue
		}
		j.kubectl("rollout", "status", "ds/web", "--timeout=180s")
		j.kubectl("rollout", "status", "-n", "kube-system", "ds/metrics-agent", "--timeout=180s")
		taken := map[string]bool{}
		for _, line := range strings.Split(strings.Trim(j.kubectl("get", "pods", "-A", "-o",
			"go-template="+own), ";"), ";") {
			words := strings.Fields(line)
			if len(words) != 3 || words[0] != "Running" || taken[words[1]] ||
				!where.Contains(netip.MustParseAddr(words[1])) {
				t.Errorf("%s: pod %q", name, line)
				continue
			}
			taken[words[1]] = true
		}
		for _, address := range strings.Fields(j.kubectl("get", "nodes", "-o",
			`jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`)) {
			if taken[address] {
				t.Errorf("%s: a pod has the address of a node, %s", name, address)
			}
			taken[address] = true
		}
		if len(taken) != 6 {
			t.Errorf("%s: %d addresses, want those of 4 pods and 2 nodes", name, len(taken))
		}
	}
}

// TestStopped keeps the objects of a cluster over a stop, and nothing over a delete.
func TestStopped(t *testing.T) {
	t.Parallel()
	id := arm.ResourceID(emulator.DefaultSubscription, "one-rg", arm.TypeCluster, "one")
	var c *emulator.Client
	put := func(id arm.ID, version string, body object) {
		if err := c.Put(id, version, body); err != nil {
			t.Fatal(err)
		}
	}
	make := func() {
		put(id, "2025-10-01",
			object{"location": "westeurope", "identity": object{"type": "SystemAssigned"},
				"properties": object{
					"agentPoolProfiles": []any{object{"name": "np", "mode": "System", "count": 1}},
					"networkProfile": object{"networkPlugin": "azure",
						"networkPluginMode": "overlay"}}})
	}
	do := func(method string, path arm.ID) {
		if status, body := c.Do(method, path, "2025-10-01", nil); status >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, status, body)
		}
	}
	j := join(t, func(client *emulator.Client) {
		c = client
		put(id.Group(), "2024-03-01", object{"location": "westeurope"})
		make()
	})
	j.credentials(id, "listClusterAdminCredential")
	j.kubectl("create", "namespace", "mine")
	do(http.MethodPost, id+"/stop")
	if out, err := j.command("get", "namespace", "mine").CombinedOutput(); err == nil {
		t.Errorf("a stopped cluster answers: %s", out)
	}
	do(http.MethodPost, id+"/start")
	j.kubectl("get", "namespace", "mine")
	j.kubectl("rollout", "status", "ds/web", "--timeout=180s")
	do(http.MethodDelete, id)
	make()
	j.credentials(id, "listClusterAdminCredential")
	if out, err := j.command("get", "namespace", "mine").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "NotFound") {
		t.Errorf("another cluster has what the deleted one had: %v %s", err, out)
	}
}

// until runs kubectl until it prints the wanted output.
func (j *joined) until(want string, args ...string) {
	j.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		got := j.kubectl(args...)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			j.t.Fatalf("kubectl %s: %s, want %s", strings.Join(args, " "), got, want)
		}
	}
}

// forward gets a page by kubectl port-forward.
func (j *joined) forward(what, port, path string, more ...string) string {
	j.t.Helper()
	c := j.command(append([]string{"port-forward", what, ":" + port}, more...)...)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		j.t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n') // Forwarding from 127.0.0.1:40000 -> 80
	at := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if err != nil || at == "" {
		j.t.Fatalf("port-forward: %v %s", err, line)
	}
	response, err := http.Get("http://" + at + path)
	if err != nil {
		j.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		j.t.Fatal(err)
	}
	return string(body)
}

package cli

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"sigs.k8s.io/yaml"
)

// charted is where the module release keeps the chart, rendered.
var charted = filepath.Join(docsAt, "release", "testdata", "chart")

// documents are the YAML documents of a file, by kind.
func documents(t *testing.T, path string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, doc := range regexp.MustCompile(`(?m)^---\r?$`).Split(string(raw), -1) {
		if kind := regexp.MustCompile(`(?m)^kind: (\w+)`).FindStringSubmatch(doc); kind != nil {
			all[kind[1]] += "---\n" + doc
		}
	}
	return all
}

// deployed is the chart's Deployment, as JSON.
func deployed(t *testing.T, variant string) gjson.Result {
	t.Helper()
	text := strings.TrimPrefix(documents(t, filepath.Join(charted, variant))["Deployment"], "---\n")
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return gjson.ParseBytes(raw)
}

// TestChart: the API server takes all that the chart renders. The controller has exactly the rights
// of the chart's service account, and works with the chart's arguments.
func TestChart(t *testing.T) {
	t.Parallel()
	m := newManaged(t)
	m.kube("create", "namespace", "routekeeper")
	for _, variant := range []string{"aks", "everything", "secret"} {
		docs := documents(t, filepath.Join(charted, variant+".yaml"))
		// The API server does not have these kinds: the module release checks them.
		delete(docs, "ServiceMonitor")
		delete(docs, "PrometheusRule")
		all := m.write(variant+".yaml", strings.Join(slices.Sorted(maps.Values(docs)), ""))
		m.kube("apply", "--server-side", "--force-conflicts", "--dry-run=server",
			"--validate=strict", "-f", all)
	}
	m.kube("apply", "--server-side", "--force-conflicts", "-f", filepath.Join(charted, "aks.yaml"))
	m.kube("apply", "--dry-run=server", "--validate=strict", "-f",
		filepath.Join(charted, "aks.test.yaml"))

	m.testRoles()

	// Two replicas do not share a node.
	m.until("scheduled", func() bool {
		nodes := strings.Fields(m.kube("get", "pods", "-n", "routekeeper", "-o",
			"jsonpath={.items[*].spec.nodeName}"))
		slices.Sort(nodes)
		return len(nodes) == 2 && len(slices.Compact(nodes)) == 2
	})

	token := strings.TrimSpace(m.kube("create", "token", "routekeeper", "-n", "routekeeper"))
	raw, err := os.ReadFile(filepath.Join(m.dir, "kube.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	users := regexp.MustCompile(`(?s)\nusers:\n.*?\n(\w|$)`)
	if !users.Match(raw) {
		t.Fatalf("no users in\n%s", raw)
	}
	name := regexp.MustCompile(`\n\s+user: (\S+)`).FindSubmatch(raw)
	m.write("account.yaml", users.ReplaceAllString(string(raw), "\nusers:\n- name: "+
		string(name[1])+"\n  user: {token: "+token+"}\n$1"))

	args := []string{"--emulator", m.az}
	for _, a := range deployed(t, "aks.yaml").Get("spec.template.spec.containers.0.args").Array() {
		flag, _, _ := strings.Cut(a.String(), "=")
		switch flag {
		case "--listen", "--health":
			args = append(args, flag+"=127.0.0.1:0")
		case "--history":
			args = append(args, flag+"="+filepath.Join(m.dir, "history.db"))
		case "--interval":
			args = append(args, flag+"=1s")
		default:
			args = append(args, a.String())
		}
	}
	args = append(args, "--kubeconfig", filepath.Join(m.dir, "account.yaml"), "--namespace",
		"routekeeper", "--inside")
	log, err := os.Create(filepath.Join(m.dir, "it.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	const of = "clusterroutes/shop"
	if out, err := m.plugin("status"); err == nil || !strings.Contains(out, "?  default.shop") ||
		!strings.Contains(out, "No controller runs") {
		t.Errorf("before a controller runs, the status is %s, %v", out, err)
	}
	c := exec.Command(controllerOf(t), args...)
	c.Stderr = log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
	}()
	m.kube("delete", of)
	m.kube("apply", "-n", "routekeeper", "-f", filepath.Join(m.dir, "routes.yaml"))
	m.kube("patch", "-n", "routekeeper", of, "--type", "merge", "-p",
		`{"spec":{"onRemoval":"Prune"}}`)
	m.kube("wait", "-n", "routekeeper", "--for", "jsonpath={.status.routes}=3/3", "--timeout",
		"60s", of)
	m.testStatus()
	m.until("in an Event", func() bool {
		return strings.Contains(m.kube("get", "events", "-n", "routekeeper"), "routes created (3)")
	})
	// An Event that happens again is counted, which is another right.
	for _, n := range []int{4, 3, 4} {
		if err := m.scale(n); err != nil {
			t.Fatal(err)
		}
		m.until("scaled", func() bool { return m.copies() == n })
	}
	m.until("counted", func() bool {
		return m.kube("get", "events.events.k8s.io", "-n", "routekeeper", "-o",
			"jsonpath={.items[*].series.count}") != ""
	})
	m.kube("wait", "-n", "routekeeper", "--for",
		"jsonpath={.metadata.finalizers[0]}=routekeeper.dev/removal", "--timeout", "60s", of)
	m.kube("delete", "-n", "routekeeper", of, "--timeout", "60s")
	m.until("pruned", func() bool { return m.copies() == 0 })
	if strings.Contains(m.logs(), "forbidden") {
		t.Errorf("a right is missing\n%s", m.logs())
	}
}

// testRoles: the roles of Kubernetes have the rights to the objects, and with watchNamespaces the
// controller has its rights to write only there.
func (m *managed) testRoles() {
	m.t.Helper()
	docs := documents(m.t, filepath.Join(charted, "everything.yaml"))
	m.kube("apply", "-f", m.write("roles.yaml", docs["Role"]+docs["RoleBinding"]+
		docs["ClusterRole"]+docs["ClusterRoleBinding"]))
	m.kube("create", "namespace", "team")
	for _, who := range []string{"view", "edit"} {
		m.kube("create", "rolebinding", who, "-n", "team", "--clusterrole", who, "--user", who)
	}
	const controller = "system:serviceaccount:routekeeper:keeper"
	may := func(who, verb, namespace string) bool {
		return exec.Command(m.kubectl, "--kubeconfig", filepath.Join(m.dir, "kube.yaml"), "auth",
			"can-i", verb, "clusterroutes", "-n", namespace, "--as", who).Run() == nil
	}
	m.until("aggregated", func() bool {
		return may("view", "watch", "team") && may("edit", "delete", "team")
	})
	if may("view", "create", "team") || may("edit", "get", "default") {
		m.t.Error("people have more rights than their role")
	}
	if !may(controller, "patch", "default") || !may(controller, "list", "team") ||
		may(controller, "patch", "team") {
		m.t.Error("the controller has other rights than in its namespaces")
	}
}

// testStatus: helm test's pod, with its rights, and kubectl's plugin show the status.
func (m *managed) testStatus() {
	m.t.Helper()
	raw, err := os.ReadFile(filepath.Join(charted, "aks.test.yaml"))
	if err != nil {
		m.t.Fatal(err)
	}
	args := regexp.MustCompile(`args: \[(.*)\]`).FindSubmatch(raw)
	m.until("seen by helm test", func() bool {
		out, err := exec.Command(controllerOf(m.t), append(strings.Split(string(args[1]), ", "),
			"--kubeconfig", filepath.Join(m.dir, "account.yaml"))...).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "routekeeper.shop") {
			m.t.Fatalf("helm test: %v\n%s", err, out)
		}
		return err == nil
	})
	out, err := m.plugin("status")
	want := regexp.MustCompile(
		`^✓  routekeeper\.shop  in-sync    all 6 pod routes are correct \(3/3 routes\); ` +
			`the cluster's egress is in .*\n` +
			`The controller is \S+ in namespace routekeeper\.\n$`)
	if err != nil || !want.MatchString(out) {
		m.t.Errorf("kubectl routekeeper status: %v, %s", err, out)
	}
}

// plugin runs kubectl routekeeper.
func (m *managed) plugin(args ...string) (string, error) {
	c := exec.Command(m.kubectl, append([]string{"routekeeper"}, args...)...)
	c.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(m.dir, "kube.yaml"))
	out, err := c.CombinedOutput()
	return string(out), err
}

package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/kubernetes/kubernetestest"
)

// managed is an emulator whose demo cluster has a real API server with a ClusterRoutes object.
type managed struct {
	*azureOf
	t       *testing.T
	dir, az string
	kubectl string
}

func newManaged(t *testing.T) *managed {
	m := &managed{t: t, dir: t.TempDir(), kubectl: kubernetestest.Kubectl(t)}
	m.az = filepath.Join(m.dir, "az")
	a, server, err := startAzure(m.az, true, emulator.Options{}, func(e *emulator.Emulator) error {
		o := emulatorOptions{dir: m.az, apiServer: kubernetestest.Binaries(t).APIServer}
		k, err := playKubernetes(e, o, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Cleanup(k.Close)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		a.e.Close()
	})
	m.azureOf = a
	text, err := a.kubeconfig(m.az, a.demo.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	m.write("kube.yaml", text)
	m.write("crd.yaml", string(v1alpha1.CRD))
	routes := filepath.Join(m.dir, "routes.yaml")
	routekeeper(t, "--emulator", m.az, "init", "--cluster", string(a.demo.Cluster), "--out", routes)
	routekeeper(t, "--emulator", m.az, "promote", "shop", "-f", routes, "--yes")
	m.kube("apply", "-f", filepath.Join(m.dir, "crd.yaml"))
	m.kube("wait", "--for", "condition=established", "--timeout", "30s",
		"crd/clusterroutes.routekeeper.dev")
	m.kube("apply", "-f", routes)
	return m
}

func (m *managed) write(name, text string) string {
	path := filepath.Join(m.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// kube runs kubectl.
func (m *managed) kube(args ...string) string {
	m.t.Helper()
	out, err := exec.Command(m.kubectl, append([]string{"--kubeconfig",
		filepath.Join(m.dir, "kube.yaml"), "--cache-dir", filepath.Join(m.dir, "cache")},
		args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, m.logs())
	}
	return string(out)
}

func (m *managed) logs() string {
	var all strings.Builder
	names, _ := filepath.Glob(filepath.Join(m.dir, "*.log"))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		fmt.Fprintf(&all, "%s:\n%s\n", name, text)
	}
	return all.String()
}

// buildController builds routekeeper-controller where the tests' own routekeeper is, so that
// scripts find it, too. This package does not link it.
var buildController = sync.OnceValues(func() (string, error) {
	self, err := exec.LookPath("routekeeper")
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), controllerProgram+filepath.Ext(self))
	c := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "../../cmd/"+controllerProgram)
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func controllerOf(t testing.TB) string {
	t.Helper()
	path, err := buildController()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// controller starts a replica.
func (m *managed) controller(name, kubeconfig string, more ...string) *exec.Cmd {
	m.t.Helper()
	c := exec.Command(controllerOf(m.t), append([]string{"--emulator", m.az, "--kubeconfig",
		filepath.Join(m.dir, kubeconfig), "--interval", "1s", "--lease", "4s"},
		more...)...)
	log, err := os.Create(filepath.Join(m.dir, name+".log"))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { log.Close() })
	c.Stderr = log
	if err := c.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
	})
	return c
}

// until waits for something.
func (m *managed) until(what string, is func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("still not %s\n%s", what, m.logs())
		}
	}
}

// copies is how many pod routes the target has.
func (m *managed) copies() int {
	lines, err := m.routes(m.demo.GatewayTable)
	if err != nil {
		m.t.Fatal(err)
	}
	return len(lines) - 1 // one is not managed
}

// writes is how many PUTs of the target replicas have made since a request.
func (m *managed) writes(since int) int {
	n := 0
	for _, r := range m.e.Requests(since) {
		if r.Method == "PUT" && r.Principal == emulator.DefaultPrincipal.Name &&
			strings.HasSuffix(strings.ToLower(r.Path), strings.ToLower("/"+
				m.demo.GatewayTable.Name())) {
			n++
		}
	}
	return n
}

func (m *managed) inject(f emulator.Fault) {
	m.t.Helper()
	f.Principal, f.Method, f.Path = emulator.DefaultPrincipal.Name, "PUT",
		"routeTables/"+m.demo.GatewayTable.Name()
	if _, err := m.e.Inject(f); err != nil {
		m.t.Fatal(err)
	}
}

// TestControllers: of two replicas one writes. Where it is killed in the middle of a write, or told
// to end, the other finishes, and nothing is written twice.
func TestControllers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: Go cannot send an interrupt to a process on Windows")
	}
	t.Parallel()
	m := newManaged(t)
	leader := m.controller("0", "kube.yaml")
	m.until("in sync", func() bool { return m.copies() == 3 })
	nodes := 3
	for i, c := range []struct {
		name   string
		fault  emulator.Fault
		kill   os.Signal
		writes int // by both
	}{
		{"killed before a write takes effect", emulator.Fault{Hold: "before"}, os.Kill, 2},
		{"killed after a write took effect", emulator.Fault{Hold: "after"}, os.Kill, 1},
		{"interrupted while a write continues", emulator.Fault{Slow: 3}, os.Interrupt, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := m.controller(fmt.Sprint(i+1), "kube.yaml")
			log := filepath.Join(m.dir, fmt.Sprint(i+1)+".log")
			m.until("a second replica", func() bool {
				text, err := os.ReadFile(log)
				return err == nil && strings.Contains(string(text), "waiting for the lease")
			})
			m.inject(c.fault)
			since := m.e.LastRequest()
			nodes++
			if err := m.scale(nodes); err != nil {
				t.Fatal(err)
			}
			m.until("writing", func() bool {
				f := m.e.Faults()[0]
				return f.Fired > 0 && (f.Held > 0 || f.Hold == "")
			})
			if err := leader.Process.Signal(c.kill); err != nil {
				t.Fatal(err)
			}
			_ = leader.Wait() // it was killed
			if err := m.strip(m.demo.NodeSubnet); err != nil {
				t.Fatal(err)
			}
			m.e.ClearFaults()
			m.until("finished by the other", func() bool {
				table, err := m.op.Get(m.demo.NodeSubnet, "2025-05-01")
				return err == nil && m.copies() == nodes &&
					table["properties"].(map[string]any)["routeTable"] != nil
			})
			m.kube("wait", "--for", fmt.Sprintf("jsonpath={.status.routes}=%d/%d", nodes, nodes),
				"--timeout", "60s", "clusterroutes/shop")
			if got := m.writes(since); got != c.writes {
				t.Errorf("the target was written %d times, want %d\n%s", got, c.writes, m.logs())
			}
			leader = next
		})
	}
}

// TestControllerWithoutAPI: a controller that loses the API server writes no routes, and puts lost
// tables back. It sends word of that, to another place once its file names another one.
func TestControllerWithoutAPI(t *testing.T) {
	t.Parallel()
	m := newManaged(t)
	raw, err := os.ReadFile(filepath.Join(m.dir, "kube.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	server := regexp.MustCompile(`server: (\S+)`).FindStringSubmatch(string(raw))
	address, err := url.Parse(server[1])
	if err != nil {
		t.Fatal(err)
	}
	way := newWay(t, address.Host)
	m.write("way.yaml", strings.ReplaceAll(string(raw), address.Host, way.address()))
	places := newPlaces(t)
	notify := m.write("notify.yaml", places.document(m, "team"))
	m.controller("it", "way.yaml", "--notify", notify)
	m.until("in sync", func() bool { return m.copies() == 3 })
	way.cut(true)
	time.Sleep(4 * time.Second) // the lease
	since := m.e.LastRequest()
	if err := m.scale(5); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.strip(m.demo.NodeSubnet); err != nil {
			t.Fatal(err)
		}
		m.until("put back", func() bool {
			return strings.Contains(m.document(t, m.demo.NodeSubnet), `"routeTable"`)
		})
	}
	m.until("reported", func() bool {
		return strings.Contains(m.logs(), "2 changes to appgw-rt are withheld: the Kubernetes API")
	})
	reported := m.e.LastRequest()
	m.until("checking", func() bool { // so that whole checks have ended since
		reads := 0
		for _, r := range m.e.Requests(reported) {
			if r.Method == "GET" && strings.Contains(strings.ToLower(r.Path), "/routetables") {
				reads++
			}
		}
		return reads >= 6
	})
	if n := m.writes(since); n != 0 || m.copies() != 3 {
		t.Errorf("the target was written %d times and has %d routes\n%s", n, m.copies(), m.logs())
	}
	m.until("said", func() bool { return places.told("team", "nodes has its route table") })
	m.write("notify.yaml", "kind: Notify\n")
	m.until("refused", func() bool {
		return strings.Contains(m.logs(), "has an error; the old one")
	})
	m.write("notify.yaml", places.document(m, "second"))
	m.until("read", func() bool {
		return strings.Contains(m.logs(), "without changes to clusters")
	})
	if err := m.strip(m.demo.NodeSubnet); err != nil {
		t.Fatal(err)
	}
	way.cut(false)
	m.until("in sync again", func() bool { return m.copies() == 5 })
	m.kube("wait", "--for", "jsonpath={.status.routes}=5/5", "--timeout", "60s",
		"clusterroutes/shop")
	m.until("said to the second place", func() bool {
		return places.told("second", "nodes has its route table")
	})
}

// places take messages at /NAME.
type places struct {
	*httptest.Server
	mu  sync.Mutex
	got map[string]string
}

func newPlaces(t *testing.T) *places {
	p := &places{got: map[string]string{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.got[r.URL.Path] += string(raw)
	}))
	t.Cleanup(p.Close)
	return p
}

// document is a Notify document with one place.
func (p *places) document(m *managed, name string) string {
	file := m.write(name+".url", p.URL+"/"+name)
	return "apiVersion: routekeeper.dev/v1alpha1\nkind: Notify\nspec:\n  places:\n  - name: " +
		name + "\n    type: Webhook\n    urlFile: " + file + "\n"
}

func (p *places) told(name, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(p.got["/"+name], text)
}

// way passes connections on, as long as it is not cut.
type way struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	is   bool // cut
	open map[net.Conn]bool
}

func newWay(t *testing.T, to string) *way {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{listener: l, to: to, open: map[net.Conn]bool{}}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.pass(c)
		}
	}()
	return w
}

func (w *way) address() string { return w.listener.Addr().String() }

func (w *way) pass(c net.Conn) {
	defer c.Close()
	w.mu.Lock()
	if w.is {
		w.mu.Unlock()
		return
	}
	w.open[c] = true
	w.mu.Unlock()
	there, err := new(net.Dialer).DialContext(context.Background(), "tcp", w.to)
	if err != nil {
		return
	}
	defer there.Close()
	go func() {
		_, _ = io.Copy(there, c) // it ends with the connection
		there.Close()
	}()
	_, _ = io.Copy(c, there)
}

func (w *way) cut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.is = cut
	for c := range w.open {
		c.Close()
	}
	w.open = map[net.Conn]bool{}
}

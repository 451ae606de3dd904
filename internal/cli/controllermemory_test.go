package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/kubernetes/kubernetestest"
)

const (
	memoryPools = 5
	memoryNodes = 1000 // of each pool; the most that AKS allows
)

// BenchmarkControllerMemory measures the memory of routekeeper-controller in a separate process.
// It follows an Azure CNI Overlay cluster of 5,000 nodes on a real API server. Each node names 50
// images, as a kubelet does by default: most of a node's document is their names. It takes some
// minutes:
//
//	go test ./internal/cli -run '^$' -bench ControllerMemory -benchtime 1x
//
// It reports the memory at rest, and the most since the start, when the nodes are listed.
func BenchmarkControllerMemory(b *testing.B) {
	for b.Loop() {
		m := newCrowd(b)
		c := exec.Command(controllerOf(b), "--emulator", m.az, "--kubeconfig",
			filepath.Join(m.dir, "kube.yaml"), "--nodes-kubeconfig",
			filepath.Join(m.dir, "kube.yaml"), "--trust-kubeconfig", "--max-changes-per-minute",
			"0")
		log, err := os.Create(filepath.Join(m.dir, "controller.log"))
		if err != nil {
			b.Fatal(err)
		}
		c.Stderr = log
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = c.Process.Kill() // it may have ended
			_ = c.Wait()
			log.Close()
		})
		began := time.Now()
		for m.copies() < 400 { // the target is full
			if time.Sleep(100 * time.Millisecond); time.Since(began) > 2*time.Minute {
				text, _ := os.ReadFile(log.Name())
				b.Fatalf("the target has %d routes:\n%s", m.copies(), text[max(0, len(text)-4000):])
			}
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/target-full")
		before := usage(b, c.Process.Pid)
		const rest = time.Minute
		time.Sleep(rest)
		if after := usage(b, c.Process.Pid); after != nil {
			b.ReportMetric(after.resident, "MiB-resident")
			b.ReportMetric(after.peak, "MiB-peak")
			b.ReportMetric(100*(after.cpu-before.cpu).Seconds()/rest.Seconds(), "%-of-a-core")
		}
	}
}

// crowd is an emulator with a cluster of 5,000 nodes on a real API server.
type crowd struct {
	*azureOf
	b       *testing.B
	dir, az string
	target  arm.ID
}

func newCrowd(b *testing.B) *crowd {
	m := &crowd{b: b, dir: b.TempDir()}
	m.az = filepath.Join(m.dir, "az")
	must := func(err error) {
		if b.Helper(); err != nil {
			b.Fatal(err)
		}
	}
	a, server, err := startAzure(m.az, false, emulator.Options{LogBodies: 1},
		func(e *emulator.Emulator) error {
			o := emulatorOptions{dir: m.az, apiServer: kubernetestest.Binaries(b).APIServer}
			k, err := playKubernetes(e, o, slog.New(slog.DiscardHandler))
			if err == nil {
				b.Cleanup(k.Close)
			}
			return err
		})
	must(err)
	b.Cleanup(func() {
		server.Close()
		a.e.Close()
	})
	m.azureOf = a
	cluster := m.build()
	text, err := a.kubeconfig(m.az, cluster)
	must(err)
	must(os.WriteFile(filepath.Join(m.dir, "kube.yaml"), []byte(text), 0o600))
	// The API server answers once the emulator has written the nodes.
	for began := time.Now(); ; time.Sleep(time.Second) {
		if _, err := m.kubectl(nil, "get", "--raw", "/readyz"); err == nil {
			break
		} else if time.Since(began) > 30*time.Minute {
			b.Fatal(err)
		}
	}
	m.kube(strings.NewReader(string(v1alpha1.CRD)), "apply", "-f", "-")
	m.kube(nil, "wait", "--for", "condition=established", "--timeout", "30s",
		"crd/clusterroutes.routekeeper.dev")
	m.kube(strings.NewReader(fmt.Sprintf("apiVersion: routekeeper.dev/v1alpha1\nkind: "+
		"ClusterRoutes\nmetadata: {name: crowd}\nspec:\n  clusterID: %s\n  source: Nodes\n  "+
		"targets: [{routeTableID: %s, maxRoutes: 400}]\n", cluster, m.target)), "apply", "-f", "-")
	for began := time.Now(); ; time.Sleep(time.Second) {
		if n := strings.Count(m.kube(nil, "get", "nodes", "-o", "name"), "\n"); n ==
			memoryPools*memoryNodes {
			break
		} else if time.Since(began) > 30*time.Minute {
			b.Fatalf("after %s the API server has %d nodes", time.Since(began), n)
		}
	}
	m.fill()
	return m
}

// build makes the network, the target and the cluster.
func (m *crowd) build() (cluster arm.ID) {
	type object = map[string]any
	id := func(kind, name string) arm.ID {
		return arm.ResourceID(emulator.DefaultSubscription, "crowd-rg", kind, name)
	}
	put := func(id arm.ID, version string, properties object) {
		if err := m.op.Put(id, version,
			object{"location": "westeurope", "properties": properties}); err != nil {
			m.b.Fatal(err)
		}
	}
	cluster, m.target = id(arm.TypeCluster, "crowd"), id(arm.TypeRouteTable, "target")
	vnet := id(arm.TypeVNet, "vnet")
	put(cluster.Group(), "2024-03-01", nil)
	put(m.target, "2025-05-01", object{"routes": []any{}})
	put(vnet, "2025-05-01", object{
		"addressSpace": object{"addressPrefixes": []any{"10.64.0.0/16"}}, "subnets": []any{
			object{"name": "nodes", "properties": object{"addressPrefix": "10.64.0.0/18"}}}})
	var pools []any
	for n := range memoryPools {
		pools = append(pools, object{"name": fmt.Sprintf("np%d", n), "mode": "System",
			"count": memoryNodes, "vnetSubnetID": string(vnet.Child("subnets", "nodes"))})
	}
	put(cluster, "2025-10-01", object{"agentPoolProfiles": pools, "networkProfile": object{
		"networkPlugin": "azure", "networkPluginMode": "overlay", "podCidr": "10.128.0.0/9"}})
	return cluster
}

// fill gives every node the names of 50 images of the usual length.
func (m *crowd) fill() {
	var images []any
	for n := range 50 {
		name := fmt.Sprintf("mcr.microsoft.com/oss/kubernetes/component-number-%02d", n)
		images = append(images, map[string]any{"sizeBytes": 100_000_000 - n, "names": []any{
			fmt.Sprintf("%s@sha256:%064x", name, n), name + ":v1.2.3-20261122"}})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"images": images}})
	if err != nil {
		m.b.Fatal(err)
	}
	names := strings.Fields(m.kube(nil, "get", "nodes", "-o", "name"))
	address, stop := m.proxy()
	defer stop()
	var all errgroup.Group
	all.SetLimit(8)
	for _, name := range names {
		all.Go(func() error {
			request, err := http.NewRequest(http.MethodPatch, address+"/api/v1/nodes/"+
				strings.TrimPrefix(name, "node/")+"/status", bytes.NewReader(patch))
			if err != nil {
				return err
			}
			request.Header.Set("Content-Type", "application/merge-patch+json")
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode !=
				http.StatusOK {
				return fmt.Errorf("%s: %s %w", name, response.Status, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		m.b.Fatal(err)
	}
}

// proxy runs kubectl proxy, which logs in for others: kubectl itself would take hours for so many
// objects.
func (m *crowd) proxy() (address string, stop func()) {
	c := m.command("proxy", "--port", "0", "--append-server-path")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		m.b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, at, found := strings.Cut(strings.TrimSpace(line), "Starting to serve on ")
	if !found {
		m.b.Fatalf("kubectl proxy says %q: %v", line, err)
	}
	return "http://" + at, func() {
		_ = c.Process.Kill() // it ends no other way
		_ = c.Wait()
	}
}

// kube runs kubectl, which must succeed.
func (m *crowd) kube(in io.Reader, args ...string) string {
	m.b.Helper()
	out, err := m.kubectl(in, args...)
	if err != nil {
		m.b.Fatal(err)
	}
	return out
}

func (m *crowd) kubectl(in io.Reader, args ...string) (string, error) {
	c := m.command(args...)
	var errors strings.Builder
	c.Stdin, c.Stderr = in, &errors
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w\n%.2000s", strings.Join(args, " "), err, errors.String())
	}
	return string(out), err
}

func (m *crowd) command(args ...string) *exec.Cmd {
	return exec.Command(kubernetestest.Kubectl(m.b), append([]string{"--kubeconfig",
		filepath.Join(m.dir, "kube.yaml"), "--cache-dir", filepath.Join(m.dir, "cache")},
		args...)...)
}

// copies is how many pod routes the target has.
func (m *crowd) copies() int {
	lines, err := m.routes(m.target)
	if err != nil {
		m.b.Fatal(err)
	}
	return len(lines)
}

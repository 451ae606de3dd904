package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/network"
	"routekeeper.dev/routekeeper/internal/report"
)

// createSteps is the number of writes for a kubenet cluster with a gateway, deleteSteps the number
// of deletes for its removal.
const createSteps, deleteSteps = 16, 14

// TestClusterKilled kills cluster create at a write, before or after it takes effect, and runs it
// again: the cluster is the same as without the kill, and a third run has nothing to do. Then it
// does the same with cluster delete: nothing is left. ROUTEKEEPER_KILLS is the number of killed
// runs, two per cluster (8).
func TestClusterKilled(t *testing.T) {
	t.Parallel()
	kills := 8
	if text := os.Getenv("ROUTEKEEPER_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("ROUTEKEEPER_KILLS: %v", err)
		}
	}
	t.Run("existing network", func(t *testing.T) {
		t.Parallel()
		killedInNetwork(t)
	})
	want := documentsOf(t, builtCluster(t, 0, "", nil))
	first := rand.IntN(createSteps) // another one each time, so that all are covered
	for i := range kills / 2 {
		n, m := (first+i*5)%createSteps+1, (first+i*5)%deleteSteps+1
		when := []string{"before", "after"}[i%2]
		t.Run(fmt.Sprintf("%s write %d and delete %d", when, n, m), func(t *testing.T) {
			t.Parallel()
			b := builtCluster(t, n, when, nil)
			got := documentsOf(t, b)
			for id, doc := range want {
				differs := map[string]string{}
				paths, err := arm.Differences([]byte(doc), []byte(got[id]))
				for _, p := range paths {
					if !unlike(p) {
						differs[p] = got[id]
					}
				}
				if err != nil || len(differs) > 0 {
					t.Errorf("%s differs in %v, %v", id, differs, err)
				}
			}
			b.kill(m, when, http.MethodDelete, "delete", "--yes")
			b.run("delete", "--yes")
			b.gone()
		})
	}
}

// adoptedWrites is the number of writes in an existing network, adoptedDeletes the number of
// deletes for its removal, which also makes one write.
const adoptedWrites, adoptedDeletes = 15, 14

// killedInNetwork does the same in another owner's network, where a run creates the gateway's
// subnet and associates a table with the node subnet. At the end the network is unchanged.
func killedInNetwork(t *testing.T) {
	n, m := rand.IntN(adoptedWrites)+1, rand.IntN(adoptedDeletes)+1
	when := []string{"before", "after"}[rand.IntN(2)]
	t.Logf("killed %s write %d, and %s delete %d", when, n, when, m)
	nodes := hubVNet.Child("subnets", "nodes")
	var before [2]string
	b := builtCluster(t, n, when, func(b *builtOne) {
		b.create = append(b.create, "--vnet-subnet-id", string(nodes), "--adopt")
		for _, put := range []struct{ id, body string }{
			{string(hubVNet.Group()), `{"location":"westeurope"}`},
			{string(hubVNet), `{"location":"westeurope","properties":{
				"addressSpace":{"addressPrefixes":["10.10.0.0/16"]},"subnets":[{"name":"nodes","properties":{
				"addressPrefix":"10.10.0.0/22","serviceEndpoints":[{"service":"Microsoft.Sql"}],"x":{"y":1.50}}}]}}`},
		} {
			status, answer := b.a.op.Do(http.MethodPut, arm.ID(put.id), verifyNetwork,
				[]byte(put.body))
			if status/100 != 2 {
				t.Fatalf("%d %s", status, answer)
			}
		}
		before = [2]string{b.plain(nodes), b.plain(hubVNet)}
	})
	if subnet := b.plain(nodes); !strings.Contains(subnet, `"y":1.50`) ||
		!strings.Contains(subnet, "shop-nodes-rt") {
		t.Errorf("the node subnet is %s", subnet)
	}
	b.kill(m, when, http.MethodDelete, "delete", "--yes")
	if m < 10 { // the association remains
		b.kill(1, when, http.MethodPut, "delete", "--yes")
	}
	b.run("delete", "--yes")
	if after := [2]string{b.plain(nodes), b.plain(hubVNet)}; after != before {
		t.Errorf("the network was\n%s\nand is\n%s", before, after)
	}
	status, body := b.a.op.Do(http.MethodDelete, hubVNet.Group(), "2024-11-01", nil)
	if status/100 != 2 {
		t.Fatalf("%d %s", status, body)
	}
	for deadline := time.Now().Add(time.Minute); b.plain(hubVNet) != "" &&
		time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	b.gone()
}

var hubVNet = arm.ResourceID(emulator.DefaultSubscription, "net", arm.TypeVNet, "hub")

// plain is a resource without the fields that every write changes, "" if it does not exist.
func (b *builtOne) plain(id arm.ID) string {
	status, body := b.a.op.Do(http.MethodGet, id, verifyNetwork, nil)
	if status != http.StatusOK {
		return ""
	}
	return volatileBytes.ReplaceAllString(string(body), "")
}

// unlike reports whether a field differs from run to run.
func unlike(path string) bool {
	for _, p := range []string{"etag", "resourceGuid", "principalId", "clientId", "objectId",
		"createdOn", "updatedOn", "createdBy", "updatedBy", "uid", "ipAddress", "issuerURL", "fqdn",
		"portalFQDN"} {
		if strings.HasSuffix(strings.ToLower(path), strings.ToLower(p)) {
			return true
		}
	}
	return false
}

// builtOne is a cluster being built.
type builtOne struct {
	t      *testing.T
	a      *azureOf
	az     string
	create []string
}

// builtCluster builds a cluster; with n > 0 its n-th write is the last one of the first run.
// Prepare can be nil.
func builtCluster(t *testing.T, n int, when string, prepare func(*builtOne)) *builtOne {
	t.Helper()
	az := filepath.Join(t.TempDir(), "az")
	a, server, err := startAzure(az, false, emulator.Options{OperationTime: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		a.e.Close()
	})
	b := &builtOne{t: t, a: a, az: az}
	b.create = []string{"--blueprint", "kubenet", "--application-gateway", "--location",
		"westeurope", "--yes"}
	if prepare != nil {
		prepare(b)
	}
	if n > 0 {
		b.kill(n, when, http.MethodPut, "create", b.create...)
	}
	b.run("create", b.create...)
	var again report.Building
	if err := json.Unmarshal(b.run("create", append(b.create, "-o", "json")...),
		&again); err != nil || again.Pending() || len(again.Steps) != createSteps {
		t.Fatalf("another run finds something to do: %+v %v", again, err)
	}
	return b
}

func (b *builtOne) command(verb string, args ...string) *exec.Cmd {
	return exec.Command("routekeeper",
		append([]string{"--emulator", b.az, "cluster", verb, "shop", "--subscription",
			emulator.DefaultSubscription}, args...)...)
}

// run runs a command to its end.
func (b *builtOne) run(verb string, args ...string) []byte {
	b.t.Helper()
	cmd := b.command(verb, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%s: %v\n%s%s", verb, err, out, &stderr)
	}
	return out
}

// kill runs a command until its n-th call of a method, and kills it there.
func (b *builtOne) kill(n int, when, method, verb string, args ...string) {
	b.t.Helper()
	if _, err := b.a.e.Inject(emulator.Fault{Principal: emulator.DefaultPrincipal.Name,
		Method: method, Skip: n - 1, Hold: when}); err != nil {
		b.t.Fatal(err)
	}
	cmd := b.command(verb, args...)
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); b.a.e.Faults()[0].Held == 0; time.Sleep(
		10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			b.t.Fatalf("%s did not get to its call %d", verb, n)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		b.t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	b.a.e.ClearFaults()
}

// documentsOf are the documents of everything that was built, by ID, once the ingress controller
// has written its pool into the gateway, which it does some time after the cluster is there.
func documentsOf(t *testing.T, b *builtOne) map[string]string {
	t.Helper()
	var built report.Building
	if err := json.Unmarshal(b.run("create", "--blueprint", "kubenet", "--application-gateway",
		"--location", "westeurope", "--yes", "-o", "json"), &built); err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	for _, s := range built.Steps {
		id := arm.ID(s.Resource)
		docs[s.Resource] = b.a.document(t, id)
		if !id.Is(arm.TypeGateway) {
			continue
		}
		for deadline := time.Now().Add(time.Minute); !strings.Contains(docs[s.Resource],
			network.IngressPool) || strings.Contains(docs[s.Resource], `"Updating"`); time.Sleep(
			20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the gateway has no pool of the ingress controller: %s", docs[s.Resource])
			}
			docs[s.Resource] = b.a.document(t, id)
		}
	}
	return docs
}

// gone checks that nothing is left of the cluster.
func (b *builtOne) gone() {
	b.t.Helper()
	sub := "/subscriptions/" + emulator.DefaultSubscription
	for _, path := range []string{"/resources", "/resourceGroups"} {
		if status, body := b.a.op.Do(http.MethodGet, arm.ID(sub+path), "2024-11-01",
			nil); status != http.StatusOK || bytes.Contains(body, []byte(`"id"`)) {
			b.t.Errorf("left: %s", body)
		}
	}
	for _, kind := range []string{"roleAssignments", "roleDefinitions"} {
		_, body := b.a.op.Do(http.MethodGet, arm.ID(sub+"/providers/Microsoft.Authorization/"+kind),
			"2022-04-01", nil)
		if bytes.Contains(body, []byte("cluster network")) || kind == "roleAssignments" &&
			bytes.Contains(body, []byte("shop-rg")) {
			b.t.Errorf("left: %s", body)
		}
	}
}

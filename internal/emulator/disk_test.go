package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// everything reads all documents of an emulator: every resource, the nodes' interfaces and the
// activity log.
func everything(t *testing.T, e *Emulator) map[string]string {
	t.Helper()
	c, err := e.Client(e.opts.Principals[0])
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	e.kernel.Mu.RLock()
	var ids []arm.ID
	for _, r := range e.kernel.Store.Resources {
		ids = append(ids, r.ID)
		if r.ID.Is(arm.TypeScaleSet) {
			ids = append(ids, r.ID+"/networkInterfaces", r.ID+"/virtualMachines")
		}
		if r.ID.Is(arm.TypeCluster) {
			ids = append(ids, r.ID+"/agentPools")
		}
	}
	e.kernel.Mu.RUnlock()
	ids = append(ids, "/subscriptions/"+sub+
		"/providers/Microsoft.Insights/eventtypes/management/values")
	for _, id := range ids {
		status, body := c.Do(http.MethodGet, id, "2025-05-01", nil)
		out[id.Key()] = fmt.Sprint(status, " ", string(body))
	}
	return out
}

// TestRestart: an emulator that is opened again, after a stop or a kill, shows the same documents,
// accepts the same tokens, and continues: its clusters get their routes, and running deletes end.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	options := Options{
		StateFile: filepath.Join(dir, "state.db"), CheckClusterIdentity: true,
		Principals: []Principal{DefaultPrincipal,
			{Name: "guest", ClientID: "guest", ObjectID: "0b0b0000-0000-4000-8000-000000000009",
				Secret: "s", NoRoles: true}},
	}
	e, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	if e.Restored() {
		t.Error("there was nothing to restore")
	}
	d, err := BuildDemo(e, DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	// the last assigned pod CIDR is free again, and is used last
	for _, n := range []int{5, 4} {
		if err := e.Scale(d.Cluster, d.Pool, n); err != nil {
			t.Fatal(err)
		}
	}
	c, err := e.Client(DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Put(arm.GroupID(sub, "gone"), api,
		kernel.Object{"location": "westeurope"}); err != nil {
		t.Fatal(err)
	}
	if status, body := c.Do(http.MethodDelete, arm.GroupID(sub, "gone"), api, nil); status >= 300 {
		t.Fatalf("%d %s", status, body)
	}
	grant := d.ClusterTable +
		"/providers/Microsoft.Authorization/roleAssignments/11111111-1111-1111-1111-111111111111"
	reader := "/subscriptions/" + sub +
		"/providers/Microsoft.Authorization/roleDefinitions/acdd72a7-3385-48ef-bd42-f606fba81ae7"
	if err := c.Put(grant, "2022-04-01",
		kernel.Object{"properties": kernel.Object{"roleDefinitionId": reader,
			"principalId":   "0b0b0000-0000-4000-8000-000000000009",
			"principalType": "ServicePrincipal"}}); err != nil {
		t.Fatal(err)
	}
	delayed := d.GatewayTable +
		"/providers/Microsoft.Authorization/roleAssignments/22222222-1111-1111-1111-111111111111"
	body := kernel.Object{"properties": kernel.Object{"roleDefinitionId": reader,
		"principalId": "0b0b0000-0000-4000-8000-000000000009", "principalType": "ServicePrincipal"}}
	if err := c.Put(delayed, "2022-04-01", body); err != nil || !e.DelayRole(delayed, time.Hour) {
		t.Fatal(err)
	}
	token, _, err := e.Token(DefaultPrincipal, "https://management.core.windows.net/")
	if err != nil {
		t.Fatal(err)
	}
	before := everything(t, e)

	// After a kill, nothing is closed. The file's lock ends with the process, here with its handle.
	e.kernel.Mu.Lock()
	if err := e.kernel.Disk.DB.Close(); err != nil {
		t.Fatal(err)
	}
	e.kernel.Closed = true
	e.kernel.Mu.Unlock()
	again, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Close)
	if !again.Restored() {
		t.Fatal("nothing was restored")
	}
	after := everything(t, again)
	for key, was := range before {
		if after[key] != was {
			t.Errorf("%s\nwas %s\n is %s", key, was, after[key])
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d things, were %d", len(after), len(before))
	}
	old := withToken(again, token)
	if status, body := old.Do(http.MethodGet, d.Cluster, api, nil); status != http.StatusOK {
		t.Errorf("an old token: %d %s", status, body)
	}
	guest, err := again.Client(options.Principals[1])
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[arm.ID]int{d.ClusterTable: http.StatusOK,
		d.GatewayTable: http.StatusForbidden} {
		if status, body := guest.Do(http.MethodGet, id, api, nil); status != want {
			t.Errorf("the guest reads %s: %d %s", id.Short(), status, body)
		}
	}

	// The second emulator continues: used addresses stay used, and routes are written.
	if err := again.Scale(d.Cluster, d.Pool, 7); err != nil {
		t.Fatal(err)
	}
	doc, err := old.Get(d.ClusterTable, api)
	if err != nil {
		t.Fatal(err)
	}
	hops := map[string]bool{}
	for _, r := range kernel.ListAt(doc, "properties", "routes") {
		hops[kernel.Text(r, "properties", "nextHopIpAddress")] = true
		if kernel.Text(r, "properties", "addressPrefix") == "10.244.4.0/24" {
			t.Error("10.244.4.0/24 was given out out of turn")
		}
	}
	if len(hops) != 8 {
		t.Errorf("%d next hops, want those of 7 nodes and the firewall: %v", len(hops), hops)
	}
}

// TestRestartWhileDeleting: a group that was being deleted is deleted at the planned time, and its
// operation can still be followed.
func TestRestartWhileDeleting(t *testing.T) {
	options := Options{StateFile: filepath.Join(t.TempDir(), "state.db"),
		OperationTime: 150 * time.Millisecond}
	e, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Client(DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Put(group, api, kernel.Object{"location": "westeurope"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Put(rt, api, kernel.Object{"location": "westeurope"}); err != nil {
		t.Fatal(err)
	}
	if status, body := c.Do(http.MethodDelete, group, api, nil); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, body)
	}
	e.kernel.Mu.RLock()
	var operations []string
	for name := range e.kernel.Operations {
		operations = append(operations, name)
	}
	e.kernel.Mu.RUnlock()
	e.Close()
	e, err = New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	c, err = e.Client(DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		status, _ := c.Do(http.MethodGet, rt, api, nil)
		if status == http.StatusNotFound {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the group is still there")
		}
	}
	for _, name := range operations {
		path := arm.ID("/subscriptions/" + sub +
			"/providers/Microsoft.Resources/locations/local/operations/" + name)
		status, body := c.Do(http.MethodGet, path, api, nil)
		var op struct{ Status string }
		if err := json.Unmarshal(body, &op); err != nil || status != http.StatusOK ||
			op.Status != "Succeeded" {
			t.Errorf("operation %s: %d %s", name, status, body)
		}
	}
}

// TestRestartWhileChildLeaves: a subnet that was being deleted is still shown as Deleting.
func TestRestartWhileChildLeaves(t *testing.T) {
	options := Options{StateFile: filepath.Join(t.TempDir(), "state.db")}
	opened := func() (*Emulator, *Client) {
		e, err := New(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		c, err := e.Client(DefaultPrincipal)
		if err != nil {
			t.Fatal(err)
		}
		return e, c
	}
	e, c := opened()
	network := arm.ResourceID(sub, group.Name(), arm.TypeVNet, "n")
	for _, r := range []struct {
		id   arm.ID
		body kernel.Object
	}{
		{group, kernel.Object{"location": "westeurope"}},
		{network, kernel.Object{"location": "westeurope", "properties": kernel.Object{
			"addressSpace": kernel.Object{"addressPrefixes": []any{"10.0.0.0/16"}},
			"subnets": []any{kernel.Object{"name": "s", "properties": kernel.Object{
				"addressPrefix": "10.0.0.0/24"}}}}}},
	} {
		if err := c.Put(r.id, api, r.body); err != nil {
			t.Fatal(err)
		}
	}
	options.OperationTime = time.Hour
	e.Close()
	e, c = opened()
	subnet := network.Child("subnets", "s")
	if status, body := c.Do(http.MethodDelete, subnet, api, nil); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, body)
	}
	e.Close()
	_, c = opened()
	status, body := c.Do(http.MethodGet, subnet, api, nil)
	if status != http.StatusOK ||
		!strings.Contains(string(body), `"provisioningState":"Deleting"`) {
		t.Errorf("%d %s", status, body)
	}
}

// TestStateFile: an unreadable file gives an error of one line, and is not overwritten.
func TestStateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	e, err := New(Options{StateFile: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{StateFile: path}); err == nil ||
		!strings.Contains(err.Error(), "is in use by another emulator") {
		t.Errorf("in use: %v", err)
	}
	e.Close()
	e.Close()
}

// TestRestartWhileAKSWorks: the operations of a cluster that were running when the emulator ended
// are done after the restart: the surge nodes of an upgrade are deleted, a cluster that migrates
// from kubenet releases its table, one that was being deleted is deleted.
func TestRestartWhileAKSWorks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		begin func(b *bench)
		ended func(b *bench)
	}{
		"upgrade": {
			func(b *bench) {
				b.put(aksID.Child("agentPools", "np"),
					`{"properties":{"orchestratorVersion":"1.34.2"}}`)
				time.Sleep(10 * time.Second)
				if n := len(b.poolNodes("np")); n != 6 {
					b.t.Errorf("%d nodes during the upgrade, want 6", n)
				}
			},
			func(b *bench) {
				if n, state := len(b.poolNodes("np")), b.state(); n != 4 || state != "Succeeded" {
					b.t.Errorf("%d nodes, %s", n, state)
				}
				if routes := b.podRoutes(rt); len(routes) != 4 {
					b.t.Errorf("routes %q", routes)
				}
			},
		},
		"overlay": {
			func(b *bench) {
				b.put(aksID, clusterBody(`,"networkPlugin":"azure","networkPluginMode":"overlay"`,
					`,"count":4,"orchestratorVersion":"1.33.5"`))
			},
			func(b *bench) {
				if routes := b.podRoutes(rt); len(routes) != 0 {
					b.t.Errorf("routes %q", routes)
				}
			},
		},
		"delete": {
			func(b *bench) { b.c.Do(http.MethodDelete, aksID, api, nil) },
			func(b *bench) {
				if status, _ := b.try(http.MethodGet, aksID, api,
					""); status != http.StatusNotFound {
					b.t.Errorf("the cluster is still there: %d", status)
				}
				if used := b.addresses(vnet.Child("subnets", "a")); len(used) != 0 {
					b.t.Errorf("addresses in use: %v", used)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plenty := Bucket{Size: unlimited, PerSecond: 1}
				options := Options{StateFile: filepath.Join(t.TempDir(), "state.db"),
					OperationTime: time.Minute, RouteBatch: time.Second, Buckets: Buckets{
						Clusters: plenty, Reads: plenty}}
				b := withNetwork(t, options)
				time.Sleep(time.Minute)
				b.put(aksID, clusterBody(``,
					`,"count":4,"orchestratorVersion":"1.33.5","upgradeSettings":{"maxSurge":"50%"}`))
				time.Sleep(5 * time.Minute)
				tt.begin(b)
				time.Sleep(time.Second)
				b.e.Close()
				e, err := New(options)
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				c, err := e.Client(DefaultPrincipal)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				tt.ended(&bench{t, e, c})
			})
		})
	}
}

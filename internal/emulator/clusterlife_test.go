package emulator

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

func (b *bench) state() string {
	b.t.Helper()
	return kernel.Text(b.get(aksID), "properties", "provisioningState")
}

// poolNodes are copies of the nodes of a pool.
func (b *bench) poolNodes(name string) []*aks.Node {
	b.e.kernel.Mu.RLock()
	defer b.e.kernel.Mu.RUnlock()
	var out []*aks.Node
	for _, n := range b.e.aks.Clusters[aksID.Key()].Pool(name).Nodes {
		now := *n
		out = append(out, &now)
	}
	return out
}

func nodeNames(nodes []*aks.Node) []string {
	var out []string
	for _, n := range nodes {
		_, number, _ := strings.Cut(n.Name, "vmss")
		out = append(out, number+" "+n.PodCIDRs[0].String())
	}
	return out
}

func TestUpgradeWithSurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withNetwork(t, Options{OperationTime: 3 * time.Minute, RouteBatch: time.Second,
			Buckets: Buckets{Clusters: Bucket{Size: unlimited, PerSecond: 1},
				Reads: Bucket{Size: unlimited, PerSecond: 1}}})
		// The network's operations take as long as all others here.
		time.Sleep(3 * time.Minute)
		b.put(aksID, clusterBody(``,
			`,"count":4,"orchestratorVersion":"1.33.5","upgradeSettings":{"maxSurge":"50%"}},{"name":"user","mode":"User","orchestratorVersion":"1.33.5","vnetSubnetID":"`+string(vnet)+`/subnets/a"`))
		if b.state() != "Creating" {
			t.Error(b.state())
		}
		time.Sleep(9 * time.Minute)
		pool := aksID.Child("agentPools", "np")
		b.put(pool, `{"properties":{"orchestratorVersion":"1.34.2"}}`)
		time.Sleep(time.Second)
		if state := kernel.Text(b.get(pool), "properties",
			"provisioningState"); state != "Upgrading" {
			t.Error(state)
		}
		status, answer := b.c.Do(http.MethodPut, pool, api, []byte(`{"properties":{"count":5}}`))
		if status != 409 || !strings.Contains(string(answer), "OperationNotAllowed") ||
			!strings.Contains(string(answer), "Another agentpool operation (np - Upgrading) is "+
				"in progress") {
			t.Errorf("%d %s", status, answer)
		}
		var seen [][]string
		for i := range 4 {
			seen = append(seen, nodeNames(b.poolNodes("np")))
			if i < 3 {
				time.Sleep(time.Minute)
			}
		}
		want := [][]string{
			{"000000 10.244.0.0/24", "000001 10.244.1.0/24", "000002 10.244.2.0/24",
				"000003 10.244.3.0/24", "000004 10.244.5.0/24", "000005 10.244.6.0/24"},
			{"000000 10.244.7.0/24", "000001 10.244.8.0/24", "000002 10.244.2.0/24",
				"000003 10.244.3.0/24", "000004 10.244.5.0/24", "000005 10.244.6.0/24"},
			{"000000 10.244.7.0/24", "000001 10.244.8.0/24", "000002 10.244.9.0/24",
				"000003 10.244.10.0/24", "000004 10.244.5.0/24", "000005 10.244.6.0/24"},
			{"000000 10.244.7.0/24", "000001 10.244.8.0/24", "000002 10.244.9.0/24",
				"000003 10.244.10.0/24"},
		}
		for i := range want {
			if !slices.Equal(seen[i], want[i]) {
				t.Errorf("step %d: %q", i, seen[i])
			}
		}
		time.Sleep(9 * time.Minute)
		var routes []string
		for _, r := range b.podRoutes(rt) {
			routes = append(routes, strings.Fields(r)[1])
		}
		slices.Sort(routes)
		if want := []string{"10.244.10.0/24", "10.244.4.0/24", "10.244.7.0/24", "10.244.8.0/24",
			"10.244.9.0/24"}; !slices.Equal(routes, want) {
			t.Errorf("routes %q", routes)
		}
		// An upgrade of the control plane alone leaves the nodes unchanged; a downgrade is refused.
		b.refused(http.MethodPut, pool, `{"properties":{"orchestratorVersion":"1.33.5"}}`, 400,
			"AgentPoolUpgradeVersionNotAllowed")
		b.refused(http.MethodPut, aksID,
			`{"location":"westeurope","properties":{"kubernetesVersion":"1.33.5"}}`, 400,
			"OperationNotAllowed")
		before := nodeNames(b.poolNodes("np"))
		if status, code := b.try(http.MethodPost, pool+"/upgradeNodeImageVersion", api,
			""); status != 202 {
			t.Errorf("%d %s", status, code)
		}
		time.Sleep(4 * time.Minute)
		if after := nodeNames(b.poolNodes("np")); len(after) != 4 || after[0] == before[0] {
			t.Errorf("nodes %q", after)
		}
	})
}

func TestSurge(t *testing.T) {
	for surge, want := range map[string]int{`"33%"`: 4, `"1"`: 1, `"3"`: 3, `"50"`: 10,
		`"100%"`: 10,
		`null`:   1, `"10%"`: 1, `"11%"`: 2, `"x"`: 1, `"0"`: 1} {
		doc, f := kernel.DecodeObject([]byte(`{"upgradeSettings":{"maxSurge":` + surge + `}}`))
		if got := aks.SurgeOf(doc, 10); f != nil || got != want {
			t.Errorf("maxSurge %s of 10 nodes: %d, want %d", surge, got, want)
		}
	}
}

func TestStopAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withNetwork(t, Options{OperationTime: time.Minute, RouteBatch: time.Second})
		time.Sleep(time.Minute)
		b.put(aksID, clusterBody(``, `,"count":2`))
		time.Sleep(5 * time.Minute)
		before := b.podRoutes(rt)
		do := func(action string) {
			t.Helper()
			if status, code := b.try(http.MethodPost,
				aksID.Child(action, "")[:len(aksID)+1+len(action)], api, ""); status != 202 {
				t.Fatalf("%s: %d %s", action, status, code)
			}
		}
		power := func() string {
			return kernel.Text(b.get(aksID), "properties", "powerState", "code")
		}
		do("stop")
		if b.state() != "Stopping" {
			t.Error(b.state())
		}
		b.refused(http.MethodPut, aksID, clusterBody(``, ``), 409, "OperationNotAllowed")
		time.Sleep(5 * time.Minute)
		if b.state() != "Succeeded" || power() != "Stopped" || len(b.nodes()) != 0 {
			t.Errorf("%s %s, %d nodes", b.state(), power(), len(b.nodes()))
		}
		if got := b.podRoutes(rt); !slices.Equal(got, before) {
			t.Errorf("routes of a stopped cluster: %q", got)
		}
		b.refused(http.MethodPut, aksID, clusterBody(``, ``), 400, "OperationNotAllowed")
		b.refused(http.MethodPut, aksID.Child("agentPools", "np"), `{"properties":{"count":3}}`,
			400,
			"OperationNotAllowed")
		do("start")
		if b.state() != "Starting" {
			t.Error(b.state())
		}
		time.Sleep(5 * time.Minute)
		want := []string{"000002____102442024 10.244.2.0/24 10.0.1.4",
			"000003____102443024 10.244.3.0/24 10.0.1.5"}
		if got := b.podRoutes(rt); power() != "Running" || !slices.Equal(got, want) {
			t.Errorf("%s %q", power(), got)
		}

		// The cluster exists while it is being deleted.
		if status, _ := b.try(http.MethodDelete, aksID, api, ""); status != 202 {
			t.Errorf("delete: %d", status)
		}
		if b.state() != "Deleting" {
			t.Error(b.state())
		}
		b.refused(http.MethodPut, aksID, clusterBody(``, ``), 409, "OperationNotAllowed")
		time.Sleep(time.Minute)
		b.refused(http.MethodGet, aksID, "", 404, "ResourceNotFound")
	})
}

// TestFreedAddress: the next node gets the lowest free address.
func TestFreedAddress(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(``, `,"count":2`))
	if err := b.e.Readdress(aksID, b.nodes()[0].Name); err != nil {
		t.Fatal(err)
	}
	if err := b.e.Scale(aksID, "np", 3); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range b.nodes() {
		got = append(got, n.Addrs[0].String())
	}
	if want := []string{"10.0.1.6", "10.0.1.5", "10.0.1.4"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestPoolsOfACluster(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(``,
		`,"count":3,"enableAutoScaling":true,"minCount":1,"maxCount":5,"nodeLabels":{"a":"b"},"unheard":{"of":1.50}`))
	p := kernel.ListAt(b.get(aksID), "properties", "agentPoolProfiles")[0]
	if p["enableAutoScaling"] != true ||
		fmt.Sprint(kernel.ObjectAt(p, "unheard")["of"]) != "1.50" ||
		fmt.Sprint(p["maxPods"]) != "110" {
		t.Errorf("%s", kernel.Encode(p))
	}
	two := aksID.Child("agentPools", "two")
	if status, code := b.try(http.MethodPut, two, api, `{"properties":{"count":1,"vnetSubnetID":"`+
		string(vnet)+`/subnets/b","vmSize":"Standard_D8s_v5"}}`); status != 201 {
		t.Fatalf("%d %s", status, code)
	}
	if mode := kernel.Text(b.get(two), "properties", "mode"); mode != "User" {
		t.Error(mode)
	}
	// the last System pool
	b.refused(http.MethodDelete, aksID.Child("agentPools", "np"), "", 400, "OperationNotAllowed")
	b.refused(http.MethodPut, aksID.Child("agentPools", "np"), `{"properties":{"mode":"User"}}`,
		400,
		"MustDefineAtLeastOneSystemPool")
	names := b.poolNodes("np")
	if status, code := b.try(http.MethodPost, aksID.Child("agentPools", "np")+"/deleteMachines",
		api,
		`{"machineNames":["`+names[1].Name+`"]}`); status != 200 {
		t.Errorf("%d %s", status, code)
	}
	if got := nodeNames(b.nodes()); !slices.Equal(got,
		[]string{"000000 10.244.0.0/24", "000002 10.244.2.0/24", "000000 10.244.3.0/24"}) {
		t.Errorf("nodes %q", got)
	}
	if status, _ := b.try(http.MethodDelete, two, api, ""); status != 204 {
		t.Errorf("delete of a pool: %d", status)
	}
	if n := len(b.podRoutes(rt)); n != 2 {
		t.Errorf("%d routes", n)
	}
}

func TestWhatCanBeAskedOfACluster(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(``, ``))
	status, answer := b.c.Do(http.MethodPost, aksID+"/listClusterUserCredential", api, nil)
	doc, _ := kernel.DecodeObject(answer)
	config, err := base64.StdEncoding.DecodeString(kernel.Text(kernel.ListAt(doc, "kubeconfigs")[0],
		"value"))
	if status != 200 || err != nil ||
		!strings.Contains(string(config), "server: http://localhost/_kubernetes/") ||
		!strings.Contains(string(config), "clusterUser_net-rg_c") {
		t.Errorf("%d %s", status, config)
	}
	b.refused(http.MethodPost, aksID+"/runCommand", `{"command":"kubectl get nodes"}`, 400,
		"KubernetesOperationError")
	b.refused(http.MethodPost, aksID+"none/listClusterUserCredential", ``, 404, "ResourceNotFound")

	schedule := aksID.Child("maintenanceConfigurations", "aksManagedAutoUpgradeSchedule")
	b.refused(http.MethodGet, schedule, "", 404, "NotFound")
	b.refused(http.MethodPut, schedule, `{"properties":{}}`, 400, "InvalidParameter")
	b.refused(http.MethodPut, aksID.Child("maintenanceConfigurations", "mine"), `{"properties":{}}`,
		400, "InvalidMaintenanceConfigurationName")
	b.put(schedule, `{"properties":{"maintenanceWindow":{"durationHours":4,"startTime":"02:00","schedule":{"daily":{"intervalDays":3}}}}}`)
	if got := b.get(schedule); kernel.ObjectAt(got, "properties", "maintenanceWindow", "schedule",
		"daily") == nil || kernel.ObjectAt(got, "properties")["provisioningState"] != nil ||
		kernel.ObjectAt(got, "properties", "maintenanceWindow")["utcOffset"] != "+00:00" {
		t.Errorf("%s", kernel.Encode(got))
	}
	if all := kernel.ListAt(b.get(aksID+"/maintenanceConfigurations"), "value"); len(all) != 1 {
		t.Errorf("%d configurations", len(all))
	}
	if status, _ := b.try(http.MethodDelete, schedule, api, ""); status != 200 {
		t.Errorf("delete: %d", status)
	}

	profile := kernel.ObjectAt(b.get(aksID+"/upgradeProfiles/default"), "properties",
		"controlPlaneProfile")
	if profile["kubernetesVersion"] != aks.KubernetesVersions[0] {
		t.Errorf("%s", kernel.Encode(profile))
	}
	if versions := kernel.ListAt(b.get(aksID+"/availableAgentPoolVersions"), "properties",
		"agentPoolVersions"); len(versions) != len(aks.KubernetesVersions) {
		t.Errorf("%d versions", len(versions))
	}
	location := b.get("/subscriptions/" + sub +
		"/providers/Microsoft.ContainerService/locations/westeurope/kubernetesVersions")
	if values := kernel.ListAt(location, "values"); len(values) != 3 ||
		values[0]["version"] != "1.34" {
		t.Errorf("%s", kernel.Encode(location))
	}
	old := b.get("/subscriptions/" + sub +
		"/providers/Microsoft.ContainerService/locations/westeurope/orchestrators")
	if all := kernel.ListAt(old, "properties",
		"orchestrators"); len(all) != len(aks.KubernetesVersions) || all[0]["default"] != true {
		t.Errorf("%s", kernel.Encode(old))
	}
	if status, _ := b.try(http.MethodPatch, aksID, api, `{"tags":{"team":"net"}}`); status != 200 ||
		kernel.Text(b.get(aksID), "tags", "team") != "net" {
		t.Errorf("tags: %d", status)
	}
	// The sent fields come back, with the fields that AKS fills in.
	network := kernel.ObjectAt(b.get(aksID), "properties", "networkProfile")
	if kernel.Text(network, "loadBalancerSku") != "standard" ||
		kernel.Text(network, "serviceCidr") != "172.16.0.0/16" ||
		len(kernel.ListAt(network, "loadBalancerProfile", "effectiveOutboundIPs")) != 1 {
		t.Errorf("%s", kernel.Encode(network))
	}
}

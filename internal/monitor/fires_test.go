package monitor_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/monitor"
)

// hook is the keeper's listener: it counts the operations of the events that it gets.
type hook struct {
	mu    sync.Mutex
	heard map[string]int
}

func (h *hook) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var doc struct {
		SchemaID string
		Data     struct {
			AlertContext struct{ OperationName, Status string }
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[doc.Data.AlertContext.OperationName+" "+doc.Data.AlertContext.Status]++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func (h *hook) take() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	heard := h.heard
	h.heard = map[string]int{}
	return heard
}

// TestEveryOperationFires performs every watched operation. Each causes one event, and other
// operations cause none.
func TestEveryOperationFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hook{heard: map[string]int{}}
		e := emulatortest.New(t,
			emulator.Options{OperationTime: time.Second, AlertDelay: 5 * time.Minute, Webhooks: h})
		d, err := emulator.BuildDemo(e, emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		op, err := e.Client(emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		c := emulatortest.Client(t, e, emulatortest.Keeper)
		s := inventory.NewSnapshot()
		if err := c.Read(t.Context(), s, inventory.Wanted{Clusters: []arm.ID{d.Cluster}},
			azure.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		spare := arm.ResourceID(d.Cluster.Subscription(), "net-rg", arm.TypeRouteTable, "spare-rt")
		watched, err := monitor.Watch(s,
			[]v1alpha1.ClusterRoutes{{Metadata: v1alpha1.Metadata{Name: "shop"},
				Spec: v1alpha1.Spec{
					ClusterID: string(d.Cluster), RouteTableID: string(d.ClusterTable),
					Targets: []v1alpha1.Target{{RouteTableID: string(d.GatewayTable)},
						{RouteTableID: string(spare)}},
				}}})
		if err != nil {
			t.Fatal(err)
		}
		webhook, err := monitor.ParseWebhook("https://keeper.example.com/events",
			"correct-horse-battery", monitor.Webhook{})
		if err != nil {
			t.Fatal(err)
		}
		i, err := monitor.New("", []arm.ID{d.Cluster.Group()}, webhook)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := i.Plan(watched, nil)
		if err != nil || len(changes) != 2 {
			t.Fatal(err, len(changes))
		}
		for _, change := range changes {
			after, err := c.CreateAlertResource(t.Context(), change.Resource, change.Body)
			if err != nil || len(change.Left(after)) > 0 {
				t.Fatal(err, change.Left(after))
			}
		}

		const version = "2025-05-01"
		do := func(method string, id arm.ID, body string) {
			t.Helper()
			var raw []byte
			if body != "" {
				raw = []byte(body)
			}
			if id.Is(arm.TypeVNet) || id.Equal(d.Cluster) && method == http.MethodPut {
				_, raw = op.Do(http.MethodGet, id, version, nil)
			}
			if status, answer := op.Do(method, id, version, raw); status >= 300 {
				t.Fatalf("%s %s: %d %s", method, id, status, answer)
			}
			time.Sleep(2 * time.Minute) // until a pool exists, or is deleted
		}
		// A scale-out by AKS itself shows in the cluster's route table, which its cloud provider
		// writes.
		time.Sleep(10 * time.Minute)
		h.take()
		if err := e.Scale(d.Cluster, d.Pool, 5); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if heard := h.take(); heard["Microsoft.Network/routeTables/write Succeeded"] == 0 {
			t.Errorf("a scale-out: heard of %v", heard)
		}

		vnet, pool := d.NodeSubnet.Parent(), d.Cluster.Child("agentPools", "more")
		const route = `{"properties":{"addressPrefix":"10.99.0.0/24","nextHopType":"None"}}`
		listed := monitor.Operations()
		for _, step := range []struct {
			operation, method string
			id                arm.ID
			body              string
		}{
			{"Microsoft.Network/routeTables/write", "PUT", spare, `{"location":"westeurope"}`},
			{"Microsoft.Network/routeTables/routes/write", "PUT", spare.Child("routes", "r"),
				route},
			{"Microsoft.Network/routeTables/routes/delete", "DELETE", spare.Child("routes", "r"),
				""},
			{"Microsoft.Network/routeTables/delete", "DELETE", spare, ""},
			{"Microsoft.Network/virtualNetworks/write", "PUT", vnet, ""},
			{"Microsoft.Network/virtualNetworks/subnets/write", "PUT", vnet.Child("subnets", "new"),
				`{"properties":{"addressPrefix":"10.42.9.0/24"}}`},
			{"Microsoft.Network/virtualNetworks/subnets/delete", "DELETE",
				vnet.Child("subnets", "new"), ""},
			{"Microsoft.ContainerService/managedClusters/write", "PUT", d.Cluster, ""},
			{"Microsoft.ContainerService/managedClusters/agentPools/write", "PUT", pool,
				`{"properties":{"count":1,"vmSize":"Standard_D2s_v5","mode":"User","vnetSubnetID":"` + string(d.NodeSubnet) + `"}}`},
			{"Microsoft.ContainerService/managedClusters/agentPools/delete", "DELETE", pool, ""},
			{"Microsoft.ContainerService/managedClusters/delete", "DELETE", d.Cluster, ""},
			// These are not watched: another operation, and another resource.
			{"", "PUT", arm.ResourceID(vnet.Subscription(), "net-rg", arm.TypeSecurityGroup, "x"),
				`{"location":"westeurope"}`},
			{"", "PUT", arm.ResourceID(vnet.Subscription(), "net-rg", arm.TypeRouteTable, "x"),
				`{"location":"westeurope"}`},
		} {
			h.take()
			do(step.method, step.id, step.body)
			time.Sleep(6 * time.Minute)
			synctest.Wait()
			heard := h.take()
			if step.operation != "" && heard[step.operation+" Succeeded"] != 1 {
				t.Errorf("%s %s: heard of %v, want %s once", step.method, step.id.Short(), heard,
					step.operation)
			}
			if step.operation == "" && len(heard) > 0 {
				t.Errorf("%s %s: heard of %v", step.method, step.id.Short(), heard)
			}
			for _, what := range slices.Sorted(maps.Keys(heard)) {
				if name, _, _ := strings.Cut(what, " "); !slices.Contains(monitor.Operations(),
					name) || !strings.HasSuffix(what, " Succeeded") {
					t.Errorf("heard of %s", what)
				}
			}
			listed = slices.DeleteFunc(listed, func(o string) bool { return o == step.operation })
		}
		if len(listed) > 0 {
			t.Errorf("never tried: %q", listed)
		}
	})
}

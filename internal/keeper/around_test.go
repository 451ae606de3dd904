package keeper

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// hubAt is the address of the only machine in a hub.
const hubAt = "10.71.1.4"

// hub builds a network with one machine, peered with the clusters'.
func (w *world) hub(clusters ...arm.ID) (machine arm.ID) {
	w.t.Helper()
	id := func(kind, name string) arm.ID {
		return arm.ResourceID(emulator.DefaultSubscription, "over-rg", kind, name)
	}
	hub := id(arm.TypeVNet, "hub")
	w.put(hub, object{"properties": object{
		"addressSpace": object{"addressPrefixes": []any{"10.71.0.0/16"}}, "subnets": []any{
			object{"name": "appliances", "properties": object{"addressPrefix": "10.71.1.0/24"}}}}})
	for _, own := range clusters {
		for _, p := range [][2]arm.ID{{own, hub}, {hub, own}} {
			w.put(p[0].Child("virtualNetworkPeerings", "to-"+p[1].Name()), object{
				"properties": object{"remoteVirtualNetwork": object{"id": string(p[1])},
					"allowVirtualNetworkAccess": true, "allowForwardedTraffic": true}})
		}
	}
	machine = id(arm.TypeInterface, "appliance")
	w.put(machine, object{"properties": object{"enableIPForwarding": true,
		"ipConfigurations": []any{object{"name": "ip", "properties": object{
			"subnet": object{"id": string(hub.Child("subnets", "appliances"))}}}}}})
	return machine
}

// TestEgressUnreachable: nothing has the next hop of a default route, so all egress is dropped. The
// state says so if the config declares another next hop, this one, or none at all: in the cluster's
// network, in a hub, and outside of both. An appliance that is there is believed.
func TestEgressUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table, _, declares := egressWorld(t)
		appliance := w.hub(arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet,
			"over-vnet"))
		declares.Spec.Egress.Mode, declares.Spec.Egress.FirewallID = v1alpha1.GuardObserve, ""
		same := declares
		same.Spec.Egress.Routes = slices.Clone(same.Spec.Egress.Routes)
		none := configure("over", arm.ID(declares.Spec.ClusterID))
		none.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{SubnetID: string(arm.ResourceID(
			emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "over-vnet").Child("subnets",
			"nodes")), RouteTableID: string(table)}}
		k := w.run(10*time.Second, declares)
		k.since(time.Minute)
		states := func(hop string) (all []verdict.Verdict) {
			w.edit(table, func(p object) {
				for _, r := range p["routes"].([]any) {
					if r := r.(object); r["name"] == "out" {
						r["properties"].(object)["nextHopIpAddress"] = hop
					}
				}
			})
			same.Spec.Egress.Routes[0].NextHopIPAddress = hop
			for _, c := range []v1alpha1.ClusterRoutes{declares, same, none} {
				k.Reload([]v1alpha1.ClusterRoutes{c})
				rounds := k.since(30 * time.Second)
				all = append(all, rounds[len(rounds)-1].Verdicts[0])
			}
			return all
		}
		for _, hop := range []string{"10.70.99.9", "10.71.1.99", "10.71.9.9", "192.168.7.7"} {
			for i, v := range states(hop) {
				if v.State != verdict.Broken || !strings.Contains(v.Sentence,
					"its next hop "+hop+" cannot be reached") {
					t.Errorf("%s, %d: %s %s", hop, i, v.State, v.Sentence)
				}
			}
		}
		for i, v := range states(hubAt) {
			want := []verdict.State{verdict.Bypassed, verdict.InSync, verdict.InSync}[i]
			if v.State != want {
				t.Errorf("%d: %s %s", i, v.State, v.Sentence)
			}
		}
		// The appliance is deleted, and nothing else changes.
		if status, body := w.op.Do("DELETE", appliance, networkAPI, nil); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		rounds := k.since(aroundBelieved + 20*time.Second)
		if v := rounds[len(rounds)-1].Verdicts[0]; v.State != verdict.Broken {
			t.Errorf("without the appliance: %s %s", v.State, v.Sentence)
		}
		// What may not be read, or hangs, is believed, and delays nothing.
		for _, fault := range []emulator.Fault{{Status: http.StatusForbidden,
			Code: "AuthorizationFailed"}, {Hold: "before"}} {
			fault.Method, fault.Path, fault.Count = "GET", "virtualNetworks/hub$", -1
			end := w.inject(fault)
			rounds := k.since(aroundBelieved + 20*time.Second)
			if v := rounds[len(rounds)-1].Verdicts[0]; v.State != verdict.InSync {
				t.Errorf("%+v: %s %s", fault, v.State, v.Sentence)
			}
			if len(rounds) < 30 {
				t.Errorf("%+v: %d checks", fault, len(rounds))
			}
			end()
		}
	})
}

// TestAroundBudget: what is around many clusters with one hub is read at most by two calls in five
// minutes: its network, and the appliance.
func TestAroundBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		var configs []v1alpha1.ClusterRoutes
		var networks []arm.ID
		for i := range 10 {
			name := fmt.Sprintf("c%d", i)
			c := w.addCluster(name, fmt.Sprint(80+i))
			w.edit(c.table, func(p object) {
				p["routes"] = append(p["routes"].([]any), object{"name": "out",
					"properties": object{"addressPrefix": "0.0.0.0/0",
						"nextHopType": "VirtualAppliance", "nextHopIpAddress": hubAt}})
			})
			networks = append(networks, c.subnet.Parent())
			configs = append(configs, configure(name, c.cluster, c.target))
		}
		w.put(arm.GroupID(emulator.DefaultSubscription, "over-rg"), object{})
		w.hub(networks...)
		k := w.run(10*time.Second, configs...)
		k.since(6 * time.Minute)
		since := w.mark()
		k.since(aroundBelieved)
		around := 0
		for _, r := range since() {
			if strings.Contains(r.Path, "/networkInterfaces") &&
				!strings.Contains(r.Path, "/MC_") || strings.HasSuffix(r.Path, "/hub") {
				around++
			}
		}
		if around == 0 || around > 2 {
			t.Errorf("%d calls", around)
		}
	})
}

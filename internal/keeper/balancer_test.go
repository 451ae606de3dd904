package keeper

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// balancer makes a load balancer with a rule for all protocols and ports, whose front end has an
// address in the hub, and puts the interfaces into its pool.
func (w *world) balancer(address string, interfaces ...arm.ID) (id arm.ID) {
	w.t.Helper()
	id = arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeLoadBalancer, "nva-lb")
	in := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "hub").
		Child("subnets", "appliances")
	pool := object{"id": string(id.Child("backendAddressPools", "nvas"))}
	w.put(id, object{"sku": object{"name": "Standard"}, "properties": object{
		"frontendIPConfigurations": []any{object{"name": "ip", "properties": object{
			"privateIPAllocationMethod": "Static", "privateIPAddress": address,
			"subnet": object{"id": string(in)}}}},
		"backendAddressPools": []any{object{"name": "nvas"}},
		"probes": []any{object{"name": "up", "properties": object{"protocol": "Tcp",
			"port": 22}}},
		"loadBalancingRules": []any{object{"name": "ha", "properties": object{
			"protocol": "All", "frontendPort": 0, "backendPort": 0, "backendAddressPool": pool,
			"probe": object{"id": string(id.Child("probes", "up"))},
			"frontendIPConfiguration": object{
				"id": string(id.Child("frontendIPConfigurations", "ip"))}}}}}})
	w.pool(pool, interfaces...)
	return id
}

// pool puts the first IP configuration of interfaces into a backend pool, nil: into none.
func (w *world) pool(pool object, interfaces ...arm.ID) {
	w.t.Helper()
	for _, nic := range interfaces {
		w.edit(nic, func(p object) {
			c := p["ipConfigurations"].([]any)[0].(object)["properties"].(object)
			delete(c, "loadBalancerBackendAddressPools")
			if pool != nil {
				c["loadBalancerBackendAddressPools"] = []any{pool}
			}
		})
	}
}

// TestBalancerHop: the next hop of a default route is the front end of a load balancer in a hub. It
// is lost when it changes its address, which is named, also after a restart; when it is deleted;
// and while no appliance is behind it. A load balancer that may not be read is believed.
func TestBalancerHop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, config := guardedWorld(t)
		table := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeRouteTable,
			"egress")
		nva := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeInterface,
			"appliance")
		const first, second = "10.71.1.10", "10.71.1.11"
		lb := w.balancer(first, nva)
		w.bend(table, "out", first)
		store := newPaper()
		k := w.runWith(Options{Store: store}, 10*time.Second, config)
		state := func(what string, want verdict.State, sentence string) {
			t.Helper()
			rounds := k.since(aroundBelieved + 20*time.Second)
			if v := rounds[len(rounds)-1].Verdicts[0]; v.State != want ||
				!strings.Contains(v.Sentence, sentence) {
				t.Errorf("%s: %s %s", what, v.State, v.Sentence)
			}
		}
		state("a front end", verdict.InSync, "")
		w.balancer(second, nva)
		lost := "its next hop " + first + " cannot be reached (load balancer nva-lb has " + second
		state("another address", verdict.Broken, lost)
		end := w.inject(emulator.Fault{Method: "GET", Path: "loadBalancers", Count: -1,
			Hold: "before"})
		k.stop()
		k = w.runWith(Options{Store: store}, 10*time.Second, config)
		for _, r := range k.since(time.Minute) {
			if v := r.Verdicts[0]; !strings.Contains(v.Sentence, lost) {
				t.Fatalf("after a restart: %s %s", v.State, v.Sentence)
			}
		}
		end()
		w.bend(table, "out", second)
		state("the route follows", verdict.InSync, "")
		w.pool(nil, nva)
		state("an empty pool", verdict.Broken, "load balancer nva-lb, which has it, has no backend")
		in := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "hub").
			Child("subnets", "appliances")
		set := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeScaleSet, "nvas")
		w.appliances(set, in)
		w.edit(set, func(p object) {
			for _, at := range []string{"virtualMachineProfile", "networkProfile"} {
				p = p[at].(object)
			}
			for _, at := range []string{"networkInterfaceConfigurations", "ipConfigurations"} {
				p = p[at].([]any)[0].(object)["properties"].(object)
			}
			p["loadBalancerBackendAddressPools"] = []any{object{
				"id": string(lb.Child("backendAddressPools", "nvas"))}}
		})
		state("a scale set in the pool", verdict.InSync, "")
		end = w.inject(emulator.Fault{Method: "GET", Path: "loadBalancers", Count: -1,
			Status: http.StatusForbidden, Code: "AuthorizationFailed"})
		w.balancer(first)
		state("it may not be read", verdict.InSync, "")
		end()
		state("it may be read", verdict.Broken, "load balancer nva-lb has "+first)
		w.balancer(second)
		state("it has the address again", verdict.InSync, "")
		if status, body := w.op.Do("DELETE", lb, networkAPI, nil); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		state("it is deleted", verdict.Broken, "its next hop "+second+" cannot be reached")
	})
}

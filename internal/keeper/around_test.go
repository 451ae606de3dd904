package keeper

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// bend changes the next hop of a route.
func (w *world) bend(table arm.ID, name, hop string) {
	w.t.Helper()
	w.edit(table, func(p object) {
		for _, r := range p["routes"].([]any) {
			if r := r.(object); r["name"] == name {
				r["properties"].(object)["nextHopIpAddress"] = hop
			}
		}
	})
}

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

// appliances makes a scale set with one instance.
func (w *world) appliances(set, subnet arm.ID) {
	w.t.Helper()
	if err := w.op.Put(set, "2025-04-01", object{"location": "westeurope",
		"sku": object{"name": "Standard_D2s_v5", "capacity": 1}, "properties": object{
			"virtualMachineProfile": object{"networkProfile": object{
				"networkInterfaceConfigurations": []any{object{"name": "nic",
					"properties": object{"primary": true, "enableIPForwarding": true,
						"ipConfigurations": []any{object{"name": "ip", "properties": object{
							"subnet": object{"id": string(subnet)}}}}}}}}}}}); err != nil {
		w.t.Fatal(err)
	}
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
			w.bend(table, "out", hop)
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
				if v.State != verdict.Broken ||
					!strings.Contains(v.Sentence, "its next hop "+hop+" cannot be reached") {
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
		// What may not be read, or hangs, is believed, and delays nothing. Lists show no hub.
		w.inject(emulator.Fault{Method: "GET", Path: "virtualNetworks$", Count: -1,
			Status: http.StatusForbidden, Code: "AuthorizationFailed"})
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

// TestFirewallDeleted: the Azure Firewall of a default route is deleted. The state says so at the
// latest when networks are read again, although the config does not name the firewall, and is good
// again soon after the firewall is back. An address that the firewall does not have is lost, too.
func TestFirewallDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table, firewall, config := egressWorld(t)
		config.Spec.Egress.Mode, config.Spec.Egress.FirewallID = v1alpha1.GuardObserve, ""
		k := w.run(10*time.Second, config)
		state := func(want verdict.State, within time.Duration) {
			t.Helper()
			rounds := k.since(within)
			if v := rounds[len(rounds)-1].Verdicts[0]; v.State != want {
				t.Errorf("%s %s", v.State, v.Sentence)
			}
		}
		state(verdict.InSync, time.Minute)
		if status, body := w.op.Do("DELETE", firewall, networkAPI, nil); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		state(verdict.Broken, aroundBelieved+20*time.Second)
		w.firewall(firewall)
		state(verdict.InSync, aroundLost+20*time.Second)
		w.bend(table, "out", "10.70.20.9")
		state(verdict.Broken, 15*time.Second)
		w.bend(table, "out", firewallAt)
		state(verdict.InSync, aroundLost+20*time.Second)
	})
}

// TestNextHopHolders: whatever can forward packets is believed: the front end of a load balancer,
// an instance of a scale set, a machine that was made after its subnet was read. What is none of
// them is lost.
func TestNextHopHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table, _, config := egressWorld(t)
		config.Spec.Egress = v1alpha1.Egress{}
		vnet := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "over-vnet")
		config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{RouteTableID: string(table),
			SubnetID: string(vnet.Child("subnets", "nodes"))}}
		nva := w.hub(vnet)
		hub := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "hub")
		k := w.run(10*time.Second, config)
		state := func(hop string, want verdict.State) {
			t.Helper()
			w.bend(table, "out", hop)
			rounds := k.since(30 * time.Second)
			for _, r := range rounds[1:] {
				if v := r.Verdicts[0]; v.State != want {
					t.Fatalf("%s: %s %s", hop, v.State, v.Sentence)
				}
			}
		}
		k.since(time.Minute)
		state(hubAt, verdict.InSync)
		// Nothing reads the networks now; a machine that is made is believed nevertheless.
		later := nva + "-later"
		w.put(later, object{"properties": object{"enableIPForwarding": true,
			"ipConfigurations": []any{object{"name": "ip", "properties": object{
				"subnet": object{"id": string(hub.Child("subnets", "appliances"))}}}}}})
		state("10.71.1.5", verdict.InSync)
		state("10.71.1.77", verdict.Broken)
		id := func(kind, name string) arm.ID {
			return arm.ResourceID(emulator.DefaultSubscription, "over-rg", kind, name)
		}
		in := object{"id": string(hub.Child("subnets", "appliances"))}
		w.appliances(id(arm.TypeScaleSet, "nva"), hub.Child("subnets", "appliances"))
		k.since(aroundBelieved)
		state("10.71.1.6", verdict.InSync)
		state("10.71.1.77", verdict.Broken)
		w.put(id("Microsoft.Network/loadBalancers", "lb"), object{"sku": object{
			"name": "Standard"}, "properties": object{"frontendIPConfigurations": []any{object{
			"name": "ip", "properties": object{"subnet": in}}}}})
		k.since(aroundLost + 10*time.Second)
		state("10.71.1.7", verdict.InSync)
		state("10.71.1.77", verdict.Broken)
	})
}

// TestAroundBudget: what is around many clusters with one hub costs at most four calls in five
// minutes: a list of their networks, the hub, the appliance, and its load balancer. The rest of
// what they read does not depend on the route to it.
func TestAroundBudget(t *testing.T) {
	for hop, balanced := range map[string]bool{hubAt: false, "10.71.1.10": true} {
		t.Run(hop, func(t *testing.T) { aroundBudget(t, hop, balanced) })
	}
}

func aroundBudget(t *testing.T, hop string, balanced bool) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		var configs []v1alpha1.ClusterRoutes
		var networks, tables []arm.ID
		for i := range 10 {
			name := fmt.Sprintf("c%d", i)
			c := w.addCluster(name, fmt.Sprint(80+i))
			w.edit(c.table, func(p object) {
				p["routes"] = append(p["routes"].([]any), object{"name": "out",
					"properties": object{"addressPrefix": "0.0.0.0/0",
						"nextHopType": "VirtualAppliance", "nextHopIpAddress": hop}})
			})
			networks, tables = append(networks, c.subnet.Parent()), append(tables, c.table)
			configs = append(configs, configure(name, c.cluster, c.target))
		}
		w.put(arm.GroupID(emulator.DefaultSubscription, "over-rg"), object{})
		nva := w.hub(networks...)
		if balanced {
			w.balancer(hop, nva)
		}
		k := w.run(20*time.Second, configs...)
		k.since(6 * time.Minute)
		reads := func() (all []string) {
			since := w.mark()
			k.since(2 * aroundBelieved)
			for _, r := range since() {
				// no interfaces of nodes, which prove deletes, and no clusters, at times by chance
				if r.Method == "GET" && !strings.Contains(r.Path, "/MC_") &&
					strings.Contains(r.Path, "/Microsoft.Network/") {
					all = append(all, r.Path)
				}
			}
			return all
		}
		with := reads()
		for _, table := range tables {
			w.without(table, "out")
		}
		k.since(6 * time.Minute)
		without := reads()
		if n := len(with) - len(without); n < 2 || n > 2*4 {
			t.Errorf("%d calls in %s", n, 2*aroundBelieved)
		}
	})
}

// slowAround delays what is read around the clusters by more than a check waits for it.
func (w *world) slowAround(paths ...string) Azure {
	next := emulatortest.Transport(w.t, w.e)
	return emulatortest.ClientOver(w.t, roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet && slices.ContainsFunc(paths, func(path string) bool {
			return strings.Contains(r.URL.Path, path)
		}) {
			time.Sleep(aroundWithin + aroundWithin/2)
		}
		return next.RoundTrip(r)
	}), w.e, emulatortest.Keeper)
}

// guardedWorld has an overlay cluster with a machine in a hub, and a config that declares no next
// hop. The default route leads to an address in the hub that nothing has.
func guardedWorld(t *testing.T) (w *world, config v1alpha1.ClusterRoutes) {
	w, table, _, config := egressWorld(t)
	config.Spec.Egress = v1alpha1.Egress{}
	vnet := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "over-vnet")
	config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{RouteTableID: string(table),
		SubnetID: string(vnet.Child("subnets", "nodes"))}}
	w.hub(vnet)
	w.bend(table, "out", "10.71.1.77")
	return w, config
}

// TestUnreachableSlowly: answers about networks, or about interfaces, always arrive later than a
// check waits for them. A later check uses them: the state becomes broken, stays so, and is broken
// at once after a restart.
func TestUnreachableSlowly(t *testing.T) {
	for _, slow := range []string{"/virtualNetworks", "/networkInterfaces"} {
		t.Run(slow, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, config := guardedWorld(t)
				store := newPaper()
				k := w.runOver(w.slowAround(slow), Options{Store: store}, 10*time.Second, config)
				k.since(2 * time.Minute)
				for _, r := range k.since(aroundBelieved) {
					if v := r.Verdicts[0]; v.State != verdict.Broken {
						t.Fatalf("%s %s", v.State, v.Sentence)
					}
				}
				k.stop()
				k = w.runOver(w.slowAround(slow), Options{Store: store}, 10*time.Second, config)
				for _, r := range k.since(2 * time.Minute) {
					if v := r.Verdicts[0]; v.State != verdict.Broken {
						t.Fatalf("after a restart: %s %s", v.State, v.Sentence)
					}
				}
			})
		})
	}
}

// TestInterfacesHang: reads of network interfaces hang. No check waits for those of a scale set
// longer than for others.
func TestInterfacesHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, config := guardedWorld(t)
		hub := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "hub")
		for _, group := range []string{"over-rg", "nva-rg"} {
			if group != "over-rg" {
				w.put(arm.GroupID(emulator.DefaultSubscription, group), object{})
			}
			w.appliances(arm.ResourceID(emulator.DefaultSubscription, group, arm.TypeScaleSet,
				"nva"), hub.Child("subnets", "appliances"))
		}
		w.inject(emulator.Fault{Method: "GET", Path: "networkInterfaces", Count: -1,
			Hold: "before"})
		k := w.run(10*time.Second, config)
		k.since(time.Minute)
		for _, r := range k.since(2 * aroundBelieved) {
			if took := r.Elapsed; took > 3*aroundWithin {
				t.Errorf("a check took %s", took)
			}
		}
	})
}

// TestFewTokensAround: what is around takes more calls than there are tokens, and they queue behind
// all others. No check waits for its turn longer than for its answers, so a subnet that loses its
// table without an event gets it back at the next check.
func TestFewTokensAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, config := guardedWorld(t)
		w.bend(arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeRouteTable,
			"egress"), "out", "10.71.1.250")
		vnet := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "over-vnet")
		hub := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "hub")
		for i := range 200 {
			w.put(arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeInterface,
				fmt.Sprintf("nic-%d", i)), object{"properties": object{"ipConfigurations": []any{
				object{"name": "ip", "properties": object{"subnet": object{
					"id": string(hub.Child("subnets", "appliances"))}}}}}})
		}
		w.inject(emulator.Fault{Method: "GET", Path: "networkInterfaces$", Count: -1,
			Status: http.StatusForbidden, Code: "AuthorizationFailed"}) // so each has its own call
		next := emulatortest.Transport(t, w.e)
		client := emulatortest.ClientOver(t,
			roundTrip(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil {
					response.Header.Set("x-ms-ratelimit-remaining-subscription-reads", "30")
				}
				return response, err
			}), w.e, emulatortest.Keeper)
		k := w.runOver(client, Options{}, 10*time.Second, config)
		for range 3 {
			for _, r := range k.since(time.Minute) {
				if r.Elapsed > 5*aroundWithin {
					t.Errorf("a check took %s", r.Elapsed)
				}
			}
			w.strip(vnet.Child("subnets", "nodes"))
			k.since(20 * time.Second) // an interval, and an operation of Azure
			if w.tableOf(vnet.Child("subnets", "nodes")) == "" {
				t.Error("a repair waits for what is around")
			}
		}
		rounds := k.since(2 * aroundBelieved) // the answers arrive meanwhile
		if v := rounds[len(rounds)-1].Verdicts[0]; v.State != verdict.Broken {
			t.Errorf("%s %s", v.State, v.Sentence)
		}
	})
}

// TestAroundSeldom: an interval of two minutes reads what is around as seldom as a short one.
func TestAroundSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, config := guardedWorld(t)
		table := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeRouteTable,
			"egress")
		w.bend(table, "out", hubAt)
		k := w.run(2*time.Minute, config)
		k.since(10 * time.Minute)
		since := w.mark()
		k.since(6 * aroundBelieved)
		reads := 0
		for _, r := range since() {
			if r.Method == "GET" && strings.Contains(strings.ToLower(r.Path), "networkinterfaces") {
				reads++
			}
		}
		if reads < 5 || reads > 7 {
			t.Errorf("%d reads of interfaces in %s", reads, 6*aroundBelieved)
		}
	})
}

// TestSecondReadFails: what was read a moment ago shows that a lost next hop is back and another
// one gone, and cannot be read again. The one that is back counts as back at once; the other is
// lost only when it could be read again.
func TestSecondReadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, config := guardedWorld(t)
		vnet := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "hub")
		first := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeInterface,
			"appliance")
		w.edit(arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeRouteTable,
			"egress"), func(p object) {
			p["routes"] = []any{}
			for i, to := range []string{"0.0.0.0/1", "128.0.0.0/1"} {
				p["routes"] = append(p["routes"].([]any), object{"name": fmt.Sprint("half", i),
					"properties": object{"addressPrefix": to, "nextHopType": "VirtualAppliance",
						"nextHopIpAddress": []string{hubAt, "10.71.1.5"}[i]}})
			}
		})
		next := emulatortest.Transport(t, w.e)
		var left atomic.Int64 // how many reads pass, -1: all
		left.Store(-1)
		fails := func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/networkInterfaces") {
				n := left.Load()
				switch n {
				case 0:
					return nil, fmt.Errorf("broken")
				case 1: // a later check uses it, and so reads again what it shows as lost
					time.Sleep(aroundWithin + aroundWithin/2)
				}
				left.Store(max(n-1, -1))
			}
			return next.RoundTrip(r)
		}
		k := w.runOver(emulatortest.ClientOver(t, roundTrip(fails), w.e, emulatortest.Keeper),
			Options{}, 10*time.Second, config)
		sentences := func(within time.Duration) (all []string) {
			for _, r := range k.since(within) {
				all = append(all, string(r.Verdicts[0].State)+" "+r.Verdicts[0].Sentence)
			}
			return all
		}
		all := sentences(2 * time.Minute)
		if last := all[len(all)-1]; !strings.Contains(last, "its next hop 10.71.1.5 cannot") {
			t.Fatal(last)
		}
		w.put(first+"-later", object{"properties": object{"enableIPForwarding": true,
			"ipConfigurations": []any{object{"name": "ip", "properties": object{
				"subnet": object{"id": string(vnet.Child("subnets", "appliances"))}}}}}})
		if status, body := w.op.Do("DELETE", first, networkAPI, nil); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		left.Store(1)
		all = sentences(aroundLost + 20*time.Second)
		if last := all[len(all)-1]; left.Load() != 0 || !strings.HasPrefix(last, "in-sync") {
			t.Errorf("%d reads left: %s", left.Load(), last)
		}
		left.Store(-1)
		all = sentences(2 * time.Minute)
		if last := all[len(all)-1]; !strings.Contains(last, "its next hop "+hubAt+" cannot") {
			t.Errorf("read again: %s", last)
		}
	})
}

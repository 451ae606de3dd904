package keeper

import (
	"bytes"
	"encoding/json"
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
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/verdict"
)

const firewallAt = "10.70.20.4"

// egressWorld is an overlay cluster whose nodes have a table with a default route to a firewall and
// routes of others, and a config that declares the default route.
func egressWorld(t testing.TB) (w *world, table, firewall arm.ID, config v1alpha1.ClusterRoutes) {
	w, cluster, _, _ := overlayWorld(t, slow)
	id := func(kind, name string) arm.ID {
		return arm.ResourceID(emulator.DefaultSubscription, "over-rg", kind, name)
	}
	table, firewall = id(arm.TypeRouteTable, "egress"), id(arm.TypeFirewall, "fw")
	vnet := id(arm.TypeVNet, "over-vnet")
	w.putTable(table, "partner 10.99.0.0/16 10.70.20.9", "out 0.0.0.0/0 "+firewallAt,
		"other 172.20.0.0/16 10.70.20.9")
	w.edit(table, func(p object) {
		p["routes"].([]any)[0].(object)["properties"].(object)["hasBgpOverride"] = false
	})
	w.edit(vnet, func(p object) {
		p["subnets"].([]any)[0].(object)["properties"].(object)["routeTable"] =
			object{"id": string(table)}
	})
	w.firewallSubnet()
	w.firewall(firewall)
	config = configure("over", cluster)
	config.Spec.Egress = v1alpha1.Egress{RouteTableID: string(table), FirewallID: string(firewall),
		Mode: v1alpha1.GuardEnforce, Routes: []v1alpha1.EgressRoute{{Name: "out",
			AddressPrefix: "0.0.0.0/0", NextHopIPAddress: firewallAt}}}
	time.Sleep(5 * time.Minute) // AKS takes that long
	return w, table, firewall, config
}

// firewallSubnet adds a firewall's subnet to the network of the overlay cluster.
func (w *world) firewallSubnet() {
	w.t.Helper()
	w.edit(arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "over-vnet"),
		func(p object) {
			p["subnets"] = append(p["subnets"].([]any), object{"name": "AzureFirewallSubnet",
				"properties": object{"addressPrefix": "10.70.20.0/26"}})
		})
}

// firewall makes an Azure Firewall, with the first free address of its subnet.
func (w *world) firewall(id arm.ID) {
	w.t.Helper()
	subnet := arm.ResourceID(id.Subscription(), id.ResourceGroup(), arm.TypeVNet, "over-vnet").
		Child("subnets", "AzureFirewallSubnet")
	w.put(id, object{"properties": object{"ipConfigurations": []any{object{"name": "ip",
		"properties": object{"subnet": object{"id": string(subnet)}}}}}})
}

// without takes the named routes from a table.
func (w *world) without(table arm.ID, names ...string) {
	w.t.Helper()
	w.edit(table, func(p object) {
		p["routes"] = slices.DeleteFunc(p["routes"].([]any), func(r any) bool {
			return slices.Contains(names, r.(object)["name"].(string))
		})
	})
}

// unmanaged are the documents of a table's routes but the named one, as they read.
func (w *world) unmanaged(table arm.ID, but string) string {
	w.t.Helper()
	var all bytes.Buffer
	for _, r := range w.get(table)["properties"].(object)["routes"].([]any) {
		if r := r.(object); r["name"] != but {
			delete(r, "etag") // it changes with the table's
			text, _ := json.Marshal(r)
			all.Write(text)
		}
	}
	return all.String()
}

// TestEgress: someone deletes the default route of an overlay cluster's table, and someone else
// points it elsewhere. It is back within an interval and two seconds, with one PUT, and the routes
// of others are as they were.
func TestEgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table, _, config := egressWorld(t)
		var pause atomic.Bool
		k := w.runWith(Options{ClusterPaused: func(string) string {
			return map[bool]string{true: "until the firewall has moved"}[pause.Load()]
		}}, 10*time.Second, config)
		k.since(time.Minute)
		theirs, before := w.unmanaged(table, "out"), w.routes(table)
		for _, harm := range []struct {
			what string
			do   func()
		}{
			{"deleted", func() { w.without(table, "out") }},
			{"bent", func() {
				w.edit(table, func(p object) {
					for _, r := range p["routes"].([]any) {
						if r := r.(object); r["name"] == "out" {
							r["properties"].(object)["nextHopIpAddress"] = "10.70.20.99"
						}
					}
				})
			}},
			{"to the internet", func() {
				w.without(table, "out")
				w.edit(table, func(p object) {
					p["routes"] = append(p["routes"].([]any), object{"name": "mine",
						"properties": object{"addressPrefix": "0.0.0.0/0",
							"nextHopType": "Internet"}})
				})
			}},
		} {
			what := harm.what
			harm.do()
			since := w.mark()
			rounds := k.since(12*time.Second + 2*operation)
			if puts, _ := putsOf(since(), table); len(puts) != 1 {
				t.Errorf("%s: %d PUTs", what, len(puts))
			}
			w.expectRoutes(table, before...)
			if after := w.unmanaged(table, "out"); what != "to the internet" && after != theirs {
				t.Errorf("%s: routes of others were\n%s\nand are\n%s", what, theirs, after)
			}
			repaired := false
			for _, r := range rounds {
				for _, c := range r.Changes {
					repaired = repaired || c.Repair && c.Egress
				}
			}
			if !repaired {
				t.Errorf("%s: no check says that it repairs: %+v", what, rounds)
			}
			if last := rounds[len(rounds)-1]; len(last.Findings) > 0 ||
				last.Verdicts[0].State != verdict.InSync {
				t.Errorf("%s, afterwards: %+v %v", what, last.Findings, last.Verdicts)
			}
		}
		// A pause of the cluster leaves it as it is, and the state says so.
		pause.Store(true)
		since := w.mark()
		w.without(table, "out", "mine")
		rounds := k.since(40 * time.Second)
		w.expectNoWrites("while it is paused", since())
		if v := rounds[len(rounds)-1].Verdicts[0]; v.State != verdict.Bypassed {
			t.Errorf("while it is paused: %s %s", v.State, v.Sentence)
		}
		pause.Store(false)
		k.since(12*time.Second + 2*operation)
		w.expectRoutes(table, before...)
		// What is removed from the config is left alone.
		config.Spec.Egress = v1alpha1.Egress{}
		config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{SubnetID: string(w.get(
			table)["properties"].(object)["subnets"].([]any)[0].(object)["id"].(string)),
			RouteTableID: string(table)}}
		k.Reload([]v1alpha1.ClusterRoutes{config})
		since = w.mark()
		w.without(table, "out", "mine")
		k.since(time.Minute)
		w.expectNoWrites("after it left the config", since())
	})
}

// TestEgressHopTypes: routes without an address come back like others, and as Azure takes them.
func TestEgressHopTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table, _, config := egressWorld(t)
		config.Spec.Egress.FirewallID = ""
		config.Spec.Egress.Routes = []v1alpha1.EgressRoute{
			{Name: "out", AddressPrefix: "0.0.0.0/0", NextHopType: v1alpha1.HopGateway},
			{Name: "replies", AddressPrefix: "20.1.2.3/32", NextHopType: v1alpha1.HopInternet},
			{Name: "never", AddressPrefix: "20.1.2.4/32", NextHopType: v1alpha1.HopNone}}
		k := w.runWith(Options{}, 10*time.Second, config)
		k.since(time.Minute)
		before := w.routes(table)
		w.edit(table, func(p object) {
			for _, r := range p["routes"].([]any) {
				if r := r.(object); r["name"] == "never" {
					r["properties"] = object{"addressPrefix": "20.1.2.4/32",
						"nextHopType": "VirtualAppliance", "nextHopIpAddress": firewallAt}
				}
			}
		})
		w.without(table, "replies", "out")
		k.since(12*time.Second + 3*operation)
		w.expectRoutes(table, before...)
		rounds := k.since(time.Minute)
		if last := rounds[len(rounds)-1]; len(last.Findings) > 0 ||
			last.Verdicts[0].State != verdict.InSync || len(before) != 5 {
			t.Errorf("%q %+v %v", before, last.Findings, last.Verdicts)
		}
	})
}

// TestEgressObserved: with Observe, nothing is written, and a finding, the state and the changes
// that Enforce would make say so.
func TestEgressObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table, _, config := egressWorld(t)
		config.Spec.Egress.Mode = v1alpha1.GuardObserve
		k := w.run(10*time.Second, config)
		k.since(time.Minute)
		since := w.mark()
		w.without(table, "out")
		rounds := k.since(30 * time.Second)
		w.expectNoWrites("while it observes", since())
		last := rounds[len(rounds)-1]
		f := of(last, finding.EgressRouteLost)
		if f == nil || f.Severity != finding.Error ||
			f.Message != "egress has no route for 0.0.0.0/0, which must go to "+firewallAt {
			t.Errorf("findings %+v", last.Findings)
		}
		if v := last.Verdicts[0]; v.State != verdict.Bypassed ||
			!strings.Contains(v.Sentence, "bypasses "+firewallAt+" by") {
			t.Errorf("%s: %s", v.State, v.Sentence)
		}
		if len(last.OnlyObserved) != 1 || last.OnlyObserved[0].Route != "out" {
			t.Errorf("only observed: %+v", last.OnlyObserved)
		}
	})
}

// TestEgressFirewall: the firewall is deleted, and another one has its name and another address.
// Nothing is written to the dead address, and the finding names the new one. With the old address,
// the route is put back.
func TestEgressFirewall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table, firewall, config := egressWorld(t)
		k := w.run(10*time.Second, config)
		k.since(time.Minute)
		if status, body := w.op.Do("DELETE", firewall, networkAPI, nil); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		since := w.mark()
		rounds := k.since(applianceBelieved + 20*time.Second) // its route is still there
		last := rounds[len(rounds)-1]
		if f := of(last, finding.EgressHopGone); f == nil ||
			!strings.Contains(f.Message, "firewall fw does not exist") ||
			last.Verdicts[0].State != verdict.Broken {
			t.Errorf("%s, findings %+v", last.Verdicts[0].State, last.Findings)
		}
		w.without(table, "out")
		rounds = k.since(time.Minute)
		w.expectNoWrites("without the firewall", since())
		last = rounds[len(rounds)-1]
		if f := of(last, finding.EgressRouteLost); f == nil ||
			!strings.Contains(f.Message, "it is not put back: firewall fw does not exist") {
			t.Errorf("findings %+v", last.Findings)
		}
		w.firewall(arm.ResourceID(firewall.Subscription(), firewall.ResourceGroup(),
			arm.TypeFirewall, "another")) // it has the address now
		w.firewall(firewall)
		rounds = k.since(7 * time.Minute)
		w.expectNoWrites("with another address", since())
		last = rounds[len(rounds)-1]
		if f := of(last, finding.EgressHopGone); f == nil || !strings.Contains(f.Message,
			"firewall fw has the address 10.70.20.5") || !strings.Contains(f.Advice,
			"set nextHopIPAddress in spec.egress of over to 10.70.20.5") {
			t.Errorf("findings %+v", last.Findings)
		}
		w.addRoutes(table, "out 0.0.0.0/0 10.70.20.5") // so nothing is dropped
		rounds = k.since(time.Minute)
		last = rounds[len(rounds)-1]
		if f := of(last, finding.EgressHopGone); f == nil || f.Severity != finding.Warning ||
			last.Verdicts[0].State != verdict.AtRisk {
			t.Errorf("%s, findings %+v", last.Verdicts[0].State, last.Findings)
		}
		w.without(table, "out")
		config.Spec.Egress.Routes = []v1alpha1.EgressRoute{{AddressPrefix: "0.0.0.0/0",
			NextHopIPAddress: "10.70.20.5"}}
		k.Reload([]v1alpha1.ClusterRoutes{config})
		k.since(30 * time.Second)
		if got := w.routes(table); !slices.Contains(got, "0.0.0.0/0>10.70.20.5") {
			t.Errorf("after the config was corrected: %v", got)
		}
	})
}

// TestEgressKubenet: the table of a kubenet cluster is its cloud provider's. It is only watched,
// also if the config does not name it.
func TestEgressKubenet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		config := w.demoConfig()
		config.Spec.Egress = v1alpha1.Egress{RouteTableID: string(w.demo.ClusterTable),
			Mode: v1alpha1.GuardEnforce, Routes: []v1alpha1.EgressRoute{{
				AddressPrefix: "0.0.0.0/0", NextHopIPAddress: "10.42.9.4"}}}
		k := w.run(10*time.Second, config)
		k.since(time.Minute)
		w.provide(func(p object) {
			p["routes"] = slices.DeleteFunc(p["routes"].([]any), func(r any) bool {
				return r.(object)["properties"].(object)["addressPrefix"] == "0.0.0.0/0"
			})
		})
		since := w.mark()
		rounds := k.since(time.Minute)
		w.expectNoWrites("in a cluster's route table", since())
		f := of(rounds[len(rounds)-1], finding.EgressRouteLost)
		if f == nil || !strings.Contains(f.Message, "whose cloud provider writes it") {
			t.Errorf("findings %+v", rounds[len(rounds)-1].Findings)
		}
	})
}

// TestEgressFresh: the firewall and the route are deleted at once, as with its network. What an
// earlier check has read of the firewall proves nothing, so nothing is written to its address.
func TestEgressFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table, firewall, config := egressWorld(t)
		k := w.run(10*time.Second, config)
		k.since(time.Minute)
		since := w.mark()
		w.without(table, "out")
		if status, body := w.op.Do("DELETE", firewall, networkAPI, nil); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		k.since(time.Minute)
		w.expectNoWrites("without the firewall", since())
	})
}

// TestEgressLate: the write of the route waits for a minute, and meanwhile the firewall is deleted.
// Nothing is written to its address.
func TestEgressLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table, firewall, config := egressWorld(t)
		k := w.run(10*time.Second, config)
		k.since(time.Minute)
		w.busyOnce("/egress", func() { w.remove(firewall) })
		w.without(table, "out")
		k.since(3 * time.Minute)
		if got := w.routes(table); slices.Contains(got, "0.0.0.0/0>"+firewallAt) {
			t.Errorf("after the firewall was deleted: %v", got)
		}
	})
}

// TestEgressBalancer: spec.egress names a load balancer, or its front end, to which the default
// route leads. The route is put back while the load balancer has its address and a backend, or may
// not be read, and only then. The finding names the new address.
func TestEgressBalancer(t *testing.T) {
	for _, below := range []string{"", "/frontendIPConfigurations/IP"} {
		synctest.Test(t, func(t *testing.T) {
			w, table, _, config := egressWorld(t)
			const first, second = "10.71.1.10", "10.71.1.11"
			nva := w.hub(arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet,
				"over-vnet"))
			lb := w.balancer(first, nva)
			w.bend(table, "out", first)
			config.Spec.Egress.FirewallID = string(lb) + below
			config.Spec.Egress.Routes = []v1alpha1.EgressRoute{{Name: "out",
				AddressPrefix: "0.0.0.0/0", NextHopIPAddress: first}}
			k := w.run(10*time.Second, config)
			// lose removes the route. Wrong is why it is not put back, "" if it is.
			lose := func(what, wrong, advice string) {
				t.Helper()
				since := w.mark()
				w.without(table, "out")
				rounds := k.since(applianceBelieved + 20*time.Second)
				last := rounds[len(rounds)-1]
				f, back := of(last, finding.EgressHopGone), slices.Contains(w.routes(table),
					"0.0.0.0/0>"+first)
				if back != (wrong == "") || back != (f == nil) {
					t.Errorf("%s: it is back: %v; %+v", what, back, last.Findings)
				}
				if wrong == "" {
					return
				}
				w.expectNoWrites(what, since())
				if f != nil && (!strings.Contains(f.Message, wrong) ||
					!strings.Contains(f.Advice, advice)) || last.Verdicts[0].State ==
					verdict.InSync {
					t.Errorf("%s: %s %+v", what, last.Verdicts[0].State, f)
				}
				if f := of(last, finding.EgressRouteLost); f == nil ||
					!strings.Contains(f.Message, "it is not put back: "+wrong) {
					t.Errorf("%s: %+v", what, last.Findings)
				}
			}
			name := "load balancer nva-lb"
			if below != "" {
				name = "front end ip of " + name
			}
			k.since(time.Minute)
			lose("it is there", "", "")
			end := w.inject(emulator.Fault{Method: "GET", Path: "loadBalancers", Count: -1,
				Status: http.StatusForbidden, Code: "AuthorizationFailed"})
			lose("it may not be read", "", "")
			end()
			w.pool(nil, nva)
			lose("without a backend", name+" has no backend behind "+first,
				"put appliances into its backend pool, or correct spec.egress of over")
			w.balancer(second, nva)
			lose("with another address", name+" has the address "+second,
				"set nextHopIPAddress in spec.egress of over to "+second)
			// Someone leads the route to the present address: it is left alone.
			w.edit(table, func(p object) {
				p["routes"] = append(p["routes"].([]any), object{"name": "mine",
					"properties": object{"addressPrefix": "0.0.0.0/0",
						"nextHopType": "VirtualAppliance", "nextHopIpAddress": second}})
			})
			since := w.mark()
			rounds := k.since(time.Minute)
			if last := rounds[len(rounds)-1]; of(last, finding.EgressHopGone) == nil ||
				of(last, finding.EgressRouteLost) != nil {
				t.Errorf("to the present address: %+v", last.Findings)
			}
			w.expectNoWrites("to the present address", since())
			w.without(table, "mine")
			// What an earlier check has read proves nothing: both are deleted at once.
			w.balancer(first, nva)
			k.since(applianceBelieved + 20*time.Second)
			if status, body := w.op.Do("DELETE", lb, networkAPI, nil); status >= 300 {
				t.Fatalf("%d %s", status, body)
			}
			lose("deleted", "load balancer nva-lb does not exist",
				"create the load balancer again, or correct spec.egress of over")
		})
	}
}

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	fw = arm.ID(inRG + arm.TypeFirewall + "/fw")
	lb = arm.ID(inRG + arm.TypeLoadBalancer + "/lb")
)

// egress is a cluster of Azure CNI Overlay whose config enforces a default route in hub-rt, the
// table on its nodes.
func egress(t testing.TB, routes ...string) *world {
	w := guarded(t)
	w.configs[0].Spec.Guard.Subnets = nil
	w.configs[0].Spec.Egress = v1alpha1.Egress{RouteTableID: string(hub),
		Mode: v1alpha1.GuardEnforce, Routes: []v1alpha1.EgressRoute{{Name: "out",
			AddressPrefix: "0.0.0.0/0", NextHopIPAddress: "10.1.0.4"}}}
	return w.table(hub, append(routes, "partner 192.168.0.0/16 10.1.0.9")...)
}

// firewall adds the firewall to the config, with its present addresses.
func (w *world) firewall(addresses ...string) *world {
	w.configs[0].Spec.Egress.FirewallID = string(fw)
	var configs []string
	for _, a := range addresses {
		configs = append(configs, fmt.Sprintf(`{"properties":{"privateIPAddress":%q}}`, a))
	}
	f, err := inventory.DecodeFirewall([]byte(fmt.Sprintf(
		`{"id":%q,"properties":{"ipConfigurations":[%s]}}`, fw, strings.Join(configs, ","))))
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Firewalls[fw.Key()] = f
	return w
}

const (
	egressMade = "create hub-rt out - 0.0.0.0/0>10.1.0.4"
	egressIs   = "out 0.0.0.0/0 10.1.0.4"
)

// TestEgressRoutes goes through the table at the head of egress.go.
func TestEgressRoutes(t *testing.T) {
	full := make([]string, 0, 400)
	for i := range 399 {
		full = append(full, fmt.Sprintf("r%d 10.%d.%d.0/24 10.1.0.9", i, 100+i/250, i%250))
	}
	for name, tt := range map[string]struct {
		world          *world
		changes, codes string
	}{
		"in sync": {egress(t, egressIs), "", ""},
		"missing": {egress(t), egressMade, ""},
		"bent, by another name": {egress(t, "mine 0.0.0.0/0 10.9.9.9"),
			"update hub-rt mine 0.0.0.0/0>10.9.9.9 0.0.0.0/0>10.1.0.4", ""},
		"to the internet": {egress(t, "out 0.0.0.0/0 Internet"),
			"update hub-rt out 0.0.0.0/0> 0.0.0.0/0>10.1.0.4", ""},
		"its name is taken": {egress(t, "OUT 10.7.0.0/16 10.9.9.9"),
			"create hub-rt out-2 - 0.0.0.0/0>10.1.0.4", ""},
		"full":           {egress(t, full...), "", "egress-route-lost"},
		"firewall there": {egress(t).firewall("10.1.0.4"), egressMade, ""},
		"firewall with another address": {egress(t).firewall("10.1.0.5"), "",
			"egress-hop-gone\negress-route-lost"},
		"another address, and bent": {egress(t, "out 0.0.0.0/0 10.9.9.9").firewall("10.1.0.5"), "",
			"egress-hop-gone\negress-route-lost"},
		"another address, and the route leads there": {
			egress(t, "out 0.0.0.0/0 10.1.0.5").firewall("10.1.0.5"), "",
			"egress-hop-gone warning"},
		"firewall deallocated": {egress(t, egressIs).firewall(), "", "egress-hop-gone"},
		"firewall unread":      {unreadFirewall(t, false), egressMade, "read-failed"},
		"firewall gone":        {unreadFirewall(t, true), "", "egress-hop-gone\negress-route-lost"},
	} {
		w := tt.world
		t.Run(name, func(t *testing.T) {
			w.t = t
			for _, f := range w.expect(tt.changes, tt.codes).Findings {
				if strings.Contains(f.Fix, "10.1.0.4") { // nothing leads to it
					t.Errorf("the fix is %q", f.Fix)
				}
			}
		})
	}
}

func unreadFirewall(t testing.TB, absent bool) *world {
	w := egress(t).firewall()
	delete(w.s.Firewalls, fw.Key())
	w.s.Unread[fw.Key()] = inventory.Unread{ID: fw, Absent: absent, Status: 403,
		Code: "AuthorizationFailed"}
	return w
}

// balancer adds a load balancer to the config, or its front end of a name, with front ends "NAME
// ADDRESS KIND": all (HA ports), some (ports), empty (no backend), public.
func (w *world) balancer(frontend string, frontends ...string) *world {
	w.configs[0].Spec.Egress.FirewallID = string(lb) + frontend
	var ends, rules []string
	for _, text := range frontends {
		f := strings.Fields(text)
		end := fmt.Sprintf(`{"name":%q,"properties":{"privateIPAddress":%q,"subnet":{"id":"/s"}}}`,
			f[0], f[1])
		if f[2] == "public" {
			end = `{"name":"public","properties":{"publicIPAddress":{"id":"/x"}}}`
		}
		ends = append(ends, end)
		protocol := map[string]string{"all": "All", "some": "Tcp", "empty": "All"}[f[2]]
		rules = append(rules, fmt.Sprintf(`{"properties":{"protocol":%q,`+
			`"frontendIPConfiguration":{"id":"%s/frontendIPConfigurations/%s"},`+
			`"backendAddressPool":{"id":"%s/backendAddressPools/%s"}}}`, protocol, lb, f[0], lb, f[2]))
	}
	const full = `"properties":{"backendIPConfigurations":[{"id":"/n"}]}}`
	b, err := inventory.DecodeBalancer([]byte(fmt.Sprintf(`{"id":%q,"properties":{`+
		`"frontendIPConfigurations":[%s],"loadBalancingRules":[%s],"backendAddressPools":[`+
		`{"name":"empty"},{"name":"all",%s,{"name":"some",%s]}}`, lb, strings.Join(ends, ","),
		strings.Join(rules, ","), full, full)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Balancers[lb.Key()] = b
	return w
}

// TestEgressBalancer: a load balancer, or its front end, is the next hop like a firewall. It is
// gone only if that is certain.
func TestEgressBalancer(t *testing.T) {
	const lost, gone, f = "egress-route-lost", "egress-hop-gone", "/frontendIPConfigurations/F"
	unread := func(absent bool) *world {
		w := egress(t).balancer("")
		delete(w.s.Balancers, lb.Key())
		w.s.Unread[lb.Key()] = inventory.Unread{ID: lb, Absent: absent, Code: "AuthorizationFailed"}
		return w
	}
	for name, tt := range map[string]struct {
		world               *world
		changes, codes, why string
	}{
		"there":     {egress(t).balancer("", "f 10.1.0.4 all"), egressMade, "", ""},
		"the named": {egress(t).balancer(f, "f 10.1.0.4 all"), egressMade, "", ""},
		"another address": {egress(t).balancer("", "f 10.1.0.5 all"), "", gone + "\n" + lost,
			"load balancer lb has the address 10.1.0.5"},
		"the named one has another": {egress(t).balancer(f, "f 10.1.0.5 all", "g 10.1.0.4 all"), "",
			gone + "\n" + lost, "front end f of load balancer lb has the address 10.1.0.5"},
		"the route follows it": {egress(t, "out 0.0.0.0/0 10.1.0.5").balancer("", "f 10.1.0.5 all"),
			"", gone + " warning", "load balancer lb has the address 10.1.0.5"},
		"the route leads to another front end": {egress(t, "out 0.0.0.0/0 10.1.0.5").balancer("",
			"f 10.1.0.4 all", "g 10.1.0.5 all"), "", "", ""},
		"to one without HA ports": {egress(t, "out 0.0.0.0/0 10.1.0.5").balancer("",
			"f 10.1.0.4 all", "g 10.1.0.5 some"),
			"update hub-rt out 0.0.0.0/0>10.1.0.5 0.0.0.0/0>10.1.0.4", "", ""},
		"to another than the named": {egress(t, "out 0.0.0.0/0 10.1.0.5").balancer(f,
			"f 10.1.0.4 all", "g 10.1.0.5 all"),
			"update hub-rt out 0.0.0.0/0>10.1.0.5 0.0.0.0/0>10.1.0.4", "", ""},
		"without HA ports": {egress(t).balancer("", "f 10.1.0.4 some", "g 10.1.0.5 all"),
			egressMade, "", ""},
		"moved, without HA ports": {egress(t).balancer("", "f 10.1.0.5 some"), "",
			gone + "\n" + lost, "load balancer lb has the address 10.1.0.5"},
		"without a backend": {egress(t, egressIs).balancer("", "f 10.1.0.4 empty"), "", gone,
			"load balancer lb has no backend behind 10.1.0.4"},
		"one without a backend": {egress(t).balancer("", "f 10.1.0.4 empty", "g 10.1.0.5 all"), "",
			gone + "\n" + lost, "load balancer lb has no backend behind 10.1.0.4"},
		"moved, without a backend": {egress(t).balancer("", "f 10.1.0.5 empty"), "",
			gone + "\n" + lost, "load balancer lb has the address 10.1.0.5"},
		"only public": {egress(t).balancer("", "f - public"), "", gone + "\n" + lost,
			"load balancer lb has no internal front end"},
		"without the named": {egress(t).balancer(f, "g 10.1.0.4 all"), "", gone + "\n" + lost,
			"load balancer lb has no internal front end F"},
		"its address is not known yet": {egress(t).balancer("", "f - all", "g 10.1.0.5 all"),
			egressMade, "", ""},
		"unread":  {unread(false), egressMade, "read-failed", ""},
		"deleted": {unread(true), "", gone + "\n" + lost, "load balancer lb does not exist"},
	} {
		w := tt.world
		t.Run(name, func(t *testing.T) {
			w.t = t
			for _, f := range w.expect(tt.changes, tt.codes).Findings {
				if strings.Contains(f.Fix, "10.1.0.4") { // nothing leads to it
					t.Errorf("the fix is %q", f.Fix)
				}
				if f.Code == finding.EgressHopGone && !strings.HasSuffix(f.Message, ": "+tt.why) {
					t.Errorf("%q, want %q", f.Message, tt.why)
				}
			}
		})
	}
	w := egress(t).balancer(f)
	delete(w.s.Balancers, lb.Key())
	if p := w.expect(egressMade, ""); !slices.Equal(p.Need.Balancers, []arm.ID{lb}) {
		t.Errorf("needs %+v", p.Need)
	}
	w.configs[0].Spec.Egress.Mode = v1alpha1.GuardObserve
	if p := w.expect("", lost); !slices.Equal(p.Need.Balancers, []arm.ID{lb}) {
		t.Errorf("Observe needs %+v", p.Need)
	}
}

// TestProposeBalancer: what is proposed names the load balancer to which the default route leads,
// its front end if it has several, or says which one could not be read.
func TestProposeBalancer(t *testing.T) {
	w := egress(t, egressIs).balancer("", "f 10.1.0.4 all")
	w.s.Clusters[clusterA.Key()].Outbound = "userDefinedRouting"
	at := vnet + "/subnets/appliances"
	w.subnet(at, "10.1.0.0/24", "")
	w.s.Subnets[at.Key()] = w.s.Subnets[at.Key()].WithConfigurations([]arm.ID{
		lb.Child("frontendIPConfigurations", "f"), lb.Child("frontendIPConfigurations", "g")})
	proposed := func() (Proposal, string) {
		for _, b := range w.s.Balancers {
			for i := range b.Frontends {
				b.Frontends[i].Subnet = at
			}
		}
		p := Propose(w.s.Snapshot)[0]
		return p, p.Config.Spec.Egress.FirewallID
	}
	if p, got := proposed(); got != string(lb) || p.Appliance() != "load balancer" {
		t.Errorf("%s %+v", got, p)
	}
	w.balancer("", "f 10.1.0.4 all", "g 10.1.0.5 all")
	if _, got := proposed(); got != string(lb)+"/frontendIPConfigurations/f" {
		t.Error(got)
	}
	clear(w.s.Balancers)
	if p, got := proposed(); got != "" || !slices.Equal(p.Want.Balancers, []arm.ID{lb}) {
		t.Errorf("%s, wants %+v", got, p.Want)
	}
	w.s.Unread[lb.Key()] = inventory.Unread{ID: lb, Code: "AuthorizationFailed"}
	if p, got := proposed(); got != "" || len(p.Want.Balancers) > 0 ||
		strings.Count(strings.Join(p.Notes, "\n"), "load balancer lb could not be read "+
			"(AuthorizationFailed): if it has 10.1.0.4, name it in spec.egress.firewallID") != 1 {
		t.Errorf("%s %q", got, p.Notes)
	}
}

// TestEgressHopTypes: a route to a gateway, to the internet or to nowhere is put back like one to
// an address, and a route that would take the nodes their egress is not written.
func TestEgressHopTypes(t *testing.T) {
	to := func(kind v1alpha1.HopType, prefix, outbound string, routes ...string) *world {
		w := egress(t, routes...)
		w.configs[0].Spec.Egress.Routes = []v1alpha1.EgressRoute{{Name: "out",
			AddressPrefix: prefix, NextHopType: kind}}
		cluster := w.s.Clusters[clusterA.Key()]
		cluster.Outbound = outbound
		w.subnet(nodesA, "10.240.0.0/24", hub)
		return w
	}
	const all, one, udr = "0.0.0.0/0", "20.1.2.3/32", "userDefinedRouting"
	for name, tt := range map[string]struct {
		world              *world
		changes, codes, is string
	}{
		"gateway missing": {to(v1alpha1.HopGateway, all, udr), "create hub-rt out - " +
			"0.0.0.0/0>", "", "VirtualNetworkGateway"},
		"gateway there": {to(v1alpha1.HopGateway, all, udr, "out 0.0.0.0/0 VirtualNetworkGateway"),
			"", "", ""},
		"gateway bent": {to(v1alpha1.HopGateway, all, udr, "out 0.0.0.0/0 10.9.9.9"),
			"update hub-rt out 0.0.0.0/0>10.9.9.9 0.0.0.0/0>", "", "VirtualNetworkGateway"},
		"an address to the internet": {to(v1alpha1.HopInternet, one, udr),
			"create hub-rt out - 20.1.2.3/32>", "", "Internet"},
		"dropped addresses": {to(v1alpha1.HopNone, one, udr, "x 20.1.2.3/32 Internet"),
			"update hub-rt x 20.1.2.3/32> 20.1.2.3/32>", "", "None"},
		"all to the internet": {to(v1alpha1.HopInternet, all, udr), "", "egress-route-lost",
			"need it to lead to an appliance or a virtual network gateway"},
		"all dropped": {to(v1alpha1.HopNone, all, "loadBalancer"), "", "egress-route-lost",
			"it would drop the egress of the nodes of shop"},
		"all dropped, as it must be": {to(v1alpha1.HopNone, all, "none"),
			"create hub-rt out - 0.0.0.0/0>", "", "None"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.world.t = t
			p := tt.world.expect(tt.changes, tt.codes)
			for _, f := range p.Findings {
				if !strings.Contains(f.Message, tt.is) {
					t.Error(f.Message)
				}
			}
			for _, c := range p.Changes {
				body, err := inventory.SetRoutes(tt.world.s.Table(hub).Raw,
					p.Desired.Table(hub).Routes)
				if err != nil || c.New.NextHopType != tt.is || c.New.NextHopIPAddress != "" ||
					strings.Contains(string(body), "10.9.9.9") ||
					strings.Contains(string(body), "invalid") {
					t.Errorf("%v %+v\n%s", err, c.New, body)
				}
			}
		})
	}

	// It was there, so another writer removed it.
	w := to(v1alpha1.HopGateway, all, udr, "out 0.0.0.0/0 VirtualNetworkGateway")
	_, next := Decide(Observation{Snapshot: w.s.Snapshot, Configs: w.configs,
		Taken: TakenBy(w.configs)}, w.s.Memory)
	w.table(hub)
	w.s.Memory = next
	if p := w.expect("create hub-rt out - 0.0.0.0/0>", ""); !p.Changes[0].Repair {
		t.Errorf("%+v", p.Changes)
	}
	w.configs[0].Spec.Egress.Routes[0].NextHopType = v1alpha1.HopAppliance
	w.configs[0].Spec.Egress.Routes[0].NextHopIPAddress = "10.1.0.4"
	if p := w.expect(egressMade, ""); p.Changes[0].Repair {
		t.Errorf("another type is no repair: %+v", p.Changes)
	}
}

// TestEgressNeeds: a firewall that was not read yet is read before the write.
func TestEgressNeeds(t *testing.T) {
	w := egress(t).firewall()
	delete(w.s.Firewalls, fw.Key())
	if p := w.expect(egressMade, ""); len(p.Need.Firewalls) != 1 || p.Need.Firewalls[0] != fw {
		t.Errorf("needs %+v", p.Need)
	}
	w.configs[0].Spec.Egress.Mode = v1alpha1.GuardObserve
	if p := w.expect("", "egress-route-lost"); len(p.Need.Firewalls) != 1 ||
		len(p.OnlyObserved) != 1 {
		t.Errorf("Observe needs %+v, and would change %+v", p.Need, p.OnlyObserved)
	}
}

// TestEgressWatched: a table that a cloud provider writes, or may write, is only watched.
func TestEgressWatched(t *testing.T) {
	named := shop(t) // a kubenet cluster's own table, discovered
	named.configs[0].Spec.Egress = v1alpha1.Egress{RouteTableID: string(tableA),
		Mode: v1alpha1.GuardEnforce, Routes: []v1alpha1.EgressRoute{{AddressPrefix: "10.9.0.0/16",
			NextHopIPAddress: "10.1.0.4"}}}

	shared := egress(t) // another cluster's own, which is on both node subnets
	shared.cluster(clusterB, "10.245.0.0/16", nodesB).subnet(nodesB, "10.240.1.0/24", hub)
	shared.config("play", clusterB)
	shared.table(hub, "b0____102450024 10.245.0.0/24 10.240.1.4")

	bent := egress(t, "out 0.0.0.0/0 10.9.9.9") // its routes are corrected by hand
	bent.configs[0].Spec.RouteTableID = string(hub)

	unread := egress(t) // the cluster is unknown
	delete(unread.s.Clusters, clusterA.Key())
	unread.s.Unread[clusterA.Key()] = inventory.Unread{ID: clusterA, Status: 500}

	made := egress(t)
	group := arm.GroupID(sub, "MC_shop")
	table := arm.ResourceID(sub, group.ResourceGroup(), arm.TypeRouteTable, "rt")
	made.configs[0].Spec.Egress.RouteTableID = string(table)
	made.table(table)

	away := egress(t)
	away.configs[0].Spec.RouteTableID = string(hub)
	away.configs[0].Spec.Egress.Routes[0] = v1alpha1.EgressRoute{Name: "gw",
		AddressPrefix: "0.0.0.0/0", NextHopType: v1alpha1.HopGateway}

	pods := egress(t)
	pods.configs[0].Spec.Egress.Routes[0].AddressPrefix = "10.244.128.0/17"

	for name, tt := range map[string]struct {
		w       *world
		changes string
		codes   string
		why     string
	}{
		"a kubenet cluster's own": {named, threeCreated, "egress-route-lost",
			"it is or may be the route table of cluster shop, whose cloud provider writes it"},
		"of another kubenet cluster": {shared, "", "egress-route-lost",
			"it is or may be the route table of cluster play"},
		"named as the cluster's own": {bent, "", "egress-route-lost",
			"it is or may be the route table of cluster shop"},
		"named, to a gateway": {away, "", "egress-route-lost",
			"it is or may be the route table of cluster shop"},
		"cluster unread": {unread, "", "egress-route-lost\nread-failed",
			"it is unknown whether its cloud provider writes the table"},
		"in a node resource group": {made, "", "egress-route-lost", "AKS made it"},
		"would take pods' packets": {pods, "", "egress-route-lost",
			"10.244.128.0/17 covers pods of shop (10.244.0.0/16)"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.w.t = t
			p := tt.w.expect(tt.changes, tt.codes)
			said := false
			for _, f := range p.Findings {
				if f.Code == "egress-route-lost" && name != "would take pods' packets" &&
					!strings.HasPrefix(f.Fix, "az network route-table route ") {
					t.Errorf("the fix is %q", f.Fix)
				}
				said = said || strings.Contains(f.Message, "; it is not put back: ") &&
					strings.Contains(f.Message, tt.why)
			}
			if !said {
				t.Errorf("no finding says %q: %+v", tt.why, p.Findings)
			}
		})
	}
}

// TestEgressInTarget: a table that is also a target gets pod routes and egress routes in one plan,
// and all other routes survive byte for byte, also when it is read again.
func TestEgressInTarget(t *testing.T) {
	w := shop(t)
	w.table(gateway, "own 192.168.0.0/16 10.1.0.4", "out 0.0.0.0/0 10.9.9.9")
	w.configs[0].Spec.Egress = v1alpha1.Egress{RouteTableID: strings.ToUpper(string(gateway)),
		Mode: v1alpha1.GuardEnforce, Routes: []v1alpha1.EgressRoute{
			{AddressPrefix: "0.0.0.0/0", NextHopIPAddress: "10.1.0.4"},
			{AddressPrefix: "172.16.0.0/12", NextHopIPAddress: "10.1.0.4"}}}
	p := w.expect("update gw-rt out 0.0.0.0/0>10.9.9.9 0.0.0.0/0>10.1.0.4\n"+threeCreated+
		"\ncreate gw-rt egress-172.16.0.0-12 - 172.16.0.0/12>10.1.0.4", "")
	planner := New(w.s, w.configs)
	for _, p := range []Plan{p, planner.Again(w.s.Table(gateway))} {
		body, err := inventory.SetRoutes(w.s.Table(gateway).Raw, p.Desired.Table(gateway).Routes)
		if err != nil || len(p.Changes) != 5 {
			t.Fatal(err, p.Changes)
		}
		for _, kept := range []string{routeDoc("own 192.168.0.0/16 10.1.0.4"),
			routeDoc("out 0.0.0.0/0 10.1.0.4"), `"tags":{"a":"b"}`, `"future":[1, 2]`} {
			if !strings.Contains(string(body), kept) {
				t.Errorf("%s lacks %s", body, kept)
			}
		}
	}
}

// TestEgressRepair: a route that was there and is gone was removed by another writer. A second
// config for the same table changes nothing, and one that is gone from Azure needs nothing.
func TestEgressRepair(t *testing.T) {
	w := egress(t, egressIs)
	_, next := Decide(Observation{Snapshot: w.s.Snapshot, Configs: w.configs,
		Taken: TakenBy(w.configs)}, w.s.Memory)
	if hop := next.Of(clusterA).InSync[hub.Key()][netip.MustParsePrefix("0.0.0.0/0")]; hop !=
		netip.MustParseAddr("10.1.0.4") {
		t.Fatalf("in sync: %v", next.Of(clusterA).InSync)
	}
	w.table(hub)
	w.s.Memory = next
	other := *w.config("play", clusterB)
	w.cluster(clusterB, "10.245.0.0/16", nodesB).subnet(nodesB, "10.240.1.0/24", "")
	cluster := w.s.Clusters[clusterB.Key()]
	cluster.Plugin, cluster.PluginMode = "azure", "overlay"
	other.Spec.Egress = w.configs[0].Spec.Egress
	w.configs[1] = other
	if p := w.expect(egressMade, ""); !p.Changes[0].Repair || !p.Changes[0].Egress ||
		Harm(p.Changes) != "route table hub-rt lacks 1 egress route" {
		t.Errorf("%+v: %s", p.Changes, Harm(p.Changes))
	}
	for _, id := range []arm.ID{clusterA, clusterB} {
		delete(w.s.Clusters, id.Key())
		w.s.Unread[id.Key()] = inventory.Unread{ID: id, Absent: true}
	}
	w.expect("", "cluster-missing\ncluster-missing")
}

// TestEgressTableGone: a table that does not exist is reported.
func TestEgressTableGone(t *testing.T) {
	w := egress(t)
	delete(w.s.Tables, hub.Key())
	w.s.Unread[hub.Key()] = inventory.Unread{ID: hub, Absent: true}
	w.expect("", "table-missing")
}

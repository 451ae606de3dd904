package trace

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// says is a short form of a matrix: its counts, and a line for each break.
func (m Matrix) says() string {
	text := fmt.Sprintf("%d pairs, %d delivered, %d dropped, %d unknown", m.Pairs, m.Delivered,
		m.Dropped, m.Unknown)
	for _, b := range m.Broken {
		text += fmt.Sprintf("\n%s %d %s (answer: %v) %s -> %s: %s", b.Verdict, b.Pairs, b.Kind,
			b.Answer, strings.Join(b.From, ","), strings.Join(b.To, ","), b.Why)
	}
	return text
}

func TestAll(t *testing.T) {
	lose := func(s *inventory.Snapshot, id arm.ID, at int) {
		setRoutes(s, id, slices.Delete(slices.Clone(s.Tables[id.Key()].Routes()), at, at+1))
	}
	for name, tt := range map[string]struct {
		change func(*inventory.Snapshot)
		want   string
	}{
		// 2 of pods, 2 of nodes, 2 of the gateway's subnet
		"all is well": {func(*inventory.Snapshot) {}, "6 pairs, 6 delivered, 0 dropped, 0 unknown"},
		"the association is lost": {func(s *inventory.Snapshot) {
			s.Subnets[nodes.Key()].RouteTable = ""
		}, "6 pairs, 2 delivered, 4 dropped, 0 unknown\n" +
			"dropped 2 node to pod (answer: false) 10.0.1.4,10.0.1.5 -> 10.0.1.4,10.0.1.5: " +
			"subnet v/nodes has no better route to the destination than 10.0.0.0/8 to None " +
			"(system route)\n" +
			"dropped 2 pod to pod (answer: false) 10.0.1.4,10.0.1.5 -> 10.0.1.4,10.0.1.5: subnet " +
			"v/nodes has no better route to the destination than 10.0.0.0/8 to None (system " +
			"route)"},
		"the gateway lacks one": {func(s *inventory.Snapshot) { lose(s, copied, 1) },
			"6 pairs, 5 delivered, 1 dropped, 0 unknown\n" +
				"dropped 1 subnet to pod (answer: false) v/gateway -> 10.0.1.5: subnet v/gateway " +
				"has no better route to the destination than 10.0.0.0/8 to None (system route)"},
		"a gateway without a table": {func(s *inventory.Snapshot) {
			s.Subnets[gateway.Key()].RouteTable = ""
			s.Subnets[gateway.Key()].Gateways = []arm.ID{
				"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/applicationGateways/agw"}
		}, "6 pairs, 4 delivered, 2 dropped, 0 unknown\n" +
			"dropped 2 subnet to pod (answer: false) v/gateway -> 10.0.1.4,10.0.1.5: subnet " +
			"v/gateway has no better route to the destination than 10.0.0.0/8 to None (system " +
			"route)"},
		"a wrong next hop still arrives": {func(s *inventory.Snapshot) {
			setRoute(s, copied, 1, user("10.244.1.0/24", "10.0.1.4"))
		}, "6 pairs, 6 delivered, 0 dropped, 0 unknown"},
		"a route hides a half of a node's pods": {func(s *inventory.Snapshot) {
			addRoute(s, copied, user("10.244.1.128/25", "None"))
		}, "9 pairs, 8 delivered, 1 dropped, 0 unknown\n" +
			"dropped 1 subnet to pod (answer: false) v/gateway -> 10.0.1.5: subnet v/gateway has " +
			"no better route to the destination than 10.244.1.128/25 to None (r 10.244.1.128/25 " +
			"in copied)"},
		"the answer is lost": {func(s *inventory.Snapshot) {
			addRoute(s, table, user("10.0.2.0/24", "None"))
		}, "6 pairs, 4 delivered, 2 dropped, 0 unknown\n" +
			"dropped 2 subnet to pod (answer: true) v/gateway -> 10.0.1.4,10.0.1.5: subnet " +
			"v/nodes has no better route to the destination than 10.0.2.0/24 to None (r " +
			"10.0.2.0/24 in rt)"},
		"dead ends at several nodes are one cause": {func(s *inventory.Snapshot) {
			far := twin(s, "10.70.0.0/16", "10.70.0.0/24")
			for _, subnet := range s.Subnets {
				if subnet.ID.Parent().Equal(far.ID) {
					subnet.RouteTable = copied
				}
			}
		}, "8 pairs, 6 delivered, 2 dropped, 0 unknown\n" +
			"dropped 2 subnet to pod (answer: false) a-twin/s -> 10.0.1.4,10.0.1.5: the next hop " +
			"is in no network that subnet a-twin/s reaches directly"},
		"IP forwarding is off": {func(s *inventory.Snapshot) {
			addNICs(s)
			for _, nic := range s.Interfaces {
				nic.Forwarding = nic.Configs[0].Address != netip.MustParseAddr("10.0.1.5")
			}
		}, "6 pairs, 2 delivered, 4 dropped, 0 unknown\ndropped 1 node to pod (answer: false) " +
			"10.0.1.4 -> 10.0.1.5: IP forwarding is off on the network interface of 10.0.1.5 " +
			"(aks-np-1-vmss instance 1), so Azure drops packets from or to the destination " +
			"there\ndropped 1 pod to pod (answer: false) 10.0.1.4 -> 10.0.1.5: IP forwarding is " +
			"off on the network interface of 10.0.1.5 (aks-np-1-vmss instance 1), so Azure drops " +
			"packets from or to the destination there\ndropped 1 subnet to pod (answer: false) " +
			"v/gateway -> 10.0.1.5: IP forwarding is off on the network interface of 10.0.1.5 " +
			"(aks-np-1-vmss instance 1), so Azure drops packets from or to the destination " +
			"there\ndropped 1 pod to pod (answer: false) 10.0.1.5 -> 10.0.1.4: IP forwarding is " +
			"off on the network interface of the sender's node, so Azure drops packets from or " +
			"to the source there"},
		"a security group": {func(s *inventory.Snapshot) {
			s.Subnets[nodes.Key()].SecurityGroup = nodesGroup
			s.SecurityGroups[nodesGroup.Key()] = group(nodesGroup, "deny in 100 * 10.0.2.0/24 * *",
				"deny in 200 Tcp 10.244.0.0/16 * 80")
		}, "6 pairs, 2 delivered, 2 dropped, 2 unknown\ndropped 2 subnet to pod (answer: false) " +
			"v/gateway -> 10.0.1.4,10.0.1.5: network security group nodes-nsg: rule deny-100 of " +
			"nodes-nsg (priority 100) denies it\nunknown 2 pod to pod (answer: false) " +
			"10.0.1.4,10.0.1.5 -> 10.0.1.4,10.0.1.5: it depends on the protocol and the port: " +
			"rule deny-200 of nodes-nsg concerns tcp to port 80; everything else allow-65000 " +
			"allows"},
		"what is in doubt of many is one cause": {func(s *inventory.Snapshot) {
			s.Subnets[nodes.Key()].SecurityGroup = nodesGroup
			s.SecurityGroups[nodesGroup.Key()] = group(nodesGroup, "deny in 100 * asg:web * *")
		}, "6 pairs, 2 delivered, 0 dropped, 4 unknown\nunknown 2 node to pod (answer: false) " +
			"10.0.1.4,10.0.1.5 -> 10.0.1.4,10.0.1.5: rule deny-100 of nodes-nsg may match before " +
			"allow-65000, which allows it: the network interface of the source was not read, so " +
			"it is unknown whether it is in application security group web\nunknown 2 subnet to " +
			"pod (answer: false) v/gateway -> 10.0.1.4,10.0.1.5: rule deny-100 of nodes-nsg may " +
			"match before allow-65000, which allows it: the network interface of the source was " +
			"not read, so it is unknown whether it is in application security group web"},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop()
			tt.change(s)
			m := New(s, Options{}).All()
			if m.says() != tt.want {
				t.Errorf("%s", m.says())
			}
		})
	}
	s := namedShop(t)
	setRoutes(s, table, s.Tables[table.Key()].Routes()[:2]) // n2 has no route
	m := New(s, Options{}).All(cluster)
	if m.Pairs != 15 || m.Dropped != 5 || !slices.Equal(m.Broken[0].To, []string{"n2"}) {
		t.Error(m.says())
	}
	if m := New(s, Options{}).All(
		"/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/another"); m.Pairs != 0 {
		t.Error(m.says())
	}
	s = overlay(t)
	if m := New(s, Options{}).All(); m.Pairs != 15 || m.Delivered != 12 || m.Unknown != 3 {
		t.Error(m.says())
	}
	s.Kubernetes = nil
	s.Clusters[cluster.Key()].NodeResourceGroup = "mc"
	if m := New(s, Options{}).All(); m.Pairs != 0 || len(m.Unseen) != 2 ||
		m.Unseen[0] != "node aks-np-1-vmss000000 (10.0.1.4): only Kubernetes knows its pods" {
		t.Error(m.says(), m.Unseen)
	}
}

// TestAllAgrees: on random networks, the matrix agrees with following each pair.
func TestAllAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shop()
		addNICs(s)
		for _, i := range []string{"2", "3"} { // so that a class can have several senders
			address := netip.MustParseAddr("10.0.1." + string(i[0]+4))
			id := arm.ID("/subscriptions/s/resourceGroups/mc/providers/Microsoft.Compute/" +
				"virtualMachineScaleSets/aks-np-1-vmss/virtualMachines/" + i + "/networkInterfaces/nic")
			s.Interfaces[id.Key()] = &inventory.Interface{Document: arm.Document{ID: id},
				Configs: []inventory.IPConfig{{Name: "ipconfig1", Address: address, Subnet: nodes}}}
			for _, in := range []arm.ID{table, copied} {
				addRoute(s, in, user("10.244."+i+".0/24", address.String()))
			}
		}
		if rapid.Bool().Draw(t, "peer") {
			peer(s, rapid.Bool().Draw(t, "forwarded"))
		}
		for _, key := range []string{table.Key(), copied.Key()} {
			for range rapid.IntRange(0, 4).Draw(t, "more") {
				p := rapid.SampledFrom([]string{"10.244.0.0/24", "10.244.1.0/24", "10.244.1.0/25",
					"10.244.0.0/16", "10.0.2.0/24", "10.0.1.4/32", "10.70.0.0/16"}).Draw(t,
					"prefix")
				r := user(p, rapid.SampledFrom([]string{"10.0.1.4", "10.0.1.5", "10.0.9.4", "None",
					"VnetLocal"}).Draw(t, "hop"))
				at := slices.IndexFunc(s.Tables[key].Routes(), func(old inventory.Route) bool {
					return old.Prefix == r.Prefix
				})
				if at < 0 {
					addRoute(s, s.Tables[key].ID, r)
				} else {
					setRoute(s, s.Tables[key].ID, at, r)
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(s.Interfaces)) {
			s.Interfaces[key].Forwarding = rapid.IntRange(0, 4).Draw(t, "forwarding") > 0
			if rapid.Bool().Draw(t, "nsg") {
				s.Interfaces[key].SecurityGroup = nicGroup
			}
		}
		if rapid.Bool().Draw(t, "all interfaces read") {
			s.InterfacesOf = []arm.ID{"/subscriptions/s"}
			if key := slices.Sorted(maps.Keys(s.Interfaces))[0]; rapid.Bool().Draw(t,
				"a node is gone") {
				delete(s.Interfaces, key)
			}
		}
		for _, id := range []arm.ID{nicGroup, nodesGroup} {
			var rules []string
			for i := range rapid.IntRange(0, 3).Draw(t, "rules") {
				rules = append(rules, fmt.Sprintf("%s %s %d %s %s %s %s",
					rapid.SampledFrom([]string{"allow", "deny"}).Draw(t,
						"access"), rapid.SampledFrom([]string{"in", "out"}).Draw(t, "direction"),
					100+i,
					rapid.SampledFrom([]string{"*", "*", "Tcp"}).Draw(t,
						"protocol"), rapid.SampledFrom([]string{"*", "10.244.0.0/16", "10.0.2.0/24",
						"VirtualNetwork", "asg:web"}).Draw(t, "source"),
					rapid.SampledFrom([]string{"*", "10.244.1.0/24", "10.0.1.0/24"}).Draw(t,
						"destination"), rapid.SampledFrom([]string{"*", "80"}).Draw(t, "ports")))
			}
			s.SecurityGroups[id.Key()] = group(id, rules...)
		}
		for _, id := range []arm.ID{nodes, gateway, vnet.Child("subnets", "firewall")} {
			if rapid.Bool().Draw(t, "subnet's") {
				s.Subnets[id.Key()].SecurityGroup = nodesGroup
			}
			if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
				s.Subnets[id.Key()].RouteTable = ""
			}
		}
		if rapid.Bool().Draw(t, "kubernetes") { // sometimes two nodes with the same pods
			var known []inventory.Node
			for i, address := range []string{"10.0.1.4", "10.0.1.5"} {
				p := rapid.SampledFrom([]string{"10.244.0.0/24", "10.244.1.0/24"}).Draw(t, "pods")
				known = append(known, inventory.Node{Name: fmt.Sprint("n", i),
					PodCIDRs: []netip.Prefix{netip.MustParsePrefix(p)}, Addresses: []netip.Addr{
						netip.MustParseAddr(address)}})
			}
			s.Kubernetes[cluster.Key()] = &inventory.Kubernetes{Nodes: known}
		}
		got := New(s, Options{}).All()

		g := &grid{Tracer: New(s, Options{}), cluster: s.Clusters[cluster.Key()]}
		g.place()
		var want Matrix
		var alone [][]int
		for i := range g.from {
			alone = append(alone, []int{i})
		}
		g.trace(&want, alone)
		want.sort()
		if got.says() != want.says() {
			t.Fatalf("%s\nwant %s", got.says(), want.says())
		}
	})
}

// crowd is a kubenet cluster of n nodes behind a security group, with their interfaces, and a
// gateway's subnet.
func crowd(n int) *inventory.Snapshot {
	s := shop()
	var routes []inventory.Route
	for i := range n {
		node := netip.AddrFrom4([4]byte{10, 0, byte(16 + i/250), byte(4 + i%250)})
		routes = append(routes,
			user(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(200 + i/256), byte(i), 0}),
				24).String(), node.String()))
		id := arm.ID(fmt.Sprintf(
			"/subscriptions/s/resourceGroups/mc/providers/Microsoft.Compute/virtualMachineScaleSets/aks-np-1-vmss/virtualMachines/%d/networkInterfaces/nic", i))
		s.Interfaces[id.Key()] = &inventory.Interface{Document: arm.Document{ID: id},
			Forwarding: true, SecurityGroup: nicGroup, Configs: []inventory.IPConfig{
				{Address: node, Subnet: nodes}}}
	}
	s.Clusters[cluster.Key()].PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.192.0.0/10")}
	s.Subnets[nodes.Key()].Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.16.0/20")}
	setRoutes(s, table, routes)
	setRoutes(s, copied, routes)
	s.SecurityGroups[nicGroup.Key()] = group(nicGroup)
	return s
}

// BenchmarkAll traces all pairs of 1,000 nodes: in a healthy cluster, and with a lost association.
func BenchmarkAll(b *testing.B) {
	const n = 1000
	for name, change := range map[string]func(*inventory.Snapshot){
		"well":             func(*inventory.Snapshot) {},
		"association-lost": func(s *inventory.Snapshot) { s.Subnets[nodes.Key()].RouteTable = "" },
	} {
		b.Run(name, func(b *testing.B) {
			s := crowd(n)
			change(s)
			b.ReportAllocs()
			pairs := 0
			for b.Loop() {
				m := New(s, Options{}).All()
				pairs = m.Pairs
				if (m.Dropped == 0) != (name == "well") {
					b.Fatal(m.says())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(pairs),
				"ns/pair")
		})
	}
	b.Run("each-alone", func(b *testing.B) { // a sample
		s := crowd(n)
		t := New(s, Options{})
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			from, to := t.nodes[i%n], t.nodes[(i*7+1)%n]
			if there, _ := t.Ways(Endpoint{Addr: inventory.FirstUsable(from.Pods)},
				Endpoint{Addr: inventory.FirstUsable(to.Pods)}); there.Verdict != Delivered {
				b.Fatal(there)
			}
		}
	})
}

// TestAllUnseen: the matrix says what Kubernetes did not show, and names only a few of many nodes
// with one reason.
func TestAllUnseen(t *testing.T) {
	s := crowd(300)
	s.Clusters[cluster.Key()].Plugin, s.Clusters[cluster.Key()].NodeResourceGroup = "azure", "mc"
	s.Kubernetes[cluster.Key()] = &inventory.Kubernetes{
		Failed: "the Kubernetes API of context shop does not take the login (401 Unauthorized)"}
	m := New(s, Options{}).All()
	if m.Pairs != 0 || len(m.Unseen) != 6 || m.Unseen[0] != "nodes and pods of cluster shop: the "+
		"Kubernetes API of context shop does not take the login (401 Unauthorized)" ||
		!strings.HasPrefix(m.Unseen[1], "node aks-np-1-vmss00") ||
		m.Unseen[5] != "and 296 more nodes: only Kubernetes knows its pods" {
		t.Errorf("%d pairs, not seen %q", m.Pairs, m.Unseen)
	}
	if m := New(s, Options{}).All(
		"/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/another"); len(m.Unseen) != 0 {
		t.Errorf("of another cluster: %q", m.Unseen)
	}
}

// TestWaysUnseen: only a packet that concerns a cluster says what its Kubernetes did not show.
func TestWaysUnseen(t *testing.T) {
	s := namedShop(t)
	k := s.Kubernetes[cluster.Key()]
	k.Pods, k.Note = nil, "pods are not shown (403)"
	tracer := New(s, Options{})
	unseen := func(from, to string) []string {
		there, back := tracer.Ways(Endpoint{Addr: netip.MustParseAddr(from)},
			Endpoint{Addr: netip.MustParseAddr(to)})
		return slices.DeleteFunc(append(there.Unseen, back.Unseen...), func(line string) bool {
			return !strings.HasPrefix(line, "nodes and pods")
		})
	}
	want := []string{"nodes and pods of cluster shop: pods are not shown (403)"}
	for _, ends := range [][2]string{{"10.244.0.7", "10.0.3.9"}, {"10.0.3.9", "10.244.9.7"},
		{"10.0.3.9", "10.0.1.4"}} {
		if got := unseen(ends[0], ends[1]); !slices.Equal(got, want) {
			t.Errorf("%s: %q", ends, got)
		}
	}
	if got := unseen("10.0.3.9", "20.1.2.3"); len(got) != 0 {
		t.Errorf("what is not the cluster's: %q", got)
	}
	if _, err := tracer.Resolve("shop/web-0"); err == nil ||
		!strings.Contains(err.Error(), "pods are not shown (403)") {
		t.Error(err)
	}
	k.Note = ""
	if got := unseen("10.244.0.7", "10.0.3.9"); len(got) != 0 {
		t.Errorf("all is read: %q", got)
	}
}

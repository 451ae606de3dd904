package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// watch is a world with repeated checks, and what each check passes on to the next.
type watch struct {
	*world
	at    time.Time
	nodes map[string][]string // addresses by machine, as the network interfaces show them
}

func nodeRoute(i int) string {
	return fmt.Sprintf("%s____10244%d024 10.244.%d.0/24 10.240.0.%d",
		inventory.NodeName(machine(i)), i, i, 4+i)
}

func machine(i int) string { return fmt.Sprintf("aks-pool0-12345678-vmss instance %d", i) }

// watched is a cluster of three nodes with their routes, before its first check.
func watched(t *testing.T) *watch {
	w := &watch{shop(t), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), map[string][]string{}}
	w.remembered(clusterA).Nodes = NodeRoutes{}
	w.wrote(clusterA, tableA).configs[0].Spec.Targets = nil
	for i := range 3 {
		w.nodes[machine(i)] = []string{fmt.Sprintf("10.240.0.%d", 4+i)}
	}
	return w.routed(0, 1, 2)
}

// routed sets the routes of the cluster's table to these nodes, with a new ETag.
func (w *watch) routed(nodes ...int) *watch {
	var routes []string
	for _, i := range nodes {
		routes = append(routes, nodeRoute(i))
	}
	w.table(tableA, routes...)
	w.s.Table(tableA).ETag = fmt.Sprint(nodes)
	return w
}

// count sets how many nodes the pool counts.
func (w *watch) count(n int) *watch {
	w.s.Cluster(clusterA).Pools[0].Count = n
	return w
}

// state sets the cluster's provisioning state.
func (w *watch) state(state string) *watch {
	raw, err := json.Marshal(map[string]any{
		"properties": map[string]any{"provisioningState": state}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Cluster(clusterA).Raw = raw
	return w
}

// check makes a check after a while, as a keeper does, and returns the plan.
func (w *watch) check(after time.Duration) Plan {
	w.t.Helper()
	w.at = w.at.Add(after)
	w.s.Taken = w.at
	known := w.s.Learn(clusterA)
	known.NICs = nil
	p := Make(w.s, w.configs)
	if len(p.Need.NICs) > 0 {
		known.NICs = &inventory.NICs{Holder: map[netip.Addr]string{},
			Nodes: map[netip.Addr]string{}, Read: w.at}
		for machine, addrs := range w.nodes {
			for _, a := range addrs {
				known.NICs.Holder[netip.MustParseAddr(a)] = machine
				known.NICs.Nodes[netip.MustParseAddr(a)] = inventory.NodeName(machine)
			}
		}
		if p = Make(w.s, w.configs); len(p.Need.NICs) > 0 {
			w.t.Errorf("asks for the network interfaces again: %v", p.Need.NICs)
		}
	}
	if len(p.Findings) > 0 {
		w.hostile()
	}
	w.remembered(clusterA).Nodes = p.Nodes[clusterA.Key()]
	return p
}

// sees makes a check ten seconds later, and compares its findings.
func (w *watch) sees(want string) finding.Finding {
	w.t.Helper()
	return w.seesAfter(10*time.Second, want)
}

func (w *watch) seesAfter(after time.Duration, want string) finding.Finding {
	w.t.Helper()
	p := w.check(after)
	if got := codes(p); got != want {
		w.t.Errorf("findings:\n%s\nwant:\n%s\n%+v", got, want, p.Findings)
	}
	if len(p.Findings) == 0 {
		return finding.Finding{}
	}
	return p.Findings[0]
}

func TestNodeLosesItsRoute(t *testing.T) {
	w := watched(t)
	w.sees("")
	w.routed(0, 1)
	w.sees("")
	f := w.sees("node-without-route")
	const message = "1 node of cluster shop has no route in its route table shop-rt: " +
		"3 nodes, but pod routes to at most 2"
	if f.Message != message || len(f.Evidence) != 1 ||
		f.Evidence[0] != machine(2)+" (10.240.0.6): IPv4" || f.Resource != string(tableA) {
		t.Errorf("%+v", f)
	}
	// It stays reported until the route is back, whatever else changes in the table.
	w.routed(0, 2)
	w.routed(1, 0)
	w.sees("node-without-route")
	w.routed(0, 1, 2)
	w.sees("")
	w.sees("")

	// While the table changes from check to check, it has not settled.
	w = watched(t)
	w.sees("")
	for i := range 4 {
		w.routed(0, 1).s.Table(tableA).ETag = fmt.Sprint("changed ", i)
		w.sees("")
	}
	w.sees("node-without-route")

	// Nor while a write is running, nor if two checks follow each other at once.
	w = watched(t)
	w.sees("")
	w.routed(0, 1).s.Table(tableA).Raw = []byte(`{"properties":{"provisioningState":"Updating"}}`)
	w.sees("")
	w.sees("")
	w.s.Table(tableA).Raw = nil
	w.sees("node-without-route")
	w = watched(t)
	w.sees("")
	w.routed(0, 1)
	w.sees("")
	w.seesAfter(time.Second, "")
	w.seesAfter(4*time.Second, "node-without-route")

	// An upgrade replaces nodes: it takes longer, and is a warning.
	w = watched(t)
	w.sees("")
	w.routed(0, 1).state("Upgrading")
	w.sees("")
	w.seesAfter(joining-time.Second, "")
	w.seesAfter(time.Second, "node-without-route warning")
}

// TestNodeJoins: a node that never had a route is joining for a while; so is one with the address
// of a former node.
func TestNodeJoins(t *testing.T) {
	w := watched(t)
	w.sees("")
	w.nodes[machine(3)] = []string{"10.240.0.7"}
	w.count(4)
	w.sees("")
	w.seesAfter(joining-time.Second, "")
	w.seesAfter(time.Second, "node-without-route")

	w = watched(t)
	w.sees("")
	delete(w.nodes, machine(2))
	w.nodes[machine(3)] = []string{"10.240.0.6"}
	w.routed(0, 1)
	w.sees("")
	w.sees("")
	w.seesAfter(joining-20*time.Second, "")
	w.seesAfter(10*time.Second, "node-without-route")

	// Many nodes come one after the other: each is reported after its own time.
	w = watched(t)
	w.sees("")
	routed := []int{0, 1, 2}
	for i := 3; i < 20; i++ {
		w.nodes[machine(i)] = []string{fmt.Sprintf("10.240.0.%d", 4+i)}
		w.count(i + 1)
		w.seesAfter(joining/2, "")
		routed = append(routed, i)
		w.routed(routed...)
	}
}

// TestFirstCheck: the first check, the only one of sync, does not know the age of a node.
func TestFirstCheck(t *testing.T) {
	w := watched(t).routed(0, 1)
	f := w.sees("node-without-route warning")
	if !strings.Contains(strings.Join(f.Evidence, "\n"), NodesMayJoin) {
		t.Errorf("%+v", f)
	}
	w.sees("node-without-route warning")
	if f := w.seesAfter(joining, "node-without-route"); len(f.Evidence) != 1 {
		t.Errorf("%+v", f)
	}
	watched(t).sees("")
}

// TestNotMissed: machines beyond their pool's count do not lack a route, and unclear cases are not
// reported.
func TestNotMissed(t *testing.T) {
	for name, change := range map[string]func(w *watch){
		"a surge node": func(w *watch) { w.nodes[machine(3)] = []string{"10.240.0.7"} },
		"a node that leaves": func(w *watch) {
			w.routed(0, 1).count(2)
		},
		"no node's network interface": func(w *watch) { w.routed(0, 1).nodes[machine(2)] = nil },
		"an address outside the node subnets": func(w *watch) {
			w.routed(0, 1).nodes[machine(2)] = []string{"10.99.0.4"}
		},
		"another machine": func(w *watch) {
			delete(w.routed(0, 1).nodes, machine(2))
			w.nodes["jumphost"] = []string{"10.240.0.99"}
		},
		"a stopped cluster": func(w *watch) { w.routed(0, 1).s.Cluster(clusterA).Stopped = true },
		"not all node subnets were read": func(w *watch) {
			cluster := w.routed(0, 1).s.Cluster(clusterA)
			cluster.Pools = append(cluster.Pools, inventory.Pool{Name: "two", Subnet: nodesB})
		},
	} {
		w := watched(t)
		change(w)
		if p := w.check(time.Second); strings.Contains(codes(p), "without") {
			t.Errorf("%s: %+v", name, p.Findings)
		}
	}
	// A diagnosis checks nodes itself.
	w := watched(t).routed(0, 1)
	w.s.Taken = w.at
	if p := Watch(w.s, w.configs); len(p.Need.NICs) > 0 || len(p.Findings) > 0 {
		t.Errorf("%+v", p)
	}
}

// TestOldEvidence: a new report needs fresh evidence; an existing one stays with older evidence.
func TestOldEvidence(t *testing.T) {
	w := watched(t)
	w.sees("")
	w.routed(0, 1)
	w.sees("")
	nics := w.s.Known(clusterA).NICs
	w.at = w.at.Add(10 * time.Second)
	w.s.Taken = w.at
	if p := Make(w.s, w.configs); len(p.Need.NICs) != 1 || len(p.Findings) != 0 {
		t.Errorf("by a list of the check before: %v, %+v", p.Need.NICs, p.Findings)
	}
	w.sees("node-without-route")
	w.s.Taken, w.s.Learn(clusterA).NICs = w.at.Add(10*time.Second), nics
	if p := Make(w.s, w.configs); len(p.Need.NICs) != 0 || codes(p) != "node-without-route" {
		t.Errorf("reported before: %v, %+v", p.Need.NICs, p.Findings)
	}
}

// hold gives the cluster's subnet IP configurations.
func hold(s Facts, configurations []arm.ID) {
	s.Subnets[nodesA.Key()] = s.Subnet(nodesA).WithConfigurations(configurations)
}

// TestSeenInTheSubnet: the IP configuration in the subnet shows a node that the pools do not count
// yet.
func TestSeenInTheSubnet(t *testing.T) {
	w := watched(t)
	w.s.Taken = w.at
	w.s.Learn(clusterA).NICs = nil
	for i := range 4 {
		hold(w.s, append(w.s.Subnet(nodesA).Configurations(),
			configuration("MC_shop", "aks-pool0-12345678-vmss", i)))
		want := 0
		if i == 3 {
			want = 1
		}
		if p := Make(w.s, w.configs); len(p.Need.NICs) != want {
			t.Errorf("with %d machines: %v", i+1, p.Need.NICs)
		}
	}
	// Other machines in the subnet are not its nodes.
	hold(w.s, append(w.s.Subnet(nodesA).Configurations()[:3:3],
		configuration("MC_other", "aks-pool0-12345678-vmss", 3)))
	if p := Make(w.s, w.configs); len(p.Need.NICs) != 0 {
		t.Error("another cluster's machine counts")
	}
}

func configuration(group, set string, i int) arm.ID {
	return arm.GroupID(sub, group) + arm.ID(fmt.Sprintf(
		"/providers/Microsoft.Compute/virtualMachineScaleSets/%s/virtualMachines/%d"+
			"/networkInterfaces/%s/ipConfigurations/ipconfig1", set, i, set))
}

func TestHalfARoute(t *testing.T) {
	w := watched(t)
	w.cluster(clusterA, "10.244.0.0/16,fd12::/48", nodesA)
	w.remembered(clusterA).Nodes = NodeRoutes{}
	subnet := w.s.Subnet(nodesA)
	subnet.Prefixes = append(subnet.Prefixes, netip.MustParsePrefix("fd42::/64"))
	both := []string{nodeRoute(0), nodeRoute(1), nodeRoute(2),
		"aks-pool0-12345678-vmss000000____1 fd12:0:0:1::/64 fd42::a",
		"aks-pool0-12345678-vmss000001____2 fd12:0:0:2::/64 fd42::b",
		"aks-pool0-12345678-vmss000002____3 fd12:0:0:3::/64 fd42::c"}
	for i, a := range []string{"fd42::a", "fd42::b", "fd42::c"} {
		w.nodes[machine(i)] = append(w.nodes[machine(i)], a)
	}
	w.table(tableA, both...)
	w.sees("")
	w.table(tableA, both[:5]...)
	w.sees("")
	f := w.sees("dual-stack-half")
	const message = "1 node of cluster shop has a route for one address family only"
	if !strings.Contains(f.Message, message) || f.Evidence[0] != machine(2)+" (fd42::c): IPv6" {
		t.Errorf("%+v", f)
	}
	w.table(tableA, both[0], both[1], both[3], both[4])
	w.sees("node-without-route")
}

// TestClusterTableFull: if no route can be added, waiting does not help.
func TestClusterTableFull(t *testing.T) {
	filled := func(n int) *watch {
		w := watched(t)
		routes := []string{nodeRoute(0), nodeRoute(1), nodeRoute(2)}
		for i := 0; len(routes) < n; i++ {
			routes = append(routes, fmt.Sprintf("b%d 172.%d.%d.0/24 10.99.0.4", i, 16+i/256, i%256))
		}
		w.table(tableA, routes...)
		w.sees(map[bool]string{true: "table-full"}[n == 400])
		w.nodes[machine(3)] = []string{"10.240.0.7"}
		w.count(4)
		return w
	}
	f := filled(400).sees("table-full error")
	if !strings.Contains(f.Message, "has 400 of 400 routes") ||
		!strings.Contains(strings.Join(f.Evidence, "\n"), machine(3)+" (10.240.0.7): IPv4") {
		t.Errorf("%+v", f)
	}
	filled(399).sees("")
	filled(401).sees("") // Azure Virtual Network Manager raised the limit
	// It would take two routes.
	w := filled(399)
	cluster := w.s.Cluster(clusterA)
	cluster.PodCIDRs = append(cluster.PodCIDRs, netip.MustParsePrefix("fd12::/48"))
	if p := w.check(time.Second); !strings.Contains(codes(p), "table-full") {
		t.Errorf("%+v", p.Findings)
	}
}

// TestUnreadNICs: the counts alone show how many nodes, but never for certain.
func TestUnreadNICs(t *testing.T) {
	w := watched(t)
	failing := func(after time.Duration) Plan {
		w.at = w.at.Add(after)
		w.s.Taken = w.at
		w.s.Learn(clusterA).NICs = &inventory.NICs{Failed: "AuthorizationFailed", Read: w.at}
		p := Make(w.s, w.configs)
		w.remembered(clusterA).Nodes = p.Nodes[clusterA.Key()]
		return p
	}
	failing(0)
	w.count(5)
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{time.Second, ""}, {joining - time.Second, ""},
		{time.Second, "node-without-route warning"}, {time.Second, "node-without-route warning"},
	} {
		p := failing(c.after)
		if got := codes(p); got != c.want {
			t.Fatalf("%q, want %q", got, c.want)
		}
		if c.want == "" {
			continue
		}
		f := p.Findings[0]
		if !strings.HasPrefix(f.Message, "at least 2 nodes of cluster shop have no route") ||
			!strings.Contains(strings.Join(f.Evidence, "\n"), "AuthorizationFailed") {
			t.Errorf("%+v", f)
		}
	}
	w.count(3)
	if p := failing(time.Second); len(p.Findings) > 0 {
		t.Errorf("%+v", p.Findings)
	}
}

// TestExcludedRoutes: a node whose route the config excludes is not reported as one without a
// route, and its route is reported as excluded.
func TestExcludedRoutes(t *testing.T) {
	w := watched(t)
	w.configs[0].Spec.PodCIDRs = []string{"10.244.0.0/23"}
	w.sees("") // nothing is copied anyway
	w.configs = nil
	w.config("shop", clusterA, gateway).Spec.PodCIDRs = []string{"10.244.0.0/23"}
	f := w.sees("pod-cidrs-exclude-nodes")
	const message = "1 pod route of cluster shop is not copied to the targets, " +
		"because spec.podCIDRs (10.244.0.0/23) excludes them"
	if f.Message != message || len(f.Evidence) != 1 ||
		!strings.Contains(f.Evidence[0], "10.244.2.0/24 to 10.240.0.6") {
		t.Errorf("%+v", f)
	}
	w.configs[0].Spec.PodCIDRs = []string{"10.244.0.0/22"}
	w.sees("")
}

func TestSurgeRoom(t *testing.T) {
	used := func(n int) *watch {
		w := watched(t)
		w.subnet(nodesA, "10.240.0.0/28", tableA) // 11 addresses
		w.s.Subnet(nodesA).Used = n
		return w
	}
	surge := func(w *watch, text string) *watch {
		w.s.Cluster(clusterA).Pools[0].MaxSurge = text
		return w
	}
	f := used(11).sees("surge-does-not-fit") // 10 % of 3
	const message = "subnet vnet/shop-nodes has 0 free addresses, and the next upgrade of " +
		"pool pool0 needs 1 for its surge (10% of 3 nodes)"
	if f.Message != message || f.Resource != string(nodesA) {
		t.Errorf("%+v", f)
	}
	used(10).sees("")
	surge(used(9), "3").sees("surge-does-not-fit")
	surge(used(8), "3").sees("")
	surge(used(9), "100%").sees("surge-does-not-fit")
	surge(used(11), "0").sees("") // it replaces nodes in place
	// The largest surge of the pools counts, and not their sum.
	two := surge(used(9), "2")
	pools := two.s.Cluster(clusterA).Pools
	second := pools[0]
	second.Name, second.Count = "pool1", 0
	two.s.Cluster(clusterA).Pools = append(pools, second)
	two.sees("")
	pools = two.s.Cluster(clusterA).Pools
	pools[0].MaxSurge = "1"
	pools[1] = inventory.Pool{Name: "pool1", Subnet: nodesA, MaxSurge: "3", Count: 1}
	two.remembered(clusterA).Nodes.Hops = map[netip.Addr]string{}
	if f := two.sees("surge-does-not-fit"); !strings.Contains(f.Message, "pool pool1 needs 3") {
		t.Errorf("%+v", f)
	}
	// Existing surge nodes need no more addresses.
	under := surge(used(11), "1")
	for i := range 4 {
		hold(under.s, append(under.s.Subnet(nodesA).Configurations(),
			configuration("MC_shop", "aks-pool0-12345678-vmss", i)))
	}
	under.nodes[machine(3)] = []string{"10.240.0.7"}
	under.sees("")
	stopped := used(11)
	stopped.s.Cluster(clusterA).Stopped = true
	stopped.sees("")
	// A diagnosis reports the same.
	if p := Watch(used(11).s, used(11).configs); codes(p) != "surge-does-not-fit" {
		t.Errorf("%+v", p.Findings)
	}
	w := used(6)
	rooms := Rooms(w.s.Snapshot, w.configs)
	if len(rooms) != 1 || !rooms[0].Subnet.Equal(nodesA) || rooms[0].Free != 5 ||
		rooms[0].Surge != 1 {
		t.Errorf("%+v", rooms)
	}
}

// TestMissingIsPure: a check does not change what the previous one left.
func TestMissingIsPure(t *testing.T) {
	w := watched(t)
	w.sees("")
	w.routed(0, 1)
	w.sees("")
	before := maps.Clone(w.s.Memory.Of(clusterA).Nodes.Lacks)
	w.s.Taken = w.at.Add(joining)
	Make(w.s, w.configs)
	if !maps.Equal(before, w.s.Memory.Of(clusterA).Nodes.Lacks) {
		t.Errorf("%v became %v", before, w.s.Memory.Of(clusterA).Nodes.Lacks)
	}
}

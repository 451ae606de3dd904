package emulator

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// clusterBody is a cluster of one pool in subnet a, with more fields of its network profile and of
// its pool.
func clusterBody(profile, pool string) string {
	return `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet","serviceCidr":"172.16.0.0/16","dnsServiceIP":"172.16.0.10"` + profile + `},
		"agentPoolProfiles":[{"name":"np","mode":"System","vnetSubnetID":"` + string(vnet) +
		`/subnets/a"` + pool + `}]}}`
}

// withNetwork is a bench with the plain virtual network and its table.
func withNetwork(t *testing.T, opts Options) *bench {
	b := newBench(t, opts)
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	return b
}

// addresses counts the used addresses of a subnet, by the name of the IP configuration without its
// number.
func (b *bench) addresses(subnet arm.ID) map[string]int {
	b.e.kernel.Mu.RLock()
	defer b.e.kernel.Mu.RUnlock()
	out := map[string]int{}
	for _, id := range b.e.network.Addresses.Of(subnet).By {
		out[strings.TrimRight(id.Name(), "0123456789")]++
	}
	return out
}

// nodes are copies of the cluster's nodes.
func (b *bench) nodes() []*aks.Node {
	b.e.kernel.Mu.RLock()
	defer b.e.kernel.Mu.RUnlock()
	var out []*aks.Node
	for _, p := range b.e.aks.Clusters[aksID.Key()].Pools {
		for _, n := range p.Nodes {
			now := *n
			out = append(out, &now)
		}
	}
	return out
}

func TestNodeSubnetTakesAddressesUpFront(t *testing.T) {
	b := withNetwork(t, Options{})
	azure := `,"networkPlugin":"azure"`
	// 9 x 31 of 251
	b.refused(http.MethodPut, aksID, clusterBody(azure, `,"count":9`), 400,
		"InsufficientSubnetSize")
	b.put(aksID, clusterBody(azure, `,"count":8`))
	a := vnet.Child("subnets", "a")
	if got := b.addresses(a)["ipconfig"]; got != 8*31 {
		t.Errorf("%d addresses in use", got)
	}
	if shown := kernel.ObjectAt(b.get(a), "properties")["ipConfigurations"].([]any); len(
		shown) != 8*31 {
		t.Errorf("the subnet shows %d", len(shown))
	}
	set := b.e.aks.Clusters[aksID.Key()].Pools[0].ScaleSet
	nic := b.get(set + "/virtualMachines/0/networkInterfaces/" + arm.ID(set.Name()))
	configurations := kernel.ListAt(nic, "properties", "ipConfigurations")
	if len(configurations) != 31 ||
		kernel.ObjectAt(configurations[0], "properties")["primary"] != true ||
		kernel.ObjectAt(configurations[1], "properties")["primary"] != false {
		t.Errorf("%d IP configurations", len(configurations))
	}
	if len(b.podRoutes(rt)) != 0 ||
		kernel.ObjectAt(b.get(aksID), "properties", "networkProfile")["podCidr"] != nil {
		t.Error("routes or a pod CIDR without kubenet")
	}
	b.put(aksID.Child("agentPools", "np"), `{"properties":{"count":1}}`)
	if got := b.addresses(a)["ipconfig"]; got != 31 {
		t.Errorf("%d addresses in use after scaling in", got)
	}
}

func TestPodSubnets(t *testing.T) {
	pods := vnet.Child("subnets", "b")
	for _, tt := range []struct {
		pool       string
		inPods     int
		count, max int
	}{
		// 15 x 16 of 251
		{`,"count":2,"podSubnetID":"` + string(pods) + `"`, 2 * 16, 2, 15},
		// ceil(41/16) blocks, 14 of them
		{`,"count":2,"podIPAllocationMode":"StaticBlock","maxPods":40,"podSubnetID":"` +
			string(pods) + `"`, 2 * 3 * 16, 2, 4},
		// ceil(111/16), because maxPods is 110
		{`,"count":1,"podIPAllocationMode":"StaticBlock","podSubnetID":"` + string(pods) + `"`,
			7 * 16, 1, 2},
		// ceil(17/16)
		{`,"count":1,"podIPAllocationMode":"StaticBlock","maxPods":16,"podSubnetID":"` +
			string(pods) + `"`, 2 * 16, 1, 7},
		// one block is just enough
		{`,"count":1,"podIPAllocationMode":"StaticBlock","maxPods":15,"podSubnetID":"` +
			string(pods) + `"`, 16, 1, 14},
	} {
		b := withNetwork(t, Options{})
		b.put(aksID, clusterBody(`,"networkPlugin":"azure"`, tt.pool))
		if nodes, in := b.addresses(vnet.Child("subnets", "a"))["ipconfig"], b.addresses(
			pods)["pods"]; nodes != tt.count || in != tt.inPods {
			t.Errorf("%s: %d addresses for nodes, %d for pods, want %d", tt.pool, nodes, in,
				tt.inPods)
		}
		if strings.Contains(tt.pool, "StaticBlock") {
			for _, n := range b.nodes() {
				if first := n.Pods[0]; netip.PrefixFrom(first, 28).Masked().Addr() != first ||
					first.As4()[3] == 0 {
					t.Errorf("a block starts at %s", first)
				}
			}
		}
		scale := func(count int) string { return fmt.Sprintf(`{"properties":{"count":%d}}`, count) }
		b.put(aksID.Child("agentPools", "np"), scale(tt.max))
		b.refused(http.MethodPut, aksID.Child("agentPools", "np"), scale(tt.max+1), 400,
			"SubnetIsFull")
		if nodes := b.addresses(vnet.Child("subnets", "a"))["ipconfig"]; nodes != tt.max {
			t.Errorf("%s: %d nodes after a refused scale, want %d", tt.pool, nodes, tt.max)
		}
		b.refused(http.MethodDelete, pods, "", 400, "InUseSubnetCannotBeDeleted")
		b.put(aksID.Child("agentPools", "np"), scale(1))
		if in := len(b.e.network.Addresses.Of(pods).By); in != tt.inPods/tt.count {
			t.Errorf("%s: %d addresses for the pods of one node", tt.pool, in)
		}
	}
}

func TestOverlay(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(
		`,"networkPlugin":"azure","networkPluginMode":"overlay","podCidr":"192.168.0.0/22"`,
		`,"count":4`))
	var cidrs []string
	for _, n := range b.nodes() {
		cidrs = append(cidrs, n.PodCIDRs[0].String())
	}
	if want := []string{"192.168.0.0/24", "192.168.1.0/24", "192.168.2.0/24",
		"192.168.3.0/24"}; !slices.Equal(cidrs, want) {
		t.Errorf("pod CIDRs %q", cidrs)
	}
	if got := b.podRoutes(rt); len(got) != 0 {
		t.Errorf("routes %q", got)
	}
	b.refused(http.MethodPut, aksID.Child("agentPools", "np"), `{"properties":{"count":5}}`, 400,
		"InsufficientSubnetSize")
	pool := kernel.ListAt(b.get(aksID), "properties", "agentPoolProfiles")[0]
	if fmt.Sprint(pool["maxPods"]) != "250" {
		t.Errorf("maxPods %v", pool["maxPods"])
	}
}

func TestNetworkRefusals(t *testing.T) {
	b := withNetwork(t, Options{})
	other := group + "/providers/Microsoft.Network/virtualNetworks/other"
	b.put(other, `{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.9.0.0/16"]},"subnets":[{"name":"a","properties":{"addressPrefix":"10.9.1.0/24"}}]}}`)
	table := func(name, routes string) arm.ID {
		id := group + "/providers/Microsoft.Network/routeTables/" + arm.ID(name)
		b.put(id, `{"location":"westeurope","properties":{"routes":[`+routes+`]}}`)
		return id
	}
	defaultTo := func(hop string) string {
		return `{"name":"d","properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"` + hop + `"}}`
	}
	toInternet := table("internet", defaultTo("Internet"))
	pool2 := `},{"name":"two","vnetSubnetID":"` + string(vnet) + `/subnets/b"`
	for _, tt := range []struct{ profile, pool, code string }{
		{`,"networkPlugin":"weave"`, ``, "InvalidParameter"},
		{`,"networkPlugin":"kubenet","networkPluginMode":"overlay"`, ``,
			"UnsupportedNetworkPluginModeWithNetworkPlugin"},
		{`,"outboundType":"magic"`, ``, "UnsupportedOutboundType"},
		{`,"podCidr":"10.0.0.0/16"`, ``, "PodCidrOverlapExistingSubnetsCidr"},
		{`,"podCidr":"172.16.0.0/14"`, ``, "PodCidrOverlapServiceCidr"},
		{`,"podCidr":"10.244.0.1/16"`, ``, "InvalidCIDRNotation"},
		{`,"podCidr":"10.244.0.0/24"`, `,"count":2`, "InsufficientSubnetSize"},
		{``, `,"maxPods":9`, "InvalidParameter"},
		{``, `,"maxPods":251`, "InvalidParameter"},
		{``, `,"mode":"User"`, "MustDefineAtLeastOneSystemPool"},
		{``, `},{"name":"np","vnetSubnetID":"` + string(vnet) + `/subnets/a"`, "InvalidParameter"},
		{``, `},{"name":"other","vnetSubnetID":"` + string(other) + `/subnets/a"`,
			"InvalidParameter"},
		{``, `},{"name":"other"`, "AgentPoolsWithEmptySubnetError"},
		{``, `},{"name":"Upper"`, "InvalidParameter"},
		{``, `},{"name":"thirteenchars"`, "InvalidParameter"},
		{``, `},{"name":"windows","osType":"Windows"`, "WindowsAgentPoolNameTooLong"},
		{``, `},{"name":"win","osType":"Windows","vnetSubnetID":"` + string(vnet) + `/subnets/a"`,
			"AzureCNIOnlyForWindows"},
		{`,"networkPlugin":"none"`, `},{"name":"win","osType":"Windows","vnetSubnetID":"` +
			string(vnet) + `/subnets/a"`, "AzureCNIOnlyForWindows"},
		{`,"podCidr":"10.128.0.0/9"`, `,"count":250},{"name":"two","count":151,"vnetSubnetID":"` +
			string(vnet) + `/subnets/b"`, "AgentPoolMaxCountExceeded"},
		{`,"outboundType":"userDefinedRouting"`, ``, "RouteTableMissingDefaultRouteError"},
		{`,"outboundType":"userDefinedRouting"`, `,"orchestratorVersion":"1.99.0"`,
			"NodePoolMcVersionIncompatible"},
	} {
		b.refused(http.MethodPut, aksID, clusterBody(tt.profile, tt.pool), 400, tt.code)
	}
	associate := func(subnet, prefix string, table arm.ID) {
		link := ""
		if table != "" {
			link = `,"routeTable":{"id":"` + string(table) + `"}`
		}
		b.put(vnet.Child("subnets", subnet), `{"properties":{"addressPrefix":"`+prefix+`"`+link+
			`}}`)
	}
	associate("a", "10.0.1.0/24", toInternet)
	b.refused(http.MethodPut, aksID, clusterBody(`,"outboundType":"userDefinedRouting"`, ``), 400,
		"RouteTableInvalidNextHop")
	associate("a", "10.0.1.0/24", "")
	b.refused(http.MethodPut, aksID, clusterBody(`,"outboundType":"userDefinedRouting"`, ``), 400,
		"ExistingRouteTableNotAssociatedWithSubnet")
	associate("a", "10.0.1.0/24", rt)
	associate("b", "10.0.2.0/24", toInternet)
	b.refused(http.MethodPut, aksID, clusterBody(``, pool2), 400, "TooManyCustomRouteTables")
	inGroup := func(name string) string {
		return strings.Replace(clusterBody(``, ``), `"properties":{`,
			`"properties":{"nodeResourceGroup":"`+name+`",`, 1)
	}
	b.refused(http.MethodPut, aksID, inGroup("NET-RG"), 400, "NodeResourceGroupSameAsResourceGroup")
	b.put("/subscriptions/"+sub+"/resourceGroups/there", `{"location":"westeurope"}`)
	b.refused(http.MethodPut, aksID, inGroup("there"), 400, "NodeResourceGroupAlreadyExists")
	b.refused(http.MethodGet, aksID, "", 404, "ResourceNotFound")

	// Two kubenet clusters may share a subnet and its table: AKS does not support it, but allows it
	// (recorded in 2023).
	b.put(aksID, clusterBody(``, ``))
	associate("b", "10.0.2.0/24", rt)
	b.put(aksID+"3", clusterBody(``, ``))
	b.delete(aksID + "3")
	b.put(aksID+"2", clusterBody(`,"networkPlugin":"azure","networkPluginMode":"overlay"`, ``))

	// Fields that cannot be changed.
	for profile, pool := range map[string]string{
		`,"networkPlugin":"azure"`: ``, `,"networkPlugin":"none"`: ``,
		`,"podCidr":"10.200.0.0/16"`: ``,
		`,"networkPlugin":"kubenet"`: `,"vmSize":"Standard_D8s_v5"`,
		`,"ipFamilies":["IPv4"]`:     `,"maxPods":50`,
	} {
		b.refused(http.MethodPut, aksID, clusterBody(profile, pool), 400,
			"PropertyChangeNotAllowed")
	}
}

func TestMigrationToOverlay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.put(rt, `{"location":"westeurope","properties":{"routes":[{"name":"egress","properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.0.9.4"}}]}}`)
		b.put(vnet, plainVNet)
		b.put(aksID, clusterBody(``, `,"count":2`))
		before := b.nodes()[1].PodCIDRs[0]
		overlay := clusterBody(`,"networkPlugin":"azure","networkPluginMode":"overlay"`,
			`,"count":2`)
		b.put(vnet.Child("subnets", "b"),
			`{"properties":{"addressPrefix":"10.0.2.0/24","routeTable":{"id":"`+string(rt)+`"}}}`)
		b.refused(http.MethodPut, aksID, overlay, 400, "CustomRouteTableInvalidUpdateAttempt")
		b.put(vnet.Child("subnets", "b"), `{"properties":{"addressPrefix":"10.0.2.0/24"}}`)
		b.refused(http.MethodPut, aksID, strings.Replace(overlay, `"networkPlugin":"azure"`,
			`"networkPlugin":"azure","podCidr":"10.9.0.0/16"`, 1), 400, "PropertyChangeNotAllowed")
		b.put(aksID, overlay)
		if got, want := b.podRoutes(rt), []string{"egress 0.0.0.0/0 10.0.9.4"}; !slices.Equal(got,
			want) {
			t.Errorf("routes %q", got)
		}
		if kernel.LinkOf(b.get(vnet.Child("subnets", "a")), "routeTable") == "" {
			t.Error("the existing table is no longer associated")
		}
		if now := b.nodes()[1].PodCIDRs[0]; now != before {
			t.Errorf("the pod CIDR %s became %s", before, now)
		}
		b.put(aksID.Child("agentPools", "np"), `{"properties":{"count":3}}`)
		if n := len(b.podRoutes(rt)); n != 1 {
			t.Errorf("%d routes after scaling out", n)
		}
		b.refused(http.MethodPut, aksID, clusterBody(`,"networkPlugin":"kubenet"`, ``), 400,
			"PropertyChangeNotAllowed")

		// A managed table is deleted when the operation ends.
		c := newBench(t, Options{OperationTime: time.Minute, RouteBatch: time.Second})
		own := `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet"},"agentPoolProfiles":[{"name":"np","mode":"System","count":2}]}}`
		c.put(aksID, own)
		time.Sleep(5 * time.Minute)
		managed := c.e.aks.Clusters[aksID.Key()].Table
		if n := len(c.podRoutes(managed)); n != 2 {
			t.Fatalf("%d routes in the managed table", n)
		}
		c.put(aksID, strings.Replace(own, `"kubenet"`, `"azure","networkPluginMode":"overlay"`, 1))
		c.get(managed)
		time.Sleep(time.Minute)
		c.refused(http.MethodGet, managed, "", 404, "ResourceNotFound")
		if id := c.e.aks.Clusters[aksID.Key()].OwnSubnet(); kernel.LinkOf(c.get(id),
			"routeTable") != "" {
			t.Error("the subnet still has a table")
		}
	})
}

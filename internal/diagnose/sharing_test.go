package diagnose

import (
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	blog = arm.ID("/subscriptions/" + sub +
		"/resourceGroups/blog-rg/providers/Microsoft.ContainerService/managedClusters/blog")
	blogNodes  = vnet + "/subnets/blog"
	blogTable  = netGroup + "/providers/Microsoft.Network/routeTables/blog-rt"
	peeredVNet = netGroup + "/providers/Microsoft.Network/virtualNetworks/peered-vnet"
)

// second adds another kubenet cluster, blog, with its node subnet and pod CIDR.
func (w *world) second(subnet arm.ID, podCIDR string) *world {
	return w.put(object{"id": string(blog), "name": "blog", "location": "westeurope",
		"properties": object{
			"nodeResourceGroup": "MC_blog", "networkProfile": object{"networkPlugin": "kubenet",
				"podCidr": podCIDR},
			"agentPoolProfiles": list{
				object{"name": "np", "count": 1, "vnetSubnetID": string(subnet)}},
		}})
}

// apart gives it a separate subnet and table.
func (w *world) apart(podCIDR string, routes ...any) *world {
	return w.addSubnet(blogNodes, object{"addressPrefix": "10.42.5.0/24",
		"routeTable": link(blogTable)}).put(table(blogTable, blogNodes, routes...)).second(
		blogNodes, podCIDR)
}

// peer adds a peered network, which is read or known only from the peering.
func (w *world) peer(space string, read bool, subnets ...any) *world {
	w.set(vnet, "virtualNetworkPeerings",
		list{object{"name": "to-peered",
			"properties": object{"remoteVirtualNetwork": link(peeredVNet),
				"peeringState":       "Connected",
				"remoteAddressSpace": object{"addressPrefixes": list{space}}}}})
	if read {
		w.put(object{"id": string(peeredVNet), "name": peeredVNet.Name(), "location": "westeurope",
			"properties": object{"addressSpace": object{"addressPrefixes": list{space}},
				"subnets": subnets}})
	}
	return w
}

func within(prefix string) object {
	return object{"id": string(peeredVNet) + "/subnets/machines", "name": "machines",
		"properties": object{"addressPrefix": prefix}}
}

// addresses sets a list of prefixes in the cluster's network profile.
func (w *world) addresses(name string, cidrs ...any) *world {
	w.props(shop)["networkProfile"].(object)[name] = cidrs
	return w
}

func TestSubnetShared(t *testing.T) {
	f := lone(t).second(nodes, "10.100.0.0/16").finds(finding.SubnetShared)
	is(t, f, finding.Warning)
	says(t, f, "clusters shop and blog", "shop-vnet/nodes")
	f = lone(t).second(nodes, "10.244.0.0/17").finds(finding.SubnetShared)
	is(t, f, finding.Error)
	says(t, f, "each cloud provider deletes the other's routes")
	// Reported once, even if both are checked.
	w := lone(t).second(nodes, "10.100.0.0/16")
	w.c.Clusters = append(w.c.Clusters, blog)
	n := 0
	for _, f := range w.check() {
		if f.Code == finding.SubnetShared {
			n++
		}
	}
	if n != 1 {
		t.Errorf("reported %d times", n)
	}
	lone(t).apart("10.100.0.0/16").finds()
	w = lone(t).second(nodes, "10.244.0.0/16")
	w.props(blog)["networkProfile"].(object)["networkPlugin"] = "azure"
	w.finds()
}

func TestTableShared(t *testing.T) {
	share := func(podCIDR string, routes ...any) *world {
		return with(t, routes...).apart(podCIDR).set(blogNodes, "routeTable", link(shopTable))
	}
	theirs := route("blog-1", "10.100.0.0/24", "VirtualAppliance", "10.42.5.4")
	f := share("10.100.0.0/16", theirs).finds(finding.TableShared)
	is(t, f, finding.Warning)
	says(t, f, "clusters shop and blog share the route table shop-rt")
	is(t, share("10.244.128.0/17", route("blog-1", "10.244.200.0/24", "VirtualAppliance",
		"10.42.5.4")).finds(finding.TableShared, finding.SourceHop), finding.Error)
	// The association alone may be a mistake.
	share("10.100.0.0/16").finds()
	// The other cluster's config names it.
	w := lone(t).apart("10.100.0.0/16")
	config := v1alpha1.ClusterRoutes{}
	config.Metadata.Name, config.Spec.ClusterID, config.Spec.RouteTableID, config.Spec.Guard.Mode =
		"blog", string(blog), string(shopTable), v1alpha1.GuardOff
	config.SetDefaults()
	w.c.Configs = append(w.c.Configs, config)
	w.c.Configs[0].Spec.RouteTableID = string(shopTable)
	found := false
	for _, f := range w.check() {
		found = found || f.Code == finding.TableShared
	}
	if !found {
		t.Error("two configs with one table of their own are not found")
	}
}

func TestPodCIDRsOverlap(t *testing.T) {
	f := lone(t).apart("10.244.0.0/16").finds(finding.PodCIDRsOverlap)
	is(t, f, finding.Info)
	says(t, f, "shop and blog", "10.244.0.0/16")
	// A target leads to both.
	both := func() *world {
		return healthy(t).apart("10.244.128.0/17").routes(gwTable, podRoute(0), podRoute(1),
			podRoute(2), route("blog-1", "10.244.200.0/24", "VirtualAppliance", "10.42.5.4"))
	}
	f = both().finds(finding.PodCIDRsOverlap)
	is(t, f, finding.Warning)
	says(t, f, "appgw-rt leads to nodes of both")
	// If both configs have it as a target, package plan reports it.
	w := both()
	config := v1alpha1.ClusterRoutes{}
	config.Metadata.Name, config.Spec.ClusterID = "blog", string(blog)
	config.Spec.Targets = []v1alpha1.Target{
		{RouteTableID: string(gwTable), Policy: v1alpha1.PolicyObserve}}
	config.SetDefaults()
	w.c.Configs = append(w.c.Configs, config)
	for _, f := range w.check() {
		if f.Code == finding.PodCIDRsOverlap {
			t.Errorf("found %s in addition to %s", f.Message, finding.ClustersOverlap)
		}
	}
	near := func(w *world) bool {
		for _, f := range w.check() {
			if f.Code == finding.PodCIDRsOverlap {
				return true
			}
		}
		return false
	}
	if near(lone(t).apart("10.100.0.0/16")) {
		t.Error("pod CIDRs apart overlap")
	}
	far := netGroup + "/providers/Microsoft.Network/virtualNetworks/far-vnet/subnets/nodes"
	if near(lone(t).second(far, "10.244.0.0/16")) {
		t.Error("networks that do not reach each other overlap")
	}
	if !near(lone(t).peer("10.50.0.0/16", true).second(peeredVNet+"/subnets/nodes",
		"10.244.0.0/16")) {
		t.Error("clusters of peered networks do not overlap")
	}
}

func TestPodCIDRInNetwork(t *testing.T) {
	wide := func() *world {
		return lone(t).set(vnet, "addressSpace",
			object{"addressPrefixes": list{"10.42.0.0/16", "10.244.0.0/20"}})
	}
	// AKS itself once made such networks: no harm.
	f := wide().finds(finding.PodsInNetwork)
	is(t, f, finding.Info)
	says(t, f, "10.244.0.0/16", "10.244.0.0/20", "network shop-vnet of its nodes")
	machines := vnet + "/subnets/machines"
	free := object{"addressPrefix": "10.244.14.0/24", "ipConfigurations": list{
		link(netGroup + "/providers/Microsoft.Network/networkInterfaces/m/ipConfigurations/c")}}
	is(t, wide().addSubnet(machines, free).finds(finding.PodsInNetwork), finding.Warning)
	used := object{"addressPrefix": "10.244.1.0/24", "ipConfigurations": free["ipConfigurations"]}
	f = wide().addSubnet(machines, used).finds(finding.PodsInNetwork)
	is(t, f, finding.Error)
	says(t, f, "shop-vnet/machines (10.244.1.0/24)")
	is(t, wide().addSubnet(machines, object{"addressPrefix": "10.244.1.0/24"}).finds(
		finding.PodsInNetwork), finding.Warning)

	is(t, lone(t).peer("10.244.0.0/16", true, within("10.244.1.0/24")).finds(finding.PodsInNetwork),
		finding.Warning)
	is(t, lone(t).peer("10.240.0.0/12", true, within("10.240.1.0/24")).finds(finding.PodsInNetwork),
		finding.Info)
	f = lone(t).peer("10.244.0.0/16", false).finds(finding.PodsInNetwork)
	is(t, f, finding.Warning)
	says(t, f, "peered network peered-vnet")
	lone(t).peer("10.50.0.0/16", false).finds()
	cut := lone(t).peer("10.244.0.0/16", false)
	cut.props(vnet)["virtualNetworkPeerings"].(list)[0].(object)["properties"].(object)["peeringState"] = "Disconnected"
	cut.finds()
	closed := lone(t).peer("10.244.0.0/16", false)
	closed.props(vnet)["virtualNetworkPeerings"].(list)[0].(object)["properties"].(object)["allowVirtualNetworkAccess"] = false
	is(t, closed.finds(finding.PodsInNetwork), finding.Warning) // its routes stay
	inUse := within("10.244.1.0/24")
	inUse["properties"].(object)["ipConfigurations"] = free["ipConfigurations"]
	is(t, lone(t).peer("10.244.0.0/16", true, inUse).finds(finding.PodsInNetwork), finding.Warning)
	// The network was not read.
	wide().also(func(s *inventory.Snapshot) { clear(s.VNets) }).finds()
}

func TestServicesOverlap(t *testing.T) {
	f := lone(t).addresses("serviceCidrs", "10.42.2.0/24").finds(finding.ServicesOverlap)
	is(t, f, finding.Warning)
	says(t, f, "10.42.2.0/24", "network shop-vnet of its nodes", "subnet shop-vnet/appgw")
	is(t, lone(t).addresses("serviceCidrs", "10.42.200.0/24").finds(finding.ServicesOverlap),
		finding.Info)
	says(t, lone(t).addresses("serviceCidrs", "10.244.128.0/24").finds(finding.ServicesOverlap),
		"pod CIDR 10.244.0.0/16")
	is(t, lone(t).peer("10.0.0.0/16", true, within("10.0.1.0/24")).finds(finding.ServicesOverlap),
		finding.Warning)
	is(t, lone(t).peer("10.0.0.0/16", false).finds(finding.ServicesOverlap), finding.Info)
	lone(t).peer("10.1.0.0/16", true, within("10.1.1.0/24")).finds()
}

func TestReservedRange(t *testing.T) {
	f := lone(t).addresses("serviceCidrs", "172.30.0.0/20").finds(finding.ReservedRange)
	is(t, f, finding.Warning)
	says(t, f, "service CIDR 172.30.0.0/20")
	says(t, lone(t).addresses("serviceCidrs", "172.16.0.0/12").finds(finding.ReservedRange),
		"172.16.0.0/12")
	is(t, lone(t).set(vnet, "addressSpace",
		object{"addressPrefixes": list{"10.42.0.0/16", "172.16.0.0/12"}}).finds(
		finding.ReservedRange), finding.Info)
	lone(t).addresses("serviceCidrs", "172.29.0.0/16").finds()
	for _, f := range lone(t).peer("172.31.0.0/16", true).check() {
		if f.Code == finding.ReservedRange {
			t.Errorf("a peered network's addresses are not the cluster's: %s", f.Message)
		}
	}
}

package diagnose

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const podSubnet = vnet + "/subnets/pods"

// onAzureCNI is the healthy cluster with Azure CNI: pods have addresses in the node subnet.
func onAzureCNI(t *testing.T) *world {
	w := healthy(t)
	w.c.Configs = nil
	w.set(shop, "networkProfile", object{"networkPlugin": "azure", "serviceCidr": "10.0.0.0/16"})
	return w.pool("maxPods", 30).kubernetes().pod(0, false, "10.42.1.40").pod(1, true, nodeAddr(1))
}

// withPodSubnet gives the pods a separate subnet.
func withPodSubnet(t *testing.T) *world {
	w := onAzureCNI(t)
	w.kube[shop.Key()].Pods = nil
	return w.addSubnet(podSubnet, object{"addressPrefix": "10.42.8.0/22",
		"delegations": list{delegation("Microsoft.ContainerService/managedClusters")}}).
		pool("podSubnetID", string(podSubnet)).pod(0, false, "10.42.8.9").pod(1, true, nodeAddr(1))
}

// onOverlay gives the pods addresses in the pod CIDR.
func onOverlay(t *testing.T) *world {
	w := onAzureCNI(t)
	w.kube[shop.Key()].Pods = nil
	return w.set(shop, "networkProfile",
		object{"networkPlugin": "azure", "networkPluginMode": "overlay", "podCidr": "10.244.0.0/16",
			"podCidrs": list{"10.244.0.0/16", "fd00:244::/64"}}).
		pod(0, false, "10.244.0.9", "fd00:244::9").pod(1, true, nodeAddr(1))
}

func delegation(service string) object {
	return object{"name": "d", "properties": object{"serviceName": service}}
}

// pool sets one field of the cluster's only pool.
func (w *world) pool(field string, value any) *world {
	w.props(shop)["agentPoolProfiles"].(list)[0].(object)[field] = value
	return w
}

// pod adds a pod on a node.
func (w *world) pod(node int, host bool, addrs ...string) *world {
	k := w.kube[shop.Key()]
	p := inventory.Pod{Namespace: "default", Name: fmt.Sprintf("pod-%d", len(k.Pods)),
		Node: nodeName(node), HostNetwork: host, Phase: "Running"}
	for _, a := range addrs {
		p.Addresses = append(p.Addresses, netip.MustParseAddr(a))
	}
	k.Pods = append(k.Pods, p)
	return w
}

func TestPodOutside(t *testing.T) {
	for name, tt := range map[string]struct {
		w           func(*testing.T) *world
		here, there string
		should      string
	}{
		"node subnet": {onAzureCNI, "10.42.1.200", "10.42.2.7",
			"node subnet shop-vnet/nodes (10.42.1.0/24)"},
		"pod subnet": {withPodSubnet, "10.42.11.254", "10.42.1.200",
			"pod subnet shop-vnet/pods (10.42.8.0/22)"},
		"overlay": {onOverlay, "10.244.2.9", "10.42.1.200",
			"the pod CIDR (10.244.0.0/16, fd00:244::/64)"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.w(t).pod(2, false, tt.here).finds()
			f := tt.w(t).pod(2, false, tt.there).finds(finding.PodOutside)
			if want := "pod default/pod-2 on node " + nodeName(2) + " (" + tt.there +
				") of cluster shop is outside " + tt.should; f.Message != want {
				t.Errorf("%s, want %s", f.Message, want)
			}
		})
	}
	many := withPodSubnet(t)
	for i := range 12 {
		many.pod(2, false, fmt.Sprintf("10.42.2.%d", 10+i))
	}
	if f := many.finds(finding.PodOutside); len(f.Evidence) != 11 ||
		f.Evidence[10] != "and 2 more" ||
		!strings.HasPrefix(f.Message, "12 pods of cluster shop are outside") {
		t.Errorf("%s %q", f.Message, f.Evidence)
	}
	// Some pods may have any address: one that has finished, one on an unknown node, and one whose
	// subnet was not read. An IPv6 address is not compared with IPv4 prefixes.
	ended := withPodSubnet(t).pod(2, false, "10.42.1.200")
	ended.kube[shop.Key()].Pods[2].Phase = "Succeeded"
	ended.finds()
	lost := withPodSubnet(t).pod(2, false, "10.42.1.200")
	lost.kube[shop.Key()].Pods[2].Node = "gone"
	lost.finds()
	withPodSubnet(t).pod(2, false, "10.42.1.200").also(func(s *inventory.Snapshot) {
		delete(s.Subnets, podSubnet.Key())
	}).finds()
	withPodSubnet(t).pod(2, false, "fd00::1").finds()
}

func TestNodeOutside(t *testing.T) {
	moved := func(w *world, addr string) *world {
		w.kube[shop.Key()].Nodes[1].Addresses = []netip.Addr{netip.MustParseAddr(addr)}
		w.kube[shop.Key()].Pods[1].Addresses = []netip.Addr{netip.MustParseAddr(addr)}
		return w
	}
	f := moved(withPodSubnet(t), "10.42.2.5").finds(finding.NodeOutside)
	if len(f.Evidence) != 1 ||
		!strings.HasPrefix(f.Message, "node "+nodeName(1)+
			" (10.42.2.5) of cluster shop is outside node subnet shop-vnet/nodes") {
		t.Errorf("%s %q", f.Message, f.Evidence)
	}
	moved(withPodSubnet(t), "10.42.1.99").finds()
	f = onOverlay(t).pod(2, true, "10.42.8.3").finds(finding.NodeOutside)
	if !strings.HasPrefix(f.Message, "hostNetwork pod default/pod-2 on node "+nodeName(2)) {
		t.Errorf("%s", f.Message)
	}
	// A node of a new pool, or of none, is not compared with the other pools' subnets.
	newer := moved(withPodSubnet(t), "10.42.2.5")
	newer.kube[shop.Key()].Nodes[1].Pool = "newer"
	newer.finds()
	untold := moved(withPodSubnet(t), "10.42.2.5")
	untold.kube[shop.Key()].Nodes[1].Pool = ""
	untold.finds()
}

// TestContainersSubnet: with overlay, a subnet for Application Gateway for Containers is a /24.
func TestContainersSubnet(t *testing.T) {
	const service = "Microsoft.ServiceNetworking/trafficControllers"
	for prefix, wrong := range map[string]bool{"10.42.2.0/24": false, "10.42.2.0/23": true,
		"10.42.2.0/25": true} {
		change := func(w *world) *world {
			return w.set(appgw, "addressPrefix", prefix).
				set(appgw, "delegations", list{delegation(service)})
		}
		if !wrong {
			change(onOverlay(t)).finds()
		} else if f := change(onOverlay(t)).finds(finding.ContainersSubnet); f.Resource !=
			string(appgw) || !strings.Contains(f.Message, prefix) {
			t.Errorf("%s: %s %s", prefix, f.Resource, f.Message)
		}
		change(onAzureCNI(t)).finds() // only overlay requires exactly a /24
	}
}

func TestSubnetRoles(t *testing.T) {
	f := withPodSubnet(t).set(nodes, "delegations", list{delegation("Microsoft.Netapp/volumes")}).
		finds(finding.SubnetDelegated)
	if f.Resource != string(nodes) ||
		!strings.Contains(f.Message, "node subnet shop-vnet/nodes of cluster shop is delegated "+
			"to Microsoft.Netapp/volumes") {
		t.Errorf("%s %s", f.Resource, f.Message)
	}
	// The node subnet must not be delegated even to AKS; the pod subnet must be. Subnets that the
	// cluster does not use may be delegated to any service.
	withPodSubnet(t).set(nodes, "delegations", list{delegation(aksDelegation)}).finds(
		finding.SubnetDelegated)
	if f := withPodSubnet(t).set(podSubnet, "delegations",
		list{delegation("Microsoft.App/environments")}).finds(
		finding.SubnetDelegated); f.Resource != string(podSubnet) {
		t.Errorf("%s %s", f.Resource, f.Message)
	}
	withPodSubnet(t).unset(podSubnet, "delegations").finds()
	withPodSubnet(t).set(appgw, "delegations",
		list{delegation("Microsoft.Network/applicationGateways")}).finds()

	once := onAzureCNI(t).pool("podSubnetID", string(nodes))
	if f := once.finds(finding.SubnetUsedTwice); f.Resource != string(nodes) ||
		!strings.Contains(f.Message, "node subnet of pool nodepool1 of cluster shop and the pod "+
			"subnet of pool nodepool1 of cluster shop") {
		t.Errorf("%s", f.Message)
	}
	onAzureCNI(t).set(nodes, "delegations", list{delegation(aksDelegation)}).pool("podSubnetID",
		string(nodes)).finds(finding.SubnetUsedTwice)
	// Two clusters may share a pod subnet or a node subnet, but the pod subnet of one must not be
	// the node subnet of the other.
	neighbour := func(nodeSubnet, podSubnet arm.ID) object {
		id := shop + "-2"
		return object{"id": string(id), "name": id.Name(), "location": "westeurope",
			"properties": object{"nodeResourceGroup": "MC_2",
				"networkProfile": object{"networkPlugin": "azure"},
				"agentPoolProfiles": list{
					object{"name": "other", "count": 1, "vnetSubnetID": string(nodeSubnet),
						"podSubnetID": string(podSubnet)}}}}
	}
	withPodSubnet(t).put(neighbour(nodes, podSubnet)).finds()
	withPodSubnet(t).put(neighbour(podSubnet, "")).finds(finding.SubnetUsedTwice)
	withPodSubnet(t).put(neighbour(vnet+"/subnets/else", nodes)).finds(finding.SubnetUsedTwice)
}

// use marks so many addresses of a subnet as in use.
func (w *world) use(id arm.ID, n int) *world {
	used := make(list, n)
	for i := range used {
		used[i] = link(id + arm.ID(fmt.Sprintf("-%d/ipConfigurations/c", i)))
	}
	return w.set(id, "ipConfigurations", used)
}

func TestAddresses(t *testing.T) {
	// A /24 has 251 usable addresses; nine tenths of them are 225.9.
	onAzureCNI(t).pool("upgradeSettings", object{"maxSurge": "0"}).use(nodes, 225).finds()
	onAzureCNI(t).pool("upgradeSettings", object{"maxSurge": "0"}).use(nodes,
		226).finds(finding.AddressesNearly)
	f := onAzureCNI(t).use(nodes, 251).finds(finding.AddressesExhausted)
	if f.Severity != finding.Error || f.Resource != string(nodes) ||
		!strings.Contains(f.Message, "251 of 251") {
		t.Errorf("%v %s %s", f.Severity, f.Resource, f.Message)
	}
	// In dual-stack each interface may appear in the subnet twice.
	both := func(n int) *world {
		return onOverlay(t).set(nodes, "addressPrefixes", list{"10.42.1.0/24", "fd00:42::/64"}).
			unset(nodes, "addressPrefix").use(nodes, n)
	}
	both(400).finds()
	both(452).finds(finding.AddressesNearly)
	// Addresses that Kubernetes shows in a pod subnet count even if the subnet shows none.
	small := func(pods int) *world {
		w := withPodSubnet(t).set(podSubnet, "addressPrefix", "10.42.8.0/27").pool("maxPods",
			10).pool("count", 1).pool("upgradeSettings", object{"maxSurge": "0"})
		for i := range pods - 1 { // the existing one has 10.42.8.9
			w.pod(0, false, fmt.Sprintf("10.42.8.%d", 10+i%16))
		}
		return w
	}
	small(16).finds()
	busy := small(1)
	for i := range 26 {
		busy.pod(0, false, fmt.Sprintf("10.42.8.%d", 4+i))
	}
	if f := busy.finds(finding.AddressesNearly); f.Resource != string(podSubnet) ||
		!strings.Contains(f.Message, "26 of 27") {
		t.Errorf("%s %s", f.Resource, f.Message)
	}
}

func TestAddressesShort(t *testing.T) {
	scaled := func(w *world, most int, surge string) *world {
		return w.pool("enableAutoScaling", true).pool("maxCount", most).pool("upgradeSettings",
			object{"maxSurge": surge}).use(nodes, 93)
	}
	// 93 of 251 addresses belong to three nodes; five more nodes need 31 each.
	scaled(onAzureCNI(t), 8, "0").finds()
	scaled(onAzureCNI(t), 7, "1").finds()
	f := scaled(onAzureCNI(t), 8, "1").finds(finding.AddressesShort)
	if f.Subject != "nodepool1" ||
		!strings.Contains(f.Message, "node subnet 10.42.1.0/24 has room for 7 nodes of pool "+
			"nodepool1") || !strings.Contains(f.Message, "its autoscaler may add nodes up to 8") ||
		f.Fix != "routekeeper cluster capacity --cluster "+string(shop) {
		t.Errorf("%s fix %s", f.Message, f.Fix)
	}
	// Without an autoscaler, an upgrade alone can need too much.
	f = onAzureCNI(t).use(nodes, 221).pool("count", 7).finds(finding.AddressesShort)
	if !strings.Contains(f.Message, "the pool has 7 nodes") {
		t.Errorf("%s", f.Message)
	}
	onAzureCNI(t).use(nodes, 220).pool("count", 7).finds()
	// The pod subnet is a limit too: 1019 / 48 = 21 nodes.
	f = scaled(withPodSubnet(t), 21, "1").finds(finding.AddressesShort)
	if !strings.Contains(f.Message, "pod subnet 10.42.8.0/22 has room for 20 nodes") {
		t.Errorf("%s", f.Message)
	}
	scaled(withPodSubnet(t), 20, "1").finds()
	scaled(onOverlay(t), 140, "1").finds()
}

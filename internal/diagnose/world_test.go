package diagnose

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// The test world: a healthy kubenet cluster of three nodes. A test changes its documents, as Azure
// would show them, and checks what is found.
const (
	sub      = "11111111-1111-1111-1111-111111111111"
	netGroup = arm.ID("/subscriptions/" + sub + "/resourceGroups/net-rg")
	shop     = arm.ID("/subscriptions/" + sub +
		"/resourceGroups/shop-rg/providers/Microsoft.ContainerService/managedClusters/shop")
	nodeGroup = arm.ID("/subscriptions/" + sub + "/resourceGroups/MC_shop-rg_shop_westeurope")
	vnet      = netGroup + "/providers/Microsoft.Network/virtualNetworks/shop-vnet"
	nodes     = vnet + "/subnets/nodes"
	appgw     = vnet + "/subnets/appgw"
	shopTable = netGroup + "/providers/Microsoft.Network/routeTables/shop-rt"
	gwTable   = netGroup + "/providers/Microsoft.Network/routeTables/appgw-rt"
	nodesNSG  = netGroup + "/providers/Microsoft.Network/networkSecurityGroups/nodes-nsg"
	gateway   = netGroup + "/providers/Microsoft.Network/applicationGateways/shop-agw"
	identity  = netGroup + "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/shop-id"
	principal = "99999999-0000-0000-0000-000000000001"
)

type object = map[string]any
type list = []any

// world has documents by ID, and the other parts of a snapshot.
type world struct {
	t      *testing.T
	docs   map[string]object // by the ID's key
	kube   map[string]*inventory.Kubernetes
	change []func(*inventory.Snapshot)
	quiet  []finding.Code
	c      Case
	// aside are prefixes of the codes that a test ignores.
	aside string
}

func nodeAddr(i int) string { return fmt.Sprintf("10.42.1.%d", 4+i) }
func nodeName(i int) string { return fmt.Sprintf("aks-nodepool1-12345678-vmss%06d", i) }
func nodePods(i int) string { return fmt.Sprintf("10.244.%d.0/24", i) }
func scaleSet() arm.ID {
	return nodeGroup +
		"/providers/Microsoft.Compute/virtualMachineScaleSets/aks-nodepool1-12345678-vmss"
}
func nicID(i int) arm.ID {
	return scaleSet() +
		arm.ID(fmt.Sprintf("/virtualMachines/%d/networkInterfaces/aks-nodepool1-12345678-vmss", i))
}

func route(name, prefix, hopType, hop string) object {
	p := object{"addressPrefix": prefix, "nextHopType": hopType}
	if hop != "" {
		p["nextHopIpAddress"] = hop
	}
	return object{"name": name, "properties": p}
}

func podRoute(i int) object {
	name := nodeName(i) + "____" + strings.NewReplacer(".", "", "/", "").Replace(nodePods(i))
	return route(name, nodePods(i), "VirtualAppliance", nodeAddr(i))
}

func table(id arm.ID, subnet arm.ID, routes ...any) object {
	return object{"id": string(id), "name": id.Name(), "location": "westeurope",
		"properties": object{"routes": routes, "subnets": list{object{"id": string(subnet)}}}}
}

func parsed(prefixes ...string) (out []netip.Prefix) {
	for _, p := range prefixes {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func link(id arm.ID) object { return object{"id": string(id)} }

// healthy is a world without problems.
func healthy(t *testing.T) *world {
	w := &world{t: t, docs: map[string]object{}, kube: map[string]*inventory.Kubernetes{}}
	w.c = Case{Clusters: []arm.ID{shop}, Today: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
	config := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind}
	config.Metadata.Name = "shop"
	config.Spec.ClusterID = string(shop)
	config.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(gwTable)}}
	config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
		{SubnetID: string(appgw), RouteTableID: string(gwTable)}}
	config.SetDefaults()
	w.c.Configs = []v1alpha1.ClusterRoutes{config}

	w.put(object{
		"id": string(shop), "name": "shop", "location": "westeurope",
		"identity": object{"type": "UserAssigned", "userAssignedIdentities": object{
			string(identity): object{"principalId": principal,
				"clientId": "99999999-0000-0000-0000-000000000002"}}},
		"properties": object{
			"kubernetesVersion": "1.33.5", "powerState": object{
				"code": "Running"}, "nodeResourceGroup": nodeGroup.Name(),
			"networkProfile": object{"networkPlugin": "kubenet", "podCidr": "10.244.0.0/16",
				"podCidrs": list{"10.244.0.0/16"}, "serviceCidr": "10.0.0.0/16",
				"serviceCidrs": list{"10.0.0.0/16"},
				"dnsServiceIP": "10.0.0.10", "networkPolicy": "none",
				"outboundType": "loadBalancer", "loadBalancerSku": "standard"},
			"agentPoolProfiles": list{
				object{"name": "nodepool1", "count": 3, "vnetSubnetID": string(nodes),
					"maxPods": 110, "osType": "Linux", "type": "VirtualMachineScaleSets",
					"mode": "System"}},
		},
	})
	w.put(table(shopTable, nodes, podRoute(0), podRoute(1), podRoute(2)))
	w.put(table(gwTable, appgw, podRoute(0), podRoute(1), podRoute(2)))
	w.put(object{"id": string(vnet), "name": vnet.Name(), "location": "westeurope",
		"properties": object{
			"addressSpace": object{"addressPrefixes": list{"10.42.0.0/16"}},
			"subnets": list{
				object{"id": string(nodes),
					"name": "nodes", "properties": object{"addressPrefix": "10.42.1.0/24",
						"routeTable": link(shopTable), "networkSecurityGroup": link(nodesNSG),
						"ipConfigurations": list{link(nicID(0) + "/ipConfigurations/ipconfig1"),
							link(nicID(1) + "/ipConfigurations/ipconfig1"),
							link(nicID(2) + "/ipConfigurations/ipconfig1")}}},
				object{"id": string(appgw), "name": "appgw",
					"properties": object{"addressPrefix": "10.42.2.0/24",
						"routeTable": link(gwTable),
						"applicationGatewayIPConfigurations": list{
							link(gateway + "/gatewayIPConfigurations/main")}}},
				firewallSubnet(vnet, "10.42.3.0/26"),
			},
		}})
	w.put(object{"id": string(gateway), "name": gateway.Name(), "location": "westeurope",
		"properties": object{"operationalState": "Running", "gatewayIPConfigurations": list{
			object{"name": "main", "properties": object{"subnet": link(appgw)}}}}})
	w.put(securityGroup(nodesNSG))
	for i := range 3 {
		w.put(object{"id": string(nicID(i)), "name": nicID(i).Name(),
			"properties": object{"enableIPForwarding": true, "ipConfigurations": list{
				object{"name": "ipconfig1",
					"properties": object{"privateIPAddress": nodeAddr(i),
						"subnet": link(nodes)}}}}})
	}
	return w
}

// securityGroup is a group with Azure's default rules and the given ones.
func securityGroup(id arm.ID, rules ...any) object {
	standard := func(name string, priority int, direction, access, protocol, source,
		destination string) object {
		return object{"name": name, "properties": object{"priority": priority,
			"direction": direction, "access": access, "protocol": protocol,
			"sourceAddressPrefix": source, "destinationAddressPrefix": destination,
			"sourcePortRange": "*", "destinationPortRange": "*"}}
	}
	return object{"id": string(id), "name": id.Name(), "location": "westeurope",
		"properties": object{"securityRules": rules, "defaultSecurityRules": list{
			standard("AllowVnetInBound", 65000, "Inbound", "Allow", "*", "VirtualNetwork",
				"VirtualNetwork"),
			standard("AllowAzureLoadBalancerInBound", 65001, "Inbound", "Allow", "*",
				"AzureLoadBalancer", "*"),
			standard("DenyAllInBound", 65500, "Inbound", "Deny", "*", "*", "*"),
			standard("AllowVnetOutBound", 65000, "Outbound", "Allow", "*", "VirtualNetwork",
				"VirtualNetwork"),
			standard("AllowInternetOutBound", 65001, "Outbound", "Allow", "*", "*", "Internet"),
			standard("DenyAllOutBound", 65500, "Outbound", "Deny", "*", "*", "*"),
		}}}
}

// put adds or replaces a document.
func (w *world) put(doc object) *world {
	w.docs[arm.ID(doc["id"].(string)).Key()] = doc
	return w
}

// without removes a document: the snapshot has nothing with that ID.
func (w *world) without(id arm.ID) *world {
	delete(w.docs, id.Key())
	return w
}

// absent removes a document, and a GET of it answers 404.
func (w *world) absent(id arm.ID) *world {
	return w.without(id).also(func(s *inventory.Snapshot) {
		s.Unread[id.Key()] = inventory.Unread{ID: id, Absent: true, Status: 404}
	})
}

// names makes the config name the cluster's route table; the activity log does not contradict it.
func (w *world) names(table arm.ID) *world {
	w.c.Configs[0].Spec.RouteTableID = string(table)
	return w.also(func(s *inventory.Snapshot) { s.Learn(shop).LogRead = true })
}

// also changes the snapshot itself.
func (w *world) also(change func(*inventory.Snapshot)) *world {
	w.change = append(w.change, change)
	return w
}

// props are the properties of a document, to change in place. Those of a subnet are in its
// network's document.
func (w *world) props(id arm.ID) object {
	if !id.Is(arm.TypeSubnet) {
		doc := w.docs[id.Key()]
		if doc == nil {
			w.t.Fatalf("no document %s", id)
		}
		return doc["properties"].(object)
	}
	for _, subnet := range w.props(id.Parent())["subnets"].(list) {
		if id.Equal(arm.ID(subnet.(object)["id"].(string))) {
			return subnet.(object)["properties"].(object)
		}
	}
	w.t.Fatalf("no subnet %s", id)
	return nil
}

// set sets one property.
func (w *world) set(id arm.ID, name string, value any) *world {
	w.props(id)[name] = value
	return w
}

// unset removes one property.
func (w *world) unset(id arm.ID, name string) *world {
	delete(w.props(id), name)
	return w
}

// addSubnet adds a subnet to its network.
func (w *world) addSubnet(id arm.ID, properties object) *world {
	p := w.props(id.Parent())
	p["subnets"] = append(p["subnets"].(list),
		object{"id": string(id), "name": id.Name(), "properties": properties})
	return w
}

// routes replaces a table's routes.
func (w *world) routes(id arm.ID, routes ...any) *world { return w.set(id, "routes", routes) }

// profile sets a field of the cluster's network profile.
func (w *world) profile(name string, value any) *world {
	w.props(shop)["networkProfile"].(object)[name] = value
	return w
}

// overlay makes the cluster one of Azure CNI Overlay, without a config.
func (w *world) overlay() *world {
	w.c.Configs = nil
	return w.profile("networkPlugin", "azure").profile("networkPluginMode", "overlay")
}

// unconfigured removes the targets and guarded subnets from the config.
func (w *world) unconfigured() *world {
	w.c.Configs[0].Spec.Targets, w.c.Configs[0].Spec.Guard.Subnets = nil, nil
	return w
}

// network adds a virtual network with a firewall's subnet.
func (w *world) network(name, prefix string) *world {
	id := vnet.Parent() + "/providers/Microsoft.Network/virtualNetworks/" + arm.ID(name)
	first, _, _ := strings.Cut(prefix, "/")
	return w.put(object{"id": string(id), "name": name, "location": "westeurope",
		"properties": object{"addressSpace": object{"addressPrefixes": list{prefix}},
			"subnets": list{firewallSubnet(id, first+"/26")}}})
}

// firewallSubnet is a firewall's subnet of a network. The firewall itself was not read.
func firewallSubnet(network arm.ID, prefix string) object {
	return object{"id": string(network) + "/subnets/AzureFirewallSubnet",
		"name": "AzureFirewallSubnet", "properties": object{"addressPrefix": prefix,
			"ipConfigurations": list{object{"id": string(network.Parent()) + "/providers/" +
				arm.TypeFirewall + "/" + network.Name() + "-fw/azureFirewallIpConfigurations/ip"}}}}
}

// peered adds the virtual network hub-vnet, 10.50.0.0/16, peered with the nodes'.
func (w *world) peered(state string, access, forwarded bool) *world {
	peering := func(name string, remote arm.ID, prefix string) list {
		return list{object{"name": name, "properties": object{"remoteVirtualNetwork": link(remote),
			"remoteAddressSpace": object{"addressPrefixes": list{prefix}},
			"peeringState":       state, "allowVirtualNetworkAccess": access,
			"allowForwardedTraffic": forwarded}}}
	}
	w.network(hub.Name(), "10.50.0.0/16")
	return w.set(hub, "virtualNetworkPeerings", peering("to-shop", vnet, "10.42.0.0/16")).set(vnet,
		"virtualNetworkPeerings", peering("to-hub", hub, "10.50.0.0/16"))
}

// side sets a property of a network's side of the peering.
func (w *world) side(of arm.ID, name string, value any) *world {
	w.props(of)["virtualNetworkPeerings"].(list)[0].(object)["properties"].(object)[name] = value
	return w
}

// kubernetes adds the cluster's API, which reports healthy nodes.
func (w *world) kubernetes() *world {
	k := &inventory.Kubernetes{Nodes: []inventory.Node{}, Pods: []inventory.Pod{}}
	for i := range 3 {
		nodes, err := inventory.DecodeNodes(
			[]byte(fmt.Sprintf(
				`{"kind":"Node","metadata":{"name":%q,"labels":{"kubernetes.azure.com/agentpool":"nodepool1"}},
			"spec":{"podCIDR":%q,"podCIDRs":[%q],"providerID":"azure://%s/virtualMachines/%d"},
			"status":{"addresses":[{"type":"InternalIP","address":%q}],"conditions":[{"type":"Ready","status":"True"},{"type":"NetworkUnavailable","status":"False","reason":"RouteCreated"}]}}`,
				nodeName(i), nodePods(i), nodePods(i), scaleSet(), i, nodeAddr(i))))
		if err != nil {
			w.t.Fatal(err)
		}
		k.Nodes = append(k.Nodes, nodes...)
	}
	w.kube[shop.Key()] = k
	return w
}

// snapshot decodes the documents as if they were just read.
func (w *world) snapshot() *inventory.Snapshot {
	w.t.Helper()
	s := inventory.NewSnapshot()
	s.Learn(shop).LogRead = true // doctor reads it; it shows nothing
	s.Taken = w.c.Today
	s.Listed, s.InterfacesOf = []arm.ID{"/subscriptions/" + sub}, []arm.ID{"/subscriptions/" + sub}
	for _, doc := range w.docs {
		raw, err := json.Marshal(doc)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := s.Add(raw); err != nil {
			w.t.Fatal(err)
		}
	}
	for key, k := range w.kube {
		s.Kubernetes[key] = k
	}
	for _, change := range w.change {
		change(s)
	}
	return s
}

// muted makes finds ignore a code.
func (w *world) muted(code finding.Code) *world {
	w.quiet = append(w.quiet, code)
	return w
}

// check runs the diagnosis.
func (w *world) check() []finding.Finding {
	w.t.Helper()
	w.c.Snapshot = w.snapshot()
	pastetest.Again(func(rename func(string) string) {
		again := pastetest.Rename(w.c, rename)
		again.File = finding.Command("%s", rename("routes.yaml"))
		Check(again)
	})
	return slices.DeleteFunc(Check(w.c), func(f finding.Finding) bool {
		return slices.Contains(w.quiet, f.Code)
	})
}

// finds checks that exactly the given codes are found, and returns the first finding of the first
// code. It ignores severity Info unless a code is named.
func (w *world) finds(codes ...finding.Code) finding.Finding {
	w.t.Helper()
	found := w.check()
	var got []finding.Code
	for _, f := range found {
		if f.Severity > finding.Info && (w.aside == "" ||
			!strings.HasPrefix(string(f.Code), w.aside)) || slices.Contains(codes, f.Code) {
			got = append(got, f.Code)
		}
	}
	slices.Sort(got)
	want := slices.Sorted(slices.Values(codes))
	if !slices.Equal(slices.Compact(slices.Clone(got)), want) {
		w.t.Errorf("found %v, want %v", got, want)
		for _, f := range found {
			w.t.Logf("%s %s %s: %s %q fix: %s", f.Severity, f.Code, arm.ID(f.Resource).Short(),
				f.Message, f.Evidence, f.Fix)
		}
	}
	for _, f := range found {
		if len(codes) > 0 && f.Code == codes[0] {
			return f
		}
	}
	return finding.Finding{}
}

func TestHealthy(t *testing.T) {
	healthy(t).finds()
	healthy(t).kubernetes().finds()
}

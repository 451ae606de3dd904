package build

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// The plant is a kubenet cluster of two nodes with everything right. Tests change a document.
const (
	plantGroup = arm.ID("/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg")
	plantNodes = arm.ID(
		"/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/MC_shop")
	plantCluster  = plantGroup + "/providers/Microsoft.ContainerService/managedClusters/shop"
	plantVNet     = plantGroup + "/providers/Microsoft.Network/virtualNetworks/vnet"
	plantSubnet   = plantVNet + "/subnets/nodes"
	plantGateways = plantVNet + "/subnets/appgw"
	plantTable    = plantGroup + "/providers/Microsoft.Network/routeTables/shop-rt"
	plantTarget   = plantGroup + "/providers/Microsoft.Network/routeTables/appgw-rt"
	plantNAT      = plantGroup + "/providers/Microsoft.Network/natGateways/nat"
	plantGateway  = plantGroup + "/providers/Microsoft.Network/applicationGateways/agw"
	plantWho      = "99999999-0000-0000-0000-000000000001"
	plantAddon    = "99999999-0000-0000-0000-000000000002"
)

type (
	doc  = map[string]any
	docs = []any
)

type plant struct {
	t          *testing.T
	docs       map[arm.ID]doc // properties by ID
	kubernetes *inventory.Kubernetes
	config     v1alpha1.ClusterRoutes
	proposed   bool
	change     func(*inventory.Snapshot)
}

func node(i int) string { return fmt.Sprintf("aks-np-12345678-vmss%06d", i) }

func plantRoute(name, prefix, hopType, hop string) doc {
	p := doc{"addressPrefix": prefix, "nextHopType": hopType}
	if hop != "" {
		p["nextHopIpAddress"] = hop
	}
	return doc{"name": name, "properties": p}
}

func podRoutes() docs {
	var routes docs
	for i := range 2 {
		routes = append(routes, plantRoute(fmt.Sprintf("%s____10244%d024", node(i), i),
			fmt.Sprintf("10.244.%d.0/24", i),
			inventory.HopAppliance, fmt.Sprintf("10.42.1.%d", 4+i)))
	}
	return routes
}

func newPlant(t *testing.T) *plant {
	ref := func(id arm.ID) doc { return doc{"id": string(id)} }
	p := &plant{t: t, change: func(*inventory.Snapshot) {}, docs: map[arm.ID]doc{
		plantCluster: {
			"nodeResourceGroup": "MC_shop", "provisioningState": "Succeeded",
			"networkProfile": doc{"networkPlugin": "kubenet", "podCidr": "10.244.0.0/16",
				"outboundType": "loadBalancer"},
			"agentPoolProfiles": docs{
				doc{"name": "np", "count": 2, "vnetSubnetID": string(plantSubnet), "maxPods": 110}},
			"addonProfiles": doc{"ingressApplicationGateway": doc{"enabled": true,
				"identity": doc{"objectId": plantAddon},
				"config":   doc{"applicationGatewayId": string(plantGateway)}}},
		},
		plantVNet: {"addressSpace": doc{"addressPrefixes": docs{"10.42.0.0/16"}}, "subnets": docs{
			doc{"id": string(plantSubnet), "name": "nodes",
				"properties": doc{"addressPrefix": "10.42.1.0/24", "routeTable": ref(plantTable)}},
			doc{"id": string(plantGateways), "name": "appgw",
				"properties": doc{"addressPrefix": "10.42.2.0/24", "routeTable": ref(plantTarget),
					"applicationGatewayIPConfigurations": docs{
						ref(plantGateway + "/gatewayIPConfigurations/main")}}},
			doc{"id": string(plantVNet) + "/subnets/AzureFirewallSubnet",
				"properties": doc{"addressPrefix": "10.42.3.0/26", "ipConfigurations": docs{ref(
					plantGroup + "/providers/" + arm.TypeFirewall +
						"/fw/azureFirewallIpConfigurations/ip")}}},
		}},
		plantTable:  {"routes": podRoutes(), "subnets": docs{ref(plantSubnet)}},
		plantTarget: {"routes": podRoutes(), "subnets": docs{ref(plantGateways)}},
		plantGateway: {"operationalState": "Running", "sku": doc{"tier": "WAF_v2"},
			"gatewayIPConfigurations": docs{
				doc{"name": "main", "properties": doc{"subnet": ref(plantGateways)}}}},
	}}
	p.kubernetes = &inventory.Kubernetes{}
	for i := range 2 {
		set := plantNodes +
			"/providers/Microsoft.Compute/virtualMachineScaleSets/aks-np-12345678-vmss"
		nic := set + arm.ID(
			fmt.Sprintf("/virtualMachines/%d/networkInterfaces/aks-np-12345678-vmss", i))
		p.docs[nic] = doc{"enableIPForwarding": true, "ipConfigurations": docs{doc{"name": "c",
			"properties": doc{"privateIPAddress": fmt.Sprintf("10.42.1.%d", 4+i),
				"subnet": ref(plantSubnet)}}}}
		nodes, err := inventory.DecodeNodes(fmt.Appendf(nil,
			`{"kind":"Node","metadata":{"name":%q,"labels":{"agentpool":"np"}},
			"spec":{"podCIDR":"10.244.%d.0/24","providerID":"azure://%s/virtualMachines/%d"},"status":{
			"addresses":[{"type":"InternalIP","address":"10.42.1.%d"}],"conditions":[{"type":"Ready","status":"True"}]}}`,
			node(i), i, set, i, 4+i))
		if err != nil {
			t.Fatal(err)
		}
		p.kubernetes.Nodes = append(p.kubernetes.Nodes, nodes...)
		p.pod(fmt.Sprintf("web-%d", i), i, false, fmt.Sprintf("10.244.%d.7", i))
		p.pod("kube-proxy-abcd"+fmt.Sprint(i), i, true, fmt.Sprintf("10.42.1.%d", 4+i))
	}
	p.config = v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind}
	p.config.Metadata.Name, p.config.Spec.ClusterID = "shop", string(plantCluster)
	p.config.Spec.RouteTableID = string(plantTable)
	p.config.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(plantTarget)}}
	p.config.SetDefaults()
	return p
}

func (p *plant) pod(name string, on int, host bool, addr string) {
	pods, err := inventory.DecodePods(fmt.Appendf(nil,
		`{"kind":"Pod","metadata":{"name":%q,"namespace":"x"},
		"spec":{"nodeName":%q,"hostNetwork":%t},"status":{"phase":"Running","podIP":%q}}`, name,
		node(on), host, addr))
	if err != nil {
		p.t.Fatal(err)
	}
	p.kubernetes.Pods = append(p.kubernetes.Pods, pods...)
}

func (p *plant) subnet(id arm.ID) doc {
	for _, s := range p.docs[plantVNet]["subnets"].(docs) {
		if s.(doc)["id"] == string(id) {
			return s.(doc)["properties"].(doc)
		}
	}
	p.t.Fatalf("no subnet %s", id)
	return nil
}

func (p *plant) verify() Verification {
	p.t.Helper()
	c := p.read()
	return Verify(c, diagnose.Check(c))
}

// read returns what a diagnosis checks.
func (p *plant) read() diagnose.Case {
	p.t.Helper()
	s := inventory.NewSnapshot()
	s.Taken = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	s.Listed = []arm.ID{"/subscriptions/11111111-1111-1111-1111-111111111111"}
	s.InterfacesOf = s.Listed
	for id, properties := range p.docs {
		raw, err := json.Marshal(doc{"id": string(id), "name": id.Name(), "location": "westeurope",
			"properties": properties,
			"identity": doc{"type": "UserAssigned", "userAssignedIdentities": doc{
				"/i": doc{"principalId": plantWho}}}})
		if err == nil {
			err = s.Add(raw)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	if p.kubernetes != nil {
		s.Kubernetes[plantCluster.Key()] = p.kubernetes
	}
	all := inventory.Rights{Permissions: []inventory.Permission{{Actions: []string{"*"}}},
		Roles: []string{"Network Contributor"}}
	s.Rights[plantWho] = map[string]inventory.Rights{plantSubnet.Key(): all, plantTable.Key(): all}
	s.Rights[plantAddon] = map[string]inventory.Rights{plantGateway.Key(): all,
		plantGateway.Group().Key(): all, plantGateways.Key(): all}
	s.CallerRights[plantTarget.Key()] = all
	known := s.Learn(plantCluster)
	known.LogRead, known.ManagedRead, known.Written = true, true, []arm.ID{plantTable}
	p.change(s)
	return diagnose.Case{
		Snapshot: s, Clusters: []arm.ID{plantCluster}, Configs: []v1alpha1.ClusterRoutes{
			p.config}, Proposed: p.proposed,
	}
}

// other returns the claims that are not right, as topic: state: detail.
func other(v Verification) (lines []string) {
	for _, c := range v.Claims {
		if c.State != ClaimRight {
			lines = append(lines, fmt.Sprintf("%s: %s: %s", c.Topic, c.State, c.Detail))
		}
	}
	return lines
}

func TestAllRight(t *testing.T) {
	v := newPlant(t).verify()
	if lines := other(v); len(lines) > 0 || len(v.Wrong) > 0 {
		t.Errorf("%q, %v", lines, v.Wrong)
	}
	var topics []string
	for _, c := range v.Claims {
		topics = append(topics, c.Topic)
	}
	want := []string{topicNodes, topicNodeSubnet, topicPods, topicAddresses, topicRoom,
		topicAssociation, topicRoutes,
		topicTarget, topicPaths, topicRoles, topicRoles, topicRoles, topicRoles, topicRoles,
		topicKeeper, topicEgress, topicGateway, topicOther}
	if !slices.Equal(topics, want) {
		t.Errorf("topics %q, want %q", topics, want)
	}
}

// TestNearMisses: one thing is wrong, or was not read. The listed claims are not right, and all
// others are.
func TestNearMisses(t *testing.T) {
	unread := func(ids ...arm.ID) func(*inventory.Snapshot) {
		return func(s *inventory.Snapshot) {
			for _, id := range ids {
				delete(s.Tables, id.Key())
				delete(s.Subnets, id.Key())
				delete(s.Gateways, id.Key())
				s.Unread[id.Key()] = inventory.Unread{ID: id, Status: 403,
					Code: "AuthorizationFailed"}
			}
		}
	}
	absent := func(s *inventory.Snapshot) {
		delete(s.Gateways, plantGateway.Key())
		s.Unread[plantGateway.Key()] = inventory.Unread{ID: plantGateway, Absent: true, Status: 404}
	}
	profile := func(p *plant) doc { return p.docs[plantCluster]["networkProfile"].(doc) }
	egress := func(p *plant, hopType, hop string) {
		p.docs[plantTable]["routes"] = append(podRoutes(),
			plantRoute("egress", "0.0.0.0/0", hopType, hop))
	}
	for name, tt := range map[string]struct {
		change func(*plant)
		want   []string // how each claim begins that is not right
		codes  []finding.Code
	}{
		"a pod elsewhere": {func(p *plant) { p.pod("lost", 1, false, "10.244.0.9") },
			[]string{"pods: wrong: pod x/lost"}, []finding.Code{finding.PodOutside}},
		"a pod without a node pool": {func(p *plant) {
			p.pod("virtual", 7, false, "10.99.0.9")
		}, nil, nil},
		"no kubeconfig": {func(p *plant) { p.kubernetes = nil }, []string{
			"nodes: not-asked: expected --get-kubeconfig, --kubeconfig, or --from-nodes",
			"node-subnet: not-asked: ", "pods: not-asked: "}, nil},
		"pods not shown": {func(p *plant) {
			p.kubernetes.Pods, p.kubernetes.Note = nil, "pods: forbidden"
		}, []string{
			"node-subnet: not-checked: pods were not read: pods: forbidden", "pods: not-checked: ",
			"paths: not-checked: "}, nil},
		"a node not ready": {func(p *plant) {
			p.kubernetes.Nodes[0].Ready, p.kubernetes.Nodes[0].Unready =
				false, &inventory.Condition{Reason: "KubeletNotReady"}
		}, []string{"nodes: wrong: 1 node is not Ready"}, []finding.Code{finding.NodeNotReady}},
		"the cluster is changing": {func(p *plant) {
			p.docs[plantCluster]["provisioningState"] = "Upgrading"
		}, []string{"nodes: not-checked: the cluster's provisioning state is Upgrading"}, nil},
		"a stripped node subnet": {func(p *plant) { delete(p.subnet(plantSubnet), "routeTable") },
			[]string{"association: wrong: node subnet vnet/nodes has lost", "paths: wrong: "},
			[]finding.Code{finding.AssociationLost}},
		"no route of a node": {func(p *plant) {
			p.docs[plantTable]["routes"] = podRoutes()[:1]
			p.docs[plantTarget]["routes"] = podRoutes()[:1]
		}, []string{"routes: wrong: 1 node", "paths: wrong: "},
			[]finding.Code{finding.NodeWithoutRoute}},
		"a route less in the target": {func(p *plant) {
			p.docs[plantTarget]["routes"] = podRoutes()[:1]
		}, []string{"target: wrong: ", "paths: wrong: ", "gateway: wrong: "}, []finding.Code{
			finding.TargetDrift}},
		"the table not read": {func(p *plant) { p.change = unread(plantTable) }, []string{
			"routes: not-checked: the table was not read: AuthorizationFailed",
			"target: not-checked: ", "paths: not-checked: ",
			"egress: not-checked: shop-rt was not read: AuthorizationFailed",
			"other: not-checked: "}, nil},
		"roles not read": {func(p *plant) {
			p.change = func(s *inventory.Snapshot) { clear(s.Rights) }
		},
			[]string{"roles: not-checked: the role assignments were not read",
				"roles: not-checked: ",
				"roles: not-checked: ", "roles: not-checked: ", "roles: not-checked: "}, nil},
		"roles not read in full": {func(p *plant) {
			p.change = func(s *inventory.Snapshot) {
				s.Rights[plantWho][plantSubnet.Key()] = inventory.Rights{Failed: "403"}
			}
		}, []string{"roles: not-checked: the role assignments could only be read in part: 403"},
			nil},
		"no role on the subnet": {func(p *plant) {
			p.change = func(s *inventory.Snapshot) {
				s.Rights[plantWho][plantSubnet.Key()] = inventory.Rights{}
			}
		}, []string{"roles: wrong: the identity of cluster shop lacks "},
			[]finding.Code{finding.IdentityLacks}},
		"no role of the add-on": {func(p *plant) {
			p.change = func(s *inventory.Snapshot) {
				s.Rights[plantAddon][plantGateway.Key()] = inventory.Rights{}
			}
		}, []string{"roles: wrong: the identity of the ingress add-on of cluster shop lacks "},
			[]finding.Code{finding.AddonLacks}},
		"no identity of the add-on": {func(p *plant) { delete(addon(p), "identity") },
			[]string{"roles: not-checked: the cluster's document does not name the identity of " +
				"the add-on",
				"roles: not-checked: ", "roles: not-checked: "}, nil},
		"another gateway than asked": {func(p *plant) {
			addon(p)["config"] = doc{"applicationGatewayId": string(plantGateway) + "2",
				"effectiveApplicationGatewayId": string(plantGateway)}
		}, []string{"gateway: wrong: the ingress add-on of cluster shop drives Application " +
			"Gateway agw, "},
			[]finding.Code{finding.GatewayDiffers}},
		"egress by a firewall": {func(p *plant) { egress(p, "VirtualAppliance", "10.42.3.4") },
			[]string{"egress: wrong: cluster shop has outboundType loadBalancer, but the route " +
				"egress"}, []finding.Code{finding.EgressDiffers}},
		"egress by a firewall, as meant": {func(p *plant) {
			egress(p, "VirtualAppliance", "10.42.3.4")
			profile(p)["outboundType"] = "userDefinedRouting"
		}, nil, nil},
		"no route for egress": {func(p *plant) {
			profile(p)["outboundType"] = "userDefinedRouting"
		},
			[]string{"egress: wrong: the nodes of shop in vnet/nodes leave past the firewall by " +
				"default outbound access"}, []finding.Code{finding.EgressBypassed}},
		"no route for egress, and NAT": {func(p *plant) {
			profile(p)["outboundType"] = "userDefinedRouting"
			p.subnet(plantSubnet)["natGateway"] = doc{"id": string(plantNAT)}
		},
			[]string{"egress: wrong: the nodes of shop in vnet/nodes leave past the firewall by " +
				"NAT gateway nat"}, []finding.Code{finding.EgressBypassed}},
		"no route for egress, and nothing else": {func(p *plant) {
			profile(p)["outboundType"] = "userDefinedRouting"
			p.subnet(plantSubnet)["defaultOutboundAccess"] = false
		},
			[]string{"egress: wrong: the nodes of shop in vnet/nodes have no egress"},
			[]finding.Code{finding.EgressRouteMissing}},
		"a NAT gateway is lost, and nothing else": {func(p *plant) {
			profile(p)["outboundType"] = "userAssignedNATGateway"
			p.subnet(plantSubnet)["defaultOutboundAccess"] = false
		},
			[]string{"egress: wrong: the nodes of shop in vnet/nodes need a NAT gateway " +
				"(outboundType userAssignedNATGateway), but the subnet has none: their packets " +
				"are dropped"}, []finding.Code{finding.EgressDropped}},
		"a NAT gateway that the config declares is lost": {func(p *plant) {
			p.config.Spec.Guard.Subnets = append(p.config.Spec.Guard.Subnets,
				v1alpha1.GuardedSubnet{SubnetID: string(plantSubnet),
					NATGatewayID: string(plantNAT)})
		},
			[]string{"association: wrong: guarded subnet vnet/nodes has lost its NAT gateway nat",
				"association: wrong: guarded subnet vnet/nodes has lost its NAT gateway nat",
				"egress: wrong: egress of subnet nodes: bypasses NAT gateway nat by the outbound " +
					"rules of the cluster's load balancer"},
			[]finding.Code{finding.AssociationLost, finding.EgressBypassed}},
		"egress dropped": {func(p *plant) { egress(p, "None", "") },
			[]string{"egress: wrong: route egress"}, []finding.Code{finding.EgressDropped}},
		"egress dropped, as meant": {func(p *plant) {
			egress(p, "None", "")
			profile(p)["outboundType"] = "none"
		}, nil, nil},
		"a NAT gateway that is not seen": {func(p *plant) {
			profile(p)["outboundType"] = "managedNATGateway"
		},
			[]string{"egress: not-checked: outboundType managedNATGateway, and the subnet shows " +
				"no NAT gateway"}, nil},
		"no gateway": {func(p *plant) {
			p.change = absent
			delete(p.subnet(plantGateways), "applicationGatewayIPConfigurations")
		}, []string{"gateway: wrong: Application Gateway agw"},
			[]finding.Code{finding.GatewayMissing}},
		"a gateway v1": {func(p *plant) { p.docs[plantGateway]["sku"] = doc{"tier": "Standard"} },
			[]string{"gateway: wrong: "}, []finding.Code{finding.GatewayNotV2}},
		"a gateway that was not read": {func(p *plant) { p.change = unread(plantGateway) },
			[]string{"gateway: not-checked: the ingress add-on drives it, and it was not read: " +
				"AuthorizationFailed"}, nil},
		"a gateway without SKU": {func(p *plant) { delete(p.docs[plantGateway], "sku") },
			[]string{"gateway: not-checked: the ingress add-on drives it, and its document names " +
				"no SKU"}, nil},
		"a stale route in the target": {func(p *plant) {
			p.docs[plantTarget]["routes"] = append(podRoutes(),
				plantRoute(node(9)+"____102449024", "10.244.9.0/24", inventory.HopAppliance,
					"10.42.1.13"))
		}, []string{"target: wrong: ", "gateway: wrong: "}, []finding.Code{finding.TargetDrift}},
		"something else": {func(p *plant) { profile(p)["serviceCidr"] = "10.42.0.0/20" },
			[]string{"other: wrong: "}, []finding.Code{finding.ServicesOverlap}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlant(t)
			tt.change(p)
			v := p.verify()
			lines := other(v)
			ok := len(lines) == len(tt.want)
			for i := range min(len(lines), len(tt.want)) {
				ok = ok && strings.HasPrefix(lines[i], tt.want[i])
			}
			if !ok {
				t.Errorf("not right:\n%s\nwant\n%s", strings.Join(lines, "\n"),
					strings.Join(tt.want, "\n"))
			}
			var codes []finding.Code
			for _, f := range v.Wrong {
				codes = append(codes, f.Code)
			}
			if !slices.Equal(codes, tt.codes) {
				t.Errorf("findings %q, want %q", codes, tt.codes)
			}
		})
	}
}

// TestCountsAlone: a claim is not right if its own counts contradict it, without any finding.
func TestCountsAlone(t *testing.T) {
	for topic, change := range map[string]func(*plant){
		topicPods:       func(p *plant) { p.pod("lost", 1, false, "10.244.0.9") },
		topicNodeSubnet: func(p *plant) { p.pod("agent", 1, true, "10.77.0.9") },
		topicNodes: func(p *plant) {
			p.docs[plantCluster]["agentPoolProfiles"].(docs)[0].(doc)["count"] = 3
		},
		topicAssociation: func(p *plant) { delete(p.subnet(plantSubnet), "routeTable") },
		topicRoutes:      func(p *plant) { p.docs[plantTable]["routes"] = podRoutes()[:1] },
		topicTarget:      func(p *plant) { p.docs[plantTarget]["routes"] = podRoutes()[:1] },
		topicEgress: func(p *plant) {
			p.docs[plantCluster]["networkProfile"].(doc)["outboundType"] = "userDefinedRouting"
		},
		topicAddresses: func(p *plant) {
			p.subnet(plantSubnet)["addressPrefix"] = "10.42.1.0/29" // three addresses
			p.pod("agent", 1, true, "10.42.1.6")
		},
		topicRoom: func(p *plant) { p.subnet(plantSubnet)["addressPrefix"] = "10.42.1.0/30" },
	} {
		t.Run(topic, func(t *testing.T) {
			p := newPlant(t)
			change(p)
			for _, c := range Verify(p.read(), nil).Claims {
				if c.Topic == topic && c.State != ClaimRight {
					return
				}
			}
			t.Errorf("%s is right", topic)
		})
	}
	lost := newPlant(t)
	delete(lost.subnet(plantSubnet), "routeTable")
	if lines := other(Verify(lost.read(), nil)); !slices.Contains(lines,
		"association: wrong: it has none, expected shop-rt") {
		t.Errorf("%q", lines)
	}
	outside := newPlant(t)
	outside.pod("lost", 1, false, "10.99.0.9")
	if lines := other(Verify(outside.read(), nil)); len(lines) != 1 ||
		lines[0] != "pods: wrong: 2 pods in the pod CIDRs of their nodes; 1 elsewhere" {
		t.Errorf("%q", lines)
	}
}

// TestStopped: the nodes of a stopped cluster are not assessed.
func TestStopped(t *testing.T) {
	p := newPlant(t)
	p.docs[plantCluster]["powerState"] = doc{"code": "Stopped"}
	for _, topic := range []string{topicNodes, topicNodeSubnet, topicPods, topicRoutes,
		topicPaths} {
		if !slices.Contains(other(p.verify()), topic+": not-checked: the cluster is stopped") {
			t.Errorf("%s: %q", topic, other(p.verify()))
		}
	}
}

// TestProposed: without a config there are no rights of a keeper to check, and targets are called
// proposed.
func TestProposed(t *testing.T) {
	p := newPlant(t)
	p.proposed = true
	for _, c := range p.verify().Claims {
		if c.Topic == topicKeeper || c.Topic == topicTarget &&
			!strings.Contains(c.Claim, "proposed") {
			t.Errorf("%+v", c)
		}
	}
}

func addon(p *plant) doc {
	return p.docs[plantCluster]["addonProfiles"].(doc)["ingressApplicationGateway"].(doc)
}

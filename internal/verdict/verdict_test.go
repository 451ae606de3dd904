package verdict

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

const (
	group   = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg/providers/"
	cluster = arm.ID(group + "Microsoft.ContainerService/managedClusters/shop")
	own     = arm.ID(group + "Microsoft.Network/routeTables/shop-rt")
	target  = arm.ID(group + "Microsoft.Network/routeTables/hub-rt")
	vnet    = group + "Microsoft.Network/virtualNetworks/vnet/subnets/"
	nodes   = arm.ID(vnet + "nodes")
	jump    = arm.ID(vnet + "jump")
	hub     = arm.ID(group + "Microsoft.Network/virtualNetworks/hub/subnets/gw")
)

// world is what a keeper reads of a cluster with two nodes: its table leads egress to a firewall, a
// target in another network has copies of its routes, and the config guards a further subnet.
type world struct {
	*testing.T
	s      plan.Facts
	config v1alpha1.ClusterRoutes
}

const (
	first   = `{"name":"aks-np-00000000-vmss000000","properties":{"addressPrefix":"10.244.0.0/24","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.1.0.4"}}`
	second  = `{"name":"aks-np-00000000-vmss000001","properties":{"addressPrefix":"10.244.1.0/24","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.1.0.5"}}`
	egress  = `{"name":"egress","properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.1.9.4"}}`
	private = `{"name":"private","properties":{"addressPrefix":"172.20.0.0/16","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.1.9.4"}}`
	nowhere = `{"name":"nowhere","properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"None"}}`
)

func newWorld(t *testing.T) *world {
	w := &world{T: t, s: plan.Facts{Snapshot: inventory.NewSnapshot(), Memory: plan.Memory{}}}
	w.cluster("Running")
	w.subnet(nodes, "10.1.0.0/24", own)
	w.subnet(jump, "10.1.1.0/24", own)
	w.table(own, []arm.ID{nodes, jump}, first, second, egress)
	w.table(target, []arm.ID{hub}, first, second)
	w.s.Memory[cluster.Key()] = &plan.Remembered{LastTable: own, LastProven: true}
	w.config.Metadata.Name, w.config.Spec.ClusterID = "shop", string(cluster)
	w.config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
		{SubnetID: string(jump), RouteTableID: string(own)}}
	w.config.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(target)}}
	w.config.SetDefaults()
	return w
}

func (w *world) add(doc string) {
	w.Helper()
	if err := w.s.Add([]byte(doc)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) cluster(power string) {
	w.add(`{"id":"` + string(cluster) + `","properties":{"powerState":{"code":"` + power +
		`"},"networkProfile":{"networkPlugin":"kubenet","podCidr":"10.244.0.0/16"},` +
		`"agentPoolProfiles":[{"name":"np","count":2,"vnetSubnetID":"` + string(nodes) + `"}]}}`)
}

func (w *world) subnet(id arm.ID, prefix string, table arm.ID) {
	on := ""
	if table != "" {
		on = `,"routeTable":{"id":"` + string(table) + `"}`
	}
	w.add(`{"id":"` + string(id) + `","properties":{"addressPrefix":"` + prefix + `"` + on + `}}`)
}

func (w *world) table(id arm.ID, on []arm.ID, routes ...string) {
	var subnets []string
	for _, s := range on {
		subnets = append(subnets, `{"id":"`+string(s)+`"}`)
	}
	w.add(`{"id":"` + string(id) + `","properties":{"routes":[` + strings.Join(routes, ",") +
		`],"subnets":[` + strings.Join(subnets, ",") + `]}}`)
}

// guard makes the cluster one of Azure CNI Overlay with an outbound type, whose config guards the
// node subnet: its table to a firewall, its NAT gateway and its security group. The subnet has only
// the given properties.
func (w *world) guard(outbound, properties string) {
	w.add(`{"id":"` + string(cluster) + `","properties":{"networkProfile":{"networkPlugin":"azure",` +
		`"networkPluginMode":"overlay","podCidr":"10.244.0.0/16","outboundType":"` + outbound +
		`"},"agentPoolProfiles":[{"name":"np","count":2,"vnetSubnetID":"` + string(nodes) + `"}]}}`)
	w.add(`{"id":"` + string(nodes) + `","properties":{"addressPrefix":"10.1.0.0/24"` +
		properties + `}}`)
	w.table(target, []arm.ID{nodes}, egress)
	w.s.Memory = plan.Memory{}
	w.config.Spec.Targets = nil
	w.config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{SubnetID: string(nodes),
		RouteTableID: string(target), NATGatewayID: natGateway, NetworkSecurityGroupID: nsg}}
}

// behind makes the cluster one of Azure CNI Overlay whose config declares a default route in the
// table of its node subnet, which has the given routes. The subnet has only the given properties.
func (w *world) behind(properties string, routes ...string) {
	w.guard("userDefinedRouting", properties)
	w.table(target, []arm.ID{nodes}, routes...)
	w.config.Spec.Guard.Subnets = nil
	w.config.Spec.Egress = v1alpha1.Egress{RouteTableID: string(target), FirewallID: firewall,
		Mode: v1alpha1.GuardEnforce, Routes: []v1alpha1.EgressRoute{{
			AddressPrefix: "0.0.0.0/0", NextHopIPAddress: "10.1.9.4"}}}
}

// leaving lets the cluster leave kubenet, as its document says from the start of the operation.
func (w *world) leaving() {
	w.s.Clusters[cluster.Key()] = w.s.Cluster(cluster).Left()
	w.s.Clusters[cluster.Key()].Updating = true
	w.s.Clusters[cluster.Key()] = w.s.Cluster(cluster).Leaving(nil)
}

// bypassed says that the egress of the node subnet goes another way than by the firewall.
func bypassed(by string) string { return "egress of subnet nodes: bypasses 10.1.9.4 by " + by }

const (
	natGateway = group + "Microsoft.Network/natGateways/nat"
	firewall   = group + "Microsoft.Network/azureFirewalls/fw"
	nsg        = group + "Microsoft.Network/networkSecurityGroups/nsg"
	hasTable   = `,"routeTable":{"id":"` + string(target) + `"}`
	hasNAT     = `,"natGateway":{"id":"` + natGateway + `"}`
	hasGroup   = `,"networkSecurityGroup":{"id":"` + nsg + `"}`
	isPrivate  = `,"defaultOutboundAccess":false`
)

func (w *world) unread(id arm.ID) {
	delete(w.s.Tables, id.Key())
	delete(w.s.Subnets, id.Key())
	delete(w.s.Clusters, id.Key())
	w.s.Unread[id.Key()] = inventory.Unread{ID: id, Status: 403, Code: "AuthorizationFailed"}
}

// TestLadder: each state, and the first of several that hold.
func TestLadder(t *testing.T) {
	silenced := finding.New(finding.AssociationLost, "shop", string(nodes), "lost")
	silenced.Silenced = &finding.Silence{Reason: "known"}
	drift := finding.New(finding.TargetDrift, "shop", string(target), "a target differs")
	drift.Silenced = &finding.Silence{Reason: "known"}
	lost := func(w *world) {
		w.s.Lost = plan.Hops{}
		w.s.Lost.Add(plan.Hop{Subnet: nodes, Addr: netip.MustParseAddr("10.1.9.4")})
	}
	surge := finding.New(finding.SurgeShort, "shop", string(nodes), "no room for a surge")
	for name, test := range map[string]struct {
		change   func(*world)
		findings []finding.Finding
		state    State
		cut      int
		sentence string // part of it
	}{
		"all is well": {state: InSync, sentence: "all 4 pod routes are correct"},
		"the config only observes": {change: func(w *world) {
			w.config.Spec.Guard.Mode = v1alpha1.GuardObserve
			w.config.Spec.Targets[0].Policy = v1alpha1.PolicyObserve
		}, state: Observed, sentence: "all 4 pod routes are correct"},
		"stopped": {change: func(w *world) { w.cluster("Stopped") }, state: Stopped},
		"stopped, and a target lacks a route": {change: func(w *world) {
			w.cluster("Stopped")
			w.table(target, []arm.ID{hub}, first)
		}, state: Stopped, cut: 1, sentence: "1 pod route missing"},
		"stopped, and its nodes lost their table": {change: func(w *world) {
			w.cluster("Stopped")
			w.subnet(nodes, "10.1.0.0/24", "")
		}, findings: []finding.Finding{finding.New(finding.AssociationLost, "shop", "", "lost")},
			state: AtRisk, cut: 2},
		"the nodes lost their table": {change: func(w *world) {
			w.subnet(nodes, "10.1.0.0/24", "")
		}, state: Broken, cut: 2, sentence: "subnet nodes has lost its route table; packets from " +
			"nodes and pods to pods on 2 nodes are dropped; egress of subnet nodes: bypasses " +
			"10.1.9.4 by default outbound access"},
		"the same, and a person silenced it": {change: func(w *world) {
			w.subnet(nodes, "10.1.0.0/24", "")
		}, findings: []finding.Finding{silenced}, state: AtRisk, cut: 2},
		"another error explains it, too": {change: func(w *world) {
			w.subnet(nodes, "10.1.0.0/24", "")
		}, findings: []finding.Finding{silenced,
			finding.New(finding.WriteRefused, "shop", string(nodes), "refused")},
			state: Broken, cut: 2},
		"a guarded subnet goes around the firewall": {change: func(w *world) {
			w.table(own, []arm.ID{nodes}, first, second, egress)
			w.table(target, []arm.ID{hub, jump}, first, second)
			w.subnet(jump, "10.1.1.0/24", target)
		}, state: Bypassed, sentence: "subnet jump has the wrong route table; egress of subnet " +
			"jump: bypasses 10.1.9.4 by 0.0.0.0/0 to Internet (system route)"},
		"the same, and a person silenced it, too": {change: func(w *world) {
			w.table(own, []arm.ID{nodes}, first, second, egress)
			w.table(target, []arm.ID{hub, jump}, first, second)
			w.subnet(jump, "10.1.1.0/24", target)
		}, findings: []finding.Finding{silenced}, state: AtRisk, sentence: "bypasses 10.1.9.4"},
		"its egress is dropped": {change: func(w *world) {
			w.table(own, []arm.ID{nodes}, first, second, egress)
			w.table(target, []arm.ID{hub, jump}, first, second, nowhere)
			w.subnet(jump, "10.1.1.0/24", target)
		}, state: Broken, sentence: "egress of subnet jump: dropped, it must go by 10.1.9.4"},
		"nothing has the next hop of its default route": {change: lost, state: Broken,
			sentence: "egress of subnet nodes: dropped, its next hop 10.1.9.4 cannot be reached"},
		"an appliance's interface says nothing about nodes": {change: func(w *world) {
			w.s.Interfaces["fw"] = &inventory.Interface{Document: arm.Document{ID: group +
				"Microsoft.Network/networkInterfaces/fw"}, Configs: []inventory.IPConfig{{
				Subnet: vnet + "fw", Address: netip.MustParseAddr("10.1.9.4")}}}
		}, state: InSync, sentence: "all 4 pod routes are correct"},
		"doctor reads no machines, and no subnet has the next hop": {change: func(w *world) {
			w.add(`{"id":"` + string(nodes.Parent()) + `","properties":{"addressSpace":` +
				`{"addressPrefixes":["10.1.0.0/16"]}}}`)
		}, state: Broken, cut: 2, // and no peering leads to the hub
			sentence: "egress of subnet nodes: dropped, its next hop 10.1.9.4 cannot be reached"},
		"nothing has the next hop, and a person silenced something else": {change: lost,
			findings: []finding.Finding{drift}, state: Broken},
		"a target lacks a route": {change: func(w *world) {
			w.table(target, []arm.ID{hub}, first)
		}, state: Broken, cut: 1, sentence: "1 pod route missing; packets from subnet gw to pods " +
			"on 1 node are dropped"},
		"a target's route leads to another node": {change: func(w *world) {
			w.table(target, []arm.ID{hub}, first,
				strings.Replace(second, "10.1.0.5", "10.1.0.4", 1))
		}, state: AtRisk, sentence: "1 pod route wrong"},
		"a target's route leads to no node": {change: func(w *world) {
			w.table(target, []arm.ID{hub}, first,
				strings.Replace(second, "10.1.0.5", "10.1.0.77", 1))
		}, state: Broken, cut: 1, sentence: "1 pod route wrong"},
		"no node has a route": {change: func(w *world) {
			w.table(own, []arm.ID{nodes, jump}, egress)
		}, state: Broken, cut: 2, sentence: "its route table has no pod routes to its 2 nodes"},
		"no table has a route": {change: func(w *world) {
			w.table(own, []arm.ID{nodes, jump}, egress)
			w.table(target, []arm.ID{hub})
		}, state: Broken, cut: 2, sentence: "its route table has no pod routes to its 2 nodes"},
		"a security group was not read": {change: func(w *world) {
			w.add(`{"id":"` + string(nodes) + `","properties":{"addressPrefix":"10.1.0.0/24",` +
				`"routeTable":{"id":"` + string(own) + `"},"networkSecurityGroup":{"id":"` + group +
				`Microsoft.Network/networkSecurityGroups/nsg"}}}`)
		}, state: InSync},
		"another table with the same egress": {change: func(w *world) {
			w.table(own, []arm.ID{nodes}, first, second, egress)
			w.table(target, []arm.ID{hub, jump}, first, second, egress)
			w.subnet(jump, "10.1.1.0/24", target)
		}, state: AtRisk, sentence: "all packets to pods are delivered nevertheless"},
		"several routes to a firewall are one way": {change: func(w *world) {
			w.table(own, []arm.ID{nodes}, first, second, private, egress)
			w.table(target, []arm.ID{hub, jump}, first, second)
			w.subnet(jump, "10.1.1.0/24", target)
		}, state: Broken, sentence: "table; packets from subnet jump to 172.20.0.0/16: dropped, " +
			"it must go by 10.1.9.4"},
		"it leaves kubenet, and its nodes need their routes": {change: func(w *world) {
			w.leaving()
		}, state: InSync, sentence: "all 4 pod routes are correct"},
		"it has left kubenet, and its table has no routes": {change: func(w *world) {
			w.leaving()
			w.table(own, []arm.ID{nodes, jump}, egress)
			w.table(target, []arm.ID{hub})
		}, state: InSync, sentence: "no pod routes"},
		"an overlay has all that is guarded": {change: func(w *world) {
			w.guard("userDefinedRouting", hasTable+hasNAT+hasGroup)
		}, state: InSync, sentence: "no pod routes; 1 guarded subnet in sync"},
		"it lost its table, and goes out by the NAT gateway": {change: func(w *world) {
			w.guard("userDefinedRouting", hasNAT+hasGroup)
		}, state: Bypassed, sentence: "subnet nodes has lost its route table; " +
			bypassed("NAT gateway nat")},
		"it lost its table and its NAT gateway": {change: func(w *world) {
			w.guard("userDefinedRouting", hasGroup)
		}, state: Bypassed, sentence: "subnet nodes has lost its route table and NAT " +
			"gateway; " + bypassed("default outbound access")},
		"the same, with a load balancer": {change: func(w *world) {
			w.guard("loadBalancer", "")
		}, state: Bypassed, sentence: bypassed("the outbound rules of the cluster's load " +
			"balancer")},
		"the same, in a private subnet": {change: func(w *world) {
			w.guard("userDefinedRouting", hasGroup+isPrivate)
		}, state: Broken, sentence: "egress of subnet nodes: dropped, it must go by 10.1.9.4"},
		"it lost its NAT gateway, and a route leads elsewhere": {change: func(w *world) {
			w.guard("userDefinedRouting", hasTable+hasGroup)
		}, state: AtRisk, sentence: "subnet nodes has lost its NAT gateway"},
		"it has another NAT gateway": {change: func(w *world) {
			another := strings.Replace(hasNAT, "/nat\"", "/nat2\"", 1)
			w.guard("userAssignedNATGateway", another+hasGroup)
			w.config.Spec.Guard.Subnets[0].RouteTableID = ""
		}, state: Bypassed, sentence: "egress of subnet nodes: bypasses NAT gateway nat by NAT " +
			"gateway nat2"},
		"it lost its NAT gateway, in a private subnet": {change: func(w *world) {
			w.guard("userAssignedNATGateway", hasGroup+isPrivate)
			w.config.Spec.Guard.Subnets[0].RouteTableID = ""
		}, state: Broken, sentence: "egress of subnet nodes: dropped, it must go by NAT gateway " +
			"nat"},
		"it lost its security group": {change: func(w *world) {
			w.guard("userDefinedRouting", hasTable+hasNAT)
		}, state: AtRisk, sentence: "subnet nodes has lost its network security group"},
		"declared egress is there": {change: func(w *world) { w.behind(hasTable, egress) },
			state: InSync, sentence: "no pod routes; 1 egress route in sync"},
		"the table lacks declared egress": {change: func(w *world) { w.behind(hasTable, private) },
			state: Bypassed, sentence: bypassed("default outbound access")},
		"the table lacks declared egress, in a private subnet": {change: func(w *world) {
			w.behind(hasTable+isPrivate, private)
		}, state: Broken, sentence: "egress of subnet nodes: dropped, it must go by 10.1.9.4"},
		"the same, with a route to None": {change: func(w *world) { w.behind(hasTable, nowhere) },
			state: Broken, sentence: "egress of subnet nodes: dropped, it must go by 10.1.9.4"},
		"declared egress leads elsewhere": {change: func(w *world) {
			w.behind(hasTable, strings.Replace(egress, "10.1.9.4", "10.1.9.9", 1))
		}, state: Bypassed, sentence: bypassed("0.0.0.0/0 to 10.1.9.9")},
		"the same, to the firewall's present address": {change: func(w *world) {
			w.behind(hasTable, strings.Replace(egress, "10.1.9.4", "10.1.9.9", 1))
			w.add(`{"id":"` + firewall + `","properties":{"ipConfigurations":[{"properties":` +
				`{"privateIPAddress":"10.1.9.9"}}]}}`)
		}, state: InSync},
		"the same, to the load balancer's present address": {change: func(w *world) {
			const lb = group + "Microsoft.Network/loadBalancers/lb"
			w.behind(hasTable, strings.Replace(egress, "10.1.9.4", "10.1.9.9", 1))
			w.config.Spec.Egress.FirewallID = lb + "/frontendIPConfigurations/f"
			w.add(`{"id":"` + lb + `","properties":{"frontendIPConfigurations":[{"name":"f",` +
				`"properties":{"privateIPAddress":"10.1.9.9","subnet":{"id":"/s"}}}],` +
				`"loadBalancingRules":[{"properties":{"protocol":"All",` +
				`"frontendIPConfiguration":{"id":"` + lb + `/frontendIPConfigurations/f"},` +
				`"backendAddressPool":{"id":"` + lb + `/backendAddressPools/p"}}}],` +
				`"backendAddressPools":[{"name":"p","properties":{"backendIPConfigurations":[` +
				`{"id":"/n"}]}}]}}`)
		}, state: InSync},
		"the subnet has no table": {change: func(w *world) { w.behind("", egress) },
			state: Bypassed, sentence: bypassed("default outbound access")},
		"the subnet has another table": {change: func(w *world) {
			w.behind(strings.Replace(hasTable, "hub-rt", "shop-rt", 1), egress)
		}, state: InSync},
		"a node lacks its route": {findings: []finding.Finding{
			finding.New(finding.NodeWithoutRoute, "shop", string(own), "a node lacks its route")},
			state: Broken, sentence: "a node lacks its route", cut: 1},
		"a node lacks its route, and a copy leads to another node": {change: func(w *world) {
			w.table(target, []arm.ID{hub}, first, strings.Replace(second, "10.1.0.5", "10.1.0.4",
				1))
		}, findings: []finding.Finding{
			finding.New(finding.NodeWithoutRoute, "shop", string(own), "a node lacks its route")},
			state: Broken, sentence: "1 pod route wrong; a node lacks its route", cut: 1},
		"a gateway has no table": {findings: []finding.Finding{
			finding.New(finding.GatewayNoTable, "shop", string(jump), "a gateway has no table")},
			state: Broken, sentence: "a gateway has no table"},
		"a finding says that egress is dropped": {findings: []finding.Finding{
			finding.New(finding.EgressRouteMissing, "shop", string(nodes), "no egress")},
			state: Broken, sentence: "no egress"},
		"a finding says that egress is bypassed": {findings: []finding.Finding{
			finding.New(finding.EgressBypassed, "shop", string(nodes), "past the firewall")},
			state: Bypassed, sentence: "past the firewall"},
		"egress may be bypassed": {findings: []finding.Finding{
			warning(finding.New(finding.EgressBypassed, "shop", string(nodes), "may bypass"))},
			state: AtRisk, sentence: "may bypass"},
		"an upgrade will not fit": {findings: []finding.Finding{surge}, state: AtRisk,
			sentence: "no room for a surge"},
		"a plan off kubenet is blocked": {findings: []finding.Finding{finding.New(
			finding.MigrationTable, "shop", string(cluster), "kubenet ends")}, state: InSync},
		"a table is not read": {change: func(w *world) { w.unread(target) }, state: Unknown,
			sentence: "route table hub-rt could not be read"},
		"the nodes lost their table, and it is not read": {change: func(w *world) {
			w.subnet(nodes, "10.1.0.0/24", "")
			w.unread(own)
			w.unread(target)
		}, findings: []finding.Finding{finding.New(finding.AssociationLost, "shop", "", "lost")},
			state: Unknown, sentence: "subnet nodes has lost its route table; route table " +
				"shop-rt and 1 more could not be read"},
		"a table is gone, and another is not read": {change: func(w *world) {
			w.unread(own)
			w.unread(target)
			w.s.Unread[target.Key()] = inventory.Unread{ID: target, Absent: true}
		}, state: Unknown, sentence: "route table hub-rt does not exist; route table shop-rt " +
			"could not be read"},
		"the cluster is not read": {change: func(w *world) { w.unread(cluster) }, state: Unknown,
			sentence: "cannot be read: AuthorizationFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.change != nil {
				test.change(w)
			}
			configs := []v1alpha1.ClusterRoutes{w.config}
			v := Of(w.s, configs, configs, plan.TakenBy(configs), test.findings)[0]
			if v.State != test.state || v.CutOff != test.cut ||
				len(v.Egress) > 2 || !strings.Contains(v.Sentence, test.sentence) ||
				v.State == Stopped && strings.Contains(v.Sentence, "dropped") {
				t.Errorf("%s, %d cut off, want %s, %d: %s\n%+v", v.State, v.CutOff, test.state,
					test.cut, v.Sentence, v)
			}
		})
	}
}

func warning(f finding.Finding) finding.Finding {
	f.Severity = finding.Warning
	return f
}

// TestAssumedPrefixes: assumed subnets do not overlap.
func TestAssumedPrefixes(t *testing.T) {
	seen := map[netip.Prefix]bool{}
	for i := range 1000 {
		for _, p := range assumedPrefixes(i) {
			if seen[p] || !p.IsValid() || p != p.Masked() {
				t.Fatalf("%d: %s", i, p)
			}
			seen[p] = true
		}
	}
}

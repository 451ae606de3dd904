package keeper

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// guarded is a cluster of some network plugin in its own network, whose subnets have a route table
// to a firewall, a NAT gateway and a network security group.
type guarded struct {
	cluster, vnet, nodes, pods arm.ID
	table, nat, group          arm.ID
	config                     v1alpha1.ClusterRoutes
}

// has are the properties that the subnets of clusters have, by outbound type.
var has = map[string][]inventory.Property{
	"loadBalancer":           {inventory.PropertyGroup},
	"userDefinedRouting":     {inventory.PropertyTable, inventory.PropertyGroup},
	"userAssignedNATGateway": {inventory.PropertyNAT, inventory.PropertyGroup},
	"none":                   {inventory.PropertyGroup},
	"": {inventory.PropertyTable, inventory.PropertyNAT,
		inventory.PropertyGroup}, // AKS's default, with everything
}

// addGuarded creates one. With kubenet, the table of the node subnet is the cluster's. The subnets
// have what an outbound type needs, and a group.
func (w *world) addGuarded(plugin, outbound string) guarded {
	name := func(kind, name string) arm.ID {
		return arm.ResourceID(emulator.DefaultSubscription, plugin+"-rg", kind, name)
	}
	g := guarded{cluster: name(arm.TypeCluster, plugin), vnet: name(arm.TypeVNet, "vnet"),
		table: name(arm.TypeRouteTable, "egress"), nat: name(arm.TypeNATGateway, "nat"),
		group: name(arm.TypeSecurityGroup, "nsg")}
	g.nodes, g.pods = g.vnet.Child("subnets", "nodes"), g.vnet.Child("subnets", "pods")
	w.put(g.cluster.Group(), object{})
	routes := []any{}
	if outbound == "" || outbound == "userDefinedRouting" {
		routes = append(routes, route("egress", "0.0.0.0/0", "10.88.9.4"))
	}
	w.put(g.table, object{"properties": object{"routes": routes}})
	ip := name(arm.TypePublicIP, "ip")
	w.put(ip, object{"sku": object{"name": "Standard"}, "properties": object{
		"publicIPAllocationMethod": "Static"}})
	w.put(g.nat, object{"sku": object{"name": "Standard"}, "properties": object{
		"publicIpAddresses": []any{object{"id": string(ip)}}}})
	w.put(g.group, object{"properties": object{}})
	link := func(id arm.ID) object { return object{"id": string(id)} }
	own := func(name string) bool { return plugin == "kubenet" && name == "nodes" }
	subnet := func(name, prefix string) object {
		p := object{"addressPrefix": prefix, "networkSecurityGroup": link(g.group)}
		if own(name) || slices.Contains(has[outbound], inventory.PropertyTable) {
			p["routeTable"] = link(g.table)
		}
		if slices.Contains(has[outbound], inventory.PropertyNAT) {
			p["natGateway"] = link(g.nat)
		}
		return object{"name": name, "properties": p}
	}
	w.put(g.vnet, object{"properties": object{
		"addressSpace": object{"addressPrefixes": []any{"10.88.0.0/16"}},
		"subnets": []any{subnet("nodes", "10.88.1.0/24"), subnet("pods", "10.88.16.0/20"),
			object{"name": "AzureFirewallSubnet", "properties": object{
				"addressPrefix": "10.88.9.0/26"}}}}})
	w.put(arm.ResourceID(g.vnet.Subscription(), g.vnet.ResourceGroup(), arm.TypeFirewall, "fw"),
		object{"properties": object{"ipConfigurations": []any{object{"name": "ip",
			"properties": object{"subnet": link(g.vnet.Child("subnets",
				"AzureFirewallSubnet"))}}}}})
	profile, pool := object{"networkPlugin": "azure"},
		object{"name": "np", "count": 2, "mode": "System", "vnetSubnetID": string(g.nodes)}
	switch plugin {
	case "kubenet":
		profile = object{"networkPlugin": "kubenet", "podCidr": "10.188.0.0/16"}
	case "overlay":
		profile["networkPluginMode"], profile["podCidr"] = "overlay", "10.188.0.0/16"
	case "pod-subnet", "pod-subnet-static":
		pool["podSubnetID"] = string(g.pods)
		if plugin == "pod-subnet-static" {
			pool["podIPAllocationMode"] = "StaticBlock"
		}
	}
	if outbound != "" {
		profile["outboundType"] = outbound
	}
	w.put(g.cluster,
		object{"properties": object{"networkProfile": profile, "agentPoolProfiles": []any{pool}}})
	g.config = configure(plugin, g.cluster)
	for _, id := range []arm.ID{g.nodes, g.pods} {
		s := v1alpha1.GuardedSubnet{SubnetID: string(id), NetworkSecurityGroupID: string(g.group)}
		if slices.Contains(has[outbound], inventory.PropertyTable) && !own(id.Name()) {
			s.RouteTableID = string(g.table) // else it is guarded as the cluster's
		}
		if slices.Contains(has[outbound], inventory.PropertyNAT) {
			s.NATGatewayID = string(g.nat)
		}
		g.config.Spec.Guard.Subnets = append(g.config.Spec.Guard.Subnets, s)
	}
	time.Sleep(2 * time.Minute)
	return g
}

// stripNetwork takes everything from the network's subnets in one PUT, as a template that does not
// name it does.
func (w *world) stripNetwork(g guarded) {
	w.edit(g.vnet, func(p object) {
		for _, subnet := range p["subnets"].([]any) {
			properties := subnet.(object)["properties"].(object)
			for _, name := range []string{"routeTable", "natGateway", "networkSecurityGroup"} {
				delete(properties, name)
			}
		}
	})
}

// denyPods adds a rule to the security group that drops what pods send.
func (w *world) denyPods(g guarded) {
	w.deny(g, "Inbound", "*", "10.188.0.0/16", "*")
}

// deny gives the group a rule, and one before it that allows the first node's pods everything.
func (w *world) deny(g guarded, direction, protocol, source, port string) {
	w.edit(g.group, func(p object) {
		rule := func(name, access, protocol string, priority int, source, port string) object {
			return object{"name": name, "properties": object{"direction": direction,
				"access": access, "protocol": protocol, "priority": priority,
				"sourceAddressPrefix": source, "sourcePortRange": "*",
				"destinationAddressPrefix": "*", "destinationPortRange": port}}
		}
		p["securityRules"] = []any{rule("some", "Allow", "*", 100, "10.188.0.0/24", "*"),
			rule("deny", "Deny", protocol, 110, source, port)}
	})
}

// properties are what the network's subnets have, without what Azure fills in.
func (w *world) properties(g guarded) string {
	text := ""
	for _, id := range []arm.ID{g.nodes, g.pods} {
		p := w.get(id)["properties"].(object)
		for _, name := range []string{"addressPrefix", "routeTable", "natGateway",
			"networkSecurityGroup", "serviceEndpoints"} {
			text += fmt.Sprintf("%s.%s: %v\n", id.Name(), name, p[name])
		}
	}
	return text
}

// during is the state of a cluster that lost everything, by outbound type, and a part of the
// sentence. A kubenet cluster without its table is broken.
var during = map[string]struct {
	state    verdict.State
	sentence string
}{
	"loadBalancer": {verdict.AtRisk, "have lost their network security group"},
	"userDefinedRouting": {verdict.Bypassed,
		"egress of subnet nodes: bypasses 10.88.9.4 by default outbound access"},
	"userAssignedNATGateway": {verdict.Bypassed,
		"egress of subnet nodes: bypasses NAT gateway nat by default outbound access"},
	"none": {verdict.AtRisk, "have lost their network security group"},
}

// TestGuardEveryPlugin: one PUT of the network takes everything from the subnets of a cluster, and
// all of it is back within the interval and two seconds, beyond the operations that Azure carries
// out one after another in a network. So it is for each network plugin and each outbound type that
// own networks can have. Meanwhile an observer says what becomes of the packets.
func TestGuardEveryPlugin(t *testing.T) { forEveryPlugin(t, guardEverything) }

// forEveryPlugin runs a test for each network plugin and each outbound type of own networks.
func forEveryPlugin(t *testing.T, test func(t *testing.T, plugin, outbound string)) {
	for _, plugin := range []string{"kubenet", "overlay", "node-subnet", "pod-subnet",
		"pod-subnet-static"} {
		for outbound := range during {
			if plugin == "kubenet" && outbound == "none" {
				continue // AKS refuses it
			}
			t.Run(plugin+"/"+outbound, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, plugin, outbound) })
			})
		}
	}
}

func guardEverything(t *testing.T, plugin, outbound string) {
	w := emptyWorld(t, slow)
	g := w.addGuarded(plugin, outbound)
	before := w.properties(g)
	observed := g.config
	observed.Spec.Guard.Mode = v1alpha1.GuardObserve
	observer := w.keep(observed)
	state := func() verdict.Verdict { return w.reconcile(observer).Verdicts[0] }
	if v := state(); v.State != verdict.Observed {
		t.Errorf("before: %s: %s", v.State, v.Sentence)
	}
	g.config.Spec.Guard.SecurityGroups = v1alpha1.GuardEnforce
	k := w.run(10*time.Second, g.config)
	for _, r := range k.since(time.Minute) {
		if len(r.Findings) > 0 || len(r.Changes) > 0 {
			t.Fatalf("in sync: %v, %+v", did(r), r.Findings)
		}
	}
	w.stripNetwork(g)
	stripped, want := state(), during[outbound]
	if plugin == "kubenet" {
		want.state, want.sentence = verdict.Broken, "are dropped"
	}
	if stripped.State != want.state || !strings.Contains(stripped.Sentence, want.sentence) {
		t.Errorf("during: %s: %s", stripped.State, stripped.Sentence)
	}
	puts := w.mark()
	results := k.since(12*time.Second + 2*slow.OperationTime)
	if now := w.properties(g); now != before {
		t.Errorf("later:\n%s\nbefore:\n%s", now, before)
	}
	wrote := 0
	for _, r := range puts() {
		if r.Method == "PUT" && r.Status < 300 {
			wrote++
		}
	}
	if wrote != 2 { // each subnet once
		t.Errorf("%d writes", wrote)
	}
	changed, lost := 0, 2*len(has[outbound])
	if plugin == "kubenet" && outbound != "userDefinedRouting" {
		lost++ // the cluster's own table
	}
	for _, r := range results {
		changed += len(r.Changes)
	}
	if changed != lost {
		t.Errorf("%d changes of %d: %+v", changed, lost, results)
	}
	if v := state(); v.State != verdict.Observed {
		t.Errorf("after: %s: %s", v.State, v.Sentence)
	}
	for _, r := range k.since(time.Minute) {
		if len(r.Findings) > 0 || len(r.Changes) > 0 {
			t.Errorf("afterwards: %v, %+v", did(r), r.Findings)
		}
	}
}

// TestGuardGroupObserved: a lost security group is only reported, unless the config says Enforce.
// The NAT gateway of the same subnet is put back.
func TestGuardGroupObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		g := w.addGuarded("overlay", "")
		k := w.keep(g.config)
		w.reconcile(k)
		w.stripNetwork(g)
		w.expect(w.reconcile(k), "2 done associate vnet/nodes\n2 done associate vnet/pods",
			finding.AssociationLost, finding.AssociationLost)
		r := w.reconcile(k)
		w.expect(r, "", finding.AssociationLost, finding.AssociationLost)
		if len(r.OnlyObserved) != 2 {
			t.Errorf("observed %+v", r.OnlyObserved)
		}
	})
}

// TestGuardGroupPasses: rules against others do not stop the repair.
func TestGuardGroupPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		g := w.addGuarded("overlay", "")
		g.config.Spec.Guard.SecurityGroups = v1alpha1.GuardEnforce
		w.deny(g, "Inbound", "*", "192.0.2.0/24", "22")
		k := w.keep(g.config)
		w.reconcile(k)
		before := w.properties(g)
		w.stripNetwork(g)
		w.reconcile(k)
		if after := w.properties(g); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
	})
}

// TestGuardGroupBlocks: a security group is not put back if its rules would drop packets between
// nodes and pods, or if its rules are unknown. Everything else that the subnet lost is.
func TestGuardGroupBlocks(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world, guarded)
		why    string
	}{
		"a rule denies pods": {func(w *world, g guarded) {
			w.denyPods(g)
		}, "its rules would drop packets between the cluster's nodes and pods"},
		"a rule denies a port": {func(w *world, g guarded) {
			w.deny(g, "Inbound", "Tcp", "*", "10250")
		}, "its rules would drop packets between the cluster's nodes and pods"},
		"a rule denies the pods of one node": {func(w *world, g guarded) {
			w.deny(g, "Inbound", "Udp", "10.188.3.0/24", "*")
		}, "its rules would drop packets between the cluster's nodes and pods"},
		"a rule denies what leaves": {func(w *world, g guarded) {
			w.deny(g, "Outbound", "*", "*", "1024-65535")
		}, "its rules would drop packets between the cluster's nodes and pods"},
		"it cannot be read": {func(w *world, g guarded) {
			w.inject(emulator.Fault{Method: "GET", Path: "networkSecurityGroups", Count: -1,
				Status: 403, Code: "AuthorizationFailed"})
		}, "its rules could not be read: AuthorizationFailed"},
		"AKS is silent, and a rule denies pods": {func(w *world, g guarded) {
			w.inject(emulator.Fault{Method: "GET", Path: "managedClusters", Hold: "before",
				Count: -1})
			w.denyPods(g)
		}, "its rules would drop packets between the cluster's nodes and pods"},
		"it does not exist": {func(w *world, g guarded) { w.remove(g.group) }, "it does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := emptyWorld(t, slow)
				g := w.addGuarded("overlay", "")
				g.config.Spec.Guard.SecurityGroups = v1alpha1.GuardEnforce
				k := w.keep(g.config)
				w.reconcile(k)
				w.stripNetwork(g)
				test.change(w, g)
				r := w.reconcile(k)
				left := 0
				for _, o := range r.Changes {
					property, _ := o.New.Associated()
					if done := o.State == plan.Done; done == (property == inventory.PropertyGroup) {
						t.Errorf("%s of %s: %s", property, o.Resource.Short(), o.State)
					}
				}
				for _, f := range r.Findings {
					if f.Code == finding.AssociationLost && strings.Contains(f.Message, test.why) {
						left++
					}
				}
				if left != 2 {
					t.Errorf("%d findings: %+v", left, r.Findings)
				}
			})
		})
	}
}

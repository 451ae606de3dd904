package keeper

import (
	"fmt"
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
)

// guarded is a cluster of some network plugin in its own network, whose subnets have a route table
// to a firewall, a NAT gateway and a network security group.
type guarded struct {
	cluster, vnet, nodes, pods arm.ID
	table, nat, group          arm.ID
	config                     v1alpha1.ClusterRoutes
}

// addGuarded creates one. With kubenet, the table of the node subnet is the cluster's.
func (w *world) addGuarded(plugin string) guarded {
	name := func(kind, name string) arm.ID {
		return arm.ResourceID(emulator.DefaultSubscription, plugin+"-rg", kind, name)
	}
	g := guarded{cluster: name(arm.TypeCluster, plugin), vnet: name(arm.TypeVNet, "vnet"),
		table: name(arm.TypeRouteTable, "egress"), nat: name(arm.TypeNATGateway, "nat"),
		group: name(arm.TypeSecurityGroup, "nsg")}
	g.nodes, g.pods = g.vnet.Child("subnets", "nodes"), g.vnet.Child("subnets", "pods")
	w.put(g.cluster.Group(), object{})
	w.put(g.table, object{"properties": object{"routes": []any{route("egress", "0.0.0.0/0",
		"10.88.9.4")}}})
	ip := name(arm.TypePublicIP, "ip")
	w.put(ip, object{"sku": object{"name": "Standard"}, "properties": object{
		"publicIPAllocationMethod": "Static"}})
	w.put(g.nat, object{"sku": object{"name": "Standard"}, "properties": object{
		"publicIpAddresses": []any{object{"id": string(ip)}}}})
	w.put(g.group, object{"properties": object{}})
	link := func(id arm.ID) object { return object{"id": string(id)} }
	subnet := func(name, prefix string) object {
		return object{"name": name, "properties": object{"addressPrefix": prefix,
			"routeTable": link(g.table), "natGateway": link(g.nat),
			"networkSecurityGroup": link(g.group)}}
	}
	w.put(g.vnet, object{"properties": object{
		"addressSpace": object{"addressPrefixes": []any{"10.88.0.0/16"}},
		"subnets":      []any{subnet("nodes", "10.88.1.0/24"), subnet("pods", "10.88.16.0/20")}}})
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
	w.put(g.cluster, object{"properties": object{"networkProfile": profile,
		"agentPoolProfiles": []any{pool}}})
	g.config = configure(plugin, g.cluster)
	for _, id := range []arm.ID{g.nodes, g.pods} {
		s := v1alpha1.GuardedSubnet{SubnetID: string(id), RouteTableID: string(g.table),
			NATGatewayID: string(g.nat), NetworkSecurityGroupID: string(g.group)}
		if plugin == "kubenet" && id == g.nodes {
			s.RouteTableID = "" // it is guarded as the cluster's
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

// TestGuardEveryPlugin: one PUT of the network takes everything from the subnets of a cluster, and
// all of it is back within the interval and two seconds, beyond the operations that Azure carries
// out one after another in a network, whatever the cluster's network plugin.
func TestGuardEveryPlugin(t *testing.T) {
	for _, plugin := range []string{"kubenet", "overlay", "node-subnet", "pod-subnet",
		"pod-subnet-static"} {
		t.Run(plugin, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := emptyWorld(t, slow)
				g := w.addGuarded(plugin)
				before := w.properties(g)
				g.config.Spec.Guard.SecurityGroups = v1alpha1.GuardEnforce
				k := w.run(10*time.Second, g.config)
				for _, r := range k.since(time.Minute) {
					if len(r.Findings) > 0 || len(r.Changes) > 0 {
						t.Fatalf("in sync: %v, %+v", did(r), r.Findings)
					}
				}
				w.stripNetwork(g)
				if w.properties(g) == before {
					t.Fatal("nothing was stripped")
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
				changed := 0
				for _, r := range results {
					changed += len(r.Changes)
				}
				if changed != 6 {
					t.Errorf("%d changes: %+v", changed, results)
				}
				for _, r := range k.since(time.Minute) {
					if len(r.Findings) > 0 || len(r.Changes) > 0 {
						t.Errorf("afterwards: %v, %+v", did(r), r.Findings)
					}
				}
			})
		})
	}
}

// TestGuardGroupObserved: a lost security group is only reported, unless the config says Enforce.
// The NAT gateway of the same subnet is put back.
func TestGuardGroupObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		g := w.addGuarded("overlay")
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
		g := w.addGuarded("overlay")
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
				g := w.addGuarded("overlay")
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

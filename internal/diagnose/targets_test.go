package diagnose

import (
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

func TestRoutesUnkept(t *testing.T) {
	// A table on a subnet of machines that a user filled by hand.
	vms, vmTable := vnet+"/subnets/vms", netGroup+"/providers/Microsoft.Network/routeTables/vms-rt"
	copied := func(routes ...any) *world {
		return healthy(t).addSubnet(vms, object{"addressPrefix": "10.42.5.0/24",
			"routeTable": link(vmTable)}).put(table(vmTable, vms, routes...))
	}
	gone := route("aks-nodepool1-12345678-vmss000009", "10.244.9.0/24", "VirtualAppliance",
		"10.42.1.13")
	f := copied(podRoute(0), podRoute(1), gone, outside).finds(finding.RoutesUnkept)
	says(t, f, "vms-rt holds pod routes of cluster shop that no config manages (3; shop-rt has "+
		"3): 1 are missing or lead to the wrong node, 1 are stale",
		"10.244.2.0/24 to 10.42.1.6 is missing", "10.244.9.0/24 to 10.42.1.13 "+
			"(aks-nodepool1-12345678-vmss000009) is stale", "add "+string(vmTable)+
			" to spec.targets of shop")
	wrong := route("n2", nodePods(2), "VirtualAppliance", nodeAddr(1))
	copied(podRoute(0), podRoute(1), wrong).finds(finding.RoutesUnkept)

	if f := copied(pods()...).finds(finding.RoutesUnkept); f.Severity != finding.Info {
		t.Errorf("severity %s of copies that agree, want info", f.Severity)
	}
	if f := copied(podRoute(0)).unset(vms, "routeTable").set(vmTable, "subnets",
		list{}).finds(finding.RoutesUnkept); f.Severity != finding.Info {
		t.Errorf("severity %s of copies on no subnet, want info", f.Severity)
	}
	copied(outside).finds()
	// a user's own route
	copied(route("wide", "10.244.0.0/16", "VirtualAppliance", nodeAddr(0))).finds()
	target := copied(podRoute(0))
	target.c.Configs[0].Spec.Targets = append(target.c.Configs[0].Spec.Targets,
		target.c.Configs[0].Spec.Targets[0])
	target.c.Configs[0].Spec.Targets[1].RouteTableID = string(vmTable)
	target.finds(finding.TargetDrift)
	copied(podRoute(0)).without(shopTable).finds() // the wanted routes are unknown
	// A gateway's table without the routes is the more serious finding.
	healthy(t).unconfigured().routes(gwTable, podRoute(0)).finds(finding.GatewayRoutesMissing)
}

const oldNodes = vnet + "/subnets/old-nodes"

// oldRoute is a route to a node of a deleted cluster.
func oldRoute(name string) object {
	return route(name, "10.245.3.0/24", "VirtualAppliance", "10.42.4.7")
}

const oldName = "aks-old-87654321-vmss00000a____102453024"

func TestRoutesOrphaned(t *testing.T) {
	left := func(routes ...any) *world {
		return healthy(t).routes(gwTable, append(pods(), routes...)...)
	}
	withNIC := func(w *world, address string) *world {
		nic := netGroup + "/providers/Microsoft.Network/networkInterfaces/some-nic"
		w.put(object{"id": string(nic), "name": nic.Name(), "properties": object{
			"ipConfigurations": list{
				object{"name": "main",
					"properties": object{"privateIPAddress": address, "subnet": link(oldNodes)}}}}})
		return w.addSubnet(oldNodes, object{"addressPrefix": "10.42.4.0/24",
			"ipConfigurations": list{link(nic + "/ipConfigurations/main")}})
	}
	info := func(w *world, words ...string) {
		t.Helper()
		f := w.finds(finding.RoutesOrphaned)
		if f.Severity != finding.Info {
			t.Errorf("severity %s of what is not proven, want info: %q", f.Severity, f.Evidence)
		}
		says(t, f, words...)
	}
	proven := func(w *world, words ...string) {
		t.Helper()
		f := w.finds(finding.RoutesOrphaned)
		if f.Severity != finding.Warning {
			t.Errorf("severity %s of what is proven, want warning: %q", f.Severity, f.Evidence)
		}
		says(t, f, words...)
	}
	proven(left(oldRoute(oldName)), "appgw-rt has leftover routes to pods of nodes that are gone",
		"1 of its 4 routes", "no subnet of shop-vnet contains 10.42.4.7 any more",
		"routekeeper sync prune --subscription "+sub+" --table "+string(gwTable))
	// an older cluster's
	proven(left(oldRoute("aks-old-87654321-3")), "10.245.3.0/24 to 10.42.4.7 (aks-old-87654321-3)")
	proven(left(oldRoute("aksnpwin000001____102453024")), "aksnpwin000001")
	proven(withNIC(left(oldRoute(oldName)), "10.42.4.8"),
		"no network interface in shop-vnet/old-nodes has 10.42.4.7 any more")
	proven(left(oldRoute(oldName)).addSubnet(oldNodes, object{"addressPrefix": "10.42.4.0/24"}),
		"no network interface in shop-vnet/old-nodes")

	// Routes that no cloud provider wrote.
	left(oldRoute("to-lab")).finds()
	left(oldRoute("aksnpwin000001")).finds() // a bare Windows name is not specific enough
	left(oldRoute("aks-old-87654321-vmss00000a____102454024")).finds()
	left(route(oldName, "10.245.0.0/16", "VirtualAppliance", "10.42.4.7")).finds()
	left(route("aks-old-87654321-vmss00000a____102453024", "10.245.3.0/24", "None", "")).finds()
	// The plan decides about stale routes of existing clusters.
	left(route("aks-nodepool1-12345678-vmss000009____102449024", "10.244.9.0/24",
		"VirtualAppliance", "10.42.1.13")).finds(finding.TargetDrift)
	// routekeeper never writes a cluster's route table.
	info(healthy(t).routes(shopTable, append(pods(), oldRoute(oldName))...),
		"shop-rt may be the route table of the cluster of shop, which routekeeper never writes")
	info(left(oldRoute(oldName)).also(func(s *inventory.Snapshot) {
		s.Learn(shop).Written = []arm.ID{gwTable}
	}).muted(finding.TableUnknown).muted(finding.TargetIsSource), "the cluster's identity wrote it")
	// any table may be the cluster's then
	bare := left(oldRoute(oldName)).unset(nodes, "routeTable")
	info(bare.muted(finding.AssociationLost), "it has routes to its nodes, and the cluster's "+
		"route table is unknown")

	// Not proven.
	info(withNIC(left(oldRoute(oldName)), "10.42.4.7"), "10.42.4.7 belongs to some-nic")
	info(withNIC(left(oldRoute(oldName)), "10.42.4.8").also(func(s *inventory.Snapshot) {
		clear(s.Interfaces)
	}), "some-nic is in shop-vnet/old-nodes, and its addresses are unknown: it may have 10.42.4.7")
	info(withNIC(left(oldRoute(oldName)), "10.42.4.8").also(func(s *inventory.Snapshot) {
		s.InterfacesOf = []arm.ID{nodeGroup}
	}), "not all network interfaces of subscription")
	info(left(route(oldName, "10.245.3.0/24", "VirtualAppliance", "10.77.0.4")),
		"10.77.0.4 is in no network that shop-vnet/appgw reaches directly")
	info(left(route(oldName, "10.245.3.0/24", "VirtualAppliance", "10.50.0.4")).peered("Connected",
		true, true).also(func(s *inventory.Snapshot) { delete(s.VNets, hub.Key()) }),
		"virtual network hub-vnet, which has 10.50.0.4, was not read")
	proven(left(route(oldName, "10.245.3.0/24", "VirtualAppliance", "10.50.9.4")).peered(
		"Connected", true, true), "no subnet of hub-vnet contains 10.50.9.4 any more")
	info(left(oldRoute(oldName)).set(gwTable, "subnets", list{}).also(func(s *inventory.Snapshot) {
		s.Learn(shop).Written = []arm.ID{shopTable}
	}), "appgw-rt is not associated with any subnet")
	old := netGroup + "/providers/Microsoft.Network/routeTables/old-rt"
	info(healthy(t).addSubnet(oldNodes, object{"addressPrefix": "10.42.4.0/24",
		"routeTable": link(old)}).put(table(old, oldNodes, oldRoute(oldName))),
		"old-rt is associated with shop-vnet/old-nodes, which contains its next hops: it is or "+
			"was the route table of a cluster")
	info(left(oldRoute(oldName)).also(func(s *inventory.Snapshot) {
		id := arm.ID("/subscriptions/"+sub+"/providers/") + arm.TypeCluster
		s.Unread[id.Key()] = inventory.Unread{ID: "/subscriptions/" + sub, Status: 403,
			Code: "AuthorizationFailed"}
	}).muted(finding.ReadFailed), "not all clusters could be read: AuthorizationFailed")
}

func TestRoutesLeftByMigration(t *testing.T) {
	// The cluster was migrated to overlay: its copies stay, for existing nodes and for one that is
	// gone.
	migrated := func(routes ...any) *world {
		return healthy(t).overlay().routes(shopTable).routes(gwTable, routes...)
	}
	f := migrated(pods()...).finds(finding.RoutesOrphaned)
	if f.Severity != finding.Info {
		t.Errorf("severity %s of routes to living nodes of an overlay cluster, want info",
			f.Severity)
	}
	says(t, f, "10.42.1.4 belongs to aks-nodepool1-12345678-vmss instance 0; the route leads to "+
		"pods of shop, which has no route table and may need it")
	gone := route("by-hand", "10.244.9.0/24", "VirtualAppliance", "10.42.1.13")
	if f := migrated(gone).finds(finding.RoutesOrphaned); f.Severity != finding.Warning {
		t.Errorf("severity %s of a route to a node that is gone, want warning", f.Severity)
	}
	// Only the one whose node is gone would be removed.
	changes := plan.New(plan.Facts{Snapshot: migrated(podRoute(0), gone).snapshot()},
		nil).Prune([]arm.ID{gwTable}).Plan().Changes
	if len(changes) != 1 || changes[0].Route != "by-hand" || changes[0].Verb != plan.Delete ||
		changes[0].Cluster != "shop" {
		t.Errorf("would change %+v, want by-hand deleted", changes)
	}
	stopped := migrated(gone).set(shop, "powerState", object{"code": "Stopped"})
	says(t, stopped.finds(finding.RoutesOrphaned), "cluster shop is stopped")
	migrated(outside).finds()
}

package diagnose

import (
	"net/netip"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

func TestNetworkUnavailable(t *testing.T) {
	f := lone(t).kubernetes().node(1, marked).finds(finding.NetworkUnavailable)
	is(t, f, finding.Warning)
	says(t, f, nodeName(1), "NoRouteCreated", "although the cluster's route table has their routes")
	lone(t).kubernetes().node(1, marked).node(1, born(time.Minute)).finds()
	// A node that is not ready has its own finding.
	lone(t).kubernetes().node(1, func(n *inventory.Node) { n.Ready = false }).finds()

	// The table could not be read: only Kubernetes reports that the route is missing.
	unread := func() *world {
		return lone(t).without(shopTable).also(func(s *inventory.Snapshot) {
			s.Unread[shopTable.Key()] = inventory.Unread{ID: shopTable, Status: 403,
				Code: "AuthorizationFailed"}
		}).names(shopTable)
	}
	f = unread().kubernetes().node(1, marked).finds(finding.NetworkUnavailable, finding.ReadFailed)
	is(t, f, finding.Error)
	is(t, unread().kubernetes().node(1, marked).node(1, func(n *inventory.Node) {
		n.NetworkUnavailable.Reason = "CalicoIsDown"
	}).finds(finding.NetworkUnavailable, finding.ReadFailed), finding.Warning)
}

func TestNodesDisagree(t *testing.T) {
	// The machine has another address than Kubernetes knows.
	f := lone(t).kubernetes().machine(nicID(1), "10.42.1.77").finds(finding.NodesDisagree)
	is(t, f, finding.Warning)
	says(t, f, "node "+nodeName(1)+" ("+nodeAddr(1)+")", "machine "+nodeName(1)+" (10.42.1.77)")
	// A machine that has not joined does no harm.
	f = lone(t).kubernetes().machine(nicID(3), nodeAddr(3)).finds(finding.NodesDisagree)
	is(t, f, finding.Info)
	says(t, f, nodeName(3))
	// A node that has just joined may not be in the list of interfaces yet.
	fourth := func(age time.Duration) *world {
		return lone(t).kubernetes().also(func(s *inventory.Snapshot) {
			n := inventory.Node{Name: "aks-nodepool1-12345678-vmss000003",
				Addresses: []netip.Addr{addr(nodeAddr(3))}}
			born(age)(&n)
			k := s.Kubernetes[shop.Key()]
			k.Nodes = append(k.Nodes, n)
		})
	}
	fourth(time.Minute).finds()
	fourth(time.Hour).finds(finding.NodesDisagree)
	// Not all machines were seen.
	lone(t).kubernetes().blind(1).finds()
	// Kubernetes was not asked for nodes, or did not answer.
	lone(t).kubernetes().machine(nicID(1), nodeAddr(1)).also(func(s *inventory.Snapshot) {
		s.Kubernetes[shop.Key()].Nodes = nil
	}).finds()
	lone(t).kubernetes().machine(nicID(3), nodeAddr(3)).also(func(s *inventory.Snapshot) {
		s.Kubernetes[shop.Key()] = &inventory.Kubernetes{Nodes: []inventory.Node{},
			Failed: "no answer"}
	}).finds(finding.NodeWithoutRoute)
}

// TestStopped: a stopped cluster is reported, and that explains why nothing else is.
func TestStopped(t *testing.T) {
	f := healthy(t).set(shop, "powerState", object{"code": "Stopped"}).finds(finding.ClusterStopped)
	is(t, f, finding.Info)
	says(t, f, "az aks start --subscription "+sub+" --resource-group shop-rg --name shop")
}

package plan

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// madeAgain is the shop's cluster, created again with the pod CIDR 10.245.0.0/16 in the same
// subnet. Its target has two old routes: to an address that a new node has, and to one that no node
// has.
func madeAgain(t *testing.T) *world {
	w := shop(t)
	w.cluster(clusterA, "10.245.0.0/16", nodesA)
	w.table(tableA, "n0 10.245.0.0/24 10.240.0.4", "n1 10.245.1.0/24 10.240.0.5",
		"n2 10.245.2.0/24 10.240.0.6")
	w.table(gateway, "own 192.168.0.0/16 10.1.0.4", "n3 10.244.0.0/24 10.240.0.4",
		"n4 10.244.1.0/24 10.240.0.77",
		"n0 10.245.0.0/24 10.240.0.4", "n1 10.245.1.0/24 10.240.0.5", "n2 10.245.2.0/24 10.240.0.6")
	return w
}

func (w *world) settle(prefix, hop string) {
	w.remembered(clusterA).Settled = map[netip.Prefix]Settled{
		mustPrefix(prefix): {Hop: netip.MustParseAddr(hop)}}
	w.lastWriter(tableA, w.s.Cluster(clusterA).Principals...)
}

func (w *world) had(routes ...string) {
	had := map[Pair]bool{}
	for _, r := range routes {
		prefix, hop, _ := strings.Cut(r, " ")
		had[Pair{Prefix: mustPrefix(prefix), Hop: netip.MustParseAddr(hop)}] = true
	}
	w.remembered(clusterA).Had = had
}

func (w *world) network(id arm.ID, prefix string) {
	w.s.VNets[id.Key()] = &inventory.VNet{Document: arm.Document{ID: id},
		Prefixes: []netip.Prefix{mustPrefix(prefix)}}
}

// readNetworks associates the target with a subnet, and reads its network and that of the nodes.
func (w *world) readNetworks() {
	w.s.Table(gateway).Subnets = []arm.ID{gatewayIn}
	w.network(vnet, "10.240.0.0/16")
}

// TestFormerPodCIDR: copies of a cluster that was created again with another pod CIDR are reported,
// and each is deleted once it is proven stale.
func TestFormerPodCIDR(t *testing.T) {
	const third, fourth = "delete gw-rt n3 10.244.0.0/24>10.240.0.4 -\n", "delete gw-rt n4 " +
		"10.244.1.0/24>10.240.0.77 -"
	const unproven = "routes-orphaned info"
	t.Run("remembered", func(t *testing.T) {
		w := madeAgain(t)
		w.had("10.244.0.0/24 10.240.0.4", "10.244.1.0/24 10.240.0.77")
		p := w.expect(fourth, "deletes-withheld warning")
		if got := withheld(t, p); !strings.Contains(got, "10.240.0.4 belongs to") {
			t.Error(got)
		}
		w.settle("10.245.0.0/24", "10.240.0.4")
		p = w.expect(third+fourth, "")
		if why := p.Changes[0].Why; why != "its node at 10.240.0.4 now has the pod CIDR "+
			"10.245.0.0/24" {
			t.Error(why)
		}
		w.configs[0].Spec.Targets[0].Policy = "UpsertOnly"
		w.expect("", "stale-routes-kept")
		w.configs[0].Spec.Targets[0].Policy = "Observe"
		if p := w.expect("", "target-drift"); len(p.OnlyObserved) != 2 {
			t.Errorf("observed %+v", p.OnlyObserved)
		}
	})
	t.Run("nothing remembers it", func(t *testing.T) {
		w := madeAgain(t)
		w.settle("10.245.0.0/24", "10.240.0.4")
		w.expect("", unproven) // the target is on no subnet
		w.s.Table(gateway).Subnets = []arm.ID{gatewayIn}
		if p := w.expect("", unproven); len(p.Need.VNets) != 1 || !p.Need.VNets[0].Equal(vnet) {
			t.Errorf("needs %+v, want the network", p.Need)
		}
		w.readNetworks()
		w.expect(third+fourth, "")
		w.configs[0].Spec.Targets[0].Policy = "UpsertOnly"
		w.expect("", unproven)
		w.configs[0].Spec.Targets[0].Policy = "Sync"
		machine := arm.ID("/subscriptions/" + sub +
			"/resourceGroups/other/providers/Microsoft.Network/networkInterfaces/vm")
		hold(w.s, []arm.ID{machine.Child("ipConfigurations", "ip")})
		w.expect(third, unproven)
	})
	t.Run("the subnet's table has the route, too", func(t *testing.T) {
		w := madeAgain(t)
		w.readNetworks()
		w.table(tableA, "n0 10.245.0.0/24 10.240.0.4", "n1 10.245.1.0/24 10.240.0.5",
			"n2 10.245.2.0/24 10.240.0.6",
			"n4 10.244.1.0/24 10.240.0.77")
		w.expect("", unproven)
	})
	// A cluster that no config names has nodes with the same addresses, in a network that the
	// target reaches. The target does not reach the configured cluster's network.
	t.Run("the same addresses in another network", func(t *testing.T) {
		w := madeAgain(t)
		w.settle("10.245.0.0/24", "10.240.0.4")
		other := arm.ID("/subscriptions/" + sub +
			"/resourceGroups/other/providers/Microsoft.Network/virtualNetworks/other")
		w.s.Table(gateway).Subnets = []arm.ID{other.Child("subnets", "gw")}
		w.network(other, "10.240.0.0/16")
		w.expect("", unproven)
	})
}

// TestNotOfAFormerPodCIDR: routes that may be a user's, or another cluster's, stay as they are.
func TestNotOfAFormerPodCIDR(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"names that no cloud provider gives": func(w *world) {
			w.table(gateway, "vip 10.244.0.0/24 10.240.0.4", "vip2 10.244.1.0/24 10.240.0.77")
		},
		"next hops outside the node subnets": func(w *world) {
			w.table(gateway, "n3 10.244.0.0/24 10.230.0.4", "n4 10.244.1.0/24 10.230.0.77")
		},
		"of another cluster in the same target": func(w *world) {
			w.cluster(clusterB, "10.244.0.0/16", nodesB).subnet(nodesB, "10.241.0.0/24",
				tableB).table(tableB)
			w.config("play", clusterB, gateway).Spec.RouteTableID = string(tableB)
		},
		"of pod addresses that the config leaves out": func(w *world) {
			w.configs[0].Spec.PodCIDRs = []string{"10.245.0.0/16"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := madeAgain(t)
			change(w)
			w.readNetworks()
			w.settle("10.245.0.0/24", "10.240.0.4")
			p := Make(w.s, w.configs)
			for _, c := range p.Changes {
				if c.Verb == Delete {
					t.Errorf("%s", changes(p))
				}
			}
			if got := codes(p); strings.Contains(got, "withheld") ||
				strings.Contains(got, "orphaned") {
				t.Error(got)
			}
		})
	}
	t.Run("another cluster of the target is unread", func(t *testing.T) {
		w := madeAgain(t)
		w.config("play", clusterB, gateway)
		w.s.Unread[clusterB.Key()] = inventory.Unread{ID: clusterB, Status: 503}
		w.readNetworks()
		w.settle("10.245.0.0/24", "10.240.0.4")
		w.expect("", "read-failed")
	})
}

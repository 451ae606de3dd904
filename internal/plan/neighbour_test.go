package plan

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
)

// TestNeighbour: two overlay clusters share their node subnet and their pod CIDR, and a target.
// Another keeper manages the second one. No route of its nodes leaves the target, neither for
// another route with its prefix nor because no node of this cluster has its next hop. What this
// cluster had goes.
func TestNeighbour(t *testing.T) {
	const (
		theirs = "m0____102440024 10.244.0.0/24 10.240.0.20"
		more   = "m7____102447024 10.244.7.0/24 10.240.0.27"
		left   = "n8____102448024 10.244.8.0/24 10.240.0.8"
	)
	neighbours := func(t *testing.T, routes ...string) *world {
		w := overlay(t).table(gateway, append([]string{"own 192.168.0.0/16 10.1.0.4",
			"n1____102441024 10.244.1.0/24 10.240.0.5",
			"n2____102442024 10.244.2.0/24 10.240.0.6"}, routes...)...)
		w.s.Subnets[nodesA.Key()] = w.s.Subnet(nodesA).WithConfigurations([]arm.ID{
			arm.GroupID(sub, "MC_play") + "/providers/Microsoft.Compute/virtualMachineScaleSets/" +
				"aks-m-00000000-vmss/virtualMachines/0/networkInterfaces/nic/ipConfigurations/ip"})
		return w
	}
	had := map[Pair]bool{{Prefix: netip.MustParsePrefix("10.244.8.0/24"),
		Hop: netip.MustParseAddr("10.240.0.8")}: true}
	w := neighbours(t, theirs, more, left)
	w.remembered(clusterA).Had = had
	p := w.expect("delete gw-rt n8____102448024 10.244.8.0/24>10.240.0.8 -",
		"node-without-route\nupdates-withheld\ndeletes-withheld info\noverlay-routes")
	if why := withheld(t, p); strings.Count(why, "also has a node of another cluster "+
		"(aks-m-00000000-vmss instance 0), whose route it may be") != 2 {
		t.Error(why)
	}

	w = neighbours(t, more)
	delete(w.s.Subnets, nodesA.Key())
	w.remembered(clusterA).Subnets = []netip.Prefix{netip.MustParsePrefix("10.240.0.0/24")}
	if p := Make(w.s, w.configs); strings.Contains(changes(p), "m7") {
		t.Errorf("without the subnet:\n%s", changes(p))
	}

	const elsewhere = "m9____102449024 10.244.9.0/24 10.240.1.29"
	for name, read := range map[string]bool{"read": true, "unread": false} { // its nodes left it
		w = neighbours(t, elsewhere)
		if read {
			w.subnet(nodesB, "10.240.1.0/24", "")
			w.s.Subnets[nodesB.Key()] = w.s.Subnet(nodesB).WithConfigurations(
				w.s.Subnet(nodesA).Configurations())
		}
		w.remembered(clusterA).Subnets = []netip.Prefix{netip.MustParsePrefix("10.240.0.0/24"),
			netip.MustParsePrefix("10.240.1.0/24")}
		if p := Make(w.s, w.configs); strings.Contains(changes(p), "m9") {
			t.Errorf("in a subnet that its nodes left, %s:\n%s", name, changes(p))
		}
	}

	w = neighbours(t, more, left) // once its config is gone
	w.remembered(clusterA).Had = had
	config := w.configs[0]
	config.Spec.OnRemoval = v1alpha1.RemovalPrune
	if got := changes(Removal(w.s, config, TakenBy(nil)).Plan()); got !=
		"delete gw-rt n8____102448024 10.244.8.0/24>10.240.0.8 -" {
		t.Errorf("the removal:\n%s", got)
	}
}

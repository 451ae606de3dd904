package migrate

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestFollowUnknown: without the nodes, the note says what the cluster's document shows.
func TestFollowUnknown(t *testing.T) {
	overlay := object{"networkPlugin": "azure", "networkPluginMode": "overlay",
		"podCidr": "10.244.0.0/16"}
	for state, want := range map[string]string{
		"Updating": "it migrates, but which nodes have moved is not known: the nodes were not read",
		"Succeeded": "it is set to overlay, but whether all nodes have moved is not known: the " +
			"nodes were not read"} {
		w := newWorld()
		w.set("networkProfile", overlay)
		w.set("provisioningState", state)
		if got := Follow(w.snapshot(t), shop); got.State != Unknown ||
			!strings.HasPrefix(got.Note, want) {
			t.Errorf("%s: %s %q", state, got.State, got.Note)
		}
	}
}

// TestFollow: the state follows from the cluster's document and its nodes, and a node that has not
// moved must keep its route in each table.
func TestFollow(t *testing.T) {
	kubenet := object{"networkPlugin": "kubenet", "podCidr": "10.244.0.0/16"}
	overlay := object{"networkPlugin": "azure", "networkPluginMode": "overlay",
		"podCidr": "10.244.0.0/16"}
	for _, c := range []struct {
		name    string
		profile object
		state   string
		moved   string // a letter for each node: o has moved, k has not
		loses   bool   // the gateway's table loses the last node's route
		want    State
		waits   int
		missing int
	}{
		{"before", kubenet, "Succeeded", "kkk", false, NotStarted, 90, 0},
		{"one moved", overlay, "Updating", "okk", false, Running, 60, 0},
		{"the document is late", kubenet, "Updating", "okk", false, Running, 60, 0},
		{"a route is lost", overlay, "Updating", "ook", true, Running, 30, 1},
		{"the moved node's route may go", overlay, "Updating", "koo", true, Running, 30, 0},
		{"all moved, routes to be removed", overlay, "Updating", "ooo", false, Running, 0, 0},
		{"done", overlay, "Succeeded", "ooo", true, Done, 0, 0},
		{"stalled", overlay, "Failed", "ook", false, Stalled, 30, 0},
		{"nodes unknown", overlay, "Updating", "", false, Unknown, 0, 0},
	} {
		w := newWorld()
		w.set("networkProfile", c.profile)
		w.set("provisioningState", c.state)
		if c.loses {
			routes := w.gateway["properties"].(object)
			routes["routes"] = slices.Clone(routes["routes"].(list))[:2]
		}
		s := w.snapshot(t)
		k := &inventory.Kubernetes{}
		for i, kind := range c.moved {
			k.Nodes = append(k.Nodes, inventory.Node{Name: "node" + string(rune('0'+i)),
				Pool: "nodepool1", Overlay: kind == 'o',
				Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 42, 1, byte(4 + i)})},
				PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244,
					byte(i), 0}), 24)}})
		}
		s.Kubernetes[shop.Key()] = k
		got := Follow(s, shop)
		var missing []arm.ID
		for _, n := range got.Nodes {
			missing = append(missing, n.Missing...)
		}
		if got.State != c.want || got.WaitMinutes != c.waits || len(missing) != c.missing ||
			got.Moved != strings.Count(c.moved, "o") {
			t.Errorf("%s: %+v", c.name, got)
		}
		if got.Ended() != (c.want == Done || c.want == Stalled) {
			t.Errorf("%s: ended %t", c.name, got.Ended())
		}
	}
}

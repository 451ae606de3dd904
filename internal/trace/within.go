package trace

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// view is the part of the snapshot that a cluster sees: itself, the networks of its nodes and pods,
// and everything that peerings in any state connect with them.
type view struct {
	cluster  *inventory.Cluster
	own      map[string]bool // keys of its virtual networks
	networks map[string]bool // keys of its own networks and of all that are connected with them
}

// viewOf returns what a cluster sees. If no cluster is named, it returns nil, which means
// everything.
func (t *Tracer) viewOf(id arm.ID) *view {
	if id == "" {
		return nil
	}
	v := &view{cluster: t.s.Cluster(id), own: map[string]bool{}, networks: map[string]bool{}}
	if v.cluster == nil {
		return nil
	}
	for _, subnet := range t.clusterSubnets(v.cluster) {
		v.own[subnet.Parent().Key()] = true
	}
	peers := map[string][]string{} // only its peers show a network that was not read
	for key, vnet := range t.s.VNets {
		for _, peer := range vnet.Peers() {
			peers[key] = append(peers[key], peer.Key())
			peers[peer.Key()] = append(peers[peer.Key()], key)
		}
	}
	for next := slices.Collect(maps.Keys(v.own)); len(next) > 0; next = next[1:] {
		if !v.networks[next[0]] {
			v.networks[next[0]] = true
			next = append(next, peers[next[0]]...)
		}
	}
	return v
}

// seesSubnet reports whether the view includes the subnet's network.
func (v *view) seesSubnet(id arm.ID) bool {
	return v == nil || v.networks[id.Parent().Key()]
}

// seesCluster reports whether a cluster is the view's own, or has nodes or pods in a network of the
// view.
func (t *Tracer) seesCluster(c *inventory.Cluster) bool {
	return t.view == nil || c.ID.Equal(t.view.cluster.ID) ||
		slices.ContainsFunc(t.clusterSubnets(c), t.view.seesSubnet)
}

// choose selects among things with the same name: those of the cluster itself, or else those in
// connected networks.
func (t *Tracer) choose(found []named) []named {
	if t.view == nil {
		return found
	}
	only := func(mine bool) (some []named) {
		for _, n := range found {
			switch cluster := t.s.Cluster(n.owner); {
			case mine && cluster != nil && cluster.ID.Equal(t.view.cluster.ID),
				mine && n.owner == "" && t.view.own[n.Subnet.Parent().Key()],
				!mine && cluster != nil && t.seesCluster(cluster),
				!mine && n.owner == "" && t.view.seesSubnet(n.Subnet):
				some = append(some, n)
			}
		}
		return some
	}
	if own := only(true); len(own) > 0 {
		return own
	}
	return only(false)
}

// resolveAddr finds the owner of an address. Several clusters or networks can have it. Then the
// named cluster decides; if none is named, that is an error.
func (t *Tracer) resolveAddr(a netip.Addr) (Endpoint, error) {
	if v := t.view; v != nil {
		c := v.cluster
		if (c.Kubenet() || c.Overlay()) && contains(c.PodCIDRs, a) {
			return Endpoint{Addr: a, Cluster: c.ID}, nil
		}
		if s := subnetOf(t.s, t.clusterSubnets(c), a); s != nil {
			return Endpoint{Addr: a, Subnet: s.ID}, nil
		}
		for _, s := range t.subnetsOf(a) {
			if v.own[s.ID.Parent().Key()] {
				return Endpoint{Addr: a, Subnet: s.ID}, nil
			}
		}
	}
	var places []string
	for _, n := range t.nodesOf(a, "") {
		places = append(places, "a pod's of cluster "+n.Cluster.Name())
	}
	if len(places) == 0 {
		for _, s := range t.subnetsOf(a) {
			places = append(places, "in subnet "+s.ID.Short())
		}
	}
	if len(places) == 0 {
		for _, c := range t.s.Clusters {
			if (c.Kubenet() || c.Overlay()) && t.seesCluster(c) && contains(c.PodCIDRs, a) {
				places = append(places, "a pod's of cluster "+c.ID.Name())
			}
		}
	}
	slices.Sort(places)
	several := slices.Compact(places)
	if more := len(several) - 3; more > 1 {
		several = append(several[:3:3], fmt.Sprintf("and %d more", more))
	}
	if len(several) > 1 && t.view == nil {
		return Endpoint{}, fmt.Errorf("%s is ambiguous (%s): choose a cluster with --cluster",
			a, strings.Join(several, ", "))
	} else if len(several) > 1 {
		return Endpoint{}, fmt.Errorf("%s is ambiguous for cluster %s (%s): choose another "+
			"cluster with --cluster", a, t.view.cluster.ID.Name(), strings.Join(several, ", "))
	}
	return Endpoint{Addr: a}, nil
}

package cli

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestResolve: only the names of public API servers are looked up, and a name without an answer has
// a reason.
func TestResolve(t *testing.T) {
	const base = "/subscriptions/s/resourceGroups/g/providers/" + arm.TypeCluster + "/"
	s := inventory.NewSnapshot()
	var ids []arm.ID
	for _, name := range []string{"known", "gone", "silent", "private"} {
		id, zone := arm.ID(base+name), ""
		if name == "private" {
			zone = "system"
		}
		s.Clusters[id.Key()] = &inventory.Cluster{Document: arm.Document{ID: id},
			Hosts: []string{name + ".azmk8s.io"}, PrivateZone: zone}
		ids = append(ids, id)
	}
	var asked []string
	resolve(t.Context(), s, ids, func(_ context.Context, _, host string) ([]netip.Addr, error) {
		asked = append(asked, host)
		switch host {
		case "known.azmk8s.io":
			return []netip.Addr{netip.MustParseAddr("::ffff:203.0.113.7")}, nil
		case "gone.azmk8s.io":
			return nil, &net.DNSError{IsNotFound: true}
		}
		return nil, context.DeadlineExceeded
	})
	if want := []string{"known.azmk8s.io", "gone.azmk8s.io", "silent.azmk8s.io"}; !slices.Equal(
		asked, want) {
		t.Errorf("asked for %q", asked)
	}
	if got := s.Egress.Addresses["known.azmk8s.io"]; !slices.Equal(got,
		[]netip.Addr{netip.MustParseAddr("203.0.113.7")}) {
		t.Errorf("%v", got)
	}
	if got := s.Egress.Unresolved; len(got) != 2 ||
		got["gone.azmk8s.io"] != "the DNS of this machine does not know the name" ||
		got["silent.azmk8s.io"] != "the DNS of this machine did not answer" {
		t.Errorf("%q", got)
	}
}

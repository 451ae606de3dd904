package trace

import (
	"net/netip"
	"strings"
	"testing"
)

// TestLearned: only learned routes are taken from the effective routes, and not by tables without
// propagation.
func TestLearned(t *testing.T) {
	routes, err := DecodeLearned([]byte(`{"nextLink":null,"value":[
		{"addressPrefix":["10.0.0.0/16"],"disableBgpRoutePropagation":false,"nextHopIpAddress":[],"nextHopType":"VnetLocal","source":"Default","state":"Active"},
		{"addressPrefix":["192.168.0.0/16","10.244.0.0/16"],"disableBgpRoutePropagation":false,"nextHopIpAddress":["10.0.255.4"],"nextHopType":"VirtualNetworkGateway","source":"VirtualNetworkGateway","state":"Active"},
		{"addressPrefix":["10.244.1.0/24"],"nextHopIpAddress":["10.0.1.5"],"nextHopType":"VirtualAppliance","source":"User","state":"Active"}]}`))
	if err != nil || len(routes) != 2 ||
		routes[1].String() != "10.244.0.0/16 to VirtualNetworkGateway (learned by a gateway)" {
		t.Fatal(routes, err)
	}
	s := shop()
	there, _ := New(s, Options{Learned: routes}).Ways(addr("10.0.3.4"), addr("10.244.1.9"))
	if there.Verdict != Leaves || there.Why != "the virtual network gateway decides" {
		t.Errorf("without pod routes of its own: %+v", there)
	}
	s.Subnets[nodes.Key()].RouteTable = copied
	r, err := Effective(s, nodes, routes)
	if got, _ := r.Lookup(netip.MustParseAddr("192.168.1.1")); err != nil || got.Source != Learned {
		t.Error(got, err)
	}
	s.Tables[copied.Key()].NoLearned = true
	r, err = Effective(s, nodes, routes)
	if got, _ := r.Lookup(netip.MustParseAddr("192.168.1.1")); err != nil || got.Source != System {
		t.Error(got, err)
	}
	for _, bad := range []string{`[]`, `{}`,
		`{"value":[{"source":"VirtualNetworkGateway","addressPrefix":["x"]}]}`} {
		if _, err := DecodeLearned([]byte(bad)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

package verdict

import (
	"fmt"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Egress is a subnet whose packets to other networks do not take the declared way. The declared way
// is the next hop of a route in spec.egress or in the table that must be on the subnet, or the
// subnet's NAT gateway.
type Egress struct {
	Subnet arm.ID `json:"subnet"`
	// To is the route's destination. Declared is the next hop, or NAT gateway NAME. Takes is what
	// the packets use instead.
	To       netip.Prefix `json:"to"`
	Declared string       `json:"declared"`
	Takes    string       `json:"takes"`
	Dropped  bool         `json:"dropped"`
	// Unreachable is the next hop that drops the packets, because no resource has its address.
	Unreachable netip.Addr `json:"unreachable,omitzero"`
	// Instead says what else is in the next hop's subnet, as far as that is known.
	Instead string `json:"instead,omitempty"`
}

// outside stands for the internet, by the prefix of a default route.
var outside = map[netip.Prefix]netip.Addr{
	netip.MustParsePrefix("0.0.0.0/0"): netip.MustParseAddr("203.0.113.1"),
	netip.MustParsePrefix("::/0"):      netip.MustParseAddr("2001:db8:ffff:ffff::1"),
}

// OfGateway reports whether a NAT gateway is declared, not a next hop.
func (e Egress) OfGateway() bool { return strings.HasPrefix(e.Declared, gatewayWord) }

const gatewayWord = "NAT gateway "

// nextHopLost reports whether the route is as declared, but no resource has its next hop.
func (e Egress) nextHopLost() bool {
	return e.Unreachable.IsValid() && e.Unreachable.String() == e.Declared
}

func (e Egress) instead() string {
	if e.Instead == "" {
		return ""
	}
	return " (" + e.Instead + ")"
}

// String says which way the packets take.
func (e Egress) String() string {
	what := fmt.Sprintf("packets from subnet %s to %s", e.Subnet.Name(), e.To)
	if _, all := outside[e.To]; all {
		what = "egress of subnet " + e.Subnet.Name()
	}
	switch {
	case e.nextHopLost():
		return fmt.Sprintf("%s: dropped, its next hop %s cannot be reached%s", what, e.Declared,
			e.instead())
	case e.Unreachable.IsValid():
		return fmt.Sprintf("%s: dropped, it must go by %s, and its next hop %s cannot be reached%s",
			what, e.Declared, e.Unreachable, e.instead())
	case e.Declared == inventory.HopNone:
		return fmt.Sprintf("%s: must be dropped, and leaves by %s", what, e.Takes)
	case e.Dropped:
		return fmt.Sprintf("%s: dropped, it must go by %s", what, e.Declared)
	}
	return fmt.Sprintf("%s: bypasses %s by %s", what, e.Declared, e.Takes)
}

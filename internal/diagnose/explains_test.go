package diagnose

import (
	"slices"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestExplains selects what loses packets between pods; elsewhere, only in the named subnets.
func TestExplains(t *testing.T) {
	s := healthy(t).snapshot()
	found := []finding.Finding{
		finding.New(finding.AssociationLost, "shop", string(nodes), "lost"),
		finding.New(finding.NodeWithoutRoute, "shop", string(shopTable), "no route"),
		finding.New(finding.GatewayRoutesMissing, "shop", string(gwTable), "elsewhere"),
		finding.New(finding.GatewayNoTable, "shop", string(appgw), "elsewhere"),
		finding.New(finding.TargetDrift, "shop", string(nodes), "no packet is lost by its code"),
		finding.New(finding.ForwardingOff, "shop", string(nicID(0)), "off"),
	}
	codes := func(others ...arm.ID) (out []finding.Code) {
		for _, f := range Explains(s, shop, others, found) {
			out = append(out, f.Code)
		}
		return out
	}
	if got := codes(); !slices.Equal(got,
		[]finding.Code{finding.AssociationLost, finding.NodeWithoutRoute, finding.ForwardingOff}) {
		t.Errorf("between pods: %v", got)
	}
	if got := codes(appgw); !slices.Contains(got, finding.GatewayRoutesMissing) ||
		!slices.Contains(got, finding.GatewayNoTable) {
		t.Errorf("to the gateway's subnet: %v", got)
	}
	// An unassociated table may be the one that was lost.
	s.Subnet(nodes).RouteTable = ""
	if got := codes(); !slices.Contains(got, finding.NodeWithoutRoute) {
		t.Errorf("after the strip: %v", got)
	}
	if got := Explains(s, shop+"x", nil, found); got != nil {
		t.Errorf("of a cluster that was not read: %v", got)
	}
}

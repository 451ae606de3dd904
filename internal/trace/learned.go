package trace

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// DecodeLearned reads the routes that a gateway has learned by BGP out of what `az network nic show-effective-route-table -o json`
// prints of any interface that has them: those with the source VirtualNetworkGateway, also where another route beats them there. All
// other routes are left alone, because they are worked out. Nothing but what a running machine shows holds them: no document of ARM does.
func DecodeLearned(raw []byte) ([]Route, error) {
	var doc struct {
		Value []struct {
			Source      string       `json:"source"`
			Prefixes    []string     `json:"addressPrefix"`
			NextHopType string       `json:"nextHopType"`
			NextHops    []netip.Addr `json:"nextHopIpAddress"`
		} `json:"value"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("expected what az network nic show-effective-route-table -o json prints: %w", err)
	}
	if doc.Value == nil {
		return nil, fmt.Errorf("value: it is missing; expected what az network nic show-effective-route-table -o json prints")
	}
	var routes []Route
	for i, r := range doc.Value {
		if !strings.EqualFold(r.Source, string(Learned)) {
			continue
		}
		for _, text := range r.Prefixes {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, fmt.Errorf("value[%d].addressPrefix: %q is not a prefix", i, text)
			}
			// Azure shows addresses of the gateway's own here, which are no hops that a packet takes inside the network.
			routes = append(routes, Route{Prefix: p.Masked(), Source: Learned, HopType: inventory.HopGateway})
		}
	}
	return routes, nil
}

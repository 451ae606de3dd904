package trace

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// DecodeLearned reads the routes that a gateway has learned by BGP from the output of `az network
// nic show-effective-route-table -o json` for any interface that has them. It takes the routes with
// the source VirtualNetworkGateway, even if another route wins over them. It ignores all others,
// because trace computes those. Only a running machine shows learned routes. No ARM document has
// them.
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
		return nil, fmt.Errorf("it is not what az network nic show-effective-route-table -o json " +
			"prints")
	}
	if doc.Value == nil {
		return nil, fmt.Errorf("value: missing, expected what az network nic " +
			"show-effective-route-table -o json prints")
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
			// Azure shows the gateway's own addresses here, which are not hops inside the network.
			routes = append(routes,
				Route{Prefix: p.Masked(), Source: Learned, HopType: inventory.HopGateway})
		}
	}
	return routes, nil
}

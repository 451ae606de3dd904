package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// How it works: nodes must reach names on the internet, such as mcr.microsoft.com. But "the AKS
// outbound dependencies are almost entirely defined with FQDNs, which don't have static addresses
// behind them" (outbound-rules-control-egress). If a rule is for all addresses, or for a service
// tag that contains the name, its decision does not depend on the addresses. Everything else is
// unknown.

// Filtered is the decision of the network security groups of a cluster's nodes about a destination
// outside that AKS requires. Nodes stands for all nodes with the same groups.
type Filtered struct {
	Cluster arm.ID     `json:"cluster"`
	Nodes   netip.Addr `json:"nodes"`
	Name    string     `json:"name"` // with its port
	Ruling  Ruling     `json:"ruling"`
}

// umbrellas has service tags that contain the addresses of many services: AzureCloud all of Azure's
// datacenters, AzureFrontDoor what Front Door serves for others (service-tags-overview).
var umbrellas = []string{"azurecloud", "azurefrontdoor"}

// matchName says whether the prefixes of a rule cover a destination that has only a name.
func (f *Filters) matchName(p Packet, prefixes []string) (result answer, why string) {
	for _, text := range prefixes {
		if got := f.holdsName(p, text); got > result {
			result = got
			why = map[answer]string{perhaps: fmt.Sprintf("it is unknown whether %s is in %s",
				p.Name, text)}[got]
		}
	}
	return result, why
}

func (f *Filters) holdsName(p Packet, text string) answer {
	prefix := arm.ParseRange(text)
	switch {
	case text == "*" || strings.EqualFold(text, "any"):
		return yes
	case prefix.IsValid() && inside(prefix):
		return no
	case prefix.IsValid() && prefix.Bits() == 0:
		return isTrue(prefix.Addr().Is4()) // NAT gateways and AKS's load balancers are for IPv4
	case prefix.IsValid():
		return perhaps
	}
	doubt := f.unread != "" || f.tag != ""
	switch strings.ToLower(strings.ReplaceAll(text, "_", "")) {
	case "virtualnetwork":
		if f.wide[false] {
			return yes
		}
		return map[bool]answer{true: perhaps, false: no}[doubt || f.reachesOut]
	case "internet":
		if doubt || f.wide[false] || f.reachesOut || f.vague.Size() > 0 {
			return perhaps // see onInternet
		}
		return yes
	case "azureloadbalancer":
		return no
	}
	// "A service tag represents a group of IP address prefixes from a given Azure service"
	// (service-tags-overview), so the tag of another service does not contain it.
	service, _, _ := strings.Cut(strings.ToLower(text), ".")
	switch {
	case slices.ContainsFunc(p.Tags, func(t string) bool { return strings.EqualFold(t, text) }):
		return yes
	case len(p.Tags) == 0 || slices.Contains(umbrellas, service) ||
		slices.ContainsFunc(p.Tags, func(t string) bool {
			return strings.HasPrefix(strings.ToLower(t), service)
		}):
		return perhaps
	}
	return no
}

// inside reports whether no address of a prefix can be reached on the internet.
func inside(p netip.Prefix) bool {
	return slices.ContainsFunc(append(slices.Clone(reserved), netip.MustParsePrefix("fc00::/7"),
		netip.PrefixFrom(host, 32)), func(r netip.Prefix) bool {
		return r.Contains(p.Addr()) && r.Bits() <= p.Bits()
	})
}

package trace

import (
	"net/netip"
	"strings"
	"testing"
)

// TestJudgeNames: packets from a node to names on the internet, whose addresses are unknown.
func TestJudgeNames(t *testing.T) {
	api := []string{"AzureCloud", "AzureCloud.westeurope"}
	for name, tt := range map[string]struct {
		rules []string
		tags  []string
		want  Decision
		why   string
	}{
		"the default rules let it pass": {nil, nil, Allowed, "allow-65001"},
		"all is denied": {[]string{"deny out 300 * * * *"}, nil, Denied,
			"deny-300"},
		"the internet is denied": {[]string{"deny out 300 * * Internet *"}, nil, Denied,
			"deny-300"},
		"every IPv4 address": {[]string{"deny out 300 * * 0.0.0.0/0 *"}, nil, Denied, ""},
		"every IPv6 address": {[]string{"deny out 300 * * ::/0 *"}, nil, Allowed, ""},
		"a private prefix":   {[]string{"deny out 300 * * 10.0.0.0/8 *"}, nil, Allowed, ""},
		"more than private ones": {[]string{"deny out 300 * * 10.0.0.0/7 *"}, nil, Undecided,
			"it is unknown whether mcr.microsoft.com is in 10.0.0.0/7"},
		"a public prefix":  {[]string{"deny out 300 * * 20.0.0.0/8 *"}, nil, Undecided, ""},
		"a public address": {[]string{"deny out 300 * * 20.0.0.1 *"}, nil, Undecided, ""},
		"the network":      {[]string{"deny out 300 * * VirtualNetwork *"}, nil, Allowed, ""},
		"load balancers":   {[]string{"deny out 300 * * AzureLoadBalancer *"}, nil, Allowed, ""},
		"its own tag":      {[]string{"deny out 300 * * azurecloud.WestEurope *"}, api, Denied, ""},
		"another region": {[]string{"deny out 300 * * AzureCloud.northeurope *"}, api, Undecided,
			""},
		"another service": {[]string{"deny out 300 * * Sql.WestEurope *"}, api, Allowed, ""},
		"a service, and its own tag is unknown": {[]string{"deny out 300 * * Sql *"}, nil,
			Undecided, ""},
		"all of Azure": {[]string{"allow out 200 * * AzureCloud *", "deny out 300 * * * *"},
			[]string{"AzureActiveDirectory"}, Undecided, ""},
		"another service is allowed": {[]string{"allow out 200 * * Sql *", "deny out 300 * * * *"},
			[]string{"AzureActiveDirectory"}, Denied, "deny-300"},
		"another port": {[]string{"deny out 300 tcp * * 80"}, nil, Allowed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop()
			dropDefault(s)
			g := group(nodesGroup, tt.rules...)
			p := Packet{From: netip.MustParseAddr("10.0.1.4"), Protocol: "tcp", Port: 443,
				Name: "mcr.microsoft.com", Tags: tt.tags}
			r := FiltersOf(s, nodes, nil).Judge(g, p, false)
			if r.Decision != tt.want || !strings.Contains(r.Why, tt.why) {
				t.Errorf("%+v, want %s %q", r, tt.want, tt.why)
			}
		})
	}
	// A default route adds every address to VirtualNetwork. No page says what Internet is then.
	r := FiltersOf(shop(), nodes, nil).Judge(group(nodesGroup, "deny out 300 * * Internet *"),
		Packet{From: netip.MustParseAddr("10.0.1.4"), Name: "mcr.microsoft.com"}, false)
	if r.Decision != Undecided {
		t.Errorf("%+v, want unknown", r)
	}
}

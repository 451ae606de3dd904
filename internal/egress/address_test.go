package egress

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const network = arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network")

// behind is a snapshot with a cluster whose nodes are behind a firewall with these rules.
type behind struct {
	t *testing.T
	s *inventory.Snapshot
	c *inventory.Cluster
}

func newBehind(t *testing.T, dns ...string) *behind {
	b := &behind{t, inventory.NewSnapshot(), &inventory.Cluster{
		Document: arm.Document{ID: shop, Location: "westeurope"},
		Hosts:    []string{"shop-1.hcp.westeurope.azmk8s.io"}, Pools: []inventory.Pool{
			{Name: "np", Subnet: network + "/virtualNetworks/v/subnets/nodes"}}}}
	servers := ""
	for i, server := range dns {
		servers += strings.Repeat(",", min(i, 1)) + fmt.Sprintf("%q", server)
	}
	b.add(`{"id":%q,"properties":{"addressSpace":{"addressPrefixes":["10.42.0.0/16"]},`+
		`"dhcpOptions":{"dnsServers":[%s]},"virtualNetworkPeerings":[{"name":"hub","properties":{`+
		`"peeringState":"Connected","remoteAddressSpace":{"addressPrefixes":["10.50.0.0/16"]}}}],`+
		`"subnets":[{"id":"%s/subnets/nodes","properties":{"addressPrefix":"10.42.1.0/24",`+
		`"routeTable":{"id":"%s/routeTables/rt"}}}]}}`, network+"/virtualNetworks/v", servers,
		network+"/virtualNetworks/v", network)
	b.add(`{"id":%q,"properties":{"routes":[{"name":"out","properties":{"addressPrefix":`+
		`"0.0.0.0/0","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.50.0.4"}}]}}`,
		network+"/routeTables/rt")
	b.add(`{"id":%q,"properties":{"ipConfigurations":[{"properties":{"privateIPAddress":`+
		`"10.50.0.4"}}],"firewallPolicy":{"id":"%s/firewallPolicies/p"}}}`,
		network+"/azureFirewalls/hub", network)
	b.add(`{"id":%q,"properties":{}}`, network+"/firewallPolicies/p")
	b.s.Egress.ExtensionsOf = []arm.ID{shop}
	return b
}

func (b *behind) add(format string, args ...any) *behind {
	b.t.Helper()
	if err := b.s.Add([]byte(fmt.Sprintf(format, args...))); err != nil {
		b.t.Fatal(err)
	}
	return b
}

// rules adds network rules to the firewall's policy.
func (b *behind) rules(action string, rules ...string) *behind {
	return b.add(`{"id":%q,"properties":{"priority":100,"ruleCollections":[%s]}}`,
		network+"/firewallPolicies/p/ruleCollectionGroups/g",
		collection(100, action, strings.Join(rules, ",")))
}

// find returns what is said about a destination, "" if it is not listed.
func (b *behind) find(endpoint string) string {
	b.t.Helper()
	exits := Of(b.s, b.c)
	if len(exits) != 1 {
		b.t.Fatalf("%d exits", len(exits))
	}
	for _, n := range exits[0].Names {
		if n.Endpoint() == endpoint {
			return strings.TrimSpace(string(n.Verdict) + " " + n.Rule)
		}
	}
	return ""
}

func netRule(protocol, from, to, ports string) string {
	where := "destinationAddresses"
	if strings.Contains(to, ".ubuntu.") || strings.Contains(to, ".azmk8s.") {
		where = "destinationFqdns"
	}
	return fmt.Sprintf(`{"ruleType":"NetworkRule","name":"r","ipProtocols":[%q],`+
		`"sourceAddresses":[%q],%q:[%q],"destinationPorts":[%q]}`, protocol, from, where, to, ports)
}

// TestAddresses: rules for addresses, with and without the right rule, and with ones that are
// almost right.
func TestAddresses(t *testing.T) {
	usgov := func(b *behind) {
		b.c.Hosts = []string{"shop-1.hcp.westeurope.cx.aks.containerservice.azure.us"}
	}
	china := func(b *behind) {
		b.c.Hosts = []string{"shop-1.hcp.westeurope.cx.prod.service.azk8s.cn"}
	}
	private := func(b *behind) { usgov(b); b.c.PrivateZone = "system" }
	konnectivity := func(b *behind) {
		usgov(b)
		b.s.Kubernetes[shop.Key()] = &inventory.Kubernetes{Pods: []inventory.Pod{
			{Namespace: "kube-system", Name: "konnectivity-agent-5f-x"}}}
	}
	front := func(b *behind) {
		b.s.Kubernetes[shop.Key()] = &inventory.Kubernetes{Pods: []inventory.Pod{
			{Namespace: "kube-system", Name: "tunnelfront-5f-x"}}}
	}
	const tunnel, tcp = "AzureCloud.westeurope:1194/udp", "AzureCloud.westeurope:9000/tcp"
	const api, ntp = "shop-1.hcp.westeurope.azmk8s.io:443/tcp", "ntp.ubuntu.com:123/udp"
	all := "10.42.0.0/16"
	for _, c := range []struct {
		name     string
		change   func(*behind)
		endpoint string
		rule     string
		want     string
	}{
		{"tunnel", usgov, tunnel, netRule("UDP", all, "AzureCloud.WestEurope", "1194"),
			"allowed r"},
		{"tunnel, all of AzureCloud", usgov, tunnel, netRule("UDP", all, "AzureCloud", "1194"),
			"allowed r"},
		{"tunnel, everywhere", usgov, tunnel, netRule("Any", "*", "*", "1000-2000"), "allowed r"},
		{"tunnel, no rule", usgov, tunnel, "", "missing"},
		{"tunnel, wrong port", usgov, tunnel, netRule("UDP", all, "AzureCloud", "1195"), "missing"},
		{"tunnel, wrong protocol", usgov, tunnel, netRule("TCP", all, "AzureCloud", "1194"),
			"missing"},
		{"tunnel, narrower source", usgov, tunnel,
			netRule("UDP", "10.42.1.0/25", "AzureCloud", "1194"), "missing"},
		{"tunnel, another region", usgov, tunnel,
			netRule("UDP", all, "AzureCloud.NorthEurope", "1194"), "missing"},
		{"tunnel, a range", usgov, tunnel, netRule("UDP", all, "203.0.113.7-203.0.113.9", "1194"),
			"check r"},
		{"tunnel, an address", usgov, tunnel, netRule("UDP", all, "203.0.113.7", "1194"),
			"check r"},
		{"tunnel, a private address", usgov, tunnel, netRule("UDP", all, "10.9.0.7", "1194"),
			"missing"},
		{"tunnel, over TCP", usgov, tcp, netRule("TCP", all, "AzureCloud", "9000"), "allowed r"},
		{"tunnel, over TCP, no rule", usgov, tcp, netRule("UDP", all, "AzureCloud", "9000"),
			"missing"},
		{"tunnel, SSH", china, "AzureCloud.westeurope:22/tcp", "", "missing"},
		{"tunnel, SSH, elsewhere", usgov, "AzureCloud.westeurope:22/tcp", "", ""},
		{"tunnel, private cluster", private, tunnel, "", ""},
		{"tunnel, konnectivity", konnectivity, tunnel, "", ""},
		{"tunnel, public cloud", nil, tunnel, "", "check"},
		{"tunnel, public cloud, an old tunnel", front, tunnel, "", "missing"},
		{"tunnel, an application rule", usgov, tcp, strings.Replace(rule("r", "*",
			`,"sourceAddresses":["*"]`), "443", "9000", 1), "missing"},

		{"NTP", usgov, ntp, netRule("UDP", all, "ntp.ubuntu.com", "123"), "allowed r"},
		{"NTP, everywhere", usgov, ntp, netRule("UDP", all, "*", "123"), "allowed r"},
		{"NTP, no rule", usgov, ntp, "", "missing"},
		{"NTP, another server", usgov, ntp, netRule("UDP", all, "ntp2.ubuntu.com", "123"),
			"missing"},
		{"NTP, an address", usgov, ntp, netRule("UDP", all, "203.0.113.7", "123"), "missing"},
		{"NTP, wrong protocol", usgov, ntp, netRule("TCP", all, "*", "123"), "missing"},
		{"NTP, public cloud", nil, ntp, "", "check"},
		{"NTP, public cloud, allowed", nil, ntp, netRule("UDP", all, "*", "123"), "allowed r"},

		{"API server", nil, api, netRule("TCP", all, "AzureCloud.westeurope", "443"), "allowed r"},
		{"API server, by name", nil, api,
			netRule("TCP", all, "shop-1.hcp.westeurope.azmk8s.io", "443"), "allowed r"},
		{"API server, by address", nil, api, netRule("TCP", all, "203.0.113.7", "443"), "check r"},
		{"API server, at the rule's address", at("203.0.113.7"), api,
			netRule("TCP", all, "203.0.113.0/24", "443"), "allowed r"},
		{"API server, in the rule's range", at("203.0.113.7"), api,
			netRule("TCP", all, "203.0.113.1-203.0.113.9", "443"), "allowed r"},
		{"API server, at another address", at("203.0.113.7"), api,
			netRule("TCP", all, "203.0.113.8", "443"), "check"},
		{"API server, only one of its addresses", at("203.0.113.7", "203.0.113.8"), api,
			netRule("TCP", all, "203.0.113.8", "443"), "check"},
		{"tunnel, at the rule's address", at("203.0.113.7"), "AzureCloud.westeurope:9000/tcp",
			netRule("TCP", all, "203.0.113.7", "9000"), "allowed r"},
		{"API server, no rule", nil, api, "", "check"},
		{"API server, private cluster", func(b *behind) { b.c.PrivateZone = "none" }, api, "", ""},
	} {
		b := newBehind(t)
		if c.change != nil {
			c.change(b)
		}
		if c.rule != "" {
			b.rules("Allow", c.rule)
		}
		if got := b.find(c.endpoint); got != c.want {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}

// at resolves the API server's name.
func at(addresses ...string) func(*behind) {
	return func(b *behind) {
		b.s.Egress.Addresses = map[string][]netip.Addr{}
		for _, a := range addresses {
			b.s.Egress.Addresses[b.c.Hosts[0]] = append(b.s.Egress.Addresses[b.c.Hosts[0]],
				netip.MustParseAddr(a))
		}
	}
}

// TestResolved: what the API server's address decides is said with the address, because it can
// change.
func TestResolved(t *testing.T) {
	for to, want := range map[string]string{
		"203.0.113.7": "shop-1.hcp.westeurope.azmk8s.io is at 203.0.113.7 now; a rule for the " +
			"name or the service tag would follow a change",
		"AzureCloud": "",
		"10.0.0.1": "needed if pods other than AKS's call the API server without the annotation " +
			"kubernetes.azure.com/set-kube-service-host-fqdn; shop-1.hcp.westeurope.azmk8s.io " +
			"is at 203.0.113.7 now",
	} {
		b := newBehind(t).rules("Allow", netRule("TCP", "*", to, "443"))
		at("203.0.113.7")(b)
		for _, n := range Of(b.s, b.c)[0].Names {
			if n.Name == b.c.Hosts[0] && n.Why != want {
				t.Errorf("%s: %q, want %q", to, n.Why, want)
			}
		}
	}
}

// TestDNS: the network's own DNS servers count where their packets take the default route.
func TestDNS(t *testing.T) {
	for _, c := range []struct{ name, server, from, to, ports, protocol, udp, tcp string }{
		{"elsewhere, allowed", "10.60.0.4", "*", "10.60.0.0/24", "53", "Any", "allowed r",
			"allowed r"},
		{"elsewhere, UDP only", "10.60.0.4", "*", "10.60.0.4", "53", "UDP", "allowed r", "check"},
		{"elsewhere, wrong port", "10.60.0.4", "*", "10.60.0.4", "54", "UDP", "missing", "check"},
		{"elsewhere, another server", "10.60.0.4", "*", "10.60.0.5", "53", "UDP", "missing",
			"check"},
		{"elsewhere, from other nodes", "10.60.0.4", "10.43.0.0/16", "*", "53", "UDP", "missing",
			"check"},
		{"in the network", "10.42.9.4", "*", "*", "1", "UDP", "", ""},
		{"in the peered network", "10.50.9.4", "*", "*", "1", "UDP", "", ""},
		{"the firewall itself", "10.50.0.4", "*", "*", "1", "UDP", "", ""},
	} {
		b := newBehind(t, c.server).rules("Allow", netRule(c.protocol, c.from, c.to, c.ports))
		udp, tcp := b.find(c.server+":53/udp"), b.find(c.server+":53/tcp")
		if udp != c.udp || tcp != c.tcp {
			t.Errorf("%s: %q and %q, expected %q and %q", c.name, udp, tcp, c.udp, c.tcp)
		}
	}
	// Where a gateway may have learned a route to the server, nothing is claimed.
	b := newBehind(t, "10.60.0.4").add(`{"id":%q,"properties":{"addressPrefix":"10.42.9.0/27"}}`,
		network+"/virtualNetworks/v/subnets/GatewaySubnet")
	if got := b.find("10.60.0.4:53/udp"); got != "check" {
		t.Errorf("with a gateway: %q", got)
	}
}

// TestExtensions: extensions add their names; unknown ones only to check.
func TestExtensions(t *testing.T) {
	const agent = "westeurope.dp.kubernetesconfiguration.azure.com:443"
	const market, backup = "arcmktplaceprod.azurecr.io:443", "*.core.windows.net:443"
	extension := func(b *behind, kind, more string) {
		b.add(`{"id":"%s/providers/Microsoft.KubernetesConfiguration/extensions/x"%s,`+
			`"properties":{"extensionType":%q}}`, shop, more, kind)
	}
	for _, c := range []struct {
		name                  string
		change                func(*behind)
		agent, market, backup string
		note                  bool
	}{
		{"none", func(*behind) {}, "", "", "", false},
		{"Flux", func(b *behind) { extension(b, "microsoft.flux", "") }, "missing", "", "", true},
		{"Dapr", func(b *behind) { extension(b, "Microsoft.Dapr", "") }, "missing", "", "", false},
		{"backup", func(b *behind) {
			extension(b, "Microsoft.DataProtection.Kubernetes", "")
		}, "missing", "", "check", false},
		{"marketplace", func(b *behind) {
			extension(b, "vendor.thing", `,"plan":{"name":"a"}`)
		}, "missing", "missing", "", false},
		{"unread", func(b *behind) { b.s.Egress.ExtensionsOf = nil }, "check", "check", "", false},
		{"another cluster's", func(b *behind) {
			b.add(`{"id":"%s2/providers/Microsoft.KubernetesConfiguration/extensions/x",`+
				`"properties":{"extensionType":"microsoft.flux"}}`, shop)
		}, "", "", "", false},
	} {
		b := newBehind(t)
		c.change(b)
		got := []string{b.find(agent), b.find(market), b.find(backup)}
		if got[0] != c.agent || got[1] != c.market || got[2] != c.backup {
			t.Errorf("%s: %q", c.name, got)
		}
		if notes := Of(b.s, b.c)[0].Notes; len(notes) > 0 != c.note {
			t.Errorf("%s: %q", c.name, notes)
		}
	}
}

// TestDestinationGroups: a network rule's IP groups count as its destinations; one that was not
// read, for a rule that allows.
func TestDestinationGroups(t *testing.T) {
	group := network + "/ipGroups/dns"
	rule := fmt.Sprintf(`{"ruleType":"NetworkRule","name":"r","ipProtocols":["UDP"],`+
		`"sourceAddresses":["*"],"destinationIpGroups":[%q],"destinationPorts":["53"]}`, group)
	for _, c := range []struct{ action, addresses, want string }{
		{"Allow", `"10.60.0.0/24"`, "allowed r"}, {"Allow", `"10.61.0.0/24"`, "missing"},
		{"Deny", `"10.60.0.4"`, "denied r"}, {"Allow", "", "allowed r"}, {"Deny", "", "missing"},
	} {
		b := newBehind(t, "10.60.0.4").rules(c.action, rule)
		if c.addresses != "" {
			b.add(`{"id":%q,"properties":{"ipAddresses":[%s]}}`, group, c.addresses)
		}
		if got := b.find("10.60.0.4:53/udp"); got != c.want {
			t.Errorf("%s %s: %q, expected %q", c.action, c.addresses, got, c.want)
		}
		if exit := Of(b.s, b.c)[0]; exit.Partly != (c.addresses == "") {
			t.Errorf("%s %s: partly %t", c.action, c.addresses, exit.Partly)
		}
	}
}

// TestNext: the command for what lacks adds a rule of the right kind.
func TestNext(t *testing.T) {
	nodes := []netip.Prefix{netip.MustParsePrefix("10.42.1.0/24")}
	own := &inventory.Firewall{Document: arm.Document{ID: network + "/azureFirewalls/hub"}}
	with := &inventory.Firewall{Policy: network + "/firewallPolicies/p"}
	tunnel := []Name{{Name: "AzureCloud.westeurope", Port: "9000", Protocol: "TCP",
		service: "AzureCloud"}, {Name: "AzureCloud.westeurope", Port: "22", Protocol: "TCP",
		service: "AzureCloud"}, {Name: "ntp.ubuntu.com", Port: "123", Protocol: "UDP"}}
	for _, c := range []struct {
		firewall *inventory.Firewall
		lacking  []Name
		want     string
	}{
		{own, append(tunnel, Name{Name: "a.b", Port: "443"}), "application-rule create .* " +
			"--source-addresses 10.42.1.0/24 --protocols Http=80 Https=443 --target-fqdns a.b"},
		{own, tunnel, "network-rule create .* --protocols TCP --destination-addresses " +
			"AzureCloud.westeurope --destination-ports 9000 22"},
		{with, tunnel, "--rule-type NetworkRule .* --ip-protocols TCP --destination-addresses " +
			"AzureCloud.westeurope --destination-ports 9000 22"},
		{with, tunnel[2:], "--ip-protocols UDP --destination-fqdns ntp.ubuntu.com " +
			"--destination-ports 123"},
		{with, []Name{{Name: "10.60.0.4", Port: "53", Protocol: "UDP"},
			{Name: "10.60.0.5", Port: "53", Protocol: "UDP"}},
			"--ip-protocols UDP --destination-addresses 10.60.0.4 10.60.0.5 " +
				"--destination-ports 53"},
	} {
		parts := strings.SplitN(c.want, " .* ", 2)
		got := addRule(c.firewall, c.lacking, nodes, public).String()
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("no %q in %q", part, got)
			}
		}
	}
}

package trace

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	nodesGroup = arm.ID(
		"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkSecurityGroups/nodes-nsg")
	nicGroup = arm.ID(
		"/subscriptions/s/resourceGroups/mc/providers/Microsoft.Network/networkSecurityGroups/aks-nsg")
	web = arm.ID(
		"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/applicationSecurityGroups/web")
)

// rule returns a rule of a network security group from allow|deny in|out PRIORITY PROTOCOL FROM TO
// PORTS. The fields of FROM and TO are lists with commas; asg:web is an application security group.
func rule(text string) inventory.SecurityRule {
	f := strings.Fields(text)
	r := inventory.SecurityRule{Name: f[0] + "-" + f[2], Allow: f[0] == "allow",
		Inbound: f[1] == "in", Protocol: f[3], SourcePorts: []string{
			"*"}, DestinationPorts: strings.Split(f[6], ",")}
	for _, digit := range f[2] {
		r.Priority = r.Priority*10 + int(digit-'0')
	}
	side := func(text string) (prefixes []string, groups []arm.ID) {
		if text == "asg:web" {
			return nil, []arm.ID{web}
		}
		return strings.Split(text, ","), nil
	}
	r.Sources, r.SourceGroups = side(f[4])
	r.Destinations, r.DestinationGroups = side(f[5])
	return r
}

// group is a network security group with the given rules and Azure's default rules after them.
func group(id arm.ID, rules ...string) *inventory.SecurityGroup {
	g := &inventory.SecurityGroup{Document: arm.Document{ID: id}}
	for _, text := range append(rules,
		"allow in 65000 * VirtualNetwork VirtualNetwork *",
		"allow in 65001 * AzureLoadBalancer * *", "deny in 65500 * * * *",
		"allow out 65000 * VirtualNetwork VirtualNetwork *", "allow out 65001 * * Internet *",
		"deny out 65500 * * * *") {
		g.Rules = append(g.Rules, rule(text))
	}
	return g
}

func TestJudge(t *testing.T) {
	const gatewayToPod, podToPod, nodeOut = "10.0.2.4 10.244.1.9", "10.244.0.7 10.244.1.9",
		"10.0.1.4 20.1.2.3"
	bareNodes := func(s *inventory.Snapshot) { s.Subnets[nodes.Key()].RouteTable = "" }
	for name, tt := range map[string]struct {
		rules   []string
		packet  string // from, to and optionally protocol and port
		change  func(*inventory.Snapshot)
		inbound bool
		want    Decision
		rule    string
		why     string
	}{
		"pods are in VirtualNetwork by their routes": {nil, podToPod, nil, true, Allowed,
			"allow-65000", "rule allow-65000 of nodes-nsg (priority 65000) allows it"},
		"without the table they are not": {nil, podToPod, bareNodes, true, Denied,
			"deny-65500", ""},
		"nor is their gateway's packet to them": {nil, gatewayToPod, bareNodes, true, Denied,
			"deny-65500", ""},
		"the table was not read": {nil, gatewayToPod, func(s *inventory.Snapshot) {
			delete(s.Tables, table.Key())
		}, true, Undecided, "allow-65000",
			"it is unknown whether 10.244.1.9 is in VirtualNetwork: route table rt was not read"},
		"the network was not read": {nil, "10.0.2.4 10.0.1.4", func(s *inventory.Snapshot) {
			delete(s.VNets, vnet.Key())
			dropDefault(s)
		}, true, Undecided, "allow-65000", "virtual network v was not read"},
		"a peer's address": {nil, "10.1.0.4 10.244.1.9", nil, true, Allowed, "allow-65000", ""},
		"a peer without access": {nil, "10.1.0.4 10.244.1.9", func(s *inventory.Snapshot) {
			s.VNets[vnet.Key()].Peerings[0].Access = false
			dropDefault(s)
		}, true, Denied, "deny-65500", ""},
		"on-premises, learned by the gateway": {nil, "192.168.7.4 10.244.1.9", dropDefault,
			true, Allowed, "allow-65000", ""},
		"a default route makes all of it theirs": {nil, "203.0.113.9 10.0.1.4", nil, true,
			Allowed, "allow-65000", ""},
		"the internet does not come in": {nil, "203.0.113.9 10.0.1.4", dropDefault, true,
			Denied, "deny-65500", ""},
		"the node goes out": {nil, nodeOut, dropDefault, false, Allowed, "allow-65001", ""},
		"a private address is not on the internet": {nil, "10.0.1.4 172.16.9.9", dropDefault, false,
			Denied, "deny-65500", ""},
		"probes": {nil, "168.63.129.16 10.0.1.4", dropDefault, true, Allowed, "allow-65000", ""},
		"probes, where VirtualNetwork is denied": {
			[]string{"deny in 4000 * VirtualNetwork * *"}, "168.63.129.16 10.0.1.4", nil, true,
			Denied, "deny-4000", ""},
		"the first rule wins": {
			[]string{"deny in 100 * 10.0.2.0/24 10.244.0.0/16 *",
				"allow in 200 * * * *"}, gatewayToPod, nil, true, Denied, "deny-100", ""},
		"the other direction is not asked": {[]string{"deny out 100 * * * *"},
			gatewayToPod, nil, true, Allowed, "allow-65000", ""},
		"another source": {
			[]string{"deny in 100 * 10.0.3.0/24,10.0.2.5 * *"}, gatewayToPod, nil, true, Allowed,
			"allow-65000", ""},
		"one of a list": {
			[]string{"deny in 100 * 10.0.3.0/24,10.0.2.4 * *"}, gatewayToPod, nil, true, Denied,
			"deny-100", ""},
		"any port, one denied": {[]string{"deny in 100 Tcp * * 8080"},
			gatewayToPod, nil, true, Depends, "deny-100", "rule deny-100 of nodes-nsg concerns " +
				"tcp to port 8080; everything else allow-65000 allows"},
		"any port, one allowed": {
			[]string{"allow in 100 Tcp * * 80,443", "deny in 200 * * * *"}, gatewayToPod, nil, true,
			Depends, "allow-100", "concerns tcp to port 80, 443; everything else deny-200 denies"},
		"any port, one allowed as is the rest": {[]string{"allow in 100 Tcp * * 80"},
			gatewayToPod, nil, true, Allowed, "allow-65000", ""},
		"that port": {[]string{"deny in 100 Tcp * * 8000-8100"},
			gatewayToPod + " tcp 8080", nil, true, Denied, "deny-100", ""},
		"another port": {[]string{"deny in 100 Tcp * * 8000-8100"},
			gatewayToPod + " tcp 8101", nil, true, Allowed, "allow-65000", ""},
		"another protocol": {[]string{"deny in 100 Tcp * * 8080"},
			gatewayToPod + " udp 8080", nil, true, Allowed, "allow-65000", ""},
		"all ports, written out": {[]string{"deny in 100 * * * 0-65535"},
			gatewayToPod, nil, true, Denied, "deny-100", ""},
		"icmp has no ports": {[]string{"deny in 100 * * * 8080"},
			gatewayToPod + " icmp 0", nil, true, Allowed, "allow-65000", ""},
		"a service's prefixes are not known": {
			[]string{"deny out 100 * * Storage.WestEurope *"}, nodeOut, dropDefault, false,
			Undecided, "deny-100", "the prefixes of the service tag Storage.WestEurope are " +
				"unknown"},
		"a service has no private prefixes": {[]string{"deny in 100 * Storage * *"},
			gatewayToPod, nil, true, Allowed, "allow-65000", ""},
		"what is not known and would change nothing": {[]string{"allow out 100 * * Storage *"},
			nodeOut, dropDefault, false, Allowed, "allow-65001", ""},
		"the internet next to a default route": {[]string{"deny out 100 * * Internet *"},
			nodeOut, nil, false, Undecided, "deny-100", "not documented"},
		"in the application security group": {[]string{"deny in 100 * asg:web * *"},
			"10.0.1.4 10.0.1.5", nil, true, Denied, "deny-100", ""},
		"in no application security group": {[]string{"deny in 100 * asg:web * *"},
			"10.0.1.5 10.0.1.4", nil, true, Allowed, "allow-65000", ""},
		"a pod is in none": {[]string{"deny in 100 * asg:web * *"},
			podToPod, nil, true, Allowed, "allow-65000", ""},
		"an interface that was not read": {[]string{"deny in 100 * asg:web * *"},
			gatewayToPod, nil, true, Undecided, "deny-100", "the network interface of 10.0.2.4 " +
				"was not read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop()
			addNICs(s)
			if tt.change != nil {
				tt.change(s)
			}
			f := strings.Fields(tt.packet)
			p := Packet{From: netip.MustParseAddr(f[0]), To: netip.MustParseAddr(f[1])}
			if len(f) == 4 {
				p.Protocol, p.Port = f[2], map[string]int{"8080": 8080, "8101": 8101}[f[3]]
			}
			learned := []Route{{Prefix: netip.MustParsePrefix("192.168.0.0/16"), Source: Learned}}
			r := FiltersOf(s, nodes, learned).Judge(group(nodesGroup, tt.rules...), p, tt.inbound)
			if r.Decision != tt.want || r.Rule != tt.rule || !strings.Contains(r.Why, tt.why) ||
				r.Inbound != tt.inbound {
				t.Errorf("%+v", r)
			}
		})
	}
}

// dropDefault removes the default route from the shop's table.
func dropDefault(s *inventory.Snapshot) {
	setRoutes(s, table, s.Tables[table.Key()].Routes()[:2])
}

// addNICs gives the shop's nodes their interfaces; the first is in the application security group
// web.
func addNICs(s *inventory.Snapshot) {
	for name, address := range map[string]string{"0": "10.0.1.4", "1": "10.0.1.5"} {
		id := arm.ID("/subscriptions/s/resourceGroups/mc/providers/Microsoft.Compute/virtualMachineScaleSets/aks-np-1-vmss/virtualMachines/" + name + "/networkInterfaces/nic")
		config := inventory.IPConfig{Name: "ipconfig1", Address: netip.MustParseAddr(address),
			Subnet: nodes}
		if name == "0" {
			config.Groups = []arm.ID{web}
		}
		s.Interfaces[id.Key()] = &inventory.Interface{Document: arm.Document{ID: id},
			Forwarding: true, Configs: []inventory.IPConfig{config}}
	}
}

// TestPass: both groups must allow a packet, and the ruling names the first one.
func TestPass(t *testing.T) {
	deny, allow := "deny in 100 * * * *", "allow in 100 * * * *"
	for name, tt := range map[string]struct {
		// a rule of each group, "" where there is none, "unread" where it was not read
		subnet, nic string
		inbound     bool
		want        Decision
		group       arm.ID
	}{
		"none":                   {"", "", true, Allowed, ""},
		"both allow":             {allow, allow, true, Allowed, nicGroup},
		"the subnet's denies":    {deny, allow, true, Denied, nodesGroup},
		"the interface's denies": {allow, deny, true, Denied, nicGroup},
		"in, the subnet's first": {deny, deny, true, Denied, nodesGroup},
		"out, the interface's": {"deny out 100 * * * *", "deny out 100 * * * *", false, Denied,
			nicGroup},
		"one is unread":            {"unread", allow, true, Undecided, nodesGroup},
		"unread, but denied":       {"unread", deny, true, Denied, nicGroup},
		"depends, then denied":     {"deny in 100 Tcp * * 80", deny, true, Denied, nicGroup},
		"depends, and then passes": {"deny in 100 Tcp * * 80", allow, true, Depends, nodesGroup},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop()
			nic := &inventory.Interface{}
			set := func(at *arm.ID, id arm.ID, rule string) {
				if rule == "" {
					return
				}
				*at = id
				if rule != "unread" {
					s.SecurityGroups[id.Key()] = group(id, rule)
				}
			}
			set(&s.Subnets[nodes.Key()].SecurityGroup, nodesGroup, tt.subnet)
			set(&nic.SecurityGroup, nicGroup, tt.nic)
			r := FiltersOf(s, nodes, nil).Pass(nic, Packet{From: netip.MustParseAddr("10.0.2.4"),
				To: netip.MustParseAddr("10.0.1.4")}, tt.inbound)
			if r.Decision != tt.want || r.Group != tt.group || r.Why == "" {
				t.Errorf("%+v", r)
			}
		})
	}
}

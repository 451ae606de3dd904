package config

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
)

// egressDoc is a document with spec.egress: its mode, and a route in flow style.
func egressDoc(name, table, mode, route string) string {
	return doc(name, fmt.Sprintf("  egress:\n    routeTableID: %s%s\n    mode: %s\n    routes: "+
		"[%s]\n", tables, table, mode, route))
}

const toFirewall = "{addressPrefix: 0.0.0.0/0, nextHopIPAddress: 10.0.1.4}"

// by is a document whose egress leads to an appliance.
func by(appliance string) string {
	return strings.Replace(egressDoc("a", "x", "Enforce", toFirewall), "    mode:",
		"    firewallID: "+strings.Replace(tables, "routeTables/", appliance, 1)+"\n    mode:", 1)
}

const toGateway = "{addressPrefix: 0.0.0.0/0, nextHopType: VirtualNetworkGateway}"

func TestEgress(t *testing.T) {
	configs, err := Read(File{Name: "c.yaml", Data: []byte(egressDoc("a", "hub-rt/", "",
		toFirewall) + "---\n" + egressDoc("b", "HUB-rt", "Enforce", toFirewall+
		", {name: on-prem, addressPrefix: 172.16.0.0/12, nextHopIPAddress: 100.64.1.4}, "+
		"{addressPrefix: 20.1.2.3/32, "+
		"nextHopType: Internet}"))})
	if err != nil {
		t.Fatal(err)
	}
	if e := configs[0].Spec.Egress; e.Mode != v1alpha1.GuardObserve ||
		e.RouteTableID != tables+"hub-rt" {
		t.Errorf("%+v", e)
	}
	for _, name := range []string{"azureFirewalls/a", "loadBalancers/b",
		"loadBalancers/b/frontendIPConfigurations/c"} {
		if _, err := Read(File{Name: "c.yaml", Data: []byte(by(name))}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	own := strings.Replace(egressDoc("a", "own", "Observe", toFirewall), "  egress:",
		"  routeTableID: "+tables+"own\n  egress:", 1)
	if _, err := Read(File{Name: "c.yaml", Data: []byte(own)}); err != nil {
		t.Errorf("a cluster's own table can be watched: %v", err)
	}
}

func TestEgressMistakes(t *testing.T) {
	route := func(prefix, hop string) string {
		return egressDoc("a", "hub-rt", "Enforce", "{addressPrefix: "+prefix+
			", nextHopIPAddress: "+hop+"}")
	}
	pods := func(text string) string {
		return strings.Replace(text, "  egress:", "  podCIDRs: [10.244.0.0/16]\n  egress:", 1)
	}
	own := strings.Replace(egressDoc("a", "own", "Enforce", toFirewall), "  egress:",
		"  routeTableID: "+tables+"OWN\n  egress:", 1)
	for _, tt := range []struct{ text, want string }{
		{doc("a", "  egress: {mode: Enforce}\n"),
			"c.yaml:6:11: spec.egress.routeTableID: missing, expected the resource ID of a"},
		{doc("a", "  egress: {routeTableID: "+tables+"x}\n"),
			"spec.egress.routes: missing, expected the routes that the table must have"},
		{egressDoc("a", "x", "Off", toFirewall),
			`c.yaml:8:11: spec.egress.mode: unknown value "Off", expected Observe or Enforce`},
		{by("routeTables/x"), "is the ID of a Microsoft.Network/routeTables, expected a " +
			"Microsoft.Network/azureFirewalls or Microsoft.Network/loadBalancers or " +
			"Microsoft.Network/loadBalancers/frontendIPConfigurations"},
		{route("0.0.0.0", "10.0.1.4"), `spec.egress.routes[0].addressPrefix: "0.0.0.0" is not a ` +
			"prefix, expected one such as 0.0.0.0/0"},
		{route("10.1.0.1/8", "10.0.1.4"), "10.1.0.1/8 has host bits set, expected 10.0.0.0/8"},
		{route("0.0.0.0/0", "fw"), `c.yaml:9:59: spec.egress.routes[0].nextHopIPAddress: "fw" is ` +
			"not an address"},
		{route("0.0.0.0/0", "20.50.1.4"), "20.50.1.4 is no private address, expected the " +
			"appliance's own address in its virtual network"},
		{route("0.0.0.0/0", "'fd00::4'"), "fd00::4 and 0.0.0.0/0 are of two address families"},
		{pods(route("10.244.8.0/24", "10.0.1.4")),
			"10.244.8.0/24 overlaps 10.244.0.0/16 of spec.podCIDRs, expected 0.0.0.0/0 or"},
		{pods(route("0.0.0.0/0", "10.244.1.4")), "10.244.1.4 is an address of pods"},
		{egressDoc("a", "x", "Enforce", "{name: a b, addressPrefix: 0.0.0.0/0, "+
			"nextHopIPAddress: 10.0.1.4}"), `spec.egress.routes[0].name: "a b" is not a name`},
		{egressDoc("a", "x", "Enforce", "{addressPrefix: 0.0.0.0/0, nextHopType: VnetLocal}"),
			`spec.egress.routes[0].nextHopType: unknown value "VnetLocal", expected ` +
				"VirtualAppliance, VirtualNetworkGateway, Internet or None"},
		{egressDoc("a", "x", "Enforce", "{addressPrefix: 0.0.0.0/0, nextHopType: Internet, "+
			"nextHopIPAddress: 10.0.1.4}"), "spec.egress.routes[0].nextHopIPAddress: nextHopType " +
			"Internet has no address, expected it only with VirtualAppliance"},
		{egressDoc("a", "x", "Enforce", "{addressPrefix: 0.0.0.0/0}"),
			"spec.egress.routes[0].nextHopIPAddress: missing, expected the appliance's address, " +
				"or another nextHopType"},
		{strings.Replace(egressDoc("a", "x", "Enforce", toGateway), "    mode:",
			"    firewallID: "+strings.Replace(tables, "routeTables", "azureFirewalls", 1)+
				"x\n    mode:", 1),
			"spec.egress.firewallID: no route leads to it"},
		{egressDoc("a", "x", "Enforce", toFirewall) + "---\n" + egressDoc("b", "X", "Observe",
			toGateway), "spec.egress.routes[0].nextHopType: c.yaml:9 names another next hop"},
		{egressDoc("a", "x", "Enforce", toFirewall+", "+toFirewall),
			"spec.egress.routes[1].addressPrefix: listed twice, expected each prefix once"},
		{own, `c.yaml:9:11: spec.egress.mode: the table is the route table of the cluster "a" ` +
			"(c.yaml:6), whose cloud provider writes it: expected Observe, which watches it"},
		{egressDoc("a", "own", "Enforce", toFirewall) + "---\n" + doc("b", "  routeTableID: "+
			tables+"own\n"), `the route table of the cluster "b"`},
		{egressDoc("a", "aks-agentpool-12345678-routetable", "Enforce", toFirewall),
			"is the name of a table that AKS made for a cluster"},
		{egressDoc("a", "x", "Enforce", toFirewall) + "---\n" + egressDoc("b", "X", "Observe",
			strings.Replace(toFirewall, "1.4", "1.5", 1)), "spec.egress.routes[0]." +
			"nextHopIPAddress: c.yaml:9 names another next hop for 0.0.0.0/0 in the same table"},
	} {
		_, err := Read(File{Name: "c.yaml", Data: []byte(tt.text)})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("\n got %v\nwant %s", err, tt.want)
		}
	}
}

// TestPromoteEgress: the mode of the egress is promoted, except for a cluster's own table.
func TestPromoteEgress(t *testing.T) {
	text := egressDoc("a", "hub-rt", "Observe", toFirewall)
	got, edits, err := Promote(File{"c.yaml", []byte(text)}, map[string]Parts{"a": everything})
	if want := strings.Replace(text, "Observe", "Enforce", 1); err != nil || len(edits) != 1 ||
		edits[0].Field != "spec.egress.mode" || string(got) != want {
		t.Errorf("%v %+v\n%s", err, edits, got)
	}
	own := strings.Replace(text, "  egress:", "  routeTableID: "+tables+"hub-rt\n  egress:", 1)
	if _, edits, err := Promote(File{"c.yaml", []byte(own)},
		map[string]Parts{"a": everything}); err != nil || len(edits) > 0 {
		t.Errorf("a cluster's own table: %v %+v", err, edits)
	}
	if _, edits, err := Promote(File{"c.yaml", []byte(text)},
		map[string]Parts{"a": {Guard: true,
			Target: func(arm.ID) bool { return false }}}); err != nil || len(edits) > 0 {
		t.Errorf("the guard only: %v %+v", err, edits)
	}
}

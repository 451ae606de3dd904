package verdict

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestEgressOfHub: what a hub's subnet has lost drops packets, or lets them leave another way, by
// the same rules as for node subnets. Public addresses of its machines count if they were read.
func TestEgressOfHub(t *testing.T) {
	const shared = arm.ID(group + "Microsoft.Network/virtualNetworks/hub/subnets/shared")
	const firewalls = arm.ID(group + "Microsoft.Network/virtualNetworks/hub/subnets/" +
		"AzureFirewallSubnet")
	public := func(exits ...bool) func(*world) {
		return func(w *world) { // a diagnosis reads networks and interfaces
			w.add(`{"id":"` + string(shared.Parent()) + `","properties":{"addressSpace":` +
				`{"addressPrefixes":["10.1.0.0/16"]}}}`)
			for i, exit := range exits {
				w.s.Interfaces[string(rune('a'+i))] = &inventory.Interface{
					Configs: []inventory.IPConfig{{Subnet: shared, Exit: exit,
						Address: netip.AddrFrom4([4]byte{10, 1, 3, byte(4 + i)})}}}
			}
		}
	}
	for name, test := range map[string]struct {
		properties string // of the subnet
		subnet     arm.ID // "": shared
		gateway    bool   // it must have a NAT gateway, and no table
		change     func(*world)
		state      State
		sentence   string
	}{
		"all there": {properties: hasTable, state: InSync, sentence: "1 guarded subnet in sync"},
		"nothing has its next hop": {properties: hasTable, change: func(w *world) {
			w.s.Lost = plan.Hops{}
			w.s.Lost.Add(plan.Hop{Subnet: shared, Addr: netip.MustParseAddr("10.1.9.4")})
		}, state: Broken,
			sentence: "egress of subnet shared: dropped, its next hop 10.1.9.4 cannot be reached"},
		"no table": {state: Bypassed,
			sentence: "egress of subnet shared: bypasses 10.1.9.4 by default outbound access"},
		"no table, and a NAT gateway": {properties: hasNAT, state: Bypassed,
			sentence: "bypasses 10.1.9.4 by NAT gateway nat"},
		"no table in a private subnet": {properties: isPrivate, state: Broken,
			sentence: "egress of subnet shared: dropped, it must go by 10.1.9.4"},
		"the same, all machines have public addresses": {properties: isPrivate,
			change: public(true, true), state: Bypassed,
			sentence: "bypasses 10.1.9.4 by its machines' public IP addresses"},
		"the same, one machine has none": {properties: isPrivate, change: public(true, false),
			state: Broken, sentence: "dropped, it must go by 10.1.9.4"},
		"no NAT gateway": {gateway: true, state: Bypassed,
			sentence: "bypasses NAT gateway nat by default outbound access"},
		"no NAT gateway in a private subnet": {gateway: true, properties: isPrivate, state: Broken,
			sentence: "egress of subnet shared: dropped, it must go by NAT gateway nat"},
		"an application gateway without its NAT gateway": {gateway: true,
			properties: isPrivate + `,"applicationGatewayIPConfigurations":[{"id":"` + group +
				`Microsoft.Network/applicationGateways/agw/gatewayIPConfigurations/c"}]`,
			state: Bypassed, sentence: "bypasses NAT gateway nat by its application gateway's " +
				"public IP addresses"},
		"a firewall without its NAT gateway": {gateway: true, subnet: firewalls,
			properties: isPrivate, state: Bypassed,
			sentence: "bypasses NAT gateway nat by the firewall's public IP addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.s = plan.Facts{Snapshot: inventory.NewSnapshot(), Memory: plan.Memory{}}
			if test.subnet == "" {
				test.subnet = shared
			}
			guarded := v1alpha1.GuardedSubnet{SubnetID: string(test.subnet)}
			if guarded.NATGatewayID = natGateway; !test.gateway {
				guarded.NATGatewayID, guarded.RouteTableID = "", string(target)
			}
			w.config = v1alpha1.ClusterRoutes{Metadata: v1alpha1.Metadata{Name: "hub"}}
			w.config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{guarded}
			w.config.SetDefaults()
			w.add(`{"id":"` + string(test.subnet) + `","properties":{"addressPrefix":"10.1.3.0/24"` +
				test.properties + `}}`)
			w.table(target, []arm.ID{test.subnet}, egress)
			if test.change != nil {
				test.change(w)
			}
			configs := []v1alpha1.ClusterRoutes{w.config}
			v := Of(w.s, configs, configs, plan.TakenBy(configs), nil)[0]
			if v.State != test.state || !strings.Contains(v.Sentence, test.sentence) {
				t.Errorf("%s, want %s %q: %s", v.State, test.state, test.sentence, v.Sentence)
			}
		})
	}
}

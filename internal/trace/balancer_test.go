package trace

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const balancer = arm.ID(
	"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/lb")

// behind names a backend by its network interface.
func behind(nic arm.ID) string {
	return fmt.Sprintf(`{"id":"%s/ipConfigurations/c"}`, nic)
}

// balanced gives the subnet bare a load balancer with the address 10.0.3.50, a rule for all
// protocols and ports, and backends.
func balanced(s *inventory.Snapshot, backends ...string) {
	frontend := balancer.Child("frontendIPConfigurations", "c")
	pool := balancer.Child("backendAddressPools", "p")
	doc := fmt.Sprintf(`{"id":%q,"etag":"1","properties":{"frontendIPConfigurations":[
		{"name":"c","id":%q,"properties":{"privateIPAddress":"10.0.3.50","subnet":{"id":%q}}},
		{"name":"public","properties":{"publicIPAddress":{"id":"/x"}}}],
		"backendAddressPools":[{"name":"p","id":%q,"properties":{"backendIPConfigurations":[%s]}},
			{"name":"other","id":"%sX","properties":{"backendIPConfigurations":[{"id":"/x/y/z"}]}}],
		"loadBalancingRules":[{"name":"ha","properties":{"frontendIPConfiguration":{"id":%q},
			"backendAddressPool":{"id":%q},"protocol":"All","frontendPort":0,"backendPort":0}}]}}`,
		balancer, frontend, bare, pool, strings.Join(backends, ","), pool, frontend, pool)
	if err := s.Add([]byte(doc)); err != nil {
		panic(err)
	}
	subnet := s.Subnets[bare.Key()].WithConfigurations(append(
		s.Subnets[bare.Key()].Configurations(), frontend))
	subnet.ETag = `W/"1"`
	s.Subnets[bare.Key()] = subnet
}

// TestBalanced: a default route leads to the front end of a load balancer. The packet takes one of
// the backends, each with its own security group and IP forwarding.
func TestBalanced(t *testing.T) {
	const group = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/"
	appliance := func(s *inventory.Snapshot, name, address string) *inventory.Interface {
		id := arm.ID(group + "networkInterfaces/" + name)
		n := &inventory.Interface{Document: arm.Document{ID: id}, Forwarding: true,
			Configs: []inventory.IPConfig{{Name: "c", Address: netip.MustParseAddr(address),
				Subnet: gateway}}}
		s.Interfaces[id.Key()] = n
		return n
	}
	two := func(s *inventory.Snapshot) (first, second *inventory.Interface) {
		first, second = appliance(s, "nva-1", "10.0.2.8"), appliance(s, "nva-2", "10.0.2.9")
		balanced(s, behind(first.ID), behind(second.ID))
		return first, second
	}
	edit := func(s *inventory.Snapshot, old, now string) {
		raw := strings.ReplaceAll(string(s.Balancers[balancer.Key()].Raw), old, now)
		if raw == string(s.Balancers[balancer.Key()].Raw) {
			panic(old)
		}
		if err := s.Add([]byte(raw)); err != nil {
			panic(err)
		}
	}
	for name, tt := range map[string]struct {
		change func(*inventory.Snapshot)
		v      Verdict
		why    string
		at     []string // what its hops say, in order
	}{
		"two appliances": {func(s *inventory.Snapshot) { two(s) }, Leaves,
			"a backend of load balancer lb takes it, and it is unknown where that forwards the " +
				"packet", []string{"goes to 10.0.3.50", "load balancer lb takes it with its " +
				"front end c", "is a backend of load balancer lb", "is a backend of load"}},
		"one without IP forwarding": {func(s *inventory.Snapshot) {
			first, _ := two(s)
			first.Forwarding = false
		}, Unknown, "it depends on the backend of load balancer lb: IP forwarding is off on the " +
			"network interface of 10.0.2.8 (nva-1)", []string{"goes to", "takes it",
			"is a backend of load balancer lb, and does not get it", "is a backend of load"}},
		"both without": {func(s *inventory.Snapshot) {
			first, second := two(s)
			first.Forwarding, second.Forwarding = false, false
		}, Dropped, "no backend of load balancer lb gets it: IP forwarding is off", nil},
		"a security group denies it at both": {func(s *inventory.Snapshot) {
			two(s)
			filter := arm.ID(group + "networkSecurityGroups/nsg")
			g, err := inventory.DecodeSecurityGroup(fmt.Appendf(nil, `{"id":%q,"properties":{
				"securityRules":[{"name":"no","properties":{"priority":100,"direction":"Inbound",
				"access":"Deny","protocol":"*","sourceAddressPrefix":"*","sourcePortRange":"*",
				"destinationAddressPrefix":"*","destinationPortRange":"*"}}]}}`, filter))
			if err != nil {
				panic(err)
			}
			s.SecurityGroups[filter.Key()] = g
			s.Subnets[gateway.Key()].SecurityGroup = filter
		}, Dropped, "no backend of load balancer lb gets it: network security group nsg", nil},
		"no backend": {func(s *inventory.Snapshot) { balanced(s) }, Dropped,
			"load balancer lb, which has the next hop 10.0.3.50, has no backend", nil},
		"backends by their addresses": {func(s *inventory.Snapshot) {
			balanced(s)
			edit(s, `{"backendIPConfigurations":[]}`, `{"loadBalancerBackendAddresses":[
				{"properties":{"ipAddress":"10.0.2.8"}}]}`)
		}, Leaves, "a backend of load balancer lb", nil},
		"backends that were not read": {func(s *inventory.Snapshot) {
			balanced(s, behind(group+"networkInterfaces/x"))
		}, Leaves, "a backend of load balancer lb", nil},
		"no rule for all ports": {func(s *inventory.Snapshot) {
			two(s)
			edit(s, `"protocol":"All"`, `"protocol":"Tcp"`)
		}, Unknown, "without a rule for all protocols and ports (HA ports)", nil},
		"another address": {func(s *inventory.Snapshot) {
			two(s)
			edit(s, "10.0.3.50", "10.0.3.51")
		}, Dropped, "the address of the next hop 10.0.3.50 is unused", nil},
	} {
		s := shop()
		setRoute(s, table, 2, user("0.0.0.0/0", "10.0.3.50"))
		tt.change(s)
		way, _ := New(s, Options{}).Ways(Endpoint{Addr: netip.MustParseAddr("10.0.1.4")},
			Endpoint{Addr: netip.MustParseAddr("203.0.113.9")})
		if way.Verdict != tt.v || !strings.Contains(way.Why, tt.why) {
			t.Errorf("%s: %s: %s, want %s: %s", name, way.Verdict, way.Why, tt.v, tt.why)
		}
		for i, want := range tt.at {
			if i >= len(way.Hops) || !strings.Contains(way.Hops[i].What, want) {
				t.Errorf("%s: hop %d of %+v, want %q", name, i, way.Hops, want)
			}
		}
	}
}

// TestLostBalancer: where a lost next hop is, the addresses to which routes can lead are named.
func TestLostBalancer(t *testing.T) {
	s := shop()
	balanced(s, behind("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/"+
		"networkInterfaces/nva"))
	tracer := New(s, Options{})
	hop := netip.MustParseAddr("10.0.3.49")
	if v, _ := tracer.NextHop(nodes, hop); v != Dropped {
		t.Errorf("10.0.3.49: %s", v)
	}
	if more, now := tracer.Lost(nodes, hop); more != "load balancer lb has 10.0.3.50" ||
		len(now) != 1 {
		t.Errorf("%q, %v", more, now)
	}
}

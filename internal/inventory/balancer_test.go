package inventory

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
)

const lb = arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/loadBalancers/lb")

// balancer is the document of a load balancer with one internal front end, f.
func balancer(pools, rules, nat string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"etag":"e","properties":{"frontendIPConfigurations":[
		{"name":"public","properties":{"publicIPAddress":{"id":"/x"}}},
		{"name":"f","properties":{"privateIPAddress":"10.0.0.9","subnet":{"id":"/s"}}}],
		"backendAddressPools":[%s],"loadBalancingRules":[%s],"inboundNatRules":[%s]}}`, lb, pools,
		rules, nat)
}

// TestDecodeBalancer: the backends of a front end are those in the pools of its rules, and of the
// rule for all ports alone if there is one.
func TestDecodeBalancer(t *testing.T) {
	rule := func(protocol, pool string) string {
		return fmt.Sprintf(`{"properties":{"protocol":%q,"frontendIPConfiguration":{"id":`+
			`"%s/frontendIPConfigurations/F"},"backendAddressPool":{"id":`+
			`"%s/backendAddressPools/%s"}}}`, protocol, lb, lb, pool)
	}
	const nic, other = "/x/networkInterfaces/n/ipConfigurations/c", "/x/ipConfigurations/other"
	const a = `{"name":"a","properties":{"backendIPConfigurations":[{"id":"` + nic + `"}],` +
		`"loadBalancerBackendAddresses":[{"properties":{"networkInterfaceIPConfiguration":{"id":"` +
		nic + `"}}}]}}`
	const b = `{"name":"b","properties":{"backendIPConfigurations":[{"id":"` + other + `"}]}}`
	const byAddress = `{"name":"a","properties":{"loadBalancerBackendAddresses":[` +
		`{"properties":{"ipAddress":"10.0.1.4"}},{"properties":{"ipAddress":"-"}}]}}`
	const empty = `{"name":"a","properties":{}}`
	nat := strings.Replace(rule("Tcp", "a"), "backendAddressPool", "backendIPConfiguration", 1)
	for name, tt := range map[string]struct {
		pools, rules, nat string
		want              Frontend
	}{
		"all ports": {a + "," + b, rule("All", "A") + "," + rule("Tcp", "b"), "",
			Frontend{Forwards: true, Backends: []arm.ID{nic}}},
		"some ports": {a + "," + b, rule("Tcp", "a") + "," + rule("Udp", "b"), "",
			Frontend{Backends: []arm.ID{other, nic}}},
		"by address": {byAddress, rule("all", "a"), "",
			Frontend{Forwards: true, Others: []netip.Addr{netip.MustParseAddr("10.0.1.4")}}},
		"an empty pool": {empty + "," + b, rule("All", "a"), "",
			Frontend{Forwards: true, Empty: true}},
		"a pool that is gone": {b, rule("All", "a"), "", Frontend{Forwards: true, Empty: true}},
		"no rule":             {a, "", "", Frontend{}},
		"a NAT rule":          {empty, rule("Tcp", "a"), nat, Frontend{}},
	} {
		got, err := DecodeBalancer(balancer(tt.pools, tt.rules, tt.nat))
		if err != nil {
			t.Fatal(err)
		}
		tt.want.Name, tt.want.Subnet = "f", "/s"
		tt.want.Address = netip.MustParseAddr("10.0.0.9")
		if len(got.Frontends) != 1 || !reflect.DeepEqual(got.Frontends[0], tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got.Frontends, tt.want)
		}
	}
}

func FuzzDecodeBalancer(f *testing.F) {
	f.Add(balancer(`{"name":"a"}`, `{"properties":{"protocol":"All"}}`, ""))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := DecodeBalancer(raw)
		switch {
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Fatalf("more than one line: %q", err)
		case err != nil:
			return
		case !json.Valid(b.Raw) || !b.ID.Is(arm.TypeLoadBalancer):
			t.Fatalf("%s of %s", b.ID, raw)
		}
		for _, f := range b.Frontends {
			if f.Empty && len(f.Backends)+len(f.Others) > 0 {
				t.Fatalf("%+v", f)
			}
		}
	})
}

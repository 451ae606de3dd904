package verdict_test

import (
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/trace"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// led is the cluster whose egress an Azure Firewall takes, and ledAt the firewall's address.
const led, ledAt = "shop-12", "10.75.200.4"

// egressStep is one change to the egress of the led cluster, and its state after that.
type egressStep struct {
	what string
	do   func()
	want verdict.State
}

// TestAgreeFirewall deletes the firewall to which a default route leads, and bends the route to
// addresses that nothing has. All surfaces say so together, with the trace and doctor, and all are
// well again when the firewall, or the route, is back.
func TestAgreeFirewall(t *testing.T) {
	t.Parallel()
	f := newLedFleet(t)
	in := f.subnet(led, "AzureFirewallSubnet")
	f.put(in, map[string]any{"properties": map[string]any{"addressPrefix": "10.75.200.0/26"}})
	firewall := f.id(led, arm.TypeFirewall, "-fw")
	build := func() {
		f.put(firewall, map[string]any{"location": "westeurope", "properties": map[string]any{
			"ipConfigurations": []any{map[string]any{"name": "ip", "properties": map[string]any{
				"subnet": map[string]any{"id": string(in)}}}}}})
	}
	f.steps([]egressStep{
		{"the route leads to the firewall", func() { build(); f.lead(ledAt) }, verdict.Observed},
		{"the firewall is deleted", func() {
			if status, body := f.do.Do(http.MethodDelete, firewall, "2024-05-01",
				nil); status >= 300 {
				t.Fatalf("%d %s", status, body)
			}
		}, verdict.Broken},
		{"the firewall is back", build, verdict.Observed},
		{"the route leads to an address that the firewall does not have",
			func() { f.lead("10.75.200.9") }, verdict.Broken},
		{"the route is right again", func() { f.lead(ledAt) }, verdict.Observed},
		{"the route leads into no subnet", func() { f.lead("10.75.250.4") }, verdict.Broken},
		{"the route is right at last", func() { f.lead(ledAt) }, verdict.Observed},
	})
}

// TestAgreeBalancer does the same with a load balancer that loses its appliance and then its
// address: one that the route alone leads to, and one that the config names, too.
func TestAgreeBalancer(t *testing.T) {
	for name, named := range map[string]bool{"found": false, "named": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agreeBalancer(t, named)
		})
	}
}

func agreeBalancer(t *testing.T, named bool) {
	f := newLedFleet(t)
	appliances := f.subnet(led, "appliances")
	f.put(appliances, map[string]any{"properties": map[string]any{
		"addressPrefix": "10.75.201.0/24"}})
	balancer := f.id(led, arm.TypeLoadBalancer, "-lb")
	balance := func(address string) {
		part := func(list, name string) map[string]any {
			return map[string]any{"id": string(balancer.Child(list, name))}
		}
		f.put(balancer, map[string]any{"location": "westeurope",
			"sku": map[string]any{"name": "Standard"}, "properties": map[string]any{
				"frontendIPConfigurations": []any{map[string]any{"name": "ip",
					"properties": map[string]any{"privateIPAllocationMethod": "Static",
						"privateIPAddress": address,
						"subnet":           map[string]any{"id": string(appliances)}}}},
				"backendAddressPools": []any{map[string]any{"name": "nvas"}},
				"loadBalancingRules": []any{map[string]any{"name": "ha",
					"properties": map[string]any{"protocol": "All", "frontendPort": 0,
						"backendPort":             0,
						"backendAddressPool":      part("backendAddressPools", "nvas"),
						"frontendIPConfiguration": part("frontendIPConfigurations", "ip")}}}}})
	}
	appliance := func(pools ...any) {
		f.put(f.id(led, arm.TypeInterface, "-nva"), map[string]any{"location": "westeurope",
			"properties": map[string]any{"enableIPForwarding": true,
				"ipConfigurations": []any{map[string]any{"name": "ip",
					"properties": map[string]any{"loadBalancerBackendAddressPools": pools,
						"subnet": map[string]any{"id": string(appliances)}}}}}})
	}
	pool := map[string]any{"id": string(balancer.Child("backendAddressPools", "nvas"))}
	steps := []egressStep{
		{"it leads to a load balancer", func() {
			balance("10.75.201.10")
			appliance(pool)
			f.lead("10.75.201.10")
			if named {
				f.names(balancer, "10.75.201.10")
			}
		}, verdict.Observed},
		{"the load balancer loses its appliance", func() { appliance() }, verdict.Broken},
		{"the appliance is back", func() { appliance(pool) }, verdict.Observed},
		{"the load balancer has another address", func() { balance("10.75.201.11") },
			verdict.Broken},
	}
	if !named {
		steps = append(steps, egressStep{"the route follows it",
			func() { f.lead("10.75.201.11") }, verdict.Observed})
	}
	f.steps(steps)
}

// names writes the default route of the led cluster, and what it leads to, into its config.
func (f *fleet) names(appliance arm.ID, at string) {
	f.Helper()
	i := slices.IndexFunc(f.configs, func(c v1alpha1.ClusterRoutes) bool {
		return c.Metadata.Name == led
	})
	f.configs[i].Spec.Egress = v1alpha1.Egress{Mode: v1alpha1.GuardObserve,
		RouteTableID: f.configs[i].Spec.RouteTableID, FirewallID: string(appliance),
		Routes: []v1alpha1.EgressRoute{{AddressPrefix: "0.0.0.0/0", NextHopIPAddress: at}}}
	f.writeConfig()
	f.keeps.Reload(f.configs)
}

// newLedFleet builds the led cluster, whose cloud provider repairs nothing, one that is broken, for
// the exit code of status, and one under a lock, which cannot be removed.
func newLedFleet(t *testing.T) *fleet {
	t.Helper()
	f := newFleet(t, "shop-05", led, "shop-24")
	f.azure.PauseRoutes(f.id(led, arm.TypeCluster, ""), true)
	f.leads = led
	return f
}

// lead lets the default route of the led cluster lead to an address.
func (f *fleet) lead(hop string) {
	f.Helper()
	f.routes(f.id(led, arm.TypeRouteTable, "-rt"), func(routes []any) (all []any) {
		for _, r := range routes {
			if r.(map[string]any)["name"] != "egress" {
				all = append(all, r)
			}
		}
		return append(all, map[string]any{"name": "egress", "properties": map[string]any{
			"addressPrefix": "0.0.0.0/0", "nextHopType": "VirtualAppliance",
			"nextHopIpAddress": hop}})
	})
}

// steps takes each step, and checks that all agree on what it wants.
func (f *fleet) steps(all []egressStep) {
	f.Helper()
	for _, step := range all {
		step.do()
		f.agree(step.what)
		f.agreeAll(step.what)
		for _, v := range f.check().Verdicts {
			if v.Cluster == led && v.State != step.want {
				f.Errorf("%s: %s %s", step.what, v.State, v.Sentence)
			}
		}
	}
}

// put writes a resource.
func (f *fleet) put(id arm.ID, body map[string]any) {
	f.Helper()
	if err := f.do.Put(id, "2024-05-01", body); err != nil {
		f.Fatal(err)
	}
}

// cutOff reports whether a trace drops what a node of a cluster sends to the internet.
func (f *fleet) cutOff(truth *trace.Tracer, cluster string) bool {
	f.Helper()
	way, _ := truth.Ways(trace.Endpoint{Subnet: f.subnet(cluster, "nodes"),
		Addr: netip.MustParseAddr("10.75.0.4")},
		trace.Endpoint{Addr: netip.MustParseAddr("203.0.113.1")})
	return way.Verdict == trace.Dropped
}

package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/iac/assess"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// The demo, as the plans in this file show it.
const (
	demoNet   = "/subscriptions/" + emulator.DefaultSubscription + "/resourceGroups/net-rg/providers/Microsoft.Network/"
	demoVNet  = demoNet + "virtualNetworks/shop-vnet"
	demoShop  = "/subscriptions/" + emulator.DefaultSubscription + "/resourceGroups/shop-rg/providers/Microsoft.ContainerService/managedClusters/shop"
	demoTable = demoNet + "routeTables/shop-rt"
	demoCopy  = demoNet + "routeTables/appgw-rt"
)

type values = map[string]any

// planned is an entry of a plan: before and after are nil where there is nothing.
func planned(kind, name string, before, after values, unknown any) values {
	actions := []string{"update"}
	switch {
	case before == nil:
		actions = []string{"create"}
	case after == nil:
		actions = []string{"delete"}
	case fmt.Sprint(before) == fmt.Sprint(after) && unknown == nil:
		actions = []string{"no-op"}
	}
	return values{"address": kind + "." + name, "mode": "managed", "type": kind, "name": name,
		"change": values{"actions": actions, "before": before, "after": after,
			"after_unknown": unknown}}
}

func readPlan(t interface{ Fatal(...any) }, entries ...values) *iac.Reading {
	raw, err := json.Marshal(values{"format_version": "1.2", "resource_drift": []values{{}},
		"resource_changes": entries})
	if err != nil {
		t.Fatal(err)
	}
	r, err := iac.Read("plan.json", strings.NewReader(string(raw)), iac.TemplateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func routeOf(name, prefix, hop string) values {
	v := values{"name": name, "address_prefix": prefix, "next_hop_type": hop}
	if strings.Contains(hop, ".") {
		v["next_hop_type"], v["next_hop_in_ip_address"] = "VirtualAppliance", hop
	}
	return v
}

func podRoutesOf(n int) (out []values) {
	for i := range n {
		out = append(out, routeOf(fmt.Sprintf("aks-nodepool1-92750320-vmss00000%d____10244%d024", i,
			i), fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("10.42.1.%d", 4+i)))
	}
	return out
}

func tableOf(id string, routes ...values) values {
	return values{"id": id, "name": arm.ID(id).Name(), "resource_group_name": "net-rg",
		"route": append([]values{}, routes...)}
}

func shopOf(subnet, outbound string) values {
	return values{"id": demoShop, "name": "shop", "node_resource_group": "mc",
		"network_profile": []values{{"network_plugin": "kubenet", "pod_cidr": "10.244.0.0/16",
			"outbound_type": outbound}},
		"default_node_pool": []values{{"name": "nodepool1", "node_count": 3,
			"vnet_subnet_id": demoVNet + "/subnets/" + subnet}}}
}

func subnetOf(name string, n int) values {
	return values{"id": demoVNet + "/subnets/" + name, "name": name,
		"address_prefixes": []string{fmt.Sprintf("10.42.%d.0/24", n)}}
}

func associationOf(subnet, table string) values {
	id := demoVNet + "/subnets/" + subnet
	return values{"id": id, "subnet_id": id, "route_table_id": table}
}

// demoPlan is a plan of the demo that changes nothing, but for entries in place of those with the
// same address, and added ones.
func demoPlan(outbound string, other ...values) []values {
	same := func(kind, name string, v values) values { return planned(kind, name, v, v, nil) }
	all := []values{
		same("azurerm_subnet", "nodes", subnetOf("nodes", 1)),
		same("azurerm_subnet", "appgw", subnetOf("appgw", 2)),
		same("azurerm_subnet", "spare", subnetOf("spare", 9)),
		same("azurerm_subnet_route_table_association", "nodes", associationOf("nodes", demoTable)),
		same("azurerm_subnet_route_table_association", "appgw", associationOf("appgw", demoCopy)),
		same("azurerm_route_table", "shop", tableOf(demoTable,
			append(podRoutesOf(3), routeOf("egress", "0.0.0.0/0", "10.42.3.4"))...)),
		same("azurerm_route_table", "copy", tableOf(demoCopy, podRoutesOf(3)...)),
		same("azurerm_kubernetes_cluster", "shop", shopOf("nodes", outbound)),
		same("azurerm_application_gateway", "gw", values{
			"id": demoNet + "applicationGateways/shop-agw", "gateway_ip_configuration": []values{
				{"subnet_id": demoVNet + "/subnets/appgw"}}}),
	}
	for _, o := range other {
		at := slices.IndexFunc(all, func(v values) bool { return v["address"] == o["address"] })
		if at < 0 {
			all = append(all, o)
		} else {
			all[at] = o
		}
	}
	return all
}

func knownFrom(live *inventory.Snapshot) (k iac.Known) {
	if live != nil {
		k.Observe(live)
	}
	return k
}

func assessed(r *iac.Reading, live *inventory.Snapshot) []finding.Finding {
	return assess.Findings(r, []*iac.Reading{r}, nil, knownFrom(live))
}

func demoSnapshot(t *testing.T) *inventory.Snapshot {
	e := emulatortest.New(t, emulator.Options{})
	if _, err := emulator.BuildDemo(e, emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	s, err := emulatortest.Client(t, e, emulatortest.Keeper).Survey(t.Context(),
		arm.SubscriptionID(emulator.DefaultSubscription))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRoutesOfTheirOwn: a route that is a resource of its own is judged as the same route in its
// table, with and without the real network.
func TestRoutesOfTheirOwn(t *testing.T) {
	demo := demoSnapshot(t)
	pods, egress := podRoutesOf(3), routeOf("egress", "0.0.0.0/0", "10.42.3.4")
	own := func(table string, route values, action string) values {
		v := maps.Clone(route)
		v["resource_group_name"], v["route_table_name"] = "net-rg", arm.ID(table).Name()
		if action == "create" {
			return planned("azurerm_route", "r", nil, v, values{"id": true})
		}
		v["id"] = table + "/routes/" + route["name"].(string)
		return planned("azurerm_route", "r", v, nil, nil)
	}
	for _, c := range []struct {
		name, outbound, table, action string
		before                        []values
		route                         values
		want                          string
	}{
		{"a part of a pod CIDR", "loadBalancer", demoTable, "create", append(pods[:3:3], egress),
			routeOf("shadow", "10.244.1.0/25", "None"), "route-shadows-pods"},
		{"the gateway's default route", "loadBalancer", demoCopy, "create", pods,
			routeOf("all", "0.0.0.0/0", "10.42.3.4"), "gateway-default-route"},
		{"the egress", "userDefinedRouting", demoTable, "delete", append(pods[:3:3], egress),
			egress, "egress-bypassed"},
		{"a pod route", "loadBalancer", demoTable, "delete", append(pods[:3:3], egress), pods[1],
			"iac-removes-routes"},
		{"harmless", "loadBalancer", demoTable, "create", append(pods[:3:3], egress),
			routeOf("dns", "10.9.0.0/24", "10.42.3.4"), ""},
	} {
		name := "shop"
		if c.table == demoCopy {
			name = "copy"
		}
		after := append(c.before[:len(c.before):len(c.before)], c.route)
		if c.action == "delete" {
			after = slices.DeleteFunc(slices.Clone(c.before), func(v values) bool {
				return v["name"] == c.route["name"]
			})
		}
		separate := readPlan(t, demoPlan(c.outbound, own(c.table, c.route, c.action))...)
		within := readPlan(t, demoPlan(c.outbound, planned("azurerm_route_table", name,
			tableOf(c.table, c.before...), tableOf(c.table, after...), nil))...)
		for state, live := range map[string]*inventory.Snapshot{"none": nil,
			"before": within.Before, "demo": demo} {
			codes := func(r *iac.Reading) string {
				var out []string
				for _, f := range assessed(r, live) {
					if f.Code == finding.EgressBypassed &&
						!strings.HasSuffix(f.Fix, "--next-hop-ip-address 10.42.3.4") {
						t.Errorf("%s, live %s: %s", c.name, state, f.Fix)
					}
					out = append(out, f.Severity.String()+" "+string(f.Code)+" "+
						arm.ID(f.Resource).Name())
				}
				return strings.Join(out, ", ")
			}
			if a, b := codes(separate), codes(within); a != b || c.want == "" && a != "" ||
				!strings.Contains(a, c.want) {
				t.Errorf("%s, live %s: %q, and in the table %q", c.name, state, a, b)
			}
		}
	}
}

// TestPoolsWithoutTable: a new pool in a subnet without a table, and a pool that moves to one, are
// errors with and without the real network.
func TestPoolsWithoutTable(t *testing.T) {
	demo := demoSnapshot(t)
	for name, change := range map[string]values{
		"a new pool": planned("azurerm_kubernetes_cluster_node_pool", "p2", nil, values{"name": "p2",
			"kubernetes_cluster_id": demoShop, "vnet_subnet_id": demoVNet + "/subnets/spare"},
			values{"id": true}),
		"the default pool": planned("azurerm_kubernetes_cluster", "shop",
			shopOf("nodes", "loadBalancer"), shopOf("spare", "loadBalancer"), nil),
	} {
		r := readPlan(t, demoPlan("loadBalancer", change)...)
		for state, live := range map[string]*inventory.Snapshot{"none": nil, "before": r.Before,
			"demo": demo, "empty": inventory.NewSnapshot()} {
			found := assessed(r, live)
			if !slices.ContainsFunc(found, func(f finding.Finding) bool {
				return f.Code == finding.PoolWithoutTable && f.Severity == finding.Error &&
					arm.ID(f.Resource).Name() == "spare"
			}) {
				t.Errorf("%s, live %s: %+v", name, state, found)
			}
		}
	}
}

// milder reports findings that the real network makes milder. It may only decide what a file leaves
// open: a possible loss is certain, or refuted by a subnet without a table or a table without pod
// routes.
func milder(t interface{ Errorf(string, ...any) }, name string, r *iac.Reading,
	live *inventory.Snapshot) {
	certain := map[finding.Code]finding.Code{finding.IaCMayStrip: finding.IaCStrips,
		finding.IaCMayRoutes: finding.IaCRoutes}
	with := assessed(r, live)
	for _, f := range assessed(r, nil) {
		if slices.ContainsFunc(with, func(g finding.Finding) bool {
			follows := slices.Contains(assess.Following, f.Code) &&
				strings.HasPrefix(string(g.Code), "iac-")
			if follows && g.Severity >= f.Severity && strings.EqualFold(g.Resource, f.Resource) {
				return true
			}
			return (g.Code == f.Code || g.Code == certain[f.Code]) && g.Severity >= f.Severity &&
				(f.Resource == "" || strings.EqualFold(g.Resource, f.Resource)) &&
				(f.Cluster == g.Cluster) && strings.HasPrefix(f.Subject, g.Subject)
		}) {
			continue
		}
		id := arm.ID(f.Resource)
		subnet, table := live.Subnet(id), live.Table(id)
		switch {
		case f.Code == finding.IaCMayStrip &&
			(subnet != nil && subnet.RouteTable == "" || f.Resource == ""):
		case f.Code == finding.IaCMayRoutes && (table != nil || f.Resource == ""):
		default:
			t.Errorf("%s: %s %s %s (%s %s) is milder with the real network: %+v", name, f.Severity,
				f.Code, f.Message, f.Resource, f.Subject, with)
		}
	}
}

// TestLiveIsNeverMilder: nothing that a file of the test data shows by itself is less with the real
// network: the one from before or after, the demo's, or an empty one.
func TestLiveIsNeverMilder(t *testing.T) {
	demo := demoSnapshot(t)
	readings := map[string]*iac.Reading{}
	options := iac.TemplateOptions{Where: armtemplate.Options{
		Subscription: emulator.DefaultSubscription, ResourceGroup: "net-rg"}}
	for _, pattern := range []string{"../../testdata/terraform/*/plan.json",
		"../iac/testdata/bicep/*.json", "../iac/testdata/whatif/*.json",
		"../iac/testdata/manifests/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := iac.Read(file, f, options)
			f.Close()
			if err == nil { // parameters are none of the formats
				readings[file] = r
			}
		}
	}
	folders, err := filepath.Glob("../../testdata/terraform/*/main.tf")
	if err != nil || len(folders) == 0 {
		t.Fatal(folders, err)
	}
	for _, file := range folders {
		parts, err := iac.ReadFolder(os.DirFS(filepath.Dir(file)), ".", options)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			readings[filepath.Dir(file)+" "+p.Name] = p.Reading
		}
	}
	if len(readings) < 35 {
		t.Fatalf("only %d files", len(readings))
	}
	for name, r := range readings {
		lives := map[string]*inventory.Snapshot{"demo": demo, "empty": inventory.NewSnapshot()}
		if r.Before != nil {
			lives["before"] = r.Before
		}
		if r.After != nil {
			lives["after"] = r.After
		}
		for state, live := range lives {
			milder(t, name+", "+state, r, live)
		}
	}
}

// TestLiveIsNeverMilderThanPlans is TestLiveIsNeverMilder for random plans of the demo, and a real
// network that differs from what the plan knows.
func TestLiveIsNeverMilderThanPlans(t *testing.T) {
	demo := demoSnapshot(t)
	found := map[finding.Code]int{}
	check := func(t *rapid.T) {
		subnet := rapid.SampledFrom([]string{"nodes", "appgw", "spare"})
		table := rapid.SampledFrom([]string{demoTable, demoCopy})
		route := rapid.SampledFrom(append(podRoutesOf(4), routeOf("egress", "0.0.0.0/0",
			"10.42.3.4"), routeOf("shadow", "10.244.1.0/25", "None"), routeOf("all", "0.0.0.0/0",
			"10.42.3.9")))
		distinct := func(routes []values) (out []values) {
			for _, r := range routes {
				if !slices.ContainsFunc(out, func(o values) bool {
					return o["name"] == r["name"]
				}) {
					out = append(out, r)
				}
			}
			return out
		}
		outbound := rapid.SampledFrom([]string{"loadBalancer", "userDefinedRouting"}).Draw(t, "out")
		var other []values
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			on := subnet.Draw(t, "subnet")
			at := table.Draw(t, "table")
			switch rapid.IntRange(0, 7).Draw(t, "kind") {
			case 0:
				other = append(other, planned("azurerm_subnet_route_table_association", on,
					associationOf(on, at), nil, nil))
			case 1:
				name := map[string]string{demoTable: "shop", demoCopy: "copy"}[at]
				routes := rapid.SliceOfN(route, 0, 6)
				other = append(other, planned("azurerm_route_table", name,
					tableOf(at, distinct(routes.Draw(t, "before"))...),
					tableOf(at, distinct(routes.Draw(t, "after"))...), nil))
			case 2:
				v := maps.Clone(route.Draw(t, "own"))
				v["resource_group_name"], v["route_table_name"] = "net-rg", arm.ID(at).Name()
				if rapid.Bool().Draw(t, "made") {
					other = append(other, planned("azurerm_route", fmt.Sprint(len(other)), nil, v,
						values{"id": true}))
					break
				}
				v["id"] = at + "/routes/" + v["name"].(string)
				other = append(other, planned("azurerm_route", fmt.Sprint(len(other)), v, nil, nil))
			case 3:
				unknown := any(nil)
				after := shopOf(on, outbound)
				if rapid.Bool().Draw(t, "unknown") {
					unknown = values{"default_node_pool": []values{{"vnet_subnet_id": true}}}
					delete(after["default_node_pool"].([]values)[0], "vnet_subnet_id")
				}
				other = append(other, planned("azurerm_kubernetes_cluster", "shop",
					shopOf("nodes", outbound), after, unknown))
			case 4:
				other = append(other, planned("azurerm_kubernetes_cluster_node_pool", "p", nil,
					values{"name": "p", "kubernetes_cluster_id": demoShop,
						"vnet_subnet_id": demoVNet + "/subnets/" + on}, values{"id": true}))
			case 5:
				other = append(other, planned("azurerm_subnet", on, subnetOf(on, 1), nil, nil))
			case 6:
				gw := func(subnet string) values {
					return values{"id": demoNet + "applicationGateways/shop-agw",
						"gateway_ip_configuration": []values{
							{"subnet_id": demoVNet + "/subnets/" + subnet}}}
				}
				other = append(other,
					planned("azurerm_application_gateway", "gw", gw("appgw"), gw(on), nil))
			case 7:
				id := demoVNet + "/subnets/" + on
				other = append(other, planned("azurerm_subnet_nat_gateway_association", on, values{
					"id": id, "subnet_id": id, "nat_gateway_id": demoNet + "natGateways/nat"}, nil,
					nil))
			}
		}
		r := readPlan(t, demoPlan(outbound, other...)...)
		for _, f := range assessed(r, nil) {
			found[f.Code]++
		}
		live := rapid.SampledFrom([]*inventory.Snapshot{demo, r.Before, r.After}).Draw(t, "live")
		live = live.Fork()
		for _, key := range slices.Sorted(maps.Keys(live.Subnets)) {
			switch rapid.IntRange(0, 5).Draw(t, "drift") {
			case 0:
				delete(live.Subnets, key)
			case 1:
				bare := *live.Subnets[key]
				bare.RouteTable = ""
				live.Subnets[key] = &bare
			case 2:
				bare := *live.Subnets[key]
				bare.NATGateway, bare.SecurityGroup = "", demoNet+"networkSecurityGroups/nsg"
				live.Subnets[key] = &bare
			}
		}
		for _, key := range slices.Sorted(maps.Keys(live.Tables)) {
			if rapid.IntRange(0, 3).Draw(t, "emptied") == 0 {
				live.Tables[key] = live.Tables[key].WithRoutes(nil)
			}
		}
		milder(t, "plan", r, live)
	}
	missing := func() []finding.Code {
		return slices.DeleteFunc([]finding.Code{finding.IaCStrips, finding.IaCRecreates,
			finding.IaCRoutes, finding.PoolWithoutTable, finding.RouteShadows,
			finding.GatewayDefaultRoute}, func(code finding.Code) bool { return found[code] > 0 })
	}
	rapid.Check(t, check)
	for tries := 0; len(missing()) > 0 && tries < 20 && !t.Failed(); tries++ { // some are rare
		rapid.Check(t, check)
	}
	if codes := missing(); len(codes) > 0 && !t.Failed() {
		t.Errorf("no %v among %v: the test does not reach what it is for", codes, found)
	}
}

package assess

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac"
)

// TestIntroduced: only problems that a plan causes are reported; not those of findings about its
// own changes, those from before, or those about resources that it does not show.
func TestIntroduced(t *testing.T) {
	const group = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/g/providers/"
	entry := func(kind, name, action, before, after string) string {
		return fmt.Sprintf(
			`{"address":"%s.%s","mode":"managed","type":%q,"name":%q,"change":{"actions":[%q],"before":%s,"after":%s}}`, kind, name, kind, name, action, before, after)
	}
	same := func(kind, name, values string) string {
		return entry(kind, name, "no-op", values, values)
	}
	route := func(prefix, hop string) string {
		return fmt.Sprintf(
			`{"name":"r-%s","address_prefix":%q,"next_hop_type":"VirtualAppliance","next_hop_in_ip_address":%q}`, strings.ReplaceAll(prefix, "/", "-"), prefix, hop)
	}
	table := func(name string, routes ...string) string {
		return fmt.Sprintf(`{"id":"%sMicrosoft.Network/routeTables/%s","name":%q,"route":[%s]}`,
			group, name, name, strings.Join(routes, ","))
	}
	subnet := func(name, prefix string) string {
		return same("azurerm_subnet", name,
			fmt.Sprintf(`{"id":"%[1]sMicrosoft.Network/virtualNetworks/hub/subnets/%[2]s","name":%[2]q,"address_prefixes":[%[3]q],"route_table_id":"%[1]sMicrosoft.Network/routeTables/%[2]s"}`, group, name, prefix))
	}
	const gateway = "azurerm_route_table" // its kind
	pod, bad := route("10.244.0.0/24", "10.0.0.4"), route("0.0.0.0/0", "10.0.2.4")
	world := []string{
		subnet("nodes", "10.0.0.0/24"), subnet("gateway", "10.0.1.0/24"), same(gateway, "nodes",
			table("nodes", pod)),
		same("azurerm_kubernetes_cluster", "shop",
			fmt.Sprintf(`{"id":"%[1]sMicrosoft.ContainerService/managedClusters/shop","node_resource_group":"mc","network_profile":[{"network_plugin":"kubenet","pod_cidr":"10.244.0.0/16"}],"default_node_pool":[{"name":"np","node_count":1,"vnet_subnet_id":"%[1]sMicrosoft.Network/virtualNetworks/hub/subnets/nodes"}]}`, group)),
		same("azurerm_application_gateway", "gw",
			fmt.Sprintf(`{"id":"%[1]sMicrosoft.Network/applicationGateways/gw","gateway_ip_configuration":[{"subnet_id":"%[1]sMicrosoft.Network/virtualNetworks/hub/subnets/gateway"}]}`, group)),
	}
	for _, c := range []struct{ name, change, want string }{
		{"a bad route", entry(gateway, "gateway", "update", table("gateway", pod),
			table("gateway", pod, bad)), "gateway-default-route"},
		{"one that was there", entry(gateway, "gateway", "update", table("gateway", pod, bad),
			table("gateway", pod, bad, route("192.168.9.0/24", "10.0.2.4"))), ""},
		{"one that goes", entry(gateway, "gateway", "update", table("gateway", pod, bad),
			table("gateway", pod)), ""},
		{"nothing", same(gateway, "gateway", table("gateway", pod)), ""},
		{"a bad route in place of the pods'", entry(gateway, "gateway", "update",
			table("gateway", pod), table("gateway", bad)), "gateway-default-route"},
		{"what has a finding already", entry(gateway, "gateway", "update", table("gateway", pod),
			table("gateway", route("192.168.9.0/24", "10.0.2.4"))), ""},
	} {
		r, err := iac.Read("plan",
			strings.NewReader(`{"format_version":"1.2","resource_drift":[{}],"resource_changes":[`+
				strings.Join(append(world[:len(world):len(world)], c.change), ",")+`]}`),
			iac.TemplateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, f := range introduced(r.Before, r.After, nil, r.Findings(iac.Known{})) {
			have = append(have, string(f.Code))
		}
		if strings.Join(have, " ") != c.want {
			t.Errorf("%s: %q, expected %q", c.name, have, c.want)
		}
	}
}

// TestIntroducedTargets: a plan puts a gateway's table on the node subnet. That the table is a
// target and becomes a cluster's route table is a problem of a config that names the target, and
// none of the config that iac check assumes for itself.
func TestIntroducedTargets(t *testing.T) {
	const group = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/g/providers/"
	const net, tables = group + "Microsoft.Network/virtualNetworks/hub", group +
		"Microsoft.Network/routeTables/"
	var all []string
	add := func(kind, name, action, before, after string) {
		all = append(all, fmt.Sprintf(`{"address":"%s.%s","mode":"managed","type":%q,"name":%q,`+
			`"change":{"actions":[%q],"before":%s,"after":%s}}`, kind, name, kind, name, action,
			before, after))
	}
	same := func(kind, name, values string) { add(kind, name, "no-op", values, values) }
	for i, name := range []string{"nodes", "gateway"} {
		same("azurerm_subnet", name, fmt.Sprintf(`{"id":"%s/subnets/%s","name":%q,`+
			`"address_prefixes":["10.0.%d.0/24"],"route_table_id":"%s%s"}`, net, name, name, i,
			tables, name))
		same("azurerm_route_table", name, fmt.Sprintf(`{"id":"%s%s","name":%q,"route":[{"name":`+
			`"aks-np-12345678-vmss000000____102440024","address_prefix":"10.244.0.0/24",`+
			`"next_hop_type":"VirtualAppliance","next_hop_in_ip_address":"10.0.0.4"}]}`, tables,
			name, name))
	}
	same("azurerm_kubernetes_cluster", "shop", fmt.Sprintf(`{"id":"%[1]sMicrosoft.`+
		`ContainerService/managedClusters/shop","node_resource_group":"mc","network_profile":[{`+
		`"network_plugin":"kubenet","pod_cidr":"10.244.0.0/16"}],"default_node_pool":[{"name":`+
		`"np","node_count":1,"vnet_subnet_id":"%[2]s/subnets/nodes"}]}`, group, net))
	same("azurerm_application_gateway", "gw", fmt.Sprintf(`{"id":"%sMicrosoft.Network/`+
		`applicationGateways/gw","gateway_ip_configuration":[{"subnet_id":"%s/subnets/gateway"}]}`,
		group, net))
	association := func(table string) string {
		return fmt.Sprintf(`{"id":"%[1]s/subnets/nodes","subnet_id":"%[1]s/subnets/nodes",`+
			`"route_table_id":"%[2]s%[3]s"}`, net, tables, table)
	}
	add("azurerm_subnet_route_table_association", "nodes", "update", association("nodes"),
		association("gateway"))
	r, err := iac.Read("plan", strings.NewReader(
		`{"format_version":"1.2","resource_drift":[{}],"resource_changes":[`+
			strings.Join(all, ",")+`]}`), iac.TemplateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	given := v1alpha1.ClusterRoutes{Metadata: v1alpha1.Metadata{Name: "shop"}}
	given.Spec.ClusterID = group + "Microsoft.ContainerService/managedClusters/shop"
	given.Spec.Targets = []v1alpha1.Target{{RouteTableID: tables + "gateway"}}
	given.SetDefaults()
	for name, configs := range map[string][]v1alpha1.ClusterRoutes{"assumed": nil, "given": {
		given}} {
		about := false
		for _, f := range introduced(r.Before, r.After, configs, nil) {
			about = about || f.Code == finding.TargetIsSource
		}
		if about != (configs != nil) {
			t.Errorf("%s: target-is-source is reported: %t", name, about)
		}
	}
}

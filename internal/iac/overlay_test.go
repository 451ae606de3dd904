package iac

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestOverlayOfUsers: pools, gateways and routes of their own come into the real network, and what
// subnets and tables show of each other fits.
func TestOverlayOfUsers(t *testing.T) {
	const group = "/subscriptions/s/resourceGroups/g/providers/Microsoft."
	const shop, gateway = group + "ContainerService/managedClusters/shop", group +
		"Network/applicationGateways/gw"
	cluster := func(subnet string) string {
		return fmt.Sprintf(`{"id":%q,"network_profile":[{"network_plugin":"kubenet","pod_cidr":`+
			`"10.244.0.0/16"}],"default_node_pool":[{"name":"np","vnet_subnet_id":"%s/subnets/%s"}]}`,
			shop, netID, subnet)
	}
	gw := func(subnet string) string {
		return fmt.Sprintf(`{"id":%q,"gateway_ip_configuration":[{"subnet_id":"%s/subnets/%s"}]}`,
			gateway, netID, subnet)
	}
	live := real(t)
	add(t, live, fmt.Sprintf(`{"id":%q,"properties":{"gatewayIPConfigurations":[{"properties":{`+
		`"subnet":{"id":%q}}}]}}`, gateway, edgeID))
	live.Subnet(edgeID).Gateways = []arm.ID{gateway}
	r, err := readPlain("plan", strings.NewReader(`{"format_version":"1.2","resource_drift":[{}],`+
		`"resource_changes":[`+strings.Join([]string{
		changes(tfCluster, "shop", "update", cluster("nodes"), cluster("bare")),
		changes(tfPool, "two", "create", "null", fmt.Sprintf(`{"name":"two",`+
			`"kubernetes_cluster_id":%q,"vnet_subnet_id":"%s/subnets/spare"}`, shop, netID)),
		changes(tfGateway, "gw", "update", gw("edge"), gw("spare")),
		changes(tfSubnet, "nodes", "no-op", subnetOf(""), subnetOf("")),
		changes(tfAssociation, "nodes", "update", association(rtID), association(otherID)),
		changes(tfRoute, "new", "create", "null", `{"name":"new","resource_group_name":"g",`+
			`"route_table_name":"RT","address_prefix":"10.8.0.0/16","next_hop_type":"None"}`),
		changes(tfRoute, "elsewhere", "create", "null", `{"name":"elsewhere",`+
			`"resource_group_name":"h","route_table_name":"rt","address_prefix":"10.8.0.0/16",`+
			`"next_hop_type":"None"}`),
		changes(tfRoute, "egress", "delete", fmt.Sprintf(`{"id":"%s/routes/egress","name":`+
			`"egress","address_prefix":"0.0.0.0/0","next_hop_type":"VirtualAppliance",`+
			`"next_hop_in_ip_address":"10.9.0.4"}`, rtID), "null"),
	}, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	after := r.Overlay(live)
	var got []string
	for _, p := range after.Cluster(shop).Pools {
		got = append(got, p.Name+" in "+p.Subnet.Name())
	}
	for _, route := range after.Table(rtID).Routes() {
		got = append(got, route.Name)
	}
	for _, id := range []arm.ID{rtID, otherID} {
		var subnets []string
		for _, s := range after.Table(id).Subnets {
			subnets = append(subnets, s.Name())
		}
		got = append(got, id.Name()+" on "+strings.Join(subnets, " "))
	}
	for _, name := range []string{"edge", "spare"} {
		got = append(got,
			fmt.Sprint(name, " ", len(after.Subnet(arm.ID(netID+"/subnets/"+name)).Gateways)))
	}
	const want = "np in bare, two in spare, new, aks-np-12345678-vmss000000____102440024, " +
		"rt on , other on nodes spare, edge 0, spare 1"
	if list := strings.Join(got, ", "); list != want {
		t.Errorf("%s, expected %s", list, want)
	}
	if len(live.Cluster(shop).Pools) != 1 || len(live.Table(rtID).Routes()) != 2 ||
		len(live.Table(rtID).Subnets) != 1 || len(live.Subnet(edgeID).Gateways) != 1 {
		t.Error("the real network was changed")
	}
}

// TestLostInAzure: a loss that a file is certain of is as bad if the real network shows that the
// table is gone already, or that it is another one.
func TestLostInAzure(t *testing.T) {
	for _, c := range []struct {
		change string
		want   finding.Severity
	}{
		{changes(tfSubnet, "bare", "delete", fmt.Sprintf(`{"id":"%s/subnets/bare",`+
			`"name":"bare","route_table_id":%q}`, netID, rtID), "null"), finding.Error},
		{changes(tfAssociation, "spare", "delete", fmt.Sprintf(`{"id":"%[1]s/subnets/spare",`+
			`"subnet_id":"%[1]s/subnets/spare","route_table_id":%q}`, netID, rtID), "null"),
			finding.Error},
		{changes(tfSubnet, "bare", "delete", fmt.Sprintf(`{"id":"%s/subnets/bare",`+
			`"name":"bare","route_table_id":"%s-egress"}`, netID, rtID), "null"), finding.Warning},
	} {
		r, err := readPlain("plan", strings.NewReader(`{"format_version":"1.2","resource_drift":[{}],`+
			`"resource_changes":[`+c.change+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		known := Known{Tables: map[string]string{arm.ID(rtID).Key(): "a config names it"}}
		alone := r.Findings(known)
		known.Observe(real(t))
		found := r.Findings(known)
		if len(alone) != 1 || alone[0].Severity != c.want || len(found) != 1 ||
			found[0].Severity != c.want {
			t.Errorf("%+v, with the real network %+v", alone, found)
		}
	}
}

package iac

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestLeft: the loss on a subnet whose cluster is also destroyed is a note. If only a pool or a
// gateway is destroyed, more may be in the subnet.
func TestLeft(t *testing.T) {
	cluster := changes(tfCluster, "shop", "delete",
		fmt.Sprintf(`{"network_profile":[{"network_plugin":"kubenet"}],"default_node_pool":[{"vnet_subnet_id":%q}]}`, nodesID), "null")
	pool := changes(tfPool, "two", "delete", fmt.Sprintf(`{"vnet_subnet_id":%q}`, nodesID), "null")
	gateway := changes(tfGateway, "gw", "delete",
		fmt.Sprintf(`{"gateway_ip_configuration":[{"subnet_id":%q}]}`, nodesID), "null")
	seen := Named(nodesID, "seen in Azure")
	seen.Named = false
	named := Known{Carriers: []Carrier{Named("nodes", "it carries pods")}}
	for _, c := range []struct {
		name, goes string
		known      Known
		want       finding.Severity
	}{
		{"no flag names it", pool, Known{}, finding.Info},
		{"Azure has it still", pool,
			Known{Carriers: []Carrier{seen}, Tables: map[string]string{arm.ID(rtID).Key(): "x"}},
			finding.Info},
		{"a flag names it, and a pool goes", pool, named, finding.Error},
		{"a flag names it, and a gateway goes", gateway, named, finding.Error},
		{"a flag names it, and the cluster goes", cluster, named, finding.Info},
		{"a flag names it, and the cluster goes with a pool", pool + "," + cluster, named,
			finding.Info},
	} {
		r, err := readPlain("plan", strings.NewReader(`{"format_version":"1.2","resource_changes":[`+
			c.goes+","+changes(tfAssociation, "nodes", "delete", association(rtID), "null")+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		found := r.Findings(c.known)
		destroyed := 0 // the destroyed cluster has its own finding
		if c.goes == cluster || strings.HasSuffix(c.goes, cluster) {
			if destroyed = 1; len(found) == 0 || found[0].Code != finding.IaCDestroys {
				t.Errorf("%s: %+v", c.name, found)
			}
			found = found[1:]
		}
		if len(found) != 1 || found[0].Severity != c.want {
			t.Errorf("%s: %+v", c.name, found)
		}
		_, repairs := r.Repairs(c.known, finding.Info)
		if (len(repairs) > destroyed) != (c.want > finding.Info) {
			t.Errorf("%s: %d repairs", c.name, len(repairs))
		}
	}
}

// real is a network with a kubenet cluster in nodes, which has the table rt with a pod route and
// another route. edge has the table pods, a copy; spare has a table without pod routes, and bare
// has none.
func real(t *testing.T) *inventory.Snapshot {
	t.Helper()
	s := inventory.NewSnapshot()
	table := func(id, routes string, subnets ...string) {
		var refs []string
		for _, id := range subnets {
			refs = append(refs, fmt.Sprintf(`{"id":%q}`, id))
		}
		add(t, s, fmt.Sprintf(`{"id":%q,"properties":{"routes":[%s],"subnets":[%s]}}`, id, routes,
			strings.Join(refs, ",")))
	}
	const (
		pod    = `{"name":"aks-np-12345678-vmss000000____102440024","properties":{"addressPrefix":"10.244.0.0/24","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.0.0.4"}}`
		egress = `{"name":"egress","properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.9.0.4"}}`
	)
	add(t, s, fmt.Sprintf(
		`{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/shop","properties":{"nodeResourceGroup":"mc","networkProfile":{"networkPlugin":"kubenet","podCidr":"10.244.0.0/16"},"agentPoolProfiles":[{"name":"np","vnetSubnetID":%q}]}}`, nodesID))
	table(rtID, pod+","+egress, nodesID)
	table(otherID, egress, netID+"/subnets/spare")
	table(strings.Replace(rtID, "/rt", "/pods", 1), pod, edgeID)
	for name, id := range map[string]string{"nodes": rtID,
		"edge": strings.Replace(rtID, "/rt", "/pods", 1), "spare": otherID, "bare": ""} {
		properties := ""
		if id != "" {
			properties = fmt.Sprintf(`"routeTable":{"id":%q}`, id)
		}
		add(t, s, fmt.Sprintf(`{"id":"%s/subnets/%s","properties":{%s}}`, netID, name, properties))
	}
	return s
}

func add(t *testing.T, s *inventory.Snapshot, doc string) {
	t.Helper()
	if err := s.Add([]byte(doc)); err != nil {
		t.Fatal(err)
	}
}

func at(name string) Place {
	return Place{ID: arm.ID(netID + "/subnets/" + name), Name: name, VNet: "hub"}
}

// TestLive: the real network settles what a file leaves open, and shows which subnets carry pods or
// reach them.
func TestLive(t *testing.T) {
	subnet := func(verb Verb, name string) Effect {
		return Effect{Verb: verb, What: at(name), By: Place{Address: "x.y"}, How: "it is written"}
	}
	table := func(id string) Effect {
		return Effect{Verb: MayLoseRoutes, What: Place{ID: arm.ID(id), Name: arm.ID(id).Name()},
			By: Place{Address: "x.y"}, How: "it is written"}
	}
	byName := subnet(MayLose, "nodes")
	byName.What.ID = ""
	for _, c := range []struct {
		name string
		e    Effect
		want string
	}{
		{"a cluster's subnet has a table", subnet(MayLose, "nodes"), "error iac-strips"},
		{"the same by its name", byName, "error iac-strips"},
		{"a subnet that reaches pods", subnet(MayLose, "edge"), "error iac-strips"},
		{"one that has a table of no importance", subnet(MayLose, "spare"), "warning iac-strips"},
		{"one that has none", subnet(MayLose, "bare"), ""},
		{"one that is not there", subnet(MayLose, "new"), "info iac-may-strip"},
		{"a loss that the state knows of", subnet(Loses, "nodes"), "error iac-strips"},
		{"a table with pod routes", table(rtID), "error iac-removes-routes"},
		{"a table without", table(otherID), ""},
	} {
		known := Known{}
		known.Observe(real(t))
		var have []string
		for _, f := range (&Reading{Effects: []Effect{c.e}}).Findings(known) {
			have = append(have, f.Severity.String()+" "+string(f.Code))
			if f.Code == finding.IaCStrips && !strings.Contains(f.Message, "route table ") {
				t.Errorf("%s: the table is not named: %s", c.name, f.Message)
			}
		}
		if strings.Join(have, ", ") != c.want {
			t.Errorf("%s: %q, expected %q", c.name, have, c.want)
		}
	}
}

// TestKnown: a subnet is known by name, by network and name, by ID in any case, and by its table.
func TestKnown(t *testing.T) {
	e := Effect{Verb: Loses, What: at("nodes"), Before: rtID, How: "it is written"}
	for _, c := range []struct {
		name  string
		known Known
		want  finding.Severity
	}{
		{"nothing", Known{}, finding.Warning},
		{"its name", Known{Carriers: []Carrier{Named("NODES", "y")}}, finding.Error},
		{"network and name", Known{Carriers: []Carrier{Named("hub/nodes", "y")}}, finding.Error},
		{"another network", Known{Carriers: []Carrier{Named("spoke/nodes", "y")}}, finding.Warning},
		{"its ID", Known{Carriers: []Carrier{Named(strings.ToUpper(nodesID), "y")}}, finding.Error},
		{"an ID of the same name elsewhere",
			Known{Carriers: []Carrier{Named(strings.Replace(nodesID, "/g/", "/other/", 1), "y")}},
			finding.Warning},
		{"its table", Known{Tables: map[string]string{arm.ID(rtID).Key(): "y"}}, finding.Error},
		{"another table", Known{Tables: map[string]string{arm.ID(otherID).Key(): "y"}},
			finding.Warning},
	} {
		if found := (&Reading{Effects: []Effect{e}}).Findings(c.known); len(found) != 1 ||
			found[0].Severity != c.want {
			t.Errorf("%s: %v, expected %s", c.name, found, c.want)
		}
	}
	empty := Effect{Verb: Recreated, What: at("nodes"), How: "it is deleted"}
	if found := (&Reading{Effects: []Effect{empty}}).Findings(Known{}); len(found) != 0 {
		t.Errorf("an unknown subnet without a table: %v", found)
	}
	if found := (&Reading{Effects: []Effect{empty}}).Findings(Known{
		Carriers: []Carrier{Named("nodes", "y")}}); len(found) != 1 ||
		found[0].Severity != finding.Error {
		t.Errorf("and one that carries pods: %v", found)
	}
	one := func(name string) Effect {
		return Effect{Verb: MayLose, What: Place{Name: name, VNet: "hub"},
			By: Place{Address: "a.hub"}, How: "it is written"}
	}
	if found := (&Reading{Effects: []Effect{one("a"), one("b")}}).Findings(Known{}); len(
		found) != 2 {
		t.Errorf("two subnets of one resource without known IDs: %v", found)
	}
	notes := &Reading{Notes: []Note{{Place: Place{Address: "a.b"}, Text: "x"},
		{Place: Place{Address: "a.b"}, Text: "w"},
		{Place: Place{Address: "a.b"}, Text: "y", Unknown: true}, {Text: "z"}, {Text: "zz"}}}
	if found := notes.Findings(Known{}); len(found) != 5 || found[0].Code != finding.IaCUnknown ||
		found[0].Severity != finding.Warning || found[1].Code != finding.IaCNote {
		t.Errorf("notes: %v", found)
	}
}

// TestOverlay: a plan changes only its own resources in the real network.
func TestOverlay(t *testing.T) {
	table := func(routes string) string {
		return fmt.Sprintf(`{"id":%q,"name":"rt","route":[%s]}`, rtID, routes)
	}
	const egress = `{"name":"egress","address_prefix":"0.0.0.0/0","next_hop_type":"VirtualAppliance","next_hop_in_ip_address":"10.9.0.4"}`
	subnet := func(name string) string {
		return fmt.Sprintf(`{"id":"%s/subnets/%s","name":%q,"address_prefixes":["10.0.0.0/24"]}`,
			netID, name, name)
	}
	r, err := readPlain("plan",
		strings.NewReader(`{"format_version":"1.2","resource_drift":[{}],"resource_changes":[`+
			strings.Join([]string{
				changes(tfTable, "rt", "update", table(""), table(egress)),
				// its routes are unknown
				changes(tfTable, "other", "no-op", fmt.Sprintf(`{"id":%q}`, otherID),
					fmt.Sprintf(`{"id":%q}`, otherID)),
				changes(tfSubnet, "nodes", "no-op", subnet("nodes"), subnet("nodes")),
				changes(tfSubnet, "edge", "delete", subnet("edge"), "null"),
				changes(tfSubnet, "spare", "no-op", subnet("spare"), subnet("spare")),
				changes(tfAssociation, "nodes", "delete", association(rtID), "null"),
			}, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	before := real(t)
	after := r.Overlay(before)
	get := func(s *inventory.Snapshot, name string) *inventory.Subnet {
		return s.Subnet(arm.ID(netID + "/subnets/" + name))
	}
	if s := get(after, "nodes"); s == nil || s.RouteTable != "" {
		t.Errorf("nodes keeps its table: %+v", s)
	}
	if get(after, "edge") != nil {
		t.Error("edge is still there")
	}
	if s := get(after, "spare"); s == nil || !s.RouteTable.Equal(otherID) {
		t.Errorf("spare, which nothing changes: %+v", s)
	}
	if table := after.Table(rtID); len(table.Routes()) != 1 || table.Routes()[0].Name != "egress" {
		t.Errorf("rt: %+v", table.Routes())
	}
	if table := after.Table(otherID); len(table.Routes()) != 1 {
		t.Errorf("other, which nothing changes: %+v", table.Routes())
	}
	if get(before, "nodes").RouteTable == "" || get(before, "edge") == nil ||
		len(before.Table(rtID).Routes()) != 2 {
		t.Error("the real network was changed")
	}
}

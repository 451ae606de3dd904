package prevent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	group   = "/subscriptions/s/resourceGroups/g/providers/"
	vnet    = arm.ID(group + arm.TypeVNet + "/v")
	nodes   = vnet + "/subnets/nodes"
	table   = arm.ID(group + arm.TypeRouteTable + "/t")
	nsg     = arm.ID(group + arm.TypeSecurityGroup + "/n")
	cluster = arm.ID(group + arm.TypeCluster + "/c")
	aksMade = arm.ID("/subscriptions/s/resourceGroups/MC_g/providers/" + arm.TypeVNet +
		"/aks-vnet-12345678/subnets/aks-subnet")
)

func every() (all []string) {
	for _, r := range candidates(nil, nil) {
		all = append(all, r.aliases()...)
	}
	return all
}

// TestLeftOut: what no rule can hold is said, and nothing else is lost.
func TestLeftOut(t *testing.T) {
	needs := []Need{{nodes, inventory.PropertyTable, table},
		{arm.ID(strings.ToUpper(string(nodes))), inventory.PropertyTable,
			arm.ID(strings.ToUpper(string(table)))}, // the same once more
		{nodes, inventory.PropertyGroup, nsg}, {nodes, inventory.PropertyGroup, nsg + "2"},
		{vnet + "/subnets/pods", inventory.PropertyNAT, "nat"}}
	aliases := slices.DeleteFunc(every(), func(s string) bool {
		return s == arm.TypeSubnet+"/natGateway.id"
	})
	rules, left := Make(needs, []arm.ID{table, table}, aliases)
	var got []string
	for _, r := range rules {
		got = append(got, fmt.Sprint(r.Name, len(r.Needs), len(r.Tables)))
	}
	if want := []string{"routekeeper-route-table1 0", "routekeeper-default-route0 1",
		"routekeeper-default-route-delete0 1"}; !slices.Equal(got, want) {
		t.Errorf("rules %q, want %q", got, want)
	}
	if s := strings.Join(left, "\n"); len(left) != 2 ||
		!strings.Contains(s, "network security group of "+string(nodes)+": two clusters") ||
		!strings.Contains(s, "has no alias Microsoft.Network/virtualNetworks/subnets/natGateway.id") {
		t.Errorf("left out: %s", s)
	}
	if rules, left := Make(needs[:1], nil, nil); len(rules) != 0 || len(left) != 1 {
		t.Errorf("without aliases: %v %v", rules, left)
	}
}

// TestIterations: Azure accepts 100 elements of a parameter that a rule counts.
func TestIterations(t *testing.T) {
	var needs []Need
	for i := range 201 {
		needs = append(needs, Need{arm.ID(fmt.Sprintf("%s%d/subnets/n", vnet, i%3)) +
			arm.ID(fmt.Sprint(i)), inventory.PropertyTable, table})
	}
	rules, _ := Make(needs, nil, every())
	total := 0
	var names []string
	for _, a := range rules[0].Assignments() {
		names, total = append(names, a.Name), total+len(a.Value)
		if len(a.Value) > 100 {
			t.Errorf("%s has %d elements", a.Name, len(a.Value))
		}
	}
	if s := strings.Join(names, " "); total != 201 || s != "routekeeper-route-table "+
		"routekeeper-route-table-2 routekeeper-route-table-3" {
		t.Errorf("%d elements in %s", total, s)
	}
	if n := len(Concerning(rules, vnet+"0")); n != 1 { // sorted by network
		t.Errorf("%d assignments have the first network", n)
	}
}

// TestGather: which subnets and tables get rules in a world of one config.
func TestGather(t *testing.T) {
	egress := `{"id":"` + string(table) + `","properties":{"routes":[{"name":"out","properties":` +
		`{"addressPrefix":"0.0.0.0/0","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.9.9.4"}}]`
	const overlay, kubenet = `"networkPlugin":"azure","networkPluginMode":"overlay"`,
		`"networkPlugin":"kubenet"`
	for name, c := range map[string]struct {
		plugin string // of the cluster, "" if it cannot be read
		config string // changes of it: off, own
		table  string
		on     arm.ID // the guarded subnet
		pool   arm.ID
		needs  string
		tables int
		left   string
	}{
		"overlay": {plugin: overlay, table: egress + "}}", needs: "nodes", tables: 1},
		"a table without a firewall": {plugin: overlay, table: strings.Replace(egress,
			"VirtualAppliance", "VirtualNetworkGateway", 1) + "}}", needs: "nodes"},
		"an unread table": {plugin: overlay, needs: "nodes", left: "the table cannot be read"},
		"an unread cluster": {table: egress + "}}", needs: "nodes", tables: 1,
			left: "cannot be read"},
		"unread, its own table": {config: "own", table: egress + "}}", needs: "nodes",
			left: "kubenet"},
		"off":          {plugin: overlay, config: "off", left: "guard.mode is Off"},
		"left kubenet": {plugin: overlay, config: "own", left: "ends with kubenet"},
		"a network that AKS made": {plugin: overlay, on: aksMade, table: egress + "}}",
			left: "AKS made its network"},
		"an unread one": {on: aksMade, table: egress + "}}", left: "AKS made its network"},
		"kubenet": {plugin: kubenet, config: "own", pool: nodes, on: vnet + "/subnets/gw",
			table: egress + "}}", needs: "gw nodes", left: "writes this table"},
		"kubenet without a known table": {plugin: kubenet, pool: nodes, on: vnet + "/subnets/gw",
			table: egress + "}}", needs: "gw", tables: 1,
			left: "spec.routeTableID of cluster c does not name it"},
		"a kubenet table by its subnets": {plugin: kubenet, pool: nodes, on: vnet + "/subnets/gw",
			table: egress + `,"subnets":[{"id":"` + string(nodes) + `"}]}}`, needs: "gw",
			left: "writes this table"},
		"a kubenet table by its routes": {plugin: overlay, table: strings.Replace(egress, `"out"`,
			`"aks-np-1-vmss000001____102441024"`, 1) + "}}", needs: "nodes", left: "writes this table"},
	} {
		s := inventory.NewSnapshot()
		if c.plugin != "" {
			pool := ""
			if c.pool != "" {
				pool = `,"vnetSubnetID":"` + string(c.pool) + `"`
			}
			add(t, s, `{"id":"`+string(cluster)+`","type":"`+arm.TypeCluster+`","properties":{`+
				`"nodeResourceGroup":"MC_g","networkProfile":{`+c.plugin+
				`},"agentPoolProfiles":[{"name":"np"`+pool+`}]}}`)
		}
		if c.table != "" {
			add(t, s, c.table)
		}
		if c.on == "" {
			c.on = nodes
		}
		doc := v1alpha1.ClusterRoutes{Metadata: v1alpha1.Metadata{Name: "c"}, Spec: v1alpha1.Spec{
			ClusterID: string(cluster), Guard: v1alpha1.Guard{Subnets: []v1alpha1.GuardedSubnet{
				{SubnetID: string(c.on), RouteTableID: string(table)}}}}}
		switch c.config {
		case "off":
			doc.Spec.Guard.Mode = v1alpha1.GuardOff
		case "own":
			doc.Spec.RouteTableID = string(table)
		}
		w := Gather(s, []v1alpha1.ClusterRoutes{doc})
		var names []string
		for _, n := range w.Needs {
			names = append(names, n.Subnet.Name())
		}
		if got := strings.Join(names, " "); got != c.needs {
			t.Errorf("%s: needs %q, want %q", name, got, c.needs)
		}
		if len(w.Tables) != c.tables {
			t.Errorf("%s: tables %v, want %d", name, w.Tables, c.tables)
		}
		if left := strings.Join(w.Left, "\n"); (left == "") != (c.left == "") ||
			!strings.Contains(left, c.left) {
			t.Errorf("%s: left out %q, want %q", name, left, c.left)
		}
		if blocks := strings.Join(w.Blocks, "\n"); strings.Contains(c.needs, "gw nodes") !=
			strings.Contains(blocks, "off kubenet") {
			t.Errorf("%s: blocks %q", name, blocks)
		}
	}
}

func add(t *testing.T, s *inventory.Snapshot, raw string) {
	t.Helper()
	if err := s.Add([]byte(raw)); err != nil {
		t.Fatal(err)
	}
}

// TestUnhealthy: a subnet that lacks something now is named, because no write of it passes.
func TestUnhealthy(t *testing.T) {
	for has, blocked := range map[string]bool{"": true, string(table) + "x": true,
		strings.ToUpper(string(table)): false} {
		s := inventory.NewSnapshot()
		add(t, s, `{"id":"`+string(nodes)+`","properties":{"addressPrefix":"10.0.0.0/24",`+
			`"routeTable":{"id":"`+has+`"}}}`)
		w := Gather(s, []v1alpha1.ClusterRoutes{{Spec: v1alpha1.Spec{ClusterID: string(cluster),
			Guard: v1alpha1.Guard{Subnets: []v1alpha1.GuardedSubnet{
				{SubnetID: string(nodes), RouteTableID: string(table)}}}}}})
		if got := strings.Contains(strings.Join(w.Blocks, ""), "subnet nodes of v, at "+
			"once"); got != blocked {
			t.Errorf("with %q: %q", has, w.Blocks)
		}
	}
}

// TestUnjudged: a log without a request, or with something else, judges nothing.
func TestUnjudged(t *testing.T) {
	rules, _ := Make([]Need{{nodes, inventory.PropertyTable, table}}, nil, every())
	for body, want := range map[string]string{
		"": "unknown", "null": "[route table of nodes]", "[1]": "unknown", `"x"`: "unknown",
		`{"properties":{"subnets":7}}`: "[route table of nodes]", `{"properties":{"routeTable":7}}`: "[route table of nodes]",
		`{"PROPERTIES":{"ROUTETABLE":{"ID":"` + strings.ToUpper(string(table)) + `"}}}`: "[]",
	} {
		lacks, ok := Refused(rules, nodes, []byte(body))
		got := "unknown"
		if ok {
			got = fmt.Sprint(lacks)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

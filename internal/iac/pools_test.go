package iac

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
)

// TestWhatIfPools: a deployment that moves a pool to another subnet is refused by AKS, in the
// cluster and as a resource of its own; other changes of a pool are not noted.
func TestWhatIfPools(t *testing.T) {
	const group = "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/g/providers/"
	const id = group + "Microsoft.ContainerService/managedClusters/shop"
	subnet := func(name string) string {
		if name == "" || name[0] == '[' {
			return name
		}
		return group + "Microsoft.Network/virtualNetworks/v/subnets/" + name
	}
	cluster := func(pools ...string) string {
		var list []string
		for i := 0; i < len(pools); i += 2 {
			list = append(list, fmt.Sprintf(`{"name":%q,"count":2,"vnetSubnetID":%q}`, pools[i],
				subnet(pools[i+1])))
		}
		return fmt.Sprintf(`{"id":%q,"name":"shop","properties":{"networkProfile":`+
			`{"networkPlugin":"azure"},"agentPoolProfiles":[%s]}}`, id, strings.Join(list, ","))
	}
	pool := func(at string) string {
		return fmt.Sprintf(`{"name":"np","properties":{"count":3,"vnetSubnetID":%q}}`, subnet(at))
	}
	const refused = "AKS refuses this change: pool np cannot move from subnet a to b (AKS#695)"
	for _, c := range []struct {
		name, id, kind, before, after string
		want                          finding.Code
		says                          string
	}{
		{"another subnet", id, "Modify", cluster("np", "a"), cluster("np", "b"), finding.IaCNote,
			refused},
		{"another subnet of one of two", id, "Modify", cluster("x", "x", "np", "a"),
			cluster("np", "b", "x", "x"), finding.IaCNote, refused},
		{"the pool's own resource", id + "/agentPools/np", "Modify", pool("a"), pool("b"),
			finding.IaCNote, refused},
		{"an expression", id, "Modify", cluster("np", "a"), cluster("np", "[reference('v').id]"),
			finding.IaCUnknown, "the subnet of pool np depends on the deployment itself"},
		{"the same subnet in another case", id, "Modify", cluster("np", "a"), cluster("NP", "A"),
			"", ""},
		{"a new pool elsewhere", id, "Modify", cluster("np", "a"), cluster("np", "a", "q", "b"),
			"", ""},
		{"the subnet is not named", id, "Modify", cluster("np", "a"), cluster("np", ""), "", ""},
		{"another size", id + "/agentPools/np", "Modify", pool("a"),
			strings.Replace(pool("a"), "3", "5", 1), "", ""},
		{"deleted, and the cluster is not", id + "/agentPools/np", "Delete", pool("a"), "null", "",
			""},
	} {
		r := readWhatIf(t, File{Name: "whatif.json", Data: []byte(fmt.Sprintf(
			`{"status":"Succeeded","changes":[{"resourceId":%q,"changeType":%q,"before":%s,`+
				`"after":%s}]}`, c.id, c.kind, c.before, c.after))})
		found := r.Findings(Known{})
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 ||
			found[0].Code != c.want || !strings.Contains(found[0].Message, c.says)) {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
}

// TestPoolReplaced: a plan that replaces a pool by itself does not destroy the cluster; it is noted
// that all nodes of the pool go at once. A pool that is created first, updated or deleted is not.
func TestPoolReplaced(t *testing.T) {
	const values = `{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/` +
		`managedClusters/shop/agentPools/two","name":"two"}`
	const forced = `,"replace_paths":[["vnet_subnet_id"]]`
	for actions, want := range map[string]string{
		"delete,create": "azurerm_kubernetes_cluster_node_pool.two: the pool is deleted and " +
			"created again, because a change of vnet_subnet_id forces it: its nodes go all at once",
		"create,delete": "", "update": "", "delete": "",
	} {
		after := values
		if actions == "delete" {
			after = "null"
		}
		r, err := readPlain("plan", strings.NewReader(`{"format_version":"1.2","resource_changes":[`+
			changes(tfPool, "two", actions, values, after, forced)+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		found := r.Findings(Known{})
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 ||
			found[0].Code != finding.IaCNote || !strings.HasPrefix(found[0].Message, want)) {
			t.Errorf("%s: %+v", actions, found)
		}
	}
}

package plan

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestTableGoneOfAKS: AKS restores a table that it made, whichever subnet lacks it; for any other
// table the user decides.
func TestTableGoneOfAKS(t *testing.T) {
	const managed = "/aks-agentpool-12345678-routetable"
	node := arm.GroupID(sub, "MC_made") + "/providers/Microsoft.Network/routeTables"
	const update = "az aks update --subscription " + sub +
		" --resource-group shop-rg --name shop --yes"
	for name, c := range map[string]struct {
		table   arm.ID
		guarded bool
		fix     string
	}{
		"AKS's":                {node + managed, false, update},
		"AKS's, in other case": {arm.ID(strings.ToUpper(string(node + managed))), false, update},
		"AKS's, for a gateway": {node + managed, true, update},
		"existing": {tableA, false, "az network route-table show --ids " +
			string(tableA)},
		"existing, named like it": {tables + managed, false, "az network route-table show --ids " +
			string(tables+managed)},
		"another's in AKS's group": {node + "/mine", false, "az network route-table show --ids " +
			string(node+"/mine")},
		"existing, for a gateway": {hub, true, "create the table, or correct spec.guard.subnets " +
			"of shop"},
	} {
		t.Run(name, func(t *testing.T) {
			w := quiet(t)
			w.s.Cluster(clusterA).NodeResourceGroup = "MC_made"
			spec := &w.configs[0].Spec
			if c.guarded {
				spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
					{SubnetID: string(gatewayIn), RouteTableID: string(c.table)}}
				w.subnet(gatewayIn, "10.240.9.0/24", "")
			} else {
				spec.RouteTableID = string(c.table)
				delete(w.s.Tables, tableA.Key())
				w.subnet(nodesA, "10.240.0.0/24", "")
				known := w.s.Learn(clusterA)
				known.LogRead, known.ManagedRead = true, true
			}
			w.s.Unread[c.table.Key()] = inventory.Unread{ID: c.table, Absent: true, Status: 404}
			w.hostile()
			found := Make(w.s, w.configs).Findings
			i := slices.IndexFunc(found, func(f finding.Finding) bool {
				return f.Code == finding.TableMissing &&
					strings.EqualFold(f.Resource, string(c.table))
			})
			if i < 0 {
				t.Fatalf("%+v", found)
			}
			if got := cmp.Or(found[i].Fix, found[i].Advice); got != c.fix {
				t.Errorf("to do: %s", got)
			}
			said := strings.Contains(strings.Join(found[i].Evidence, "\n"), "not documented")
			if said != (c.fix == update) {
				t.Errorf("evidence %q", found[i].Evidence)
			}
		})
	}
}

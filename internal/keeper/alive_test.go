package keeper

import (
	"cmp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// ownNetwork creates a cluster whose network AKS creates, and returns its node subnet and its
// table.
func (w *world) ownNetwork(name string) (cluster, subnet, table arm.ID) {
	cluster = arm.ResourceID(emulator.DefaultSubscription, name+"-rg", arm.TypeCluster, name)
	w.put(cluster.Group(), object{})
	w.put(cluster, object{"properties": object{
		"networkProfile":    object{"networkPlugin": "kubenet", "podCidr": "10.64.0.0/16"},
		"agentPoolProfiles": []any{object{"name": "np", "count": 2, "mode": "System"}}}})
	time.Sleep(2 * time.Minute)
	group := w.get(cluster)["properties"].(object)["nodeResourceGroup"].(string)
	list := w.get(arm.GroupID(cluster.Subscription(), group) +
		"/providers/Microsoft.Network/virtualNetworks")
	network := list["value"].([]any)[0].(object)
	subnet = arm.ID(network["properties"].(object)["subnets"].([]any)[0].(object)["id"].(string))
	return cluster, subnet, w.tableOf(subnet)
}

// TestTableGoneBeforeAssociation: a subnet has lost its table, and the table is deleted before it
// is put back. It is not put back. The finding says who has to create it again: AKS if AKS created
// it, even if AKS does not answer at the moment; otherwise a person.
func TestTableGoneBeforeAssociation(t *testing.T) {
	for name, silent := range map[string]bool{"AKS answers": false, "AKS is silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				made, subnet, table := w.ownNetwork("made")
				k := w.run(time.Minute, w.demoConfig(), configure("made", made))
				k.since(2 * time.Minute)
				if silent {
					w.inject(emulator.Fault{Method: "GET", Path: "managedClusters", Hold: "before",
						Count: -1})
				}
				w.strip(subnet, w.demo.NodeSubnet)
				w.remove(table)
				w.remove(w.demo.ClusterTable)
				results := k.parts(2 * time.Minute)
				for _, c := range []struct {
					cluster, fix  string
					subnet, table arm.ID
				}{
					{"made", "az aks update --subscription " + made.Subscription() +
						" --resource-group made-rg --name made --yes", subnet, table},
					{"shop", "create the table, or correct the config of shop", w.demo.NodeSubnet,
						w.demo.ClusterTable},
				} {
					fix := ""
					for _, r := range results {
						for _, f := range r.Findings {
							if strings.HasSuffix(f.Message, "is not put back on "+
								c.subnet.Short()) && f.Cluster == c.cluster &&
								f.Code == finding.TableMissing &&
								c.table.Equal(arm.ID(f.Resource)) {
								fix = cmp.Or(f.Fix, f.Advice)
							}
						}
					}
					if fix != c.fix {
						t.Errorf("%s: to do %q, want %q", c.cluster, fix, c.fix)
						for _, r := range results {
							t.Log(r.Started, codes(r), did(r))
						}
					}
					if w.tableOf(c.subnet) != "" {
						t.Errorf("%s has a table", c.subnet.Short())
					}
				}
			})
		})
	}
}

package plan

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// fleet returns clusters with as many nodes each, each with a table and a target. The target has
// the routes of the nodes from missing on, and one unmanaged route. The node subnets show the
// machines.
func fleet(tb testing.TB, clusters, nodes, missing int) *world {
	w := &world{t: tb, s: Facts{Snapshot: inventory.NewSnapshot(), Memory: Memory{}}}
	for c := range clusters {
		id := arm.ID(fmt.Sprintf(
			"/subscriptions/%s/resourceGroups/rg%d/providers/Microsoft.ContainerService/managedClusters/c%d", sub, c, c))
		own, target := arm.ID(fmt.Sprintf("%s/own%d", tables, c)), arm.ID(fmt.Sprintf("%s/target%d",
			tables, c))
		subnet := arm.ID(fmt.Sprintf("%s/subnets/n%d", vnet, c))
		w.cluster(id, "10.128.0.0/9", subnet)
		w.nodeSubnet(subnet, "10.0.0.0/16", own, w.s.Cluster(id).NodeGroup(), nodes)
		routes := []string{"egress 0.0.0.0/0 10.1.0.4"}
		for n := range nodes {
			routes = append(routes,
				fmt.Sprintf("aks-np-%08d-vmss%06d 10.%d.%d.0/24 10.0.%d.%d", c, n,
					128+n/256, n%256, n/250, n%250+4))
		}
		w.table(own, routes...)
		w.table(target,
			append([]string{"theirs 192.168.0.0/16 10.1.0.4"}, routes[1+missing:]...)...)
		w.remembered(id).LastTable, w.remembered(id).LastProven = own, true
		w.config(fmt.Sprintf("c%d", c), id, target)
		w.configs[c].Spec.RouteTableID = string(own)
		w.configs[c].Spec.Targets[0].MaxRoutes = 1000
	}
	return w
}

// nodeSubnet adds a subnet that shows the machines of a cluster's first pool.
func (w *world) nodeSubnet(id arm.ID, prefix string, table, group arm.ID, machines int) *world {
	var configurations []string
	for n := range machines {
		configurations = append(configurations,
			fmt.Sprintf(`{"id":"%s/providers/Microsoft.Compute/`+
				`virtualMachineScaleSets/aks-pool0-1-vmss/virtualMachines/%d/networkInterfaces/nic/ipConfigurations/ip"}`, group, n))
	}
	subnet, err := inventory.DecodeSubnet(fmt.Appendf(nil,
		`{"id":%q,"properties":{"addressPrefix":%q,"routeTable":{"id":%q},"ipConfigurations":[%s]}}`,
		id, prefix, table, strings.Join(configurations, ",")))
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Subnets[subnet.ID.Key()] = subnet
	return w
}

// BenchmarkPlan plans for one cluster of 400 nodes, and for 1,000 clusters: with nothing to do, and
// with all routes to add. For comparison it compares the names in two tables, as a runbook does,
// which ignores next hops, owners and limits.
func BenchmarkPlan(b *testing.B) {
	for _, size := range []struct{ clusters, nodes int }{{1, 400}, {1000, 400}} {
		for name, missing := range map[string]int{"nothing-to-do": 0, "all-to-add": size.nodes} {
			run := fmt.Sprintf("clusters=%d/routes=%d/%s", size.clusters, size.nodes, name)
			b.Run(run, func(b *testing.B) {
				w := fleet(b, size.clusters, size.nodes, missing)
				for id, routes := range Make(w.s, w.configs).Nodes { // as the keeper remembers them
					w.remembered(arm.ID(id)).Nodes = routes
				}
				// as in the keeper, which makes it when it loads its configs
				taken := TakenBy(w.configs)
				b.Run("plan", func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if p := Among(w.s, w.configs,
							taken).Plan(); len(p.Changes) != size.clusters*missing ||
							len(p.Findings) != 0 {
							b.Fatalf("%d changes, %d findings", len(p.Changes), len(p.Findings))
						}
					}
				})
				b.Run("names-only", func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if n := namesOnly(w); n != size.clusters*missing {
							b.Fatalf("%d missing", n)
						}
					}
				})
			})
		}
	}
}

// TestNothingToDoAllocates: if there is nothing to do, no allocation is for a route or a machine.
// So a check of 400 nodes is as cheap as one of 20.
func TestNothingToDoAllocates(t *testing.T) {
	of := func(nodes int) float64 {
		w := fleet(t, 1, nodes, 0)
		for id, routes := range Make(w.s, w.configs).Nodes {
			w.remembered(arm.ID(id)).Nodes = routes
		}
		taken := TakenBy(w.configs)
		return testing.AllocsPerRun(20, func() { Among(w.s, w.configs, taken).Plan() })
	}
	few, many := of(20), of(400)
	if many > few || many > 36 {
		t.Errorf("%v allocations with 20 nodes, %v with 400", few, many)
	}
}

// namesOnly counts the names in the clusters' tables that the targets lack.
func namesOnly(w *world) int {
	missing := 0
	for _, c := range w.configs {
		have := map[string]bool{"egress": true}
		for _, r := range w.s.Table(arm.ID(c.Spec.Targets[0].RouteTableID)).Routes() {
			have[r.Name] = true
		}
		for _, r := range w.s.Table(arm.ID(c.Spec.RouteTableID)).Routes() {
			if !have[r.Name] {
				missing++
			}
		}
	}
	return missing
}

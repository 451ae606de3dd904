package cli

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestLeastRightsOfManagedNetwork: the generated rights suffice if AKS created network and table,
// and without any right to write or join, something is refused.
func TestLeastRightsOfManagedNetwork(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(config []byte) []byte{
		"table named": func(config []byte) []byte { return config },
		"table discovered": func(config []byte) []byte {
			return regexp.MustCompile(`(?m)^  routeTableID: .*$`).ReplaceAll(config, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &leastRights{t: t, dir: t.TempDir(), roles: map[string][]string{}}
			own := filepath.Join(l.dir, "az")
			a, server, err := startAzure(own, true, emulator.Options{
				Principals: []emulator.Principal{keeperPrincipal}, StrictLists: true,
				RouteBatch: 20 * time.Millisecond,
			})
			l.must(err)
			t.Cleanup(func() { server.Close(); a.e.Close() })
			l.a = a
			cluster := a.demo.Cluster.Group().Parent() + "/resourceGroups/" +
				arm.ID(a.demo.Cluster.ResourceGroup()) +
				"/providers/Microsoft.ContainerService/managedClusters/made"
			l.must(a.op.Put(cluster, "2025-10-01", map[string]any{
				"location": "westeurope", "identity": map[string]any{"type": "SystemAssigned"},
				"properties": map[string]any{
					"networkProfile": map[string]any{"networkPlugin": "kubenet",
						"podCidr": "10.64.0.0/16"},
					"agentPoolProfiles": []any{map[string]any{"name": "system", "count": 2,
						"mode": "System"}}},
			}))
			subnet, table := l.managed(cluster)
			filter := subnet.Group() +
				"/providers/Microsoft.Network/networkSecurityGroups/aks-agentpool-nsg"
			l.must(a.op.Put(filter, "2025-05-01",
				map[string]any{"location": "westeurope", "properties": map[string]any{}}))
			doc, err := a.op.Get(subnet, "2025-05-01")
			l.must(err)
			doc["properties"].(map[string]any)["networkSecurityGroup"] = map[string]any{
				"id": string(filter)}
			l.must(a.op.Put(subnet, "2025-05-01", doc))

			l.config = filepath.Join(l.dir, "routes.yaml")
			l.run(0, "--emulator", own, "init", "--cluster", string(cluster), "--out", l.config)
			l.run(0, "--emulator", own, "promote", string(cluster), "-f", l.config, "--yes")
			raw, err := os.ReadFile(l.config)
			l.must(err)
			l.must(os.WriteFile(l.config, edit(raw), 0o600))
			l.run(0, "iac", "generate", "terraform", "-f", l.config, "--out",
				filepath.Join(l.dir, "tf"))
			l.logIn(own)
			l.assign(cluster, "")

			work := func(check bool) []string {
				code := func(n int) int {
					if check {
						return n
					}
					return -1
				}
				since := a.e.LastRequest()
				for _, args := range [][]string{{"sync", "--yes"},
					{"doctor", "--fix", "--yes", "--fail-on", "error"}} {
					l.must(a.strip(subnet))
					l.run(code(0),
						append([]string{"--emulator", l.login, "-f", l.config}, args...)...)
					if doc, err := a.op.Get(subnet, "2025-05-01"); check &&
						(err != nil || doc["properties"].(map[string]any)["routeTable"] == nil) {
						t.Errorf("%v: the subnet has no table: %v", args, err)
					}
				}
				return l.refused(since)
			}
			if refused := work(true); len(refused) > 0 {
				t.Fatalf("refused: %q", refused)
			}
			for role, needed := range map[string][]string{
				"subnets": {"Microsoft.Network/virtualNetworks/subnets/write"},
				"links": {"Microsoft.Network/routeTables/join/action",
					"Microsoft.Network/networkSecurityGroups/join/action"},
			} {
				for _, action := range needed {
					l.define(role, slices.DeleteFunc(slices.Clone(l.roles[role]),
						func(a string) bool { return a == action }))
					if refused := work(false); len(refused) == 0 {
						t.Errorf("without %s nothing is refused", action)
					}
					l.define(role, l.roles[role])
				}
			}

			// What it must never be allowed to do.
			keeper, err := a.e.Client(keeperPrincipal)
			l.must(err)
			for _, id := range []arm.ID{table, subnet.Parent(), a.demo.NodeSubnet} {
				doc, err := a.op.Get(id, "2025-05-01")
				l.must(err)
				if err := keeper.Put(id, "2025-05-01", doc); err == nil {
					t.Errorf("it may write %s", id)
				}
			}
		})
	}
}

// managed waits for the routes of a cluster's nodes, and returns the subnet and the table that AKS
// created.
func (l *leastRights) managed(cluster arm.ID) (subnet, table arm.ID) {
	l.t.Helper()
	doc, err := l.a.op.Get(cluster, "2025-10-01")
	l.must(err)
	group := arm.ID(doc["properties"].(map[string]any)["nodeResourceGroup"].(string))
	first := func(kind string) map[string]any {
		list, err := l.a.op.Get(cluster.Group().Parent()+"/resourceGroups/"+group+"/providers/"+
			arm.ID(kind), "2025-05-01")
		l.must(err)
		all, _ := list["value"].([]any)
		if len(all) != 1 {
			return nil
		}
		return all[0].(map[string]any)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(
		20 * time.Millisecond) {
		found, vnet := first(arm.TypeRouteTable), first(arm.TypeVNet)
		if found == nil || vnet == nil {
			continue
		}
		if routes, _ := found["properties"].(map[string]any)["routes"].([]any); len(routes) == 2 {
			subnets := vnet["properties"].(map[string]any)["subnets"].([]any)
			return arm.ID(subnets[0].(map[string]any)["id"].(string)), arm.ID(found["id"].(string))
		}
	}
	l.t.Fatal("the cluster got no routes")
	return "", ""
}

// balance makes a load balancer in a subnet of its own, and a route to its front end.
func (l *leastRights) balance(prefix, address string) error {
	at := l.a.demo.NodeSubnet.Parent().Child("subnets", "appliances")
	id := func(kind string) arm.ID {
		return arm.ResourceID(at.Subscription(), at.ResourceGroup(), kind, "nva")
	}
	put := func(id arm.ID, properties map[string]any) error {
		return l.a.op.Put(id, "2025-05-01", map[string]any{"location": "westeurope",
			"sku": map[string]any{"name": "Standard"}, "properties": properties})
	}
	return errors.Join(put(at, map[string]any{"addressPrefix": prefix}),
		put(id(arm.TypeLoadBalancer), map[string]any{"frontendIPConfigurations": []any{
			map[string]any{"name": "ip", "properties": map[string]any{
				"privateIPAddress": address, "privateIPAllocationMethod": "Static",
				"subnet": map[string]any{"id": string(at)}}}}}),
		put(id(arm.TypeRouteTable), map[string]any{"routes": []any{map[string]any{"name": "out",
			"properties": map[string]any{"addressPrefix": "0.0.0.0/0",
				"nextHopType": "VirtualAppliance", "nextHopIpAddress": address}}}}))
}

package migrate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	sub   = "11111111-1111-1111-1111-111111111111"
	group = arm.ID("/subscriptions/" + sub + "/resourceGroups/net-rg")
	shop  = arm.ID("/subscriptions/" + sub +
		"/resourceGroups/shop-rg/providers/Microsoft.ContainerService/managedClusters/shop")
	vnet  = group + "/providers/Microsoft.Network/virtualNetworks/shop-vnet"
	nodes = vnet + "/subnets/nodes"
	appgw = vnet + "/subnets/appgw"
	table = group + "/providers/Microsoft.Network/routeTables/shop-rt"
	gwTbl = group + "/providers/Microsoft.Network/routeTables/appgw-rt"
)

type object = map[string]any
type list = []any

// world is a healthy kubenet cluster of three nodes with a gateway's subnet, as documents that a
// test changes.
type world struct {
	cluster, vnet, table, gateway object
	unread                        []arm.ID
}

func newWorld() *world {
	route := func(prefix, hop string) object {
		return object{"name": "aks-" + hop, "properties": object{"addressPrefix": prefix,
			"nextHopType": "VirtualAppliance", "nextHopIpAddress": hop}}
	}
	pods := list{route("10.244.0.0/24", "10.42.1.4"), route("10.244.1.0/24", "10.42.1.5"),
		route("10.244.2.0/24", "10.42.1.6")}
	subnet := func(id arm.ID, prefix string, table arm.ID) object {
		return object{"id": string(id), "name": id.Name(), "properties": object{
			"addressPrefix": prefix, "routeTable": object{"id": string(table)}}}
	}
	return &world{
		cluster: object{"id": string(shop), "name": "shop", "location": "westeurope",
			"identity": object{"type": "UserAssigned"},
			"properties": object{"kubernetesVersion": "1.33.5", "nodeResourceGroup": "MC_shop",
				"networkProfile": object{"networkPlugin": "kubenet", "podCidr": "10.244.0.0/16",
					"serviceCidr": "10.0.0.0/16"},
				"agentPoolProfiles": list{object{"name": "nodepool1", "count": 3,
					"vnetSubnetID": string(nodes), "vmSize": "Standard_D4s_v5",
					"type": "VirtualMachineScaleSets"}}}},
		vnet: object{"id": string(vnet), "name": "shop-vnet", "location": "westeurope",
			"properties": object{"addressSpace": object{"addressPrefixes": list{"10.42.0.0/16"}},
				"subnets": list{subnet(nodes, "10.42.1.0/24", table),
					subnet(appgw, "10.42.2.0/24", gwTbl),
					object{"id": string(vnet) + "/subnets/AzureFirewallSubnet",
						"properties": object{"addressPrefix": "10.42.3.0/26",
							"ipConfigurations": list{object{"id": string(group) + "/providers/" +
								arm.TypeFirewall + "/fw/azureFirewallIpConfigurations/ip"}}}}}}},
		table: object{"id": string(table), "name": "shop-rt", "location": "westeurope",
			"properties": object{"routes": append(slices.Clone(pods),
				route("0.0.0.0/0", "10.42.3.4"))}},
		gateway: object{"id": string(gwTbl), "name": "appgw-rt", "location": "westeurope",
			"properties": object{"routes": pods}},
	}
}

func (w *world) pool() object {
	return w.cluster["properties"].(object)["agentPoolProfiles"].(list)[0].(object)
}

func (w *world) subnet(i int) object {
	return w.vnet["properties"].(object)["subnets"].(list)[i].(object)["properties"].(object)
}

func (w *world) set(field string, value any) { w.cluster["properties"].(object)[field] = value }

func (w *world) snapshot(t *testing.T) *inventory.Snapshot {
	t.Helper()
	s := inventory.NewSnapshot()
	s.Learn(shop).LogRead = true // it shows nothing
	for _, doc := range []object{w.cluster, w.vnet, w.table, w.gateway} {
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(raw); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range w.unread {
		s.Unread[id.Key()] = inventory.Unread{ID: id, Status: 403}
	}
	return s
}

func (w *world) plan(t *testing.T) Plan {
	t.Helper()
	s := w.snapshot(t)
	config := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind}
	config.Metadata.Name = "shop"
	config.Spec.ClusterID = string(shop)
	config.Spec.RouteTableID = string(table)
	config.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(gwTbl)}}
	config.SetDefaults()
	c := diagnose.Case{Snapshot: s, Clusters: []arm.ID{shop},
		Configs: []v1alpha1.ClusterRoutes{config},
		Today:   time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)}
	pastetest.Again(func(rename func(string) string) {
		again := pastetest.Rename(c, rename)
		again.File, again.Proposed = finding.Command("%s", rename("routes.yaml")), !c.Proposed
		Make(again, diagnose.Check(again))
	})
	return Make(c, diagnose.Check(c))
}

// TestMake: each condition is found, and the steps remove it in the right order. Next to each is a
// case that is almost the same and blocks nothing.
func TestMake(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*world)
		blocks []finding.Code
		says   []string // in the steps, in this order
	}{
		{name: "healthy", says: []string{"az aks get-credentials", "masquerade", "iac check",
			"--network-plugin azure --network-plugin-mode overlay", "migrate watch shop",
			"onRemoval: Prune", "sync prune --cluster shop", "cluster verify shop"}},
		{name: "system-assigned identity", change: func(w *world) {
			w.cluster["identity"] = object{"type": "SystemAssigned", "principalId": "p"}
		}, blocks: []finding.Code{finding.MigrationIdentity},
			says: []string{"az identity create", "--role 'Network Contributor' --scope " +
				string(table), "--scope " + string(vnet), "--assign-identity", "overlay"}},
		{name: "and a private DNS zone", change: func(w *world) {
			w.cluster["identity"] = object{"type": "SystemAssigned", "principalId": "p"}
			w.set("apiServerAccessProfile", object{"privateDNSZone": string(group) + "/z"})
		}, blocks: []finding.Code{finding.MigrationIdentity},
			says: []string{"'Private DNS Zone Contributor' --scope " + string(group) + "/z",
				"--assign-identity"}},
		{name: "1.26", change: func(w *world) { w.set("kubernetesVersion", "1.26.9") },
			blocks: []finding.Code{finding.MigrationVersion},
			says:   []string{"az aks get-upgrades", "az aks upgrade"}},
		{name: "1.27", change: func(w *world) { w.set("kubernetesVersion", "1.27.0") }},
		{name: "calico", change: func(w *world) {
			w.cluster["properties"].(object)["networkProfile"].(object)["networkPolicy"] = "calico"
		}, blocks: []finding.Code{finding.MigrationPolicy},
			says: []string{"--network-policy none", "mode overlay", "--network-dataplane cilium"}},
		{name: "no policy", change: func(w *world) {
			w.cluster["properties"].(object)["networkProfile"].(object)["networkPolicy"] = "none"
		}},
		{name: "DCsv2", change: func(w *world) { w.pool()["vmSize"] = "Standard_DC4s_v2" },
			blocks: []finding.Code{finding.MigrationMachines}},
		{name: "DCsv3", change: func(w *world) { w.pool()["vmSize"] = "Standard_DC4s_v3" }},
		{name: "availability set", change: func(w *world) {
			w.pool()["type"] = "AvailabilitySet"
		}, blocks: []finding.Code{finding.MigrationPoolKind}},
		{name: "pod CIDR too small", change: func(w *world) {
			w.pool()["enableAutoScaling"], w.pool()["maxCount"] = true, 300
		}, blocks: []finding.Code{finding.MigrationPodCIDR},
			// no command before the migration starts it
			says: []string{"az aks get-credentials",
				"--network-plugin-mode overlay --pod-cidr PREFIX", "migrate watch"}},
		{name: "gateway on the cluster's table", change: func(w *world) {
			w.subnet(1)["routeTable"] = object{"id": string(table)}
		}, blocks: []finding.Code{finding.MigrationTable},
			says: []string{"az network route-table create", "--name appgw-rt-2",
				"--address-prefix 0.0.0.0/0", "routekeeper sync -f routes.yaml",
				"az network vnet subnet update --ids " + string(appgw), "mode overlay"}},
		{name: "gateway on the cluster's table, and a table that was not read", // it may exist
			change: func(w *world) {
				w.subnet(1)["routeTable"] = object{"id": string(table)}
				w.unread = []arm.ID{gwTbl + "-2"}
			}, blocks: []finding.Code{finding.MigrationTable},
			says: []string{"az network route-table create", "--name appgw-rt-3"}},
		{name: "Application Gateway for Containers in a /23", change: func(w *world) {
			w.subnet(1)["addressPrefix"] = "10.42.2.0/23"
			w.subnet(1)["delegations"] = list{object{"properties": object{
				"serviceName": "Microsoft.ServiceNetworking/trafficControllers"}}}
		}, blocks: []finding.Code{finding.MigrationContainers}},
		{name: "Application Gateway for Containers in a /24", change: func(w *world) {
			w.subnet(1)["delegations"] = list{object{"properties": object{
				"serviceName": "Microsoft.ServiceNetworking/trafficControllers"}}}
		}},
		{name: "stopped", change: func(w *world) {
			w.set("powerState", object{"code": "Stopped"})
		}, blocks: []finding.Code{finding.ClusterStopped}, says: []string{"az aks start"}},
		{name: "two blockers, the identity first", change: func(w *world) {
			w.cluster["identity"] = object{"type": "SystemAssigned", "principalId": "p"}
			w.subnet(1)["routeTable"] = object{"id": string(table)}
		}, blocks: []finding.Code{finding.MigrationTable, finding.MigrationIdentity},
			says: []string{"--assign-identity", "az network route-table create"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			if c.change != nil {
				c.change(w)
			}
			p := w.plan(t)
			if len(p.Clusters) != 1 || p.Days != 495 {
				t.Fatalf("%+v", p)
			}
			got := p.Clusters[0]
			var codes []finding.Code
			for _, f := range got.Blockers {
				codes = append(codes, f.Code)
				if SourceOf(f.Code) == "" {
					t.Errorf("%s has no source", f.Code)
				}
			}
			slices.Sort(codes)
			slices.Sort(c.blocks)
			if !slices.Equal(codes, c.blocks) || got.Ready != (len(c.blocks) == 0) {
				t.Errorf("blockers %v, expected %v", codes, c.blocks)
			}
			text := ""
			for _, s := range got.Steps {
				text += s.Title + "\n" + s.Why + "\n" + strings.Join(s.Commands, "\n") + "\n"
				if s.Source == "" || s.Phase == "" || s.Title == "" {
					t.Errorf("a step lacks something: %+v", s)
				}
			}
			if strings.Count(text, "--network-plugin-mode overlay") != 1 {
				t.Errorf("not one command starts the migration:\n%s", text)
			}
			rest := text
			for _, want := range c.says {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Errorf("no %q after the others in\n%s", want, text)
				}
				rest = after
			}
		})
	}
}

// TestWork: the waiting is what the settings of the pools allow at most.
func TestWork(t *testing.T) {
	for _, c := range []struct {
		pool          object
		batches, wait int
	}{
		{object{}, 3, 90}, // 10 % of 3 is one node, 30 minutes each
		{object{"maxSurge": "2"}, 2, 60},
		{object{"maxSurge": "100%", "drainTimeoutInMinutes": 10}, 1, 10},
		{object{"nodeSoakDurationInMinutes": 5}, 3, 105},
	} {
		w := newWorld()
		w.pool()["upgradeSettings"] = c.pool
		got := w.plan(t).Clusters[0].Work
		if got.Nodes != 3 || got.Batches != c.batches || got.WaitMinutes != c.wait {
			t.Errorf("%v: %+v", c.pool, got)
		}
	}
}

// TestNotes: the plan says what happens to the table, to IPv6, and what only people know.
func TestNotes(t *testing.T) {
	w := newWorld()
	w.cluster["properties"].(object)["networkProfile"].(object)["podCidrs"] =
		list{"10.244.0.0/16", "fd00:244::/64"}
	w.set("nodeProvisioningProfile", object{"mode": "Auto"})
	got := w.plan(t).Clusters[0]
	raw, _ := json.Marshal(got)
	for _, want := range []string{"There is no way back", "removes the pod routes from route " +
		"table shop-rt and leaves", "copies of the pod routes in appgw-rt stay", "IPv6 does not " +
		"work until", "AKSNodeClass", "azure-ip-masq-agent", "ExpressRoute", "with Helm"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("no %q in %s", want, raw)
		}
	}
}

// TestOrder: ready clusters come first, and among them the smallest.
func TestOrder(t *testing.T) {
	cluster := func(name string, nodes, blockers int) Cluster {
		return Cluster{Name: name, Work: Work{Nodes: nodes},
			Blockers: make([]finding.Finding, blockers)}
	}
	all := []Cluster{cluster("d", 3, 2), cluster("c", 9, 0), cluster("b", 3, 0),
		cluster("a", 3, 0), cluster("e", 1, 1)}
	slices.SortFunc(all, compareOrder)
	order := ""
	for _, c := range all {
		order += c.Name
	}
	if order != "abced" {
		t.Error(order)
	}
}

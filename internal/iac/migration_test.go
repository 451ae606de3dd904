package iac

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
)

// clusterPlan is the real plan that replaces a cluster, with another change of it: actions, what
// forces a replacement, and the values that differ afterwards from those before.
func clusterPlan(t *testing.T, actions []any, paths []any, before, after func(map[string]any),
) map[string]any {
	p := load(t, "s15-pod-cidr-replaces-cluster")
	for _, r := range p["resource_changes"].([]any) {
		r := r.(map[string]any)
		if r["type"] != tfCluster {
			continue
		}
		change := r["change"].(map[string]any)
		change["actions"], change["replace_paths"] = actions, paths
		if paths == nil {
			delete(change, "replace_paths")
			delete(r, "action_reason")
		}
		copied := map[string]any{}
		for k, v := range change["before"].(map[string]any) {
			copied[k] = v
		}
		profile := map[string]any{}
		for k, v := range copied["network_profile"].([]any)[0].(map[string]any) {
			profile[k] = v
		}
		copied["network_profile"] = []any{profile}
		change["after"] = copied
		if before != nil {
			before(change["before"].(map[string]any))
			for k, v := range change["before"].(map[string]any) {
				if k != "network_profile" {
					copied[k] = v
				}
			}
		}
		after(copied)
	}
	return p
}

func profileOf(values map[string]any) map[string]any {
	return values["network_profile"].([]any)[0].(map[string]any)
}

// TestMigrationPlans: a plan that takes a cluster off kubenet in place says that it starts the
// migration, and what that needs; a plan that replaces the cluster for it is an error with a
// repair. Each has a near miss.
func TestMigrationPlans(t *testing.T) {
	overlay := func(v map[string]any) {
		profileOf(v)["network_plugin"], profileOf(v)["network_plugin_mode"] = "azure", "overlay"
	}
	plugin := []any{[]any{"network_profile", 0, "network_plugin"}}
	const inPlace = "cluster aksD leaves kubenet: this starts the migration to overlay, which " +
		"cannot be undone"
	for _, c := range []struct {
		name          string
		actions       []any
		paths         []any
		before, after func(map[string]any)
		code          finding.Code
		message       string
		evidence, fix string
		repairs       int
	}{
		{name: "in place, azurerm 5.2", actions: []any{"update"}, after: overlay,
			code: finding.IaCMigrates, message: inPlace,
			evidence: "no subnet outside the cluster has its route table",
			fix:      "routekeeper migrate plan aksD"},
		{name: "in place, without what it needs", actions: []any{"update"},
			before: func(v map[string]any) {
				v["identity"] = []any{map[string]any{"type": "SystemAssigned"}}
				v["kubernetes_version"] = "1.26.3"
				profileOf(v)["network_policy"] = "calico"
			}, after: func(v map[string]any) {
				overlay(v)
				profileOf(v)["network_policy"] = "calico"
			},
			code: finding.IaCMigrates, message: inPlace,
			evidence: "it needs a user-assigned identity, and has SystemAssigned | it needs " +
				"Kubernetes 1.27 or later, and has 1.26.3 | it needs to have no network policy " +
				"engine, and has calico | ",
			fix: "routekeeper migrate plan aksD"},
		{name: "another update", actions: []any{"update"},
			after: func(v map[string]any) { v["tags"] = map[string]any{"a": "b"} }},
		{name: "to Azure CNI without overlay, which AKS refuses", actions: []any{"update"},
			after: func(v map[string]any) { profileOf(v)["network_plugin"] = "azure" }},
		{name: "replaced, azurerm 4", actions: []any{"delete", "create"}, paths: plugin,
			after: overlay, code: finding.IaCDestroys,
			message: "cluster aksD is destroyed and created again, although AKS would migrate it " +
				"in place: a change of network_profile[0].network_plugin forces it",
			fix: "plan with azurerm 5.2 or newer, which updates the cluster in place; or migrate " +
				"with az aks update, with lifecycle { ignore_changes = [network_profile] } in " +
				"azurerm_kubernetes_cluster.k", repairs: 1},
		{name: "replaced for the pod CIDR, too", actions: []any{"delete", "create"},
			paths: []any{[]any{"network_profile", 0, "pod_cidr"}},
			after: func(v map[string]any) {
				overlay(v)
				profileOf(v)["pod_cidr"] = "10.246.0.0/16"
			}, code: finding.IaCDestroys,
			message: "cluster aksD is destroyed and created again, although AKS would migrate it " +
				"in place: a change of network_profile[0].pod_cidr forces it",
			fix: "keep pod_cidr as it is", repairs: 1},
		{name: "replaced for its subnet", actions: []any{"delete", "create"},
			paths: []any{[]any{"default_node_pool", 0, "vnet_subnet_id"}},
			after: func(map[string]any) {}, code: finding.IaCDestroys,
			message: "cluster aksD is destroyed and created again: a change of " +
				"default_node_pool[0].vnet_subnet_id forces it",
			fix: "keep default_node_pool[0].vnet_subnet_id as it is"},
	} {
		data := dump(t, clusterPlan(t, c.actions, c.paths, c.before, c.after))
		hostilePlan(data)
		r, err := readPlain("plan.json", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		found := r.Findings(Known{})
		if c.code == "" {
			if len(found) > 0 {
				t.Errorf("%s: %+v", c.name, found)
			}
			continue
		}
		if len(found) != 1 || found[0].Code != c.code || found[0].Message != c.message ||
			!strings.Contains(strings.Join(found[0].Evidence, " | ")+" | ", c.evidence) ||
			!strings.Contains(found[0].Fix+found[0].Advice, c.fix) {
			t.Errorf("%s: %+v", c.name, found)
			continue
		}
		repaired := 0
		for _, repair := range second(r.Repairs(Known{}, finding.Info)) {
			if repair != nil && repair.Ignore == "network_profile" {
				repaired++
			}
		}
		if repaired != c.repairs {
			t.Errorf("%s: %d repairs", c.name, repaired)
		}
	}
}

func second[A, B any](_ A, b B) B { return b }

// TestWhatIfMigration: a deployment that takes a cluster off kubenet starts the migration; one that
// AKS refuses is noted, and one that changes something else is not.
func TestWhatIfMigration(t *testing.T) {
	const id = "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/g/providers/" +
		"Microsoft.ContainerService/managedClusters/shop"
	doc := func(profile string) string {
		plugin, rest, _ := strings.Cut(profile, " ")
		mode, cidr, _ := strings.Cut(rest, " ")
		return fmt.Sprintf(`{"id":%q,"name":"shop","identity":{"type":"SystemAssigned"},`+
			`"properties":{"kubernetesVersion":"1.33.5","networkProfile":{"networkPlugin":%q,`+
			`"networkPluginMode":%q,"podCidr":%q}}}`, id, plugin, mode, cidr)
	}
	const needs = "needs a user-assigned identity"
	for _, c := range []struct {
		before, after string
		want          finding.Code
		says          string
	}{
		{"kubenet", "azure overlay", finding.IaCMigrates, needs},
		{"kubenet  10.244.0.0/16", "azure overlay 10.244.0.0/16", finding.IaCMigrates, needs},
		{"kubenet  10.244.0.0/16", "azure overlay 10.246.0.0/16", finding.IaCMigrates,
			"its pod CIDR must stay 10.244.0.0/16, and becomes 10.246.0.0/16"},
		{"kubenet", "azure", finding.IaCNote, "AKS refuses this change: from kubenet, " +
			"networkPlugin changes to azure only with networkPluginMode overlay"},
		{"kubenet", "kubenet overlay", finding.IaCNote, "overlay is a mode of networkPlugin azure"},
		{"azure overlay", "kubenet", finding.IaCNote, "no cluster can change to kubenet"},
		{"azure", "azure overlay", "", ""}, {"kubenet", "kubenet", "", ""},
	} {
		r := readWhatIf(t, File{Name: "whatif.json", Data: []byte(fmt.Sprintf(
			`{"status":"Succeeded","changes":[{"resourceId":%q,"changeType":"Modify",`+
				`"before":%s,"after":%s}]}`, id, doc(c.before), doc(c.after)))})
		found := r.Findings(Known{})
		if c.want == "" && len(found) == 0 {
			continue
		}
		if len(found) != 1 || found[0].Code != c.want ||
			!strings.Contains(found[0].Message+strings.Join(found[0].Evidence, " "), c.says) {
			t.Errorf("%s to %s: %+v", c.before, c.after, found)
		}
	}
}

// TestNetworkReplaced: a subnet whose network is renamed or replaced is deleted with its network;
// one that is renamed alone is deleted while its network stays.
func TestNetworkReplaced(t *testing.T) {
	const net = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v"
	vnet := func(name string) string {
		return fmt.Sprintf(`{"id":%q,"name":%q,"subnet":[]}`, net, name)
	}
	subnet := func(name, of string) string {
		return fmt.Sprintf(`{"id":"%s/subnets/aks","name":%q,"virtual_network_name":%q}`, net, name,
			of)
	}
	for name, c := range map[string]struct{ changes, want string }{
		"renamed": {changes(tfVNet, "v", "delete,create", vnet("v"), vnet("w"),
			`,"replace_paths":[["name"]]`) + "," + changes(tfSubnet, "s", "delete,create",
			subnet("aks", "v"), subnet("aks", "w")),
			"subnet v/aks is deleted with its network: network v is renamed to w, which deletes " +
				"it and creates another"},
		"replaced": {changes(tfVNet, "v", "delete,create", vnet("v"), vnet("v"),
			`,"replace_paths":[["location"]]`) + "," + changes(tfSubnet, "s", "delete,create",
			subnet("aks", "v"), subnet("aks", "v")),
			"subnet v/aks is deleted with its network: network v is deleted and created again: " +
				"a change of location forces it"},
		"the subnet alone": {changes(tfSubnet, "s", "delete,create", subnet("aks", "v"),
			subnet("new", "v")), "subnet v/aks is deleted while its network stays: it is " +
			"renamed to new, which deletes it and creates another"},
	} {
		r, err := readPlain("plan",
			strings.NewReader(`{"format_version":"1.2","resource_changes":[`+c.changes+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		found := r.Findings(Known{Carriers: []Carrier{Named("aks", "it carries pods")}})
		if len(found) != 1 || found[0].Code != finding.IaCRecreates || found[0].Message != c.want {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

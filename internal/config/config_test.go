package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

const (
	cluster = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/shop-rg/providers/Microsoft.ContainerService/managedClusters/shop"
	tables  = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg/providers/Microsoft.Network/routeTables/"
	subnets = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg/providers/Microsoft.Network/virtualNetworks/hub/subnets/"
)

// hub is a document without a cluster.
const hub = "apiVersion: routekeeper.dev/v1alpha1\nkind: ClusterRoutes\nmetadata: {name: hub}\n" +
	"spec:\n  guard:\n    subnets:\n    - {subnetID: " + subnets + "shared, routeTableID: " + tables +
	"hub-rt}\n"

func doc(name, rest string) string {
	return fmt.Sprintf("apiVersion: routekeeper.dev/v1alpha1\nkind: ClusterRoutes\nmetadata: "+
		"{name: %s}\nspec:\n  clusterID: %s-%s\n%s", name, cluster, name, rest)
}

func TestRead(t *testing.T) {
	file := File{Name: "routes.yaml", Data: []byte("\ufeff# two clusters\n---\n" + doc("a", `
  guard:
    subnets:
      - {subnetID: `+subnets+`gw, routeTableID: `+tables+`gw-rt/}
  targets:
    - routeTableID: `+tables+`gw-rt
      policy: UpsertOnly
    - routeTableID: `+tables+`hub-rt
`) + "---\n---\n# nothing here\n--- # and the second\n" +
		doc("b", "  podCIDRs: [10.244.0.0/16, \"fd12::/64\"]\n  targets: [{routeTableID: "+tables+
			"gw-rt}]\n"))}
	configs, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(configs) != 2 {
		t.Fatalf("%d documents, want 2", len(configs))
	}
	a := configs[0].Spec
	if a.Source != v1alpha1.SourceRouteTable || a.Guard.Mode != v1alpha1.GuardEnforce ||
		a.Guard.OnOtherTable != v1alpha1.OtherTableReport ||
		a.Targets[0].Policy != v1alpha1.PolicyUpsertOnly ||
		a.Targets[1].Policy != v1alpha1.PolicySync || a.Targets[1].MaxRoutes != 400 {
		t.Errorf("defaults and values: %+v", a)
	}
	if got := a.Guard.Subnets[0].RouteTableID; got != tables+"gw-rt" {
		t.Errorf("the ID was not cleaned: %s", got)
	}
}

// TestMistakes shows that every mistake is one line with the file, the line, the field and what was
// expected.
func TestMistakes(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a group of a route server", doc("a", "  guard: {subnets: [{subnetID: "+subnets+
			"routeserversubnet, networkSecurityGroupID: "+strings.Replace(tables, "routeTables",
			"networkSecurityGroups", 1)+"nsg}]}\n"), "networkSecurityGroupID: Azure refuses a " +
			"network security group on a subnet called RouteServerSubnet, expected none"},
		{"unknown field", doc("a", "  targts: []\n"),
			`c.yaml:6:3: spec.targts: unknown field, expected one of clusterID, source, routeTableID, podCIDRs, guard, targets`},
		{"unknown field deep", doc("a", "  targets:\n    - routeTableID: "+tables+
			"x\n      polcy: Sync\n"),
			`c.yaml:8:7: spec.targets[0].polcy: unknown field, expected one of routeTableID, policy, maxRoutes`},
		{"Windows line endings", strings.ReplaceAll("# a\n# b\n"+doc("a", "  targts: []\n"), "\n",
			"\r\n"), `c.yaml:8:3: spec.targts: unknown field, expected one of clusterID, source, routeTableID, podCIDRs, guard, targets`},
		{"field in the wrong case", "apiversion: x\n",
			`c.yaml:1:1: apiversion: unknown field, expected one of apiVersion, kind, metadata, spec`},
		{"kind", "apiVersion: routekeeper.dev/v1alpha1\nkind: Routes\n",
			`c.yaml:2:7: kind: unknown value "Routes", expected ClusterRoutes`},
		{"no kind", "apiVersion: routekeeper.dev/v1alpha1\n",
			`c.yaml:1:11: kind: missing, expected ClusterRoutes`},
		{"version", "apiVersion: v1\nkind: ClusterRoutes\n",
			`c.yaml:1:13: apiVersion: unknown value "v1", expected routekeeper.dev/v1alpha1`},
		{"name", strings.Replace(doc("a", ""), "name: a", "name: A_b", 1),
			`c.yaml:3:18: metadata.name: "A_b" is not a name, expected at most 63 of a-z, 0-9 and -`},
		{"no cluster", "apiVersion: routekeeper.dev/v1alpha1\nkind: ClusterRoutes\nmetadata: " +
			"{name: a}\nspec: {source: RouteTable}\n",
			`c.yaml:4:7: spec.clusterID: missing, expected the resource ID of a Microsoft.ContainerService/managedClusters, or guard.subnets or egress without this field`},
		{"an empty cluster", strings.Replace(hub, "spec:", "spec:\n  clusterID: \"\"", 1),
			`c.yaml:5:14: spec.clusterID: missing, expected the resource ID`},
		{"the key of no cluster",
			strings.Replace(hub, "spec:", "spec:\n  clusterID: /documents/hub", 1),
			`c.yaml:5:14: spec.clusterID: missing, expected the resource ID`},
		{"targets without a cluster", hub + "  targets: [{routeTableID: " + tables + "x}]\n",
			`c.yaml:8:12: spec.targets: it needs a cluster: they get the routes to its pods; expected spec.clusterID, too, or only spec.guard.subnets and spec.egress`},
		{"a table without a cluster", hub + "  routeTableID: " + tables + "x\n",
			`c.yaml:8:17: spec.routeTableID: it needs a cluster: it is the cluster's route table`},
		{"pods without a cluster", hub + "  podCIDRs: [10.244.0.0/16]\n",
			`c.yaml:8:13: spec.podCIDRs: it needs a cluster`},
		{"nodes without a cluster", hub + "  source: Nodes\n",
			`c.yaml:8:11: spec.source: it needs a cluster`},
		{"removal without a cluster", hub + "  onRemoval: Prune\n",
			`c.yaml:8:14: spec.onRemoval: it needs a cluster`},
		{"AKS's table without a cluster",
			strings.Replace(hub, "hub-rt", "aks-agentpool-12345678-routetable", 1), `c.yaml:7:`},
		{"bad ID", doc("a", "  routeTableID: gw-rt\n"),
			`c.yaml:6:17: spec.routeTableID: "gw-rt" is not a resource ID: it does not start with /subscriptions/; expected /subscriptions/…/providers/Microsoft.Network/routeTables/…`},
		{"ID of another type", doc("a", "  targets:\n  - routeTableID: "+subnets+"gw\n"),
			`c.yaml:7:19: spec.targets[0].routeTableID: "` + subnets +
				`gw" is the ID of a Microsoft.Network/virtualNetworks/subnets, expected a Microsoft.Network/routeTables`},
		{"bad enum", doc("a", "  guard: {mode: On}\n"),
			`c.yaml:6:17: spec.guard.mode: unknown value "On", expected Enforce, Observe or Off`},
		{"enum in the wrong case",
			doc("a", "  targets: [{routeTableID: "+tables+"x, policy: sync}]\n"),
			`spec.targets[0].policy: unknown value "sync", expected Sync, UpsertOnly or Observe`},
		{"own table as target",
			doc("a", "  routeTableID: "+tables+"own\n  targets:\n    - routeTableID: "+
				strings.ToUpper(tables)+"OWN\n"),
			`c.yaml:8:21: spec.targets[0].routeTableID: it is the route table of the cluster "a" (c.yaml:6), expected another one: routekeeper never writes a cluster's route table`},
		{"another cluster's own table as target", doc("a", "  targets: [{routeTableID: "+tables+
			"own}]\n") + "---\n" + doc("b", "  routeTableID: "+tables+"own\n"),
			`spec.targets[0].routeTableID: it is the route table of the cluster "b" (c.yaml:13)`},
		{"a managed table as target", doc("a", "  targets: [{routeTableID: "+tables+
			"aks-agentpool-12345678-routetable}]\n"),
			`spec.targets[0].routeTableID: "aks-agentpool-12345678-routetable" is the name of a table that AKS made`},
		{"target twice", doc("a", "  targets: [{routeTableID: "+tables+"x}, {routeTableID: "+tables+
			"X}]\n"), `spec.targets[1].routeTableID: listed twice, expected each target once`},
		{"the whole internet", doc("a", "  podCIDRs: [0.0.0.0/0]\n"),
			`c.yaml:6:14: spec.podCIDRs[0]: 0.0.0.0/0 is too wide for a pod CIDR, expected /8 or longer`},
		{"the whole internet, v6", doc("a", "  podCIDRs: [\"::/0\"]\n"),
			`spec.podCIDRs[0]: ::/0 is too wide for a pod CIDR, expected /32 or longer`},
		{"host bits", doc("a", "  podCIDRs: [10.244.1.0/16]\n"),
			`spec.podCIDRs[0]: 10.244.1.0/16 has host bits set, expected 10.244.0.0/16`},
		{"no prefix", doc("a", "  podCIDRs: [10.244.0.0]\n"),
			`spec.podCIDRs[0]: "10.244.0.0" is not a prefix, expected one such as 10.244.0.0/16`},
		{"overlap", doc("a", "  podCIDRs: [10.244.0.0/16, 10.244.4.0/24]\n"),
			`spec.podCIDRs[1]: 10.244.4.0/24 overlaps 10.244.0.0/16, expected separate prefixes`},
		{"half a route", doc("a", "  targets: [{routeTableID: "+tables+"x, maxRoutes: 1.5}]\n"),
			`spec.targets[0].maxRoutes: found 1.5, expected a whole number`},
		{"routes as text", doc("a", "  targets: [{routeTableID: "+tables+"x, maxRoutes: many}]\n"),
			`spec.targets[0].maxRoutes: found the text "many", expected a whole number`},
		{"limit", doc("a", "  targets: [{routeTableID: "+tables+"x, maxRoutes: 1001}]\n"),
			`spec.targets[0].maxRoutes: 1001 is out of range, expected 1 to 1000`},
		{"mapping for list", doc("a", "  targets: {routeTableID: x}\n"),
			`spec.targets: found a mapping, expected a list`},
		{"list for mapping", doc("a", "  guard: [x]\n"),
			`spec.guard: found a list, expected a mapping`},
		{"number for text", doc("a", "  source: 3\n"), `spec.source: found 3, expected text`},
		{"key twice", doc("a", "  source: RouteTable\n  source: RouteTable\n"),
			`c.yaml:7:3: not valid YAML: mapping key "source" already defined`},
		{"alias", doc("a", "  podCIDRs: &x [*x]\n"),
			`spec.podCIDRs[0]: aliases and merge keys are not supported`},
		{"merge key", doc("a", "  guard: {<<: {mode: Off}}\n"),
			`c.yaml:6:11: spec.guard: aliases and merge keys are not supported: write out the value`},
		{"key twice", doc("a", "") + "---\n" + doc("b", "  targets: []\n  targets: []\n"),
			`c.yaml:13:3: not valid YAML: mapping key "targets" already defined at line 12`},
		{"UTF-16", "\xff\xfea\x00",
			`c.yaml: not UTF-8 text (a file redirected by Windows PowerShell is UTF-16: save it as UTF-8)`},
		{"octal", doc("a", "  targets: [{routeTableID: "+tables+"x, maxRoutes: 010}]\n"),
			`spec.targets[0].maxRoutes: 010 is not written in decimal digits`},
		{"no room at all", doc("a", "  targets: [{routeTableID: "+tables+"x, maxRoutes: 0}]\n"),
			`spec.targets[0].maxRoutes: 0 is out of range, expected 1 or more`},
		{"less than a node", doc("a", "  podCIDRs: [10.244.0.0/25]\n"),
			`spec.podCIDRs[0]: 10.244.0.0/25 is smaller than the pod CIDR of one node, expected /24 or shorter`},
		{"no GUID", doc("a", "  routeTableID: "+
			"/subscriptions/prod/resourceGroups/g/providers/Microsoft.Network/routeTables/t\n"),
			`spec.routeTableID: "prod" is not a subscription ID, expected one such as 11111111-`},
		{"a novel", doc("a", "  routeTableID: "+strings.Repeat("x", 5000)+"\n"),
			strings.Repeat("x", 300) + `"… is not a resource ID`},
		{"not YAML", "spec: [\n", `c.yaml:1:7: `},
		{"empty", "# nothing\n", `c.yaml: found no document, expected a ClusterRoutes`},
		{"a list", "- a\n", `c.yaml:1:1: found a list, expected a mapping`},
		{"text", "hello\n", `c.yaml:1:1: found the text "hello", expected a mapping`},
		{"same name", doc("a", "") + "---\n" + strings.Replace(doc("a", ""), "shop-a", "shop-b", 1),
			`c.yaml:9:18: metadata.name: "a" is taken by c.yaml:3, expected a unique name`},
		{"same cluster", doc("a", "") + "---\n" + strings.Replace(doc("b", ""), "shop-b", "SHOP-A",
			1), `c.yaml:11:14: spec.clusterID: the cluster is already configured at c.yaml:5, expected one document for each cluster`},
		{"guard twice", doc("a", "  guard: {subnets: [{subnetID: "+subnets+"x, routeTableID: "+
			tables+"x}]}\n") + "---\n" + doc("b", "  guard: {subnets: [{subnetID: "+subnets+
			"X, routeTableID: "+tables+"y}]}\n"),
			`c.yaml:6 names another table for the same subnet`},
		{"second document is the bad one", doc("a", "") + "---\n---\n" + doc("b", "  nope: 1\n"),
			`c.yaml:13:3: spec.nope: unknown field`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			configs, err := Read(File{Name: "c.yaml", Data: []byte(tt.text)})
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("error %v (%T) and %d configs, want an *Error", err, err, len(configs))
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("\n got %s\nwant %s", err, tt.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(doc("a", "  targets: [{routeTableID: "+tables+
		"x, policy: Sync, maxRoutes: 3}]\n")))
	f.Add([]byte("---\n---\n# x\n--- {a: [1, 2.5, null, *x]}\n...\nb: c\n"))
	f.Add([]byte("spec: &a\n  <<: *a\n  guard: !!str x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		configs, err := Read(File{Name: "f.yaml", Data: data})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("more than one line: %q", err)
			}
			return
		}
		for _, c := range configs {
			if c.Kind != v1alpha1.Kind || c.Spec.ClusterID == "" || c.Spec.Source == "" {
				t.Fatalf("accepted without what is required: %+v", c)
			}
		}
	})
}

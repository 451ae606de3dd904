package config

import (
	"errors"
	"strings"
	"testing"
)

const shop = "apiVersion: routekeeper.dev/v1alpha1\nkind: Cluster\nmetadata: {name: shop}\nspec:\n"

// TestClusterDefaults: what is left out is filled in, and only that.
func TestClusterDefaults(t *testing.T) {
	read := func(text string) *Cluster {
		t.Helper()
		c, err := ReadCluster(File{"c.yaml", []byte(shop + text)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	s := read("  applicationGateway: {}\n").Spec
	if len(s.Pools) != 1 || s.Pools[0].Name != "system" || s.Pools[0].VMSize != "Standard_D4s_v5" ||
		s.Pools[0].Count != 3 || *s.ApplicationGateway.MinCapacity != 0 ||
		s.ApplicationGateway.MaxCapacity != 10 {
		t.Errorf("%+v %+v", s, s.ApplicationGateway)
	}
	s = read("  applicationGateway:\n  pools: [{name: a, minCount: 2}, {name: b, count: 1, " +
		"vmSize: x}]\n").Spec
	if s.ApplicationGateway != nil || s.Pools[0].Count != 2 || s.Pools[1].Count != 1 ||
		s.Pools[1].VMSize != "x" {
		t.Errorf("%+v", s)
	}
	c := read("  location: x\n  pools:\n    - name: a\n      count: 7\n")
	for field, want := range map[string]string{
		"spec.pools[0].count":    "c.yaml:8:14: spec.pools[0].count: bad",
		"metadata.name":          "c.yaml:3:18: ",
		"spec.pools[0].maxCount": "c.yaml:7:", "spec.nodeSubnet": "c.yaml:5:",
	} {
		if got := c.Fault(field, "bad").Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestClusterMistakes shows that every mistake is one line with the file, the line and the field.
func TestClusterMistakes(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"unknown field", shop + "  nodesubnet: x\n",
			`c.yaml:5:3: spec.nodesubnet: unknown field, expected one of subscription, resourceGroup, `},
		{"unknown field of a pool", shop + "  pools:\n  - {name: a, size: x}\n",
			`c.yaml:6:15: spec.pools[0].size: unknown field, expected one of name, vmSize, count, `},
		{"doubled field", shop + "  egress: a\n  egress: b\n",
			`c.yaml:6:3: not valid YAML: mapping key "egress" already defined at line 5`},
		{"version as a number", shop + "  kubernetesVersion: 1.30\n",
			`c.yaml:5:22: spec.kubernetesVersion: found 1.30, expected text: write "1.30"`},
		{"zone as a number", shop + "  pools: [{name: a, zones: [1]}]\n",
			`spec.pools[0].zones[0]: found 1, expected text: write "1"`},
		{"count as text", shop + "  pools: [{name: a, count: \"3\"}]\n",
			`spec.pools[0].count: found the text "3", expected a whole number`},
		{"half a node", shop + "  pools: [{name: a, count: 2.5}]\n",
			`spec.pools[0].count: found 2.5, expected a whole number`},
		{"no node", shop + "  pools: [{name: a, count: 0}]\n",
			`spec.pools[0].count: 0 is out of range, expected 1 or more`},
		{"yes for true", shop + "  private: yes\n",
			`c.yaml:5:12: spec.private: found the text "yes", expected true or false`},
		{"true for a gateway", shop + "  applicationGateway: true\n",
			`spec.applicationGateway: found true, expected a mapping`},
		{"two documents", shop + "---\n" + shop,
			`c.yaml:6:1: a second document, expected one Cluster`},
		{"two documents of two kinds", shop + "--- {kind: ClusterRoutes}\n",
			`c.yaml:5:6: a second document, expected one Cluster`},
		{"ClusterRoutes", doc("a", ""),
			`c.yaml:2:7: kind: unknown value "ClusterRoutes", expected Cluster`},
		{"no kind", strings.Replace(shop, "kind: Cluster\n", "", 1),
			`kind: missing, expected Cluster`},
		{"no version", strings.Replace(shop, "apiVersion", "# ", 1),
			`apiVersion: missing, expected routekeeper.dev/v1alpha1`},
		{"empty", "", `c.yaml: found no document, expected a Cluster`},
		{"comments only", "---\n# x\n---\n", `c.yaml: found no document, expected a Cluster`},
		{"text", "kind\n", `c.yaml:1:1: found the text "kind", expected a mapping`},
		{"huge", shop + strings.Repeat("# novel\n", 10_000),
			`c.yaml: longer than 65536 bytes, expected one Cluster`},
		{"deep lists", shop + "  pools: " + strings.Repeat("[", 60_000),
			`c.yaml:5:42: values are nested more than 32 deep`},
		{"deep mappings", shop + "  pools: " + strings.Repeat("{a: ", 15_000),
			`c.yaml:5:138: values are nested more than 32 deep`},
		{"deep dashes", shop + "  pools:\n  " + strings.Repeat("- ", 30_000),
			`c.yaml:6:67: values are nested more than 32 deep`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ReadCluster(File{"c.yaml", []byte(tt.text)})
			var e *Error
			if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), tt.want) &&
				!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("\n got %v\nwant %s", err, tt.want)
			}
		})
	}
	// The other reader names the kind too.
	_, err := Read(File{"c.yaml", []byte(shop)})
	if want := `c.yaml:2:7: kind: unknown value "Cluster", expected ClusterRoutes`; err == nil ||
		err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

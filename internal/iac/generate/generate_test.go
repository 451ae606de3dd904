package generate

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

const shopSub = "/subscriptions/11111111-1111-1111-1111-111111111111"

func rightsOf(change func(*Rights)) Rights {
	net := arm.ID(shopSub + "/resourceGroups/net-rg/providers/Microsoft.Network")
	table := arm.ID(net + "/routeTables/appgw-rt")
	gateway := GuardedSubnet{net + "/virtualNetworks/shop-vnet/subnets/appgw", []arm.ID{table}}
	cluster := func(name string) arm.ID {
		return arm.ID(shopSub + "/resourceGroups/" + name + "-rg/providers/" + arm.TypeCluster +
			"/" + name)
	}
	hub := arm.ID("/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/hub-rg/providers/" +
		arm.TypeRouteTable + "/hub-rt")
	// Two clusters: one with a route table in the config, one whose table is discovered and whose
	// nodes are read. The third only observes.
	r := Rights{Name: "routekeeper", Location: "westeurope", Provider: 5,
		Clusters: []ManagedCluster{
			{Name: "shop", Cluster: cluster("shop"), Guarded: true, Table: net +
				"/routeTables/shop-rt",
				Subnets: []GuardedSubnet{gateway}, Targets: []arm.ID{table}},
			{Name: "pay", Cluster: cluster("pay"), Guarded: true, FromNodes: true,
				Targets: []arm.ID{arm.ID(strings.ToUpper(string(table))), hub}},
			{Name: "lab", Cluster: cluster("lab")},
		}}
	if change != nil {
		change(&r)
	}
	return r
}

// hubOf returns a document without a cluster that names what the cluster's config names.
func hubOf(k ManagedCluster) []ManagedCluster {
	return []ManagedCluster{{Name: "hub", None: true, Cluster: k.Subnets[0].Subnet, Guarded: true,
		Subnets: k.Subnets, Targets: k.Targets}}
}

// writer writes code: a Blueprint, or Rights.
type writer interface {
	Terraform() ([]Output, error)
	Bicep() ([]Output, error)
	ARM() ([]Output, error)
}

// order is an input of the tests; the output of golden ones is in testdata.
type order struct {
	name   string
	writer writer
	// provider is the major version of azurerm.
	provider int
	golden   bool
	cluster  *build.Cluster // nil for rights
}

// orders are rights, and all variants of clusters for both versions of the provider and all hosts.
func orders(t *testing.T) []order {
	out := []order{
		{"rights", rightsOf(nil), 5, true, nil},
		{"rights-v4", rightsOf(func(r *Rights) { r.Provider = 4 }), 4, false, nil},
		{"rights-observing", rightsOf(func(r *Rights) { r.Clusters = r.Clusters[2:] }), 5, false,
			nil},
		{"rights-hub", rightsOf(func(r *Rights) { r.Clusters = hubOf(r.Clusters[0]) }), 5, true,
			nil},
	}
	golden := map[string]bool{"kubenet-gateway for 5 aks": true,
		"kubenet-egress for 4 container-apps": true,
		"pod-subnet-static-all for 5 ":        true,
		"existing-kubenet-table for 5 aks":    true}
	for _, v := range variants(t) {
		for _, provider := range []int{4, 5} {
			for _, host := range append(Hosts(), "") {
				if host != "" && v.cluster.Blueprint != capacity.Kubenet ||
					v.found != nil && provider == 4 {
					continue
				}
				name := fmt.Sprintf("%s for %d %s", v.name, provider, host)
				out = append(out, order{strings.Trim(strings.ReplaceAll(name, " ", "-"), "-"),
					Blueprint{Cluster: v.cluster, Provider: provider, Host: host}, provider,
					golden[name], &v.cluster})
			}
		}
	}
	return out
}

// languages are the ways to write an order.
func (o order) languages() map[string]func() ([]Output, error) {
	return map[string]func() ([]Output, error){"terraform": o.writer.Terraform,
		"bicep": o.writer.Bicep, "arm": o.writer.ARM}
}

// written writes an order in a language.
func written(t *testing.T, language string, o order) []Output {
	t.Helper()
	files, err := o.languages()[language]()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestGolden compares the output with testdata/golden; -update writes it.
func TestGolden(t *testing.T) {
	for _, c := range orders(t) {
		if !c.golden {
			continue
		}
		for language := range c.languages() {
			dir := filepath.Join("testdata", "golden", language, c.name)
			var names []string
			for _, f := range written(t, language, c) {
				path := filepath.Join(dir, filepath.FromSlash(f.Name))
				names = append(names, path)
				if *update {
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, f.Text, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Error(err)
				} else if want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n")); !bytes.Equal(
					f.Text, want) {
					t.Errorf("%s is not what is written now: go test ./internal/iac/generate "+
						"-run Golden -update\n%s", path, f.Text)
				}
			}
			err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() && !slices.Contains(names, path) {
					t.Errorf("%s is not written any more", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// TestTerraformFormat checks the format with terraform fmt, if terraform is installed.
func TestTerraformFormat(t *testing.T) {
	t.Parallel()
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		t.Skipf("NOT RUN: terraform is not installed here (%v); the other tests compare with "+
			"hclwrite's format", err)
	}
	all := t.TempDir()
	for _, c := range orders(t) {
		dir := filepath.Join(all, c.name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range written(t, "terraform", c) {
			if err := os.WriteFile(filepath.Join(dir, f.Name), f.Text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	// One process for all: it takes most of a second to start.
	if out, err := exec.Command(terraform, "fmt", "-check", "-diff", "-recursive",
		all).CombinedOutput(); err != nil {
		t.Errorf("terraform fmt: %v\n%s", err, out)
	}
}

// TestRefused: input that could not be applied is refused, in one line.
func TestRefused(t *testing.T) {
	other := arm.ID("/subscriptions/33333333-3333-3333-3333-333333333333/resourceGroups/g/providers/" +
		arm.TypeCluster + "/c")
	all := variants(t)
	overlay := all[len(all)-1].cluster // in an existing network
	for _, c := range []struct {
		writer writer
		want   string
	}{
		{rightsOf(func(r *Rights) { r.Name = `x"${y}` }), "is not a valid name"},
		{rightsOf(func(r *Rights) { r.Name = "shop-" }), "is not a valid name"},
		{rightsOf(func(r *Rights) { r.Location = "West Europe" }), "is not a location"},
		{rightsOf(func(r *Rights) { r.Provider = 3 }), "version 3 of the azurerm provider is not " +
			"known, expected 4 or 5"},
		{rightsOf(func(r *Rights) { r.Clusters = nil }), "the config has no documents"},
		{rightsOf(func(r *Rights) { r.Clusters[1].Cluster = other }),
			"expected configs for one subscription"},
		{Blueprint{Cluster: all[0].cluster, Provider: 3},
			"version 3 of the azurerm provider is not known"},
		{Blueprint{Cluster: all[0].cluster, Provider: 5, Host: "vm"},
			`unknown host "vm", expected aks or container-apps`},
		{Blueprint{Cluster: overlay, Provider: 5, Host: HostAKS},
			"overlay has no pod routes to keep in sync"},
	} {
		for _, write := range []func() ([]Output, error){c.writer.Terraform, c.writer.Bicep,
			c.writer.ARM} {
			if _, err := write(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		}
	}
}

// TestRightsPage: docs/generate.md shows the generated roles.
func TestRightsPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/generate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range append(KeeperRoles(), CredentialsRole()) {
		var actions []string
		for _, a := range role.Actions {
			actions = append(actions, "`"+a.Action+"`")
		}
		if row := " | " + strings.Join(actions, ", ") + " |\n"; !strings.Contains(string(page),
			"\n| "+role.Name+" | ") || !strings.Contains(string(page), row) {
			t.Errorf("docs/generate.md does not show the role %s with%s", role.Name, row)
		}
	}
}

// TestRightsWithoutCluster: a document without a cluster, in another subscription, gets the rights
// on its subnets. Nothing takes it for a cluster.
func TestRightsWithoutCluster(t *testing.T) {
	hub := arm.ID("/subscriptions/33333333-3333-3333-3333-333333333333/resourceGroups/hub-rg/" +
		"providers/Microsoft.Network/virtualNetworks/hub/subnets/shared")
	r := rightsOf(func(r *Rights) {
		r.Clusters = append([]ManagedCluster{{Name: "no-cluster", None: true, Cluster: hub,
			Guarded: true, Subnets: []GuardedSubnet{{hub, nil}}}}, r.Clusters...)
	})
	for _, write := range []func() ([]Output, error){r.Terraform, r.Bicep, r.ARM} {
		files, err := write()
		if err != nil {
			t.Fatal(err)
		}
		all := ""
		for _, f := range files {
			all += string(f.Text)
		}
		if strings.Contains(all, "no-cluster") || !strings.Contains(all, "shared") {
			t.Errorf("%s", all)
		}
	}
}

package generate

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

const shopSub = "/subscriptions/11111111-1111-1111-1111-111111111111"

func orderOf(change func(*Order)) Order {
	o := Order{
		Name: "shop", Location: "westeurope", Plugin: "kubenet", Provider: 5, Network: true, Keeper: true,
		Space: netip.MustParsePrefix("10.240.0.0/16"), Pods: netip.MustParsePrefix("10.244.0.0/16"),
	}
	if change != nil {
		change(&o)
	}
	return o
}

// keptOrder is for two clusters: one whose own table is named, one whose table is discovered and that only observes its subnets.
func keptOrder(o *Order) {
	o.Name, o.Network = "routekeeper", false
	net := arm.ID(shopSub + "/resourceGroups/net-rg/providers/Microsoft.Network")
	gateway := KeptSubnet{net + "/virtualNetworks/shop-vnet/subnets/appgw", net + "/routeTables/appgw-rt"}
	o.Kept = []Kept{
		{
			Name: "shop", Cluster: shopSub + "/resourceGroups/shop-rg/providers/Microsoft.ContainerService/managedClusters/shop", Guarded: true,
			Table: net + "/routeTables/shop-rt", Subnets: []KeptSubnet{gateway}, Targets: []arm.ID{gateway.Table},
		},
		{
			Name: "pay", Cluster: shopSub + "/resourceGroups/pay-rg/providers/Microsoft.ContainerService/managedClusters/pay", Guarded: true,
			Targets: []arm.ID{arm.ID(strings.ToUpper(string(gateway.Table))), "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/hub-rg/providers/Microsoft.Network/routeTables/hub-rt"},
		},
		{Name: "lab", Cluster: shopSub + "/resourceGroups/lab-rg/providers/Microsoft.ContainerService/managedClusters/lab"},
	}
}

// orders are what the other tests look at; golden ones are kept as they are written.
var orders = []struct {
	name   string
	order  Order
	golden bool
}{
	{"kubenet", orderOf(nil), true},
	{"kubenet-egress-v4", orderOf(func(o *Order) { o.Provider, o.Egress = 4, netip.MustParseAddr("10.100.0.4") }), true},
	{"overlay", orderOf(func(o *Order) { o.Plugin, o.Keeper = "overlay", false }), true},
	{"overlay-egress-v4", orderOf(func(o *Order) {
		o.Plugin, o.Keeper, o.Provider, o.Egress = "overlay", false, 4, netip.MustParseAddr("10.100.0.4")
	}), false},
	{"network-v4", orderOf(func(o *Order) { o.Keeper, o.Provider = false, 4 }), false},
	{"kept", orderOf(keptOrder), true},
	{"kept-v4", orderOf(func(o *Order) { keptOrder(o); o.Provider = 4 }), false},
	{"kept-observing", orderOf(func(o *Order) { keptOrder(o); o.Kept = o.Kept[2:] }), false},
}

// written writes an order in a language.
func written(t *testing.T, language string, o Order) []Output {
	t.Helper()
	write := map[string]func(Order) ([]Output, error){"terraform": Order.Terraform, "bicep": Order.Bicep}[language]
	files, err := write(o)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestGolden compares all that is written with testdata/golden; -update writes it.
func TestGolden(t *testing.T) {
	for _, c := range orders {
		if !c.golden {
			continue
		}
		for _, language := range []string{"terraform", "bicep"} {
			dir := filepath.Join("testdata", "golden", language, c.name)
			files := written(t, language, c.order)
			var names []string
			for _, f := range files {
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
				} else if want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n")); !bytes.Equal(f.Text, want) {
					t.Errorf("%s is not what is written now: go test ./internal/iac -run Golden -update\n%s", path, f.Text)
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

// TestTerraformFormat lets terraform itself judge the format, where it is installed.
func TestTerraformFormat(t *testing.T) {
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		t.Skipf("NOT RUN: terraform is not installed here (%v); the other tests compare with hclwrite's format", err)
	}
	for _, c := range orders {
		dir := t.TempDir()
		for _, f := range written(t, "terraform", c.order) {
			if err := os.WriteFile(filepath.Join(dir, f.Name), f.Text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.Command(terraform, "fmt", "-check", "-diff", dir).CombinedOutput(); err != nil {
			t.Errorf("%s: terraform fmt: %v\n%s", c.name, err, out)
		}
	}
}

func TestRefusedOrders(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	for _, c := range []struct {
		change func(*Order)
		want   string
	}{
		{func(o *Order) { o.Name = `x"${y}` }, "is no name for it"},
		{func(o *Order) { o.Name = "shop-" }, "is no name for it"},
		{func(o *Order) { o.Location = "West Europe" }, "is no location"},
		{func(o *Order) { o.Plugin = "azure" }, `unknown plugin "azure", expected kubenet or overlay`},
		{func(o *Order) { o.Provider = 3 }, "version 3 is not known here, expected 4 or 5"},
		{func(o *Order) { o.Network, o.Keeper = false, false }, "neither"},
		{func(o *Order) { o.Plugin = "overlay" }, "nothing to keep"},
		{func(o *Order) { o.Space = prefix("10.240.0.0/24") }, "10.240.0.0/24 is no address space for it, expected an IPv4 prefix from /8 to /22"},
		{func(o *Order) { o.Space = prefix("10.240.0.1/16") }, "no address space"},
		{func(o *Order) { o.Pods = prefix("10.240.0.0/16") }, "the pod CIDR 10.240.0.0/16 overlaps the address space 10.240.0.0/16"},
		{func(o *Order) { o.Pods = prefix("fd00::/48") }, "no pod CIDR"},
		{func(o *Order) { o.Egress = addr("10.244.3.4") }, "a firewall cannot be at 10.244.3.4"},
		{func(o *Order) { o.Egress = addr("10.240.0.4") }, "a firewall cannot be at 10.240.0.4"},
		{func(o *Order) { o.Egress = addr("fd00::1") }, "a firewall cannot be at fd00::1"},
		{func(o *Order) {
			keptOrder(o)
			o.Kept[1].Cluster = "/subscriptions/33333333-3333-3333-3333-333333333333/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/c"
		}, "expected configs of one"},
	} {
		if _, err := orderOf(c.change).Terraform(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestLayout: whatever the sizes, nothing overlaps.
func TestLayout(t *testing.T) {
	for _, c := range []struct{ space, pods, nodes, gateway, services string }{
		{"10.240.0.0/16", "10.244.0.0/16", "10.240.0.0/20", "10.240.255.0/24", "10.0.0.0/16"},
		{"10.0.0.0/8", "172.16.0.0/16", "10.0.0.0/20", "10.255.255.0/24", "192.168.0.0/16"},
		{"192.168.4.0/22", "10.0.0.0/12", "192.168.4.0/24", "192.168.7.0/24", "172.16.0.0/16"},
		{"10.1.0.0/19", "10.0.0.0/20", "10.1.0.0/21", "10.1.31.0/24", "172.16.0.0/16"},
	} {
		l, err := orderOf(func(o *Order) { o.Space, o.Pods = netip.MustParsePrefix(c.space), netip.MustParsePrefix(c.pods) }).check()
		if err != nil || l.Nodes.String() != c.nodes || l.Gateway.String() != c.gateway || l.Services.String() != c.services || !l.Services.Contains(l.DNS) {
			t.Errorf("%s: nodes %s, gateway %s, services %s with DNS %s, %v", c.space, l.Nodes, l.Gateway, l.Services, l.DNS, err)
		}
	}
}

// TestRightsPage: docs/generate.md shows the roles that are written.
func TestRightsPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/generate.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range KeeperRoles() {
		var actions []string
		for _, a := range role.Actions {
			actions = append(actions, "`"+a.Action+"`")
		}
		if row := " | " + strings.Join(actions, ", ") + " |\n"; !strings.Contains(string(page), "\n| "+role.Name+" | ") || !strings.Contains(string(page), row) {
			t.Errorf("docs/generate.md does not show the role %s with%s", role.Name, row)
		}
	}
}

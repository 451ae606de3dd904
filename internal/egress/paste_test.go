package egress

import (
	"net/netip"
	"os"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"

	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands that they made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedRules: the command that adds a rule to a firewall or to its policy, for names and for a
// tag.
func TestPastedRules(t *testing.T) {
	nodes := []netip.Prefix{netip.MustParsePrefix("10.42.0.0/24")}
	for _, rename := range pastetest.Names() {
		named := func(id string) arm.ID { return arm.ID(pastetest.Rename(id, rename)) }
		const group = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/"
		own := &inventory.Firewall{}
		own.ID = named(group + "azureFirewalls/fw")
		shared := &inventory.Firewall{Policy: named(group + "firewallPolicies/policy")}
		for _, f := range []*inventory.Firewall{own, shared} {
			for _, tagged := range []bool{false, true} {
				addRule(f, []Name{{Name: rename("mcr.example.com"), tagged: tagged}}, nodes, public)
			}
			for _, name := range []string{"ntp.example.com", "10.0.0.1"} {
				lacking := []Name{{Name: rename(name), Port: rename("123"),
					Protocol: rename("UDP")}}
				addRule(f, lacking, nodes, public)
				if name == "10.0.0.1" {
					lacking[0].service = "AzureCloud"
					addRule(f, lacking, nodes, public)
				}
			}
		}
	}
}

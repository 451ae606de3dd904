package migrate

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestExemptions: a policy that refuses node subnets without a table is exempt before a migration,
// with a command that can be pasted; one elsewhere, or about something else, is not.
func TestExemptions(t *testing.T) {
	deny := func(scope, name, property string) inventory.AssignedPolicy {
		return inventory.AssignedPolicy{Assignment: "/subscriptions/" + sub +
			"/providers/Microsoft.Authorization/policyAssignments/" + name, Name: name,
			Scope: scope, Rule: object{"then": object{"effect": "deny"}, "if": object{
				"allOf": list{object{"field": "type", "equals": arm.TypeSubnet}, object{
					"field": arm.TypeSubnet + "/" + property, "exists": "false"}}}}}
	}
	make := func(proposed bool, rename func(string) string,
		policies ...inventory.AssignedPolicy) []string {
		c := pastetest.Rename(diagnose.Case{Snapshot: newWorld().snapshot(t),
			Clusters: []arm.ID{shop}, Proposed: proposed}, rename)
		c.File, c.Snapshot.Policies = finding.Command("%s", rename("routes.yaml")), policies
		for _, cluster := range Make(c, nil).Clusters {
			for _, s := range cluster.Steps {
				if s.Title == "Exempt the network from policies" {
					return s.Commands
				}
			}
		}
		return nil
	}
	same := func(s string) string { return s }
	here := "/subscriptions/" + sub
	ours, other := deny(here, "routekeeper-route-table", "routeTable.id"), deny(here, "hub",
		"routeTable.id")
	got := strings.Join(make(false, same, ours, other, deny(here, "nat", "addressPrefix"),
		deny(here+"2", "elsewhere", "routeTable.id")), "\n")
	if want := "routekeeper prevent -f routes.yaml --format az --exempt " + string(vnet) +
		" --until 7d\naz policy exemption create --name routekeeper --policy-assignment " +
		other.Assignment + " --exemption-category Waiver --scope " + string(vnet); got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
	if got := make(true, same, ours); len(got) != 1 || !strings.HasPrefix(got[0], "az policy") {
		t.Errorf("without a config: %q", got)
	}
	if got := make(false, same); got != nil {
		t.Errorf("without policies: %q", got)
	}
	pastetest.Again(func(rename func(string) string) {
		for _, p := range []inventory.AssignedPolicy{ours, other} {
			p.Assignment = rename(p.Assignment)
			p.Scope = "/providers/Microsoft.Management/managementGroups/g"
			for _, reference := range []string{"", rename("reference")} {
				p.Reference = reference
				make(false, rename, p) // TestMain pastes it
			}
		}
	})
}

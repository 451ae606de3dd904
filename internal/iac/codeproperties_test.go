package iac

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestCodeProperties: what Ansible's module and CAPZ do to the NAT gateway and the security group
// of a guarded subnet. What they name no value for is lost, unless they keep it.
func TestCodeProperties(t *testing.T) {
	const task = "- azure.azcollection.azure_rm_subnet: {subscription_id: s, resource_group: g, " +
		"virtual_network: hub, name: nodes, route_table: rt%s}\n"
	capz := func(kind, spec string) string {
		return "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: " + kind +
			"\nmetadata: {name: self}\nspec:\n  subscriptionID: s\n" + spec
	}
	nat, group := inventory.PropertyNAT.Name(), inventory.PropertyGroup.Name()
	for name, c := range map[string]struct {
		file, text string
		lost       []string
	}{
		"a task that names none": {"tasks.yml", fmt.Sprintf(task, ""), []string{nat}},
		"a task that names both": {"tasks.yml",
			fmt.Sprintf(task, ", nat_gateway: nat, security_group: nsg"), nil},
		"a task that takes the group away": {"tasks.yml",
			fmt.Sprintf(task, ", nat_gateway: nat, security_group_name: ''"), []string{group}},
		"expressions": {"tasks.yml", fmt.Sprintf(task, `, nat_gateway: "{{ n | default(omit) }}"`+
			`, security_group: "{{ g }}"`), nil},
		"a subnet that is deleted": {"tasks.yml", fmt.Sprintf(task, ", state: absent"), nil},
		"AKS": {"c.yaml", capz("AzureManagedControlPlane", "  resourceGroupName: g\n"+
			"  virtualNetwork: {name: hub, subnet: {name: nodes}}\n"), []string{nat, group}},
	} {
		r, err := Read(c.file, strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := reportedBy(r, guardedBy(map[inventory.Property]arm.ID{inventory.PropertyNAT: natID,
			inventory.PropertyGroup: groupID}))
		for _, p := range []string{nat, group} {
			found, want := strings.Count(got, "lose its "+p)+strings.Count(got, "loses its "+p), 0
			for _, lost := range c.lost {
				if lost == p {
					want = 1
				}
			}
			if found != want {
				t.Errorf("%s: %s: %d, want %d: %s", name, p, found, want, got)
			}
		}
		if got := reportedBy(r, Known{}); strings.Contains(got, nat) ||
			strings.Contains(got, group) {
			t.Errorf("%s: nothing shows that the subnet has one: %s", name, got)
		}
	}
}

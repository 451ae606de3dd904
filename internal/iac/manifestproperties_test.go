package iac

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestManifestProperties: what Azure Service Operator and CAPZ do to the NAT gateway and the
// security group of a guarded subnet. What they name no value for is lost.
func TestManifestProperties(t *testing.T) {
	aso := func(spec string) string {
		return "apiVersion: network.azure.com/v1api20240301\nkind: VirtualNetworksSubnet\n" +
			"metadata: {name: nodes}\nspec:\n  owner: {armId: /subscriptions/s/resourceGroups/g/" +
			"providers/Microsoft.Network/virtualNetworks/hub}\n" +
			"  routeTable: {reference: {armId: rt}}\n" + spec
	}
	capz := func(kind, spec string) string {
		return "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: " + kind +
			"\nmetadata: {name: self}\nspec:\n  subscriptionID: s\n" + spec
	}
	nat, group := inventory.PropertyNAT.Name(), inventory.PropertyGroup.Name()
	for name, c := range map[string]struct {
		text string
		lost []string
	}{
		"a subnet that names none": {aso(""), []string{nat, group}},
		"a subnet that names both": {aso("  natGateway: {reference: {armId: nat}}\n" +
			"  networkSecurityGroup: {reference: {armId: nsg}}\n"), nil},
		"a subnet with an empty group": {aso("  natGateway: {reference: {armId: nat}}\n" +
			"  networkSecurityGroup: {}\n"), []string{group}},
		"unknown values": {aso("  natGateway: x\n  networkSecurityGroup: !y z\n"), nil},
		"AKS": {capz("AzureManagedControlPlane", "  resourceGroupName: g\n"+
			"  virtualNetwork: {name: hub, subnet: {name: nodes}}\n"), []string{nat, group}},
	} {
		r, err := readPlain("c.yaml", strings.NewReader(c.text))
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

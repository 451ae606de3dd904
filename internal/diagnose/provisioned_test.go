package diagnose

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
)

// provisioned is a subnet with a machine that node auto-provisioning made for an AKSNodeClass.
const provisioned = vnet + "/subnets/gpu"

func withProvisioned(t *testing.T, mode string, properties object) *world {
	properties["addressPrefix"] = "10.42.9.0/24"
	nic := nodeGroup + "/providers/Microsoft.Network/networkInterfaces/aks-gpu-4df7f"
	machine := nodeGroup + "/providers/Microsoft.Compute/virtualMachines/aks-gpu-4df7f"
	endpoint := nodeGroup + "/providers/Microsoft.Network/networkInterfaces/kube-apiserver.nic.1"
	at := func(subnet arm.ID, address string) list {
		return list{object{"name": "main",
			"properties": object{"privateIPAddress": address, "subnet": link(subnet)}}}
	}
	return onOverlay(t).set(shop, "nodeProvisioningProfile", object{"mode": mode}).
		addSubnet(provisioned, properties).
		put(object{"id": string(nic), "name": nic.Name(), "properties": object{
			"enableIPForwarding": true, "virtualMachine": link(machine),
			"ipConfigurations": at(provisioned, "10.42.9.4")}}).
		put(object{"id": string(endpoint), "name": endpoint.Name(), "properties": object{
			"ipConfigurations": at(appgw, "10.42.2.9")}})
}

// TestAutoProvisionedSubnet: a subnet that only an AKSNodeClass names needs what the node subnets
// have, and a guard if the config has one.
func TestAutoProvisionedSubnet(t *testing.T) {
	same := func() object {
		return object{"routeTable": link(shopTable), "networkSecurityGroup": link(nodesNSG)}
	}
	withProvisioned(t, "Auto", same()).finds()
	withProvisioned(t, "Manual", object{}).finds()

	bare := same()
	delete(bare, "routeTable")
	f := withProvisioned(t, "Auto", bare).finds(finding.AutoProvisionedSubnet)
	if f.Resource != string(provisioned) ||
		!strings.Contains(f.Message, "has no route table, but its node subnets have shop-rt") ||
		!strings.HasSuffix(f.Fix, "--ids "+string(provisioned)+" --route-table "+
			string(shopTable)) {
		t.Errorf("%s: %s\n%s", f.Resource, f.Message, f.Fix)
	}
	other := same()
	other["routeTable"] = link(gwTable)
	f = withProvisioned(t, "Auto", other).finds(finding.AutoProvisionedSubnet)
	if !strings.Contains(f.Message, "has route table appgw-rt, but") {
		t.Error(f.Message)
	}

	guarding := func(subnets ...v1alpha1.GuardedSubnet) *world {
		w := withProvisioned(t, "Auto", same())
		config := v1alpha1.ClusterRoutes{Metadata: v1alpha1.Metadata{Name: "shop"}}
		config.Spec.ClusterID = string(shop)
		config.Spec.Guard.Subnets = subnets
		config.SetDefaults()
		w.c.Configs = []v1alpha1.ClusterRoutes{config}
		return w
	}
	nodesGuard := v1alpha1.GuardedSubnet{SubnetID: string(nodes), RouteTableID: string(shopTable)}
	f = guarding(nodesGuard).finds(finding.AutoProvisionedSubnet)
	if !strings.Contains(f.Message, "which the config does not guard") {
		t.Error(f.Message)
	}
	guarding(nodesGuard, v1alpha1.GuardedSubnet{SubnetID: string(provisioned),
		RouteTableID: string(shopTable)}).finds()
}

// TestAutoProvisionedRights: the cluster's identity has to join the subnet as it joins those of its
// pools.
func TestAutoProvisionedRights(t *testing.T) {
	w := withProvisioned(t, "Auto", object{})
	w.c.Snapshot = w.snapshot()
	scopes, _ := w.c.Scopes()
	for _, id := range scopes {
		if id.Equal(provisioned) {
			return
		}
	}
	t.Errorf("the rights on %s are not read: %v", provisioned, scopes)
}

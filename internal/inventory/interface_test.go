package inventory

import (
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
)

// TestHolders: the machine and the node that have an address.
func TestHolders(t *testing.T) {
	const compute = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/"
	for id, want := range map[arm.ID][2]string{
		compute + "virtualMachineScaleSets/aks-np-vmss/virtualMachines/46/networkInterfaces/n": {
			"aks-np-vmss instance 46", "aks-np-vmss00001a"},
		"/SUBSCRIPTIONS/s/RESOURCEGROUPS/g/PROVIDERS/microsoft.compute/VIRTUALMACHINESCALESETS/AKS/" +
			"VIRTUALMACHINES/0/networkInterfaces/n": {"AKS instance 0", "aks000000"},
		compute + "virtualMachineScaleSets/aks/virtualMachines/aks_1/networkInterfaces/n": {
			"aks instance aks_1", ""},
		"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/aks-nic-0": {
			"aks-nic-0", ""},
		compute + "virtualMachineScaleSets/aks/networkInterfaces/n": {"n", ""},
	} {
		holder := HolderName(id)
		if node := NodeName(holder); holder != want[0] || node != want[1] {
			t.Errorf("%s: %q is node %q, want %q", id, holder, node, want)
		}
	}
}

// TestExit: a public address, or a load balancer's pool, may lead to the internet.
func TestExit(t *testing.T) {
	for fields, want := range map[string]bool{``: false,
		`, "publicIPAddress": {"id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/publicIPAddresses/p"}`: true,
		`, "loadBalancerBackendAddressPools": [{"id": "/x"}]`:                                                              true} {
		nic, err := DecodeInterface([]byte(`{"id": "/subscriptions/s/resourceGroups/g/providers/` +
			`Microsoft.Network/networkInterfaces/n", "properties": {"ipConfigurations": [{"name": "c",
			"properties": {"privateIPAddress": "10.0.0.4"` + fields + `}}]}}`))
		if err != nil || nic.Configs[0].Exit != want {
			t.Errorf("%q: %+v, %v", fields, nic, err)
		}
	}
}

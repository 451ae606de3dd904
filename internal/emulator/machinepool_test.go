package emulator

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestSingleMachinePools: the nodes of virtual machine pools and availability sets are machines
// with interfaces in the node resource group, through scaling, a restart and the delete.
func TestSingleMachinePools(t *testing.T) {
	const nodes = arm.ID("/subscriptions/" + sub + "/resourceGroups/MC_net-rg_c_westeurope")
	digits := aks.DigitsOf(aksID)
	for kind, want := range map[string][2]string{
		aks.PoolMachines: {"aks-np-" + digits + "-vms%d", "aks-np-" + digits + "-vms%d-nic"},
		aks.PoolAvailabilitySet: {
			"aks-np-" + digits + "-%d", "aks-np-" + digits + "-nic-%d"},
	} {
		t.Run(kind, func(t *testing.T) {
			opts := Options{StateFile: filepath.Join(t.TempDir(), "state.db")}
			b := newBench(t, opts)
			b.put(rt, `{"location":"westeurope"}`)
			b.put(vnet, plainVNet)
			b.put(aksID, strings.Replace(fmt.Sprintf(existing, 3), `"name":"np"`,
				`"name":"np","vmSize":"Standard_D2s_v5","type":"`+kind+`"`, 1))
			check := func(numbers ...int) {
				t.Helper()
				var machines, nics []string
				for _, n := range numbers {
					machines = append(machines, fmt.Sprintf(want[0], n))
					nics = append(nics, fmt.Sprintf(want[1], n))
				}
				haveVMs := names(kernel.ListAt(b.get(nodes+"/providers/"+arm.TypeVM), "value"))
				haveNICs := names(kernel.ListAt(b.get(nodes+"/providers/"+arm.TypeInterface),
					"value"))
				slices.Sort(haveNICs)
				if !slices.Equal(haveVMs, machines) || !slices.Equal(haveNICs, nics) {
					t.Errorf("machines %q, interfaces %q, want %v", haveVMs, haveNICs, numbers)
				}
				var hops []string
				for _, r := range kernel.ListAt(b.get(rt), "properties", "routes") {
					hops = append(hops, kernel.Text(r, "properties", "nextHopIpAddress"))
				}
				for i, name := range haveNICs {
					nic := b.get(nodes + "/providers/" + arm.TypeInterface + "/" + arm.ID(name))
					p := kernel.ObjectAt(nic, "properties")
					configuration := kernel.ObjectAt(kernel.ListAt(p, "ipConfigurations")[0],
						"properties")
					if vm := arm.ID(kernel.Text(p, "virtualMachine",
						"id")); vm.Name() != haveVMs[i] || p["enableIPForwarding"] != true ||
						!slices.Contains(hops, kernel.Text(configuration, "privateIPAddress")) {
						t.Errorf("%s: %s, routes to %q", name, kernel.Encode(p), hops)
					}
				}
			}
			check(0, 1, 2)
			pool := kernel.ListAt(b.get(aksID), "properties", "agentPoolProfiles")[0]
			status := kernel.ListAt(pool, "virtualMachineNodesStatus")
			if said := pool["count"] != nil; said == (kind == aks.PoolMachines) ||
				kind == aks.PoolMachines &&
					(len(status) != 1 || kernel.NumberOf(status[0], "count") != 3) {
				t.Errorf("the document says %s", kernel.Encode(pool))
			}
			// A document that was read can be written again, with the same meaning.
			doc := b.get(aksID)
			b.put(aksID, string(kernel.Encode(kernel.Object{"location": doc["location"],
				"properties": doc["properties"]})))
			check(0, 1, 2)
			if err := b.e.Scale(aksID, "np", 1); err != nil {
				t.Fatal(err)
			}
			b.e.Close()
			b = newBench(t, opts)
			check(0)
			if err := b.e.Scale(aksID, "np", 2); err != nil {
				t.Fatal(err)
			}
			check(0, 3)
			second := `{"properties":{"count":1,"vnetSubnetID":"` + string(vnet) + `/subnets/a"}}`
			if kind == aks.PoolAvailabilitySet {
				b.refused(http.MethodPut, aksID.Child("agentPools", "more"), second, 400,
					"MaxAgentPoolCountReached")
			}
			if status, body := b.try(http.MethodDelete, aksID, api, ""); status != 204 {
				t.Fatalf("%d %s", status, body)
			}
			held := kernel.ListAt(b.get(vnet+"/subnets/a"), "properties", "ipConfigurations")
			if len(held) > 0 {
				t.Errorf("addresses are still held: %v", held)
			}
		})
	}
}

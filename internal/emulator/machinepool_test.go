package emulator

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
)

// TestSingleMachinePools: the nodes of virtual machine pools and availability sets are machines
// with interfaces in the node resource group, through scaling, a restart and the end.
func TestSingleMachinePools(t *testing.T) {
	const nodes = arm.ID("/subscriptions/" + sub + "/resourceGroups/MC_net-rg_c_westeurope")
	digits := digitsOf(aksID)
	for kind, want := range map[string][2]string{
		poolMachines: {"aks-np-" + digits + "-vms%d", "aks-np-" + digits + "-vms%d-nic"},
		poolAvailabilitySet: {
			"aks-np-" + digits + "-%d", "aks-np-" + digits + "-nic-%d"},
	} {
		t.Run(kind, func(t *testing.T) {
			opts := Options{StateFile: filepath.Join(t.TempDir(), "state.db")}
			b := newBench(t, opts)
			b.put(rt, `{"location":"westeurope"}`)
			b.put(vnet, plainVNet)
			b.put(aksID, strings.Replace(fmt.Sprintf(brought, 3), `"name":"np"`,
				`"name":"np","vmSize":"Standard_D2s_v5","type":"`+kind+`"`, 1))
			check := func(numbers ...int) {
				t.Helper()
				var machines, nics []string
				for _, n := range numbers {
					machines = append(machines, fmt.Sprintf(want[0], n))
					nics = append(nics, fmt.Sprintf(want[1], n))
				}
				haveVMs := names(listAt(b.get(nodes+"/providers/"+typeVM), "value"))
				haveNICs := names(listAt(b.get(nodes+"/providers/"+typeNIC), "value"))
				slices.Sort(haveNICs)
				if !slices.Equal(haveVMs, machines) || !slices.Equal(haveNICs, nics) {
					t.Errorf("machines %q, interfaces %q, want %v", haveVMs, haveNICs, numbers)
				}
				var hops []string
				for _, r := range listAt(objectAt(b.get(rt), "properties"), "routes") {
					hops = append(hops, text(objectAt(r, "properties"), "nextHopIpAddress"))
				}
				for i, name := range haveNICs {
					nic := b.get(nodes + "/providers/" + typeNIC + "/" + arm.ID(name))
					p := objectAt(nic, "properties")
					configuration := objectAt(listAt(p, "ipConfigurations")[0], "properties")
					if vm := arm.ID(text(objectAt(p, "virtualMachine"), "id")); vm.Name() !=
						haveVMs[i] || p["enableIPForwarding"] != true ||
						!slices.Contains(hops, text(configuration, "privateIPAddress")) {
						t.Errorf("%s: %s, routes to %q", name, encode(p), hops)
					}
				}
			}
			check(0, 1, 2)
			pool := listAt(objectAt(b.get(aksID), "properties"), "agentPoolProfiles")[0]
			status := listAt(pool, "virtualMachineNodesStatus")
			if said := pool["count"] != nil; said == (kind == poolMachines) ||
				kind == poolMachines && (len(status) != 1 || numberOf(status[0], "count") != 3) {
				t.Errorf("the document says %s", encode(pool))
			}
			// What is read can be written again, and means the same.
			doc := b.get(aksID)
			b.put(aksID, string(encode(object{"location": doc["location"],
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
			if kind == poolAvailabilitySet {
				b.refused(http.MethodPut, aksID.Child("agentPools", "more"), second, 400,
					"MaxAgentPoolCountReached")
			}
			if status, body := b.try(http.MethodDelete, aksID, api, ""); status != 200 {
				t.Fatalf("%d %s", status, body)
			}
			held := listAt(objectAt(b.get(vnet+"/subnets/a"), "properties"), "ipConfigurations")
			if len(held) > 0 {
				t.Errorf("addresses are still held: %v", held)
			}
		})
	}
}

package emulator

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

var words = []string{
	"properties", "name", "id", "subnets", "addressSpace", "addressPrefixes", "addressPrefix",
	"routeTable", "networkSecurityGroup", "natGateway", "routes", "nextHopType",
	"securityRules", "priority", "ipConfigurations", "gatewayIPConfigurations",
	"frontendIPConfigurations", "subnet", "publicIPAddress", "publicIpAddresses",
	"privateIPAddress",
	"virtualNetworkPeerings", "remoteVirtualNetwork", "delegations", "serviceEndpoints", "sku",
	"capacity", "virtualMachineProfile", "networkProfile", "networkInterfaces",
	"networkInterfaceConfigurations", "scopes", "condition", "allOf", "anyOf", "field", "equals",
	"webhookReceivers", "groupShortName", "tags", "operation", "identity",
	"agentPoolProfiles", "level", "destinationIPAddress", "sourceIPAddress", "targetResourceId",
}

// nonsense draws a JSON value of known fields, most of them with invalid values.
func nonsense(t *rapid.T, depth int) any {
	values := []any{nil, true, 7, -1, "", "x", "a/b", "10.0.0.0/16", "10.0.1.0/24", "10.0.1.4",
		"::/0", "Static", "category", "http://x", string(vnet), string(vnet) +
			"/subnets/a", string(rt), string(nic), string(vnet) + "/subnets"}
	switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
	case kind < 2 || depth == 0:
		return rapid.SampledFrom(values).Draw(t, "value")
	case kind == 2:
		out := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			out = append(out, nonsense(t, depth-1))
		}
		return out
	}
	return nonsenseObject(t, depth)
}

func nonsenseObject(t *rapid.T, depth int) kernel.Object {
	out := kernel.Object{}
	for range rapid.IntRange(0, 6).Draw(t, "fields") {
		out[rapid.SampledFrom(words).Draw(t, "field")] = nonsense(t, depth-1)
	}
	return out
}

// TestNonsense: no document of any type makes the emulator panic, and accepted ones can be read,
// listed and deleted.
func TestNonsense(t *testing.T) {
	t.Parallel()
	lots := Bucket{Size: 1e9, PerSecond: 1e9}
	b := newBench(t,
		Options{LogBodies: 1, Buckets: Buckets{Reads: lots, Writes: lots, Deletes: lots}})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(nic, nicBody(ipConfiguration("c", "a", "")))
	types := slices.DeleteFunc(slices.Sorted(maps.Keys(b.e.kernel.Kinds)), func(t string) bool {
		return strings.Count(t, "/") != 1
	})
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			id := group + arm.ID("/providers/"+rapid.SampledFrom(types).Draw(t, "type")+"/x")
			if rapid.Bool().Draw(t, "child") {
				id = rapid.SampledFrom([]arm.ID{
					vnet.Child("subnets", "x"), vnet.Child("virtualNetworkPeerings",
						"x"), rt.Child("routes", "x"), rt, vnet, nic,
					rt + "/providers/Microsoft.Resources/tags/default",
					nic + "/effectiveRouteTable", vnet + "/CheckIPAddressAvailability", group +
						"/providers/Microsoft.Network/networkWatchers/x/nextHop",
				}).Draw(t, "id")
			}
			body := kernel.Object{"location": "westeurope", "properties": nonsenseObject(t, 6),
				"sku": nonsense(t, 2), "identity": nonsense(t, 2)}
			if rapid.Bool().Draw(t, "tagged") {
				body["tags"] = nonsense(t, 2)
			}
			method := rapid.SampledFrom([]string{http.MethodPut, http.MethodPut, http.MethodPatch,
				http.MethodPost, http.MethodDelete}).Draw(t, "method")
			if method == http.MethodDelete && (id == vnet || id == nic || id == rt) {
				continue
			}
			for _, call := range []struct {
				method string
				id     arm.ID
			}{{method, id}, {http.MethodGet, id}, {http.MethodGet, id.Parent()}, {http.MethodGet,
				group + "/resources"}} {
				if status, answer := b.c.Do(call.method, call.id, api,
					kernel.Encode(body)); status >= 500 || status == 0 {
					t.Fatalf("%s %s %s: %d %s", call.method, call.id, kernel.Encode(body), status,
						answer)
				}
			}
		}
	})
}

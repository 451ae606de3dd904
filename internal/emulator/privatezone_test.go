package emulator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// TestPrivateZone: a zone has its start of authority, as azurerm reads it with the zone, counts its
// records and links, and is deleted after its links.
func TestPrivateZone(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	var zone = arm.ID(group + "/providers/Microsoft.Network/privateDnsZones/z.example")
	authority, link := zone.Child("SOA", "@"), zone.Child("virtualNetworkLinks", "l")
	b.put(zone, `{"location":"global"}`)
	record := b.properties(authority)
	if soa := kernel.ObjectAt(record, "soaRecord"); record["fqdn"] != "z.example." ||
		fmt.Sprintf("%v %v", soa["minimumTtl"], record["ttl"]) != "10 3600" {
		t.Errorf("%s", kernel.Encode(record))
	}
	b.put(authority, `{"properties":{"ttl":60,"soaRecord":{"email":"me.example","minimumTtl":5,
		"refreshTime":3600,"retryTime":300,"expireTime":2419200}}}`)
	b.put(zone, `{"location":"global","tags":{"a":"b"}}`)
	if email := kernel.ObjectAt(b.properties(authority), "soaRecord")["email"]; email !=
		"me.example" {
		t.Errorf("the zone's PUT replaced its start of authority: %s", email)
	}
	b.put(zone.Child("CNAME", "www"), `{"properties":{"cnameRecord":{"cname":"web.example"}}}`)
	b.put(link, `{"location":"global","properties":{"virtualNetwork":{"id":"`+string(vnet)+`"}}}`)
	if p := b.properties(zone); fmt.Sprintf("%v %v %v", p["numberOfRecordSets"],
		p["numberOfVirtualNetworkLinks"], p["maxNumberOfRecordSets"]) != "2 1 25000" {
		t.Errorf("%s", kernel.Encode(p))
	}
	b.refused(http.MethodDelete, authority, "", 400, "BadRequest")
	b.refused(http.MethodDelete, zone, "", 409, "CannotDeleteResource")
	b.delete(link)
	b.delete(zone)
	b.refused(http.MethodGet, authority, "", 404, "NotFound")
}

// TestEndpointNames: the interface of a private endpoint shows the host names that its address
// stands for.
func TestEndpointNames(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	for target, want := range map[string]string{
		"Microsoft.Storage/storageAccounts/Store blob": "store.blob.core.windows.net",
		"Microsoft.KeyVault/vaults/keys vault":         "keys.vault.azure.net",
		"Microsoft.Sql/servers/db sqlServer":           "",
	} {
		path, part, _ := strings.Cut(target, " ")
		endpoint := group + "/providers/" + arm.ID(network.TypePrivateEndpoint) + "/" + arm.ID(part)
		b.put(endpoint, `{"location":"westeurope","properties":{"subnet":{"id":"`+string(vnet)+
			`/subnets/a"},"privateLinkServiceConnections":[{"name":"l","properties":{`+
			`"privateLinkServiceId":"`+string(group)+`/providers/`+path+`","groupIds":["`+part+
			`"]}}]}}`)
		nic := kernel.ListAt(b.properties(endpoint), "networkInterfaces")[0]
		shown := b.properties(arm.ID(kernel.Text(nic, "id")))
		names := kernel.List(kernel.ListAt(shown, "ipConfigurations")[0],
			"properties", "privateLinkConnectionProperties", "fqdns")
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

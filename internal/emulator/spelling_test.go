package emulator

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestAnySpelling: a client that reads a document and PUTs it back with its names in another case
// changes nothing: no field of Azure's comes back a second time, and no link is lost.
func TestAnySpelling(t *testing.T) {
	b := newBench(t, Options{})
	ref := func(id arm.ID) string { return `{"id":"` + string(id) + `"}` }
	const networks = group + "/providers/Microsoft.Network/"
	other, agw := networks+"virtualNetworks/other", networks+"applicationGateways/agw"
	a, c := vnet.Child("subnets", "a"), vnet.Child("subnets", "b")
	b.put(rt, `{"location":"westeurope","properties":{"routes":[{"name":"r","properties":{
		"addressPrefix":"10.9.0.0/16","nextHopType":"VirtualAppliance",
		"nextHopIpAddress":"10.0.1.9"}}]}}`)
	b.put(nsg, `{"location":"westeurope"}`)
	b.put(pip, `{"location":"westeurope","sku":{"name":"Standard"},
		"properties":{"publicIPAllocationMethod":"Static"}}`)
	b.put(nat, `{"location":"westeurope","properties":{"publicIpAddresses":[`+ref(pip)+`]}}`)
	b.put(vnet, `{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":[
		"10.0.0.0/16"]},"subnets":[
		{"name":"a","properties":{"addressPrefix":"10.0.1.0/24","routeTable":`+ref(rt)+`}},
		{"name":"b","properties":{"addressPrefix":"10.0.2.0/24"}}]}}`)
	b.put(other, `{"location":"westeurope","tags":{"Name":"kept","Id":"kept"},
		"properties":{"addressSpace":{"addressPrefixes":["10.77.0.0/16"]}}}`)
	b.put(vnet.Child("virtualNetworkPeerings", "p"),
		`{"properties":{"remoteVirtualNetwork":`+ref(other)+`}}`)
	b.put(c, `{"properties":{"addressPrefix":"10.0.2.0/24","routeTable":`+ref(rt)+
		`,"networkSecurityGroup":`+ref(nsg)+`,"natGateway":`+ref(nat)+
		`,"serviceEndpoints":[{"service":"Microsoft.Storage"}]}}`)
	b.put(nic, nicBody(ipConfiguration("c", "b", "")))
	b.put(networks+"privateEndpoints/pe", `{"location":"westeurope","properties":{"subnet":`+ref(c)+
		`,"privateLinkServiceConnections":[{"name":"l","properties":{"privateLinkServiceId":"`+
		string(group)+`/providers/Microsoft.Storage/storageAccounts/x","groupIds":["blob"]}}]}}`)
	b.put(agw, `{"location":"westeurope","properties":{"gatewayIPConfigurations":[`+
		ipConfiguration("c", "a", "")+`]}}`)
	for _, id := range []arm.ID{a, c, vnet, other, vnet.Child("virtualNetworkPeerings", "p"), rt,
		nsg, nat, pip, nic} {
		before := plain(b.get(id))
		for _, spelled := range []func(string) string{strings.ToLower, strings.ToUpper} {
			sent := recased(b.get(id), spelled).(kernel.Object)
			if status, code := b.try(http.MethodPut, id, "2022-01-01",
				string(kernel.Encode(sent))); status != 200 {
				t.Errorf("%s: %d %s", id, status, code)
			}
			if after := plain(b.get(id)); !bytes.Equal(after, before) {
				t.Errorf("%s was\n\t%s\nand is\n\t%s", id, before, after)
			}
		}
	}
}

// recased changes the case of all names in a document, but of tags.
func recased(value any, spelled func(string) string) any {
	switch v := value.(type) {
	case kernel.Object:
		out := kernel.Object{}
		for name, inner := range v {
			if name != "tags" {
				inner = recased(inner, spelled)
			}
			out[spelled(name)] = inner
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = recased(v[i], spelled)
		}
		return out
	}
	return value
}

// plain is a document without what every write changes.
func plain(doc kernel.Object) []byte {
	var strip func(any)
	strip = func(value any) {
		switch v := value.(type) {
		case kernel.Object:
			delete(v, "etag")
			for _, inner := range v {
				strip(inner)
			}
		case []any:
			for _, inner := range v {
				strip(inner)
			}
		}
	}
	strip(doc)
	return kernel.Encode(doc)
}

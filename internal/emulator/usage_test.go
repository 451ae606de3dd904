package emulator

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

func TestUsages(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(vnet.Child("subnets", "c"), `{"properties":{"addressPrefix":"10.0.3.0/29"}}`)
	b.put(nic, nicBody(ipConfiguration("one", "c", ""), ipConfiguration("two", "c", "")))
	for address, want := range map[string]string{
		"10.0.3.6": `{"available":true,"isPlatformReserved":false}`,
		"10.0.3.5": `{"available":false,"availableIPAddresses":["10.0.3.6"],"isPlatformReserved":false}`,
		"10.0.3.1": `{"available":false,"availableIPAddresses":["10.0.3.6"],"isPlatformReserved":true}`,
		"10.9.9.9": `{"available":false,"isPlatformReserved":false}`,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://h"+string(vnet)+
			"/CheckIPAddressAvailability?api-version="+api+"&ipAddress="+address, nil)
		r.Header.Set("Authorization", "Bearer "+b.c.token)
		w := httptest.NewRecorder()
		b.e.ServeHTTP(w, r)
		if w.Body.String() != want {
			t.Errorf("%s: %s, want %s", address, w.Body, want)
		}
	}
}

// TestParts: a named part of a document has an ID, so that other resources can link to it.
func TestParts(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	gateway := group + "/providers/Microsoft.Network/applicationGateways/agw"
	b.put(gateway, `{"location":"westeurope","properties":{"gatewayIPConfigurations":[`+
		ipConfiguration("c", "a", "")+
		`],"backendAddressPools":[{"name":"pool","properties":{}}],"sslPolicy":{"name":"x"}}}`)
	pool := kernel.ListAt(b.properties(gateway), "backendAddressPools")[0]
	if kernel.Text(pool, "id") != string(gateway)+"/backendAddressPools/pool" ||
		kernel.Text(pool, "etag") != kernel.Text(b.get(gateway), "etag") ||
		kernel.Text(pool, "type") != arm.TypeGateway+"/backendAddressPools" {
		t.Errorf("%s", kernel.Encode(pool))
	}
	subnet := vnet.Child("subnets", "b")
	b.put(subnet, `{"properties":{"addressPrefix":"10.0.2.0/24","serviceEndpoints":[{"service":"Microsoft.Sql"},{"service":"Microsoft.Storage","locations":["westeurope"]}],"delegations":[{"name":"d","properties":{"serviceName":"Microsoft.Web/serverFarms"}}]}}`)
	p := b.properties(subnet)
	if got := string(kernel.Encode(
		p["serviceEndpoints"])); got != `[{"locations":["westeurope"],"provisioningState":"Succeeded","service":"Microsoft.Sql"},{"locations":["westeurope"],"provisioningState":"Succeeded","service":"Microsoft.Storage"}]` {
		t.Errorf("service endpoints %s", got)
	}
	if d := kernel.ListAt(p, "delegations")[0]; kernel.Text(d, "id") != string(subnet)+
		"/delegations/d" || len(kernel.List(d, "properties", "actions")) != 1 {
		t.Errorf("%s", kernel.Encode(d))
	}
}

package emulator

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// TestPrivateCluster: the name of a private cluster's API server leads to its private endpoint, for
// who asks in a network that the zone is linked to, and to nothing elsewhere. The zone is AKS's own
// or one that was there.
func TestPrivateCluster(t *testing.T) {
	const nodes = arm.ID("/subscriptions/" + sub + "/resourceGroups/MC_net-rg_c_westeurope")
	const brings = group + "/providers/" + network.TypePrivateZone + "/privatelink.example"
	const other = group + "/providers/Microsoft.Network/virtualNetworks/elsewhere"
	for name, profile := range map[string]string{
		"own":     `"enablePrivateCluster":true`,
		"brought": `"enablePrivateCluster":true,"privateDNSZone":"` + string(brings) + `"`,
		"none":    `"enablePrivateCluster":true,"privateDNSZone":"none"`,
		"public":  `"enablePrivateCluster":false`,
	} {
		t.Run(name, func(t *testing.T) {
			b := withNetwork(t, Options{})
			b.put(brings, `{"location":"global"}`)
			b.put(other, `{"location":"westeurope","properties":{"addressSpace":{
				"addressPrefixes":["10.77.0.0/16"]}}}`)
			b.put(aksID, strings.Replace(clusterBody("", `,"count":2`), `"properties":{`,
				`"properties":{"apiServerAccessProfile":{`+profile+`},`, 1))
			private := kernel.Text(kernel.ObjectAt(b.get(aksID), "properties"), "privateFQDN")
			if named := name == "own" || name == "brought"; named != (private != "") {
				t.Fatalf("the private name is %q", private)
			}
			asked := private
			if asked == "" {
				asked = "c.example"
			}
			resolve := func(network arm.ID) (int, string) {
				r := httptest.NewRequest(http.MethodGet, "http://h/_emulator/resolve?"+
					url.Values{"name": {asked}, "network": {string(network)}}.Encode(), nil)
				w := httptest.NewRecorder()
				b.e.ServeHTTP(w, r)
				return w.Code, w.Body.String()
			}
			endpoint := ""
			for _, nic := range kernel.ListAt(b.get(nodes+"/providers/"+network.TypeNIC), "value") {
				if strings.HasPrefix(kernel.Text(nic, "name"), "kube-apiserver.nic.") {
					c := kernel.ListAt(kernel.ObjectAt(nic, "properties"), "ipConfigurations")[0]
					endpoint = kernel.Text(kernel.ObjectAt(c, "properties"), "privateIPAddress")
				}
			}
			if (endpoint != "") != (name != "public") {
				t.Errorf("the endpoint's address is %q", endpoint)
			}
			status, answer := resolve(vnet)
			if private == "" && status == 200 || private != "" &&
				(status != 200 || !strings.Contains(answer, `"`+endpoint+`"`)) {
				t.Errorf("in the network: %d %s, want %s", status, answer, endpoint)
			}
			if status, answer := resolve(other); status == 200 ||
				!strings.Contains(answer, "NXDOMAIN") {
				t.Errorf("in another network: %d %s", status, answer)
			}
			shown := kernel.ListAt(kernel.ObjectAt(b.get(vnet+"/subnets/a"), "properties"), "privateEndpoints")
			if len(shown) == 1 != (name != "public") ||
				len(shown) == 1 && !strings.EqualFold(path.Base(kernel.Text(shown[0], "id")),
					"kube-apiserver") {
				t.Errorf("the subnet shows %v", shown)
			}
			if status, body := b.try(http.MethodDelete, aksID, api, ""); status != 204 {
				t.Fatalf("%d %s", status, body)
			}
			if left := kernel.ListAt(b.get(brings+"/A"), "value"); len(left) > 0 {
				t.Errorf("records are left: %v", left)
			}
			held := kernel.ListAt(kernel.ObjectAt(b.get(vnet+"/subnets/a"), "properties"), "ipConfigurations")
			if len(held) > 0 {
				t.Errorf("addresses are left: %v", held)
			}
		})
	}
}

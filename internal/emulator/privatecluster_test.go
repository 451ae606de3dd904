package emulator

import (
	"net/http"
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
			private := kernel.Text(b.get(aksID), "properties", "privateFQDN")
			if named := name == "own" || name == "brought"; named != (private != "") {
				t.Fatalf("the private name is %q", private)
			}
			endpoint := ""
			for _, nic := range kernel.ListAt(b.get(nodes+"/providers/"+arm.TypeInterface), "value") {
				if strings.HasPrefix(kernel.Text(nic, "name"), "kube-apiserver.nic.") {
					c := kernel.ListAt(nic, "properties", "ipConfigurations")[0]
					endpoint = kernel.Text(c, "properties", "privateIPAddress")
				}
			}
			if (endpoint != "") != (name != "public") {
				t.Errorf("the endpoint's address is %q", endpoint)
			}
			want := endpoint
			if private == "" {
				want = ""
			}
			if answer := b.resolve(private, vnet); answer != want {
				t.Errorf("in the network: %q, want %q", answer, want)
			}
			if answer := b.resolve(private, other); answer != "" {
				t.Errorf("in another network: %q", answer)
			}
			shown := kernel.ListAt(b.get(vnet+"/subnets/a"), "properties", "privateEndpoints")
			if len(shown) == 1 != (name != "public") || len(shown) == 1 &&
				!strings.EqualFold(path.Base(kernel.Text(shown[0], "id")), "kube-apiserver") {
				t.Errorf("the subnet shows %v", shown)
			}
			if status, body := b.try(http.MethodDelete, aksID, api, ""); status != 204 {
				t.Fatalf("%d %s", status, body)
			}
			if left := kernel.ListAt(b.get(brings+"/A"), "value"); len(left) > 0 {
				t.Errorf("records are left: %v", left)
			}
			held := kernel.ListAt(b.get(vnet+"/subnets/a"), "properties", "ipConfigurations")
			if len(held) > 0 {
				t.Errorf("addresses are left: %v", held)
			}
		})
	}
}

// resolve returns the address that Azure's DNS answers for a name in a virtual network: that of the
// record in the private zone that is linked to it, "" if there is none.
func (b *bench) resolve(name string, vnet arm.ID) string {
	b.t.Helper()
	for _, link := range b.e.kernel.Store.List(network.TypePrivateZoneLink, "") {
		zone := link.ID.Parent()
		host, within := strings.CutSuffix(name, "."+zone.Name())
		to := kernel.ObjectAt(link.Body, "properties", "virtualNetwork")
		if within && arm.ID(kernel.Text(to, "id")).Equal(vnet) {
			record := kernel.ObjectAt(b.get(zone.Child("A", host)), "properties")
			return kernel.Text(kernel.ListAt(record, "aRecords")[0], "ipv4Address")
		}
	}
	return ""
}

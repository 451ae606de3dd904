package emulator

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestWhatAzureAdds: documented fields that Azure adds to what clients ask for.
func TestWhatAzureAdds(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, strings.Replace(plainVNet, `"properties":{`,
		`"properties":{"encryption":{"enabled":true},`, 1))
	if e := kernel.ObjectAt(b.properties(vnet), "encryption"); e["enforcement"] !=
		"AllowUnencrypted" {
		t.Errorf("encryption %v", e)
	}
	b.put(nic, strings.Replace(nicBody(ipConfiguration("c", "b", "")), `"properties":{`,
		`"properties":{"dnsSettings":{"internalDnsNameLabel":"one"},`, 1))
	if dns := kernel.ObjectAt(b.properties(nic), "dnsSettings"); dns["internalFqdn"] !=
		fmt.Sprint("one.", dns["internalDomainNameSuffix"]) {
		t.Errorf("dnsSettings %v", dns)
	}

	// Receivers have a status, and since 2019 a schema.
	id := arm.ResourceID(sub, group.Name(), arm.TypeActionGroup, "g")
	b.put(id, `{"location":"Global","properties":{"groupShortName":"g","emailReceivers":[{"name":`+
		`"m","emailAddress":"m@example.com","status":"Disabled"}],"smsReceivers":[{"name":"s",`+
		`"countryCode":"1","phoneNumber":"5"}]}}`)
	for version, want := range map[string]string{"2017-04-01": "Enabled <nil> Enabled",
		"2023-01-01": "Enabled false Enabled"} {
		p := kernel.ObjectAt(b.getAt(id, version), "properties")
		mail, message := kernel.ListAt(p, "emailReceivers")[0], kernel.ListAt(p, "smsReceivers")[0]
		if got := fmt.Sprint(mail["status"], " ", mail["useCommonAlertSchema"], " ",
			message["status"]); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}

// TestDomainLabels: the label of a public IP address is checked, and free in another region.
func TestDomainLabels(t *testing.T) {
	b := newBench(t, Options{})
	address := func(name string) arm.ID {
		return arm.ResourceID(sub, group.Name(), arm.TypePublicIP, name)
	}
	label := func(location, label string) string {
		return fmt.Sprintf(`{"location":%q,"properties":{"dnsSettings":{"domainNameLabel":%q}}}`,
			location, label)
	}
	b.put(address("one"), label("westeurope", "shop"))
	b.put(address("one"), label("westeurope", "shop"))
	b.put(address("other"), label("northeurope", "shop"))
	b.refused(http.MethodPut, address("two"), label("westeurope", "shop"), 400, "DnsRecordInUse")
	b.refused(http.MethodPut, address("two"), label("westeurope", "Shop"), 400,
		"InvalidDomainNameLabel")
}

// TestInterfaceParts: an instance's interface has IP configurations, and they have public IP
// addresses.
func TestInterfaceParts(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(machines, strings.Replace(scaleSet("Standard_D2_v2", "null", 2), machinesSubnet,
		machinesSubnet+`,"publicIPAddressConfiguration":{"name":"pub"}`, 1))
	first := kernel.ListAt(b.get(machines+"/networkInterfaces"), "value")[0]
	at := arm.ID(kernel.Text(first, "id"))
	for _, list := range []arm.ID{"/ipConfigurations", "/publicIPAddresses"} {
		items := kernel.ListAt(b.get(at+list), "value")
		if len(items) != 1 {
			t.Fatalf("%s%s: %v", at, list, items)
		}
		at = arm.ID(kernel.Text(items[0], "id"))
		if !arm.ID(kernel.Text(b.get(at), "id")).Equal(at) {
			t.Errorf("%s is %v", at, b.get(at))
		}
	}
	b.refused(http.MethodGet, arm.ID(kernel.Text(first, "id")).Child("ipConfigurations", "x"), "",
		404, "NotFound")
	for _, list := range []arm.ID{"/osUpgradeHistory", "/extensions"} {
		if items := kernel.ListAt(b.get(machines+list), "value"); len(items) != 0 {
			t.Errorf("%s: %v", list, items)
		}
	}
}

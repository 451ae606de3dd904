package diagnose

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/egress"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestFirewallRules: the firewall behind the default route must allow every name that AKS requires
// for the cluster's features, by a name, a wildcard, the FQDN tag or a network rule, to the nodes.
func TestFirewallRules(t *testing.T) {
	const id = "/subscriptions/" + sub + "/resourceGroups/net-rg/providers/Microsoft.Network/" +
		"azureFirewalls/hub"
	application := func(sources, what string) string {
		return fmt.Sprintf(
			`"applicationRuleCollections":[{"properties":{"action":{"type":"Allow"},`+
				`"rules":[{"name":"r","sourceAddresses":[%q],"protocols":[{"protocolType":"Https",`+
				`"port":443}],%s}]}}]`, sources, what)
	}
	all := `"targetFqdns":["*.hcp.westeurope.azmk8s.io","*.microsoft.com","*.data.mcr.microsoft.com",` +
		`"mcr-0001.mcr-msedge.net","management.azure.com","login.microsoftonline.com",` +
		`"packages.aks.azure.com"]`
	for _, c := range []struct {
		name, rules string
		change      func(*world)
		address     string
		code        finding.Code
		evidence    []string // the first lines
	}{
		{name: "every name, by wildcards", rules: application("10.42.0.0/16", all)},
		{name: "one name less", rules: application("*", strings.Replace(all,
			`"management.azure.com",`, "", 1)), code: finding.EgressRulesMissing,
			evidence: []string{"management.azure.com:443", "as of " + egress.AsOf}},
		{name: "another region", rules: application("*",
			strings.Replace(all, "westeurope", "northeurope", 1)), code: finding.EgressRulesMissing,
			evidence: []string{"*.hcp.westeurope.azmk8s.io:443", "as of " + egress.AsOf}},
		{name: "a private cluster", rules: application("*",
			strings.Replace(all, "westeurope", "northeurope", 1)), change: func(w *world) {
			w.set(shop, "apiServerAccessProfile", object{"privateDNSZone": "system"})
		}},
		{name: "the tag",
			rules: application("10.42.1.0/24", `"fqdnTags":["AzureKubernetesService"]`)},
		{name: "the tag, for other sources", rules: application("10.43.0.0/16",
			`"fqdnTags":["AzureKubernetesService"]`), code: finding.EgressRulesMissing,
			evidence: []string{"*.hcp.westeurope.azmk8s.io:443"}},
		{name: "everything, by addresses", rules: `"networkRuleCollections":[{"properties":{` +
			`"action":{"type":"Allow"},"rules":[{"protocols":["TCP"],"sourceAddresses":["*"],` +
			`"destinationAddresses":["*"],"destinationPorts":["1-1000"]}]}}]`},
		{name: "everything denied", rules: strings.Replace(application("*", all), "Allow", "Deny",
			1), code: finding.EgressRulesMissing,
			evidence: []string{"*.hcp.westeurope.azmk8s.io:443 (rule r denies it)"}},
		{name: "an add-on", rules: application("*", all), change: func(w *world) {
			w.set(shop, "addonProfiles", object{"azurepolicy": object{"enabled": true}})
		}, code: finding.EgressRulesMissing, evidence: []string{
			"data.policy.core.windows.net:443", "store.policy.core.windows.net:443",
			"dc.services.visualstudio.com:443"}},
		{name: "the add-on is off", rules: application("*", all), change: func(w *world) {
			w.set(shop, "addonProfiles", object{"azurepolicy": object{"enabled": false}})
		}},
		{name: "another cloud, with other names", rules: application("*", all),
			change: func(w *world) {
				w.set(shop, "fqdn", "shop-1.hcp.usgovvirginia.cx.aks.containerservice.azure.us")
			}, code: finding.EgressRulesMissing,
			evidence: []string{"*.hcp.westeurope.cx.aks.containerservice.azure.us:443",
				"management.usgovcloudapi.net:443", "login.microsoftonline.us:443"}},
		{name: "another appliance", rules: application("*", all), address: "10.42.3.9",
			code: finding.EgressFirewallUnknown, evidence: []string{
				"*.hcp.westeurope.azmk8s.io:443", "mcr.microsoft.com:443"}},
	} {
		address := "10.42.3.4"
		if c.address != "" {
			address = c.address
		}
		w := healthy(t).set(shop, "fqdn", "shop-1.hcp.westeurope.azmk8s.io")
		w.c.Egress = true
		w.put(table(shopTable, nodes, podRoute(0), podRoute(1), podRoute(2),
			route("egress", "0.0.0.0/0", "VirtualAppliance", "10.42.3.4")))
		if c.change != nil {
			c.change(w)
		}
		w.change = append(w.change, func(s *inventory.Snapshot) {
			s.WithEgress().ExtensionsOf = []arm.ID{shop}
			if err := s.Add([]byte(fmt.Sprintf(`{"id":%q,"properties":{"ipConfigurations":[{`+
				`"properties":{"privateIPAddress":%q}}],%s}}`, id, address, c.rules))); err != nil {
				t.Fatal(err)
			}
		})
		var got *finding.Finding
		for _, f := range w.check() {
			if f.Code == finding.EgressRulesMissing || f.Code == finding.EgressFirewallUnknown {
				got = &f
			}
		}
		switch {
		case c.code == "" && got != nil:
			t.Errorf("%s: %s %q", c.name, got.Message, got.Evidence)
		case c.code != "" && (got == nil || got.Code != c.code || len(got.Evidence) <
			len(c.evidence) || !slices.Equal(got.Evidence[:len(c.evidence)], c.evidence)):
			raw, _ := json.Marshal(got)
			t.Errorf("%s: %s", c.name, raw)
		}
	}
}

package emulator

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/deployments"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestAnySpelling: a client that reads a document of any type at any api-version and PUTs it back,
// as it is or with its names in another case, changes nothing: no field of Azure's comes back a
// second time, and no link is lost.
func TestAnySpelling(t *testing.T) {
	b := newBench(t, Options{Buckets: Buckets{Reads: Bucket{Size: unlimited, PerSecond: 1},
		Writes:   Bucket{Size: unlimited, PerSecond: 1},
		Clusters: Bucket{Size: unlimited, PerSecond: 1}}})
	ref := func(id arm.ID) string { return `{"id":"` + string(id) + `"}` }
	const networks = group + "/providers/Microsoft.Network/"
	other, agw := networks+"virtualNetworks/other", networks+"applicationGateways/agw"
	c := vnet.Child("subnets", "b")
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
	for id, body := range everyKind(b, c) {
		b.put(id, body)
	}
	d, err := BuildDemo(b.e, DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	all := []arm.ID{d.Cluster.Child("agentPools", d.Pool)}
	for _, key := range slices.Sorted(maps.Keys(b.e.kernel.Store.Resources)) {
		all = append(all, b.e.kernel.Store.Resources[key].ID)
	}
	kinds := map[string]bool{}
	for _, id := range all {
		if id.Is(deployments.TypeDeployment) {
			continue // its PUT is a run
		}
		kinds[id.Type()] = true
		for _, version := range versionsOf(id) {
			before := plain(b.getAt(id, version))
			for _, spelled := range []func(string) string{unchanged, strings.ToLower,
				strings.ToUpper, pascal} {
				sent := recased(b.getAt(id, version), spelled).(kernel.Object)
				if status, code := b.try(http.MethodPut, id, version,
					string(kernel.Encode(sent))); status/100 != 2 {
					t.Errorf("%s %s: %d %s", id, version, status, code)
				}
				if after := plain(b.getAt(id, version)); !bytes.Equal(after, before) {
					t.Errorf("%s at %s was\n\t%s\nand is\n\t%s", id, version, before, after)
				}
			}
		}
	}
	if len(kinds) < 32 {
		t.Errorf("only %d kinds are written: %v", len(kinds), slices.Sorted(maps.Keys(kinds)))
	}
}

func unchanged(name string) string { return name }

// pascal is how az's templates spell: Name, Port.
func pascal(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// versionsOf are api-versions that clients use for a type, the newest first.
func versionsOf(id arm.ID) []string {
	switch provider, _, _ := strings.Cut(id.Type(), "/"); strings.ToLower(provider) {
	case "microsoft.network":
		return []string{api, "2022-01-01", "2019-11-01"}
	case "microsoft.containerservice":
		return []string{api, "2024-02-01", "2022-11-01"}
	}
	return []string{api, "2022-03-01"}
}

func (b *bench) getAt(id arm.ID, version string) kernel.Object {
	b.t.Helper()
	status, body := b.c.Do(http.MethodGet, id, version, nil)
	doc, f := kernel.DecodeObject(body)
	if status != http.StatusOK || f != nil {
		b.t.Fatalf("GET %s: %d %s", id, status, body)
	}
	return doc
}

// everyKind returns documents of kinds that the demo lacks. subnet is for a machine.
func everyKind(b *bench, subnet arm.ID) map[arm.ID]string {
	const at, provider = `{"location":"westeurope","properties":`, group + "/providers/Microsoft."
	const zone = provider + "Network/privateDnsZones/z.example"
	ip := func(name string) string {
		b.put(provider+"Network/publicIPAddresses/"+arm.ID(name), `{"location":"westeurope",
			"sku":{"name":"Standard"},"properties":{"publicIPAllocationMethod":"Static"}}`)
		return `{"name":"c","properties":{"publicIPAddress":{"id":"` + string(provider) +
			`Network/publicIPAddresses/` + name + `"}`
	}
	for name, prefix := range map[string]string{"AzureBastionSubnet": "10.0.8.0/26",
		"AzureFirewallSubnet": "10.0.9.0/26", "GatewaySubnet": "10.0.10.0/26"} {
		b.put(vnet.Child("subnets", name), `{"properties":{"addressPrefix":"`+prefix+`"}}`)
	}
	in := func(name string) string {
		return `,"subnet":{"id":"` + string(vnet) + `/subnets/` + name + `"}}}]}}`
	}
	b.put(provider+"ManagedIdentity/userAssignedIdentities/i", `{"location":"westeurope"}`)
	b.put(provider+"Insights/actionGroups/g", `{"location":"global","properties":{
		"groupShortName":"g","enabled":true,"webhookReceivers":[{"name":"w",
		"serviceUri":"https://example.com","useCommonAlertSchema":true}]}}`)
	b.put(zone, `{"location":"global"}`)
	b.put(provider+"Authorization/policyDefinitions/p", `{"properties":{"policyType":"Custom",
		"mode":"All","displayName":"p","policyRule":{"if":{"field":"name","equals":"forbidden"},
		"then":{"effect":"deny","details":{"Name":"kept"}}}}}`)
	b.put(provider+"Network/networkInterfaces/machine",
		nicBody(ipConfiguration("c", subnet.Name(), "")))
	return map[arm.ID]string{
		zone + "/virtualNetworkLinks/l": `{"location":"global","properties":{
			"virtualNetwork":{"id":"` + string(vnet) + `"}}}`,
		zone + "/A/web": `{"properties":{"ttl":60,"aRecords":[{"ipv4Address":"10.0.1.7"}]}}`,
		provider + "Network/bastionHosts/b": at + `{"ipConfigurations":[` + ip("bastion") +
			in("AzureBastionSubnet"),
		provider + "Network/azureFirewalls/f": at + `{"ipConfigurations":[` + ip("firewall") +
			in("AzureFirewallSubnet"),
		provider + "Network/virtualNetworkGateways/g": at + `{"ipConfigurations":[` +
			ip("vpn") + in("GatewaySubnet"),
		provider + "Network/loadBalancers/l": at + `{"frontendIPConfigurations":[` +
			ip("balancer") + `}}]}}`,
		provider + "Compute/virtualMachines/m": at + `{"hardwareProfile":{"vmSize":"Standard_D2s_v5"},
			"networkProfile":{"networkInterfaces":[{"id":"` + string(provider) +
			`Network/networkInterfaces/machine"}]}}}`,
		provider + "Compute/availabilitySets/s": at + `{}}`,
		provider + "ManagedIdentity/userAssignedIdentities/i/federatedIdentityCredentials/f": `{
			"properties":{"issuer":"https://i.example","subject":"s",
			"audiences":["api://AzureADTokenExchange"]}}`,
		provider + "Insights/activityLogAlerts/a": `{"location":"global","properties":{
			"scopes":["` + string(group) + `"],"enabled":true,"condition":{"allOf":[{"field":"category",
			"equals":"Administrative"},{"field":"operationName","equals":"none"}]},"actions":{"actionGroups":[{"actionGroupId":"` +
			string(provider) + `Insights/actionGroups/g","webhookProperties":{"Name":"kept"}}]}}}`,
		provider + "Authorization/locks/l": `{"properties":{"level":"CanNotDelete","notes":"n"}}`,
		provider + "Authorization/roleDefinitions/a55160ed-0000-4000-8000-000000000002": `{
			"properties":{"roleName":"r","type":"CustomRole","assignableScopes":["` + string(group) +
			`"],"permissions":[{"actions":["*/read"],"notActions":[]}]}}`,
		provider + "Authorization/policyAssignments/a": `{"properties":{"policyDefinitionId":"` +
			string(provider) + `Authorization/policyDefinitions/p"}}`,
		provider + "ContainerService/managedClusters/c": `{"location":"westeurope","properties":{
			"networkProfile":{"networkPlugin":"azure","networkPluginMode":"overlay"},
			"oidcIssuerProfile":{"enabled":true},"aadProfile":{"managed":true},
			"addonProfiles":{"azurepolicy":{"enabled":true,"config":{"Version":"kept"}}},
			"agentPoolProfiles":[{"name":"np","mode":"System","count":1,
			"nodeLabels":{"Count":"kept"}}]}}`,
	}
}

// recased changes the case of all names in a document, except those of tags.
func recased(value any, spelled func(string) string) any {
	switch v := value.(type) {
	case kernel.Object:
		out := kernel.Object{}
		for name, inner := range v {
			switch name { // whose keys are the client's
			case "nodeLabels", "config", "webhookProperties", "policyRule", "metadata":
			case "addonProfiles", "userAssignedIdentities", "identityProfile":
				for key, below := range inner.(kernel.Object) {
					inner.(kernel.Object)[key] = recased(below, spelled)
				}
			case "tags":
			case "notInAnySDK":
				out[name] = inner
				continue
			default:
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
			for _, name := range []string{"etag", "eTag", "updatedOn", "updatedBy", "systemData"} {
				delete(v, name)
			}
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

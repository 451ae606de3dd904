package clients

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// The api-versions of azurerm 5.2.
const (
	rmGroups     = "2023-07-01"
	rmNetwork    = "2025-01-01"
	rmIdentity   = "2024-11-30"
	rmRoles      = "2022-05-01-preview"
	rmAssignment = "2022-04-01"
	rmCluster    = "2025-10-01"
)

// azurerm makes the calls of Terraform's azurerm provider 5.2. The provider itself cannot run here:
// these are its calls, literally and in order, over HTTPS.
type azurerm struct{ *rest }

// create reads a resource that must not exist, puts it, and reads it until the update has ended.
func (p *azurerm) create(id, version, body string) gjson.Result {
	p.Helper()
	if status, _ := p.send(http.MethodGet, id, version, ""); status != http.StatusNotFound {
		p.Fatalf("before it is created %s answers %d", id, status)
	}
	return p.put(id, version, body, http.StatusCreated)
}

func (p *azurerm) put(id, version, body string, want int) gjson.Result {
	p.Helper()
	if status, doc := p.send(http.MethodPut, id, version, body); status != want {
		p.Fatalf("PUT %s: %d %s, want %d", id, status, doc.Raw, want)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(operationTime / 3) {
		status, doc := p.send(http.MethodGet, id, version, "")
		switch state := doc.Get("properties.provisioningState").String(); {
		case status != http.StatusOK, time.Now().After(deadline), state == "Failed":
			p.Fatalf("GET %s: %d %s", id, status, doc.Raw)
		case state == "Succeeded" || state == "":
			return doc
		}
	}
}

// destroy deletes, and reads until the resource does not exist.
func (p *azurerm) destroy(id, version string) {
	p.Helper()
	status, doc := p.send(http.MethodDelete, id, version, "")
	if status != http.StatusOK && status != http.StatusAccepted && status != http.StatusNoContent {
		p.Fatalf("DELETE %s: %d %s", id, status, doc.Raw)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(operationTime / 3) {
		if status, doc = p.send(http.MethodGet, id, version, ""); status == http.StatusNotFound {
			return
		}
		if status != http.StatusOK || time.Now().After(deadline) {
			p.Fatalf("after DELETE %s: %d %s", id, status, doc.Raw)
		}
	}
}

// begin reads the metadata of the cloud and logs in, as the provider does with `metadata_host`.
func begin(a *azure) *azurerm {
	p := &azurerm{&rest{azure: a, endpoint: a.info.HTTPS}}
	_, cloud := p.send(http.MethodGet, "/metadata/endpoints", "2022-09-01", "")
	p.expect(cloud,
		"name", "*", "suffixes.storage", "*", "suffixes.keyVaultDns", "*",
		"microsoftGraphResourceId", "*",
		"authentication.identityProvider", "AAD", "authentication.tenant", "*", "resourceManager",
		a.info.HTTPS)
	p.endpoint = cloud.Get("resourceManager").String()
	login := strings.TrimSuffix(cloud.Get("authentication.loginEndpoint").String(), "/")
	answer, err := a.http.PostForm(login+"/"+a.info.TenantID+"/oauth2/v2.0/token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {a.info.ClientID}, "client_secret": {
			a.info.ClientSecret},
		"scope": {cloud.Get("authentication.audiences.0").String() + "/.default"},
	})
	if err != nil {
		a.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		a.Fatal(err)
	}
	p.token = gjson.GetBytes(raw, "access_token").String()
	parts := strings.Split(p.token, ".")
	if len(parts) != 3 || gjson.GetBytes(raw, "token_type").String() != "Bearer" {
		a.Fatalf("the login answered %s", raw)
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		a.Fatal(err)
	}
	p.expect(gjson.ParseBytes(claims), "oid", emulator.DefaultPrincipal.ObjectID, "tid",
		a.info.TenantID, "appid", a.info.ClientID)
	a.requests()
	return p
}

func TestAzurerm(t *testing.T) {
	t.Parallel()
	p := begin(start(t, emulator.Options{CheckClusterIdentity: true}))
	const (
		group    = subscription + "/resourceGroups/shop-rg"
		vnet     = group + "/providers/Microsoft.Network/virtualNetworks/shop-vnet"
		nodes    = vnet + "/subnets/nodes"
		table    = group + "/providers/Microsoft.Network/routeTables/shop-rt"
		identity = group + "/providers/Microsoft.ManagedIdentity/userAssignedIdentities/shop"
		onVNet   = vnet + "/providers/Microsoft.Authorization/roleAssignments/a55160ed-0000-4000-8000-000000000001"
		onTable  = table +
			"/providers/Microsoft.Authorization/roleAssignments/a55160ed-0000-4000-8000-000000000002"
		cluster = group + "/providers/Microsoft.ContainerService/managedClusters/shop"
	)
	p.expect(p.create(group, rmGroups, `{"location":"westeurope","tags":{}}`), "id", group,
		"location", region, "properties.provisioningState", "Succeeded")

	p.create(vnet, rmNetwork,
		`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.42.0.0/16"]},"dhcpOptions":{"dnsServers":[]},"privateEndpointVNetPolicies":"Disabled","subnets":[]},"tags":{}}`)
	p.create(nodes, rmNetwork,
		`{"properties":{"addressPrefixes":["10.42.1.0/24"],"defaultOutboundAccess":true,"delegations":[],"privateEndpointNetworkPolicies":"Disabled","privateLinkServiceNetworkPolicies":"Enabled","serviceEndpoints":[]}}`)
	_, doc := p.send(http.MethodGet, vnet, rmNetwork, "")
	p.expect(doc, "properties.subnets.#", "1", "properties.subnets.0.id", nodes,
		"properties.subnets.0.properties.addressPrefixes.0", "10.42.1.0/24",
		"properties.subnets.0.properties.defaultOutboundAccess", "true",
		"properties.dhcpOptions.dnsServers.#", "0")

	made := p.create(table, rmNetwork,
		`{"location":"westeurope","properties":{"disableBgpRoutePropagation":false,"routes":[]},"tags":{}}`)
	p.expect(made, "properties.disableBgpRoutePropagation", "false", "properties.routes.#", "0")
	p.create(table+"/routes/egress", rmNetwork,
		`{"name":"egress","properties":{"addressPrefix":"0.0.0.0/0","nextHopIpAddress":"10.42.3.4","nextHopType":"VirtualAppliance"}}`)

	// The association is the subnet, read and written with a table.
	_, subnet := p.send(http.MethodGet, nodes, rmNetwork, "")
	with, err := sjson.SetRaw(subnet.Raw, "properties.routeTable", `{"id":"`+table+`"}`)
	if err != nil {
		t.Fatal(err)
	}
	p.expect(p.put(nodes, rmNetwork, with, http.StatusOK), "properties.routeTable.id", table)
	_, doc = p.send(http.MethodGet, table, rmNetwork, "")
	p.expect(doc, "properties.subnets.0.id", nodes,
		"properties.routes.0.properties.nextHopIpAddress", "10.42.3.4", "properties.routes.0.id",
		table+"/routes/egress")

	who := p.create(identity, rmIdentity, `{"location":"westeurope","tags":{}}`)
	p.expect(who, "properties.clientId", "*", "properties.principalId", "*", "properties.tenantId",
		p.info.TenantID)
	principal := who.Get("properties.principalId").String()
	_, role := p.send(http.MethodGet, vnet+
		"/providers/Microsoft.Authorization/roleDefinitions?$filter="+
		url.QueryEscape("roleName eq 'Network Contributor'"), rmRoles, "")
	p.expect(role, "value.#", "1", "value.0.properties.roleName", "Network Contributor",
		"value.0.name", "4d97b98b-1d4f-4787-a291-c67834d212e7")
	for scope, assignment := range map[string]string{vnet: onVNet, table: onTable} {
		p.create(assignment, rmAssignment,
			fmt.Sprintf(`{"properties":{"principalId":%q,"principalType":"ServicePrincipal","roleDefinitionId":%q}}`, principal, role.Get("value.0.id")))
		for range 3 { // it reads several times, because Azure may be late
			_, doc = p.send(http.MethodGet, assignment, rmAssignment, "")
			p.expect(doc, "properties.principalId", principal, "properties.scope", scope,
				"properties.roleDefinitionId", role.Get("value.0.id").String(),
				"properties.principalType", "ServicePrincipal")
		}
	}

	made = p.create(cluster, rmCluster,
		fmt.Sprintf(`{"location":"westeurope","sku":{"name":"Base","tier":"Free"},"tags":{},"identity":{"type":"UserAssigned","userAssignedIdentities":{%q:{}}},"properties":{
		"dnsPrefix":"shop","enableRBAC":true,"disableLocalAccounts":false,"supportPlan":"KubernetesOfficial","apiServerAccessProfile":{"enablePrivateCluster":false},"securityProfile":{},
		"networkProfile":{"networkPlugin":"kubenet","loadBalancerSku":"standard","outboundType":"loadBalancer"},
		"agentPoolProfiles":[{"name":"default","count":2,"mode":"System","osType":"Linux","type":"VirtualMachineScaleSets","vmSize":"Standard_D2s_v5","vnetSubnetID":%q,"upgradeSettings":{"maxSurge":"10%%"}}]}}`, identity, nodes))
	p.expect(made, "id", cluster, "properties.provisioningState", "Succeeded",
		"properties.networkProfile.loadBalancerSku", "standard",
		"properties.agentPoolProfiles.0.name", "default",
		"properties.agentPoolProfiles.0.upgradeSettings.maxSurge", "10%",
		"properties.nodeResourceGroup", "MC_shop-rg_shop_westeurope", "sku.tier", "Free",
		"properties.fqdn", "*",
		"identity.userAssignedIdentities.*.principalId", principal)
	_, credentials := p.send(http.MethodPost, cluster+"/listClusterUserCredential", rmCluster, "")
	kubeconfig, err := base64.StdEncoding.DecodeString(credentials.Get("kubeconfigs.0.value").
		String())
	if err != nil || !strings.Contains(string(kubeconfig), "clusters:") {
		t.Errorf("the credentials are %s", credentials.Raw)
	}
	for _, name := range []string{"default", "aksManagedAutoUpgradeSchedule",
		"aksManagedNodeOSUpgradeSchedule"} {
		if status, _ := p.send(http.MethodGet, cluster+"/maintenanceConfigurations/"+name,
			rmCluster, ""); status != http.StatusNotFound {
			t.Errorf("maintenanceConfigurations/%s answers %d", name, status)
		}
	}

	// And everything is deleted again. The group is only deleted when it is empty.
	p.destroy(cluster, rmCluster)
	p.destroy(onTable, rmAssignment)
	p.destroy(onVNet, rmAssignment)
	p.destroy(identity, rmIdentity)
	_, subnet = p.send(http.MethodGet, nodes, rmNetwork, "")
	without, err := sjson.Delete(subnet.Raw, "properties.routeTable")
	if err != nil {
		t.Fatal(err)
	}
	p.expect(p.put(nodes, rmNetwork, without, http.StatusOK), "properties.routeTable", "")
	p.destroy(table+"/routes/egress", rmNetwork)
	p.destroy(table, rmNetwork)
	p.destroy(nodes, rmNetwork)
	contents := group + "/resources?$expand=" + url.QueryEscape("provisioningState") + "&$top=10"
	if _, left := p.send(http.MethodGet, contents, rmGroups, ""); left.Get("value.#").Int() != 1 {
		t.Errorf("with the network in it the group holds %s", left.Raw)
	}
	p.destroy(vnet, rmNetwork)
	if _, left := p.send(http.MethodGet, contents, rmGroups, ""); left.Raw != `{"value":[]}` {
		t.Errorf("before it is deleted the group holds %s", left.Raw)
	}
	p.destroy(group, rmGroups)
}

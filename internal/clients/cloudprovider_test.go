package clients

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestCloudProvider makes the calls of cloud-provider-azure's cloud-controller-manager, over plain
// HTTP and with a token of the cluster's identity: it finds a new node and gives it its route. The
// emulator's cloud provider is paused.
func TestCloudProvider(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	shop := a.shop()
	a.routes(4)
	clusterID := arm.ID(*shop.ID)
	a.e.PauseRoutes(clusterID, true)
	if err := a.e.Scale(clusterID, "nodepool1", 4); err != nil {
		t.Fatal(err)
	}
	identity := a.identity("shop", "shop")
	c := &rest{azure: a, endpoint: a.info.HTTP}
	a.assign(subscription+"/resourceGroups/net", *identity.Properties.PrincipalID,
		networkContributor)

	_, login := c.send(http.MethodGet, "/msi/token?resource="+
		url.QueryEscape("https://management.core.windows.net/")+"&client_id="+
		*identity.Properties.ClientID, "2019-08-01", "", "X-IDENTITY-HEADER", "local")
	c.token = login.Get("access_token").String()
	c.expect(login, "token_type", "Bearer", "client_id", *identity.Properties.ClientID)

	_, provider := c.send(http.MethodGet, subscription+"/providers/Microsoft.Compute", "2021-04-01",
		"")
	c.expect(provider, "namespace", "Microsoft.Compute", "registrationState", "Registered",
		"resourceTypes.#(resourceType==virtualMachineScaleSets).resourceType",
		"virtualMachineScaleSets")

	group := subscription + "/resourceGroups/" + *shop.Properties.NodeResourceGroup
	_, sets := c.send(http.MethodGet, group+"/providers/Microsoft.Compute/virtualMachineScaleSets",
		"2025-04-01", "")
	c.expect(sets, "value.#", "1", "value.0.sku.capacity", "4")
	set := sets.Get("value.0.name").String()
	a.settled(c, group+"/providers/Microsoft.Compute/virtualMachineScaleSets/"+set, "2025-04-01")
	_, machines := c.send(http.MethodGet, group+
		"/providers/Microsoft.Compute/virtualMachineScaleSets/"+set+
		"/virtualMachines?$expand=instanceView", "2025-04-01", "")
	c.expect(machines, "value.#", "2", "nextLink", "*",
		"value.0.properties.instanceView.statuses.#(code==PowerState/running).code",
		"PowerState/running")
	next, err := url.Parse(machines.Get("nextLink").String())
	if err != nil || next.Scheme+"://"+next.Host != a.info.HTTP {
		t.Fatalf("nextLink %v does not lead back to %s", next, a.info.HTTP)
	}
	query := next.Query()
	query.Del("api-version")
	_, machines = c.send(http.MethodGet, next.Path+"?"+query.Encode(), "2025-04-01", "")
	node := machines.Get("value.1")
	c.expect(node, "instanceId", "3", "properties.osProfile.computerName", set+"000003",
		"properties.networkProfile.networkInterfaces.0.properties.primary", "true",
		"properties.instanceView.statuses.#(code==PowerState/running).code", "PowerState/running")
	nic := arm.ID(node.Get("properties.networkProfile.networkInterfaces.0.id").String())
	_, doc := c.send(http.MethodGet, group+"/providers/microsoft.Compute/virtualMachineScaleSets/"+
		set+"/virtualMachines/3/networkInterfaces/"+nic.Name(), "2018-10-01", "")
	c.expect(doc, "properties.primary", "true",
		"properties.ipConfigurations.0.properties.privateIPAddress", "10.42.1.7")

	// The whole table from a copy, with If-Match.
	const version = "2025-05-01"
	table := subscription + "/resourceGroups/net/providers/Microsoft.Network/routeTables/rt"
	_, copied := c.send(http.MethodGet, table, version, "")
	with, err := sjson.SetRaw(copied.Raw, "properties.routes.-1", `{"name":"`+set+
		`000003____102443024","properties":{"addressPrefix":"10.244.3.0/24","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.42.1.7"}}`)
	if err != nil {
		t.Fatal(err)
	}
	status, doc := c.send(http.MethodPut, table, version, with, "If-Match",
		copied.Get("etag").String())
	c.expect(doc, "properties.routes.#", "5", "properties.provisioningState", "Updating")
	if operation := c.header.Get("Azure-AsyncOperation"); status != http.StatusOK ||
		len(operation) < len(a.info.HTTP) || operation[:len(a.info.HTTP)] != a.info.HTTP {
		t.Errorf("PUT of the table: %d, to be followed at %q", status, operation)
	}
	a.settled(c, table, version)
	status, doc = c.send(http.MethodPut, table, version, with, "If-Match",
		copied.Get("etag").String())
	if status != http.StatusPreconditionFailed {
		t.Errorf("PUT of the table with the ETag from before: %d", status)
	}
	c.expect(doc, "error.code", "PreconditionFailedEtagMismatch")
	a.routes(5)
}

// settled reads a resource until its update has ended.
func (a *azure) settled(c *rest, id, version string) gjson.Result {
	for {
		if _, doc := c.send(http.MethodGet, id, version,
			""); doc.Get("properties.provisioningState").String() != "Updating" {
			return doc
		}
		time.Sleep(operationTime / 3)
	}
}

package clients

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"routekeeper.dev/routekeeper/emulator"
)

// associate is the code under test: it gives a subnet a route table, and changes nothing else in
// it.
func associate(ctx context.Context, subnets *armnetwork.SubnetsClient, subnet, table string) error {
	id, err := arm.ParseResourceID(subnet)
	if err != nil {
		return err
	}
	group, vnet, name := id.ResourceGroupName, id.Parent.Name, id.Name
	have, err := subnets.Get(ctx, group, vnet, name, nil)
	if err != nil {
		return err
	}
	have.Properties.RouteTable = &armnetwork.RouteTable{ID: to.Ptr(table)}
	write, err := subnets.BeginCreateOrUpdate(ctx, group, vnet, name, have.Subnet, nil)
	if err != nil {
		return err
	}
	_, err = write.PollUntilDone(ctx, nil)
	return err
}

// TestAssociate is a test to copy: a redeploy removes the cluster's route table from its subnet,
// the code under test restores it, and Azure refuses the first of its writes.
func TestAssociate(t *testing.T) {
	azure := emulator.Start(t, emulator.Options{Scenario: "demo"})
	subnets, err := armnetwork.NewSubnetsClient(azure.SubscriptionIDs[0], azure.Credential(),
		&arm.ClientOptions{ClientOptions: azure.ClientOptions()})
	if err != nil {
		t.Fatal(err)
	}
	azure.Strip(azure.Demo.NodeSubnet)
	azure.Inject(emulator.Fault{Method: http.MethodPut, Path: "/subnets/nodes$", Status: 429,
		RetryAfter: 1})

	if err := associate(t.Context(), subnets, azure.Demo.NodeSubnet,
		azure.Demo.ClusterTable); err != nil {
		t.Fatal(err)
	}

	properties := azure.Get(azure.Demo.NodeSubnet, "2025-05-01")["properties"].(map[string]any)
	table, _ := properties["routeTable"].(map[string]any)
	if table["id"] != azure.Demo.ClusterTable {
		t.Errorf("the subnet has the table %v", table["id"])
	}
	var statuses []int
	for _, call := range azure.Requests(emulator.Default.Name) {
		if call.Method == http.MethodPut && strings.HasSuffix(call.Path, "/subnets/nodes") {
			statuses = append(statuses, call.Status)
		}
	}
	if len(statuses) != 2 || statuses[0] != 429 || statuses[1] != 200 {
		t.Errorf("the writes were answered with %v", statuses)
	}
}

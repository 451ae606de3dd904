package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// needAZ is set by .ci/run: then a machine without the Azure CLI fails this test.
const needAZ = "ROUTEKEEPER_NEED_AZ"

// findAZ returns what runs a script of testdata/az against an emulator; the result is the folder
// with the answers.
func findAZ(t *testing.T) func(a *azure, name, kubectl string) string {
	t.Helper()
	if _, err := exec.LookPath("az"); err != nil {
		if os.Getenv(needAZ) != "" {
			t.Fatalf("%s is set, but the Azure CLI is not installed: %v", needAZ, err)
		}
		t.Skipf("NOT RUN: the Azure CLI is not installed here (%v). On Debian: apt-get install "+
			"azure-cli. With %s=1 this is a failure.", err, needAZ)
	}
	t.Parallel()
	testdata, err := filepath.Abs("../../testdata/az")
	if err != nil {
		t.Fatal(err)
	}
	return func(a *azure, name, kubectl string) string {
		t.Helper()
		out := t.TempDir()
		script := exec.CommandContext(a.ctx, "sh", filepath.Join(testdata, name))
		script.Env = append(os.Environ(),
			"HTTPS="+a.info.HTTPS, "TENANT="+a.info.TenantID, "SUBSCRIPTION="+sub, "CLIENT_ID="+
				a.info.ClientID, "CLIENT_SECRET="+a.info.ClientSecret, "OUT="+out,
			"KUBECTL="+kubectl, "REQUESTS_CA_BUNDLE="+a.info.CAFile, "PYTHONPATH="+
				filepath.Join(testdata, "shim"),
			"AZURE_CONFIG_DIR="+
				t.TempDir(), "AZURE_CORE_COLLECT_TELEMETRY=no", "AZURE_CORE_NO_COLOR=yes",
			"NO_PROXY=127.0.0.1",
		)
		began := time.Now()
		if said, err := script.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		t.Logf("%s took %s", name, time.Since(began))
		return out
	}
}

// TestAzureCLI runs testdata/az/script.sh with the installed Azure CLI. It takes half a minute: az
// waits at least a second for every operation.
func TestAzureCLI(t *testing.T) {
	az := findAZ(t)
	a := start(t, emulator.Options{
		OperationTime: 20 * time.Millisecond, RouteBatch: 100 * time.Millisecond,
		RouteCache: time.Second, CheckClusterIdentity: true,
	})
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Logf("kubectl is not installed here (%v): the script does without", err)
	}
	out := az(a, "script.sh", kubectl)
	checkCommands(t, filepath.Join(out, "commands"))
	checkAnswers(t, out)
	checkTagged(t, out)
	if kubectl != "" {
		if n := answered(t, out, "kubectl").Get("items.#").Int(); n != 5 {
			t.Errorf("kubectl sees %d nodes, want 5", n)
		}
	}
	checkWrites(t, a)
}

// checkCommands limits the number of commands, because each takes time.
func checkCommands(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), "\n"); n > 55 {
		t.Errorf("the script calls az %d times; 55 are enough", n)
	}
}

// checkAnswers checks az's output.
func checkAnswers(t *testing.T, out string) {
	const (
		nodes = "/subscriptions/" + sub +
			"/resourceGroups/shop-rg/providers/Microsoft.Network/virtualNetworks/shop-vnet/subnets/nodes"
		table = "/subscriptions/" + sub +
			"/resourceGroups/shop-rg/providers/Microsoft.Network/routeTables/shop-rt"
	)
	for _, want := range []struct{ step, path, value string }{
		{"login", "0.id", sub},
		{"login", "0.user.type", "servicePrincipal"},
		{"group", "id", "/subscriptions/" + sub + "/resourceGroups/shop-rg"},
		{"vnet", "newVNet.provisioningState", "Succeeded"},
		{"subnet-nodes", "addressPrefix", "10.42.1.0/24"},
		{"subnet-nodes", "routeTable", ""},
		{"table", "id", table},
		{"route", "nextHopIpAddress", "10.42.3.4"},
		{"associate", "routeTable.id", table},
		{"role", "scope", "/subscriptions/" + sub + "/resourceGroups/shop-rg"},
		{"roles", "0.roleDefinitionName", "Network Contributor"},
		{"feature", "properties.state", "Registering"},
		{"cluster", "provisioningState", "Succeeded"},
		{"cluster", "agentPoolProfiles.0.count", "3"},
		{"cluster", "agentPoolProfiles.0.vnetSubnetId", nodes},
		{"cluster", "networkProfile.networkPlugin", "kubenet"},
		{"cluster", "networkProfile.podCidr", "10.244.0.0/16"},
		{"cluster", "nodeResourceGroup", "MC_shop-rg_shop_westeurope"},
		{"action-group", "webhookReceivers.0.useCommonAlertSchema", "true"},
		{"alert", "scopes.0", table},
		{"alerts", "#", "1"},
		{"alerts", "0.condition.allOf.#(field==operationName).equals",
			"Microsoft.Network/routeTables/write"},
		{"scale", "agentPoolProfiles.0.count", "5"},
		{"pools", "#", "1"},
		{"pools", "0.name", "nodepool1"},
		{"scaleset", "0.sku.capacity", "5"},
		{"nics", "#", "5"},
		{"nics", "#(enableIPForwarding==true)#|#", "5"},
		{"nics", "4.ipConfigurations.0.subnet.id", nodes},
		{"routes", "#", "6"},
		{"routes", "#(name==egress).nextHopIpAddress", "10.42.3.4"},
		{"strip", "routeTable", ""},
		{"strip", "ipConfigurations.#", "5"},
		{"stripped", "subnets", ""},
		{"stripped", "routes.#", "6"},
		{"restore", "routeTable.id", table},
		{"validate", "properties.provisioningState", "Succeeded"},
		{"what-if", `changes.#(changeType=="Create")#|#`, "3"},
		{"what-if", `changes.#(changeType=="Modify")#|#`, "0"},
		{"deploy", "properties.outputs.third.value",
			strings.Replace(table, "shop-rt", "shop-three", 1)},
		{"deploy", "properties.outputResources.#", "3"},
		{"what-if-again", `changes.#(changeType=="NoChange")#|#`, "3"},
		{"deployment", "properties.provisioningState", "Succeeded"},
		{"deployments", "#", "2"},
		{"operations", "#", "4"},
		{"gateway", "applicationGateway.provisioningState", "Succeeded"},
		{"tag-vnet", "tags.team", "net"},
		{"left", "#", "4"}, // the three tables of the template, and the gateway's address
		{"groups", "#", "0"},
	} {
		if got := answered(t, out, want.step).Get(want.path).String(); got != want.value {
			t.Errorf("az answered at step %s: %s is %q, want %q", want.step, want.path, got,
				want.value)
		}
	}
	// Each node has its route: the next hops are the addresses of the network interfaces.
	addresses := texts(answered(t, out, "nics").Get("#.ipConfigurations.0.privateIPAddress"))
	hops := texts(answered(t, out, "routes").Get("#(name!=egress)#.nextHopIpAddress"))
	if slices.Sort(addresses); !slices.Equal(addresses, hops) {
		t.Errorf("routes lead to %v, nodes are at %v", hops, addresses)
	}
	// The activity log names the callers: the login, and the cluster's identity.
	log := answered(t, out, "activity")
	identity := answered(t, out, "identity").Get("principalId").String()
	for operation, caller := range map[string]string{
		"Microsoft.Network/virtualNetworks/subnets/write": emulator.DefaultPrincipal.ObjectID,
		"Microsoft.Network/routeTables/write":             identity,
	} {
		if !slices.Contains(texts(log.Get(`#(operationName.value==`+operation+`)#.caller`)),
			caller) || caller == "" {
			t.Errorf("the activity log has no %s by %q", operation, caller)
		}
	}
}

// checkTagged decodes a network with a gateway that az has written.
func checkTagged(t *testing.T, out string) {
	network, err := inventory.DecodeVNet([]byte(answered(t, out, "tagged-vnet").Raw))
	if err != nil {
		t.Fatal(err)
	}
	gateways := 0
	for _, subnet := range network.Subnets {
		gateways += len(subnet.Gateways)
	}
	if gateways != 1 {
		t.Errorf("after az's write the subnets show %d gateways, want 1", gateways)
	}
}

func answered(t *testing.T, out, step string) gjson.Result {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(out, step+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return gjson.ParseBytes(raw)
}

func texts(list gjson.Result) []string {
	var out []string
	for _, item := range list.Array() {
		out = append(out, item.String())
	}
	return out
}

// gatewayName matches the name of az's deployment of a gateway.
var gatewayName = regexp.MustCompile(`ag_deploy_\w+`)

// checkWrites checks az's writes, and that it followed its operations.
func checkWrites(t *testing.T, a *azure) {
	var writes []string
	polls := 0
	for _, r := range a.requests() {
		switch {
		case r.Principal != emulator.DefaultPrincipal.Name: // the cluster's own calls
		case strings.Contains(r.Path, "/operations/") ||
			strings.Contains(strings.ToLower(r.Path), "/operationstatuses/"):
			polls++
		case r.Note != "": // of a deployment
		case r.Method != "GET" && r.Method != "HEAD":
			writes = append(writes, gatewayName.ReplaceAllString(line(r), "ag_deploy"))
		}
	}
	want := []string{
		"PUT resourcegroups/shop-rg 2021-04-01 201",
		"PUT Microsoft.Network/virtualNetworks/shop-vnet 2022-01-01 201",
		"PUT Microsoft.Network/virtualNetworks/shop-vnet/subnets/nodes 2022-01-01 201",
		"PUT Microsoft.Network/virtualNetworks/shop-vnet/subnets/appgw 2022-01-01 201",
		"PUT Microsoft.Network/routeTables/shop-rt 2021-08-01 201",
		"PUT Microsoft.Network/routeTables/shop-rt/routes/egress 2021-08-01 201",
		"PUT Microsoft.Network/virtualNetworks/shop-vnet/subnets/nodes 2022-01-01 200",
		"PUT Microsoft.ManagedIdentity/userAssignedIdentities/shop-identity 2022-01-31-preview 201",
		"POST v1.0/directoryObjects/getByIds  200",
		"PUT Microsoft.Authorization/roleAssignments/a55160ed-0000-4000-8000-000000000001 " +
			"2020-04-01-preview 201",
		"POST v1.0/directoryObjects/getByIds  200",
		"POST Microsoft.ContainerService/features/PodSubnetPreview/register 2021-07-01 200",
		"PUT Microsoft.ContainerService/managedClusters/shop 2022-11-01 201",
		"PUT Microsoft.Insights/actionGroups/keeper 2022-06-01 201",
		"PUT microsoft.insights/activityLogAlerts/keeper 2017-04-01 201",
		"DELETE microsoft.insights/activityLogAlerts/keeper 2017-04-01 200",
		"DELETE Microsoft.Insights/actionGroups/keeper 2022-06-01 200",
		"PUT Microsoft.ContainerService/managedClusters/shop 2022-11-01 200",
		"POST Microsoft.ContainerService/managedClusters/shop/listClusterUserCredential " +
			"2022-11-01 200",
		"PUT Microsoft.Network/virtualNetworks/shop-vnet/subnets/nodes 2022-01-01 200",
		"PUT Microsoft.Network/virtualNetworks/shop-vnet/subnets/nodes 2022-01-01 200",
		"POST Microsoft.Resources/deployments/shop/validate 2021-04-01 200",
		"POST Microsoft.Resources/deployments/shop/whatIf 2021-04-01 202",
		"POST Microsoft.Resources/deployments/shop/validate 2021-04-01 200",
		"PUT Microsoft.Resources/deployments/shop 2021-04-01 201",
		"POST Microsoft.Resources/deployments/shop/whatIf 2021-04-01 202",
		"PUT Microsoft.Resources/deployments/ag_deploy 2021-04-01 201",
		"PUT Microsoft.Network/virtualNetworks/shop-vnet 2022-01-01 200",
		"DELETE Microsoft.Network/applicationGateways/shop-gw 2022-05-01 202",
		"DELETE Microsoft.ContainerService/managedClusters/shop 2022-11-01 202",
		"DELETE Microsoft.Network/virtualNetworks/shop-vnet 2022-01-01 202",
		"DELETE Microsoft.Network/routeTables/shop-rt 2021-08-01 202",
		"DELETE Microsoft.ManagedIdentity/userAssignedIdentities/shop-identity " +
			"2022-01-31-preview 200",
		"DELETE resourcegroups/shop-rg 2021-04-01 202",
	}
	if !slices.Equal(writes, want) {
		t.Errorf("az wrote\n\t%s\nwant\n\t%s", strings.Join(writes, "\n\t"),
			strings.Join(want, "\n\t"))
	}
	if polls < len(want)/2 {
		t.Errorf("az polled its operations %d times only", polls)
	}
}

package emulator

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/compute"
	"routekeeper.dev/routekeeper/internal/emulator/deployments"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/keyvault"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// Evidence is how we know that a resource type behaves as on Azure. Every type is in one of the
// Evidences; the table in docs/emulator.md is made from them.
type Evidence struct {
	// Name is the table's name for the types.
	Name  string
	Types []string
	// Recorded are the rows of the recordings that are compared, with the share of whole answers,
	// in percent, that must be equal: the tests of the recordings enforce it.
	Recorded map[string]float64
	// Clients are the real clients that the tests in internal/clients run, or whose calls they
	// make.
	Clients string
	// Documented is behaviour known from Azure's documentation or issues alone.
	Documented string
	// Guessed is behaviour that no source confirms. GuessedIn are the files, below this folder,
	// that mark it with [U].
	Guessed   string
	GuessedIn []string
}

const (
	az   = "az"
	goes = "SDK for Go"
	tf   = "azurerm's calls"
	ccm  = "cloud-provider-azure's calls"
)

func clients(all ...string) string { return strings.Join(all, ", ") }

// Evidences is the table, in its order.
var Evidences = []Evidence{
	{
		Name: "resource groups", Types: []string{arm.TypeResourceGroup},
		Recorded: map[string]float64{"resource groups": 95}, Clients: clients(az, goes, tf),
		Documented: "what stays when a delete is blocked", Guessed: "the order of deletes, and " +
			"their time",
	},
	{
		Name: "route tables, routes", Types: []string{arm.TypeRouteTable},
		Recorded: map[string]float64{"route tables": 95, "routes": 95}, Clients: clients(az, goes,
			tf, ccm),
		Documented: "400 routes, what a gateway's subnet refuses",
	},
	{
		Name: "virtual networks, subnets", Types: []string{arm.TypeVNet, arm.TypeSubnet},
		Recorded: map[string]float64{"subnets": 95, "virtual networks": 90}, Clients: clients(az,
			goes, tf),
		Documented: "subnets absent from a PUT before and after 2023-09-01, reserved names",
		Guessed:    "If-Match on subnets, codes of some refusals", GuessedIn: []string{
			"network/links.go",
			"network/reserved.go"},
	},
	{
		Name: "peerings", Types: []string{network.TypePeering},
		Recorded: map[string]float64{"peerings": 90}, Clients: clients(goes),
		Documented: "states, sync of address spaces", Guessed: "codes of some refusals",
		GuessedIn: []string{"network/peering.go"},
	},
	{
		Name: "network interfaces", Types: []string{network.TypeNIC},
		Recorded: map[string]float64{"network interfaces": 90}, Clients: clients(goes),
		Documented: "effective routes: which of them wins",
	},
	{
		Name: "network security groups", Types: []string{network.TypeNSG},
		Recorded: map[string]float64{"network security groups": 95,
			"security rules": 95}, Clients: clients(goes),
	},
	{
		Name: "public IP addresses, NAT gateways", Types: []string{network.TypePublicIP,
			network.TypeNAT},
		Recorded: map[string]float64{"public IP addresses": 90,
			"NAT gateways": 90}, Clients: clients(az, goes),
		Guessed: "the addresses",
	},
	{
		Name: "application gateways", Types: []string{arm.TypeGateway},
		Recorded: map[string]float64{"application gateways": 80}, Clients: clients(az, goes),
		Documented: "what their subnet refuses, delegation and network isolation",
		Guessed: "when the ingress add-on writes; it fills one pool, the real one writes " +
			"everything; that behind every address answers a server",
	},
	{
		Name: "load balancers", Types: []string{network.TypeLoadBalancer},
		Documented: "what the cloud provider writes for services (its source); what AKS makes " +
			"is recorded in lists",
		Guessed: "all other fields that Azure adds",
	},
	{
		Name: "key vaults", Types: []string{keyvault.TypeVault, keyvault.TypeDeleted},
		Documented: "deleted vaults, recovery and purge (recorded, but not measured)",
		Guessed:    "refusal of a purge", GuessedIn: []string{"keyvault/keyvault.go"},
	},
	{
		Name: "firewalls, VPN gateways, bastions, service endpoint policies",
		Types: []string{network.TypeFirewall, network.TypeVPNGateway, network.TypeBastion,
			network.TypeEndpointPolicy},
		Documented: "which subnet they need, what they hold", Guessed: "all fields that Azure adds",
	},
	{
		Name: "private DNS zones, private endpoints",
		Types: append([]string{network.TypePrivateZone, network.TypePrivateZoneLink,
			network.TypePrivateEndpoint}, network.PrivateRecords...),
		Documented: "what a private cluster has of them, which names a network resolves",
		Guessed:    "names of links, codes of refusals",
		GuessedIn:  []string{"aks/privatecluster.go", "network/privatedns.go"},
	},
	{
		Name: "network watchers", Types: []string{network.TypeWatcher}, Clients: goes,
		Documented: "next hop", Guessed: "code of a refusal", GuessedIn: []string{
			"network/watcher.go"},
	},
	{
		Name: "AKS clusters, agent pools", Types: []string{arm.TypeCluster},
		Recorded: map[string]float64{"AKS clusters": 90, "AKS agent pools": 90,
			"AKS credentials": 95},
		Clients: clients(az, goes, tf, "kubectl"),
		Documented: "addresses of each network plugin, upgrades with surge, migration to " +
			"overlay, limits of sizes " +
			"and names, plugins that refuse Windows",
		Guessed: "names of interfaces in virtual machine pools and of NAT gateways, that a " +
			"reimaged node gets " +
			"another pod CIDR, that routes stay while a cluster " +
			"is stopped, codes " +
			"and wording of some refusals",
		GuessedIn: []string{
			"aks/agentpool.go", "aks/cluster.go", "aks/clusterlife.go", "authorization/lock.go",
			"aks/machinepool.go", "aks/migrate.go", "aks/natgateway.go",
			"aks/networkprofile.go",
			"aks/podsubnet.go", "aks/upgrade.go",
		},
	},
	{
		Name:  "AKS maintenance configurations, trusted access",
		Types: []string{aks.TypeMaintenance, aks.TypeTrustedAccess}, Clients: goes,
		Documented: "names, windows, roles", Guessed: "wording of refusals", GuessedIn: []string{
			"aks/maintenance.go"},
	},
	{
		Name: "scale sets, virtual machines", Types: []string{arm.TypeScaleSet,
			compute.TypeScaleSetExtension, compute.TypeAvailabilitySet, network.TypeVM},
		Recorded: map[string]float64{"scale sets": 80}, Clients: clients(az, goes, ccm),
		Documented: "paths of instances and their interfaces",
		Guessed:    "versions of images, the status of machines, on which no program runs",
	},
	{
		Name: "deployments", Types: []string{deployments.TypeDeployment}, Clients: clients(az),
		Documented: "expressions, order, guid() and uniqueString(), what-if",
		Guessed:    "what still starts after a failure, the template's hash", GuessedIn: []string{
			"deployments/run.go"},
	},
	{
		Name: "user-assigned identities, federated credentials", Types: []string{
			entra.TypeUserIdentity,
			entra.TypeFederatedCredential},
		Recorded: map[string]float64{"managed identities": 95}, Clients: clients(az, goes, tf),
		Documented: "20 credentials each, Entra ID's error codes",
	},
	{
		Name: "role definitions, role assignments", Types: []string{
			authorization.TypeRoleDefinition,
			authorization.TypeRoleAssignment},
		Recorded:   map[string]float64{"role assignments": 95, "role definitions": 95},
		Clients:    clients(az, goes, tf),
		Documented: "actions of the built-in roles, which action each call needs",
	},
	{
		Name: "locks", Types: []string{authorization.TypeLock}, Recorded: map[string]float64{
			"locks": 95},
		Documented: "inheritance, deletes of what contains them",
	},
	{
		Name: "policies", Types: []string{authorization.TypePolicyDefinition,
			authorization.TypePolicySet,
			authorization.TypePolicyAssignment, authorization.TypePolicyExemption},
		Recorded: map[string]float64{"policies": 90}, Documented: "deny, denyAction, counts of " +
			"array elements, exemptions",
		Guessed: "which policies Azure brings: any GUID, without effect but for Subnets " +
			"should be private; codes of invalid exemptions",
	},
	{
		Name: "activity log alerts, action groups", Types: []string{arm.TypeAlertRule,
			arm.TypeActionGroup},
		Recorded: map[string]float64{"activity log alerts": 90,
			"action groups": 90}, Clients: clients(az, goes),
		Documented: "the schemas of webhooks, retries, silences",
		Guessed:    "how long a webhook may take", GuessedIn: []string{"insights/webhook.go"},
	},
	{
		Name: "throttling", Documented: "token buckets and their sizes", Clients: clients(goes),
		Guessed: "which pods AKS counts", GuessedIn: []string{"kernel/throttle.go"},
	},
	{
		Name:       "clusters' cloud provider",
		Clients:    "measured next to cloud-provider-azure",
		Documented: "delete by name prefix, the stale copy (its source)",
	},
	{
		Name: "clusters' API server", Clients: "kubectl",
		Documented: "nodes, pods, pages, refusals",
		Guessed:    "which pods run: the ones that matter to the network, and two with addresses",
	},
}

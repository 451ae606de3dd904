package resources

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// topCall answers above the resources: tenants, subscriptions and resource providers. It refuses a
// token of another tenant than the subscription's.
func (s *Resources) topCall(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	if len(c.Path) == 0 {
		return kernel.Handled(kernel.Reply{}, kernel.NotFound(c))
	}
	switch first := strings.ToLower(c.Path[0]); {
	case first == "tenants" && len(c.Path) == 1:
		t := c.Who.Tenant
		return kernel.Handled(s.kernel.PageObjects(c, []kernel.Object{{
			"id": "/tenants/" + t, "tenantId": t, "displayName": "local", "countryCode": "NL",
			"tenantCategory": "Home",
			"defaultDomain":  "local.onmicrosoft.com", "domains": []string{"local.onmicrosoft.com"},
		}}))
	case first == "providers" && len(c.Path) <= 2:
		return kernel.Handled(s.providerCall(c, c.Path[1:], ""))
	case first == "providers":
		return kernel.Reply{}, nil, false // role definitions
	case first != "subscriptions":
		return kernel.Handled(kernel.Reply{}, kernel.NotFound(c))
	}
	if len(c.Path) == 1 {
		var subs []kernel.Object
		for _, id := range s.kernel.Store.Subscriptions {
			if strings.EqualFold(s.kernel.Opts.TenantOf(id), c.Who.Tenant) &&
				s.authorization.Sees(c.Who, id) {
				subs = append(subs, s.subscription(id))
			}
		}
		return kernel.Handled(s.kernel.PageObjects(c, subs))
	}
	sub := c.Path[1]
	if !s.kernel.Store.HasSubscription(sub) {
		return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "SubscriptionNotFound",
			"The subscription '%s' could not be found.", sub), true
	}
	if tenant := s.kernel.Opts.TenantOf(sub); !strings.EqualFold(tenant, c.Who.Tenant) {
		return kernel.Handled(kernel.Reply{}, kernel.Fail(http.StatusUnauthorized,
			"InvalidAuthenticationTokenTenant", "The access token is from the wrong issuer "+
				"'%s'. It must match the tenant '%s' associated with this subscription. "+
				"Please use the authority (URL) 'https://login.windows.net/%s' to get the "+
				"token. Note, if the subscription is transferred to another tenant there is "+
				"no impact to the services, but information about new tenant could take time "+
				"to propagate (up to an hour). If you just transferred your subscription and "+
				"see this error message, please try back later.", entra.IssuerOf(c.Who.Tenant),
			entra.IssuerOf(tenant), tenant))
	}
	part := ""
	if len(c.Path) > 2 {
		part = strings.ToLower(c.Path[2])
	}
	registering := c.Method == http.MethodPost && len(c.Path) == 5
	if c.Method != http.MethodGet && !registering || len(c.Path) > 5 ||
		part != "" && part != "locations" && part != "providers" {
		return kernel.Reply{}, nil, false
	}
	if len(c.Path) == 2 || part == "locations" && len(c.Path) == 3 ||
		part == "providers" && (len(c.Path) < 5 || registering) {
		if f := s.authorization.Authorize(c); f != nil {
			return kernel.Handled(kernel.Reply{}, f)
		}
	}
	switch {
	case len(c.Path) == 2:
		return kernel.Handled(kernel.OK(s.subscription(sub)), nil)
	case part == "locations" && len(c.Path) == 3:
		return kernel.Handled(s.kernel.PageObjects(c, locationsOf(sub)))
	case part == "providers" && len(c.Path) < 5:
		return kernel.Handled(s.providerCall(c, c.Path[3:], "/subscriptions/"+sub))
	case registering &&
		(strings.EqualFold(c.Path[4], "register") || strings.EqualFold(c.Path[4], "unregister")):
		state := "Registered"
		if strings.EqualFold(c.Path[4], "unregister") {
			state = "Unregistered"
		}
		s.register(c, registrationKey("/subscriptions/"+sub, c.Path[3]), state)
		return kernel.Handled(s.providerCall(c, c.Path[3:4], "/subscriptions/"+sub))
	}
	return kernel.Reply{}, nil, false
}

func (s *Resources) subscription(id string) kernel.Object {
	tenant := s.kernel.Opts.TenantOf(id)
	doc := kernel.Object{
		"id": "/subscriptions/" +
			id, "subscriptionId": id, "tenantId": tenant, "authorizationSource": "RoleBased",
		"managedByTenants": []any{},
		"displayName":      "local " + id, "state": "Enabled",
		"subscriptionPolicies": kernel.Object{"locationPlacementId": "Internal_2014-09-01",
			"quotaId": "Internal_2014-09-01", "spendingLimit": "Off"},
	}
	if r := s.kernel.Store.Get(arm.SubscriptionID(id)); r != nil {
		doc["tags"] = r.Body["tags"]
	}
	return doc
}

// providerVersions are api-versions by namespace, newest first, for clients that read them before
// they call. Every other version is accepted, too.
var providerVersions = map[string][]string{
	"Microsoft.Network": {"2025-05-01", "2025-01-01", "2024-05-01", "2023-09-01",
		"2022-01-01", "2021-08-01", "2018-10-01"},
	"Microsoft.ContainerService": {"2025-10-01", "2025-05-01", "2024-09-01", "2023-10-01",
		"2022-11-01"},
	"Microsoft.Compute":         {"2025-04-01", "2024-11-01", "2024-03-01", "2021-04-01"},
	"Microsoft.ManagedIdentity": {"2024-11-30", "2023-01-31", "2018-11-30"},
	"Microsoft.Authorization":   {"2022-04-01", "2020-05-01", "2018-07-01", "2015-07-01"},
	"Microsoft.Resources":       {"2024-11-01", "2024-03-01", "2022-09-01", "2021-04-01"},
	"Microsoft.Insights":        {"2015-04-01", "2020-10-01", "2023-01-01"},
	"Microsoft.Features":        {"2021-07-01", "2015-12-01"},
	"Microsoft.KeyVault":        {"2024-11-01", "2023-07-01", "2022-07-01"},
}

// otherNamespaces are many of Azure's other resource providers, whose resources are stored as plain
// documents. The names were not compared with Azure's list (azure-services-resource-providers).
var otherNamespaces = strings.Fields(`
Microsoft.AAD Microsoft.Addons Microsoft.Advisor Microsoft.AlertsManagement
Microsoft.AnalysisServices Microsoft.ApiManagement Microsoft.App Microsoft.AppConfiguration
Microsoft.AppPlatform Microsoft.Attestation Microsoft.Automation Microsoft.Batch Microsoft.Billing
Microsoft.BotService Microsoft.Cache Microsoft.Cdn Microsoft.CertificateRegistration
Microsoft.ChangeAnalysis Microsoft.ClassicInfrastructureMigrate Microsoft.CognitiveServices
Microsoft.Communication Microsoft.ConfidentialLedger Microsoft.Confluent
Microsoft.ContainerInstance Microsoft.ContainerRegistry Microsoft.CostManagement
Microsoft.Dashboard Microsoft.DataBox Microsoft.Databricks Microsoft.DataFactory
Microsoft.DataMigration Microsoft.DataProtection Microsoft.DBforMariaDB Microsoft.DBforMySQL
Microsoft.DBforPostgreSQL Microsoft.DesktopVirtualization Microsoft.DevCenter Microsoft.Devices
Microsoft.DevTestLab Microsoft.DocumentDB Microsoft.DomainRegistration Microsoft.ElasticSan
Microsoft.EventGrid Microsoft.EventHub Microsoft.ExtendedLocation Microsoft.GuestConfiguration
Microsoft.HardwareSecurityModules Microsoft.HDInsight Microsoft.HealthcareApis
Microsoft.HybridCompute Microsoft.HybridConnectivity Microsoft.Kubernetes
Microsoft.KubernetesConfiguration Microsoft.Kusto Microsoft.LabServices Microsoft.LoadTestService
Microsoft.Logic Microsoft.MachineLearningServices Microsoft.Maintenance Microsoft.ManagedServices
Microsoft.Management Microsoft.Maps Microsoft.Media Microsoft.Migrate Microsoft.Monitor
Microsoft.NetApp Microsoft.NetworkFunction Microsoft.NotificationHubs
Microsoft.OperationalInsights Microsoft.OperationsManagement Microsoft.Orbital
Microsoft.PolicyInsights Microsoft.PowerBIDedicated Microsoft.Purview Microsoft.Quantum
Microsoft.Quota Microsoft.RecoveryServices Microsoft.RedHatOpenShift Microsoft.Relay
Microsoft.ResourceGraph Microsoft.ResourceHealth Microsoft.Search Microsoft.Security
Microsoft.SecurityInsights Microsoft.SerialConsole Microsoft.ServiceBus Microsoft.ServiceFabric
Microsoft.ServiceLinker Microsoft.SignalRService Microsoft.Solutions Microsoft.Sql
Microsoft.SqlVirtualMachine Microsoft.Storage Microsoft.StorageCache Microsoft.StorageMover
Microsoft.StorageSync Microsoft.StreamAnalytics Microsoft.Subscription Microsoft.Support
Microsoft.Synapse Microsoft.VirtualMachineImages Microsoft.Web Microsoft.WorkloadMonitor
`)

// providerTypes returns the resource types for which the emulator does more than store documents.
func (s *Resources) providerTypes(namespace string) []string {
	var types []string
	for _, k := range s.kernel.Kinds {
		if ns, t, _ := strings.Cut(k.Name, "/"); strings.EqualFold(ns, namespace) {
			types = append(types, t)
		}
	}
	extra := map[string][]string{
		"Microsoft.Compute": {"virtualMachineScaleSets/virtualMachines",
			"virtualMachineScaleSets/virtualMachines/networkInterfaces"},
		"Microsoft.ContainerService": {"managedClusters/agentPools"},
		"Microsoft.Network":          {"routeTables/routes"},
		"Microsoft.Authorization":    {"permissions", "denyAssignments"},
		"Microsoft.Insights":         {"eventtypes"},
	}
	types = append(types, extra[namespace]...)
	slices.Sort(types)
	return slices.Compact(types)
}

// register starts to register a resource provider, or to unregister it.
func (s *Resources) register(c *kernel.Call, key, state string) {
	if cmp.Or(s.registration[key], "Registered") == state {
		return
	}
	s.registration[key] = state
	if took := s.kernel.OperationTime(c); took > 0 {
		s.registration[key] = strings.TrimSuffix(state, "ed") + "ing"
		s.kernel.At(time.Now().Add(took), func() { s.registration[key] = state })
	}
}

func registrationKey(scope, namespace string) string {
	return strings.ToLower(scope + "/" + namespace)
}

// registrationFree are the resource providers that are registered in every subscription (recorded
// for Microsoft.Resources).
var registrationFree = []string{"Microsoft.Resources", "Microsoft.Authorization",
	"Microsoft.Features"}

// providerCall lists resource providers, or describes one.
func (s *Resources) providerCall(c *kernel.Call, rest []string, scope string) (kernel.Reply,
	*kernel.Failure) {
	withAliases := slices.ContainsFunc(c.Query["$expand"], func(s string) bool {
		return strings.EqualFold(s, "resourceTypes/aliases")
	})
	describe := func(namespace string) kernel.Object {
		types := []kernel.Object{}
		for _, t := range s.providerTypes(namespace) {
			described := kernel.Object{
				"resourceType": t, "locations": []string{"West Europe", "North Europe",
					"East US"}, "apiVersions": providerVersions[namespace],
				"defaultApiVersion": providerVersions[namespace][0],
				"capabilities": "CrossResourceGroupResourceMove, " +
					"CrossSubscriptionResourceMove, SupportsTags, SupportsLocation",
			}
			if withAliases {
				described["aliases"] = aliasesOf(namespace + "/" + t)
			}
			types = append(types, described)
		}
		state := "Registered"
		if changed := s.registration[registrationKey(scope, namespace)]; changed != "" {
			state = changed
		}
		policy := "RegistrationRequired"
		if slices.Contains(registrationFree, namespace) {
			policy = "RegistrationFree"
		}
		return kernel.Object{"id": scope + "/providers/" + namespace, "namespace": namespace,
			"registrationPolicy": policy, "registrationState": state,
			"resourceTypes": types}
	}
	var all []kernel.Object
	known := slices.AppendSeq(slices.Clone(otherNamespaces), maps.Keys(providerVersions))
	slices.Sort(known)
	for _, namespace := range slices.Compact(known) {
		if len(rest) > 0 && strings.EqualFold(rest[0], namespace) {
			return kernel.OK(describe(namespace)), nil
		}
		all = append(all, describe(namespace))
	}
	if len(rest) > 0 {
		return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "InvalidResourceNamespace",
			"The resource namespace '%s' is invalid.", rest[0])
	}
	return s.kernel.PageObjects(c, all)
}

// aliasesOf returns the aliases of a resource type that policies can use.
func aliasesOf(kind string) []kernel.Object {
	out := []kernel.Object{}
	for _, alias := range authorization.Aliases[kind] {
		out = append(out, kernel.Object{"name": kind + "/" + alias})
	}
	return out
}

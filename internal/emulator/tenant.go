package emulator

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// tenantOf returns the tenant a subscription lies in.
func (k *kernel) tenantOf(subscription string) string {
	for s, tenant := range k.opts.Tenants {
		if strings.EqualFold(s, subscription) {
			return tenant
		}
	}
	return k.opts.TenantID
}

// tenants are all there are, the options' own first.
func (o Options) tenants() []string {
	all := []string{o.TenantID}
	for _, subscription := range slices.Sorted(maps.Keys(o.Tenants)) {
		if t := o.Tenants[subscription]; !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	for _, p := range o.Principals {
		if p.Tenant != "" && !slices.Contains(all, p.Tenant) {
			all = append(all, p.Tenant)
		}
	}
	return all
}

// topCall answers what lies above the resources: tenants, subscriptions and resource providers. It
// refuses a token that is from another tenant than the subscription.
func (s *resources) topCall(c *call) (reply, *failure, bool) {
	handled := func(answer reply, f *failure) (reply, *failure, bool) { return answer, f, true }
	if len(c.path) == 0 {
		return handled(reply{}, notFound(c))
	}
	switch first := strings.ToLower(c.path[0]); {
	case first == "tenants" && len(c.path) == 1:
		t := c.who.Tenant
		return handled(s.kernel.pageObjects(c, []object{{
			"id": "/tenants/" + t, "tenantId": t, "displayName": "local", "countryCode": "NL",
			"tenantCategory": "Home",
			"defaultDomain":  "local.onmicrosoft.com", "domains": []string{"local.onmicrosoft.com"},
		}}))
	case first == "providers" && len(c.path) <= 2:
		return handled(s.providerCall(c, c.path[1:], ""))
	case first == "providers":
		return reply{}, nil, false // role definitions
	case first != "subscriptions":
		return handled(reply{}, notFound(c))
	}
	if len(c.path) == 1 {
		var subs []object
		for _, id := range s.kernel.store.subscriptions {
			if strings.EqualFold(s.kernel.tenantOf(id), c.who.Tenant) &&
				s.authorization.sees(c.who, id) {
				subs = append(subs, s.subscription(id))
			}
		}
		return handled(s.kernel.pageObjects(c, subs))
	}
	sub := c.path[1]
	if !s.kernel.store.hasSubscription(sub) {
		return handled(reply{}, fail(http.StatusNotFound, "SubscriptionNotFound",
			"The subscription '%s' could not be found.", sub))
	}
	if tenant := s.kernel.tenantOf(sub); !strings.EqualFold(tenant, c.who.Tenant) {
		return handled(reply{}, fail(http.StatusUnauthorized, "InvalidAuthenticationTokenTenant",
			"The access token is from the wrong issuer '%s'. It must match the tenant '%s' "+
				"associated with this subscription. Please use the authority (URL) "+
				"'https://login.windows.net/%s' to get the token. Note, if the subscription is "+
				"transferred to another tenant there is no impact to the services, but "+
				"information about new tenant could take time to propagate (up to an hour). If "+
				"you just transferred your subscription and see this error message, please try "+
				"back later.",
			issuerOf(c.who.Tenant), issuerOf(tenant), tenant))
	}
	part := ""
	if len(c.path) > 2 {
		part = strings.ToLower(c.path[2])
	}
	registering := c.method == http.MethodPost && len(c.path) == 5
	if c.method != http.MethodGet && !registering || len(c.path) > 5 ||
		part != "" && part != "locations" && part != "providers" {
		return reply{}, nil, false
	}
	if len(c.path) == 2 || part == "locations" && len(c.path) == 3 ||
		part == "providers" && (len(c.path) < 5 || registering) {
		if f := s.authorization.authorize(c); f != nil {
			return handled(reply{}, f)
		}
	}
	switch {
	case len(c.path) == 2:
		return handled(ok(s.subscription(sub)), nil)
	case part == "locations" && len(c.path) == 3:
		return handled(s.kernel.pageObjects(c, locationsOf(sub)))
	case part == "providers" && len(c.path) < 5:
		return handled(s.providerCall(c, c.path[3:], "/subscriptions/"+sub))
	case registering && (strings.EqualFold(c.path[4], "register") ||
		strings.EqualFold(c.path[4], "unregister")):
		state := "Registered"
		if strings.EqualFold(c.path[4], "unregister") {
			state = "Unregistered"
		}
		s.registration[registrationKey("/subscriptions/"+sub, c.path[3])] = state
		return handled(s.providerCall(c, c.path[3:4], "/subscriptions/"+sub))
	}
	return reply{}, nil, false
}

func (s *resources) subscription(id string) object {
	tenant := s.kernel.tenantOf(id)
	doc := object{
		"id": "/subscriptions/" +
			id, "subscriptionId": id, "tenantId": tenant, "authorizationSource": "RoleBased",
		"managedByTenants": []any{},
		"displayName":      "local " + id, "state": "Enabled",
		"subscriptionPolicies": object{"locationPlacementId": "Internal_2014-09-01",
			"quotaId": "Internal_2014-09-01", "spendingLimit": "Off"},
	}
	if r := s.kernel.store.get(arm.ID("/subscriptions/" + id)); r != nil {
		doc["tags"] = r.body["tags"]
	}
	return doc
}

// providerVersions are api-versions by namespace, newest first, as far as there are clients that
// ask before they call. Every other is answered, too.
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
}

// providerTypes are the resource types that the local Azure does more for than keep their
// documents.
func (s *resources) providerTypes(namespace string) []string {
	var types []string
	for _, k := range s.kernel.kinds {
		if ns, t, _ := strings.Cut(k.name, "/"); strings.EqualFold(ns, namespace) {
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

func registrationKey(scope, namespace string) string {
	return strings.ToLower(scope + "/" + namespace)
}

// registrationFree are the resource providers that every subscription has (recorded for
// Microsoft.Resources).
var registrationFree = []string{"Microsoft.Resources", "Microsoft.Authorization",
	"Microsoft.Features"}

// providerCall lists resource providers, or describes one.
func (s *resources) providerCall(c *call, rest []string, scope string) (reply, *failure) {
	describe := func(namespace string) object {
		var types []object
		for _, t := range s.providerTypes(namespace) {
			types = append(types, object{
				"resourceType": t, "locations": []string{"West Europe", "North Europe",
					"East US"}, "apiVersions": providerVersions[namespace],
				"defaultApiVersion": providerVersions[namespace][0],
				"capabilities": "CrossResourceGroupResourceMove, " +
					"CrossSubscriptionResourceMove, SupportsTags, SupportsLocation",
			})
		}
		state := "Registered"
		if changed := s.registration[registrationKey(scope, namespace)]; changed != "" {
			state = changed
		}
		policy := "RegistrationRequired"
		if slices.Contains(registrationFree, namespace) {
			policy = "RegistrationFree"
		}
		return object{"id": scope + "/providers/" + namespace, "namespace": namespace,
			"registrationPolicy": policy, "registrationState": state,
			"resourceTypes": types}
	}
	var all []object
	for _, namespace := range slices.Sorted(maps.Keys(providerVersions)) {
		if len(rest) > 0 && strings.EqualFold(rest[0], namespace) {
			return ok(describe(namespace)), nil
		}
		all = append(all, describe(namespace))
	}
	if len(rest) > 0 {
		return reply{}, fail(http.StatusNotFound, "InvalidResourceNamespace",
			"The resource namespace '%s' is invalid.", rest[0])
	}
	return s.kernel.pageObjects(c, all)
}

// sees reports whether a principal has any role in a subscription.
func (s *authorization) sees(who Principal, subscription string) bool {
	scope := arm.ID("/subscriptions/" + subscription)
	return s.isDefault(who) || s.anyRole(who, func(at arm.ID) bool {
		return at.Equal(scope) || below(at, scope)
	})
}

package emulator

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// Microsoft Graph, as far as az and azurerm ask it for the principals of role assignments. It knows
// service principals only: those of the options and managed identities.

var graphFilter = regexp.MustCompile(
	`(?i)^\s*(?:(displayName|appId|id)\s+eq\s+'([^']*)'|servicePrincipalNames/any\(\s*(\w+)\s*:\s*(\w+)\s+eq\s+'([^']*)'\s*\)|startswith\(displayName\s*,\s*'([^']*)'\))\s*$`,
)

// graph answers calls to Microsoft Graph. The endpoint is the emulator's own.
func (s *entra) graph(c *call) (reply, *failure, bool) {
	if len(c.path) < 2 ||
		!strings.EqualFold(c.path[0], "v1.0") && !strings.EqualFold(c.path[0], "beta") {
		return reply{}, nil, false
	}
	page := func(kind string, docs []object) (reply, *failure, bool) {
		return ok(
			object{"@odata.context": c.base + "/v1.0/$metadata#" + kind, "value": docs},
		), nil, true
	}
	kind := c.path[1]
	if len(c.path) == 3 {
		kind += "/" + c.path[2]
	}
	switch kind = strings.ToLower(kind); {
	case kind == "directoryobjects/getbyids" && c.method == http.MethodPost:
		body, f := decodeObject(c.body)
		if f != nil {
			return reply{}, graphError(http.StatusBadRequest, "BadRequest", "%s", f.message), true
		}
		docs := []object{}
		for _, p := range s.identity.all(c.who.Tenant) {
			for _, id := range list(body, "ids") {
				if strings.EqualFold(p.ObjectID, id) {
					doc := s.servicePrincipal(p)
					doc["@odata.type"] = "#microsoft.graph.servicePrincipal"
					docs = append(docs, doc)
				}
			}
		}
		return page("directoryObjects", docs)
	case c.method != http.MethodGet:
		return reply{}, graphError(
			http.StatusNotImplemented,
			"NotImplemented",
			"This local Azure's Microsoft Graph is read only: %s %s.",
			c.method,
			kind,
		), true
	case kind == "users" || kind == "groups" || kind == "applications": // there are none
		return page(kind, []object{})
	case kind == "serviceprincipals":
		matches, f := principalFilterOf(c.param("$filter"))
		if f != nil {
			return reply{}, f, true
		}
		docs := []object{}
		for _, p := range s.identity.all(c.who.Tenant) {
			if matches(p) {
				docs = append(docs, s.servicePrincipal(p))
			}
		}
		return page("servicePrincipals", docs)
	}
	what, name, _ := strings.Cut(kind, "/")
	if appID, byApp := strings.CutPrefix(what, "serviceprincipals(appid='"); byApp {
		what, name = "serviceprincipals", strings.TrimSuffix(appID, "')")
	}
	for _, p := range s.identity.all(c.who.Tenant) {
		if (what == "serviceprincipals" || what == "directoryobjects") &&
			(strings.EqualFold(p.ObjectID, name) || strings.EqualFold(p.ClientID, name)) {
			doc := s.servicePrincipal(p)
			doc["@odata.context"] = c.base + "/v1.0/$metadata#servicePrincipals/$entity"
			return ok(doc), nil, true
		}
	}
	return reply{}, graphError(
		http.StatusNotFound,
		"Request_ResourceNotFound",
		"Resource '%s' does not exist or one of its queried reference-property objects are not "+
			"present.",
		name,
	), true
}

func graphError(status int, code, format string, args ...any) *failure {
	return fail(status, code, format, args...)
}

// principalFilterOf reads a $filter on service principals.
func principalFilterOf(filter string) (func(Principal) bool, *failure) {
	if filter == "" {
		return func(Principal) bool { return true }, nil
	}
	m := graphFilter.FindStringSubmatch(filter)
	if m == nil || m[3] != m[4] {
		return nil, graphError(
			http.StatusBadRequest,
			"BadRequest",
			"Invalid filter clause: %s.",
			filter,
		)
	}
	return func(p Principal) bool {
		switch {
		case m[5] != "":
			return strings.EqualFold(p.ClientID, m[5]) || strings.EqualFold(p.Resource, m[5])
		case m[6] != "":
			return strings.HasPrefix(strings.ToLower(p.displayName()), strings.ToLower(m[6]))
		case strings.EqualFold(m[1], "displayName"):
			return strings.EqualFold(p.displayName(), m[2])
		case strings.EqualFold(m[1], "appId"):
			return strings.EqualFold(p.ClientID, m[2])
		}
		return strings.EqualFold(p.ObjectID, m[2])
	}, nil
}

func (s *entra) servicePrincipal(p Principal) object {
	kind, names := "Application", []any{p.ClientID}
	alternative := []any{}
	if p.Resource != "" {
		kind, alternative = "ManagedIdentity", []any{"isExplicit=True", p.Resource}
		names = append(names, "https://identity.azure.net/"+url.PathEscape(p.ClientID))
	}
	return object{
		"id": p.ObjectID, "appId": p.ClientID, "displayName": p.displayName(),
		"appDisplayName": p.displayName(), "accountEnabled": true,
		"servicePrincipalType": kind, "servicePrincipalNames": names,
		"alternativeNames": alternative, "appOwnerOrganizationId": p.Tenant,
		"deletedDateTime": nil, "description": nil, "tags": []any{},
	}
}

// all lists the principals of a tenant.
func (i *identity) all(tenant string) []Principal {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []Principal
	for n, p := range i.principals {
		if n == 0 || strings.EqualFold(p.Tenant, tenant) {
			out = append(out, p)
		}
	}
	return out
}

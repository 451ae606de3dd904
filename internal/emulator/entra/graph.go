package entra

import (
	"net/http"
	"net/url"
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Microsoft Graph, as far as az and azurerm call it for the principals of role assignments. It
// knows service principals only: those of the options and managed identities.

var graphFilter = lazy.Regexp(
	`(?i)^\s*(?:(displayName|appId|id)\s+eq\s+'([^']*)'|servicePrincipalNames/any\(\s*(\w+)\s*:\s*(\w+)\s+eq\s+'([^']*)'\s*\)|startswith\(displayName\s*,\s*'([^']*)'\))\s*$`,
)

// Graph answers calls to Microsoft Graph. The endpoint is the emulator's own.
func (s *Entra) Graph(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	if len(c.Path) < 2 ||
		!strings.EqualFold(c.Path[0], "v1.0") && !strings.EqualFold(c.Path[0], "beta") {
		return kernel.Reply{}, nil, false
	}
	page := func(kind string, docs []kernel.Object) (kernel.Reply, *kernel.Failure, bool) {
		return kernel.OK(kernel.Object{"@odata.context": c.Base + "/v1.0/$metadata#" + kind,
			"value": docs}), nil, true
	}
	kind := c.Path[1]
	if len(c.Path) == 3 {
		kind += "/" + c.Path[2]
	}
	switch kind = strings.ToLower(kind); {
	case kind == "directoryobjects/getbyids" && c.Method == http.MethodPost:
		body, f := kernel.DecodeObject(c.Body)
		if f != nil {
			return kernel.Reply{}, kernel.Bad("BadRequest", "%s", f.Message), true
		}
		docs := []kernel.Object{}
		for _, p := range s.Identity.all(c.Who.Tenant) {
			for _, id := range kernel.List(body, "ids") {
				if strings.EqualFold(p.ObjectID, id) {
					doc := s.servicePrincipal(p)
					doc["@odata.type"] = "#microsoft.graph.servicePrincipal"
					docs = append(docs, doc)
				}
			}
		}
		return page("directoryObjects", docs)
	case c.Method != http.MethodGet:
		return kernel.Reply{}, kernel.Fail(http.StatusNotImplemented, "NotImplemented",
			"The emulator's Microsoft Graph is read only: %s %s.", c.Method, kind), true
	case kind == "users" || kind == "groups" || kind == "applications": // none exist
		return page(kind, []kernel.Object{})
	case kind == "serviceprincipals":
		matches, f := principalFilterOf(c.Param("$filter"))
		if f != nil {
			return kernel.Reply{}, f, true
		}
		docs := []kernel.Object{}
		for _, p := range s.Identity.all(c.Who.Tenant) {
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
	for _, p := range s.Identity.all(c.Who.Tenant) {
		if (what == "serviceprincipals" || what == "directoryobjects") &&
			(strings.EqualFold(p.ObjectID, name) || strings.EqualFold(p.ClientID, name)) {
			doc := s.servicePrincipal(p)
			doc["@odata.context"] = c.Base + "/v1.0/$metadata#servicePrincipals/$entity"
			return kernel.OK(doc), nil, true
		}
	}
	return kernel.Reply{},
		kernel.Fail(http.StatusNotFound, "Request_ResourceNotFound", "Resource '%s' does not "+
			"exist or one of its queried reference-property objects are not present.", name), true
}

// principalFilterOf reads a $filter on service principals.
func principalFilterOf(filter string) (func(kernel.Principal) bool, *kernel.Failure) {
	if filter == "" {
		return func(kernel.Principal) bool { return true }, nil
	}
	m := graphFilter().FindStringSubmatch(filter)
	if m == nil || m[3] != m[4] {
		return nil, kernel.Bad("BadRequest", "Invalid filter clause: %s.", filter)
	}
	return func(p kernel.Principal) bool {
		switch {
		case m[5] != "":
			return strings.EqualFold(p.ClientID, m[5]) || strings.EqualFold(p.Resource, m[5])
		case m[6] != "":
			return strings.HasPrefix(strings.ToLower(p.DisplayName()), strings.ToLower(m[6]))
		case strings.EqualFold(m[1], "displayName"):
			return strings.EqualFold(p.DisplayName(), m[2])
		case strings.EqualFold(m[1], "appId"):
			return strings.EqualFold(p.ClientID, m[2])
		}
		return strings.EqualFold(p.ObjectID, m[2])
	}, nil
}

func (s *Entra) servicePrincipal(p kernel.Principal) kernel.Object {
	kind, names := "Application", []any{p.ClientID}
	alternative := []any{}
	if p.Resource != "" {
		kind, alternative = "ManagedIdentity", []any{"isExplicit=True", p.Resource}
		names = append(names, "https://identity.azure.net/"+url.PathEscape(p.ClientID))
	}
	return kernel.Object{
		"id": p.ObjectID, "appId": p.ClientID, "displayName": p.DisplayName(),
		"appDisplayName": p.DisplayName(), "accountEnabled": true,
		"servicePrincipalType": kind, "servicePrincipalNames": names,
		"alternativeNames": alternative, "appOwnerOrganizationId": p.Tenant,
		"deletedDateTime": nil, "description": nil, "tags": []any{},
	}
}

// all lists the principals of a tenant.
func (i *Identity) all(tenant string) []kernel.Principal {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []kernel.Principal
	for n, p := range i.principals {
		if n == 0 || strings.EqualFold(p.Tenant, tenant) {
			out = append(out, p)
		}
	}
	return out
}

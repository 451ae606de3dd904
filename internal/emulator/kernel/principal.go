package kernel

import "strings"

// Principal is somebody who can log in and whom the activity log names.
type Principal struct {
	Name     string `json:"name"`
	ClientID string `json:"clientID"`
	Secret   string `json:"secret,omitempty"`
	ObjectID string `json:"objectID"`
	// Resource is the Azure resource whose managed identity it is, or "".
	Resource string `json:"resource,omitempty"`
	// Tenant is the GUID of the tenant it belongs to. "": the options' TenantID. The first
	// principal of the options can log in at every tenant.
	Tenant string `json:"tenant,omitempty"`
	// NoRoles is for one that starts without roles. All others that the options name are Owners of
	// their tenant's subscriptions.
	NoRoles bool `json:"noRoles,omitempty"`
}

// DefaultPrincipal is who logs in where the options name nobody.
var DefaultPrincipal = Principal{
	Name:     "routekeeper",
	ClientID: "c11e0000-0000-4000-8000-000000000001",
	Secret:   "local-secret",
	ObjectID: "0b1ec700-0000-4000-8000-000000000001",
}

// DisplayName is that of a managed identity's resource, or a principal's own name.
func (p Principal) DisplayName() string {
	if p.Resource != "" {
		return p.Resource[strings.LastIndexByte(p.Resource, '/')+1:]
	}
	return p.Name
}

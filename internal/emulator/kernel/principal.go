package kernel

import "strings"

// Principal is an identity that can log in and that the activity log names.
type Principal struct {
	Name     string `json:"name"`
	ClientID string `json:"clientID"`
	Secret   string `json:"secret,omitempty"`
	ObjectID string `json:"objectID"`
	// Resource is the Azure resource whose managed identity it is, or "".
	Resource string `json:"resource,omitempty"`
	// Tenant is the GUID of its tenant. "": the options' TenantID. The first principal of the
	// options can log in at every tenant.
	Tenant string `json:"tenant,omitempty"`
	// NoRoles is set for a principal that starts without roles. All others of the options are
	// Owners of their tenant's subscriptions.
	NoRoles bool `json:"noRoles,omitempty"`
}

// DefaultPrincipal is the login if the options name none.
var DefaultPrincipal = Principal{
	Name:     "routekeeper",
	ClientID: "c11e0000-0000-4000-8000-000000000001",
	Secret:   "local-secret",
	ObjectID: "0b1ec700-0000-4000-8000-000000000001",
}

// DisplayName returns the name of a managed identity's resource, or a principal's own name.
func (p Principal) DisplayName() string {
	if p.Resource != "" {
		return p.Resource[strings.LastIndexByte(p.Resource, '/')+1:]
	}
	return p.Name
}

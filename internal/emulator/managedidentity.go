package emulator

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

const (
	typeUserIdentity        = "Microsoft.ManagedIdentity/userAssignedIdentities"
	typeFederatedCredential = typeUserIdentity + "/federatedIdentityCredentials"
)

// settleUserIdentity gives a user-assigned identity its IDs, which it keeps until it is deleted.
// One that is made again under its name is somebody else: the roles of the first do not come back.
func (s *entra) settleUserIdentity(c *call, r, old *resource) *failure {
	r.etag = ""
	properties := objectAt(r.body, "properties")
	properties["tenantId"], properties["clientId"], properties["principalId"] =
		s.kernel.tenantOf(r.id.Subscription()), uuid.NewString(), uuid.NewString()
	if old != nil {
		for _, field := range []string{"clientId", "principalId"} {
			properties[field] = objectAt(old.body, "properties")[field]
		}
	}
	return nil
}

// identityCall lists the clusters that use an identity.
func (s *entra) identityCall(c *call) (reply, *failure, bool) {
	if c.method != http.MethodPost || len(c.path) != 9 ||
		!strings.EqualFold(c.path[8], "listAssociatedResources") {
		return reply{}, nil, false
	}
	id := arm.ID("/" + strings.Join(c.path[:8], "/"))
	if !id.Is(typeUserIdentity) {
		return reply{}, nil, false
	} else if s.kernel.store.get(id) == nil {
		return reply{}, s.kernel.missing(id), true
	}
	users := []object{}
	for _, r := range s.kernel.store.list(arm.TypeCluster, "") {
		for _, used := range assignedIdentities(r.body) {
			if used.Equal(id) {
				users = append(users, object{"id": string(r.id), "name": r.id.Name(),
					"type": s.kernel.kindName(r.id), "resourceGroup": r.id.ResourceGroup(),
					"subscriptionId": r.id.Subscription()})
			}
		}
	}
	return ok(object{"totalCount": len(users), "value": users}), nil, true
}

// storedUserIdentity lets it log in.
func (s *entra) storedUserIdentity(c *call, r, old *resource) *failure {
	s.identity.add(identityOf(r))
	return nil
}

func (s *entra) restoreUserIdentity(r *resource, _ json.RawMessage) error {
	s.identity.add(identityOf(r))
	return nil
}

func (s *entra) userIdentityRemoved(r *resource) { s.identity.remove(identityOf(r)) }

// identityOf is the principal of a user-assigned identity.
func identityOf(r *resource) Principal {
	p := objectAt(r.body, "properties")
	return Principal{
		Name: r.id.Name(), ClientID: text(p, "clientId"), ObjectID: text(p,
			"principalId"), Tenant: text(p, "tenantId"), Resource: string(r.id),
	}
}

// settleFederatedCredential checks what a workload's token has to say.
func (s *entra) settleFederatedCredential(c *call, r, old *resource) *failure {
	r.etag = ""
	p := objectAt(r.body, "properties")
	for _, field := range []string{"issuer", "subject"} {
		if text(p, field) == "" {
			return fail(http.StatusBadRequest, "BadRequest",
				"The federated identity credential %s needs the property %s.", r.id.Name(), field)
		}
	}
	if len(list(p, "audiences")) != 1 {
		return fail(http.StatusBadRequest, "BadRequest",
			"The federated identity credential %s needs exactly one audience.", r.id.Name())
	}
	siblings := s.kernel.store.list(typeFederatedCredential, r.id.Parent())
	for _, sibling := range siblings {
		q := objectAt(sibling.body, "properties")
		if !sibling.id.Equal(r.id) && text(q, "issuer") == text(p, "issuer") &&
			text(q, "subject") == text(p, "subject") {
			return fail(http.StatusConflict, "Conflict",
				"Issuer and subject combination already exists for this Managed Identity.")
		}
	}
	if old == nil && len(siblings) >= 20 {
		return fail(http.StatusBadRequest, "BadRequest", "Too many Federated Identity "+
			"Credentials are configured for the managed identity: 20 is the limit.")
	}
	return nil
}

// assignedIdentities are the user-assigned identities that a document names.
func assignedIdentities(body object) []arm.ID {
	var out []arm.ID
	for id := range objectAt(body, "identity", "userAssignedIdentities") {
		out = append(out, arm.ID(id))
	}
	return out
}

// checkIdentities refuses a document that names an identity there is none of.
func (s *entra) checkIdentities(scope arm.ID, body object) *failure {
	for _, id := range assignedIdentities(body) {
		if r := s.kernel.store.get(id); r == nil || !r.id.Is(typeUserIdentity) {
			return fail(http.StatusBadRequest, "FailedIdentityOperation",
				"Identity operation for resource '%s' failed with error 'Failed to perform "+
					"resource identity operation. Status: 'BadRequest'. Response: "+
					"'{\"error\":{\"code\":\"BadRequest\",\"message\":\"Resource '%s' was not "+
					"found.\"}}'.'.", scope, id)
		}
	}
	return nil
}

// hasUserIdentity reports whether a resource uses an identity of its own making instead of a
// system-assigned one.
func hasUserIdentity(body object) bool {
	return strings.Contains(strings.ToLower(text(objectAt(body, "identity"), "type")),
		"userassigned")
}

var userIdentityFacts = []fact{{path: "tags", value: object{}}}

// showAssigned adds to a document who the identities are that it was given.
func (s *entra) showAssigned(doc object) {
	assigned := objectAt(doc, "identity", "userAssignedIdentities")
	for id := range assigned {
		if own := s.kernel.store.get(arm.ID(id)); own != nil {
			who := identityOf(own)
			assigned[id] = object{"clientId": who.ClientID, "principalId": who.ObjectID}
		}
	}
}

// systemIdentityFacts are of a resource with an identity that Azure made for it.
func systemIdentityFacts(tenantOf func(string) string) []fact {
	own := func(s sight) bool { return strings.Contains(text(s.at, "type"), "SystemAssigned") }
	return []fact{
		{
			path: "identity.principalId", when: own,
			value: func(s sight) any { return guidOf("principal", s.r.id) },
		},
		{
			path: "identity.tenantId", when: own,
			value: func(s sight) any { return tenantOf(s.r.id.Subscription()) },
		},
	}
}

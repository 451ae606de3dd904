package entra

import (
	"net/http"
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const (
	TypeFederatedCredential = arm.TypeIdentity + "/federatedIdentityCredentials"
)

// settleUserIdentity gives a user-assigned identity its IDs, which it keeps until it is deleted. An
// identity that is created again under its name has new IDs: it does not have the roles of the
// deleted one.
func (s *Entra) settleUserIdentity(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	properties["tenantId"], properties["clientId"], properties["principalId"] =
		s.kernel.Opts.TenantOf(r.ID.Subscription()), uuid.NewString(), uuid.NewString()
	if old != nil {
		for _, field := range []string{"clientId", "principalId"} {
			properties[field] = old.Properties()[field]
		}
	}
	return nil
}

// inIdentity lists the clusters that use an identity.
func (s *Entra) inIdentity(c *kernel.Call, identity *kernel.Resource, rest []string) (kernel.Reply,
	*kernel.Failure, bool) {
	if c.Method != http.MethodPost || len(rest) != 1 || rest[0] != "listassociatedresources" {
		return kernel.Reply{}, nil, false
	}
	users := []kernel.Object{}
	for _, r := range s.kernel.Store.List(arm.TypeCluster, "") {
		for _, used := range AssignedIdentities(r.Body) {
			if used.Equal(identity.ID) {
				users = append(users, kernel.Object{"id": string(r.ID), "name": r.ID.Name(),
					"type": s.kernel.KindName(r.ID), "resourceGroup": r.ID.ResourceGroup(),
					"subscriptionId": r.ID.Subscription()})
			}
		}
	}
	return kernel.OK(kernel.Object{"totalCount": len(users), "value": users}), nil, true
}

// Stored makes the identity of a stored document a principal. If a document asks for a
// system-assigned identity again later, it gets another principal, without the roles of the first
// (recorded). A principal that stays is replaced in one step, because logins do not wait for the
// kernel's lock.
func (s *Entra) Stored(r, before *kernel.Resource) {
	who, exists := s.principalOf(r)
	if before != nil {
		if was, existed := s.principalOf(before); existed && was.ClientID != who.ClientID {
			s.Identity.Remove(was)
		}
	}
	if exists {
		s.Identity.Add(who)
	}
}

// Removed removes the principal of a deleted document.
func (s *Entra) Removed(r *kernel.Resource) {
	if who, exists := s.principalOf(r); exists {
		s.Identity.Remove(who)
	}
}

// principalOf returns the principal of a user-assigned identity, or of a resource's system-assigned
// one.
func (s *Entra) principalOf(r *kernel.Resource) (who kernel.Principal, exists bool) {
	switch {
	case r.ID.Is(arm.TypeIdentity):
		return IdentityOf(r), true
	case s.systemAssigned[strings.ToLower(r.ID.Type())]:
		return systemIdentityOf(r)
	}
	return kernel.Principal{}, false
}

// IdentityOf returns the principal of a user-assigned identity.
func IdentityOf(r *kernel.Resource) kernel.Principal {
	p := r.Properties()
	return kernel.Principal{
		Name: r.ID.Name(), ClientID: kernel.Text(p, "clientId"), ObjectID: kernel.Text(p,
			"principalId"), Tenant: kernel.Text(p, "tenantId"), Resource: string(r.ID),
	}
}

// settleFederatedCredential checks a federated credential.
func (s *Entra) settleFederatedCredential(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	p := r.Properties()
	for _, field := range []string{"issuer", "subject"} {
		if kernel.Text(p, field) == "" {
			return kernel.Bad("BadRequest",
				"The federated identity credential %s needs the property %s.", r.ID.Name(), field)
		}
	}
	if len(kernel.List(p, "audiences")) != 1 {
		return kernel.Bad("BadRequest",
			"The federated identity credential %s needs exactly one audience.", r.ID.Name())
	}
	siblings := s.kernel.Store.List(TypeFederatedCredential, r.ID.Parent())
	for _, sibling := range siblings {
		q := sibling.Properties()
		if !sibling.ID.Equal(r.ID) && kernel.Text(q, "issuer") == kernel.Text(p, "issuer") &&
			kernel.Text(q, "subject") == kernel.Text(p, "subject") {
			return kernel.Fail(http.StatusConflict, "Conflict",
				"Issuer and subject combination already exists for this Managed Identity.")
		}
	}
	if old == nil && len(siblings) >= 20 {
		return kernel.Bad("BadRequest", "Too many Federated Identity "+
			"Credentials are configured for the managed identity: 20 is the limit.")
	}
	return nil
}

// AssignedIdentities returns the user-assigned identities that a document names.
func AssignedIdentities(body kernel.Object) []arm.ID {
	var out []arm.ID
	for id := range kernel.ObjectAt(body, "identity", "userAssignedIdentities") {
		out = append(out, arm.ID(id))
	}
	return out
}

// CheckIdentities refuses a document with an identity that does not exist.
func (s *Entra) CheckIdentities(scope arm.ID, body kernel.Object) *kernel.Failure {
	for _, id := range AssignedIdentities(body) {
		if r := s.kernel.Store.Get(id); r == nil || !r.ID.Is(arm.TypeIdentity) {
			return kernel.Bad("FailedIdentityOperation",
				"Identity operation for resource '%s' failed with error 'Failed to perform "+
					"resource identity operation. Status: 'BadRequest'. Response: "+
					"'{\"error\":{\"code\":\"BadRequest\",\"message\":\"Resource '%s' was not "+
					"found.\"}}'.'.", scope, id)
		}
	}
	return nil
}

// HasUserIdentity reports whether a resource uses a user-assigned identity instead of a
// system-assigned one.
func HasUserIdentity(body kernel.Object) bool {
	return strings.Contains(strings.ToLower(kernel.Text(body, "identity", "type")), "userassigned")
}

var userIdentityFacts = []kernel.Fact{{Path: "tags", Value: kernel.Object{}}}

// ShowAssigned adds the IDs of a document's user-assigned identities.
func (s *Entra) ShowAssigned(doc kernel.Object) {
	assigned := kernel.ObjectAt(doc, "identity", "userAssignedIdentities")
	for id := range assigned {
		if own := s.kernel.Store.Get(arm.ID(id)); own != nil {
			who := IdentityOf(own)
			assigned[id] = kernel.Object{"clientId": who.ClientID, "principalId": who.ObjectID}
		}
	}
}

// WithSystemIdentity lets the resources of a type have a system-assigned identity. Its principal
// exists while their documents ask for it.
func (s *Entra) WithSystemIdentity(k kernel.Kind) kernel.Kind {
	s.systemAssigned[strings.ToLower(k.Name)] = true
	settle := k.Settle
	k.Settle = func(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
		if f := settle(c, r, old); f != nil {
			return f
		}
		s.settleSystemIdentity(r, old)
		return nil
	}
	return k
}

// settleSystemIdentity gives a document the IDs of its system-assigned identity.
func (s *Entra) settleSystemIdentity(r, old *kernel.Resource) {
	identity := kernel.ObjectAt(r.Body, "identity")
	if identity == nil {
		return
	}
	delete(identity, "principalId")
	delete(identity, "tenantId")
	if !strings.Contains(kernel.Text(identity, "type"), "SystemAssigned") {
		return
	}
	identity["principalId"] = uuid.NewString()
	if had, exists := systemIdentityOf(old); exists {
		identity["principalId"] = had.ObjectID
	}
	identity["tenantId"] = s.kernel.Opts.TenantOf(r.ID.Subscription())
}

// systemIdentityOf returns the principal of a resource's system-assigned identity.
func systemIdentityOf(r *kernel.Resource) (who kernel.Principal, exists bool) {
	if r == nil {
		return kernel.Principal{}, false
	}
	identity := kernel.ObjectAt(r.Body, "identity")
	object := kernel.Text(identity, "principalId")
	return kernel.Principal{
		Name: r.ID.Name(), ClientID: kernel.GuidOf("client "+object, r.ID), ObjectID: object,
		Tenant: kernel.Text(identity, "tenantId"), Resource: string(r.ID),
	}, object != ""
}

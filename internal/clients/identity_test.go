package clients

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/msi/armmsi"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// identity creates a user-assigned identity.
func (a *azure) identity(group, name string) armmsi.Identity {
	a.Helper()
	return call(client(a, armmsi.NewUserAssignedIdentitiesClient).CreateOrUpdate(a.ctx, group, name,
		armmsi.Identity{Location: to.Ptr(region)}, nil)).ok(a).Identity
}

func TestUserAssignedIdentities(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	identities := client(a, armmsi.NewUserAssignedIdentitiesClient)
	i := a.identity("net", "a")
	// not a long-running operation
	a.wire("PUT Microsoft.ManagedIdentity/userAssignedIdentities/a 2024-11-30 201")
	is(t, "type", i.Type, "Microsoft.ManagedIdentity/userAssignedIdentities")
	is(t, "tenantId", i.Properties.TenantID, a.info.TenantID)
	if i.Properties.ClientID == nil || i.Properties.PrincipalID == nil ||
		*i.Properties.ClientID == *i.Properties.PrincipalID {
		t.Errorf("clientId %v, principalId %v", i.Properties.ClientID, i.Properties.PrincipalID)
	}
	updated := call(identities.Update(a.ctx, "net", "a",
		armmsi.IdentityUpdate{Tags: map[string]*string{"team": to.Ptr("net")}}, nil)).ok(t)
	is(t, "tag", updated.Tags["team"], "net")
	again := call(identities.CreateOrUpdate(a.ctx, "net", "a",
		armmsi.Identity{Location: to.Ptr(region)}, nil)).ok(t)
	is(t, "clientId after another PUT", again.Properties.ClientID, *i.Properties.ClientID)
	is(t, "principalId after another PUT", again.Properties.PrincipalID, *i.Properties.PrincipalID)
	if other := a.identity("net", "b"); *other.Properties.ClientID == *i.Properties.ClientID {
		t.Error("two identities have one client ID")
	}
	a.identity("net", "c")
	a.requests()
	all(a, identities.NewListByResourceGroupPager("net", nil),
		func(p armmsi.UserAssignedIdentitiesClientListByResourceGroupResponse) []*armmsi.Identity {
			return p.Value
		}, 3)
	all(a, identities.NewListBySubscriptionPager(nil),
		func(p armmsi.UserAssignedIdentitiesClientListBySubscriptionResponse) []*armmsi.Identity {
			return p.Value
		}, 3)
	call(identities.Delete(a.ctx, "net", "a", nil)).ok(t)
	call(identities.Get(a.ctx, "net", "a", nil)).refused(t, 404, "ResourceNotFound")
	a.wire(
		"GET Microsoft.ManagedIdentity/userAssignedIdentities 2024-11-30 200",
		"GET Microsoft.ManagedIdentity/userAssignedIdentities 2024-11-30 200 next",
		"GET Microsoft.ManagedIdentity/userAssignedIdentities 2024-11-30 200",
		"GET Microsoft.ManagedIdentity/userAssignedIdentities 2024-11-30 200 next",
		"DELETE Microsoft.ManagedIdentity/userAssignedIdentities/a 2024-11-30 200",
		"GET Microsoft.ManagedIdentity/userAssignedIdentities/a 2024-11-30 404",
	)
}

func TestFederatedCredentials(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	a.identity("net", "a")
	a.requests()
	credentials := client(a, armmsi.NewFederatedIdentityCredentialsClient)
	trust := func(subject string) armmsi.FederatedIdentityCredential {
		return armmsi.FederatedIdentityCredential{
			Properties: &armmsi.FederatedIdentityCredentialProperties{
				Issuer: to.Ptr("https://oidc.localhost/cluster"), Subject: to.Ptr(subject),
				Audiences: []*string{to.Ptr("api://AzureADTokenExchange")},
			}}
	}
	c := call(credentials.CreateOrUpdate(a.ctx, "net", "a", "keeper",
		trust("system:serviceaccount:kube-system:keeper"), nil)).ok(t)
	is(t, "id", c.ID, id("net",
		"Microsoft.ManagedIdentity/userAssignedIdentities/a/federatedIdentityCredentials/keeper"))
	is(t, "subject", c.Properties.Subject, "system:serviceaccount:kube-system:keeper")
	is(t, "audience", c.Properties.Audiences[0], "api://AzureADTokenExchange")
	call(credentials.CreateOrUpdate(a.ctx, "net", "a", "keeper",
		trust("system:serviceaccount:default:keeper"), nil)).ok(t)
	is(t, "subject", call(credentials.Get(a.ctx, "net", "a", "keeper", nil)).ok(t).
		Properties.Subject, "system:serviceaccount:default:keeper")
	call(credentials.CreateOrUpdate(a.ctx, "net", "none", "keeper", trust("x"), nil)).refused(t,
		404, "ParentResourceNotFound")
	list := func(p armmsi.FederatedIdentityCredentialsClientListResponse) []*armmsi.FederatedIdentityCredential {
		return p.Value
	}
	all(a, credentials.NewListPager("net", "a", nil), list, 1)
	call(credentials.Delete(a.ctx, "net", "a", "keeper", nil)).ok(t)
	all(a, credentials.NewListPager("net", "a", nil), list, 0)
	a.wire(
		"PUT Microsoft.ManagedIdentity/userAssignedIdentities/a/federatedIdentityCredentials/keeper 2024-11-30 201",
		"PUT Microsoft.ManagedIdentity/userAssignedIdentities/a/federatedIdentityCredentials/keeper 2024-11-30 200",
		"GET Microsoft.ManagedIdentity/userAssignedIdentities/a/federatedIdentityCredentials/keeper 2024-11-30 200",
		"PUT Microsoft.ManagedIdentity/userAssignedIdentities/none/federatedIdentityCredentials/keeper 2024-11-30 404",
		"GET Microsoft.ManagedIdentity/userAssignedIdentities/a/federatedIdentityCredentials "+
			"2024-11-30 200",
		"DELETE Microsoft.ManagedIdentity/userAssignedIdentities/a/federatedIdentityCredentials/keeper 2024-11-30 200",
		"GET Microsoft.ManagedIdentity/userAssignedIdentities/a/federatedIdentityCredentials "+
			"2024-11-30 200",
	)
}

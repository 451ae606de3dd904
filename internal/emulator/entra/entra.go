// Package entra is Microsoft Entra ID: principals, logins, managed identities, and as much of
// Microsoft Graph as clients ask for.
package entra

import (
	"crypto/rsa"
	"maps"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/names"
)

// Entra is Microsoft Entra ID, Microsoft Graph and Microsoft.ManagedIdentity.
type Entra struct {
	kernel  *kernel.Kernel
	Issuers issuers

	Identity *Identity
	// systemAssigned are the types with system-assigned identities, in lower case.
	systemAssigned map[string]bool
}

// New makes the service and adds it to the kernel. Tokens are signed with the key; nil: a new one.
func New(k *kernel.Kernel, key *rsa.PrivateKey) *Entra {
	s := &Entra{kernel: k, Identity: newIdentity(tenantsOf(k.Opts), k.Opts.Principals, key),
		systemAssigned: map[string]bool{}}
	k.Directory = s
	k.Add(kernel.Service{Types: s.types(), Names: names.Of("entra"), Things: s.things(), Index: s})
	return s
}

// issuers are the emulator's own issuers of tokens: the clusters', for their service accounts.
type issuers interface {
	// IsIssuer reports whether an issuer is a cluster's. All of them sign with the emulator's key.
	IsIssuer(issuer string) bool
	// IssuerDocument answers for the documents of such an issuer.
	IssuerDocument(c *kernel.Call) (kernel.Reply, bool)
}

// types returns the resource types of Microsoft.ManagedIdentity.
func (s *Entra) types() []kernel.Kind {
	return []kernel.Kind{
		{Name: arm.TypeIdentity, Tracked: true, Immediate: true, Facts: userIdentityFacts,
			Located: true, Settle: s.settleUserIdentity, Show: kernel.ShowBare,
			Within: s.inIdentity},
		{Name: TypeFederatedCredential, Immediate: true, Located: true,
			Missing: [2]string{"NotFound", "Resource '{id}' was not found."},
			Settle:  s.settleFederatedCredential,
			Show:    kernel.ShowBare},
	}
}

// tenantsOf returns all tenants, those of the options first.
func tenantsOf(o kernel.Options) []string {
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

package emulator

import (
	"crypto/rsa"
	"maps"
	"slices"
)

// entra is Microsoft Entra ID: who there is, logins, tokens, Microsoft Graph, and managed
// identities (Microsoft.ManagedIdentity).
type entra struct {
	kernel  *kernel
	issuers issuers

	identity *identity
}

// newEntra makes the service, and gives it its place in the kernel. Tokens are signed with the key;
// nil: one of its own.
func newEntra(k *kernel, key *rsa.PrivateKey) (*entra, error) {
	id, err := newIdentity(tenantsOf(k.opts), k.opts.Principals, key)
	if err != nil {
		return nil, err
	}
	s := &entra{kernel: k, identity: id}
	k.directory = s
	k.add(service{types: s.types(), calls: []special{s.identityCall}, things: s.things()})
	return s, nil
}

// issuers are the emulator's own issuers of tokens: the clusters', for their service accounts.
type issuers interface {
	// keysOf returns the keys of an issuer, false where it is none of these.
	keysOf(issuer string) ([]jwk, bool, error)
	// issuerDocument answers for what relying parties read of an issuer.
	issuerDocument(c *call) (reply, bool)
}

// types are the resource types of Microsoft.ManagedIdentity.
func (s *entra) types() []kind {
	return []kind{
		{name: typeUserIdentity, tracked: true, immediate: true, facts: userIdentityFacts,
			located: true, restored: s.restoreUserIdentity,
			settle: s.settleUserIdentity, stored: s.storedUserIdentity, show: showBare,
			removed: s.userIdentityRemoved},
		{name: typeFederatedCredential, immediate: true, located: true,
			settle: s.settleFederatedCredential,
			show:   showBare},
	}
}

// tenantsOf are all there are, the options' own first.
func tenantsOf(o settings) []string {
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

package emulator

// entra is Microsoft Entra ID: who there is, logins, tokens, Microsoft Graph, and managed
// identities (Microsoft.ManagedIdentity).
type entra struct {
	kernel  *kernel
	issuers issuers

	identity *identity
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

// calls are the calls of managed identities.
func (s *entra) calls() []special { return []special{s.identityCall} }

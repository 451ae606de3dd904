package emulator

// entra is Microsoft Entra ID: who there is, logins, tokens, Microsoft Graph, and managed
// identities (Microsoft.ManagedIdentity).
type entra struct {
	kernel        *kernel
	authorization *authorization
	// aks issues tokens for the service accounts of its clusters.
	aks *aks

	identity *identity
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

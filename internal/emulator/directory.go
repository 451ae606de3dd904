package emulator

// entraKinds are the resource types of Microsoft.ManagedIdentity.
func (e *Emulator) entraKinds() []kind {
	return []kind{
		{name: typeUserIdentity, tracked: true, immediate: true, facts: userIdentityFacts,
			settle: e.settleUserIdentity, stored: e.storedUserIdentity, show: showBare,
			removed: e.userIdentityRemoved},
		{name: typeFederatedCredential, immediate: true, settle: e.settleFederatedCredential,
			show: showBare},
	}
}

// entraCalls are the calls of managed identities.
func (e *Emulator) entraCalls() []special { return []special{e.identityCall} }

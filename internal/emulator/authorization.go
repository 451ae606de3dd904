package emulator

// authorizationKinds are the resource types of Microsoft.Authorization.
func (e *Emulator) authorizationKinds() []kind {
	return []kind{
		{name: typeRoleDefinition, immediate: true, alwaysCreated: true,
			settle: e.settleRoleDefinition, show: showBare, removable: e.roleDefinitionRemovable},
		{name: typeRoleAssignment, immediate: true, alwaysCreated: true,
			settle: e.settleRoleAssignment, show: showBare},
		{name: typeLock, immediate: true, settle: e.settleLock, show: showBare},
		{name: typePolicyDefinition, immediate: true, alwaysCreated: true,
			settle: e.settlePolicyDefinition, show: showBare},
		{name: typePolicyAssignment, immediate: true, alwaysCreated: true,
			settle: e.settlePolicyAssignment, show: showBare},
	}
}

// authorizationCalls are lists of roles, role assignments and locks at any scope.
func (e *Emulator) authorizationCalls() []special {
	return []special{e.roleDefinitionCall, e.roleAssignmentCall, e.lockCall}
}

package emulator

import "time"

// authorization is Microsoft.Authorization: roles, deny assignments, policies and locks. It says
// what a caller may do.
type authorization struct {
	kernel *kernel
	entra  *entra
	// aks locks the resource groups of its nodes down.
	aks *aks

	// takesEffect is when role assignments count, by ID.Key(), where that was not at once.
	takesEffect map[string]time.Time
}

// types are the resource types of Microsoft.Authorization.
func (s *authorization) types() []kind {
	return []kind{
		{name: typeRoleDefinition, immediate: true, alwaysCreated: true,
			settle: s.settleRoleDefinition, show: showBare, removable: s.roleDefinitionRemovable},
		{name: typeRoleAssignment, immediate: true, alwaysCreated: true,
			settle: s.settleRoleAssignment, show: showBare},
		{name: typeLock, immediate: true, settle: s.settleLock, show: showBare},
		{name: typePolicyDefinition, immediate: true, alwaysCreated: true,
			settle: s.settlePolicyDefinition, show: s.showPolicy},
		{name: typePolicyAssignment, immediate: true, alwaysCreated: true,
			settle: s.settlePolicyAssignment, show: s.showPolicy,
			facts: systemIdentityFacts(s.kernel.tenantOf)},
	}
}

// calls are lists of roles, role assignments and locks at any scope.
func (s *authorization) calls() []special {
	return []special{s.roleDefinitionCall, s.roleAssignmentCall, s.lockCall, s.policyCall}
}

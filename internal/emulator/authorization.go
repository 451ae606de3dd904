package emulator

import (
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// authorizationOptions say how roles count.
type authorizationOptions struct {
	// StrictLists refuses a list to who may read only some of it; otherwise the list is shorter.
	StrictLists bool
	// RoleDelay is how long a new role assignment takes to have an effect.
	RoleDelay time.Duration
}

// authorization is Microsoft.Authorization: roles, deny assignments, policies and locks. It says
// what a caller may do.
type authorization struct {
	kernel     *kernel
	opts       authorizationOptions
	entra      *entra
	nodeGroups nodeGroups

	// takesEffect is when role assignments count, by ID.Key(), where that was not at once.
	takesEffect map[string]time.Time
	// assigned are the role assignments by the principal's lower-case object ID, then ID.Key().
	assigned map[string]map[string]*resource
}

// newAuthorization makes the service, and gives it its place in the kernel.
func newAuthorization(k *kernel, d *entra, opts authorizationOptions) *authorization {
	s := &authorization{kernel: k, entra: d, opts: opts, takesEffect: map[string]time.Time{},
		assigned: map[string]map[string]*resource{}}
	k.guard = s
	k.add(service{
		types: s.types(), index: s, newerFields: []NewerField{
			{typePolicyDefinition, "systemData", "2021-06-01"},
			{typePolicyAssignment, "systemData", "2021-06-01"},
		},
		calls: []special{s.roleDefinitionCall, s.roleAssignmentCall, s.lockCall, s.policyCall},
		things: []thing{{"takesEffect", func() any { return s.takesEffect },
			func(read func(into any) error) error { return read(&s.takesEffect) }}},
	})
	return s
}

// added notes a role assignment that is stored.
func (s *authorization) added(r *resource) {
	principal := assignedTo(r)
	if principal == "" {
		return
	}
	if s.assigned[principal] == nil {
		s.assigned[principal] = map[string]*resource{}
	}
	s.assigned[principal][r.id.Key()] = r
}

// removed forgets one that is no longer there.
func (s *authorization) removed(r *resource) { delete(s.assigned[assignedTo(r)], r.id.Key()) }

// nodeGroups are the resource groups that AKS has made for clusters' nodes, some of which only the
// cluster may change.
type nodeGroups interface {
	// nodeGroupOf is the group that belongs to a cluster, "" where there is no such cluster.
	nodeGroupOf(cluster arm.ID) arm.ID
	// denyAssignment is the one that locks a scope down for all but a principal. known is false
	// where the scope is not in such a group.
	denyAssignment(scope arm.ID, who Principal) (name string, id, group arm.ID, known bool)
	// denyAssignments are the documents of those that count at a scope, or lie below it.
	denyAssignments(scope arm.ID) []object
}

// types are the resource types of Microsoft.Authorization.
func (s *authorization) types() []kind {
	return []kind{
		{name: typeRoleDefinition, immediate: true, alwaysCreated: true,
			settle: s.settleRoleDefinition, show: showBare, removable: s.roleDefinitionRemovable},
		{name: typeRoleAssignment, immediate: true, alwaysCreated: true, missing: [2]string{
			"RoleAssignmentNotFound", "The role assignment '%s' is not found."},
			settle: s.settleRoleAssignment, show: showBare},
		{name: typeLock, immediate: true,
			missing: [2]string{"LockNotFound", "The lock '%s' could not be found."},
			settle:  s.settleLock, show: showBare},
		{name: typePolicyDefinition, immediate: true, alwaysCreated: true, missing: [2]string{
			"PolicyDefinitionNotFound", "The policy definition '%s' could not be found."},
			settle: s.settlePolicyDefinition, show: s.showPolicy},
		{name: typePolicyAssignment, immediate: true, alwaysCreated: true, missing: [2]string{
			"PolicyAssignmentNotFound", "The policy assignment '%s' is not found."},
			settle: s.settlePolicyAssignment, show: s.showPolicy,
			facts: systemIdentityFacts(s.kernel.tenantOf)},
	}
}

// sees reports whether a principal has any role in a subscription.
func (s *authorization) sees(who Principal, subscription string) bool {
	scope := arm.ID("/subscriptions/" + subscription)
	return s.isDefault(who) || s.anyRole(who, func(at arm.ID) bool {
		return at.Equal(scope) || below(at, scope)
	})
}

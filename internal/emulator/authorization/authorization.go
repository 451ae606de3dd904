// Package authorization is Microsoft.Authorization: roles and their assignments, deny assignments,
// policies and locks. It decides which calls are allowed.
package authorization

import (
	"net/http"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/names"
)

// Options are the settings of role checks, as emulator.Options describes them.
type Options struct {
	StrictLists bool
	RoleDelay   time.Duration
}

// Authorization is Microsoft.Authorization.
type Authorization struct {
	kernel     *kernel.Kernel
	opts       Options
	entra      *entra.Entra
	NodeGroups nodeGroups

	// takesEffect is the time from which a role assignment counts, by ID.Key(), if that was not at
	// once.
	takesEffect map[string]time.Time
	// assigned are the role assignments by the principal's lower-case object ID, then ID.Key().
	assigned map[string]map[string]*kernel.Resource
}

// New makes the service and adds it to the kernel.
func New(k *kernel.Kernel, d *entra.Entra, opts Options) *Authorization {
	s := &Authorization{kernel: k, entra: d, opts: opts, takesEffect: map[string]time.Time{},
		assigned: map[string]map[string]*kernel.Resource{}}
	k.Guard = s
	k.Add(kernel.Service{
		Types: s.types(), Names: names.Of("authorization") + policyNames, Index: s,
		NewerFields: []kernel.NewerField{
			{Type: TypePolicyDefinition, Path: "systemData", Since: "2021-06-01"},
			{Type: TypePolicyAssignment, Path: "systemData", Since: "2021-06-01"},
		},
		Calls: []kernel.Special{s.roleDefinitionCall, s.roleAssignmentCall, s.lockCall,
			policies{s}.call},
		Things: []kernel.Thing{kernel.ThingAt("takesEffect", &s.takesEffect)},
	})
	return s
}

// Added indexes a stored role assignment.
func (s *Authorization) Added(r *kernel.Resource) {
	principal := assignedTo(r)
	if principal == "" {
		return
	}
	if s.assigned[principal] == nil {
		s.assigned[principal] = map[string]*kernel.Resource{}
	}
	s.assigned[principal][r.ID.Key()] = r
}

// Removed removes a role assignment from the index.
func (s *Authorization) Removed(r *kernel.Resource) {
	delete(s.assigned[assignedTo(r)], r.ID.Key())
}

// nodeGroups are the resource groups of clusters' nodes. Some can be changed only by the cluster.
type nodeGroups interface {
	// NodeGroupOf is the node resource group of a cluster, "" if the cluster does not exist.
	NodeGroupOf(cluster arm.ID) arm.ID
	// DenyAssignment is the deny assignment of a scope for a principal. known is false if the scope
	// is not in a node resource group.
	DenyAssignment(scope arm.ID, who kernel.Principal) (name string, id, group arm.ID, known bool)
	// DenyAssignments returns the documents of the deny assignments at or below a scope, and of
	// the ones that the scope inherits.
	DenyAssignments(scope arm.ID) []kernel.Object
}

// types returns the resource types of Microsoft.Authorization.
func (s *Authorization) types() []kernel.Kind {
	p := policies{s}
	policy := func(name, code, missing string,
		settle func(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure) kernel.Kind {
		return kernel.Kind{Name: name, Immediate: true, PutStatus: http.StatusCreated,
			Missing: [2]string{code, missing}, Settle: settle, Show: p.show}
	}
	return []kernel.Kind{
		{Name: arm.TypeRoleDefinition, Immediate: true, PutStatus: http.StatusCreated,
			Settle: s.settleRoleDefinition, Show: kernel.ShowBare,
			Removable: s.roleDefinitionRemovable},
		{Name: arm.TypeRoleAssignment, Immediate: true, PutStatus: http.StatusCreated,
			Missing: [2]string{
				"RoleAssignmentNotFound", "The role assignment '{name}' is not found."},
			Settle: s.settleRoleAssignment, Show: kernel.ShowBare},
		{Name: arm.TypeLock, Immediate: true,
			Missing: [2]string{"LockNotFound", "The lock '{name}' could not be found."},
			Settle:  s.settleLock, Show: kernel.ShowBare},
		policy(TypePolicyDefinition, "PolicyDefinitionNotFound",
			"The policy definition '{name}' could not be found.", p.settleDefinition),
		policy(TypePolicySet, "PolicySetDefinitionNotFound",
			"The policy set definition '{name}' could not be found.", p.settleSet),
		s.entra.WithSystemIdentity(policy(TypePolicyAssignment, "PolicyAssignmentNotFound",
			"The policy assignment '{name}' is not found.", p.settleAssignment)),
		policy(TypePolicyExemption, "PolicyExemptionNotFound",
			"The policy exemption '{name}' could not be found.", p.settleExemption),
	}
}

// Sees reports whether a principal has any role in a subscription.
func (s *Authorization) Sees(who kernel.Principal, subscription string) bool {
	scope := arm.SubscriptionID(subscription)
	return s.IsDefault(who) || s.anyRole(who, func(at arm.ID) bool {
		return at.Equal(scope) || Below(at, scope)
	})
}

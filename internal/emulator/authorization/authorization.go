// Package authorization is Microsoft.Authorization: roles and their assignments, deny assignments,
// policies and locks. It decides which calls are allowed.
package authorization

import (
	"net/http"
	"slices"
	"strings"
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
		Calls:  []kernel.Special{s.call, policies{s}.call},
		Things: []kernel.Thing{kernel.ThingAt("takesEffect", &s.takesEffect)},
	})
	return s
}

// Stored indexes a stored role assignment.
func (s *Authorization) Stored(r, before *kernel.Resource) {
	if before != nil {
		s.Removed(before)
	}
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
	newer := map[string]string{"systemData": "2021-06-01"}
	policy := func(name, code, missing string, newer map[string]string,
		settle func(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure) kernel.Kind {
		return kernel.Kind{Name: name, Immediate: true, PutStatus: http.StatusCreated,
			Missing: [2]string{code, missing}, Settle: settle, Show: p.show,
			Newer: newer}
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
			"The policy definition '{name}' could not be found.", newer, p.settleDefinition),
		policy(TypePolicySet, "PolicySetDefinitionNotFound",
			"The policy set definition '{name}' could not be found.", nil, p.settleSet),
		s.entra.WithSystemIdentity(policy(TypePolicyAssignment, "PolicyAssignmentNotFound",
			"The policy assignment '{name}' is not found.", newer, p.settleAssignment)),
		policy(TypePolicyExemption, "PolicyExemptionNotFound",
			"The policy exemption '{name}' could not be found.", nil, p.settleExemption),
	}
}

// call answers for role definitions, and lists what applies at a scope.
func (s *Authorization) call(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	scope, kind, rest, found := extension(c)
	switch {
	case found && kind == "roledefinitions":
		return s.roleDefinitions(c, scope, rest)
	case !found || len(rest) > 0 || c.Method != http.MethodGet:
		return kernel.Reply{}, nil, false
	}
	// A list has what is at the scope, above and below it. At a resource's scope, atScope() does
	// not exist.
	filter := c.Param("$filter")
	atScope := strings.Contains(strings.ToLower(filter), "atscope()")
	listed := func(at arm.ID) bool { return Covers(at, scope) || !atScope && Below(at, scope) }
	switch kind {
	case "permissions":
		var docs []kernel.Object
		for _, r := range s.rolesAt(c.Who, scope) {
			docs = append(docs, r.Permissions...)
		}
		return kernel.Handled(s.kernel.PageObjects(c, docs))
	case "denyassignments":
		docs := s.NodeGroups.DenyAssignments(scope)
		docs = slices.DeleteFunc(docs, func(d kernel.Object) bool {
			return !listed(arm.ID(kernel.Text(d, "properties", "scope")))
		})
		return kernel.Handled(s.kernel.PageObjects(c, docs))
	case "roleassignments":
		return kernel.Handled(s.kernel.Page(c, s.roleAssignments(filter, listed)))
	case "locks":
		locks := slices.DeleteFunc(s.kernel.Store.List(arm.TypeLock, ""),
			func(l *kernel.Resource) bool { return !listed(l.ID.Parent()) })
		return kernel.Handled(s.kernel.Page(c, locks))
	}
	return kernel.Reply{}, nil, false
}

// extension reads the path of a resource of Microsoft.Authorization at any scope ("" is above all
// subscriptions): the last word of its type in lower case, and the part after it.
func extension(c *kernel.Call) (scope arm.ID, kind string, rest []string, found bool) {
	for i := len(c.Path) - 3; i >= 0 && i >= len(c.Path)-4; i-- {
		if strings.EqualFold(c.Path[i], "providers") &&
			strings.EqualFold(c.Path[i+1], "Microsoft.Authorization") {
			if i > 0 {
				scope = c.ID(i)
			}
			return scope, strings.ToLower(c.Path[i+2]), c.Path[i+3:], true
		}
	}
	return "", "", nil, false
}

// Sees reports whether a principal has any role in a subscription.
func (s *Authorization) Sees(who kernel.Principal, subscription string) bool {
	scope := arm.SubscriptionID(subscription)
	return s.IsDefault(who) || s.anyRole(who, func(at arm.ID) bool {
		return at.Equal(scope) || Below(at, scope)
	})
}

package authorization

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/lazy"
)

func IsGUID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// roleGUID returns the role that an assignment assigns.
func roleGUID(assignment *kernel.Resource) string {
	return arm.ID(kernel.Text(assignment.Properties(), "roleDefinitionId")).Name()
}

// assignedTo returns the lower-case object ID of the principal that a document assigns a role to,
// or "".
func assignedTo(r *kernel.Resource) string {
	if !r.ID.Is(arm.TypeRoleAssignment) {
		return ""
	}
	return strings.ToLower(kernel.Text(r.Properties(), "principalId"))
}

// anyRole reports whether a principal has an effective role at one of the matching scopes.
func (s *Authorization) anyRole(who kernel.Principal, meant func(scope arm.ID) bool) bool {
	for _, a := range s.assigned[strings.ToLower(who.ObjectID)] {
		if meant(a.ID.Parent()) && s.inEffect(a) {
			return true
		}
	}
	return false
}

// Allowed reports whether a principal's roles at a scope and above grant an action. Deny
// assignments are checked elsewhere.
func (s *Authorization) Allowed(who kernel.Principal, action string, scope arm.ID) bool {
	return s.IsDefault(who) || s.Granted(who, action, scope, false)
}

// Granted reports whether any of a principal's roles at a scope and above grants an action, or a
// data action.
func (s *Authorization) Granted(who kernel.Principal, action string, scope arm.ID, data bool) bool {
	for _, a := range s.assigned[strings.ToLower(who.ObjectID)] {
		if !Covers(a.ID.Parent(), scope) || !s.inEffect(a) {
			continue
		}
		if r, known := s.roleByGUID(roleGUID(a)); known && r.allows(action, data) {
			return true
		}
	}
	return false
}

// MayRead reports whether a principal may read a resource: lists leave out resources that it may
// not read.
func (s *Authorization) MayRead(who kernel.Principal, id arm.ID) bool {
	return s.Allowed(who, s.kernel.OperationOn(id)+"/read", id)
}

// inEffect reports whether a role assignment counts already: on Azure that can take an hour.
func (s *Authorization) inEffect(assignment *kernel.Resource) bool {
	return !s.takesEffect[assignment.ID.Key()].After(time.Now())
}

// DelayRole makes a role assignment take effect after a delay from now.
func (s *Authorization) DelayRole(assignment arm.ID, delay time.Duration) bool {
	defer s.kernel.Lock()()
	if r := s.kernel.Store.Get(assignment); r == nil || !r.ID.Is(arm.TypeRoleAssignment) {
		return false
	}
	s.takesEffect[assignment.Key()] = time.Now().Add(delay)
	return true
}

// Assign gives a principal a role without a call.
func (s *Authorization) Assign(scope arm.ID, who kernel.Principal, roleName string) {
	i := slices.IndexFunc(BuiltInRoles, func(r Role) bool { return r.Name == roleName })
	name := uuid.NewSHA1(uuid.Nil, []byte(scope.Key()+" "+who.ObjectID+" "+roleName)).String()
	id := scope + arm.ID("/providers/"+arm.TypeRoleAssignment+"/"+name)
	r := s.kernel.NewResource(id,
		kernel.Object{"properties": kernel.Object{"roleDefinitionId": RoleID(scope.Subscription(),
			BuiltInRoles[i].Guid), "principalId": who.ObjectID,
			"principalType": "ServicePrincipal"}}, nil)
	completeAssignment(r, nil, who)
	s.kernel.Store.Put(r)
}

// completeAssignment fills in the fields that Azure adds to an assignment.
func completeAssignment(r, old *kernel.Resource, by kernel.Principal) {
	p := r.Properties()
	p["scope"] = string(r.ID.Parent())
	kernel.SetDefault(p, "principalType", "ServicePrincipal")
	stampAuthors(p, old, by)
	for _, field := range []string{"condition", "conditionVersion",
		"delegatedManagedIdentityResourceId", "description"} {
		if p[field] == nil {
			p[field] = nil
		}
	}
}

// stampAuthors records who made a role or an assignment, who changed it last, and when.
func stampAuthors(p kernel.Object, old *kernel.Resource, by kernel.Principal) {
	now := time.Now().UTC().Format("2006-01-02T15:04:05.0000000Z")
	p["createdOn"], p["createdBy"], p["updatedOn"], p["updatedBy"] = now, by.ObjectID, now,
		by.ObjectID
	if old != nil {
		p["createdOn"], p["createdBy"] = old.Properties()["createdOn"],
			old.Properties()["createdBy"]
	}
}

// settleRoleAssignment checks a role assignment.
func (s *Authorization) settleRoleAssignment(c *kernel.Call, r,
	old *kernel.Resource) *kernel.Failure {
	p := r.Properties()
	if !IsGUID(r.ID.Name()) {
		return kernel.Bad("InvalidRoleAssignmentId", "The role assignment ID '%s' is not valid. "+
			"The role assignment ID must be a GUID.", r.ID.Name())
	}
	scope := r.ID.Parent()
	if top := kernel.WholeOf(scope); strings.Contains(top.Type(), "/") &&
		top.ResourceGroup() != "" && s.kernel.Store.Get(top) == nil {
		return s.kernel.Missing(top)
	}
	guid := arm.ID(kernel.Text(p, "roleDefinitionId")).Name()
	found, known := s.roleByGUID(guid)
	if !known {
		return kernel.Fail(http.StatusNotFound, "RoleDefinitionDoesNotExist",
			"The specified role definition with ID '%s' does not exist.", guid)
	}
	p["roleDefinitionId"] = RoleID(scope.Subscription(), found.Guid)
	principal, tenant := kernel.Text(p, "principalId"), s.kernel.Opts.TenantOf(scope.Subscription())
	if principal == "" {
		return kernel.Bad("InvalidPrincipalId",
			"A valid principal ID must be provided for role assignment.")
	} else if !IsGUID(principal) {
		return kernel.Bad("InvalidPrincipalId",
			"The Principal ID '%s' is not valid. Principal ID must be a GUID.", principal)
	}
	// If the request has a principalType, Azure does not check that the principal exists. So a
	// request can name a principal that Azure does not know yet.
	_, exists := s.entra.Identity.Find(tenant, func(who kernel.Principal) bool {
		return strings.EqualFold(who.ObjectID, principal)
	})
	if !exists && kernel.Text(p, "principalType") == "" {
		return kernel.Bad("PrincipalNotFound", "Principal %s does not exist in the directory %s. "+
			"Check that you have the correct principal ID. If you are creating this "+
			"principal and then immediately assigning a role, this error might be related to "+
			"a replication delay. In this case, set the role assignment principalType "+
			"property to a value, such as ServicePrincipal, User, or Group.  See "+
			"https://aka.ms/docs-principaltype", strings.ReplaceAll(principal, "-", ""), tenant)
	}
	if sent := kernel.Text(p, "principalType"); exists && sent != "" &&
		!strings.EqualFold(sent, "ServicePrincipal") {
		return kernel.Bad("UnmatchedPrincipalType", "The PrincipalId '%s' has type "+
			"'ServicePrincipal' , which is different from specified PrinciaplType '%s'.",
			strings.ReplaceAll(principal, "-", ""), sent)
	}
	for _, other := range s.assigned[strings.ToLower(principal)] {
		if !other.ID.Equal(r.ID) && other.ID.Parent().Equal(scope) &&
			strings.EqualFold(roleGUID(other), guid) {
			return kernel.Fail(http.StatusConflict, "RoleAssignmentExists", "The role assignment "+
				"already exists. The ID of the existing role assignment is %s.", strings.ReplaceAll(
				other.ID.Name(), "-", ""))
		}
	}
	if old != nil &&
		(assignedTo(old) != strings.ToLower(principal) || !strings.EqualFold(roleGUID(old), guid)) {
		return kernel.Bad("RoleAssignmentUpdateNotPermitted",
			"Tenant ID, application ID, principal ID, and scope are not allowed to be updated.")
	}
	completeAssignment(r, old, c.Who)
	if old == nil {
		delete(s.takesEffect, r.ID.Key())
		if s.opts.RoleDelay > 0 {
			s.takesEffect[r.ID.Key()] = time.Now().Add(s.opts.RoleDelay)
		}
	}
	return nil
}

var (
	principalFilter = lazy.Regexp(`(?i)principalId\s+eq\s+'([^']*)'`)
	assignedFilter  = lazy.Regexp(`(?i)assignedTo\(\s*'([^']*)'\s*\)`)
)

// roleAssignments returns the listed assignments. If a filter names a principal, it returns only
// those of this principal.
func (s *Authorization) roleAssignments(filter string, listed func(at arm.ID) bool) (
	matches []*kernel.Resource) {
	principal := ""
	for _, expression := range []*regexp.Regexp{principalFilter(), assignedFilter()} {
		if m := expression.FindStringSubmatch(filter); m != nil {
			principal = m[1]
		}
	}
	for _, a := range s.kernel.Store.List(arm.TypeRoleAssignment, "") {
		if listed(a.ID.Parent()) &&
			(principal == "" || strings.EqualFold(assignedTo(a), principal)) {
			matches = append(matches, a)
		}
	}
	return matches
}

// rolesAt returns a principal's effective roles at a scope.
func (s *Authorization) rolesAt(who kernel.Principal, scope arm.ID) []Role {
	var out []Role
	if s.IsDefault(who) {
		out = append(out, BuiltInRoles[0])
	}
	for _, a := range s.assigned[strings.ToLower(who.ObjectID)] {
		if r, known := s.roleByGUID(roleGUID(a)); known && Covers(a.ID.Parent(), scope) &&
			s.inEffect(a) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Role) int { return strings.Compare(a.Guid, b.Guid) })
	return slices.CompactFunc(out, func(a, b Role) bool { return a.Guid == b.Guid })
}

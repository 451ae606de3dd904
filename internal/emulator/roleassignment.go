package emulator

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

const typeRoleAssignment = "Microsoft.Authorization/roleAssignments"

func isGUID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// roleGUID is the role that an assignment assigns.
func roleGUID(assignment *resource) string {
	return arm.ID(text(objectAt(assignment.body, "properties"), "roleDefinitionId")).Name()
}

// assignedTo is the lower-case object ID of the principal that a document assigns a role to, or "".
func assignedTo(r *resource) string {
	if !r.id.Is(typeRoleAssignment) {
		return ""
	}
	return strings.ToLower(text(objectAt(r.body, "properties"), "principalId"))
}

// anyRole reports whether a principal has a role in effect at one of the scopes that are meant.
func (s *authorization) anyRole(who Principal, meant func(scope arm.ID) bool) bool {
	for _, a := range s.assigned[strings.ToLower(who.ObjectID)] {
		if meant(a.id.Parent()) && s.inEffect(a) {
			return true
		}
	}
	return false
}

// allowed reports whether a principal's roles at a scope and above grant an action. Deny
// assignments are looked at elsewhere.
func (s *authorization) allowed(who Principal, action string, scope arm.ID) bool {
	return s.isDefault(who) || s.granted(who, action, scope, false)
}

// granted reports whether any of a principal's roles at a scope and above grants an action, or a
// data action.
func (s *authorization) granted(who Principal, action string, scope arm.ID, data bool) bool {
	for _, a := range s.assigned[strings.ToLower(who.ObjectID)] {
		if !covers(a.id.Parent(), scope) || !s.inEffect(a) {
			continue
		}
		if r, known := s.roleByGUID(roleGUID(a)); known && r.allows(action, data) {
			return true
		}
	}
	return false
}

// mayRead reports whether a principal may read a resource: lists leave out what they may not.
func (s *authorization) mayRead(who Principal, id arm.ID) bool {
	return s.allowed(who, s.kernel.operationOn(id)+"/read", id)
}

// inEffect reports whether a role assignment counts already: on Azure that takes up to an hour.
func (s *authorization) inEffect(assignment *resource) bool {
	return !s.takesEffect[assignment.id.Key()].After(time.Now())
}

// DelayRole makes a role assignment take effect after a while, counted from now.
func (s *authorization) DelayRole(assignment arm.ID, delay time.Duration) bool {
	defer s.kernel.lock()()
	if r := s.kernel.store.get(assignment); r == nil || !r.id.Is(typeRoleAssignment) {
		return false
	}
	s.takesEffect[assignment.Key()] = time.Now().Add(delay)
	return true
}

// assign gives a principal a role without a call.
func (s *authorization) assign(scope arm.ID, who Principal, roleName string) {
	i := slices.IndexFunc(builtInRoles, func(r role) bool { return r.name == roleName })
	name := uuid.NewSHA1(uuid.Nil, []byte(scope.Key()+" "+who.ObjectID+" "+roleName)).String()
	id := scope + arm.ID("/providers/"+typeRoleAssignment+"/"+name)
	r := s.kernel.newResource(id,
		object{"properties": object{"roleDefinitionId": roleID(scope.Subscription(),
			builtInRoles[i].guid), "principalId": who.ObjectID,
			"principalType": "ServicePrincipal"}}, nil)
	completeAssignment(r, nil, who)
	s.kernel.store.put(r)
}

// completeAssignment fills in what Azure says of an assignment.
func completeAssignment(r, old *resource, by Principal) {
	r.etag = ""
	p := objectAt(r.body, "properties")
	now := time.Now().UTC().Format("2006-01-02T15:04:05.0000000Z")
	p["scope"] = string(r.id.Parent())
	setDefault(p, "principalType", "ServicePrincipal")
	p["createdOn"], p["updatedOn"], p["createdBy"], p["updatedBy"] = now, now, by.ObjectID,
		by.ObjectID
	if old != nil {
		p["createdOn"], p["createdBy"] = objectAt(old.body, "properties")["createdOn"],
			objectAt(old.body, "properties")["createdBy"]
	}
	for _, field := range []string{"condition", "conditionVersion",
		"delegatedManagedIdentityResourceId", "description"} {
		if p[field] == nil {
			p[field] = nil
		}
	}
}

// settleRoleAssignment checks a role assignment.
func (s *authorization) settleRoleAssignment(c *call, r, old *resource) *failure {
	p := objectAt(r.body, "properties")
	if !isGUID(r.id.Name()) {
		return fail(http.StatusBadRequest, "InvalidRoleAssignmentId",
			"The role assignment ID '%s' is not valid. The role assignment ID must be a GUID.",
			r.id.Name())
	}
	scope := r.id.Parent()
	if top := wholeOf(scope); strings.Contains(top.Type(), "/") && top.ResourceGroup() != "" &&
		s.kernel.store.get(top) == nil {
		return s.kernel.missing(top)
	}
	guid := arm.ID(text(p, "roleDefinitionId")).Name()
	found, known := s.roleByGUID(guid)
	if !known {
		return fail(http.StatusNotFound, "RoleDefinitionDoesNotExist",
			"The specified role definition with ID '%s' does not exist.", guid)
	}
	p["roleDefinitionId"] = roleID(scope.Subscription(), found.guid)
	principal, tenant := text(p, "principalId"), s.kernel.tenantOf(scope.Subscription())
	if !isGUID(principal) {
		return fail(http.StatusBadRequest, "InvalidPrincipalId",
			"A valid principal ID must be provided for role assignment.")
	}
	// With a principalType Azure does not look, so that a principal it has not heard of yet can be
	// named.
	_, exists := s.entra.identity.find(tenant, func(who Principal) bool {
		return strings.EqualFold(who.ObjectID, principal)
	})
	if !exists && text(p, "principalType") == "" {
		return fail(http.StatusBadRequest, "PrincipalNotFound", "Principal %s does not exist in "+
			"the directory %s. Check that you have the correct principal ID. If you are creating "+
			"this principal and then immediately assigning a role, this error might be related "+
			"to a replication delay. In this case, set the role assignment principalType "+
			"property to a value, such as ServicePrincipal, User, or Group.  See "+
			"https://aka.ms/docs-principaltype",
			strings.ReplaceAll(principal, "-", ""), tenant)
	}
	if sent := text(p, "principalType"); exists && sent != "" &&
		!strings.EqualFold(sent, "ServicePrincipal") {
		return fail(http.StatusBadRequest, "UnmatchedPrincipalType", "The PrincipalId '%s' has "+
			"type 'ServicePrincipal' , which is different from specified PrinciaplType '%s'.",
			strings.ReplaceAll(principal, "-", ""), sent)
	}
	for _, other := range s.assigned[strings.ToLower(principal)] {
		if !other.id.Equal(r.id) && other.id.Parent().Equal(scope) &&
			strings.EqualFold(roleGUID(other), guid) {
			return fail(http.StatusConflict, "RoleAssignmentExists", "The role assignment "+
				"already exists. The ID of the existing role assignment is %s.", strings.ReplaceAll(
				other.id.Name(), "-", ""))
		}
	}
	if old != nil && (assignedTo(old) != strings.ToLower(principal) ||
		!strings.EqualFold(roleGUID(old), guid)) {
		return fail(http.StatusBadRequest, "RoleAssignmentUpdateNotPermitted",
			"Tenant ID, application ID, principal ID, and scope are not allowed to be updated.")
	}
	completeAssignment(r, old, c.who)
	if old == nil {
		delete(s.takesEffect, r.id.Key())
		if s.opts.RoleDelay > 0 {
			s.takesEffect[r.id.Key()] = time.Now().Add(s.opts.RoleDelay)
		}
	}
	return nil
}

// wholeOf is the top-level resource that something is part of.
func wholeOf(id arm.ID) arm.ID {
	for strings.Count(id.Type(), "/") > 1 {
		id = id.Parent()
	}
	return id
}

var (
	principalFilter = regexp.MustCompile(`(?i)principalId\s+eq\s+'([^']*)'`)
	assignedFilter  = regexp.MustCompile(`(?i)assignedTo\(\s*'([^']*)'\s*\)`)
)

// roleAssignmentCall lists the assignments at a scope, above and below it, or without the ones
// below (atScope()), and answers what the caller may do there.
func (s *authorization) roleAssignmentCall(c *call) (reply, *failure, bool) {
	if c.method != http.MethodGet {
		return reply{}, nil, false
	}
	if scope, rest, found := extension(c, "permissions"); found && len(rest) == 0 {
		docs := []object{}
		for _, r := range s.rolesAt(c.who, scope) {
			for _, p := range r.permissions {
				docs = append(docs, p.document())
			}
		}
		answer, f := s.kernel.pageObjects(c, docs)
		return answer, f, true
	}
	if scope, rest, found := extension(c, "denyAssignments"); found && len(rest) == 0 {
		docs := s.nodeGroups.denyAssignments(scope)
		if strings.Contains(strings.ToLower(c.param("$filter")), "atscope()") { // not those below
			docs = slices.DeleteFunc(docs, func(d object) bool {
				return !covers(arm.ID(text(objectAt(d, "properties"), "scope")), scope)
			})
		}
		answer, f := s.kernel.pageObjects(c, docs)
		return answer, f, true
	}
	scope, rest, found := extension(c, "roleAssignments")
	if !found || len(rest) > 0 {
		return reply{}, nil, false
	}
	filter, principal := c.param("$filter"), ""
	for _, expression := range []*regexp.Regexp{principalFilter, assignedFilter} {
		if m := expression.FindStringSubmatch(filter); m != nil {
			principal = m[1]
		}
	}
	matches := []*resource{}
	for _, a := range s.kernel.store.list(typeRoleAssignment, "") {
		at := a.id.Parent()
		isBelow := below(at, scope) && !strings.Contains(strings.ToLower(filter), "atscope()")
		if (covers(at, scope) || isBelow) && (principal == "" ||
			strings.EqualFold(assignedTo(a), principal)) {
			matches = append(matches, a)
		}
	}
	answer, f := s.kernel.page(c, nil, matches)
	return answer, f, true
}

// rolesAt are the roles in effect that a principal has at a scope.
func (s *authorization) rolesAt(who Principal, scope arm.ID) []role {
	var out []role
	if s.isDefault(who) {
		out = append(out, builtInRoles[0])
	}
	for _, a := range s.assigned[strings.ToLower(who.ObjectID)] {
		if r, known := s.roleByGUID(roleGUID(a)); known && covers(a.id.Parent(), scope) &&
			s.inEffect(a) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b role) int { return strings.Compare(a.guid, b.guid) })
	return slices.CompactFunc(out, func(a, b role) bool { return a.guid == b.guid })
}

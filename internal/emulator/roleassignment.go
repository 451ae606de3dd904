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
func (e *Emulator) anyRole(who Principal, meant func(scope arm.ID) bool) bool {
	for _, a := range e.store.assigned[strings.ToLower(who.ObjectID)] {
		if meant(a.id.Parent()) && e.inEffect(a) {
			return true
		}
	}
	return false
}

// allowed reports whether a principal's roles at a scope and above grant an action. Deny
// assignments are looked at elsewhere.
func (e *Emulator) allowed(who Principal, action string, scope arm.ID) bool {
	return e.isDefault(who) || e.granted(who, action, scope, false)
}

// granted reports whether any of a principal's roles at a scope and above grants an action, or a
// data action.
func (e *Emulator) granted(who Principal, action string, scope arm.ID, data bool) bool {
	for _, a := range e.store.assigned[strings.ToLower(who.ObjectID)] {
		if !covers(a.id.Parent(), scope) || !e.inEffect(a) {
			continue
		}
		if r, known := e.roleByGUID(roleGUID(a)); known && r.allows(action, data) {
			return true
		}
	}
	return false
}

// mayRead reports whether a principal may read a resource: lists leave out what they may not.
func (e *Emulator) mayRead(who Principal, id arm.ID) bool {
	return e.allowed(who, e.operationOn(id)+"/read", id)
}

// inEffect reports whether a role assignment counts already: on Azure that takes up to an hour.
func (e *Emulator) inEffect(assignment *resource) bool {
	return !e.takesEffect[assignment.id.Key()].After(time.Now())
}

// DelayRole makes a role assignment take effect after a while, counted from now.
func (e *Emulator) DelayRole(assignment arm.ID, delay time.Duration) bool {
	defer e.lock()()
	if r := e.store.get(assignment); r == nil || !r.id.Is(typeRoleAssignment) {
		return false
	}
	e.takesEffect[assignment.Key()] = time.Now().Add(delay)
	return true
}

// assign gives a principal a role without a call.
func (e *Emulator) assign(scope arm.ID, who Principal, roleName string) {
	i := slices.IndexFunc(builtInRoles, func(r role) bool { return r.name == roleName })
	name := uuid.NewSHA1(uuid.Nil, []byte(scope.Key()+" "+who.ObjectID+" "+roleName)).String()
	id := scope + arm.ID("/providers/"+typeRoleAssignment+"/"+name)
	r := e.newResource(id,
		object{"properties": object{"roleDefinitionId": roleID(scope.Subscription(),
			builtInRoles[i].guid), "principalId": who.ObjectID,
			"principalType": "ServicePrincipal"}}, nil)
	completeAssignment(r, nil, who)
	e.store.put(r)
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
func (e *Emulator) settleRoleAssignment(c *call, r, old *resource) *failure {
	p := objectAt(r.body, "properties")
	if !isGUID(r.id.Name()) {
		return fail(http.StatusBadRequest, "InvalidRoleAssignmentId",
			"The role assignment ID '%s' is not valid. The role assignment ID must be a GUID.",
			r.id.Name())
	}
	scope := r.id.Parent()
	if top := wholeOf(scope); strings.Contains(top.Type(), "/") && top.ResourceGroup() != "" &&
		e.store.get(top) == nil {
		return e.missing(top)
	}
	guid := arm.ID(text(p, "roleDefinitionId")).Name()
	found, known := e.roleByGUID(guid)
	if !known {
		return fail(http.StatusNotFound, "RoleDefinitionDoesNotExist",
			"The specified role definition with ID '%s' does not exist.", guid)
	}
	p["roleDefinitionId"] = roleID(scope.Subscription(), found.guid)
	principal, tenant := text(p, "principalId"), e.tenantOf(scope.Subscription())
	if !isGUID(principal) {
		return fail(http.StatusBadRequest, "InvalidPrincipalId",
			"A valid principal ID must be provided for role assignment.")
	}
	// With a principalType Azure does not look, so that a principal it has not heard of yet can be
	// named.
	_, exists := e.identity.find(tenant, func(who Principal) bool {
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
	for _, other := range e.store.assigned[strings.ToLower(principal)] {
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
		delete(e.takesEffect, r.id.Key())
		if e.opts.RoleDelay > 0 {
			e.takesEffect[r.id.Key()] = time.Now().Add(e.opts.RoleDelay)
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
func (e *Emulator) roleAssignmentCall(c *call) (reply, *failure, bool) {
	if c.method != http.MethodGet {
		return reply{}, nil, false
	}
	if scope, rest, found := extension(c, "permissions"); found && len(rest) == 0 {
		docs := []object{}
		for _, r := range e.rolesAt(c.who, scope) {
			for _, p := range r.permissions {
				docs = append(docs, p.document())
			}
		}
		answer, f := e.pageObjects(c, docs)
		return answer, f, true
	}
	if scope, rest, found := extension(c, "denyAssignments"); found && len(rest) == 0 {
		docs := e.denyAssignments(scope)
		if strings.Contains(strings.ToLower(c.param("$filter")), "atscope()") { // not those below
			docs = slices.DeleteFunc(docs, func(d object) bool {
				return !covers(arm.ID(text(objectAt(d, "properties"), "scope")), scope)
			})
		}
		answer, f := e.pageObjects(c, docs)
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
	for _, a := range e.store.list(typeRoleAssignment, "") {
		at := a.id.Parent()
		isBelow := below(at, scope) && !strings.Contains(strings.ToLower(filter), "atscope()")
		if (covers(at, scope) || isBelow) && (principal == "" ||
			strings.EqualFold(assignedTo(a), principal)) {
			matches = append(matches, a)
		}
	}
	answer, f := e.page(c, nil, matches)
	return answer, f, true
}

// rolesAt are the roles in effect that a principal has at a scope.
func (e *Emulator) rolesAt(who Principal, scope arm.ID) []role {
	var out []role
	if e.isDefault(who) {
		out = append(out, builtInRoles[0])
	}
	for _, a := range e.store.assigned[strings.ToLower(who.ObjectID)] {
		if r, known := e.roleByGUID(roleGUID(a)); known && covers(a.id.Parent(), scope) &&
			e.inEffect(a) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b role) int { return strings.Compare(a.guid, b.guid) })
	return slices.CompactFunc(out, func(a, b role) bool { return a.guid == b.guid })
}

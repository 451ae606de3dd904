package authorization

import (
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Role is the actions of a role definition.
type Role struct {
	Guid, Name, Description string
	Permissions             []permission
}

type permission struct{ Actions, NotActions, DataActions, NotDataActions []string }

const NetworkContributor = "4d97b98b-1d4f-4787-a291-c67834d212e7"

// BuiltInRoles are some of Azure's, in the order of builtinroles.json; the first is Owner.
var BuiltInRoles = builtInRoles()

// roleByGUID finds a built-in role, or a custom one at any scope.
func (s *Authorization) roleByGUID(guid string) (Role, bool) {
	for _, r := range BuiltInRoles {
		if strings.EqualFold(r.Guid, guid) {
			return r, true
		}
	}
	for _, r := range s.kernel.Store.ByType[strings.ToLower(arm.TypeRoleDefinition)] {
		if strings.EqualFold(r.ID.Name(), guid) {
			return roleOf(r), true
		}
	}
	return Role{}, false
}

// roleOf reads a custom role's document.
func roleOf(r *kernel.Resource) Role {
	p := r.Properties()
	out := Role{Guid: r.ID.Name(), Name: kernel.Text(p, "roleName")}
	for _, q := range kernel.ListAt(p, "permissions") {
		out.Permissions = append(out.Permissions,
			permission{kernel.List(q, "actions"), kernel.List(q, "notActions"),
				kernel.List(q, "dataActions"),
				kernel.List(q, "notDataActions")})
	}
	return out
}

// allows reports whether the role grants an action, or a data action.
func (r Role) allows(action string, data bool) bool {
	for _, p := range r.Permissions {
		grants := func(pattern string) bool { return MatchAction(pattern, action) }
		with, without := p.Actions, p.NotActions
		if data {
			with, without = p.DataActions, p.NotDataActions
		}
		if slices.ContainsFunc(with, grants) && !slices.ContainsFunc(without, grants) {
			return true
		}
	}
	return false
}

// MatchAction compares an action with a pattern, without case. A star matches any text, slashes
// included; between slashes also nothing: userAssignedIdentities/*/read allows reading
// userAssignedIdentities.
func MatchAction(pattern, action string) bool {
	pattern, action = strings.ToLower(pattern), strings.ToLower(action)
	if strings.Contains(pattern, "/*/") &&
		matchStars(strings.ReplaceAll(pattern, "/*/", "/"), action) {
		return true
	}
	return matchStars(pattern, action)
}

func matchStars(pattern, s string) bool {
	head, rest, hasStar := strings.Cut(pattern, "*")
	if !hasStar {
		return pattern == s
	}
	if !strings.HasPrefix(s, head) {
		return false
	}
	s = s[len(head):]
	parts := strings.Split(rest, "*")
	for _, middle := range parts[:len(parts)-1] {
		i := strings.Index(s, middle)
		if i < 0 {
			return false
		}
		s = s[i+len(middle):]
	}
	return strings.HasSuffix(s, parts[len(parts)-1])
}

func (p permission) document() kernel.Object {
	return kernel.Object{
		"actions": kernel.Items(p.Actions), "notActions": kernel.Items(p.NotActions),
		"dataActions":    kernel.Items(p.DataActions),
		"notDataActions": kernel.Items(p.NotDataActions),
	}
}

// document returns a built-in role as shown in a subscription, or above all ("").
func (r Role) document(subscription string) kernel.Object {
	permissions := []any{}
	for _, p := range r.Permissions {
		permissions = append(permissions, p.document())
	}
	return kernel.Object{
		"id": RoleID(subscription, r.Guid), "name": r.Guid, "type": arm.TypeRoleDefinition,
		"properties": kernel.Object{
			"roleName": r.Name, "type": "BuiltInRole", "description": r.Description,
			"assignableScopes": []any{"/"}, "permissions": permissions,
			"createdOn": "2015-02-02T21:55:09.8806423Z",
			"updatedOn": "2023-07-10T15:10:53.8891650Z", "createdBy": nil, "updatedBy": nil,
		},
	}
}

func RoleID(subscription, guid string) string {
	id := "/providers/" + arm.TypeRoleDefinition + "/" + guid
	if subscription != "" {
		return "/subscriptions/" + subscription + id
	}
	return id
}

// settleRoleDefinition checks a custom role.
func (s *Authorization) settleRoleDefinition(c *kernel.Call, r,
	old *kernel.Resource) *kernel.Failure {
	if !IsGUID(r.ID.Name()) {
		return kernel.Bad("InvalidRoleDefinitionId", "The role definition ID '%s' is not valid. "+
			"The role definition ID must be a GUID.", r.ID.Name())
	}
	p := r.Properties()
	p["type"] = "CustomRole"
	stampRole(p, old, c.Who)
	name := kernel.Text(p, "roleName")
	if name == "" || len(kernel.ListAt(p, "permissions")) == 0 ||
		len(kernel.List(p, "assignableScopes")) == 0 {
		return kernel.Bad("InvalidRoleDefinition",
			"A custom role needs roleName, permissions and assignableScopes.")
	}
	taken := slices.ContainsFunc(BuiltInRoles, func(b Role) bool {
		return strings.EqualFold(b.Name, name) || strings.EqualFold(b.Guid, r.ID.Name())
	})
	for _, other := range s.kernel.Store.ByType[strings.ToLower(arm.TypeRoleDefinition)] {
		taken = taken || strings.EqualFold(roleOf(other).Name, name) &&
			!strings.EqualFold(other.ID.Name(), r.ID.Name())
	}
	if taken {
		return kernel.Fail(http.StatusConflict, "RoleDefinitionWithSameNameExists", "A custom "+
			"role with the same name already exists in this directory. Use a different name.")
	}
	return nil
}

// stampRole fills in a custom role's authors, times and empty lists.
func stampRole(p kernel.Object, old *kernel.Resource, by kernel.Principal) {
	stampAuthors(p, old, by)
	for _, q := range kernel.ListAt(p, "permissions") {
		for _, name := range []string{"actions", "notActions", "dataActions", "notDataActions"} {
			if q[name] == nil {
				q[name] = []any{}
			}
		}
	}
}

// roleDefinitionRemovable refuses a delete while the role is assigned.
func (s *Authorization) roleDefinitionRemovable(r *kernel.Resource) *kernel.Failure {
	for _, a := range s.kernel.Store.ByType[strings.ToLower(arm.TypeRoleAssignment)] {
		if strings.EqualFold(roleGUID(a), r.ID.Name()) {
			return kernel.Bad("RoleDefinitionHasAssignments", "There are existing role "+
				"assignments referencing role (code: RoleDefinitionHasAssignments).")
		}
	}
	return nil
}

var roleFilter = lazy.Regexp(`(?i)(roleName|type)\s+eq\s+'([^']*)'`)

// roleDefinitionCall answers for role definitions at any scope: built-in ones exist everywhere,
// custom ones where they can be assigned.
func (s *Authorization) roleDefinitionCall(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	scope, rest, found := extension(c, "roleDefinitions")
	if found && len(rest) == 1 && scope.ResourceGroup() != "" {
		// It belongs to the subscription, even if it was written at a scope below it [R].
		c.Path = strings.Split(strings.TrimPrefix(RoleID(scope.Subscription(), rest[0]), "/"), "/")
	}
	if !found || c.Method != http.MethodGet {
		return kernel.Reply{}, nil, false
	}
	docs := []kernel.Object{}
	for _, r := range BuiltInRoles {
		docs = append(docs, r.asOf(c).document(scope.Subscription()))
	}
	for _, r := range s.kernel.Store.List(arm.TypeRoleDefinition, "") {
		for _, assignable := range kernel.List(r.Properties(), "assignableScopes") {
			if scope == "" || Covers(arm.ID(assignable), scope) ||
				Covers(scope, arm.ID(assignable)) {
				docs = append(docs, s.kernel.Document(r, c.Version))
				break
			}
		}
	}
	if len(rest) == 1 {
		if d := kernel.Named(docs, rest[0]); d != nil {
			return kernel.OK(d), nil, true
		}
		return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "RoleDefinitionDoesNotExist",
			"The specified role definition with ID '%s' does not exist.", rest[0]), true
	}
	for _, m := range roleFilter().FindAllStringSubmatch(c.Param("$filter"), -1) {
		field := map[bool]string{true: "type", false: "roleName"}[strings.EqualFold(m[1], "type")]
		docs = slices.DeleteFunc(docs, func(d kernel.Object) bool {
			return !strings.EqualFold(kernel.Text(d, "properties", field), m[2])
		})
	}
	return kernel.Handled(s.kernel.PageObjects(c, docs))
}

// extension reads the path of a resource of Microsoft.Authorization at any scope ("" is above all
// subscriptions): the part after its type.
func extension(c *kernel.Call, typeName string) (scope arm.ID, rest []string, found bool) {
	for i := len(c.Path) - 3; i >= 0 && i >= len(c.Path)-4; i-- {
		if strings.EqualFold(c.Path[i], "providers") && strings.EqualFold(c.Path[i+1],
			"Microsoft.Authorization") && strings.EqualFold(c.Path[i+2], typeName) {
			if i > 0 {
				scope = arm.ID("/" + strings.Join(c.Path[:i], "/"))
			}
			return scope, c.Path[i+3:], true
		}
	}
	return "", nil, false
}

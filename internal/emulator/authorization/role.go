package authorization

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Role is a role definition. Its permissions are as its document shows them.
type Role struct {
	Guid, Name, Description string
	Permissions             []kernel.Object
}

const NetworkContributor = "4d97b98b-1d4f-4787-a291-c67834d212e7"

// Azure's built-in roles, which az and azurerm look up by name: of networks, AKS, managed
// identities and monitoring. GUIDs and actions are those of the built-in-roles documentation.
//
//go:embed builtinroles.json
var builtIn []byte

func builtInRoles() (all []Role) {
	if err := json.Unmarshal(builtIn, &all); err != nil {
		panic(err) // it is part of the program
	}
	for _, r := range all {
		completePermissions(r.Permissions)
	}
	return all
}

// BuiltInRoles are some of Azure's, in the order of builtinroles.json; the first is Owner.
var BuiltInRoles = builtInRoles()

// roleByGUID finds a built-in role, or a custom one at any scope.
func (s *Authorization) roleByGUID(guid string) (Role, bool) {
	for _, r := range BuiltInRoles {
		if strings.EqualFold(r.Guid, guid) {
			return r, true
		}
	}
	for _, r := range s.kernel.Store.List(arm.TypeRoleDefinition, "") {
		if strings.EqualFold(r.ID.Name(), guid) {
			return roleOf(r), true
		}
	}
	return Role{}, false
}

// roleOf reads a custom role's document.
func roleOf(r *kernel.Resource) Role {
	p := r.Properties()
	return Role{Guid: r.ID.Name(), Name: kernel.Text(p, "roleName"),
		Permissions: kernel.ListAt(p, "permissions")}
}

// allows reports whether the role grants an action, or a data action.
func (r Role) allows(action string, data bool) bool {
	with, without := "actions", "notActions"
	if data {
		with, without = "dataActions", "notDataActions"
	}
	grants := func(pattern string) bool { return MatchAction(pattern, action) }
	return slices.ContainsFunc(r.Permissions, func(p kernel.Object) bool {
		return slices.ContainsFunc(kernel.List(p, with), grants) &&
			!slices.ContainsFunc(kernel.List(p, without), grants)
	})
}

// MatchAction compares an action with a pattern, without case. A star matches any text, slashes
// included; between slashes also nothing: userAssignedIdentities/*/read allows reading
// userAssignedIdentities.
func MatchAction(pattern, action string) bool {
	pattern, action = strings.ToLower(pattern), strings.ToLower(action)
	return matchStars(pattern, action) ||
		matchStars(strings.ReplaceAll(pattern, "/*/", "/"), action)
}

// matchStars compares an action with a pattern in which only stars have a meaning.
func matchStars(pattern, action string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	rest, found := strings.CutPrefix(action, parts[0])
	if last == 0 || !found {
		return found && rest == ""
	}
	for _, part := range parts[1:last] {
		if _, rest, found = strings.Cut(rest, part); !found {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[last])
}

// document returns a built-in role as shown in a subscription, or above all subscriptions ("").
func (r Role) document(subscription string) kernel.Object {
	return kernel.Object{
		"id": RoleID(subscription, r.Guid), "name": r.Guid, "type": arm.TypeRoleDefinition,
		"properties": kernel.Object{
			"roleName": r.Name, "type": "BuiltInRole", "description": r.Description,
			"assignableScopes": []any{"/"}, "permissions": r.Permissions,
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
	stampAuthors(p, old, c.Who)
	completePermissions(kernel.ListAt(p, "permissions"))
	name := kernel.Text(p, "roleName")
	if name == "" || len(kernel.ListAt(p, "permissions")) == 0 ||
		len(kernel.List(p, "assignableScopes")) == 0 {
		return kernel.Bad("InvalidRoleDefinition",
			"A custom role needs roleName, permissions and assignableScopes.")
	}
	taken := slices.ContainsFunc(BuiltInRoles, func(b Role) bool {
		return strings.EqualFold(b.Name, name) || strings.EqualFold(b.Guid, r.ID.Name())
	})
	for _, other := range s.kernel.Store.List(arm.TypeRoleDefinition, "") {
		taken = taken || strings.EqualFold(roleOf(other).Name, name) &&
			!strings.EqualFold(other.ID.Name(), r.ID.Name())
	}
	if taken {
		return kernel.Fail(http.StatusConflict, "RoleDefinitionWithSameNameExists", "A custom "+
			"role with the same name already exists in this directory. Use a different name.")
	}
	return nil
}

// completePermissions fills in the lists that permissions lack.
func completePermissions(permissions []kernel.Object) {
	for _, p := range permissions {
		for _, name := range []string{"actions", "notActions", "dataActions", "notDataActions"} {
			if p[name] == nil {
				p[name] = []any{}
			}
		}
	}
}

// roleDefinitionRemovable refuses a delete while the role is assigned.
func (s *Authorization) roleDefinitionRemovable(r *kernel.Resource) *kernel.Failure {
	for _, a := range s.kernel.Store.List(arm.TypeRoleAssignment, "") {
		if strings.EqualFold(roleGUID(a), r.ID.Name()) {
			return kernel.Bad("RoleDefinitionHasAssignments", "There are existing role "+
				"assignments referencing role (code: RoleDefinitionHasAssignments).")
		}
	}
	return nil
}

var roleFilter = lazy.Regexp(`(?i)(roleName|type)\s+eq\s+'([^']*)'`)

// roleDefinitions answers for role definitions at any scope: built-in ones exist everywhere, custom
// ones where they can be assigned.
func (s *Authorization) roleDefinitions(c *kernel.Call, scope arm.ID, rest []string) (kernel.Reply,
	*kernel.Failure, bool) {
	if len(rest) == 1 && scope.ResourceGroup() != "" {
		// A role definition belongs to the subscription, even if it was written at a scope below it
		// [R].
		c.Path = strings.Split(strings.TrimPrefix(RoleID(scope.Subscription(), rest[0]), "/"), "/")
	}
	if c.Method != http.MethodGet {
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

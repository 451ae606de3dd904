package azure

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// rightsReader reads who may do what.
type rightsReader struct{ *caller }

// ReadRights reads what the caller may do at each scope (s.Own, s.Caller), and what the principals
// with the given object IDs may do (s.Rights). Both are without what deny assignments take away. If
// rights cannot be read, or only in part, their Failed says so. It returns an error only if nothing
// can be read at all.
func (c *rightsReader) ReadRights(ctx context.Context, s *inventory.Snapshot, scopes []arm.ID,
	principals []string) error {
	caller, _, err := c.Who(ctx)
	if err != nil {
		return err
	}
	scopes = inventory.SortIDs(slices.Clone(scopes))
	var above []arm.ID
	for _, scope := range scopes {
		above = append(above, scope.SubscriptionID(), groupOf(scope))
	}
	own, err := c.permissionsAt(ctx, inventory.SortIDs(above))
	if err != nil {
		return err
	}
	denials, err := listOver[denial](ctx, c.caller, scopes, own, areas, "denyAssignments", "")
	if err != nil {
		return err
	}
	if err := c.ownRights(ctx, scopes, own, caller); err != nil {
		return err
	}
	filters := make([]string, len(principals))
	for i, who := range principals {
		filters[i] = assignedTo(who)
	}
	assigned, err := listOver[assignment](ctx, c.caller, scopes, own, areas, "roleAssignments",
		filters...)
	if err != nil {
		return err
	}
	roles := rolesOf(scopes, assigned)
	if err := atOnce(c.caller, slices.Collect(maps.Values(roles)), func(r *role) error {
		return c.readRole(ctx, r)
	}); err != nil {
		return err
	}
	s.Caller = caller
	for _, scope := range scopes {
		denied := denials[0][scope.Key()]
		s.CallerRights[scope.Key()] = withoutDenied(own[scope.Key()], denied, scope, caller)
		for i, principal := range principals {
			if s.Rights[principal] == nil {
				s.Rights[principal] = map[string]inventory.Rights{}
			}
			s.Rights[principal][scope.Key()] = withoutDenied(rightsOf(assigned[i][scope.Key()],
				scope, own[scope.Key()], roles), denied, scope, principal)
		}
	}
	return nil
}

// ownRights adds the caller's rights at scopes to those above them. Rights are inherited: if the
// caller's roles are known and none is assigned below the resource group, the rights at the group
// are complete.
func (c *rightsReader) ownRights(ctx context.Context, scopes []arm.ID,
	own map[string]inventory.Rights, caller string) error {
	above := areas[:len(areas)-1]
	if caller == "" {
		above = nil
	}
	mine, err := listOver[assignment](ctx, c.caller, scopes, own, above, "roleAssignments",
		assignedTo(caller))
	if err != nil {
		return err
	}
	var asked []arm.ID
	for _, scope := range scopes {
		if _, known := own[scope.Key()]; known {
			continue
		}
		group, roles := groupOf(scope), mine[0][scope.Key()]
		unsure := own[group.Key()].Failed != "" || roles == nil || roles.failed != ""
		if unsure || slices.ContainsFunc(roles.items, func(a assignment) bool {
			return covers(a.Properties.Scope, scope) && !covers(a.Properties.Scope, group)
		}) {
			asked = append(asked, scope)
			continue
		}
		own[scope.Key()] = own[group.Key()]
	}
	more, err := c.permissionsAt(ctx, asked)
	maps.Copy(own, more)
	return err
}

// role is a role definition. Its ID is the one at the scope where it was first found, so that
// reading it needs no permissions elsewhere.
type role struct {
	id          arm.ID
	name        string
	permissions []inventory.Permission
	failed      string
}

// assignment is a role assignment.
type assignment struct {
	Properties struct {
		Role  arm.ID `json:"roleDefinitionId"`
		Scope arm.ID `json:"scope"`
	} `json:"properties"`
}

// denial is a deny assignment.
type denial struct {
	Properties struct {
		Name        string                 `json:"denyAssignmentName"`
		Scope       arm.ID                 `json:"scope"`
		NotBelow    bool                   `json:"doNotApplyToChildScopes"`
		Permissions []inventory.Permission `json:"permissions"`
		Principals  []principal            `json:"principals"`
		Excluded    []principal            `json:"excludePrincipals"`
	} `json:"properties"`
}

type principal struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// everyone is the principal that stands for all principals (its type is SystemDefined; Azure RBAC:
// List Azure deny assignments).
const everyone = "00000000-0000-0000-0000-000000000000"

// concerns reports whether a principal is denied. Group membership is unknown here, so a denial of
// a group, or of everyone except a group, does not count.
func (d denial) concerns(who string) bool {
	listed := func(list []principal, id string) bool {
		return slices.ContainsFunc(list, func(p principal) bool {
			return strings.EqualFold(p.ID, id)
		})
	}
	excluded := d.Properties.Excluded
	switch {
	case who == "" && len(excluded) > 0, listed(excluded, who):
		return false
	case slices.ContainsFunc(excluded, func(p principal) bool {
		return strings.EqualFold(p.Type, "Group")
	}):
		return false
	}
	return listed(d.Properties.Principals, everyone) ||
		who != "" && listed(d.Properties.Principals, who)
}

// appliesAt reports whether the denial applies at a scope.
func (d denial) appliesAt(at arm.ID) bool {
	return covers(d.Properties.Scope, at) &&
		(!d.Properties.NotBelow || d.Properties.Scope.Equal(at))
}

// covers reports whether an assignment at one scope applies at another: the same scope or one
// below. A list shows only management groups above its scope.
func covers(scope, at arm.ID) bool {
	const managementGroup = "/providers/microsoft.management/managementgroups/"
	return scope == "/" || scope.Equal(at) || strings.HasPrefix(at.Key(), scope.Key()+"/") ||
		strings.HasPrefix(scope.Key(), managementGroup)
}

// rolesOf collects all assigned roles, each once, by their GUIDs.
func rolesOf(scopes []arm.ID, assigned []map[string]*listed[assignment]) map[string]*role {
	roles := map[string]*role{}
	for _, scope := range scopes {
		for _, all := range assigned {
			for _, a := range all[scope.Key()].items {
				id := a.Properties.Role
				if guid := strings.ToLower(id.Name()); covers(a.Properties.Scope, scope) &&
					roles[guid] == nil {
					roles[guid] = &role{id: scope +
						arm.ID("/providers/Microsoft.Authorization/roleDefinitions/"+id.Name())}
				}
			}
		}
	}
	return roles
}

func (c *rightsReader) readRole(ctx context.Context, r *role) error {
	a, err := c.get(ctx, c.address(r.id, "", authorizationVersion))
	fault, fatal := asFault(err)
	if fault != nil || fatal != nil {
		if fault != nil {
			r.failed = fault.Error()
		}
		return fatal
	}
	var doc struct {
		Properties struct {
			Name        string                 `json:"roleName"`
			Permissions []inventory.Permission `json:"permissions"`
		} `json:"properties"`
	}
	if json.Unmarshal(a.Body, &doc) != nil || doc.Properties.Permissions == nil {
		r.failed = (&Error{Method: http.MethodGet, ID: r.id, Status: a.Status,
			Message: "the answer is not a role definition"}).Error()
	}
	r.name, r.permissions = doc.Properties.Name, doc.Properties.Permissions
	return nil
}

// rightsOf returns what the roles of a principal together allow at a scope, as far as the caller
// may see them.
func rightsOf(assigned *listed[assignment], scope arm.ID, own inventory.Rights,
	roles map[string]*role) inventory.Rights {
	rights := inventory.Rights{Failed: assigned.failed}
	// A list shows only what the caller may see, so a missing role counts only if the caller may
	// see all of them.
	if read := mayList("roleAssignments"); rights.Failed == "" && assigned.area.Equal(scope) &&
		!own.May(read) {
		rights.Failed = "the caller may not do " + read + " at " + string(scope) +
			", so some roles may be missing here"
	}
	for _, a := range assigned.items {
		if !covers(a.Properties.Scope, scope) {
			continue
		}
		r := roles[strings.ToLower(a.Properties.Role.Name())]
		if r.failed != "" {
			rights.Failed = r.failed
			continue
		}
		rights.Permissions = append(rights.Permissions, r.permissions...)
		rights.Roles = append(rights.Roles, r.name)
	}
	slices.Sort(rights.Roles)
	rights.Roles = slices.Compact(rights.Roles)
	return rights
}

// withoutDenied removes what a principal is denied at a scope.
func withoutDenied(rights inventory.Rights, denials *listed[denial], scope arm.ID,
	who string) inventory.Rights {
	rights.Undenied = denials.failed
	for _, d := range denials.items {
		if d.appliesAt(scope) && d.concerns(who) {
			rights.Denied = append(rights.Denied, d.Properties.Permissions...)
			rights.DeniedBy = append(rights.DeniedBy, d.Properties.Name)
		}
	}
	return rights
}

// Assignments returns the role assignments of a principal, by its object ID, in a subscription.
func (c *rightsReader) Assignments(
	ctx context.Context, subscription, principal string,
) ([]arm.ID, error) {
	address := c.address(arm.SubscriptionID(subscription), "/providers/"+
		arm.TypeRoleAssignment,
		authorizationVersion)
	filter := "principalId eq '" + strings.ReplaceAll(principal, "'", "''") + "'"
	return c.listIDs(ctx, address+"&$filter="+url.QueryEscape(filter))
}

// identity is who a token belongs to.
type identity struct {
	object, application string
	until               time.Time // when the token ends
}

// Who returns the caller's object ID and client ID, "" if the token does not have them. It keeps
// nothing else of the token. Each write needs the answer, and some credentials log in at each call
// (the Azure CLI's starts az). So one answer is used until its token expires.
func (c *caller) Who(ctx context.Context) (object, application string, err error) {
	c.mu.Lock()
	me := c.me
	c.mu.Unlock()
	if time.Now().Before(me.until) {
		return me.object, me.application, nil
	}
	token, err := c.credential.GetToken(ctx,
		policy.TokenRequestOptions{Scopes: []string{c.audience}})
	if err != nil {
		return "", "", err
	}
	var claims struct {
		ObjectID    string `json:"oid"`
		Application string `json:"appid"`
	}
	if parts := strings.Split(token.Token, "."); len(parts) == 3 {
		payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
		if err != nil || json.Unmarshal(payload, &claims) != nil {
			return "", "", nil
		}
	}
	me = identity{strings.ToLower(claims.ObjectID), strings.ToLower(claims.Application),
		token.ExpiresOn}
	c.mu.Lock()
	c.me = me
	c.mu.Unlock()
	return me.object, me.application, nil
}

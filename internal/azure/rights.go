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

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"golang.org/x/sync/errgroup"

	"routekeeper.dev/routekeeper/internal/network"
)

const authorizationVersion = "2022-04-01"

// ReadRights reads what the caller may do at each scope (s.Own, s.Caller), and what the principals with the given object IDs may
// (s.Rights), both with what deny assignments take away. What cannot be read, or not in full, is in the Rights' own Failed; an
// error comes back only when nothing can be said at all.
func (c *Client) ReadRights(ctx context.Context, s *network.Snapshot, scopes []network.ID, principals []string) error {
	caller, err := c.caller(ctx)
	if err != nil {
		return err
	}
	var all []*rightsAt
	for _, scope := range network.SortIDs(slices.Clone(scopes)) {
		all = append(all, &rightsAt{scope: scope, assigned: make([]assigned, len(principals))})
	}
	if err := atOnce(all, func(at *rightsAt) error { return c.readRightsAt(ctx, at, principals) }); err != nil {
		return err
	}
	roles := rolesOf(all)
	if err := atOnce(slices.Collect(maps.Values(roles)), func(r *role) error { return c.readRole(ctx, r) }); err != nil {
		return err
	}
	s.Caller = caller
	for _, at := range all {
		s.Own[at.scope.Key()] = at.less(at.own, caller)
		for i, principal := range principals {
			if s.Rights[principal] == nil {
				s.Rights[principal] = map[string]network.Rights{}
			}
			s.Rights[principal][at.scope.Key()] = at.less(at.assigned[i].rights(roles), principal)
		}
	}
	return nil
}

// atOnce does something to all items, several at a time.
func atOnce[T any](items []T, do func(T) error) error {
	var g errgroup.Group
	g.SetLimit(parallel)
	for _, item := range items {
		g.Go(func() error { return do(item) })
	}
	return g.Wait()
}

// rightsAt is what was read of one scope.
type rightsAt struct {
	scope    network.ID
	own      network.Rights
	assigned []assigned // in the order of the principals
	denials  []denial
	// undenied says why the deny assignments could not be read.
	undenied string
}

// assigned are the roles that a principal has at a scope.
type assigned struct {
	roles  []network.ID
	failed string
}

// role is a role definition, with its ID as the scope shows it where it was found first: to read it there takes no rights elsewhere.
type role struct {
	id          network.ID
	name        string
	permissions []network.Permission
	failed      string
}

// assignment is a role assignment.
type assignment struct {
	Properties struct {
		Role  network.ID `json:"roleDefinitionId"`
		Scope network.ID `json:"scope"`
	} `json:"properties"`
}

// denial is a deny assignment.
type denial struct {
	Properties struct {
		Name        string               `json:"denyAssignmentName"`
		Scope       network.ID           `json:"scope"`
		NotBelow    bool                 `json:"doNotApplyToChildScopes"`
		Permissions []network.Permission `json:"permissions"`
		Principals  []principal          `json:"principals"`
		Excluded    []principal          `json:"excludePrincipals"`
	} `json:"properties"`
}

type principal struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// everyone is the principal that stands for all of them (its type is SystemDefined; Azure RBAC: List Azure deny assignments).
const everyone = "00000000-0000-0000-0000-000000000000"

// concerns reports whether somebody is denied. Who is in which group is not known here: that a group is denied, or all but a
// group, is not held against anybody.
func (d denial) concerns(who string) bool {
	listed := func(list []principal, id string) bool {
		return slices.ContainsFunc(list, func(p principal) bool { return strings.EqualFold(p.ID, id) })
	}
	excluded := d.Properties.Excluded
	switch {
	case who == "" && len(excluded) > 0, listed(excluded, who):
		return false
	case slices.ContainsFunc(excluded, func(p principal) bool { return strings.EqualFold(p.Type, "Group") }):
		return false
	}
	return listed(d.Properties.Principals, everyone) || who != "" && listed(d.Properties.Principals, who)
}

// covers reports whether what is said at a scope counts for another: at it, or above. Of management groups a list shows only those above.
func covers(scope, at network.ID) bool {
	const managementGroup = "/providers/microsoft.management/managementgroups/"
	return scope == "/" || scope.Equal(at) || strings.HasPrefix(at.Key(), scope.Key()+"/") || strings.HasPrefix(scope.Key(), managementGroup)
}

// readRightsAt asks what there is to know of one scope.
func (c *Client) readRightsAt(ctx context.Context, at *rightsAt, principals []string) (err error) {
	at.own.Failed, err = listRights(ctx, c, at.scope, "permissions", "", func(p network.Permission) {
		at.own.Permissions = append(at.own.Permissions, p)
	})
	if err != nil {
		return err
	}
	at.undenied, err = listRights(ctx, c, at.scope, "denyAssignments", "atScope()", func(d denial) {
		if covers(d.Properties.Scope, at.scope) && (!d.Properties.NotBelow || d.Properties.Scope.Equal(at.scope)) {
			at.denials = append(at.denials, d)
		}
	})
	if err != nil {
		return err
	}
	for i, who := range principals {
		// assignedTo also finds what groups have that the principal is in, directly or not (role-assignments-list-rest). The
		// documentation leaves open whether it finds what is inherited when atScope stands beside it: what lies below the scope
		// is left out here instead.
		a := &at.assigned[i]
		a.failed, err = listRights(ctx, c, at.scope, "roleAssignments", "assignedTo('"+strings.ReplaceAll(who, "'", "''")+"')", func(r assignment) {
			if covers(r.Properties.Scope, at.scope) {
				a.roles = append(a.roles, r.Properties.Role)
			}
		})
		if err != nil {
			return err
		}
		// A list shows what the caller may see. That a role is not in it counts only where the caller may see them all.
		const read = "Microsoft.Authorization/roleAssignments/read"
		if a.failed == "" && !at.own.May(read) {
			a.failed = "the caller may not do " + read + " at " + string(at.scope) + ", so there may be roles that are not seen"
		}
	}
	return nil
}

// listRights reads a list of Microsoft.Authorization at a scope, and says why it could not be read in full.
func listRights[T any](ctx context.Context, c *Client, scope network.ID, list, filter string, add func(T)) (failed string, err error) {
	address := c.address(scope, "/providers/Microsoft.Authorization/"+list, authorizationVersion)
	if filter != "" {
		address += "&$filter=" + url.QueryEscape(filter)
	}
	err = c.listAll(ctx, address, func(raw json.RawMessage) bool {
		var item T
		if json.Unmarshal(raw, &item) != nil {
			failed = "GET " + string(idOf(address)) + ": an item of the list is not understood"
			return true
		}
		add(item)
		return true
	})
	fault, fatal := asFault(err)
	if fault != nil {
		failed = fault.Error()
	}
	return failed, fatal
}

// rolesOf collects the roles that are assigned anywhere, each once, by their GUIDs.
func rolesOf(all []*rightsAt) map[string]*role {
	roles := map[string]*role{}
	for _, at := range all {
		for _, a := range at.assigned {
			for _, id := range a.roles {
				if guid := strings.ToLower(id.Name()); roles[guid] == nil {
					roles[guid] = &role{id: at.scope + network.ID("/providers/Microsoft.Authorization/roleDefinitions/"+id.Name())}
				}
			}
		}
	}
	return roles
}

func (c *Client) readRole(ctx context.Context, r *role) error {
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
			Name        string               `json:"roleName"`
			Permissions []network.Permission `json:"permissions"`
		} `json:"properties"`
	}
	if json.Unmarshal(a.body, &doc) != nil || doc.Properties.Permissions == nil {
		r.failed = (&Error{Method: http.MethodGet, ID: r.id, Status: a.status, Message: "the answer is no role definition"}).Error()
	}
	r.name, r.permissions = doc.Properties.Name, doc.Properties.Permissions
	return nil
}

// rights are what the roles allow together.
func (a assigned) rights(roles map[string]*role) network.Rights {
	rights := network.Rights{Failed: a.failed}
	for _, id := range a.roles {
		r := roles[strings.ToLower(id.Name())]
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

// less takes away what is denied.
func (at *rightsAt) less(rights network.Rights, who string) network.Rights {
	rights.Undenied = at.undenied
	for _, d := range at.denials {
		if d.concerns(who) {
			rights.Denied = append(rights.Denied, d.Properties.Permissions...)
			rights.DeniedBy = append(rights.DeniedBy, d.Properties.Name)
		}
	}
	return rights
}

// caller is the object ID of who is logged in, "" where the token does not say. Nothing of the token is kept.
func (c *Client) caller(ctx context.Context) (string, error) {
	token, err := c.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{c.audience}})
	if err != nil {
		return "", err
	}
	var claims struct {
		ObjectID string `json:"oid"`
	}
	if parts := strings.Split(token.Token, "."); len(parts) == 3 {
		payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
		if err != nil || json.Unmarshal(payload, &claims) != nil {
			return "", nil
		}
	}
	return strings.ToLower(claims.ObjectID), nil
}

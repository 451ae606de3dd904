package authorization

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Need is the permission that a call needs, in the terms of roles: an action at a scope.
type Need struct {
	Action string // Microsoft.Network/routeTables/write
	Scope  arm.ID
	verb   string // read, write, delete, action
	list   bool   // of resources at the scope and below
	// anyRole is set if any role in the subscription meets the need.
	anyRole bool
}

// needOf returns the permission that a call needs. Every call that ARM answers has an action.
func (s *Authorization) needOf(c *kernel.Call) Need {
	w := Need{verb: "read"}
	switch c.Method {
	case http.MethodPut, http.MethodPatch:
		w.verb = "write"
	case http.MethodDelete:
		w.verb = "delete"
	case http.MethodPost:
		w.verb = "action"
	}
	n := len(c.Path)
	last := -1 // the last segment providers that is no resource's name
	for i := 0; i < n; i += 2 {
		if strings.EqualFold(c.Path[i], "providers") {
			last = i
		}
	}
	if last < 0 || last+2 >= n { // above the resources
		w.Scope, w.Action = c.ID(min(n, 2)), "Microsoft.Resources/subscriptions"
		switch {
		case n >= 3 && strings.EqualFold(c.Path[2], "resourceGroups"):
			w.Action += "/resourceGroups"
			w.list = n == 3 || n == 5 // groups, or the content of one
			if n >= 4 {
				w.Scope = c.ID(4)
			}
			if n >= 5 {
				w.Action += "/" + c.Path[4]
			}
		case n == 3 && strings.EqualFold(c.Path[2], "resources"):
			w.Action += "/resources"
			w.list = true
		case n >= 3:
			w.Action += "/" + c.Path[2]
			w.anyRole = w.verb == "read"
		default:
			w.anyRole = w.verb == "read"
		}
		w.Action += "/" + w.verb
		return w
	}
	types := c.Path[last+1 : last+2]
	for i := last + 2; i < n; i += 2 {
		types = append(types[:len(types):len(types)], c.Path[i])
	}
	name := strings.Join(types, "/")
	if k := s.kernel.Kinds[strings.ToLower(name)]; k != nil {
		name = k.Name
	}
	w.Action, w.Scope = name+"/"+w.verb, c.ID(n)
	if (n-last)%2 == 1 { // no name at the end: a list, or an action
		w.list = w.verb == "read"
		w.Scope = c.ID(n - 1)
		// the activity log belongs to the subscription
		if last+3 == n || strings.EqualFold(types[1], "eventtypes") {
			w.Scope = c.ID(last)
		}
	}
	// The operation's caller may poll it without a role.
	w.anyRole = len(types) == 3 && strings.EqualFold(types[1], "locations") &&
		strings.HasPrefix(strings.ToLower(types[2]), "operation")
	return w
}

// Below reports whether a scope is below another one.
func Below(id, scope arm.ID) bool {
	return len(id) > len(scope) && id[len(scope)] == '/' &&
		strings.EqualFold(string(id[:len(scope)]), string(scope))
}

// Covers reports whether a role at a scope applies to an ID.
func Covers(scope, id arm.ID) bool {
	return scope == "" || Below(id, scope) ||
		len(id) == len(scope) && strings.EqualFold(string(id), string(scope))
}

// IsDefault reports whether a principal is the first one, which has all rights.
func (s *Authorization) IsDefault(who kernel.Principal) bool {
	return who.ClientID == s.kernel.Opts.Principals[0].ClientID
}

// Admit refuses a call without the needed permission, then a call that a deny assignment or a
// policy forbids, then a call that a lock stops.
func (s *Authorization) Admit(c *kernel.Call) *kernel.Failure {
	f := s.Authorize(c)
	if f == nil {
		f = s.Govern(c)
	}
	if f != nil && c.Method != http.MethodGet && c.Method != http.MethodHead &&
		c.Method != http.MethodPost {
		w := s.needOf(c)
		s.kernel.Record(c, w.Scope, w.verb, f)
	}
	return f
}

// Govern checks deny assignments, identities, policies and locks, which apply to all callers.
func (s *Authorization) Govern(c *kernel.Call) *kernel.Failure {
	w := s.needOf(c)
	if w.verb == "read" {
		return nil
	}
	if f := s.checkDenyAssignment(c.Who, w); f != nil {
		return f
	}
	if w.verb == "write" {
		// a document that cannot be read is refused later
		if body, f := kernel.DecodeObject(c.Body); f == nil {
			if f := s.checkLinks(c.Who, w, body); f != nil {
				return f
			}
			if f := s.entra.CheckIdentities(w.Scope, body); f != nil {
				return f
			}
			if c.Method == http.MethodPut {
				if f := s.CheckPolicies(w.Scope, body); f != nil {
					return f
				}
			}
		}
	}
	if w.verb == "delete" {
		if f := s.CheckPolicyActions(w.Scope); f != nil {
			return f
		}
	}
	return s.checkLocks(w)
}

// Authorize checks the caller's roles: for the action itself, and for the join actions of the
// document's links.
func (s *Authorization) Authorize(c *kernel.Call) *kernel.Failure {
	if s.IsDefault(c.Who) {
		return nil
	}
	w := s.needOf(c)
	if !s.Allowed(c.Who, w.Action, w.Scope) {
		switch {
		case w.anyRole && w.Scope.Subscription() != "" && s.Sees(c.Who, w.Scope.Subscription()):
		case w.list && !s.opts.StrictLists &&
			s.anyRole(c.Who, func(at arm.ID) bool { return Below(at, w.Scope) }):
			c.Filtered = true
		case w.Scope.Subscription() == "":
			return nil // all callers may read built-in role definitions
		default:
			return Unauthorized(c.Who, w)
		}
	}
	if w.verb != "write" {
		return nil
	}
	body, f := kernel.DecodeObject(c.Body)
	if f != nil {
		return nil // refused later
	}
	links := s.joinsOf(w.Scope, body)
	var lacking []arm.ID
	for id, action := range links {
		if !s.Allowed(c.Who, action, id) {
			lacking = append(lacking, id)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	slices.Sort(lacking)
	return Unjoined(c.Who, w, links, lacking...)
}

// checkLinks refuses a document with links to resources of another tenant, or to resources that
// only a cluster may join.
func (s *Authorization) checkLinks(who kernel.Principal, w Need,
	body kernel.Object) *kernel.Failure {
	links := s.joinsOf(w.Scope, body)
	var denied []arm.ID
	for id, action := range links {
		if subscription := id.Subscription(); len(s.kernel.Opts.Tenants) > 0 &&
			s.kernel.Store.HasSubscription(subscription) &&
			!strings.EqualFold(s.kernel.Opts.TenantOf(subscription), who.Tenant) {
			return kernel.Fail(http.StatusForbidden, "LinkedAuthorizationFailed",
				"%sthe current tenant '%s' is not authorized to access linked subscription '%s'.",
				refusalStart(who, w), who.Tenant, subscription)
		}
		if s.checkDenyAssignment(who, Need{Action: action, Scope: id, verb: "action"}) != nil {
			denied = append(denied, id)
		}
	}
	if len(denied) == 0 {
		return nil
	}
	slices.Sort(denied)
	return kernel.Fail(http.StatusForbidden, "LinkedAuthorizationFailed", "%sit does not have "+
		"permission to perform action '%s' on the '0' linked scope(s) '' or the linked scope(s) "+
		"are invalid and is blocked by deny assignments on the '%d' linked scope(s) '%s'.",
		refusalStart(who, w), links[denied[0]], len(denied), join(denied))
}

// refusalStart returns the beginning of refusals about permissions that a role grants and something
// else denies.
func refusalStart(who kernel.Principal, w Need) string {
	return fmt.Sprintf("The client '%s' with object id '%s' has permission to perform action "+
		"'%s' on scope '%s'; however, ", who.ClientID, who.ObjectID, w.Action, w.Scope)
}

// Unjoined refuses a write because of a missing join right.
func Unjoined(who kernel.Principal, w Need, links map[arm.ID]string,
	linked ...arm.ID) *kernel.Failure {
	var actions []string
	for _, id := range linked {
		actions = append(actions, links[id])
	}
	return kernel.Fail(http.StatusForbidden, "LinkedAuthorizationFailed", "%sit does not have "+
		"permission to perform action(s) '%s' on the linked scope(s) '%s' (respectively) or the "+
		"linked scope(s) are invalid.",
		refusalStart(who, w), strings.Join(actions, ","), join(linked))
}

func join(ids []arm.ID) string {
	var all []string
	for _, id := range ids {
		all = append(all, string(id))
	}
	return strings.Join(all, ",")
}

func Unauthorized(who kernel.Principal, w Need) *kernel.Failure {
	return kernel.Fail(http.StatusForbidden, "AuthorizationFailed", "The client '%s' with object "+
		"id '%s' does not have authorization to perform action '%s' over scope '%s' or the "+
		"scope is invalid. If access was recently granted, please refresh your credentials.",
		who.ClientID, who.ObjectID, w.Action, w.Scope)
}

// Joins are the actions that a link needs at its target, by the lower-case property that has the
// ID: in documents of any type, and in a virtual network's subnets.
var Joins = map[string]string{
	"routetable":              "Microsoft.Network/routeTables/join/action",
	"networksecuritygroup":    "Microsoft.Network/networkSecurityGroups/join/action",
	"natgateway":              "Microsoft.Network/natGateways/join/action",
	"serviceendpointpolicies": "Microsoft.Network/serviceEndpointPolicies/join/action",
	"subnet":                  "Microsoft.Network/virtualNetworks/subnets/join/action",
	"vnetsubnetid":            "Microsoft.Network/virtualNetworks/subnets/join/action",
	"podsubnetid":             "Microsoft.Network/virtualNetworks/subnets/join/action",
	"publicipaddress":         "Microsoft.Network/publicIPAddresses/join/action",
	"publicipaddresses":       "Microsoft.Network/publicIPAddresses/join/action",
	"networkinterfaces":       "Microsoft.Network/networkInterfaces/join/action",
	"publicipprefix":          "Microsoft.Network/publicIPPrefixes/join/action",
	"remotevirtualnetwork":    "Microsoft.Network/virtualNetworks/peer/action",
	"ddosprotectionplan":      "Microsoft.Network/ddosProtectionPlans/join/action",
}

// joinsOf finds the links of a document, and the action that each needs. A deployment's template
// has no links itself: its resources are checked one by one.
func (s *Authorization) joinsOf(id arm.ID, body kernel.Object) map[arm.ID]string {
	out := map[arm.ID]string{}
	if s.kernel.KindOf(id).Linkless {
		return out
	}
	for _, id := range entra.AssignedIdentities(body) {
		out[id] = arm.TypeIdentity + "/assign/action"
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		action := Joins[strings.ToLower(name)]
		note := func(id string) {
			if id != "" && action != "" {
				out[arm.ID(id)] = action
			}
		}
		switch x := v.(type) {
		case string:
			if strings.HasPrefix(x, "/") {
				note(x)
			}
		case kernel.Object:
			note(kernel.Text(x, "id"))
			for _, key := range slices.Sorted(maps.Keys(x)) {
				walk(key, x[key])
			}
		case []any:
			for _, item := range x {
				walk(name, item)
			}
		}
	}
	walk("", kernel.ObjectAt(body, "properties"))
	return out
}

// checkDenyAssignment refuses an action that a deny assignment forbids. AKS makes one for a
// locked-down node resource group: only the cluster's own identity may change resources in it [U:
// whether join actions are denied].
func (s *Authorization) checkDenyAssignment(who kernel.Principal, w Need) *kernel.Failure {
	if w.verb == "read" {
		return nil
	}
	if name, id, group, known := s.NodeGroups.DenyAssignment(w.Scope, who); known {
		return kernel.Fail(http.StatusForbidden, "DenyAssignmentAuthorizationFailed",
			"%sthe access is denied because of the deny assignment with name '%s' and Id '%s' at "+
				"scope '%s'.", refusalStart(who, w), name, id, group)
	}
	return nil
}

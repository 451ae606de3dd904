package emulator

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// wish is what a call asks for, in the words of roles: an action over a scope.
type wish struct {
	action string // Microsoft.Network/routeTables/write
	scope  arm.ID
	verb   string // read, write, delete, action
	list   bool   // of what lies at the scope and below
	// seen is a wish that everybody has fulfilled who has any role in the subscription.
	seen bool
}

// wishOf reads a call. Nothing that ARM answers is without an action.
func (s *authorization) wishOf(c *call) wish {
	w := wish{verb: "read"}
	switch c.method {
	case http.MethodPut, http.MethodPatch:
		w.verb = "write"
	case http.MethodDelete:
		w.verb = "delete"
	case http.MethodPost:
		w.verb = "action"
	}
	at := func(n int) arm.ID { return arm.ID("/" + strings.Join(c.path[:n], "/")) }
	n := len(c.path)
	last := -1 // of the segments called providers, where one can be
	for i := 0; i < n; i += 2 {
		if strings.EqualFold(c.path[i], "providers") {
			last = i
		}
	}
	if last < 0 || last+2 >= n { // above the resources
		w.scope, w.action = at(min(n, 2)), "Microsoft.Resources/subscriptions"
		switch {
		case n >= 3 && strings.EqualFold(c.path[2], "resourceGroups"):
			w.action += "/resourceGroups"
			w.list = n == 3 || n == 5 // groups, or what is in one
			if n >= 4 {
				w.scope = at(4)
			}
			if n >= 5 {
				w.action += "/" + c.path[4]
			}
		case n == 3 && strings.EqualFold(c.path[2], "resources"):
			w.action += "/resources"
			w.list = true
		case n >= 3:
			w.action += "/" + c.path[2]
			w.seen = w.verb == "read"
		default:
			w.seen = w.verb == "read"
		}
		w.action += "/" + w.verb
		return w
	}
	types := c.path[last+1 : last+2]
	for i := last + 2; i < n; i += 2 {
		types = append(types[:len(types):len(types)], c.path[i])
	}
	name := strings.Join(types, "/")
	if k := s.kernel.kinds[kindKey(name)]; k != nil {
		name = k.name
	}
	w.action, w.scope = name+"/"+w.verb, at(n)
	if (n-last)%2 == 1 { // no name at the end: a list, or an action
		w.list = w.verb == "read"
		w.scope = at(n - 1)
		// the activity log is the subscription's
		if last+3 == n || strings.EqualFold(types[1], "eventtypes") {
			w.scope = at(last)
		}
	}
	// Polls of an operation are for whoever started it.
	w.seen = len(types) == 3 && strings.EqualFold(types[1], "locations") &&
		strings.HasPrefix(strings.ToLower(types[2]), "operation")
	return w
}

// below reports whether a scope lies below another one.
func below(id, scope arm.ID) bool {
	return len(id) > len(scope) && id[len(scope)] == '/' &&
		strings.EqualFold(string(id[:len(scope)]), string(scope))
}

// covers reports whether what is granted at a scope counts for an ID.
func covers(scope, id arm.ID) bool {
	return scope == "" || below(id, scope) ||
		len(id) == len(scope) && strings.EqualFold(string(id), string(scope))
}

// isDefault reports whether a principal is the one who may do everything.
func (s *authorization) isDefault(who Principal) bool {
	return who.ClientID == s.kernel.opts.Principals[0].ClientID
}

// admit refuses a call that its caller may not make, that a deny assignment or a policy forbids, or
// that a lock stops, in that order.
func (s *authorization) admit(c *call) *failure {
	f := s.authorize(c)
	if f == nil {
		f = s.govern(c)
	}
	if f != nil && c.method != http.MethodGet && c.method != http.MethodHead &&
		c.method != http.MethodPost {
		w := s.wishOf(c)
		s.kernel.record(c, w.scope, w.verb, f)
	}
	return f
}

// govern checks deny assignments, identities, policies and locks, which hold for all alike.
func (s *authorization) govern(c *call) *failure {
	w := s.wishOf(c)
	if w.verb == "read" {
		return nil
	}
	if f := s.denied(c.who, w); f != nil {
		return f
	}
	if w.verb == "write" {
		if body, f := decodeObject(c.body); f == nil { // what cannot be read is refused later
			if f := s.deniedLinks(c.who, w, body); f != nil {
				return f
			}
			if f := s.entra.checkIdentities(w.scope, body); f != nil {
				return f
			}
			if c.method == http.MethodPut {
				if f := s.checkPolicies(w.scope, body); f != nil {
					return f
				}
			}
		}
	}
	return s.checkLocks(w)
}

// authorize checks the caller's roles: for the action itself, and for joining what the document
// links to.
func (s *authorization) authorize(c *call) *failure {
	if s.isDefault(c.who) {
		return nil
	}
	w := s.wishOf(c)
	if !s.allowed(c.who, w.action, w.scope) {
		switch {
		case w.seen && w.scope.Subscription() != "" && s.sees(c.who, w.scope.Subscription()):
		case w.list && !s.opts.StrictLists &&
			s.anyRole(c.who, func(at arm.ID) bool { return below(at, w.scope) }):
			c.filtered = true
		case w.scope.Subscription() == "":
			return nil // built-in role definitions are for everybody
		default:
			return unauthorized(c.who, w)
		}
	}
	if w.verb != "write" {
		return nil
	}
	body, f := decodeObject(c.body)
	if f != nil {
		return nil // refused later
	}
	links := s.joinsOf(w.scope, body)
	var lacking []arm.ID
	for id, action := range links {
		if !s.allowed(c.who, action, id) {
			lacking = append(lacking, id)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	slices.Sort(lacking)
	return unjoined(c.who, w, links, lacking...)
}

// deniedLinks finds what a document links to and nobody of this tenant, or nobody but a cluster,
// may join.
func (s *authorization) deniedLinks(who Principal, w wish, body object) *failure {
	links := s.joinsOf(w.scope, body)
	var denied []arm.ID
	for id, action := range links {
		if subscription := id.Subscription(); len(s.kernel.opts.Tenants) > 0 &&
			s.kernel.store.hasSubscription(subscription) &&
			!strings.EqualFold(s.kernel.tenantOf(subscription), who.Tenant) {
			return fail(http.StatusForbidden, "LinkedAuthorizationFailed",
				"%sthe current tenant '%s' is not authorized to access linked subscription '%s'.",
				has(who, w), who.Tenant, subscription)
		}
		if s.denied(who, wish{action: action, scope: id, verb: "action"}) != nil {
			denied = append(denied, id)
		}
	}
	if len(denied) == 0 {
		return nil
	}
	slices.Sort(denied)
	return fail(http.StatusForbidden, "LinkedAuthorizationFailed", "%sit does not have "+
		"permission to perform action '%s' on the '0' linked scope(s) '' or the linked scope(s) "+
		"are invalid and is blocked by deny assignments on the '%d' linked scope(s) '%s'.",
		has(who, w), links[denied[0]], len(denied), join(denied))
}

// has begins the refusals of what a role grants and something else takes away.
func has(who Principal, w wish) string {
	return fmt.Sprintf("The client '%s' with object id '%s' has permission to perform action "+
		"'%s' on scope '%s'; however, ", who.ClientID, who.ObjectID, w.action, w.scope)
}

// unjoined refuses a write for what may not be joined.
func unjoined(who Principal, w wish, links map[arm.ID]string, linked ...arm.ID) *failure {
	var actions []string
	for _, id := range linked {
		actions = append(actions, links[id])
	}
	return fail(http.StatusForbidden, "LinkedAuthorizationFailed", "%sit does not have "+
		"permission to perform action(s) '%s' on the linked scope(s) '%s' (respectively) or the "+
		"linked scope(s) are invalid.",
		has(who, w), strings.Join(actions, ","), join(linked))
}

func join(ids []arm.ID) string {
	var all []string
	for _, id := range ids {
		all = append(all, string(id))
	}
	return strings.Join(all, ",")
}

func unauthorized(who Principal, w wish) *failure {
	return fail(http.StatusForbidden, "AuthorizationFailed",
		"The client '%s' with object id '%s' does not have authorization to perform action '%s' "+
			"over scope '%s' or the scope is invalid. If access was recently granted, please "+
			"refresh your credentials.",
		who.ClientID, who.ObjectID, w.action, w.scope)
}

// joins are the actions that a link needs on what it leads to, by the lower-case property that
// holds the ID: in documents of any type, and inside a virtual network's subnets.
var joins = map[string]string{
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

// joinsOf finds what a document links to, and the action that it takes. A deployment's template
// links nothing itself: its resources are checked one by one.
func (s *authorization) joinsOf(id arm.ID, body object) map[arm.ID]string {
	out := map[arm.ID]string{}
	if s.kernel.kindOf(id).linkless {
		return out
	}
	for _, id := range assignedIdentities(body) {
		out[id] = typeUserIdentity + "/assign/action"
	}
	for _, ref := range referencesIn(id, body) {
		out[ref.target()] = ref.link.to + "/join/action"
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		action := joins[strings.ToLower(name)]
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
		case object:
			note(text(x, "id"))
			for _, key := range slices.Sorted(maps.Keys(x)) {
				walk(key, x[key])
			}
		case []any:
			for _, item := range x {
				walk(name, item)
			}
		}
	}
	walk("", objectAt(body, "properties"))
	return out
}

// denied finds the deny assignment that forbids a wish. AKS makes one where a node resource group
// is locked down: only the cluster's own identity may change what is in it [U: whether join actions
// are among what is denied].
func (s *authorization) denied(who Principal, w wish) *failure {
	if w.verb == "read" {
		return nil
	}
	if name, id, group, known := s.nodeGroups.denyAssignment(w.scope, who); known {
		return fail(http.StatusForbidden, "DenyAssignmentAuthorizationFailed",
			"%sthe access is denied because of the deny assignment with name '%s' and Id '%s' at "+
				"scope '%s'.", has(who, w), name, id, group)
	}
	return nil
}

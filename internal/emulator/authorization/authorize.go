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
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// Wish is what a call asks for, in the words of roles: an action over a scope.
type Wish struct {
	Action string // Microsoft.Network/routeTables/write
	Scope  arm.ID
	verb   string // read, write, delete, action
	list   bool   // of what lies at the scope and below
	// seen is a wish that everybody has fulfilled who has any role in the subscription.
	seen bool
}

// wishOf reads a call. Nothing that ARM answers is without an action.
func (s *Authorization) wishOf(c *kernel.Call) Wish {
	w := Wish{verb: "read"}
	switch c.Method {
	case http.MethodPut, http.MethodPatch:
		w.verb = "write"
	case http.MethodDelete:
		w.verb = "delete"
	case http.MethodPost:
		w.verb = "action"
	}
	at := func(n int) arm.ID { return arm.ID("/" + strings.Join(c.Path[:n], "/")) }
	n := len(c.Path)
	last := -1 // of the segments called providers, where one can be
	for i := 0; i < n; i += 2 {
		if strings.EqualFold(c.Path[i], "providers") {
			last = i
		}
	}
	if last < 0 || last+2 >= n { // above the resources
		w.Scope, w.Action = at(min(n, 2)), "Microsoft.Resources/subscriptions"
		switch {
		case n >= 3 && strings.EqualFold(c.Path[2], "resourceGroups"):
			w.Action += "/resourceGroups"
			w.list = n == 3 || n == 5 // groups, or what is in one
			if n >= 4 {
				w.Scope = at(4)
			}
			if n >= 5 {
				w.Action += "/" + c.Path[4]
			}
		case n == 3 && strings.EqualFold(c.Path[2], "resources"):
			w.Action += "/resources"
			w.list = true
		case n >= 3:
			w.Action += "/" + c.Path[2]
			w.seen = w.verb == "read"
		default:
			w.seen = w.verb == "read"
		}
		w.Action += "/" + w.verb
		return w
	}
	types := c.Path[last+1 : last+2]
	for i := last + 2; i < n; i += 2 {
		types = append(types[:len(types):len(types)], c.Path[i])
	}
	name := strings.Join(types, "/")
	if k := s.kernel.Kinds[kernel.KindKey(name)]; k != nil {
		name = k.Name
	}
	w.Action, w.Scope = name+"/"+w.verb, at(n)
	if (n-last)%2 == 1 { // no name at the end: a list, or an action
		w.list = w.verb == "read"
		w.Scope = at(n - 1)
		// the activity log is the subscription's
		if last+3 == n || strings.EqualFold(types[1], "eventtypes") {
			w.Scope = at(last)
		}
	}
	// Polls of an operation are for whoever started it.
	w.seen = len(types) == 3 && strings.EqualFold(types[1], "locations") &&
		strings.HasPrefix(strings.ToLower(types[2]), "operation")
	return w
}

// Below reports whether a scope lies below another one.
func Below(id, scope arm.ID) bool {
	return len(id) > len(scope) && id[len(scope)] == '/' &&
		strings.EqualFold(string(id[:len(scope)]), string(scope))
}

// Covers reports whether what is granted at a scope counts for an ID.
func Covers(scope, id arm.ID) bool {
	return scope == "" || Below(id, scope) ||
		len(id) == len(scope) && strings.EqualFold(string(id), string(scope))
}

// IsDefault reports whether a principal is the one who may do everything.
func (s *Authorization) IsDefault(who kernel.Principal) bool {
	return who.ClientID == s.kernel.Opts.Principals[0].ClientID
}

// Admit refuses a call that its caller may not make, that a deny assignment or a policy forbids, or
// that a lock stops, in that order.
func (s *Authorization) Admit(c *kernel.Call) *kernel.Failure {
	f := s.Authorize(c)
	if f == nil {
		f = s.Govern(c)
	}
	if f != nil && c.Method != http.MethodGet && c.Method != http.MethodHead &&
		c.Method != http.MethodPost {
		w := s.wishOf(c)
		s.kernel.Record(c, w.Scope, w.verb, f)
	}
	return f
}

// Govern checks deny assignments, identities, policies and locks, which hold for all alike.
func (s *Authorization) Govern(c *kernel.Call) *kernel.Failure {
	w := s.wishOf(c)
	if w.verb == "read" {
		return nil
	}
	if f := s.denied(c.Who, w); f != nil {
		return f
	}
	if w.verb == "write" {
		// what cannot be read is refused later
		if body, f := kernel.DecodeObject(c.Body); f == nil {
			if f := s.deniedLinks(c.Who, w, body); f != nil {
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
	return s.checkLocks(w)
}

// Authorize checks the caller's roles: for the action itself, and for joining what the document
// links to.
func (s *Authorization) Authorize(c *kernel.Call) *kernel.Failure {
	if s.IsDefault(c.Who) {
		return nil
	}
	w := s.wishOf(c)
	if !s.Allowed(c.Who, w.Action, w.Scope) {
		switch {
		case w.seen && w.Scope.Subscription() != "" && s.Sees(c.Who, w.Scope.Subscription()):
		case w.list && !s.opts.StrictLists &&
			s.anyRole(c.Who, func(at arm.ID) bool { return Below(at, w.Scope) }):
			c.Filtered = true
		case w.Scope.Subscription() == "":
			return nil // built-in role definitions are for everybody
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

// deniedLinks finds what a document links to and nobody of this tenant, or nobody but a cluster,
// may join.
func (s *Authorization) deniedLinks(who kernel.Principal, w Wish,
	body kernel.Object) *kernel.Failure {
	links := s.joinsOf(w.Scope, body)
	var denied []arm.ID
	for id, action := range links {
		if subscription := id.Subscription(); len(s.kernel.Opts.Tenants) > 0 &&
			s.kernel.Store.HasSubscription(subscription) &&
			!strings.EqualFold(s.kernel.TenantOf(subscription), who.Tenant) {
			return kernel.Fail(http.StatusForbidden, "LinkedAuthorizationFailed",
				"%sthe current tenant '%s' is not authorized to access linked subscription '%s'.",
				has(who, w), who.Tenant, subscription)
		}
		if s.denied(who, Wish{Action: action, Scope: id, verb: "action"}) != nil {
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
		has(who, w), links[denied[0]], len(denied), join(denied))
}

// has begins the refusals of what a role grants and something else takes away.
func has(who kernel.Principal, w Wish) string {
	return fmt.Sprintf("The client '%s' with object id '%s' has permission to perform action "+
		"'%s' on scope '%s'; however, ", who.ClientID, who.ObjectID, w.Action, w.Scope)
}

// Unjoined refuses a write for what may not be joined.
func Unjoined(who kernel.Principal, w Wish, links map[arm.ID]string,
	linked ...arm.ID) *kernel.Failure {
	var actions []string
	for _, id := range linked {
		actions = append(actions, links[id])
	}
	return kernel.Fail(http.StatusForbidden, "LinkedAuthorizationFailed", "%sit does not have "+
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

func Unauthorized(who kernel.Principal, w Wish) *kernel.Failure {
	return kernel.Fail(http.StatusForbidden, "AuthorizationFailed",
		"The client '%s' with object id '%s' does not have authorization to perform action '%s' "+
			"over scope '%s' or the scope is invalid. If access was recently granted, please "+
			"refresh your credentials.",
		who.ClientID, who.ObjectID, w.Action, w.Scope)
}

// Joins are the actions that a link needs on what it leads to, by the lower-case property that
// holds the ID: in documents of any type, and inside a virtual network's subnets.
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

// joinsOf finds what a document links to, and the action that it takes. A deployment's template
// links nothing itself: its resources are checked one by one.
func (s *Authorization) joinsOf(id arm.ID, body kernel.Object) map[arm.ID]string {
	out := map[arm.ID]string{}
	if s.kernel.KindOf(id).Linkless {
		return out
	}
	for _, id := range entra.AssignedIdentities(body) {
		out[id] = entra.TypeUserIdentity + "/assign/action"
	}
	for _, ref := range network.ReferencesIn(id, body) {
		out[ref.Target()] = ref.Link.To + "/join/action"
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

// denied finds the deny assignment that forbids a wish. AKS makes one where a node resource group
// is locked down: only the cluster's own identity may change what is in it [U: whether join actions
// are among what is denied].
func (s *Authorization) denied(who kernel.Principal, w Wish) *kernel.Failure {
	if w.verb == "read" {
		return nil
	}
	if name, id, group, known := s.NodeGroups.DenyAssignment(w.Scope, who); known {
		return kernel.Fail(http.StatusForbidden, "DenyAssignmentAuthorizationFailed",
			"%sthe access is denied because of the deny assignment with name '%s' and Id '%s' at "+
				"scope '%s'.", has(who, w), name, id, group)
	}
	return nil
}

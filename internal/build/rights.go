package build

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Need is an action that the caller of create needs at a scope.
type Need struct {
	Scope  arm.ID
	Action string
}

// joined are the types of resources that can only be linked to with a right: the one to join them.
var joined = []string{arm.TypeRouteTable, arm.TypeSubnet, arm.TypePublicIP, arm.TypeSecurityGroup,
	"Microsoft.Network/natGateways", "Microsoft.Network/serviceEndpointPolicies"}

// Needs returns the actions that are needed to write a step; have are the present resources of all
// steps, by ID.Key(). For a resource that does not exist yet, the permissions of its parent count.
func (s Step) Needs(c Cluster, have Made) []Need {
	var needs []Need
	add := func(id arm.ID, action string) {
		n := Need{rightsScope(c, id, have), action}
		if !slices.Contains(needs, n) {
			needs = append(needs, n)
		}
	}
	switch {
	case s.ID.Is(arm.TypeResourceGroup):
		add(s.ID, "Microsoft.Resources/subscriptions/resourceGroups/write")
	case s.ID.Is(arm.TypeRoleDefinition):
		for _, g := range groups(c) { // it needs the right in every group where it can be assigned
			add(arm.ID(g.(string)), s.ID.Type()+"/write")
		}
	case have[s.ID.Key()].Raw == nil && !s.ID.Is(arm.TypeSubnet) &&
		!s.ID.Is(arm.TypeRoleAssignment):
		needs = append(needs, Need{rightsScope(c, s.ID.Group(), have), s.ID.Type() + "/write"})
	default:
		add(s.ID, s.ID.Type()+"/write")
	}
	for _, id := range linksIn(s.body(Made{})) {
		link(id, s.ID, add)
	}
	if !s.ID.Is(arm.TypeSubnet) {
		return needs
	}
	for _, path := range subnetLinks { // the whole document is written
		for _, id := range gjson.GetBytes(have[s.ID.Key()].Raw, "properties."+path).Array() {
			link(arm.ID(id.String()), s.ID, add)
		}
	}
	return needs
}

// subnetLinks are the resources that a subnet links to.
var subnetLinks = []string{
	"networkSecurityGroup.id", "natGateway.id", "routeTable.id", "serviceEndpointPolicies.#.id",
}

func link(id, from arm.ID, add func(arm.ID, string)) {
	switch i := slices.IndexFunc(joined, id.Is); {
	case id.Equal(from):
	case i >= 0:
		add(id, joined[i]+"/join/action")
	case id.Is(arm.TypeIdentity):
		add(id, arm.TypeIdentity+"/assign/action")
	}
}

// linksIn returns the resource IDs in a body: as values, and as the keys that name identities.
func linksIn(v any) (ids []arm.ID) {
	text := func(s string) {
		if id, err := arm.ParseID(s); err == nil && strings.Contains(s, "/providers/") {
			ids = append(ids, id)
		}
	}
	switch v := v.(type) {
	case string:
		text(v)
	case object:
		for k, member := range v {
			text(k)
			ids = append(ids, linksIn(member)...)
		}
	case []any:
		for _, member := range v {
			ids = append(ids, linksIn(member)...)
		}
	}
	return inventory.SortIDs(ids)
}

// rightsScope returns the scope of the rights on a resource: the resource if it exists or belongs
// to others, otherwise its future parent.
func rightsScope(c Cluster, id arm.ID, have Made) arm.ID {
	if id.Is(arm.TypeRoleAssignment) { // the permission is needed at the scope of the assignment
		at, _, _ := strings.Cut(string(id), "/providers/"+arm.TypeRoleAssignment)
		id = arm.ID(at)
	}
	made := func(id arm.ID) bool {
		_, there := have[id.Key()]
		return !there && id.Group().Equal(c.GroupID())
	}
	subscription := id.SubscriptionID()
	switch {
	case id.Equal(c.GroupID()):
		if made(id) {
			return subscription
		}
	case id.Is(arm.TypeSubnet) && !made(id) && have[id.Key()].Raw == nil:
		return id.Parent() // made in a network of others
	case made(id):
		return rightsScope(c, c.GroupID(), have)
	}
	return id
}

package build

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
)

// AdoptedTag marks what was there before and was taken with --adopt: it stays when the cluster goes.
const AdoptedTag = "routekeeper-adopted"

// removalOrder is the order in which types go: each before what it uses, and an assignment before the
// resource it is on. Subnets go with their network, routes with their table.
var removalOrder = []string{
	arm.TypeCluster, arm.TypeRoleAssignment, arm.TypeRoleDefinition, arm.TypeGateway, arm.TypePublicIP,
	arm.TypeIdentity, arm.TypeVNet, arm.TypeRouteTable, arm.TypeResourceGroup,
}

// words name what is built, by type, as the steps do.
var words = map[string]string{
	arm.TypeCluster: "cluster", arm.TypeGateway: "Application Gateway", arm.TypePublicIP: "public IP",
	arm.TypeRoleAssignment: "role assignment", arm.TypeRoleDefinition: "role definition",
	arm.TypeIdentity: "identity", arm.TypeVNet: "virtual network", arm.TypeSubnet: "subnet",
	arm.TypeRouteTable: "route table", arm.TypeRoute: "route", arm.TypeResourceGroup: "resource group",
}

// Word names a resource's type in words, such as "route table".
func Word(id arm.ID) string {
	for resourceType, word := range words {
		if id.Is(resourceType) {
			return word
		}
	}
	return id.Type()
}

// Leftovers are all resources that Steps can have made for a cluster of this name and group, whatever its
// options were, in the order in which they go.
func (c Cluster) Leftovers() []arm.ID {
	ids := []arm.ID{
		c.ClusterID(), c.GatewayID(), c.AddressID(), c.RoleID(), c.IdentityID(), c.VNetID(),
		c.NodeTableID(), c.GatewayTableID(), c.GroupID(),
	}
	for _, scope := range []arm.ID{c.NodeSubnetID(), c.PodSubnetID(), c.NodeTableID()} {
		ids = append(ids, c.AssignmentID(scope))
	}
	ids = append(ids, c.addonAssignments()...)
	rank := func(id arm.ID) int { return slices.IndexFunc(removalOrder, id.Is) }
	slices.SortStableFunc(ids, func(a, b arm.ID) int { return rank(a) - rank(b) })
	return ids
}

// Removal says whether a resource goes with its cluster: Delete, or Keep and why. What carries no tag has
// a name that only create gives.
func (c Cluster) Removal(have arm.Document) (Verb, string) {
	if id := have.ID; id.Is(arm.TypeRoleAssignment) || id.Is(arm.TypeRoleDefinition) {
		return Delete, ""
	}
	tag := func(name string) string { return gjson.GetBytes(have.Raw, "tags."+name).String() }
	switch owner := tag(OwnerTag); {
	case owner == "":
		return Keep, "it was not made by routekeeper"
	case !strings.EqualFold(owner, c.Owner()):
		return Keep, "it belongs to the cluster " + owner
	case tag(AdoptedTag) != "":
		return Keep, "it was there before the cluster"
	}
	return Delete, ""
}

package build

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
)

// AdoptedTag marks an existing resource that --adopt took over: it stays when the cluster is
// deleted.
const AdoptedTag = "routekeeper-adopted"

// removalOrder is the order of deletion by type: each type before what it uses, and an assignment
// before the resource it is on. Subnets are deleted with their network; in an existing network they
// are deleted separately, and before the identity, whose tags name that network. Routes are deleted
// with their table.
var removalOrder = []string{
	arm.TypeCluster, arm.TypeRoleAssignment, arm.TypeRoleDefinition, arm.TypeGateway,
	arm.TypePublicIP,
	arm.TypeSubnet, arm.TypeIdentity, arm.TypeVNet, arm.TypeRouteTable, arm.TypeResourceGroup,
}

// typeWords name what is built, by type.
var typeWords = map[string]string{
	arm.TypeCluster: "cluster", arm.TypeGateway: "Application Gateway",
	arm.TypePublicIP:       "public IP",
	arm.TypeRoleAssignment: "role assignment", arm.TypeRoleDefinition: "role definition",
	arm.TypeIdentity: "identity", arm.TypeVNet: "virtual network", arm.TypeSubnet: "subnet",
	arm.TypeRouteTable: "route table", arm.TypeRoute: "route",
	arm.TypeResourceGroup: "resource group",
}

// Word names a resource's type in words, such as "route table".
func Word(id arm.ID) string {
	for resourceType, word := range typeWords {
		if id.Is(resourceType) {
			return word
		}
	}
	return id.Type()
}

// Leftovers returns all resources that Steps can have made for a cluster with this name and group,
// with any options, in the order of deletion.
func (c Cluster) Leftovers() []arm.ID {
	ids := []arm.ID{
		c.ClusterID(), c.GatewayID(), c.AddressID(), c.RoleID(), c.IdentityID(),
		c.ownNodeTable(), c.ownGatewayTable(), c.GroupID(),
	}
	if c.Existing == nil {
		ids = append(ids, c.VNetID())
	} else {
		ids = append(ids, guests(c)...)
	}
	for _, scope := range []arm.ID{c.NodeSubnetID(), c.PodSubnetID(), c.ownNodeTable()} {
		ids = append(ids, c.AssignmentID(scope))
	}
	if table := c.NodeTableID(); !table.Equal(c.ownNodeTable()) {
		ids = append(ids, c.AssignmentID(table))
	}
	ids = append(ids, addonAssignments(c)...)
	slices.SortStableFunc(ids, RemovalOrder)
	return ids
}

// RemovalOrder compares two resources by the order of deletion.
func RemovalOrder(a, b arm.ID) int {
	rank := func(id arm.ID) int { return slices.IndexFunc(removalOrder, id.Is) }
	return rank(a) - rank(b)
}

// guests returns the subnets that create made in an existing network.
func guests(c Cluster) []arm.ID {
	return []arm.ID{c.madeSubnet("pods"), c.madeSubnet("gateway")}
}

// Removal says whether a resource is deleted with its cluster: Delete, or Keep and why. A resource
// without a tag has a name that only create gives.
func (c Cluster) Removal(have arm.Document) (Verb, string) {
	if id := have.ID; id.Is(arm.TypeRoleAssignment) || id.Is(arm.TypeRoleDefinition) {
		return Delete, ""
	}
	if id := have.ID; c.Existing != nil && id.Is(arm.TypeSubnet) {
		if slices.ContainsFunc(guests(c), id.Equal) {
			return Delete, ""
		}
		return Keep, "it existed before the cluster"
	}
	tag := func(name string) string { return gjson.GetBytes(have.Raw, "tags."+name).String() }
	switch owner := tag(OwnerTag); {
	case owner == "":
		return Keep, "it was not made by routekeeper"
	case !strings.EqualFold(owner, c.Owner()):
		return Keep, "it belongs to the cluster " + owner
	case tag(AdoptedTag) != "":
		return Keep, "it existed before the cluster"
	}
	return Delete, ""
}

// Owns reports whether a resource has the cluster's tag.
func (c Cluster) Owns(have arm.Document) bool {
	return strings.EqualFold(gjson.GetBytes(have.Raw, "tags."+OwnerTag).String(), c.Owner())
}

// LocationOf returns the region of a resource.
func LocationOf(doc arm.Document) string { return gjson.GetBytes(doc.Raw, "location").String() }

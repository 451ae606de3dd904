package build

import (
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
)

// This file is about how a removal finds which parts of an existing network a cluster used. The
// cluster's document names the network, but the cluster is deleted first. So the tags of the
// cluster's identity name the parts, too: the identity is made first, and deleted after everything
// in the network. A tag's value has at most 256 characters, and an ID can be longer. So IDs are
// shortened, and one tag holds all subnets of the network.

// The tags of an identity that name what is used: the network as SUBSCRIPTION/GROUP/NAME, the names
// of the subnets for nodes, pods and gateway, and the existing route tables with the pod routes and
// with the gateway's copies of them.
const (
	networkTag      = "routekeeper-network"
	subnetsTag      = "routekeeper-subnets"
	tableTag        = "routekeeper-node-table"
	gatewayTableTag = "routekeeper-gateway-table"
)

// anchor returns the tags of the identity.
func anchor(c Cluster) object {
	tags := c.tags()
	e := c.Existing
	if e == nil {
		return tags
	}
	name := func(id arm.ID) string {
		if id == "" {
			return "" // create makes this subnet and chooses its name
		}
		return id.Name()
	}
	tags[networkTag] = shortened(c.VNetID())
	tags[subnetsTag] = strings.Join([]string{name(e.Nodes), name(e.Pods), name(e.Gateway)}, ",")
	if e.NodeTable != "" {
		tags[tableTag] = shortened(e.NodeTable)
	}
	if e.GatewayTable != "" {
		tags[gatewayTableTag] = shortened(e.GatewayTable)
	}
	return tags
}

func shortened(id arm.ID) string {
	return id.Subscription() + "/" + id.ResourceGroup() + "/" + id.Name()
}

// Placed returns the cluster in the network that its identity's tags name; nil means no identity.
func (c Cluster) Placed(identity *arm.Document) Cluster {
	if identity == nil {
		return c
	}
	tag := func(name string) string { return gjson.GetBytes(identity.Raw, "tags."+name).String() }
	full := func(resourceType, text string) arm.ID {
		parts := strings.Split(text, "/")
		if len(parts) != 3 {
			return ""
		}
		id, err := arm.ParseID(string(arm.ResourceID(parts[0], parts[1], resourceType, parts[2])))
		if err != nil {
			return ""
		}
		return id
	}
	vnet, names := full(arm.TypeVNet, tag(networkTag)), strings.Split(tag(subnetsTag), ",")
	ours := strings.EqualFold(tag(OwnerTag), c.Owner())
	if !ours || vnet == "" || len(names) != 3 || names[0] == "" {
		return c
	}
	subnet := func(name string) arm.ID {
		if name == "" {
			return ""
		}
		return vnet.Child("subnets", name)
	}
	c.Existing = &Existing{
		Nodes: subnet(names[0]), Pods: subnet(names[1]), Gateway: subnet(names[2]),
		NodeTable:    full(arm.TypeRouteTable, tag(tableTag)),
		GatewayTable: full(arm.TypeRouteTable, tag(gatewayTableTag)),
	}
	return c
}

// Subnets returns all subnets that the cluster can use, whatever its options were.
func (c Cluster) Subnets() []arm.ID {
	return []arm.ID{c.NodeSubnetID(), c.PodSubnetID(), c.GatewaySubnetID()}
}

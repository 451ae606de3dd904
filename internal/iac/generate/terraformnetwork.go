package generate

import (
	"net/netip"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
)

// terraformNetwork is what a configuration makes, and what exists. IDs are expressions.
type terraformNetwork struct {
	NodeSubnet, PodSubnet, GatewaySubnet, NodeTableID, GatewayTableID string

	MakesNodeTable, MakesGatewayTable, MakesEgress, GatewayAssociated bool
	// Locals are the IDs of what exists. NetworkSubscription is "" for the cluster's own.
	Locals              []terraformArgument
	NetworkSubscription string
	// Anchors are the identity's further tags, RoleGroups the further groups of the cluster's role.
	Anchors    []terraformArgument
	RoleGroups []string
	About      []string
}

// terraformSubnet is a subnet. Table is "" if the code associates none.
type terraformSubnet struct {
	Name, About            string
	Made                   bool
	Called, Group, Network string // expressions
	ID, Table              string
	Prefix                 netip.Prefix
}

// network fills in subnets and tables, and where the cluster's identity has its role.
func (t *terraform) network() {
	c := t.C
	if e := c.Existing; e != nil {
		t.exists("network_id", c.VNetID())
		t.About = t.Blueprint.about()
		if sub := e.Nodes.Subscription(); sub != c.Subscription {
			t.NetworkSubscription = sub
		}
	}
	ids := map[arm.ID]string{}
	for _, step := range c.Steps() {
		switch {
		case step.ID.Is(arm.TypeRouteTable):
			ids[step.ID] = t.table(step)
		case step.ID.Is(arm.TypeSubnet):
			t.subnet(step, ids)
		case step.ID.Is(arm.TypeRoute):
			t.MakesEgress = true
		case step.ID.Is(arm.TypeIdentity):
			tags := step.Body(nil)["tags"].(object)
			for _, m := range ordered(tags) {
				if m.name != build.OwnerTag {
					t.Anchors = append(t.Anchors, terraformArgument{m.name, m.value.(string)})
				}
			}
		case step.ID.Is(arm.TypeRoleDefinition):
			groups := step.Body(nil)["properties"].(object)["assignableScopes"].([]any)
			for _, g := range groups[1:] { // the first is the cluster's own
				t.RoleGroups = append(t.RoleGroups, g.(string))
			}
		}
	}
	t.Scopes = append(t.Scopes, terraformScope{Symbol: "nodes", Address: t.NodeSubnet})
	if c.HasPodSubnet() {
		t.Scopes = append(t.Scopes, terraformScope{Symbol: "pods", Address: t.PodSubnet})
	}
	if c.HasTable() {
		t.Scopes = append(t.Scopes, terraformScope{Symbol: "table", Address: t.NodeTableID})
	}
}

// exists notes the ID of an existing resource, and returns its expression.
func (t *terraform) exists(name string, id arm.ID) string {
	t.Locals = append(t.Locals, terraformArgument{name, string(id)})
	return "local." + name
}

// table fills in a route table, and returns its ID.
func (t *terraform) table(step build.Step) string {
	id, own, makes, name := &t.NodeTableID, "azurerm_route_table.nodes.id", &t.MakesNodeTable,
		"node_table_id"
	if t.C.HasGatewayTable() && step.ID == t.C.GatewayTableID() && step.ID != t.C.NodeTableID() {
		id, own, makes, name = &t.GatewayTableID, "azurerm_route_table.gateway.id",
			&t.MakesGatewayTable, "gateway_table_id"
	}
	if *id = own; step.Found {
		*id = t.exists(name, step.ID)
	} else {
		*makes = true
	}
	return *id
}

// subnet fills in a subnet; tables are the expressions of tables.
func (t *terraform) subnet(step build.Step, tables map[arm.ID]string) {
	c := t.C
	n := terraformSubnet{Name: "nodes", Prefix: c.Nodes,
		About: "A separate resource: the provider " +
			"reads the subnet before writing it, so the subnet keeps its table."}
	id, local := &t.NodeSubnet, "node_subnet_id"
	switch step.ID {
	case c.NodeSubnetID():
	case c.PodSubnetID():
		n.Name, n.About, n.Prefix = "pods", "The pods' subnet.", c.Pods
		id, local = &t.PodSubnet, "pod_subnet_id"
	default:
		n.Name, n.About, n.Prefix = "gateway", "For the Application Gateway only.", c.Gateway
		id, local = &t.GatewaySubnet, "gateway_subnet_id"
	}
	n.Made, n.Called = !step.Found, hclString(n.Name)
	n.Group, n.Network = "azurerm_resource_group.main.name", "azurerm_virtual_network.main.name"
	*id = "azurerm_subnet." + n.Name + ".id"
	table := step.Associates
	switch {
	case step.Found:
		*id = t.exists(local, step.ID)
	case step.Guest:
		n.Called = `"${var.name}-` + n.Name + `-${substr(uuidv5(local.namespace, ` +
			`"${local.cluster_id}-subnet ` + n.Name + `"), 0, 8)}"`
		n.Group, n.Network = hclString(step.ID.ResourceGroup()), hclString(step.ID.Parent().Name())
		n.About += " It is made in the existing network."
	}
	if !step.Found {
		properties := step.Body(nil)["properties"].(object)
		if link, has := properties["routeTable"].(object); has {
			table = arm.ID(link["id"].(string))
		}
	}
	n.ID, n.Table = *id, tables[table]
	t.GatewayAssociated = t.GatewayAssociated || n.Name == "gateway" && n.Table != ""
	t.Subnets = append(t.Subnets, n)
}

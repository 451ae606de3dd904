package emulator

import (
	"cmp"
	"fmt"
	"net/netip"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// How it works. The fleet scenario makes 30 kubenet clusters through the emulator's own handler, as
// the demo scenario makes one. Each has its own group with a network, a route table, and an
// Application Gateway with a table that has copies of the pod routes. Then it breaks four of them,
// each in another way, and hides a route of a fifth (fleetdamage.go). They stay broken: the
// clusters' cloud providers are paused where they would repair it. One is stopped, one migrates for
// a day, and one has a network that routekeeper's identity may not read. Others have what blocks
// the migration off kubenet, or almost have it (fleetblockers.go).

// fleetMember is a cluster of the fleet.
type fleetMember struct {
	name                     string
	nodes                    int
	cluster, table           arm.ID
	nodeSubnet, gatewayTable arm.ID
}

// The cluster of the fleet that migrates, and the one whose network cannot be read.
const (
	fleetMigrating   = "shop-03"
	fleetUnreachable = "shop-28"
)

// fleet names the clusters of the fleet scenario: 28 of 3 nodes, one of 50 and one of 390.
func fleet(subscription string) []fleetMember {
	var all []fleetMember
	add := func(name string, nodes int) {
		id := func(resourceType, suffix string) arm.ID {
			return arm.ResourceID(subscription, name+"-rg", resourceType, name+suffix)
		}
		all = append(all, fleetMember{
			name: name, nodes: nodes, cluster: id(arm.TypeCluster,
				""), table: id(arm.TypeRouteTable, "-rt"),
			nodeSubnet: id(arm.TypeVNet, "-vnet").Child("subnets",
				cmp.Or(conditions[name].subnet, "nodes")),
			gatewayTable: id(arm.TypeRouteTable, "-appgw-rt"),
		})
	}
	for i := 1; i <= 28; i++ {
		add(fmt.Sprintf("shop-%02d", i), 3)
	}
	add("big-50", 50)
	add("huge-390", 390)
	return all
}

// BuildFleet builds the fleet scenario, and returns what is special in it, a line each.
func BuildFleet(e *Emulator, as Principal) (special []string, err error) {
	err = e.beforehand(func() error {
		special, err = buildFleet(e, as)
		return err
	})
	return special, err
}

func buildFleet(e *Emulator, as Principal) ([]string, error) {
	c, end, err := e.builder(as)
	if err != nil {
		return nil, err
	}
	defer end()
	members := fleet(e.opts.Subscriptions[0])
	for i, m := range members {
		if err := m.build(c, i); err != nil {
			return nil, err
		}
	}
	for _, m := range members {
		if err := m.copyRoutes(e, c); err != nil {
			return nil, err
		}
	}
	said, err := damage(e, c, members)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		special := conditions[m.name]
		if special.after != nil {
			if err := special.after(c, m); err != nil {
				return nil, err
			}
		}
		if special.blocks != "" {
			said = append(said, m.name+": cannot migrate: "+special.blocks)
		}
	}
	more, err := away(e, c, members)
	return append(said, more...), err
}

// build makes the cluster's group, network, tables, gateway and the cluster itself; number is its
// position in the fleet, and in the address space.
func (m fleetMember) build(c *Client, number int) error {
	sub := m.cluster.Subscription()
	link := func(id arm.ID) kernel.Object { return kernel.Link(id) }
	at := func(properties kernel.Object) kernel.Object {
		return kernel.Object{"location": "westeurope", "properties": properties}
	}
	network := netip.AddrFrom4([4]byte{10, byte(64 + number), 0, 0})
	inside := func(third byte, bits int) string {
		a := network.As4()
		a[2] = third
		return netip.PrefixFrom(netip.AddrFrom4(a), bits).String()
	}
	vnet := m.nodeSubnet.Parent()
	gateway := arm.ResourceID(sub, m.name+"-rg", arm.TypeGateway, m.name+"-appgw")
	identity := arm.ResourceID(sub, m.name+"-rg", entra.TypeUserIdentity, m.name)
	subnet := func(prefix string, table arm.ID) kernel.Object {
		return kernel.Object{"addressPrefix": prefix, "routeTable": link(table)}
	}
	nodes, appgw := subnet(inside(0, 20), m.table), subnet(inside(16, 24), m.gatewayTable)
	special := conditions[m.name]
	var more []any
	if special.network != nil {
		more = special.network(nodes, appgw)
	}
	for _, step := range []struct {
		id      arm.ID
		version string
		body    kernel.Object
	}{
		{m.cluster.Group(), "2024-03-01", kernel.Object{"location": "westeurope"}},
		{m.table, demoNetwork, at(kernel.Object{"routes": []any{}})},
		{m.gatewayTable, demoNetwork, at(kernel.Object{"routes": []any{}})},
		{vnet, demoNetwork, at(kernel.Object{
			"addressSpace": kernel.Object{"addressPrefixes": []any{inside(0, 16)}},
			"subnets": append([]any{
				kernel.Object{"name": m.nodeSubnet.Name(), "properties": nodes},
				kernel.Object{"name": "appgw", "properties": appgw}}, more...),
		})},
		{gateway, demoNetwork, at(kernel.Object{"sku": gatewaySKU(),
			"gatewayIPConfigurations": []any{
				kernel.Object{"name": "subnet",
					"properties": kernel.Object{"subnet": link(vnet.Child("subnets", "appgw"))}},
			}})},
		{identity, demoIdentity, kernel.Object{"location": "westeurope"}},
	} {
		if err := c.Put(step.id, step.version, step.body); err != nil {
			return err
		}
	}
	if err := m.assign(c, identity, number); err != nil {
		return err
	}
	body := at(kernel.Object{
		"networkProfile": kernel.Object{"networkPlugin": "kubenet", "podCidr": "10.244.0.0/15"},
		"agentPoolProfiles": []any{kernel.Object{
			"name": "nodepool1", "count": m.nodes, "mode": "System", "vnetSubnetID": string(
				m.nodeSubnet),
		}},
	})
	body["identity"] = kernel.Object{
		"type": "UserAssigned", "userAssignedIdentities": kernel.Object{
			string(identity): kernel.Object{}},
	}
	if special.cluster != nil {
		special.cluster(body)
	}
	return c.Put(m.cluster, demoAKS, body)
}

// assign gives the cluster's identity its rights on the group.
func (m fleetMember) assign(c *Client, identity arm.ID, number int) error {
	who, err := c.Get(identity, demoIdentity)
	if err != nil {
		return err
	}
	id := m.cluster.Group() + arm.ID(fmt.Sprintf("/providers/%s/f1ee7000-0000-4000-8000-%012d",
		authorization.TypeRoleAssignment, number))
	err = c.Put(id, demoRoles, kernel.Object{"properties": kernel.Object{
		"roleDefinitionId": authorization.RoleID(m.cluster.Subscription(),
			authorization.NetworkContributor),
		"principalId":   kernel.ObjectAt(who, "properties")["principalId"],
		"principalType": "ServicePrincipal",
	}})
	c.e.DelayRole(id, 0)
	return err
}

// copyRoutes waits for the cluster's routes and copies them to the gateway's table.
func (m fleetMember) copyRoutes(e *Emulator, c *Client) error {
	if err := e.waitForRoutes(c, m.table, m.nodes); err != nil {
		return err
	}
	routes, err := m.routes(c, m.table)
	if err != nil {
		return err
	}
	return m.setRoutes(c, m.gatewayTable, routes)
}

// routes returns a table's routes, as they can be sent again.
func (m fleetMember) routes(c *Client, table arm.ID) ([]any, error) {
	doc, err := c.Get(table, demoNetwork)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, route := range kernel.ListAt(doc, "properties", "routes") {
		p := kernel.ObjectAt(route, "properties")
		out = append(out, kernel.Object{"name": route["name"], "properties": kernel.Object{
			"addressPrefix": p["addressPrefix"], "nextHopType": p["nextHopType"],
			"nextHopIpAddress": p["nextHopIpAddress"],
		}})
	}
	return out, nil
}

func (m fleetMember) setRoutes(c *Client, table arm.ID, routes []any) error {
	return c.Put(table, demoNetwork,
		kernel.Object{"location": "westeurope", "properties": kernel.Object{"routes": routes}})
}

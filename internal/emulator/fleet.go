package emulator

import (
	"cmp"
	"fmt"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// How it works. The fleet scenario makes 30 kubenet clusters through the emulator's own handler,
// like the demo scenario. Each has its own group with a network, a route table, and an Application
// Gateway with a table that has copies of the pod routes. Then it breaks four of them, each in a
// different way, and hides a route of a fifth cluster (fleetdamage.go). They stay broken, because
// the cloud providers that would repair them are paused. One is stopped, one migrates for a day,
// and one has a network that routekeeper's identity may not read. Others have problems that block
// the migration off kubenet, or almost have them (fleetblockers.go).

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
	err = e.beforehand(as, func(c *Client) error {
		special, err = buildFleet(e, c)
		return err
	})
	return special, err
}

func buildFleet(e *Emulator, c *Client) ([]string, error) {
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
	more, err := migrateAndHide(e, c, members)
	return append(said, more...), err
}

// build makes the cluster's group, network, tables, gateway and the cluster itself; number is its
// position in the fleet, and in the address space.
func (m fleetMember) build(c *Client, number int) error {
	in := func(resourceType, name string) arm.ID {
		return arm.ResourceID(m.cluster.Subscription(), m.cluster.ResourceGroup(), resourceType,
			name)
	}
	inside := func(rest string) string { return fmt.Sprintf("10.%d.%s", 64+number, rest) }
	vnet, special := m.nodeSubnet.Parent(), conditions[m.name]
	p := Place{
		Cluster: m.cluster, Network: vnet, Space: inside("0.0/16"),
		Subnets: []PlaceSubnet{{m.nodeSubnet.Name(), inside("0.0/20"), m.table, nil},
			{"appgw", inside("16.0/24"), m.gatewayTable, nil}},
		Linked: []PlaceResource{{m.table, TableWith()}, {m.gatewayTable, TableWith()}},
		Inside: []PlaceResource{{in(arm.TypeGateway, m.name+"-appgw"),
			gatewayIn(vnet.Child("subnets", "appgw"))}},
		Identity:       in(arm.TypeIdentity, m.name),
		RoleAssignment: fmt.Sprintf("f1ee7000-0000-4000-8000-%012d", number),
		Profile:        kernel.Object{"networkPlugin": "kubenet", "podCidr": "10.244.0.0/15"},
		Pool:           "nodepool1", Nodes: m.nodes, Change: special.cluster,
	}
	if special.network != nil {
		special.network(&p)
	}
	return c.Make(p)
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

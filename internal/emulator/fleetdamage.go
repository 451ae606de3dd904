package emulator

import (
	"net/http"
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// damage breaks four clusters, and hides a route of a fifth.
func damage(e *Emulator, c *Client, members []fleetMember) ([]string, error) {
	by := map[string]fleetMember{}
	for _, m := range members {
		by[m.name] = m
	}
	stripped, other, shadowed, emptied := by["shop-05"], by["shop-09"], by["shop-06"], by["big-50"]
	lacking := by["shop-07"]
	if err := c.Strip(stripped.nodeSubnet); err != nil {
		return nil, err
	}
	if err := c.associate(other.nodeSubnet, other.gatewayTable); err != nil {
		return nil, err
	}
	routes, err := shadowed.routes(c, shadowed.gatewayTable)
	if err != nil {
		return nil, err
	}
	first := kernel.Text(routes[0].(kernel.Object), "properties", "addressPrefix")
	half := strings.TrimSuffix(first, "/24") + "/25"
	routes = append(routes, kernel.Object{"name": "blocked", "properties": kernel.Object{
		"addressPrefix": half, "nextHopType": inventory.HopNone,
	}})
	if err := shadowed.setRoutes(c, shadowed.gatewayTable, routes); err != nil {
		return nil, err
	}
	if routes, err = lacking.routes(c, lacking.gatewayTable); err != nil {
		return nil, err
	}
	lost := kernel.Text(routes[0].(kernel.Object), "properties", "addressPrefix")
	if err := lacking.setRoutes(c, lacking.gatewayTable, routes[1:]); err != nil {
		return nil, err
	}
	e.PauseRoutes(emptied.cluster, true)
	if err := emptied.setRoutes(c, emptied.table, []any{}); err != nil {
		return nil, err
	}
	return []string{
		stripped.name + ": its node subnet has no route table",
		other.name + ": its node subnet has the gateway's table",
		emptied.name + ": its cluster table is empty, and its cloud provider is paused",
		lacking.name + ": the gateway's table has no route to " + lost,
		shadowed.name + ": an unmanaged route to nowhere hides " + half + " in the gateway's table",
	}, nil
}

// migrateAndHide starts the migration of one cluster, and takes away the permission to read the
// network of another one. The migration takes a day, so that it lasts as long as a person watches
// it.
func migrateAndHide(e *Emulator, c *Client, members []fleetMember) ([]string, error) {
	for _, m := range members {
		switch m.name {
		case fleetMigrating:
			const aDay = 24 * 60 * 60
			remove, err := e.Inject(Fault{Method: http.MethodPut, Slow: aDay, Count: -1,
				Path: "/managedClusters/" + m.name + "$"})
			if err != nil {
				return nil, err
			}
			err = m.migrate(c)
			remove()
			if err != nil {
				return nil, err
			}
			m.nodes++ // the surge node has a route, too
			if err := m.copyRoutes(e, c); err != nil {
				return nil, err
			}
		case fleetUnreachable:
			if _, err := e.Inject(Fault{Method: http.MethodGet, Count: -1,
				Path:   "/" + m.table.ResourceGroup() + "/providers/Microsoft[.]Network/",
				Status: http.StatusForbidden, Code: "AuthorizationFailed",
				Principal: e.opts.Principals[0].Name,
				Message: "The client does not have authorization to perform actions on " +
					"Microsoft.Network over scope '" + string(m.table.Group()) +
					"'."}); err != nil {
				return nil, err
			}
		}
	}
	return []string{
		fleetMigrating + ": it migrates to overlay",
		fleetUnreachable + ": the keeper has lost the right to read its network",
	}, nil
}

// migrate starts the cluster's migration to overlay.
func (m fleetMember) migrate(c *Client) error {
	doc, err := c.Get(m.cluster, demoAKS)
	if err != nil {
		return err
	}
	p := kernel.ObjectAt(doc, "properties")
	p["networkProfile"] = kernel.Object{"networkPlugin": "azure", "networkPluginMode": "overlay",
		"podCidr": kernel.ObjectAt(p, "networkProfile")["podCidr"]}
	return c.Put(m.cluster, demoAKS, doc)
}

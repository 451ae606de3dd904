package build

import (
	"net/netip"

	"routekeeper.dev/routekeeper/internal/arm"
)

// dnsOf returns the DNS service's address: the tenth of the service range, as AKS chooses it.
func dnsOf(services netip.Prefix) string {
	a := services.Addr()
	for range 10 {
		a = a.Next()
	}
	return a.String()
}

// The built-in roles that the add-on needs in addition to the cluster's role (AGIC reports them
// when they are missing: application-gateway-kubernetes-ingress#997).
const (
	contributor = "b24988ac-6180-42a0-ab88-20f7382dd24c"
	reader      = "acdd72a7-3385-48ef-bd42-f606fba81ae7"

	networkContributor = "4d97b98b-1d4f-4787-a291-c67834d212e7"
)

// GatewayTableSteps give the subnet of an Application Gateway a route table, in the resource group
// of its network. The gateway belongs to an existing cluster; only its name, group and
// location matter.
func (c Cluster) GatewayTableSteps(subnet arm.ID) []Step {
	name := subnet.Parent().Name() + "-" + subnet.Name() + "-rt"
	if len(name) > mostTableName {
		name = name[:mostTableName-9] + "-" + c.GUID(name)[:8]
	}
	table := arm.ResourceID(subnet.Subscription(), subnet.ResourceGroup(), arm.TypeRouteTable, name)
	body := object{"properties": object{"routeTable": arm.Link(table)}}
	return []Step{
		c.step(table, "for the gateway's copies of the pod routes", nil, "location"),
		found(subnet, "existing, of the Application Gateway", body),
	}
}

// mostTableName is the maximum length of a route table's name (resource-name-rules).
const mostTableName = 80

// builtIn returns a built-in role, as the subscription of a scope shows it.
func builtIn(guid string, scope arm.ID) arm.ID {
	return arm.ID("/subscriptions/" + scope.Subscription() + "/providers/" +
		arm.TypeRoleDefinition + "/" + guid)
}

// addonSteps assign roles to the identity that AKS makes for the gateway's add-on: it writes the
// gateway, reads its resource group, and joins its subnet
// (application-gateway-kubernetes-ingress#1463).
func addonSteps(c Cluster) []Step {
	if c.ApplicationGateway == nil {
		return nil
	}
	const principal = "properties.addonProfiles.ingressApplicationGateway.identity.objectId"
	var steps []Step
	for i, a := range []struct {
		role arm.ID
		why  string
	}{
		{builtIn(contributor, c.GroupID()), "of the add-on on the gateway"},
		{builtIn(reader, c.GroupID()), "of the add-on on the resource group"},
		{c.assignedRoleID(c.GatewaySubnetID()), "of the add-on on the gateway's subnet"},
	} {
		steps = append(steps,
			assignment(addonAssignments(c)[i], a.role, a.why, c.ClusterID(), principal))
	}
	return steps
}

// addonAssignments returns the role assignments of the add-on.
func addonAssignments(c Cluster) []arm.ID {
	return []arm.ID{
		addonAssignment(c, c.GatewayID()), addonAssignment(c, c.GroupID()), addonAssignment(c,
			c.GatewaySubnetID()),
	}
}

func addonAssignment(c Cluster, scope arm.ID) arm.ID {
	return scope + arm.ID("/providers/"+arm.TypeRoleAssignment+"/"+c.GUID("add-on", scope))
}

// gatewaySteps returns an Application Gateway v2 with one listener without a backend: the add-on
// writes the rest of it.
func gatewaySteps(c Cluster) []Step {
	if c.ApplicationGateway == nil {
		return nil
	}
	part := func(kind, name string) object {
		return object{"id": string(c.GatewayID()) + "/" + kind + "/" + name}
	}
	named := func(name string, properties object) []any {
		return []any{object{"name": name, "properties": properties}}
	}
	properties := object{
		"sku": object{"name": "Standard_v2", "tier": "Standard_v2"},
		"autoscaleConfiguration": object{
			"minCapacity": c.ApplicationGateway.Least, "maxCapacity": c.ApplicationGateway.Most,
		},
		"gatewayIPConfigurations": named("gateway",
			object{"subnet": arm.Link(c.GatewaySubnetID())}),
		"frontendIPConfigurations": named("public",
			object{"publicIPAddress": arm.Link(c.AddressID())}),
		"frontendPorts":       named("http", object{"port": 80}),
		"backendAddressPools": named("none", object{}),
		"backendHttpSettingsCollection": named("http",
			object{"port": 80, "protocol": "Http", "requestTimeout": 30}),
		"httpListeners": named("http", object{
			"frontendIPConfiguration": part("frontendIPConfigurations", "public"),
			"frontendPort":            part("frontendPorts", "http"),
			"protocol":                "Http",
		}),
		"requestRoutingRules": named("http", object{
			"ruleType": "Basic", "priority": 100, "httpListener": part("httpListeners", "http"),
			"backendAddressPool":  part("backendAddressPools", "none"),
			"backendHttpSettings": part("backendHttpSettingsCollection", "http"),
		}),
	}
	address := c.step(c.AddressID(), "of the gateway", object{
		"sku":        object{"name": "Standard", "tier": "Regional"},
		"properties": object{"publicIPAllocationMethod": "Static"},
	}, "location", "sku", "properties.publicIPAllocationMethod")
	gateway := c.step(c.GatewayID(), "Standard_v2",
		object{"properties": properties},
		"location", "properties.sku", "properties.gatewayIPConfigurations")
	// The add-on writes listeners, pools and rules later: only our own fields are compared.
	gateway.Later = func() object {
		return c.at(object{"properties": object{
			"sku":                     properties["sku"],
			"autoscaleConfiguration":  properties["autoscaleConfiguration"],
			"gatewayIPConfigurations": properties["gatewayIPConfigurations"],
		}})
	}
	return []Step{address, gateway}
}

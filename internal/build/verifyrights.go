package build

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// roles claims that the cluster's identity has the rights that it needs on existing resources.
func (v *verifier) roles() {
	if len(v.Scopes) == 0 {
		v.about(topicRoles, "roles of the cluster's identity", v.Cluster.ID, nil).
			right("none has to be assigned: AKS made the network itself")
	}
	for _, scope := range v.Scopes {
		c := v.about(topicRoles, "role of the cluster's identity on "+scope.Short(), scope,
			v.against(scope, finding.IdentityLacks))
		if len(v.Cluster.PrincipalIDs) == 0 {
			c.unchecked("the cluster has a service principal, whose object ID its document does " +
				"not name")
			continue
		}
		v.role(c, scope, v.Cluster.PrincipalIDs)
	}
	for _, scope := range v.AddonScopes {
		c := v.about(topicRoles, "role of the ingress add-on on "+scope.Short(), scope,
			v.against(scope, finding.AddonLacks))
		if v.Cluster.IngressPrincipal == "" {
			c.unchecked("the cluster's document does not name the identity of the add-on")
			continue
		}
		v.role(c, scope, []string{v.Cluster.IngressPrincipal})
	}
}

// role ends a claim about the roles of a principal, whose object ID is one of several.
func (v *verifier) role(c draft, scope arm.ID, principals []string) {
	if rights, why := v.rightsAt(scope, principals); why != "" {
		c.unchecked("%s", why)
	} else {
		c.right("%s", strings.Join(rights.Roles, ", "))
	}
}

// rightsAt returns the rights of a principal at a scope, or why they are not known.
func (v *verifier) rightsAt(scope arm.ID, principals []string) (inventory.Rights, string) {
	for _, id := range principals {
		r, read := v.s.Rights[id][scope.Key()]
		switch why := strings.TrimSpace(r.Failed + " " + r.Undenied); {
		case !read:
		case why != "":
			return r, "the role assignments could only be read in part: " + why
		case len(r.Permissions) > 0:
			return r, ""
		}
	}
	for _, id := range principals {
		if r, read := v.s.Rights[id][scope.Key()]; read {
			return r, ""
		}
	}
	return inventory.Rights{}, "the role assignments were not read"
}

// keeperRights claims that the identity that runs routekeeper has the rights that the config needs.
func (v *verifier) keeperRights() {
	if v.Config == nil || v.proposed {
		return
	}
	c := v.about(topicKeeper, "rights of the identity that runs routekeeper", v.Cluster.ID,
		v.against("", finding.CallerLacks))
	for _, f := range v.found {
		if f.Code == finding.RightsUnread && f.Subject == string(finding.CallerLacks) {
			c.unchecked("%s", f.Message)
			return
		}
	}
	if len(v.s.CallerRights) == 0 {
		c.unchecked("they were not read")
		return
	}
	c.right("all rights that the config needs")
}

// egress claims that the nodes' egress matches the cluster's outboundType.
func (v *verifier) egress() {
	subnets := v.s.NodeSubnetIDs(v.Cluster)
	for _, id := range subnets {
		wrong := v.against(id, finding.EgressBypassed, finding.EgressRouteMissing,
			finding.EgressDropped, finding.EgressDiffers)
		subnet := v.s.Subnet(id)
		if subnet != nil && subnet.RouteTable != "" {
			wrong = append(wrong, v.against(subnet.RouteTable, finding.EgressDropped,
				finding.NextHopUnreachable)...)
		}
		c := v.about(topicEgress, "egress of "+id.Short(), id, wrong)
		switch {
		case subnet == nil:
			c.unchecked("%s was not read: %s", id.Short(), unreadReason(v.s, id))
		case subnet.RouteTable != "" && v.s.Table(subnet.RouteTable) == nil:
			c.unchecked("%s was not read: %s", subnet.RouteTable.Short(),
				unreadReason(v.s, subnet.RouteTable))
		default:
			v.judgeEgress(c, subnet)
		}
	}
	if len(subnets) == 0 {
		v.about(topicEgress, "egress", v.Cluster.ID, nil).unchecked(noSubnet)
	}
}

// judgeEgress judges the egress of a node subnet that was read with its table.
func (v *verifier) judgeEgress(c draft, subnet *inventory.Subnet) {
	kind := v.Cluster.Outbound
	byTable := strings.EqualFold(kind, "userDefinedRouting")
	byNAT := strings.HasSuffix(strings.ToLower(kind), "natgateway")
	dropped := false
	var routes []string
	if table := v.s.Table(subnet.RouteTable); table != nil {
		for _, r := range table.Default() {
			dropped = dropped || strings.EqualFold(r.HopType, inventory.HopNone)
			routes = append(routes, fmt.Sprintf("%s to %s by %s in %s", r.Prefix, r.NextHop(),
				r.Name, table.ID.Short()))
		}
	}
	by := trace.Exit(subnet, v.Cluster)
	past := ""
	for _, e := range v.AstrayEgress {
		if e.Subnet.Equal(subnet.ID) && past == "" {
			past = e.String()
		}
	}
	ways := strings.Join(routes, ", ")
	if ways == "" {
		ways = "no table has a route for 0.0.0.0/0, and nothing else gives egress: dropped"
		if by != "" {
			ways = "no table has a route for 0.0.0.0/0: packets leave by " + by
		}
	}
	switch {
	case kind == "":
		c.unchecked("the cluster's document names no outboundType")
	case past != "":
		c.wrong("%s", past)
	case byTable && len(routes) == 0, len(routes) == 0 && by == "" && !cutOff(kind):
		c.wrong("outboundType %s, and %s", kind, ways)
	case dropped && !cutOff(kind):
		c.wrong("outboundType %s, and the packets are dropped: %s", kind, ways)
	case byNAT && subnet.NATGateway == "":
		c.unchecked("outboundType %s, and the subnet shows no NAT gateway", kind)
	default:
		c.right("outboundType %s; %s", kind, ways)
	}
}

// cutOff reports whether a cluster's nodes should have no egress.
func cutOff(outbound string) bool {
	return strings.EqualFold(outbound, "none") || strings.EqualFold(outbound, "block")
}

// gateways claims that the Application Gateways exist, are fit for the add-on, and reach the pods.
func (v *verifier) gateways() {
	shown := false
	for _, place := range v.Gateways {
		shown = shown || place.Drives
		v.gateway(place)
	}
	if v.Cluster.IngressAddon && !shown {
		v.gateway(diagnose.GatewayPlace{Gateways: []arm.ID{v.Cluster.Ingress}, Drives: true})
	}
}

func (v *verifier) gateway(place diagnose.GatewayPlace) {
	names := make([]string, len(place.Gateways))
	for i, id := range place.Gateways {
		names[i] = shortOr(id, "of the ingress add-on")
	}
	resource := place.Gateways[0]
	if place.Drives {
		resource = v.Cluster.Ingress
	}
	c := v.about(topicGateway, "Application Gateway "+strings.Join(names, ", "), resource,
		v.againstGateway(place))
	if !place.Drives {
		c.right("it is in %s%s", place.Subnet.Short(), v.podAccess(place))
		return
	}
	gateway := v.s.Gateways[resource.Key()]
	switch {
	case gateway == nil:
		c.unchecked("the ingress add-on drives it, and it was not read: %s",
			unreadReason(v.s, resource))
	case gateway.Tier == "":
		c.unchecked("the ingress add-on drives it, and its document names no SKU")
	case place.Subnet == "":
		c.unchecked("the ingress add-on drives it (%s), and no subnet that was read shows it",
			gateway.Tier)
	case !slices.ContainsFunc(gateway.Subnets, place.Subnet.Equal):
		c.wrong("subnet %s shows it, but its own document names another subnet",
			place.Subnet.Short())
	default:
		c.right("the ingress add-on drives it (%s), in %s%s", gateway.Tier, place.Subnet.Short(),
			v.podAccess(place))
	}
}

// againstGateway returns the findings about a gateway, its subnet and its table.
func (v *verifier) againstGateway(place diagnose.GatewayPlace) (wrong []finding.Finding) {
	if place.Drives {
		wrong = v.against("", finding.GatewayMissing, finding.GatewayDiffers,
			finding.GatewayNotV2, finding.GatewayStopped)
	}
	if place.Subnet != "" {
		wrong = append(wrong,
			v.against(place.Subnet, finding.GatewaySharesTable, finding.GatewayNoTable)...)
		wrong = append(wrong, v.against("", finding.PeeringMissing, finding.PeeringForwarding)...)
	}
	if place.Table != "" {
		wrong = append(wrong, v.against(place.Table, finding.GatewayDefaultRoute,
			finding.GatewayRoutesMissing, finding.NextHopUnreachable, finding.RoutesUnkept,
			finding.TargetDrift, finding.TargetFull, finding.PrefixTaken)...)
	}
	return wrong
}

// podAccess returns how a gateway reaches the pods.
func (v *verifier) podAccess(place diagnose.GatewayPlace) string {
	switch {
	case v.Cluster.Kubenet() && place.Table != "":
		return ", with the route table " + place.Table.Short()
	case v.Cluster.Overlay():
		return ", and learns where pods are by itself"
	case v.Cluster.Kubenet():
		return ", without a route table"
	}
	return ", and pods have addresses of the network"
}

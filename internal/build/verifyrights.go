package build

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// roles claims that the cluster's identity has the rights that it needs on what AKS did not make.
func (v *verifier) roles() {
	const all = "roles of the cluster's identity"
	if len(v.Scopes) == 0 {
		v.claim(topicRoles, all, v.Cluster.ID, ClaimRight, "none has to be assigned: AKS made the network itself", nil)
		return
	}
	for _, scope := range v.Scopes {
		what := "role of the cluster's identity on " + scope.Short()
		wrong := v.wrong(scope, finding.IdentityLacks)
		rights, why := v.rightsAt(scope)
		if why != "" {
			v.unchecked(topicRoles, what, scope, wrong, "%s", why)
			continue
		}
		v.claim(topicRoles, what, scope, ClaimRight, strings.Join(rights.Roles, ", "), wrong)
	}
}

// rightsAt are the rights of the cluster's identity at a scope, or why they are not known.
func (v *verifier) rightsAt(scope arm.ID) (inventory.Rights, string) {
	if len(v.Cluster.PrincipalIDs) == 0 {
		return inventory.Rights{}, "the cluster has a service principal, and its document does not name its object ID"
	}
	for _, id := range v.Cluster.PrincipalIDs {
		r, read := v.s.Rights[id][scope.Key()]
		switch why := strings.TrimSpace(r.Failed + " " + r.Undenied); {
		case !read:
		case why != "":
			return r, "the role assignments could not be read in full: " + why
		case len(r.Permissions) > 0:
			return r, ""
		}
	}
	for _, id := range v.Cluster.PrincipalIDs {
		if r, read := v.s.Rights[id][scope.Key()]; read {
			return r, ""
		}
	}
	return inventory.Rights{}, "the role assignments were not read"
}

// keeperRights claims that whoever runs routekeeper has the rights that the config asks for.
func (v *verifier) keeperRights() {
	if v.Config == nil || v.proposed {
		return
	}
	const what = "rights of the identity that runs routekeeper"
	wrong := v.wrong("", finding.CallerLacks)
	for _, f := range v.found {
		if f.Code == finding.RightsUnread && f.Subject == string(finding.CallerLacks) {
			v.unchecked(topicKeeper, what, v.Cluster.ID, wrong, "%s", f.Message)
			return
		}
	}
	if len(v.s.Own) == 0 {
		v.unchecked(topicKeeper, what, v.Cluster.ID, wrong, "they were not read")
		return
	}
	v.claim(topicKeeper, what, v.Cluster.ID, ClaimRight, "what the config asks for", wrong)
}

// egress claims that the nodes leave as the cluster's outboundType says.
func (v *verifier) egress() {
	kind := v.Cluster.Outbound
	byTable := strings.EqualFold(kind, "userDefinedRouting")
	for _, exit := range v.Exits {
		what := "egress of " + exit.Subnet.Short()
		wrong := v.wrong(exit.Subnet, finding.EgressRouteMissing, finding.EgressDiffers)
		if exit.Table != "" {
			wrong = append(wrong, v.wrong(exit.Table, finding.EgressDropped, finding.NextHopUnreachable)...)
		}
		ways := make([]string, len(exit.Routes))
		for i, r := range exit.Routes {
			ways[i] = fmt.Sprintf("%s to %s by %s in %s", r.Prefix, r.NextHop(), r.Name, exit.Table.Short())
		}
		how := "outboundType " + kind
		switch {
		case !exit.Read:
			id := exit.Subnet
			if exit.Table != "" {
				id = exit.Table
			}
			v.unchecked(topicEgress, what, exit.Subnet, wrong, "%s was not read: %s", id.Short(), unreadReason(v.s, id))
		case kind == "":
			v.unchecked(topicEgress, what, exit.Subnet, wrong, "the cluster's document names no outboundType")
		case byTable && len(ways) == 0:
			v.claim(topicEgress, what, exit.Subnet, ClaimWrong, how+", and no table of the subnet has a route for 0.0.0.0/0", wrong)
		case len(ways) > 0 && strings.EqualFold(exit.Routes[0].HopType, inventory.HopNone) && !cutOff(kind):
			v.claim(topicEgress, what, exit.Subnet, ClaimWrong, how+", and the packets are dropped: "+strings.Join(ways, ", "), wrong)
		case byTable || len(ways) > 0:
			v.claim(topicEgress, what, exit.Subnet, ClaimRight, how+"; "+strings.Join(ways, ", "), wrong)
		case strings.HasSuffix(strings.ToLower(kind), "natgateway") && exit.Gateway == "":
			v.unchecked(topicEgress, what, exit.Subnet, wrong, "%s, and the subnet shows no NAT gateway", how)
		case exit.Gateway != "":
			v.claim(topicEgress, what, exit.Subnet, ClaimRight, how+" "+exit.Gateway.Short()+"; no table has a route for 0.0.0.0/0", wrong)
		default:
			v.claim(topicEgress, what, exit.Subnet, ClaimRight, how+"; no table has a route for 0.0.0.0/0", wrong)
		}
	}
	if len(v.Exits) == 0 {
		v.unchecked(topicEgress, "egress", v.Cluster.ID, nil, "no node subnet was seen, which can be for want of rights on the node resource group")
	}
}

// cutOff reports whether a cluster's nodes are not meant to leave.
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
	what := "Application Gateway " + strings.Join(names, ", ")
	resource := place.Gateways[0]
	var wrong []finding.Finding
	if place.Subnet != "" {
		wrong = v.wrong(place.Subnet, finding.GatewaySharesTable, finding.GatewayNoTable)
		wrong = append(wrong, v.wrong("", finding.PeeringMissing, finding.PeeringForwarding)...)
	}
	if place.Table != "" {
		wrong = append(wrong, v.wrong(place.Table, finding.GatewayDefaultRoute, finding.GatewayRoutesMissing,
			finding.NextHopUnreachable, finding.RoutesUnkept, finding.TargetDrift, finding.TargetFull, finding.PrefixTaken)...)
	}
	if !place.Drives {
		v.claim(topicGateway, what, resource, ClaimRight, "it is in "+place.Subnet.Short()+v.by(place), wrong)
		return
	}
	resource = v.Cluster.Ingress
	wrong = append(v.wrong("", finding.GatewayMissing, finding.GatewayNotV2, finding.GatewayStopped), wrong...)
	gateway := v.s.Gateways[resource.Key()]
	switch {
	case gateway == nil:
		v.unchecked(topicGateway, what, resource, wrong, "the ingress add-on drives it, and it was not read: %s", unreadReason(v.s, resource))
	case gateway.Tier == "":
		v.unchecked(topicGateway, what, resource, wrong, "the ingress add-on drives it, and its document names no SKU")
	case place.Subnet == "":
		v.unchecked(topicGateway, what, resource, wrong, "the ingress add-on drives it (%s), and no subnet that was read shows it", gateway.Tier)
	case !slices.ContainsFunc(gateway.Subnets, place.Subnet.Equal):
		v.claim(topicGateway, what, resource, ClaimWrong, fmt.Sprintf("it says that it is in another subnet than %s, which shows it", place.Subnet.Short()), wrong)
	default:
		v.claim(topicGateway, what, resource, ClaimRight, fmt.Sprintf("the ingress add-on drives it (%s), in %s%s", gateway.Tier, place.Subnet.Short(), v.by(place)), wrong)
	}
}

// by says how a gateway reaches the pods.
func (v *verifier) by(place diagnose.GatewayPlace) string {
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

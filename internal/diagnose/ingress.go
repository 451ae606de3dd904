package diagnose

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// checkIngress checks the Application Gateway of the ingress add-on. Only a GET that answered 404
// proves that the gateway does not exist. A document that was not read proves nothing.
func checkIngress(p *clusterCase) {
	if !p.cluster.IngressAddon {
		return
	}
	id := p.cluster.Ingress
	if id == "" {
		p.add(p.found(finding.GatewayMissing, p.cluster.ID,
			"the ingress add-on of cluster %s is enabled, but has no Application Gateway",
			p.cluster.ID.Short()).
			WithFix("%s", p.azAKS("enable-addons", "--addons ingress-appgw --appgw-id GATEWAY")))
		return
	}
	gateway := p.s.Gateways[id.Key()]
	asked := p.cluster.IngressAsked
	switch {
	case asked != "" && !asked.Equal(id):
		p.add(p.found(finding.GatewayDiffers, id,
			"the ingress add-on of cluster %s drives Application Gateway %s, but its settings "+
				"name %s",
			p.cluster.ID.Short(), id.Short(), asked.Short()).
			WithFix("%s", p.azAKS("enable-addons", "--addons ingress-appgw --appgw-id %s",
				asked)))
	case gateway == nil && p.s.Unread[id.Key()].Absent:
		p.add(p.found(finding.GatewayMissing, id,
			"Application Gateway %s of the ingress add-on of cluster %s does not exist",
			id.Short(), p.cluster.ID.Short()).
			WithFix("%s", p.azAKS("disable-addons", "--addons ingress-appgw")))
	case gateway == nil:
	case gateway.Tier != "" && !strings.HasSuffix(strings.ToLower(gateway.Tier), "_v2"):
		p.add(p.found(finding.GatewayNotV2, id,
			"Application Gateway %s of the ingress add-on of cluster %s has the tier %s, but the "+
				"add-on needs v2",
			id.Short(), p.cluster.ID.Short(), gateway.Tier))
	case strings.EqualFold(gateway.Operational, "Stopped"):
		p.add(p.found(finding.GatewayStopped, id,
			"Application Gateway %s of the ingress add-on of cluster %s is stopped",
			id.Short(), p.cluster.ID.Short()).
			WithFix("az network application-gateway start --ids %s", id))
	}
}

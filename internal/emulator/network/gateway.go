package network

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// gateways are the Application Gateways.
type gateways struct{ *Network }

// acceptsWrites accepts every write of an Application Gateway while an operation runs on it: the
// last one counts (recorded).
func acceptsWrites(*kernel.Resource) *kernel.Failure { return nil }

// settleGateway checks an Application Gateway's subnet and addresses.
func (s *gateways) settleGateway(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	configurations := kernel.ListAt(properties, "gatewayIPConfigurations")
	if len(configurations) == 0 {
		return kernel.Bad("ApplicationGatewayMustHaveGatewayIPConfiguration",
			"Application gateway %s must have a gatewayIPConfiguration.", r.ID)
	}
	keepGUID(r, old)
	gatewayParts.drop(properties)
	keepPublic(properties, old)
	properties["operationalState"] = "Running"
	if old != nil {
		properties["operationalState"] = old.Properties()["operationalState"]
	}
	for _, configuration := range configurations {
		subnet := s.kernel.Store.Get(kernel.LinkOf(configuration, "subnet"))
		if subnet == nil {
			return kernel.Unparsable("gatewayIPConfiguration %s of %s has no subnet.",
				kernel.Text(configuration, "name"), r.ID)
		}
		if isolated(r.Body) && !delegated(subnet.Body) {
			return kernel.Bad("ApplicationGatewayNetworkIsolationRequiresSubnetDelegation",
				"Application Gateway %s with NetworkIsolation requires subnet delegation. Please "+
					"delegate subnet %s to Microsoft.Network/applicationGateways.", r.ID, subnet.ID)
		}
		if table := s.kernel.Store.Get(kernel.LinkOf(subnet.Body, "routeTable")); table != nil &&
			classicV2(r.Body) {
			if f := checkGatewayTable(table, r.ID); f != nil {
				return f
			}
		}
	}
	return nil
}

// gatewayIn returns the IP configuration of an Application Gateway in the subnet, or "".
func (s *gateways) gatewayIn(subnet arm.ID) arm.ID {
	for _, user := range s.users(subnet) {
		if user.Is(arm.TypeGateway + "/gatewayIPConfigurations") {
			return user
		}
	}
	return ""
}

// classicIn returns the IP configuration of a classic Application Gateway v2 in the subnet, or "".
func (s *gateways) classicIn(subnet arm.ID) arm.ID {
	in := s.gatewayIn(subnet)
	if r := s.kernel.Store.Get(in.Parent()); in != "" && r != nil && classicV2(r.Body) {
		return in
	}
	return ""
}

// classicV2 reports whether a gateway's subnet must lead 0.0.0.0/0 to the Internet. A v2 gateway
// requires this, unless it has network isolation (application-gateway-private-deployment).
func classicV2(body kernel.Object) bool {
	tier := kernel.Text(body, "properties", "sku", "tier")
	return !isolated(body) && (tier == "" || strings.HasSuffix(tier, "_v2"))
}

func isolated(body kernel.Object) bool {
	return kernel.ObjectAt(body, "properties")["enableApplicationGatewayNetworkIsolation"] == true
}

// delegated reports whether the subnet is delegated to Application Gateways, as the subnet of a
// gateway with network isolation is.
func delegated(subnet kernel.Object) bool {
	return slices.ContainsFunc(kernel.ListAt(subnet, "properties", "delegations"),
		func(d kernel.Object) bool {
			return strings.EqualFold(kernel.Text(d, "properties", "serviceName"), arm.TypeGateway)
		})
}

// inGateway starts and stops an Application Gateway, says how its servers are, and answers for its
// private links.
func (s *gateways) inGateway(c *kernel.Call, r *kernel.Resource, rest []string) (kernel.Reply,
	*kernel.Failure, bool) {
	states := map[string]string{"start": "Running", "stop": "Stopped"}
	switch verb := rest[0]; {
	case verb == "privatelinkresources", verb == "privateendpointconnections":
		return kernel.Handled(s.links(c, r, verb == "privateendpointconnections"))
	case c.Method != http.MethodPost || len(rest) != 1:
		return kernel.Reply{}, nil, false
	case verb == "backendhealth":
		return s.health(c, r), nil, true
	case states[verb] == "":
		return kernel.Reply{}, kernel.NotFound(c), true
	}
	k := s.kernel
	if f := k.Busy(r.ID); f != nil {
		return kernel.Reply{}, f, true
	}
	r.Properties()["operationalState"] = states[rest[0]]
	r.Retag(time.Now().Add(k.OperationTime(c)))
	k.Store.Changed(r)
	k.Record(c, r.ID, rest[0]+"/action", nil)
	return k.Accepted(c, nil), nil, true
}

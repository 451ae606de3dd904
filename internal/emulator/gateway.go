package emulator

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// settleGateway checks an Application Gateway as far as its place in a subnet goes.
func (s *network) settleGateway(c *call, r, old *resource) *failure {
	properties := objectAt(r.body, "properties")
	camelCase(properties)
	configurations := listAt(properties, "gatewayIPConfigurations")
	if len(configurations) == 0 {
		return fail(http.StatusBadRequest, "ApplicationGatewayMustHaveGatewayIPConfiguration",
			"Application gateway %s must have a gatewayIPConfiguration.", r.id)
	}
	keepGUID(r, old)
	dropGatewayBack(properties)
	properties["operationalState"] = "Running"
	if old != nil {
		properties["operationalState"] = objectAt(old.body, "properties")["operationalState"]
	}
	for _, configuration := range configurations {
		subnet := s.kernel.store.get(linkOf(configuration, "subnet"))
		if subnet == nil {
			return fail(http.StatusBadRequest, "InvalidRequestFormat",
				"Cannot parse the request: gatewayIPConfiguration %s of %s has no subnet.",
				text(configuration, "name"), r.id)
		}
		if isolated := objectAt(r.body,
			"properties")["enableApplicationGatewayNetworkIsolation"]; isolated == true &&
			!delegated(subnet.body) {
			return fail(http.StatusBadRequest,
				"ApplicationGatewayNetworkIsolationRequiresSubnetDelegation",
				"Application Gateway %s with NetworkIsolation requires subnet delegation. Please "+
					"delegate subnet %s to Microsoft.Network/applicationGateways.", r.id, subnet.id)
		}
		if table := s.kernel.store.get(linkOf(subnet.body, "routeTable")); table != nil &&
			!delegated(subnet.body) {
			if f := gatewayTakes(table.id, listAt(objectAt(table.body, "properties"), "routes"),
				r.id); f != nil {
				return f
			}
		}
	}
	return nil
}

// gatewayIn is the IP configuration of an Application Gateway in the subnet, or "".
func (s *network) gatewayIn(subnet arm.ID) arm.ID {
	users := s.kernel.store.linked[subnet.Key()]
	for _, key := range slices.Sorted(maps.Keys(users)) {
		if users[key].Is(arm.TypeGateway + "/gatewayIPConfigurations") {
			return users[key]
		}
	}
	return ""
}

// delegated reports whether the subnet is delegated to Application Gateways, as it is for one with
// network isolation.
func delegated(subnet object) bool {
	return slices.ContainsFunc(listAt(objectAt(subnet, "properties"), "delegations"),
		func(d object) bool {
			return strings.EqualFold(text(objectAt(d, "properties"), "serviceName"),
				arm.TypeGateway)
		})
}

// gatewayCall starts and stops an Application Gateway, and says how its servers are.
func (s *network) gatewayCall(c *call) (reply, *failure, bool) {
	if c.method != http.MethodPost || len(c.path) != 9 ||
		!strings.EqualFold(c.path[6], "applicationGateways") {
		return reply{}, nil, false
	}
	states := map[string]string{"start": "Running", "stop": "Stopped"}
	verb := strings.ToLower(c.path[8])
	id := arm.ID("/" + strings.Join(c.path[:8], "/"))
	r := s.kernel.store.get(id)
	switch {
	case states[verb] == "" && healthAsked(c) == "":
		return reply{}, notFound(c), true
	case r == nil:
		return reply{}, s.kernel.missing(id), true
	}
	if healthAsked(c) != "" {
		answer, f := s.health(c, r)
		return answer, f, true
	}
	if f := s.kernel.busy(id); f != nil {
		return reply{}, f, true
	}
	objectAt(r.body, "properties")["operationalState"] = states[verb]
	r.retag(time.Now().Add(s.kernel.operationTime(c)))
	s.kernel.store.changed(r)
	s.kernel.record(c, id, verb+"/action", nil)
	return s.kernel.accepted(c, nil), nil, true
}

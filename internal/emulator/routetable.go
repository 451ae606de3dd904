package emulator

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// settleRouteTable checks a table's routes.
func (s *network) settleRouteTable(c *call, r, old *resource) *failure {
	properties := objectAt(r.body, "properties")
	keepGUID(r, old)
	if properties["disableBgpRoutePropagation"] == nil {
		properties["disableBgpRoutePropagation"] = false
	}
	if f := checkList(properties, "routes"); f != nil {
		return f
	}
	routes := listAt(properties, "routes")
	stored := make([]any, 0, len(routes))
	names, prefixes := map[string]bool{}, map[string]string{}
	for _, route := range routes {
		f := settleRoute(route)
		if f != nil {
			return f
		}
		name, prefix := strings.ToLower(text(route, "name")), text(objectAt(route, "properties"),
			"addressPrefix")
		if p, err := netip.ParsePrefix(prefix); err == nil {
			prefix = p.String() // one prefix has several spellings
		}
		if names[name] {
			return fail(http.StatusBadRequest, "InvalidRequestFormat",
				"Cannot parse the request: there are two routes named %s.", text(route, "name"))
		}
		names[name] = true
		if other, taken := prefixes[prefix]; taken {
			return fail(http.StatusConflict, "RouteConflict",
				"Route %s has the same address prefix %s as route %s.", text(route,
					"name"), prefix, other)
		}
		prefixes[prefix] = text(route, "name")
		stored = append(stored, route)
	}
	if len(stored) > s.opts.RouteLimit {
		return fail(http.StatusBadRequest, "RouteLimitExceeded",
			"Route table %s cannot have more than %d routes.", r.id.Name(),
			s.opts.RouteLimit)
	}
	properties["routes"] = stored
	for _, subnet := range s.linked[r.id.Key()] {
		if f := firewallTakes(subnet, r.id, routes); f != nil {
			return f
		}
		if holder := s.kernel.store.get(subnet); !delegated(holder.body) {
			if f := gatewayTakes(r.id, routes, s.gatewayIn(subnet)); f != nil {
				return f
			}
		}
	}
	return nil
}

var serviceTag = regexp.MustCompile(`^[A-Z][A-Za-z]+(\.[A-Za-z0-9]+)?$`)

// settleRoute checks one route and brings it into the form in which it is stored.
func settleRoute(route object) *failure {
	for _, readOnly := range []string{"id", "etag", "type"} {
		delete(route, readOnly)
	}
	name := text(route, "name")
	properties := objectAt(route, "properties")
	if name == "" || properties == nil {
		return fail(http.StatusBadRequest, "InvalidRequestFormat",
			"Cannot parse the request: a route needs a name and properties.")
	}
	delete(properties, "provisioningState")
	prefix, hopType, hop := text(properties, "addressPrefix"), text(properties,
		"nextHopType"), text(properties, "nextHopIpAddress")
	if !serviceTag.MatchString(prefix) {
		if f := checkPrefix(prefix); f != nil {
			return f
		}
	}
	types := []string{inventory.HopAppliance, inventory.HopGateway, inventory.HopVNet,
		inventory.HopInternet, inventory.HopNone}
	i := slices.IndexFunc(types, func(t string) bool { return strings.EqualFold(t, hopType) })
	if i < 0 {
		return fail(http.StatusBadRequest, "InvalidRequestFormat",
			"Cannot parse the request: nextHopType %q of route %s is unknown.", hopType, name)
	}
	properties["nextHopType"] = types[i]
	if types[i] == inventory.HopAppliance {
		if _, err := netip.ParseAddr(hop); err != nil {
			return fail(http.StatusBadRequest, "InvalidNextHopIpAddress", "Route %s with next "+
				"hop type VirtualAppliance needs a valid nextHopIpAddress, not %q.", name, hop)
		}
	} else if hop != "" {
		return fail(http.StatusBadRequest, "NextHopIpAddressNotAllowed",
			"Route %s with next hop type %s cannot have a nextHopIpAddress.", name, types[i])
	}
	if properties["hasBgpOverride"] == nil {
		properties["hasBgpOverride"] = false
	}
	return nil
}

// gatewayTakes refuses a default route to anywhere but the Internet on the subnet of a classic
// Application Gateway v2.
func gatewayTakes(table arm.ID, routes []object, gateway arm.ID) *failure {
	if gateway == "" {
		return nil
	}
	for _, route := range routes {
		p := objectAt(route, "properties")
		if text(p, "addressPrefix") == "0.0.0.0/0" &&
			text(p, "nextHopType") != inventory.HopInternet {
			return fail(http.StatusBadRequest, "ApplicationGatewaySubnetRouteTableNotSupported",
				"For routes associated to subnet containing Application Gateway V2, please "+
					"ensure '0.0.0.0/0' uses Next Hop Type as 'Internet'. Route table %s, "+
					"application gateway %s.", table, gateway)
		}
	}
	return nil
}

// keepGUID gives a resource its resourceGuid, the one it had before where there was one.
func keepGUID(r, old *resource) {
	guid := uuid.NewString()
	if old != nil {
		guid = text(objectAt(old.body, "properties"), "resourceGuid")
	}
	objectAt(r.body, "properties")["resourceGuid"] = guid
}

// beingUpdated refuses a write to a resource on which an operation runs. The reason is in the
// details.
func beingUpdated(r *resource) *failure {
	f := fail(http.StatusTooManyRequests, "RetryableError", "A retryable error occurred.")
	f.retryAfter = min(14, max(1, int(math.Ceil(time.Until(r.busyUntil).Seconds()))))
	f.details = []any{object{
		"code": "RetryableErrorDueToAnotherOperation",
		"message": fmt.Sprintf(
			"Operation Put%sOperation (%s) is updating resource %s. The call can be retried in "+
				"%d seconds.",
			strings.TrimSuffix(
				strings.ToUpper(lastWord(r.id)[:1])+lastWord(r.id)[1:],
				"s",
			),
			uuid.NewString(),
			r.id,
			f.retryAfter,
		),
	}}
	return f
}

// lastWord is the last word of a type.
func lastWord(id arm.ID) string {
	words := strings.Split(id.Type(), "/")
	return words[len(words)-1]
}

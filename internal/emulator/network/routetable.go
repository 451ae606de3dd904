package network

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// settleRouteTable checks a table's routes.
func (s *Network) settleRouteTable(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	keepGUID(r, old)
	kernel.SetDefault(properties, "disableBgpRoutePropagation", false)
	if f := kernel.CheckList(properties, "routes"); f != nil {
		return f
	}
	routes := kernel.ListAt(properties, "routes")
	stored := make([]any, 0, len(routes))
	names, prefixes := map[string]bool{}, map[string]string{}
	for _, route := range routes {
		f := settleRoute(route, r.ID)
		if f != nil {
			return f
		}
		name, prefix := strings.ToLower(kernel.Text(route, "name")),
			kernel.Text(route, "properties", "addressPrefix")
		if p, err := netip.ParsePrefix(prefix); err == nil {
			prefix = p.String() // one prefix has several spellings
		}
		if names[name] {
			return kernel.Unparsable("there are two routes named %s.", kernel.Text(route, "name"))
		}
		names[name] = true
		if other, taken := prefixes[prefix]; taken {
			return kernel.Fail(http.StatusConflict, "RouteConflict", "Route %s has the same "+
				"address prefix %s as route %s.", kernel.Text(route, "name"), prefix, other)
		}
		prefixes[prefix] = kernel.Text(route, "name")
		stored = append(stored, route)
	}
	if len(stored) > s.Opts.RouteLimit {
		return kernel.Bad("RouteLimitExceeded", "Route table %s cannot have more than %d routes.",
			r.ID.Name(), s.Opts.RouteLimit)
	}
	properties["routes"] = stored
	for _, subnet := range s.Linked[r.ID.Key()] {
		if f := checkFirewallTable(subnet, r); f != nil {
			return f
		}
		if f := checkGatewayTable(r, s.gateways.classicIn(subnet)); f != nil {
			return f
		}
	}
	return nil
}

var serviceTag = lazy.Regexp(`^[A-Z][A-Za-z]+(\.[A-Za-z0-9]+)?$`)

// settleRoute checks one route and changes it to its stored form.
func settleRoute(route kernel.Object, table arm.ID) *kernel.Failure {
	dropReadOnly(route)
	name := kernel.Text(route, "name")
	properties := kernel.ObjectAt(route, "properties")
	if name == "" || properties == nil {
		return kernel.Unparsable("a route needs a name and properties.")
	}
	prefix, hopType, hop := kernel.Text(properties, "addressPrefix"), kernel.Text(properties,
		"nextHopType"), kernel.Text(properties, "nextHopIpAddress")
	if !serviceTag().MatchString(prefix) {
		if f := CheckPrefix(prefix, table.Child("routes", name)); f != nil {
			return f
		}
	}
	types := []string{inventory.HopAppliance, inventory.HopGateway, inventory.HopVNet,
		inventory.HopInternet, inventory.HopNone}
	i := slices.IndexFunc(types, func(t string) bool { return strings.EqualFold(t, hopType) })
	if i < 0 {
		return kernel.Unparsable("nextHopType %q of route %s is unknown.", hopType, name)
	}
	properties["nextHopType"] = types[i]
	if types[i] == inventory.HopAppliance {
		if _, err := netip.ParseAddr(hop); err != nil {
			return kernel.Bad("InvalidNextHopIpAddress", "Route %s with next hop type "+
				"VirtualAppliance needs a valid nextHopIpAddress, not %q.", name, hop)
		}
	} else if hop != "" {
		return kernel.Bad("NextHopIpAddressNotAllowed",
			"Route %s with next hop type %s cannot have a nextHopIpAddress.", name, types[i])
	}
	kernel.SetDefault(properties, "hasBgpOverride", false)
	return nil
}

// checkGatewayTable refuses a default route with a next hop other than the Internet on the subnet
// of a classic Application Gateway v2.
func checkGatewayTable(table *kernel.Resource, gateway arm.ID) *kernel.Failure {
	if gateway == "" {
		return nil
	}
	for _, route := range kernel.ListAt(table.Properties(), "routes") {
		p := kernel.ObjectAt(route, "properties")
		if kernel.Text(p, "addressPrefix") == "0.0.0.0/0" &&
			kernel.Text(p, "nextHopType") != inventory.HopInternet {
			return kernel.Bad("ApplicationGatewaySubnetRouteTableNotSupported",
				"For routes associated to subnet containing Application Gateway V2, please "+
					"ensure '0.0.0.0/0' uses Next Hop Type as 'Internet'. Route table %s, "+
					"application gateway %s.", table.ID, gateway)
		}
	}
	return nil
}

// keepGUID gives a resource its resourceGuid: the former one, if it had one.
func keepGUID(r, old *kernel.Resource) {
	guid := uuid.NewString()
	if old != nil {
		guid = kernel.Text(old.Properties(), "resourceGuid")
	}
	r.Properties()["resourceGuid"] = guid
}

// beingUpdated refuses a write to a resource while an operation runs on it. The reason is in the
// details.
func beingUpdated(r *kernel.Resource) *kernel.Failure {
	f := kernel.Fail(http.StatusTooManyRequests, "RetryableError", "A retryable error occurred.")
	f.RetryAfter = min(14, max(1, int(math.Ceil(time.Until(r.BusyUntil).Seconds()))))
	f.Details = []any{kernel.Object{
		"code": "RetryableErrorDueToAnotherOperation",
		"message": fmt.Sprintf("Operation Put%sOperation (%s) is updating resource %s. The call "+
			"can be retried in %d seconds.", strings.TrimSuffix(strings.ToUpper(
			lastWord(r.ID)[:1])+lastWord(r.ID)[1:], "s"), uuid.NewString(), r.ID, f.RetryAfter),
	}}
	return f
}

// lastWord returns the last word of a type.
func lastWord(id arm.ID) string {
	words := strings.Split(id.Type(), "/")
	return words[len(words)-1]
}

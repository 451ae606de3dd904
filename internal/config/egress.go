package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// routeName is a valid name of a route (resource-name-rules: 1 to 80 letters, digits, underscores,
// periods and hyphens; it starts with a letter or digit, and ends with one or an underscore).
var routeName = lazy.Regexp(`^[a-zA-Z0-9]([-._a-zA-Z0-9]{0,78}[_a-zA-Z0-9])?$`)

// shared are addresses for networks that private ranges do not suffice for (RFC 6598).
var shared = netip.MustParsePrefix("100.64.0.0/10")

// checkEgress checks spec.egress by the rules that need no other config.
func (d *routes) checkEgress() error {
	e := &d.spec.Spec.Egress
	if reflect.ValueOf(*e).IsZero() {
		return nil
	}
	if err := d.checkID("spec.egress.routeTableID", &e.RouteTableID,
		arm.TypeRouteTable); err != nil {
		return err
	}
	if err := oneOf(d.document, "spec.egress.mode", e.Mode, v1alpha1.GuardObserve,
		v1alpha1.GuardEnforce); err != nil {
		return err
	}
	if e.FirewallID != "" {
		if err := d.checkID("spec.egress.firewallID", &e.FirewallID,
			arm.TypeFirewall, arm.TypeLoadBalancer, arm.TypeFrontend); err != nil {
			return err
		}
	}
	if len(e.Routes) == 0 {
		return d.errorf("spec.egress.routes", "missing, expected the routes that the table must "+
			"have, such as 0.0.0.0/0 to a firewall")
	}
	seen := map[netip.Prefix]bool{}
	if e.FirewallID != "" && !slices.ContainsFunc(e.Routes, func(r v1alpha1.EgressRoute) bool {
		return r.NextHopType == v1alpha1.HopAppliance
	}) {
		return d.errorf("spec.egress.firewallID", "no route leads to it, expected one with its "+
			"address in nextHopIPAddress")
	}
	for i, r := range e.Routes {
		prefix, err := d.checkEgressRoute(fmt.Sprintf("spec.egress.routes[%d]", i), r)
		if err != nil {
			return err
		}
		if seen[prefix] {
			return d.errorf(fmt.Sprintf("spec.egress.routes[%d].addressPrefix", i),
				"listed twice, expected each prefix once")
		}
		seen[prefix] = true
	}
	return nil
}

// checkEgressRoute checks one route. Packets to pods must not take it: only a default route may
// cover pod addresses, because the routes of nodes win over it.
func (d *routes) checkEgressRoute(at string, r v1alpha1.EgressRoute) (netip.Prefix, error) {
	prefix, hop := r.Leads()
	if !prefix.IsValid() {
		return prefix, d.errorf(at+".addressPrefix", "%s is not a prefix, expected one such as "+
			"0.0.0.0/0", quoted(r.AddressPrefix))
	}
	if prefix != prefix.Masked() {
		return prefix, d.errorf(at+".addressPrefix", "%s has host bits set, expected %s", prefix,
			prefix.Masked())
	}
	if err := oneOf(d.document, at+".nextHopType", r.NextHopType, v1alpha1.HopAppliance,
		v1alpha1.HopGateway, v1alpha1.HopInternet, v1alpha1.HopNone); err != nil {
		return prefix, err
	}
	switch addressed := r.NextHopType == v1alpha1.HopAppliance; {
	case r.Name != "" && !routeName().MatchString(r.Name):
		return prefix, d.errorf(at+".name", "%s is not a name of a route, expected 1 to 80 "+
			"letters, digits, periods, underscores and hyphens", quoted(r.Name))
	case !addressed && r.NextHopIPAddress != "":
		return prefix, d.errorf(at+".nextHopIPAddress", "nextHopType %s has no address, expected "+
			"it only with VirtualAppliance", r.NextHopType)
	case !addressed:
	case r.NextHopIPAddress == "":
		return prefix, d.errorf(at+".nextHopIPAddress", "missing, expected the appliance's "+
			"address, or another nextHopType")
	case !hop.IsValid() || hop.Zone() != "":
		return prefix, d.errorf(at+".nextHopIPAddress", "%s is not an address, expected one such "+
			"as 10.0.1.4", quoted(r.NextHopIPAddress))
	case !hop.IsPrivate() && !shared.Contains(hop):
		return prefix, d.errorf(at+".nextHopIPAddress", "%s is no private address, expected the "+
			"appliance's own address in its virtual network", hop)
	case hop.Is4() != prefix.Addr().Is4():
		return prefix, d.errorf(at+".nextHopIPAddress", "%s and %s are of two address families, "+
			"expected one", hop, prefix)
	}
	for _, text := range d.spec.Spec.PodCIDRs {
		pods, _ := PodCIDR(text) // checked before
		switch {
		case pods.Contains(hop):
			return prefix, d.errorf(at+".nextHopIPAddress", "%s is an address of pods (%s of "+
				"spec.podCIDRs), expected an appliance outside of the cluster", hop, pods)
		case prefix.Bits() > 0 && pods.Overlaps(prefix):
			return prefix, d.errorf(at+".addressPrefix", "%s overlaps %s of spec.podCIDRs, "+
				"expected 0.0.0.0/0 or a prefix without pods", prefix, pods)
		}
	}
	return prefix, nil
}

// checkEgressTable checks the table of spec.egress against all documents: the cloud provider of a
// cluster writes the cluster's route table, which can therefore only be watched, and two documents
// must not route one prefix to two next hops.
func (d *routes) checkEgressTable(docs []*routes) error {
	e := d.spec.Spec.Egress
	if e.Mode == v1alpha1.GuardEnforce {
		for _, other := range docs {
			if equalIDs(e.RouteTableID, other.spec.Spec.RouteTableID) {
				return d.errorf("spec.egress.mode", "the table is the route table of the cluster "+
					"%q (%s), whose cloud provider writes it: expected Observe, which watches it",
					other.spec.Metadata.Name, other.where("spec.routeTableID"))
			}
		}
		if inventory.IsManagedTable(arm.ID(e.RouteTableID)) {
			return d.errorf("spec.egress.mode", "%q is the name of a table that AKS made for a "+
				"cluster, whose cloud provider writes it: expected Observe, which watches it",
				arm.ID(e.RouteTableID).Name())
		}
	}
	for _, other := range docs {
		if other == d {
			return nil // later documents are compared with this one
		}
		if !equalIDs(e.RouteTableID, other.spec.Spec.Egress.RouteTableID) {
			continue
		}
		for i, r := range e.Routes {
			for j, o := range other.spec.Spec.Egress.Routes {
				to, hop := r.Leads()
				if otherTo, otherHop := o.Leads(); to == otherTo &&
					(hop != otherHop || r.NextHopType != o.NextHopType) {
					field := ".nextHopIPAddress"
					if r.NextHopType != o.NextHopType {
						field = ".nextHopType"
					}
					return d.errorf(fmt.Sprintf("spec.egress.routes[%d]%s", i, field),
						"%s names another next hop for %s in the same table, expected the same one",
						other.where(fmt.Sprintf("spec.egress.routes[%d]%s", j, field)),
						r.AddressPrefix)
				}
			}
		}
	}
	return nil
}

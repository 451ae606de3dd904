package picture

import (
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Subnet is a subnet with its route table.
type Subnet struct {
	ID       arm.ID         `json:"id"`
	Role     string         `json:"role"`
	Prefixes []netip.Prefix `json:"prefixes,omitempty"`
	Gateways []arm.ID       `json:"gateways,omitempty"` // the Application Gateways in it
	// Table is the table on the subnet, and Wanted the one that must be there. Each is "" if there
	// is none or it is not known.
	Table  arm.ID `json:"routeTable,omitempty"`
	Wanted arm.ID `json:"wantedRouteTable,omitempty"`
	// State is one of Right, Lost, Other and Unknown.
	State string `json:"state"`
	// Properties are the other properties that the config requires of the subnet.
	Properties []Property `json:"properties,omitempty"`
	Unread     string     `json:"unread,omitempty"`
}

// Property is a NAT gateway or a network security group that a subnet must have.
type Property struct {
	Property inventory.Property `json:"property"`
	Value    arm.ID             `json:"value,omitempty"` // what the subnet has, or ""
	Wanted   arm.ID             `json:"wanted"`
	State    string             `json:"state"` // as Subnet.State
}

// The states of a subnet's association.
const (
	Right   = "right"
	Lost    = "lost"  // the subnet has none
	Other   = "other" // the subnet has a different one
	Unknown = "unknown"
	// Unknown is the state of a subnet that was not read, or for which it is not certain which
	// table it must have. It is also the state of a route that may or may not work.
)

// Required returns everything that the subnet must have, as far as that is known, its table first.
func (s Subnet) Required() (all []Property) {
	if s.Wanted != "" || s.State != Unknown {
		all = append(all, Property{inventory.PropertyTable, s.Table, s.Wanted, s.State})
	}
	return append(all, s.Properties...)
}

func subnetOf(s *inventory.Snapshot, id arm.ID, role string, wanted arm.ID) Subnet {
	out := Subnet{ID: id, Role: role, Wanted: wanted, State: Unknown, Unread: reasonOf(s, id)}
	subnet := s.Subnet(id)
	if subnet == nil {
		return out
	}
	out.ID, out.Prefixes, out.Gateways = subnet.ID, subnet.Prefixes, subnet.Gateways
	out.Table, out.Unread = subnet.RouteTable, ""
	out.State = stateOf(subnet.RouteTable, wanted)
	return out
}

// addProperties adds the other properties that the config requires of a subnet.
func (s *Subnet) addProperties(snapshot *inventory.Snapshot, g v1alpha1.GuardedSubnet) {
	subnet := snapshot.Subnet(s.ID)
	for _, property := range inventory.Properties {
		wanted := plan.GuardedValue(g, property)
		if property == inventory.PropertyTable || wanted == "" {
			continue
		}
		p := Property{Property: property, Wanted: wanted, State: Unknown}
		if subnet != nil {
			p.Value = subnet.Has(property)
			p.State = stateOf(p.Value, wanted)
		}
		s.Properties = append(s.Properties, p)
	}
}

// stateOf returns the state of a property that must have a value.
func stateOf(has, wanted arm.ID) string {
	switch {
	case wanted == "":
		return Unknown
	case has.Equal(wanted):
		return Right
	case has == "":
		return Lost
	}
	return Other
}

// onTargets adds the subnets that the targets are on.
func (c *Cluster) onTargets(s plan.Facts, config *v1alpha1.ClusterRoutes) {
	for _, t := range config.Spec.Targets {
		table := s.Table(arm.ID(t.RouteTableID))
		if table == nil {
			continue
		}
		for _, id := range table.Subnets {
			if c.subnet(id) == nil &&
				(s.Subnet(id) == nil || s.Subnet(id).RouteTable.Equal(table.ID)) {
				subnet := subnetOf(s.Snapshot, id, RoleTarget, "")
				subnet.Table = table.ID
				c.Subnets = append(c.Subnets, subnet)
			}
		}
	}
}

func (c *Cluster) subnet(id arm.ID) *Subnet {
	if i := slices.IndexFunc(c.Subnets, func(s Subnet) bool { return s.ID.Equal(id) }); i >= 0 {
		return &c.Subnets[i]
	}
	return nil
}

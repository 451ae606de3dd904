package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Verb is what a Change does.
type Verb string

// A route is created, updated or deleted in a table. A subnet is associated with a table, a NAT
// gateway or a network security group.
const (
	Create    Verb = "create"
	Update    Verb = "update"
	Delete    Verb = "delete"
	Associate Verb = "associate"
)

// Change is one change to make. Dry runs, tables, JSON and logs all display this value.
type Change struct {
	Verb Verb `json:"verb"`
	// Resource is the route table or the subnet that is written.
	Resource arm.ID `json:"resource"`
	// Cluster is the metadata.name of the ClusterRoutes that requires it.
	Cluster string `json:"cluster"`
	// Route is the name of the route, or "" for an association.
	Route string `json:"route,omitempty"`
	// Old and New are the values before and after; nil if there is none.
	Old *Value `json:"old,omitempty"`
	New *Value `json:"new,omitempty"`
	Why string `json:"why"`
	// Repair is set if the change restores what an earlier check saw in place and another writer
	// has changed since. If no check saw a lost association in place, the change that restores it
	// is no Repair.
	Repair bool `json:"repair,omitempty"`
	// Egress is set for a route of spec.egress. All other routes are pod routes.
	Egress bool `json:"egress,omitempty"`
}

// ChangeKey identifies a change without its values: what it does to which route or subnet.
type ChangeKey struct {
	// ID.Key(), and the name in lower case. For an association, the property, or "" for the table.
	Resource, Route string
	Verb            Verb
}

// Key returns the key of a change. Azure ignores case in names.
func (c Change) Key() ChangeKey {
	key := ChangeKey{c.Resource.Key(), strings.ToLower(c.Route), c.Verb}
	if p, _ := c.New.Associated(); p != "" && p != inventory.PropertyTable {
		key.Route = string(p)
	}
	return key
}

// Value is one side of a Change: a route's fields, or what is associated with the subnet.
type Value struct {
	AddressPrefix    string `json:"addressPrefix,omitempty"`
	NextHopType      string `json:"nextHopType,omitempty"`
	NextHopIPAddress string `json:"nextHopIpAddress,omitempty"`
	RouteTable       arm.ID `json:"routeTable,omitempty"`
	NATGateway       arm.ID `json:"natGateway,omitempty"`
	SecurityGroup    arm.ID `json:"networkSecurityGroup,omitempty"`
}

func associated(p inventory.Property, id arm.ID) *Value {
	switch p {
	case inventory.PropertyNAT:
		return &Value{NATGateway: id}
	case inventory.PropertyGroup:
		return &Value{SecurityGroup: id}
	case inventory.PropertyTable:
	}
	return &Value{RouteTable: id}
}

// Associated returns the property of an association and its value; "" for a route or nil.
func (v *Value) Associated() (inventory.Property, arm.ID) {
	switch {
	case v == nil:
	case v.RouteTable != "":
		return inventory.PropertyTable, v.RouteTable
	case v.NATGateway != "":
		return inventory.PropertyNAT, v.NATGateway
	case v.SecurityGroup != "":
		return inventory.PropertyGroup, v.SecurityGroup
	}
	return "", ""
}

// String writes the value for a log: 10.244.0.0/24 to 10.240.0.4, the ID of what is associated, or
// nothing.
func (v *Value) String() string {
	_, id := v.Associated()
	switch {
	case v == nil:
		return ""
	case id != "":
		return string(id)
	case v.NextHopIPAddress != "":
		return v.AddressPrefix + " to " + v.NextHopIPAddress
	}
	return v.AddressPrefix + " to " + v.NextHopType
}

// Outcome is the result of a Change.
type Outcome struct {
	Change
	// State is one of the states below.
	State OutcomeState `json:"state"`
	// Error says why the change failed.
	Error string `json:"error,omitempty"`
	// Undone is set if Azure accepted the write, but the change was gone when it was read back.
	Undone bool `json:"-"`
	// Ended is when the change was seen done, or zero if it is not done or the time is unknown.
	Ended time.Time `json:"-"`
}

// OutcomeState is the result of a Change. It was only planned, in a dry run; done, and confirmed by
// reading back; obsolete, because a new read showed it done or no longer wanted; failed; skipped,
// because the program was stopped first; or observed, because the config says Observe.
type OutcomeState string

// The states of an outcome.
const (
	Planned  OutcomeState = "planned"
	Done     OutcomeState = "done"
	Obsolete OutcomeState = "obsolete"
	Failed   OutcomeState = "failed"
	Skipped  OutcomeState = "skipped"
	Observed OutcomeState = "observed"
)

// SeenIn returns a function that reports whether a change of a route is in place in a table.
func SeenIn(table *inventory.RouteTable) func(Change) bool {
	routes := make(map[string]*inventory.Route, len(table.Routes()))
	for i := range table.Routes() {
		routes[strings.ToLower(table.Routes()[i].Name)] = &table.Routes()[i]
	}
	return func(c Change) bool { return c.seenAs(routes[strings.ToLower(c.Route)]) }
}

// seenAs reports whether a change is in place, given how its route reads (nil if there is none).
func (c Change) seenAs(r *inventory.Route) bool {
	if r == nil || c.New == nil {
		return r == nil && c.New == nil
	}
	return value(*r) == *c.New
}

// SeenInSubnet reports whether an association is in place on a subnet.
func (c Change) SeenInSubnet(subnet *inventory.Subnet) bool {
	p, id := c.New.Associated()
	return c.Verb == Associate && subnet.Has(p).Equal(id)
}

// InPlace reports whether a snapshot shows a change in place, and whether its resource was read.
func (c Change) InPlace(s *inventory.Snapshot) (made, read bool) {
	if c.Verb == Associate {
		subnet := s.Subnet(c.Resource)
		return subnet != nil && c.SeenInSubnet(subnet), subnet != nil
	}
	table := s.Table(c.Resource)
	if table == nil {
		return false, false
	}
	routes := table.Routes() // SeenIn's map costs more than one search
	i := slices.IndexFunc(routes, func(r inventory.Route) bool {
		return strings.EqualFold(r.Name, c.Route)
	})
	if i < 0 {
		return c.seenAs(nil), true
	}
	return c.seenAs(&routes[i]), true
}

// sortChanges orders by resource, then by prefix, then by name.
func sortChanges(changes []Change) {
	byResource := func(a, b Change) int {
		if a.Resource == b.Resource {
			return 0
		}
		return strings.Compare(a.Resource.Key(), b.Resource.Key())
	}
	if !slices.IsSortedFunc(changes, byResource) {
		slices.SortStableFunc(changes, byResource)
	}
	type keyed struct {
		change      int
		destination destination
	}
	var sorted []keyed
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && byResource(changes[0], changes[n]) == 0 {
			n++
		}
		sorted = slices.Grow(sorted[:0], n)
		for i, c := range changes[:n] {
			sorted = append(sorted, keyed{i, readDestination(c.destination())})
		}
		compare := func(a, b keyed) int {
			return cmp.Or(a.destination.compare(b.destination),
				strings.Compare(changes[a.change].Route, changes[b.change].Route))
		}
		// mostly they are sorted, because they were planned in order
		if !slices.IsSortedFunc(sorted, compare) {
			slices.SortStableFunc(sorted, compare)
			before := slices.Clone(changes[:n])
			for i, k := range sorted {
				changes[i] = before[k.change]
			}
		}
		changes = changes[n:]
	}
}

// destination returns the address prefix of a changed route, or "" for an association.
func (c Change) destination() string {
	switch {
	case c.New != nil && c.New.AddressPrefix != "":
		return c.New.AddressPrefix
	case c.Old != nil:
		return c.Old.AddressPrefix
	}
	return ""
}

// Attrs returns the change for a structured log.
func (c Change) Attrs() []any {
	attrs := []any{"verb", string(c.Verb), "resource", string(c.Resource), "cluster", c.Cluster}
	if c.Route != "" {
		attrs = append(attrs, "route", c.Route)
	}
	return append(attrs, "old", c.Old.String(), "new", c.New.String(), "why", c.Why)
}

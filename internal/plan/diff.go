package plan

import (
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// Diff returns the changes from what was read to the desired state, sorted.
func Diff(s *inventory.Snapshot, desired State) []Change {
	changes := []Change{}
	for _, a := range desired.Associations {
		if subnet := s.Subnet(a.Subnet); subnet != nil {
			changes = append(changes, diffSubnet(subnet, a)...)
		}
	}
	for _, t := range desired.Tables {
		if table := s.Table(t.ID); table != nil {
			changes = append(changes, diffTable(table, t)...)
		}
	}
	sortChanges(changes)
	return changes
}

func diffSubnet(subnet *inventory.Subnet, a Association) []Change {
	if subnet.RouteTable.Equal(a.Table) {
		return nil
	}
	c := Change{Verb: Associate, Resource: subnet.ID, Cluster: a.Cluster,
		New: &Value{RouteTable: a.Table}, Why: a.Why}
	if subnet.RouteTable != "" {
		c.Old = &Value{RouteTable: subnet.RouteTable}
	}
	return []Change{c}
}

func diffTable(table *inventory.RouteTable, desired Table) []Change {
	if len(desired.Reasons)+len(desired.Gone) == 0 {
		return nil // every change has a reason
	}
	var changes []Change
	now := make(map[string]inventory.Route, len(table.Routes()))
	for _, r := range table.Routes() {
		now[strings.ToLower(r.Name)] = r
	}
	for _, r := range desired.Routes {
		name := strings.ToLower(r.Name)
		old, there := now[name]
		delete(now, name)
		switch reason := desired.Reasons[name]; {
		case !there:
			changes = append(changes, Change{Verb: Create, Resource: table.ID,
				Cluster: reason.Cluster, Route: r.Name, New: valueOf(r), Why: reason.Why,
				Repair: reason.Repair})
		case old.Destination() != r.Destination() || !old.SameHop(r):
			changes = append(changes, Change{Verb: Update, Resource: table.ID,
				Cluster: reason.Cluster, Route: r.Name, Old: valueOf(old), New: valueOf(r),
				Why: reason.Why, Repair: reason.Repair})
		}
	}
	for name, r := range now {
		reason := desired.Gone[name]
		changes = append(changes, Change{Verb: Delete, Resource: table.ID, Cluster: reason.Cluster,
			Route: r.Name, Old: valueOf(r), Why: reason.Why})
	}
	return changes
}

func valueOf(r inventory.Route) *Value {
	v := &Value{AddressPrefix: r.Destination(), NextHopType: r.HopType}
	if r.Hop.IsValid() {
		v.NextHopIPAddress = r.Hop.String()
	}
	return v
}

// CompareDestinations orders prefixes by address. Other destinations follow, as text.
func CompareDestinations(a, b string) int { return readDestination(a).compare(readDestination(b)) }

// destination is a prefix, or other text such as a service tag.
type destination struct {
	prefix netip.Prefix // zero for other text
	text   string
}

func readDestination(text string) destination {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return destination{text: text}
	}
	return destination{prefix, text}
}

func (d destination) compare(o destination) int {
	switch {
	case d.prefix.IsValid() && o.prefix.IsValid():
		return d.prefix.Compare(o.prefix)
	case d.prefix.IsValid():
		return -1
	case o.prefix.IsValid():
		return 1
	}
	return strings.Compare(d.text, o.text)
}

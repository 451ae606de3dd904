package plan

import (
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// diff returns the changes from what was read to the desired state, sorted.
func diff(read func(arm.ID) *inventory.Subnet, desired State) []Change {
	n := len(desired.Associations)
	for _, t := range desired.Tables {
		n += len(t.Changes)
	}
	changes := make([]Change, 0, n)
	for _, a := range desired.Associations {
		if subnet := read(a.Subnet); subnet != nil {
			changes = append(changes, diffSubnet(subnet, a)...)
		}
	}
	for _, t := range desired.Tables {
		changes = append(changes, t.Changes...)
	}
	sortChanges(changes)
	return changes
}

func diffSubnet(subnet *inventory.Subnet, a Association) []Change {
	has := subnet.Has(a.Property)
	if has.Equal(a.Value) {
		return nil
	}
	c := Change{Verb: Associate, Resource: subnet.ID, Cluster: a.Cluster,
		New: associated(a.Property, a.Value), Why: a.Why}
	if has != "" {
		c.Old = associated(a.Property, has)
	}
	return []Change{c}
}

func value(r inventory.Route) Value {
	v := Value{AddressPrefix: r.Destination(), NextHopType: r.HopType}
	if r.Hop.IsValid() {
		v.NextHopIPAddress = r.Hop.String()
	}
	return v
}

func valueOf(r inventory.Route) *Value {
	v := value(r)
	return &v
}

// CompareDestinations orders prefixes by address. Other destinations follow, as text.
func CompareDestinations(a, b string) int { return readDestination(a).compare(readDestination(b)) }

// destination is a prefix, or a text such as a service tag.
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

package verdict

import (
	"maps"
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

// Hops returns the next hops of the default and declared routes on subnets that were read.
func Hops(s *inventory.Snapshot, configs []v1alpha1.ClusterRoutes) (hops []plan.Hop) {
	declared := map[netip.Prefix]bool{}
	for i := range configs {
		for _, r := range plan.DeclaredEgress(&configs[i]) {
			declared[r.Prefix] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Subnets)) {
		subnet := s.Subnets[key]
		table := s.Table(subnet.RouteTable)
		if table == nil {
			continue
		}
		defaults := table.Default()
		for _, r := range table.Routes() {
			if r.Hop.IsValid() && (declared[r.Prefix] || slices.ContainsFunc(defaults,
				func(d inventory.Route) bool { return d.Prefix == r.Prefix })) {
				hops = append(hops, plan.Hop{Subnet: subnet.ID, Addr: r.Hop})
			}
		}
	}
	return hops
}

// Lost sorts next hops by what was read of the networks around them. lost ones certainly drop
// packets. unclear ones may: another read of what failed may soon show it. want names what must be
// read to know more.
func Lost(around *inventory.Snapshot, hops []plan.Hop) (lost, unclear plan.Hops,
	want inventory.Wanted) {
	later := around.Fork()
	maps.DeleteFunc(later.Unread, func(_ string, u inventory.Unread) bool { return u.Transient() })
	t, soon := trace.New(around, trace.Options{}), trace.New(later, trace.Options{})
	lost, unclear = plan.Hops{}, plan.Hops{}
	for _, h := range hops {
		v, more := t.NextHop(h.Subnet, h.Addr)
		switch v {
		case trace.Dropped:
			more, _ := t.Lost(h.Subnet, h.Addr)
			lost.Explain(h, more)
		case trace.Unknown:
			if _, missed := soon.NextHop(h.Subnet, h.Addr); more.Empty() && !missed.Empty() {
				unclear.Add(h)
			}
		case trace.Delivered, trace.Leaves:
		}
		want.Add(more)
	}
	return lost, unclear, inventory.Wanted{Networks: inventory.SortIDs(want.Networks),
		Interfaces: inventory.SortIDs(want.Interfaces),
		Firewalls:  inventory.SortIDs(want.Firewalls),
		Balancers:  inventory.SortIDs(want.Balancers)}
}

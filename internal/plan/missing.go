package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: nodes without a route. If a pool counts more nodes than have a route, the network
// interfaces show which node lacks one. Counts do not show a node that got another address while
// its route stayed. So the interfaces are also read from time to time. When a node is reported:
//
//	what the checks saw                       reported
//	----------------------------------------  ---------------------------------------------------
//	the table is full                         at once, as table-full
//	no earlier check (sync, the first of run) at once, as a warning: the node's age is unknown
//	a route at the last check, none now       by the next check that reads the same settled table
//	never a route                             after joining
//	an operation runs on the cluster          after joining, as a warning: it replaces nodes
//	its route leads to another address now    as a lost route, if its interface lacks the address
//	another address, and its route stayed     after joining: the cloud provider repairs no next hop
//
// A machine exists before its node joins, and the cloud provider writes even later. So normal
// scaling is not reported. The first report uses NICs from the same check. While the finding is
// open, they are read again once a minute. doctor checks nodes itself, because it sees more of
// them.
//
// Machines beyond their pool's count are not reported: they are surge nodes, are leaving, or are
// deallocated. A reported node stays reported until it has its route or is gone.
const (
	// joining is how long a new machine may lack its route. It starts and joins within about two
	// minutes. The cloud provider writes in batches of 30 seconds, from a copy of the table that it
	// caches for two minutes (docs/azure.md).
	joining = 5 * time.Minute
	// apart is the shortest time between two checks that shows that a lost route stays lost: events
	// can cause checks in quick succession.
	apart = 2 * time.Second
)

// NodesMayJoin is the evidence text for nodes without a route whose age is unknown.
const NodesMayJoin = "their age is unknown: a node that is just joining looks the same"

// missing reports what a cluster's table and node subnets lack: routes of nodes, room for routes,
// and addresses for an upgrade. A diagnosis checks nodes and the table itself, because it reads
// more.
func (w *planning) missing() {
	for _, v := range w.clusters {
		w.excluded(v)
		if !w.watching && !fromNodes(v.config) {
			w.nodes(v)
		}
	}
	w.surges()
}

// allPodRoutes returns the pod routes in a cluster's table for all of its pod CIDRs, including the
// ones that the config excludes.
func (w *planning) allPodRoutes(v *clusterState) (*clusterState, podRoutes) {
	if len(v.config.Spec.PodCIDRs) == 0 {
		return v, v.wanted
	}
	all := *v.config
	all.Spec.PodCIDRs = nil
	wide := newClusterState(w.s, &all, v.cluster)
	rows, _ := wide.rows(v.from)
	return wide, rows
}

// excluded reports pod routes that are not copied because spec.podCIDRs excludes them.
func (w *planning) excluded(v *clusterState) {
	if v.wanted == nil || len(v.config.Spec.PodCIDRs) == 0 || len(v.config.Spec.Targets) == 0 {
		return
	}
	var out []inventory.Route
	_, all := w.allPodRoutes(v)
	for _, r := range all {
		if _, copied := v.wanted.at(r.Prefix); !copied {
			out = append(out, *r)
		}
	}
	if len(out) > 0 {
		of := " of cluster " + v.cluster.ID.Short()
		w.add(finding.New(finding.PodCIDRsExclude, v.name, string(v.source),
			"%s not copied to the targets, because spec.podCIDRs (%s) excludes them",
			finding.CountOf(len(out), "pod route"+of+" is", "pod routes"+of+" are"),
			strings.Join(v.config.Spec.PodCIDRs, ", ")).With(routeLines(out)...).
			WithAdvice("widen spec.podCIDRs of %s, or remove it to include all pod CIDRs of the "+
				"cluster", v.name))
	}
}

// unrouted is a machine without its route, or without the route of one address family.
type unrouted struct {
	machine string
	addr    netip.Addr
	lacks   []string // families
	half    bool
	led     netip.Addr // the next hop of its route, if that is another address
	// row is the row that has the name of its node but leads to no node, or nil.
	row *inventory.Route
}

// nodes compares the nodes with the pod routes, and records the result for the next check.
func (w *planning) nodes(v *clusterState) {
	if v.wanted == nil || v.blind || v.doubtful || v.cluster.Stopped {
		return
	}
	fresh := *v
	fresh.cluster = w.s.Cluster(v.cluster.ID) // read again, with the network interfaces
	v = &fresh
	table, before := w.s.Table(v.source), w.s.Memory.Of(v.cluster.ID).Nodes
	wide, routes := w.allPodRoutes(v)
	now := NodeRoutes{ETag: table.ETag, Hops: routes.hops(before), From: routes}
	families := families(wide.cidrs)
	routed := routedNodes(now.Hops, families)
	full, limit := tableRoom(table, len(families))
	var reported, lacking []unrouted
	nodes := max(v.cluster.Nodes(), w.machines(v.cluster, v.subnets))
	suspect := nodes > routed || before.ETag != table.ETag && moved(now.Hops, before.Hops) ||
		len(before.Lacks) > 0 || before.Crossed || w.s.Memory.Of(v.cluster.ID).NICsDue
	if len(families) > 0 && suspect {
		nics := w.s.addresses(v.cluster.ID).NICs
		switch {
		case nics == nil:
			w.need.NICs = append(w.need.NICs, v.cluster.ID)
			return
		case nics.Failed != "":
			reported = w.judgeByCounts(v, &now, before, routed, full)
		default:
			lacking = wide.unrouted(nics, now.Hops, families)
			for _, l := range lacking {
				if w.judge(v, table, &now, before, l, full) {
					l.led = ledTo(now.Hops, l)
					reported = append(reported, l)
				}
			}
		}
	}
	for i, l := range reported {
		reported[i].row = v.misled(table, l)
	}
	bent, known := w.crossed(v, routes)
	now.Crossed = len(bent) > 0 || !known && before.Crossed
	w.noted[v.cluster.ID.Key()] = now
	switch {
	case full:
		f := TableFull(v.name, v.cluster.ID, table, limit)
		if len(reported) > 0 {
			f.Severity = finding.Error
			f = f.With("nodes without a route:").With(lines(reported)...)
		}
		w.add(f)
	case len(reported) > 0:
		w.reportUnrouted(v, table, now, reported, lacking, routed)
	}
}

// hops returns the nodes that the routes name, by next hop. An unchanged table is not decoded
// again. Then its routes are the same slice as at the previous check, and hops returns the previous
// result.
func (p podRoutes) hops(before NodeRoutes) map[netip.Addr]string {
	if before.Hops != nil && before.From != nil && slices.Equal(before.From, p) {
		return before.Hops
	}
	now := make(map[netip.Addr]string, len(p))
	for _, r := range p {
		now[r.Hop] = inventory.RouteNode(r.Name)
	}
	return now
}

// moved reports whether a node's route leads to another address than at the previous check, or an
// address has the route of another node. Then a node has a new address, or someone changed a route
// to a wrong one.
func moved(now, before map[netip.Addr]string) bool {
	left := map[string]bool{}
	for hop, node := range now {
		if had, known := before[hop]; known && !strings.EqualFold(had, node) {
			return true
		}
	}
	for hop, node := range before {
		if _, still := now[hop]; !still {
			left[node] = true
		}
	}
	for hop, node := range now {
		if _, had := before[hop]; !had && left[node] {
			return true
		}
	}
	return false
}

// ledTo returns the next hop of the route with the name of a node without a route, in the family of
// its address if that is known.
func ledTo(hops map[netip.Addr]string, l unrouted) (led netip.Addr) {
	node := inventory.NodeName(l.machine)
	for hop, of := range hops {
		if node != "" && strings.EqualFold(of, node) &&
			(!l.addr.IsValid() || hop.Is4() == l.addr.Is4()) {
			led = hop
		}
	}
	return led
}

// misled returns the row of a cluster's table that has the name of a machine's node but leads to no
// node: it leads to the internet, to nothing, or out of the node subnets.
func (v *clusterState) misled(table *inventory.RouteTable, l unrouted) *inventory.Route {
	rows := table.Routes()
	i := slices.IndexFunc(rows, func(r inventory.Route) bool {
		return v.isNodePrefix(r.Prefix) && !v.isNodeHop(r) && nodeNamed(r) &&
			(!l.addr.IsValid() || r.Prefix.Addr().Is4() == l.addr.Is4()) &&
			strings.EqualFold(inventory.RouteNode(r.Name), inventory.NodeName(l.machine))
	})
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// judge applies the rules above to a node without a route: it decides whether to report it, and
// records it.
func (w *planning) judge(v *clusterState, table *inventory.RouteTable, now *NodeRoutes,
	before NodeRoutes, l unrouted, full bool) bool {
	key := strings.ToLower(l.machine)
	lack, again := before.Lacks[key]
	if !again {
		had, node := before.Hops[l.addr], inventory.NodeName(l.machine)
		lack.Since = w.s.Taken
		lack.Lost = had != "" && (node == "" || strings.EqualFold(node, had))
	}
	age := w.s.Taken.Sub(lack.Since)
	lost := lack.Lost && again && age >= apart && before.ETag == table.ETag &&
		inventory.Settled(table.Raw) && !busy(v.cluster)
	if !lack.Reported && (full || before.Hops == nil || lost || age >= joining) {
		// A new report needs a fresh list: an older list shows nodes that are gone.
		nics := w.s.addresses(v.cluster.ID)
		if lack.Reported = !nics.Read.Before(w.s.Taken); !lack.Reported {
			w.need.NICs = append(w.need.NICs, v.cluster.ID)
		}
	}
	now.note(key, lack)
	return lack.Reported
}

// judgeByCounts works like judge without network interfaces: only the counts of the pools show that
// nodes lack a route.
func (w *planning) judgeByCounts(v *clusterState, now *NodeRoutes, before NodeRoutes,
	routed int, full bool) []unrouted {
	if v.cluster.Nodes() <= routed { // the interfaces' result stays until they show more
		return stillReported(now, before)
	}
	lack := Lack{Since: w.s.Taken, Reported: full || before.Hops == nil}
	for _, old := range before.Lacks {
		if old.Since.Before(lack.Since) {
			lack.Since = old.Since
		}
		lack.Reported = lack.Reported || old.Reported
	}
	lack.Reported = lack.Reported || w.s.Taken.Sub(lack.Since) >= joining
	now.note("", lack)
	if !lack.Reported {
		return nil
	}
	return []unrouted{{}}
}

// stillReported returns the nodes that were reported before, and remembers all that lacked a route.
func stillReported(now *NodeRoutes, before NodeRoutes) (reported []unrouted) {
	for _, machine := range slices.Sorted(maps.Keys(before.Lacks)) {
		lack := before.Lacks[machine]
		if now.note(machine, lack); lack.Reported && machine != "" {
			l := unrouted{machine: machine}
			l.led = ledTo(now.Hops, l)
			reported = append(reported, l)
		}
	}
	return reported
}

// reportUnrouted reports nodes without a route. lacking has all of them, if the interfaces show
// them. routed counts the next hops of the pod routes. Some of these may belong to no node.
func (w *planning) reportUnrouted(v *clusterState, table *inventory.RouteTable, now NodeRoutes,
	reported, lacking []unrouted, routed int) {
	for _, kind := range []struct {
		code      finding.Code
		half      bool
		has, have string
	}{
		{finding.NodeWithoutRoute, false, "has no route", "have no route"},
		{finding.RouteHalf, true,
			"has a route for one address family only",
			"have routes for one address family only"},
	} {
		severity, young := finding.Warning, false
		var of []unrouted
		for _, l := range reported {
			if l.half != kind.half {
				continue
			}
			of = append(of, l)
			lack := now.Lacks[strings.ToLower(l.machine)]
			old := lack.Lost || w.s.Taken.Sub(lack.Since) >= joining
			if young = young || !old; old && l.machine != "" && !busy(v.cluster) {
				severity = finding.Error
			}
		}
		if len(of) == 0 {
			continue
		}
		nodes, without, least := v.cluster.Nodes(), len(of), ""
		most := nodes - without
		if of[0].machine == "" {
			without, most, least = nodes-routed, routed, "at least "
		}
		for _, l := range lacking {
			if (!l.half || kind.half) && !slices.ContainsFunc(of, func(r unrouted) bool {
				return r.machine == l.machine
			}) {
				most--
			}
		}
		what := "of cluster " + v.cluster.ID.Short()
		f := finding.New(kind.code, v.name, string(table.ID),
			"%s%s in its route table %s: %s, but %s", least,
			finding.CountOf(without, "node "+what+" "+kind.has, "nodes "+what+" "+kind.have),
			table.ID.Short(), finding.Count(nodes, "node"), routesTo(most)).
			With(lines(of)...).
			WithFix("az monitor activity-log list --resource-id %s --status Failed --offset 3h "+
				"-o table",
				table.ID)
		if of[0].machine == "" {
			f = f.With("it is unknown which nodes, because the network interfaces could not be " +
				"read: " +
				w.s.addresses(v.cluster.ID).Failed)
		}
		if young {
			f = f.With(NodesMayJoin)
		}
		if busy(v.cluster) {
			f = f.With("an operation is running on the cluster, which may replace nodes")
		}
		f.Severity = severity
		w.add(f)
	}
}

// unrouted returns the machines without a route, by name, in the pools that count more nodes than
// have a route.
func (v *clusterState) unrouted(nics *inventory.NICs, hops map[netip.Addr]string,
	families []bool) []unrouted {
	addrs := map[string]map[bool]netip.Addr{} // by machine and family
	for _, addr := range slices.SortedFunc(maps.Keys(nics.Holder), netip.Addr.Compare) {
		machine := nics.Holder[addr]
		if !v.isNodeHop(inventory.Route{Hop: addr}) {
			continue
		}
		if addrs[machine] == nil {
			addrs[machine] = map[bool]netip.Addr{}
		}
		_, other := addrs[machine][addr.Is4()]
		if _, routed := hops[addr]; routed || !other {
			addrs[machine][addr.Is4()] = addr
		}
	}
	short := map[string]int{} // by pool
	for _, pool := range v.cluster.Pools {
		short[pool.Name] = pool.Count
	}
	var all []unrouted
	for _, machine := range slices.Sorted(maps.Keys(addrs)) {
		l, of := unrouted{machine: machine}, 0
		for _, v4 := range families {
			addr, has := addrs[machine][v4]
			if !has { // a dual-stack NIC may lack one address for a moment
				continue
			}
			of++
			if !l.addr.IsValid() {
				l.addr = addr
			}
			if _, routed := hops[addr]; !routed {
				l.addr, l.lacks = addr, append(l.lacks, familyName(v4))
			}
		}
		if l.half = len(l.lacks) < of; len(l.lacks) > 0 {
			all = append(all, l)
		} else if of > 0 {
			short[v.cluster.PoolOf(machine)]--
		}
	}
	return slices.DeleteFunc(all, func(l unrouted) bool {
		return short[v.cluster.PoolOf(l.machine)] <= 0
	})
}

// lines writes a line for each node.
func lines(all []unrouted) []string {
	var out []string
	for _, l := range all {
		if l.machine != "" {
			line := fmt.Sprintf("%s (%s): %s", l.machine, l.addr, strings.Join(l.lacks, ", "))
			if !l.addr.IsValid() {
				line = l.machine + ": its network interface could not be read again"
			}
			switch {
			case l.row != nil:
				line += fmt.Sprintf("; its route %s leads to %s", l.row.Name, l.row.NextHop())
			case l.led.IsValid():
				line += fmt.Sprintf("; its route leads to %s", l.led)
			}
			out = append(out, line)
		}
	}
	return out
}

// busy reports whether an operation is running on a cluster.
func busy(c *inventory.Cluster) bool {
	state := inventory.ProvisioningState(c.Raw)
	return !slices.ContainsFunc([]string{"", "Succeeded", "Failed", "Canceled"},
		func(over string) bool { return strings.EqualFold(state, over) })
}

// routeLines lists routes as evidence.
func routeLines(routes []inventory.Route) []string {
	lines := make([]string, len(routes))
	for i, r := range routes {
		lines[i] = fmt.Sprintf("%s to %s (%s)", r.Prefix, r.NextHop(), r.Name)
	}
	return lines
}

// routesTo says to how many nodes pod routes can lead.
func routesTo(nodes int) string {
	if nodes <= 0 {
		return "no pod route"
	}
	return fmt.Sprintf("pod routes to at most %d", nodes)
}

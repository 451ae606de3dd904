package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: spec.egress declares routes, such as 0.0.0.0/0 to a firewall or to a gateway. A
// declared route is found in its table by its prefix, whatever its name. A table can also be a
// target: target.go plans the pod routes first, and one write makes all changes.
//
//	the route in the table              | and                           | action
//	------------------------------------|-------------------------------|---------------------------
//	not declared                        |                               | stays, byte for byte
//	declared, with its next hop         |                               | stays
//	declared, with another next hop     | it may be written             | update
//	                                    | not                           | egress-route-lost
//	none                                | it may be written, with room  | create
//	                                    | not                           | egress-route-lost
//	was declared, and is no longer      |                               | stays
//
// A route may be written if all of this holds: the mode is Enforce; no cloud provider writes the
// table (whyWatched); no packets to pods would take the route; the route does not leave nodes
// without egress (whyNoEgress); and the appliance that the config names, a firewall or load
// balancer, is not known to be gone, without backends, or at another address. If the appliance
// could not be read, the route is written: the config names the address, and without the route the
// packets are dropped or bypass the appliance.

// egressConfig is what one config says about the egress routes of one table.
type egressConfig struct {
	*clusterState
	routes []inventory.Route
}

// DeclaredEgress returns the routes that a config declares. The config is checked.
func DeclaredEgress(c *v1alpha1.ClusterRoutes) (routes []inventory.Route) {
	for _, r := range c.Spec.Egress.Routes {
		kind := cmp.Or(string(r.NextHopType), inventory.HopAppliance)
		prefix, hop := r.Leads()
		if prefix.IsValid() && hop.IsValid() == (kind == inventory.HopAppliance) {
			name := strings.NewReplacer("/", "-", ":", "-").Replace("egress-" + r.AddressPrefix)
			routes = append(routes, inventory.Route{Name: cmp.Or(r.Name, name),
				Prefix: prefix.Masked(), HopType: kind, Hop: hop})
		}
	}
	return routes
}

// readEgress notes the table with a cluster's egress routes.
func (p *Planner) readEgress(v *clusterState) {
	if e := v.config.Spec.Egress; e.RouteTableID != "" && !p.removing {
		key := arm.ID(e.RouteTableID).Key()
		p.egress[key] = append(p.egress[key], egressConfig{v, DeclaredEgress(v.config)})
	}
}

// table decides which routes a table should have: pod routes, if it is a target, and egress routes.
func (w *planning) table(id arm.ID, table *inventory.RouteTable) *Table {
	t := w.target(id, table)
	configs, _ := arm.Lookup(w.egress, id)
	configs = slices.Clone(configs)
	// the config that writes comes first
	slices.SortStableFunc(configs, func(a, b egressConfig) int {
		return cmp.Compare(w.writeRank(b), w.writeRank(a))
	})
	planned := map[netip.Prefix]bool{} // by an earlier config, with the same next hop or another
	for _, e := range configs {
		if w.s.gone(e.clusterState) {
			continue
		}
		if table == nil {
			if !id.Equal(e.source) { // readSource reports that one
				w.reportUnread(w.add, e.config, id, finding.TableMissing, "egress table %s",
					advise("create the table, or correct spec.egress of "+e.name))
			}
			continue
		}
		t = w.keepEgress(e, table, t, planned)
	}
	return t
}

// writeRank returns 1 if a config's egress routes are put back now, otherwise 0.
func (w *planning) writeRank(e egressConfig) int {
	if e.config.Spec.Egress.Mode == v1alpha1.GuardEnforce && !w.s.Paused[e.name] {
		return 1
	}
	return 0
}

// keepEgress adds the egress routes of one config to a planned table t. t is nil if the table has
// no other changes.
func (w *planning) keepEgress(e egressConfig, table *inventory.RouteTable, t *Table,
	planned map[netip.Prefix]bool) *Table {
	watched := w.whyWatched(e, table)
	wrong, now := w.wrongHop(e, table)
	inSync := w.s.Memory.Of(arm.ID(e.config.Spec.ClusterID)).InSync[table.ID.Key()]
	for _, want := range e.routes {
		routes := table.Routes()
		if t != nil {
			routes = t.Routes
		}
		at := slices.IndexFunc(routes, func(r inventory.Route) bool {
			return r.Prefix == want.Prefix
		})
		if at >= 0 && (routes[at].SameHop(want) || want.Hop.IsValid() &&
			slices.Contains(now, routes[at].Hop)) || planned[want.Prefix] {
			continue
		}
		harms := wrong
		if !want.Hop.IsValid() {
			harms = whyNoEgress(w.Planner, want, table)
		}
		why := cmp.Or(w.whyCoversPods(want), harms, watched)
		if at < 0 && why == "" && len(routes) >= inventory.DefaultRouteLimit {
			why = fmt.Sprintf("the table is full (%d routes)", len(routes))
		}
		if why != "" || e.config.Spec.Egress.Mode != v1alpha1.GuardEnforce {
			w.reportEgress(e, table, routes, at, want, why, why == watched)
			continue
		}
		change := Change{Resource: table.ID, Cluster: e.name, Egress: true,
			Repair: inSync[want.Prefix] == rememberedHop(want)}
		changed := want
		if at < 0 {
			changed.Name = freeRouteName(routes, want.Name)
			change.Verb, change.Why = Create, "spec.egress declares it"
			if change.Repair {
				change.Why = "another writer removed it from this table"
			}
		} else {
			change.Verb, change.Old = Update, valueOf(routes[at])
			change.Why = "spec.egress declares another next hop"
			if change.Repair {
				change.Why = "another writer changed it in this table"
			}
			var err error
			if changed, err = routes[at].Leading(want); err != nil {
				w.add(finding.New(finding.WriteFailed, e.name, string(table.ID), "%v", err))
				continue
			}
		}
		if t == nil {
			t = &Table{ID: table.ID, Routes: routes}
		}
		t.Routes, t.Limit = slices.Clone(routes), cmp.Or(t.Limit, inventory.DefaultRouteLimit)
		if at < 0 {
			t.Routes = append(t.Routes, changed)
		} else {
			t.Routes[at] = changed
		}
		change.Route, change.New = changed.Name, valueOf(changed)
		t.Changes = append(t.Changes, change)
		planned[want.Prefix] = true
	}
	return t
}

// freeRouteName returns a name that no route has, ignoring case: the given one, or this name with a
// number.
func freeRouteName(routes []inventory.Route, name string) string {
	for i, free := 1, name; ; free = fmt.Sprintf("%s-%d", name, i) {
		if !slices.ContainsFunc(routes, func(r inventory.Route) bool {
			return strings.EqualFold(r.Name, free)
		}) {
			return free
		}
		i++
	}
}

// whyWatched says why the egress routes of a table are only watched: a cloud provider writes the
// table, or may write it, or Azure Virtual Network Manager writes it. "" if not. With Azure CNI no
// cloud provider writes routes, so the table on the node subnets of such a cluster may be written.
func (w *planning) whyWatched(e egressConfig, table *inventory.RouteTable) string {
	own, taken := arm.Lookup(w.clusterTables, table.ID)
	switch {
	case taken && !own.flat:
		return fmt.Sprintf("it is or may be the route table of cluster %s, whose cloud provider "+
			"writes it: %s", own.v.name, own.how)
	case e.cluster == nil:
		return "the cluster could not be read, so it is unknown whether its cloud provider " +
			"writes the table"
	case inventory.IsManagerTable(table.ID):
		return "Azure Virtual Network Manager writes it"
	case inventory.IsManagedTable(table.ID) || w.inNodeGroup(table.ID):
		return "AKS made it for a cluster, whose cloud provider writes it"
	}
	return w.s.tableOfUnread(table)
}

func (p *Planner) inNodeGroup(table arm.ID) bool {
	return slices.ContainsFunc(p.clusters, func(v *clusterState) bool {
		return v.cluster != nil && table.Group().Equal(v.cluster.NodeGroup())
	})
}

// whyCoversPods says why packets to pods would take an egress route. A default route covers all
// addresses by design.
func (p *Planner) whyCoversPods(want inventory.Route) string {
	for _, v := range p.clusters {
		if v.cluster == nil {
			continue
		}
		for _, pods := range v.cluster.PodCIDRs {
			switch {
			case pods.Contains(want.Hop):
				return fmt.Sprintf("%s is an address of pods of %s (%s)", want.Hop, v.name, pods)
			case want.Prefix.Bits() > 0 && pods.Overlaps(want.Prefix):
				return fmt.Sprintf("%s covers pods of %s (%s)", want.Prefix, v.name, pods)
			}
		}
	}
	return ""
}

// whyNoEgress says why a default route would leave the nodes behind a table without egress. With
// outboundType userDefinedRouting, "AKS requires a user-defined route with valid outbound
// connectivity" (egress-udr). A route that drops all packets wins over a load balancer and a NAT
// gateway. Call it for routes without a next hop address.
func whyNoEgress(p *Planner, want inventory.Route, table *inventory.RouteTable) string {
	if want.Prefix.Bits() > 0 || !want.Prefix.Addr().Is4() || want.HopType == inventory.HopGateway {
		return ""
	}
	for _, v := range p.clusters {
		if v.cluster == nil {
			continue
		}
		udr := strings.EqualFold(v.cluster.Outbound, "userDefinedRouting")
		cut := want.HopType == inventory.HopNone && !strings.EqualFold(v.cluster.Outbound,
			"none") && !strings.EqualFold(v.cluster.Outbound, "block")
		for _, id := range p.s.NodeSubnetIDs(v.cluster) {
			switch subnet := p.s.Subnet(id); {
			case subnet == nil || !subnet.RouteTable.Equal(table.ID):
			case udr:
				return fmt.Sprintf("the nodes of %s in %s need it to lead to an appliance or a "+
					"virtual network gateway (outboundType userDefinedRouting)", v.name, id.Short())
			case cut:
				return fmt.Sprintf("it would drop the egress of the nodes of %s in %s", v.name,
					id.Short())
			}
		}
	}
	return ""
}

// wrongHop says why the next hops that a config declares are known to be wrong: the appliance that
// the config names is gone, cannot be a next hop, or has other addresses. It adds a finding about
// that whether or not a route is missing. now has the addresses that the appliance has.
func (w *planning) wrongHop(e egressConfig, table *inventory.RouteTable) (why string,
	now []netip.Addr) {
	named := arm.ID(e.config.Spec.Egress.FirewallID)
	to := slices.DeleteFunc(slices.Clone(e.routes), func(r inventory.Route) bool {
		return !r.Hop.IsValid()
	})
	if named == "" || len(to) == 0 {
		return "", nil
	}
	wrong, follows := to[0].Hop, false
	report := func(why, advice string) {
		f := finding.New(finding.EgressHopGone, e.name, string(table.ID),
			"the egress of %s must go by %s: %s", e.name, wrong, why).WithAdvice("%s", advice)
		if follows { // so nothing is dropped
			f = f.With(table.ID.Short() + " leads there already")
			f.Severity = finding.Warning
		}
		w.add(f)
	}
	id, kind := inventory.ApplianceOf(named)
	a := w.s.Appliance(named)
	switch unread, tried := w.s.Unread[id.Key()]; {
	case a != nil:
	case unread.Absent:
		why = fmt.Sprintf("%s %s does not exist", kind, id.Short())
		report(why, fmt.Sprintf("create the %s again, or correct spec.egress of %s", kind, e.name))
		return why, nil
	case tried:
		w.reportUnread(w.add, e.config, id, finding.EgressHopGone, kind+" %s", next{})
		return "", nil
	default:
		w.need.AddAppliance(named)
		return "", nil
	}
	has := slices.Concat(a.Hops, a.Unclear)
	at := slices.IndexFunc(to, func(r inventory.Route) bool { return !slices.Contains(has, r.Hop) })
	if at < 0 || a.Unknown && !slices.Contains(a.Empty, to[at].Hop) {
		return "", a.Hops
	}
	wrong = to[at].Hop
	follows = !slices.ContainsFunc(to, func(want inventory.Route) bool {
		return !slices.ContainsFunc(table.Routes(), func(r inventory.Route) bool {
			return r.Prefix == want.Prefix && slices.Contains(a.Hops, r.Hop)
		})
	})
	if has = a.Hops; len(has) == 0 {
		has = slices.Concat(a.Unclear, a.Empty)
	}
	has = slices.DeleteFunc(slices.Clone(has), func(at netip.Addr) bool {
		return at.Is4() != wrong.Is4()
	})
	advice := a.Fix + ", or correct spec.egress of " + e.name
	switch {
	case slices.Contains(a.Empty, wrong):
		why = fmt.Sprintf("%s has no backend behind %s", a.Name, wrong)
		advice = "put appliances into its backend pool, or correct spec.egress of " + e.name
	case len(has) == 0:
		why = fmt.Sprintf("%s has no %s", a.Name, a.Lacks)
	default:
		why = fmt.Sprintf("%s has the address %s", a.Name, join(has))
		advice = fmt.Sprintf("set nextHopIPAddress in spec.egress of %s to %s", e.name, join(has))
	}
	report(why, advice)
	return why, a.Hops
}

func join(addresses []netip.Addr) string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, " or ")
}

const promoteEgress = "promote sets the mode of spec.egress to Enforce"

// OnlyObserves reports whether a finding about an egress route exists only because the config
// observes.
func OnlyObserves(f finding.Finding) bool { return f.Advice == promoteEgress }

// reportEgress reports an egress route that the table lacks, or that leads elsewhere, and that the
// keeper does not put back. why is the reason, or "" if the config only observes. If only the table
// prevents it, the finding has a command to paste.
func (w *planning) reportEgress(e egressConfig, table *inventory.RouteTable,
	routes []inventory.Route, at int, want inventory.Route, why string, byHand bool) {
	text := fmt.Sprintf("%s has no route for %s, which must go to %s", table.ID.Short(),
		want.Prefix, want.NextHop())
	fix := finding.Command("az network route-table route create --subscription %s -g %s "+
		"--route-table-name %s --name %s --address-prefix %s --next-hop-type %s",
		table.ID.Subscription(), table.ID.ResourceGroup(), table.ID.Name(), want.Name, want.Prefix,
		want.HopType)
	address := "null" // clears it
	if want.Hop.IsValid() {
		address = want.Hop.String()
		fix = finding.Command("%s --next-hop-ip-address %s", fix, address)
	}
	if at >= 0 {
		there := routes[at]
		text = fmt.Sprintf("the route %s in %s sends %s to %s instead of %s", there.Name,
			table.ID.Short(), want.Prefix, there.NextHop(), want.NextHop())
		fix = finding.Command("az network route-table route update --ids %s --next-hop-type %s "+
			"--next-hop-ip-address %s", table.ID.Child("routes", there.Name), want.HopType, address)
	}
	f := finding.New(finding.EgressRouteLost, e.name, string(table.ID), "%s", text).
		About(want.Prefix.String())
	if why != "" {
		f.Message += "; it is not put back: " + why
	}
	switch {
	case why != "" && byHand:
		w.add(f.WithFix("%s", fix))
	case why != "":
		w.add(f.WithAdvice("correct spec.egress of %s", e.name))
	default:
		w.add(f.WithAdvice(promoteEgress).
			WithFix("routekeeper promote %s%s", e.name, finding.Config()))
	}
}

package diagnose

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// gatewaySubnet is a subnet with Application Gateways that concerns a cluster.
type gatewaySubnet struct {
	*inventory.Subnet
	table *inventory.RouteTable // nil if it has none, or if it was not read
	// drives is set if the cluster's ingress add-on configures a gateway in the subnet. sends is
	// set if the gateway should reach pods by routes: the add-on configures it, or its table is a
	// target or has pod routes of the cluster. shares is set if the subnet has a table of the
	// nodes.
	drives, sends, shares bool
	// target is set if the config names its table as a target. Then package plan checks the pod
	// routes in it.
	target bool
	// pods has the cluster's routes in its table.
	pods map[netip.Prefix]inventory.Route
}

// who returns the words that name the gateways in a finding.
func (g *gatewaySubnet) who() string {
	names := make([]string, len(g.Gateways))
	for i, id := range g.Gateways {
		names[i] = id.Short()
	}
	return fmt.Sprintf("Application Gateway %s in %s", strings.Join(names, " and "), g.ID.Short())
}

// NewTable returns a name for a subnet's new table. The name must be unused: creating an existing
// table would remove its routes.
func NewTable(s *inventory.Snapshot, subnet arm.ID) arm.ID {
	name := subnet.Name() + "-rt"
	for n := 2; ; n++ {
		id := arm.ResourceID(subnet.Subscription(), subnet.ResourceGroup(), arm.TypeRouteTable,
			name)
		if _, there := s.Unread[id.Key()]; s.Table(id) == nil && !there {
			return id
		}
		name = fmt.Sprintf("%s-rt-%d", subnet.Name(), n)
	}
}

// CreateTable returns the command that creates a table for a subnet.
func CreateTable(s *inventory.Snapshot, subnet, table arm.ID) finding.CommandLine {
	command := finding.Command("az network route-table create %s --name %s", inGroup(table),
		table.Name())
	if vnet := s.VNets[subnet.Parent().Key()]; vnet != nil && vnet.Location != "" {
		command = finding.Command("%s --location %s", command, vnet.Location)
	}
	return command
}

// createTable works like CreateTable, and useTable returns the command that associates a table with
// a subnet.
func createTable(p *clusterCase, subnet *inventory.Subnet, table arm.ID) finding.CommandLine {
	// It returns none for an existing table that was not read: the command would empty it.
	for key := range p.s.Unread {
		if strings.HasSuffix(key, strings.ToLower("/providers/"+arm.TypeRouteTable)) {
			return finding.CommandLine{}
		}
	}
	return CreateTable(p.s.Snapshot, subnet.ID, table)
}

func useTable(subnet, table arm.ID) finding.CommandLine {
	return finding.Command("az network vnet subnet update --ids %s --route-table %s", subnet, table)
}

// inGroup returns the flags with the subscription and resource group of a resource.
func inGroup(id arm.ID) finding.CommandLine {
	return finding.Command("--subscription %s --resource-group %s", id.Subscription(),
		id.ResourceGroup())
}

// advice returns how to make a table a target.
func (p *clusterCase) advice(table arm.ID) string {
	if p.Proposed {
		return "make the table a target, which init does, and copy the pod routes"
	}
	return fmt.Sprintf("add %s to spec.targets of %s in %s, then sync", table, p.name, p.File)
}

// associateNew returns the commands that create a table and associate it with a subnet. It returns
// none if a table of that name may exist.
func associateNew(p *clusterCase, subnet *inventory.Subnet, table arm.ID) finding.CommandLine {
	create := createTable(p, subnet, table)
	if create == (finding.CommandLine{}) {
		return create
	}
	return finding.Command("%s && %s && %s", create, useTable(subnet.ID, table), p.fillCommand())
}

// fillCommand returns the command that fills the targets.
func (p *clusterCase) fillCommand() finding.CommandLine {
	if p.Proposed {
		return adopt(p.cluster.ID, p.File)
	}
	return finding.Command("routekeeper sync -f %s", p.File)
}

// gatewaySubnets returns the gateway subnets that concern the cluster, in the order of their IDs.
// They are the subnet of the gateway that its add-on configures, subnets with a table that is a
// target or has the cluster's pod routes, and subnets in the networks of its nodes.
func (p *clusterCase) gatewaySubnets() []*gatewaySubnet {
	var out []*gatewaySubnet
	for _, key := range slices.Sorted(maps.Keys(p.s.Subnets)) {
		subnet := p.s.Subnets[key]
		if len(subnet.Gateways) == 0 {
			continue
		}
		g := &gatewaySubnet{Subnet: subnet, table: p.s.Table(subnet.RouteTable)}
		g.drives = p.cluster.Ingress != "" &&
			slices.ContainsFunc(subnet.Gateways, p.cluster.Ingress.Equal)
		g.shares = subnet.RouteTable != "" &&
			slices.ContainsFunc(p.subnets, func(n *inventory.Subnet) bool {
				return n.RouteTable.Equal(subnet.RouteTable)
			})
		if p.config != nil && p.cluster.Kubenet() {
			g.target = namesTarget(p.config, subnet.RouteTable)
			if g.table != nil && !p.s.LeadsElsewhere(g.table, p.cluster) {
				g.pods = plan.PodRoutes(p.s, p.config, g.table)
			}
			g.sends = g.drives || g.target || len(g.pods) > 0
		}
		near := slices.ContainsFunc(p.subnets, func(n *inventory.Subnet) bool {
			return n.ID.Parent().Equal(subnet.ID.Parent())
		})
		if g.drives || g.sends || g.shares || near || subnet.RouteTable == "" &&
			unassociated(p, subnet) != nil {
			out = append(out, g)
		}
	}
	return out
}

// unassociated returns the one unassociated table that has copies of the cluster's pod routes and
// fits a subnet near its nodes: this subnet seems to have lost it. It returns nil if there is none,
// or several.
func unassociated(p *clusterCase, subnet *inventory.Subnet) *inventory.RouteTable {
	at := p.s.VNets[subnet.ID.Parent().Key()]
	if p.config == nil || p.table == nil || at == nil ||
		!slices.ContainsFunc(p.nodeNetworks(), func(nodes arm.ID) bool {
			return nodes.Equal(at.ID) || slices.ContainsFunc(at.Peers(), nodes.Equal)
		}) {
		return nil
	}
	var found []*inventory.RouteTable
	for _, table := range p.s.Tables {
		fits := strings.EqualFold(table.Location, at.Location) &&
			strings.EqualFold(table.ID.Subscription(), at.ID.Subscription())
		if table != p.table && len(table.Subnets) == 0 && fits &&
			!inventory.IsManagedTable(table.ID) && plan.LeadsToNodes(p.s, p.config, table) {
			found = append(found, table)
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// isTarget reports whether any config names a table as a target.
func (p *clusterCase) isTarget(table arm.ID) bool {
	return slices.ContainsFunc(p.Configs, func(c v1alpha1.ClusterRoutes) bool {
		return namesTarget(&c, table)
	})
}

// namesTarget reports whether a config names a table as a target.
func namesTarget(config *v1alpha1.ClusterRoutes, table arm.ID) bool {
	return slices.ContainsFunc(config.Spec.Targets, func(t v1alpha1.Target) bool {
		return table.Equal(arm.ID(t.RouteTableID))
	})
}

// inIsolation reports whether the gateways of a subnet may have any default route. With network
// isolation, a gateway's subnet must be delegated to Application Gateways
// (application-gateway-private-deployment).
func inIsolation(p *clusterCase, g *gatewaySubnet) bool {
	return g.DelegatedTo(arm.TypeGateway) || slices.ContainsFunc(g.Gateways, func(id arm.ID) bool {
		doc := p.s.Gateways[id.Key()]
		return doc != nil && doc.Isolated
	})
}

// checkGateways checks the Application Gateways near a cluster.
func checkGateways(p *clusterCase) {
	for _, g := range p.gatewaySubnets() {
		checkGatewayDefault(p, g)
		if p.cluster.Kubenet() {
			checkGatewayRoutes(p, g)
		}
		for _, vnet := range p.nodeNetworks() {
			if !vnet.Equal(g.ID.Parent()) && (g.sends || g.drives && !routed(p, g)) {
				p.add(checkPeering(p, g, vnet)...)
			}
		}
	}
}

// checkGatewayDefault finds default routes that break a classic gateway: Azure says "For routes
// associated to subnet containing Application Gateway V2, please ensure '0.0.0.0/0' uses Next Hop
// Type as 'Internet'" (configuration-infrastructure). Routes that a gateway learns by BGP are not
// visible.
func checkGatewayDefault(p *clusterCase, g *gatewaySubnet) {
	if g.table == nil {
		return
	}
	i := slices.IndexFunc(g.table.Routes(), func(r inventory.Route) bool {
		return r.Prefix.IsValid() && r.Prefix == anywhere &&
			!strings.EqualFold(r.HopType, inventory.HopInternet)
	})
	if i < 0 {
		return
	}
	route := g.table.Routes()[i]
	if g.shares {
		table := NewTable(p.s.Snapshot, g.ID)
		f := p.found(finding.GatewaySharesTable, g.ID, "%s shares the table %s with the nodes of "+
			"%s, where the route %s sends %s to %s",
			g.who(), g.table.ID.Short(), p.name, route.Name, route.Prefix, route.NextHop()).
			WithAdvice("create a table, add %s to spec.targets of %s, copy the pod routes with "+
				"routekeeper sync, "+
				"then associate it with %s", table, p.name, g.ID.Short()).
			WithFix("%s", createTable(p, g.Subnet, table))
		if inIsolation(p, g) {
			f.Severity = finding.Info
			p.add(f.With("the gateway is deployed with network isolation, so Azure accepts " +
				"the route"))
			return
		}
		p.add(f.With("the subnet is not delegated to " + arm.TypeGateway +
			": the gateway is a classic one"))
		return
	}
	if inIsolation(p, g) {
		return
	}
	f := p.found(finding.GatewayDefaultRoute, g.table.ID, "the route %s in %s sends %s to %s, "+
		"but %s is a classic gateway and needs its default route to lead to the internet",
		route.Name, g.table.ID.Short(), route.Prefix, route.NextHop(), g.who()).About(route.Name).
		With("the subnet is not delegated to "+arm.TypeGateway).
		WithFix("az network route-table route delete --ids %s",
			g.table.ID.Child("routes", route.Name))
	if !g.drives && !g.sends {
		f.Cluster = "" // only the network connects the two: one finding for all clusters
	}
	var others []string
	for _, subnet := range g.table.Subnets {
		if s := p.s.Subnet(subnet); s == nil || len(s.Gateways) == 0 {
			others = append(others, subnet.Short())
		}
	}
	if len(others) > 0 { // these clusters may need the route
		f = f.With("the table is also on "+strings.Join(others, ", ")).
			WithAdvice("give %s its own table without 0.0.0.0/0; replace TABLE with its ID",
				g.ID.Short()).
			WithFix("az network vnet subnet update --ids %s --route-table TABLE", g.ID)
	}
	p.add(f)
}

// checkGatewayRoutes finds gateways that should reach pods but lack their routes. With other
// plugins than kubenet, pods have addresses of the network, or the gateway learns their routes by
// itself (AGIC#1524).
func checkGatewayRoutes(p *clusterCase, g *gatewaySubnet) {
	if g.RouteTable == "" {
		if loose := unassociated(p, g.Subnet); loose != nil {
			p.add(p.found(finding.GatewayNoTable, g.ID, "%s has no route table; the unassociated "+
				"table %s holds pod routes of cluster %s and was probably the gateway's",
				g.who(), loose.ID.Short(), p.cluster.ID.Name()).
				With("table: "+string(loose.ID)).WithFix("%s", useTable(g.ID, loose.ID)))
			return
		}
		if !g.drives {
			return
		}
		table := NewTable(p.s.Snapshot, g.ID)
		p.add(p.found(finding.GatewayNoTable, g.ID, "%s has no route table, "+
			"so the ingress add-on of cluster %s cannot reach any pod through it",
			g.who(), p.cluster.ID.Name()).
			With("ingress add-on: "+string(p.cluster.Ingress), "pod CIDR: "+
				inventory.List(p.cluster.PodCIDRs)).
			WithAdvice("%s", p.advice(table)).WithFix("%s", associateNew(p, g.Subnet, table)))
		return
	}
	if !g.sends || g.target || g.shares || g.table == nil || p.table == nil || g.table == p.table {
		return
	}
	own := p.clusterRoutes()
	// A gateway has no IPv6 backends (ipv6-application-gateway-powershell).
	maps.DeleteFunc(own, func(prefix netip.Prefix, _ inventory.Route) bool {
		return prefix.Addr().Is6()
	})
	missing, _ := drift(own, g.pods)
	if len(missing) == 0 {
		return
	}
	p.add(p.found(finding.GatewayRoutesMissing, g.table.ID,
		"%s of cluster %s missing in %s, the table of %s",
		ofRoutes(len(missing), len(own)), p.cluster.ID.Name(), g.table.ID.Short(), g.who()).
		With(missing...).WithAdvice("%s", p.advice(g.table.ID)).WithFix("%s",
		p.fillCommand()))
}

// clusterRoutes returns the pod routes of the cluster in its route table, which was read.
func (p *clusterCase) clusterRoutes() map[netip.Prefix]inventory.Route {
	return plan.PodRoutes(p.s, p.config, p.table)
}

// drift compares a copy of a cluster's pod routes with the cluster's route table. missing lists
// routes that the copy lacks or has with another next hop. stale lists additional ones.
func drift(own, copied map[netip.Prefix]inventory.Route) (missing, stale []string) {
	for _, prefix := range inventory.SortPrefixes(slices.Collect(maps.Keys(own))) {
		switch there, ok := copied[prefix]; {
		case !ok:
			missing = append(missing,
				fmt.Sprintf("%s to %s is missing", prefix, own[prefix].NextHop()))
		case !there.SameHop(own[prefix]):
			missing = append(missing, fmt.Sprintf("%s leads to %s, but its node is %s", prefix,
				there.NextHop(), own[prefix].NextHop()))
		}
	}
	for _, prefix := range inventory.SortPrefixes(slices.Collect(maps.Keys(copied))) {
		if _, ok := own[prefix]; !ok {
			stale = append(stale, fmt.Sprintf("%s to %s (%s) is stale", prefix,
				copied[prefix].NextHop(), copied[prefix].Name))
		}
	}
	return missing, stale
}

// ofRoutes returns the subject of a sentence: how many of the pod routes are affected.
func ofRoutes(n, all int) string {
	if n == all {
		return fmt.Sprintf("all %d pod routes", all)
	}
	return fmt.Sprintf("%d of the %d pod routes", n, all)
}

// adopt returns the command that puts the pod routes of a cluster without a config under
// management. promote shows the changes and asks.
func adopt[T ~string](cluster T, file finding.CommandLine) finding.CommandLine {
	return finding.Command("routekeeper init --cluster %s --out %s && routekeeper promote %s -f %s"+
		" && routekeeper sync -f %s", cluster, file, cluster, file, file)
}

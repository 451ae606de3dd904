package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: a config should guard what the cluster's subnets have now, because a redeployment
// can remove it silently. Propose lists the subnets of nodes, pods and the API server with their
// tables, NAT gateways and network security groups. It also says what the cluster's outbound type
// needs and a subnet lacks. If no pool names a subnet of node auto-provisioning, the interfaces of
// its machines show it. The table of a kubenet cluster's nodes is left out, because it is guarded
// as the cluster's own.

// proposeGuard adds what the cluster's subnets have now.
func (p *Proposal) proposeGuard(s *inventory.Snapshot, cluster *inventory.Cluster) {
	roles := map[string][]string{}
	add := func(id arm.ID, role string) {
		if id != "" && !slices.Contains(roles[id.Key()], role) {
			roles[id.Key()] = append(roles[id.Key()], role)
		}
	}
	nodes := s.NodeSubnetIDs(cluster)
	for _, id := range nodes {
		add(id, "nodes")
	}
	provisioned := p.provisioned(s, cluster)
	for _, id := range provisioned {
		nodes = append(nodes, id)
		add(id, "nodes")
	}
	isNodes := func(id arm.ID) bool { return slices.ContainsFunc(nodes, id.Equal) }
	for _, id := range cluster.PodSubnets() {
		add(id, "pods")
	}
	add(cluster.APISubnet, "the API server")
	for _, key := range slices.Sorted(maps.Keys(roles)) {
		subnet := s.Subnets[key]
		if subnet == nil {
			continue
		}
		g := v1alpha1.GuardedSubnet{SubnetID: string(subnet.ID), NATGatewayID: string(
			subnet.NATGateway), NetworkSecurityGroupID: string(subnet.SecurityGroup)}
		switch {
		case cluster.Kubenet() || inventory.IsManagerTable(subnet.RouteTable):
		case inventory.IsManagedTable(subnet.RouteTable):
			p.Notes = append(p.Notes, "subnet "+subnet.ID.Short()+" has "+
				subnet.RouteTable.Short()+", which AKS made for a kubenet cluster and takes off "+
				"when that cluster leaves kubenet: it is not guarded")
		default:
			g.RouteTableID = string(subnet.RouteTable)
		}
		if isNodes(subnet.ID) {
			p.needs(s, cluster, subnet)
		}
		if g.RouteTableID == "" && g.NATGatewayID == "" && g.NetworkSecurityGroupID == "" {
			continue
		}
		why := "subnet " + subnet.ID.Short() + " has " + strings.Join(roles[key], " and ") +
			" of the cluster"
		if isNodes(subnet.ID) && cluster.Outbound != "" {
			why += ", whose outbound type is " + cluster.Outbound
		}
		if slices.ContainsFunc(provisioned, subnet.ID.Equal) {
			why += "; auto-provisioning made them, and only an AKSNodeClass names the subnet"
		}
		if subnet.ID.Group().Equal(cluster.NodeGroup()) {
			why += "; AKS made this network, so it is only watched"
		}
		p.guard(g, why)
	}
}

// provisioned returns the subnets of node auto-provisioning that no pool names. For this, the
// interfaces of the node resource group that are in any subnet must be read.
func (p *Proposal) provisioned(s *inventory.Snapshot, cluster *inventory.Cluster) []arm.ID {
	if !cluster.AutoProvisioned {
		return nil
	}
	var read []*inventory.Interface
	missed := ""
	named := slices.Concat(s.NodeSubnetIDs(cluster), cluster.PodSubnets())
	for _, key := range slices.Sorted(maps.Keys(s.Subnets)) {
		if slices.ContainsFunc(named, s.Subnets[key].ID.Equal) {
			continue
		}
		for _, c := range s.Subnets[key].Configurations() {
			id := c.Parent()
			if !id.Is(arm.TypeInterface) || !id.Group().Equal(cluster.NodeGroup()) {
				continue
			}
			nic := s.Interfaces[id.Key()]
			switch unread, tried := s.Unread[id.Key()]; {
			case nic != nil:
				read = append(read, nic)
			case tried:
				missed = fmt.Sprintf("a network interface in subnet %s could not be read (%s): if "+
					"it is of a node that auto-provisioning made, guard that subnet, too",
					s.Subnets[key].ID.Short(), unread.Reason())
			default:
				p.Want.Interfaces = append(p.Want.Interfaces, id)
			}
		}
	}
	if missed != "" {
		p.Notes = append(p.Notes, missed)
	}
	return s.Provisioned(cluster, read)
}

// GuardedText is a proposed guarded subnet for a file: its ID, and the fields that say what it must
// have, as name and ID.
type GuardedText struct {
	Why, Subnet string
	Fields      [][2]string
}

// Guarded returns the proposed guarded subnets.
func (p *Proposal) Guarded() (out []GuardedText) {
	for i, g := range p.Config.Spec.Guard.Subnets {
		text := GuardedText{Why: p.SubnetWhy[i], Subnet: g.SubnetID}
		for _, property := range inventory.Properties {
			if id := GuardedValue(g, property); id != "" {
				text.Fields = append(text.Fields, [2]string{property.Field(), string(id)})
			}
		}
		out = append(out, text)
	}
	return out
}

// GuardsGroups reports whether a network security group is guarded.
func (p *Proposal) GuardsGroups() bool { return GuardsGroups(p.Config.Spec.Guard) }

// ReadsNodes reports whether the pod routes come from the nodes.
func (p *Proposal) ReadsNodes() bool { return fromNodes(&p.Config) }

// GuardsGroups reports whether a guard names a network security group for any subnet.
func GuardsGroups(g v1alpha1.Guard) bool {
	return slices.ContainsFunc(g.Subnets, func(s v1alpha1.GuardedSubnet) bool {
		return s.NetworkSecurityGroupID != ""
	})
}

// guard adds a guarded subnet, with the reason.
func (p *Proposal) guard(g v1alpha1.GuardedSubnet, why string) {
	p.Config.Spec.Guard.Subnets = append(p.Config.Spec.Guard.Subnets, g)
	p.SubnetWhy = append(p.SubnetWhy, why)
}

// needs notes what the cluster's outbound type needs and a node subnet lacks (egress-outboundtype).
func (p *Proposal) needs(s *inventory.Snapshot, cluster *inventory.Cluster,
	subnet *inventory.Subnet) {
	note := func(format string, args ...any) {
		p.Notes = append(p.Notes, fmt.Sprintf("the outbound type "+cluster.Outbound+" needs "+
			format+": routekeeper doctor says more", args...))
	}
	table := s.Table(subnet.RouteTable)
	switch strings.ToLower(cluster.Outbound) {
	case "userdefinedrouting":
		switch {
		case subnet.RouteTable == "":
			note("a route table with a default route on %s, which has no table", subnet.ID.Short())
		case table != nil && len(table.Default()) == 0:
			note("a default route in %s, which has none", table.ID.Short())
		}
	case "userassignednatgateway", "managednatgateway":
		if subnet.NATGateway == "" {
			note("a NAT gateway on %s, which has none", subnet.ID.Short())
		}
	}
}

// proposeEgress adds the present default route of a cluster with user-defined routing: without it
// the nodes have no egress, or bypass the firewall.
func (p *Proposal) proposeEgress(s *inventory.Snapshot, cluster *inventory.Cluster) {
	if !strings.EqualFold(cluster.Outbound, "userDefinedRouting") {
		return
	}
	egress := &p.Config.Spec.Egress
	for _, id := range s.NodeSubnetIDs(cluster) {
		subnet := s.Subnet(id)
		if subnet == nil || s.Table(subnet.RouteTable) == nil ||
			inventory.IsManagerTable(subnet.RouteTable) {
			continue
		}
		table := s.Table(subnet.RouteTable)
		var routes []v1alpha1.EgressRoute
		for _, r := range table.Default() {
			switch {
			case r.Hop.IsValid():
				routes = append(routes, v1alpha1.EgressRoute{Name: r.Name,
					AddressPrefix: r.Destination(), NextHopIPAddress: r.NextHop()})
			case strings.EqualFold(r.HopType, inventory.HopGateway):
				routes = append(routes, v1alpha1.EgressRoute{Name: r.Name,
					AddressPrefix: r.Destination(), NextHopType: v1alpha1.HopGateway})
			}
		}
		switch {
		case len(routes) == 0 || table.ID.Equal(arm.ID(egress.RouteTableID)):
		case egress.RouteTableID != "":
			p.Notes = append(p.Notes, fmt.Sprintf("subnet %s has the table %s, whose default "+
				"route spec.egress does not have: it holds one table", id.Short(),
				table.ID.Short()))
		default:
			*egress = v1alpha1.Egress{RouteTableID: string(table.ID), Routes: routes,
				FirewallID: string(p.applianceAt(s, cluster, table.Default()[0].Hop))}
			p.EgressWhy = "subnet " + id.Short() + " has this table"
			if cluster.Kubenet() {
				p.EgressWhy += "; its cloud provider writes it, so it is only watched"
			}
		}
	}
}

// Appliance returns the word for what spec.egress.firewallID names.
func (p *Proposal) Appliance() string {
	_, kind := inventory.ApplianceOf(arm.ID(p.Config.Spec.Egress.FirewallID))
	return kind
}

// applianceAt returns the Azure Firewall or load balancer that has an address, in the networks of a
// cluster's nodes and those peered with them. It returns the front end if the load balancer has
// several, and "" if none has the address or it was not read.
func (p *Proposal) applianceAt(s *inventory.Snapshot, cluster *inventory.Cluster,
	hop netip.Addr) arm.ID {
	near := nearNetworks(s, cluster)
	for _, key := range slices.Sorted(maps.Keys(s.Subnets)) {
		subnet := s.Subnets[key]
		if !near[subnet.ID.Parent().Key()] || !within(subnet.Prefixes, hop) {
			continue
		}
		if b, f := s.FrontendAt(hop, subnet); f != nil {
			if len(b.Frontends) > 1 {
				return b.ID.Child("frontendIPConfigurations", f.Name)
			}
			return b.ID
		}
		var appliances []arm.ID
		for _, c := range subnet.Configurations() {
			if id := c.Parent(); id.Is(arm.TypeFirewall) || id.Is(arm.TypeLoadBalancer) {
				appliances = append(appliances, id)
			}
		}
		for _, id := range inventory.SortIDs(appliances) {
			_, kind := inventory.ApplianceOf(id)
			firewall := s.Firewalls[id.Key()]
			switch unread, tried := s.Unread[id.Key()]; {
			case firewall != nil && slices.Contains(firewall.Addresses, hop):
				return firewall.ID
			case s.Appliance(id) != nil:
			case tried:
				p.Notes = append(p.Notes, fmt.Sprintf("%s %s could not be read (%s): if it has "+
					"%s, name it in spec.egress.firewallID, so that nothing is written to an "+
					"address that it does not have", kind, id.Short(), unread.Reason(), hop))
			default:
				p.Want.AddAppliance(id)
			}
		}
	}
	return ""
}

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Proposal is a proposed config for a cluster, with the reason for each part.
type Proposal struct {
	Cluster arm.ID
	Config  v1alpha1.ClusterRoutes
	// About describes the cluster. Table says how the cluster's route table was identified.
	About, Table string
	// SubnetWhy and TargetWhy are the reasons for Spec.Guard.Subnets and Spec.Targets, one for each
	// element.
	SubnetWhy, TargetWhy []string
	// EgressWhy is the reason for Spec.Egress, or "" if there is none.
	EgressWhy string
	// Tableless are the subnets of Application Gateways near the nodes that have no route table.
	Tableless []arm.ID
	// Notes lists what the user has to check.
	Notes []string
	// Want names what to read to find the cluster's route table and appliance. Then propose again.
	Want inventory.Wanted
	// Skip is set when there is nothing to configure, and says why.
	Skip string
}

// Propose returns a config for each cluster in the snapshot, sorted by cluster. It has the
// cluster's route table, the gateway subnets that can reach it, and all other tables with its pod
// routes.
func Propose(s *inventory.Snapshot) []Proposal {
	var out []Proposal
	names := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(s.Clusters)) {
		out = append(out, propose(s, s.Clusters[key], names))
	}
	for i := range out {
		out[i].dropForeign(out, s.Cluster(out[i].Cluster))
	}
	return out
}

// dropForeign drops targets that are another cluster's route table, because a config refuses them.
// It skips a cluster if nothing remains to configure.
func (p *Proposal) dropForeign(all []Proposal, cluster *inventory.Cluster) {
	spec := &p.Config.Spec
	for i := len(spec.Targets) - 1; i >= 0; i-- {
		id := arm.ID(spec.Targets[i].RouteTableID)
		owner := slices.IndexFunc(all, func(o Proposal) bool {
			return id.Equal(arm.ID(o.Config.Spec.RouteTableID))
		})
		if owner >= 0 {
			spec.Targets = slices.Delete(spec.Targets, i, i+1)
			p.TargetWhy = slices.Delete(p.TargetWhy, i, i+1)
			p.Notes = append(p.Notes,
				noTarget(id, "is the route table of the cluster "+all[owner].Cluster.Name()))
		}
	}
	if cluster.Kubenet() || p.Skip != "" {
		return
	}
	if len(spec.Targets) == 0 {
		spec.Source = v1alpha1.SourceRouteTable
	}
	if len(spec.Guard.Subnets)+len(spec.Targets) == 0 {
		p.Skip = fmt.Sprintf("its network plugin is %s, so it has no pod routes in a route table, "+
			"and its subnets have no route table, NAT gateway or network security group to guard",
			cluster.PluginName())
	}
}

// noTarget returns the note that a table with the cluster's pod routes is no target.
func noTarget(table arm.ID, why string) string {
	return table.Short() + " has routes to the cluster's pods and " + why + ": it is not a target"
}

func propose(s *inventory.Snapshot, cluster *inventory.Cluster, names map[string]bool) Proposal {
	var pools []string
	for _, pool := range cluster.Pools {
		pools = append(pools, fmt.Sprintf("%s (nodes: %d)", pool.Name, pool.Count))
	}
	p := Proposal{Cluster: cluster.ID, About: fmt.Sprintf("cluster %s: %s, pod CIDR %s, pools: %s",
		cluster.ID.Name(), cluster.PluginName(), prefixList(cluster), strings.Join(pools, ", "))}
	if cluster.Overlay() && s.Migrates(cluster) {
		p.Skip = "it migrates to overlay, and its nodes need their routes until the last one has " +
			"moved: follow it with routekeeper migrate watch, and then run init again"
		return p
	}
	c := &p.Config
	c.APIVersion, c.Kind = v1alpha1.APIVersion, v1alpha1.Kind
	c.Metadata.Name = uniqueName(cluster.ID, names)
	c.Spec.ClusterID = string(cluster.ID)
	c.SetDefaults()
	if !cluster.Kubenet() {
		p.proposeFlat(s, cluster)
		return p
	}
	d := Discover(Facts{Snapshot: s}, withRivals(s, cluster, c), Taken{})
	c.Spec.RouteTableID, p.Table, p.Want = string(d.Table), d.How, d.Want
	if d.Finding != nil {
		p.Notes = append(p.Notes, d.Finding.Message)
	}
	p.proposeTargets(s, cluster)
	p.proposeGuard(s, cluster)
	p.proposeEgress(s, cluster)
	c.SetDefaults()
	return p
}

// proposeFlat proposes a config for a cluster without a route table of its own. The config guards
// what the subnets have. With Azure CNI Overlay it also keeps the tables in sync that have routes
// to pods.
func (p *Proposal) proposeFlat(s *inventory.Snapshot, cluster *inventory.Cluster) {
	p.proposeGuard(s, cluster)
	p.proposeEgress(s, cluster)
	v := newClusterState(Facts{Snapshot: s}, &v1alpha1.ClusterRoutes{}, cluster)
	for _, key := range slices.Sorted(maps.Keys(s.Tables)) {
		table := s.Tables[key]
		if !cluster.Overlay() || s.LeadsElsewhere(table, cluster) || writtenByAzure(table.ID) {
			continue
		}
		n := len(v.podRoutes(table))
		switch {
		case n == 0:
		case onNodes(s, table, cluster):
			p.Notes = append(p.Notes, noTarget(table.ID, "is on nodes of another cluster, whose "+
				"route table it may be"))
		default:
			spec := &p.Config.Spec
			spec.Source = v1alpha1.SourceNodes
			spec.Targets = append(spec.Targets, v1alpha1.Target{RouteTableID: string(table.ID)})
			p.TargetWhy = append(p.TargetWhy,
				fmt.Sprintf("it has %d routes to the cluster's pods", n))
		}
	}
	p.Config.SetDefaults()
}

// withRivals adds the tables that lead to the cluster's nodes, and not to others, to the targets of
// its config: one of them may be its route table, whatever its node subnets have.
func withRivals(s *inventory.Snapshot, cluster *inventory.Cluster,
	c *v1alpha1.ClusterRoutes) *v1alpha1.ClusterRoutes {
	with := *c
	v := newClusterState(Facts{Snapshot: s}, c, cluster)
	for _, key := range slices.Sorted(maps.Keys(s.Tables)) {
		if table := s.Tables[key]; !s.LeadsElsewhere(table, cluster) &&
			!onNodes(s, table, cluster) && len(v.podRoutes(table)) > 0 {
			with.Spec.Targets = append(with.Spec.Targets,
				v1alpha1.Target{RouteTableID: string(table.ID)})
		}
	}
	return &with
}

// Enforces reports whether the config makes a keeper repair associations, and not only report them.
func (p Proposal) Enforces() bool {
	return p.Skip == "" && p.Config.Spec.Guard.Mode == v1alpha1.GuardEnforce
}

// Observing returns the proposal with a config that changes nothing until you promote it.
func (p Proposal) Observing() Proposal {
	p.Config = Observing([]v1alpha1.ClusterRoutes{p.Config})[0]
	return p
}

// proposeTargets adds the gateway subnets near the nodes with their tables, and the other tables
// with pod routes.
func (p *Proposal) proposeTargets(s *inventory.Snapshot, cluster *inventory.Cluster) {
	spec := &p.Config.Spec
	// without a known table, any table with pod routes may be the cluster's
	own := arm.ID(spec.RouteTableID)
	v := newClusterState(Facts{Snapshot: s}, &p.Config, cluster)
	near := nearNetworks(s, cluster)
	isTarget := map[string]bool{}
	target := func(id arm.ID, why string) {
		if !isTarget[id.Key()] {
			isTarget[id.Key()] = true
			spec.Targets = append(spec.Targets, v1alpha1.Target{RouteTableID: string(id)})
			p.TargetWhy = append(p.TargetWhy, why)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Subnets)) {
		subnet := s.Subnets[key]
		if len(subnet.Gateways) == 0 || !near[subnet.ID.Parent().Key()] {
			continue
		}
		who := fmt.Sprintf("Application Gateway %s is in subnet %s", shortNames(subnet.Gateways),
			subnet.ID.Short())
		switch {
		case subnet.RouteTable == "":
			p.Tableless = append(p.Tableless, subnet.ID)
			p.Notes = append(p.Notes, who+", which has no route table: create one and add it to "+
				"the targets (init --gateway-table does)")
		case subnet.RouteTable.Equal(own):
			p.Notes = append(p.Notes, who+", which shares the cluster's route table: it needs no "+
				"copy, but blocks the migration to Azure CNI Overlay")
		case own == "" && s.Table(subnet.RouteTable) != nil &&
			len(v.podRoutes(s.Table(subnet.RouteTable))) > 0:
			p.Notes = append(p.Notes, who+", whose route table "+subnet.RouteTable.Short()+
				" leads to the cluster's nodes, and may be the cluster's: it is not a target")
		case inventory.IsManagedTable(subnet.RouteTable):
			p.Notes = append(p.Notes, who+", which has the route table of another cluster, "+
				subnet.RouteTable.Short()+": routekeeper never writes it")
		case inventory.IsManagerTable(subnet.RouteTable):
			p.Notes = append(p.Notes, who+", which has the table of Azure Virtual Network "+
				"Manager, "+subnet.RouteTable.Short()+": it is not a target")
		default:
			target(subnet.RouteTable, who)
			p.guard(v1alpha1.GuardedSubnet{SubnetID: string(subnet.ID),
				RouteTableID: string(subnet.RouteTable), NATGatewayID: string(subnet.NATGateway),
				NetworkSecurityGroupID: string(subnet.SecurityGroup)}, who)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Tables)) {
		table := s.Tables[key]
		if own == "" || table.ID.Equal(own) || writtenByAzure(table.ID) ||
			s.LeadsElsewhere(table, cluster) || onNodes(s, table, cluster) {
			continue
		}
		if n := len(v.podRoutes(table)); n > 0 {
			target(table.ID, fmt.Sprintf("it has %d pod routes of the cluster", n))
		}
	}
}

// writtenByAzure reports whether a table is one that a service of Azure makes and writes: AKS, or
// Azure Virtual Network Manager.
func writtenByAzure(table arm.ID) bool {
	return inventory.IsManagedTable(table) || inventory.IsManagerTable(table)
}

// onNodes reports whether a table is on a node subnet of another cluster, and so may be that
// cluster's route table.
func onNodes(s *inventory.Snapshot, table *inventory.RouteTable, but *inventory.Cluster) bool {
	for _, cluster := range s.Clusters {
		for _, id := range s.NodeSubnetIDs(cluster) {
			if subnet := s.Subnet(id); !cluster.ID.Equal(but.ID) && subnet != nil &&
				subnet.RouteTable.Equal(table.ID) {
				return true
			}
		}
	}
	return false
}

// nearNetworks returns the virtual networks of the node subnets and those peered with them.
func nearNetworks(s *inventory.Snapshot, cluster *inventory.Cluster) map[string]bool {
	near := map[string]bool{}
	for _, id := range s.NodeSubnetIDs(cluster) {
		near[id.Parent().Key()] = true
		if vnet := s.VNets[id.Parent().Key()]; vnet != nil {
			for _, peer := range vnet.Peers() {
				near[peer.Key()] = true
			}
		}
	}
	return near
}

// NearTables returns the tables of all subnets in the virtual networks of a cluster's nodes and in
// those peered with them, sorted.
func NearTables(s *inventory.Snapshot, cluster *inventory.Cluster) []arm.ID {
	near := nearNetworks(s, cluster)
	var ids []arm.ID
	for _, subnet := range s.Subnets {
		if near[subnet.ID.Parent().Key()] && subnet.RouteTable != "" {
			ids = append(ids, subnet.RouteTable)
		}
	}
	return inventory.SortIDs(ids)
}

func prefixList(cluster *inventory.Cluster) string {
	texts := make([]string, len(cluster.PodCIDRs))
	for i, p := range cluster.PodCIDRs {
		texts[i] = p.String()
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, " and ")
}

var notInName = lazy.Regexp(`[^a-z0-9]+`)

// uniqueName makes a unique metadata.name from a cluster's name: lower case, letters, digits and
// hyphens.
func uniqueName(id arm.ID, taken map[string]bool) string {
	clean := func(s string) string {
		s = strings.Trim(notInName().ReplaceAllString(strings.ToLower(s), "-"), "-")
		return strings.Trim(s[:min(len(s), 50)], "-")
	}
	name := clean(id.Name())
	if name == "" {
		name = "cluster"
	}
	if taken[name] {
		name = strings.Trim(clean(id.ResourceGroup()+"-"+id.Name()), "-")
	}
	for base, n := name, 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	taken[name] = true
	return name
}

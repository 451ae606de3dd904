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

// checkSharing finds clusters that interfere with each other, and overlapping addresses.
func checkSharing(p *clusterCase) {
	for _, key := range slices.Sorted(maps.Keys(p.s.Clusters)) {
		if other := p.s.Clusters[key]; other.Kubenet() && reportsOn(p, other) {
			neighbour(p, other)
		}
	}
	networks := networks(p)
	podsInNetworks(p, networks)
	servicesOverlap(p, networks)
	reserved(p)
}

// reportsOn reports whether the checks of this cluster cover the pair with another cluster, so that
// each pair is reported once.
func reportsOn(p *clusterCase, other *inventory.Cluster) bool {
	return !other.ID.Equal(p.cluster.ID) &&
		(p.cluster.ID.Key() < other.ID.Key() || !slices.ContainsFunc(p.Clusters, other.ID.Equal))
}

// neighbour reports what this cluster and another cluster share.
func neighbour(p *clusterCase, other *inventory.Cluster) {
	overlap := overlaps(p.cluster.PodCIDRs, other.PodCIDRs)
	describe := func(f finding.Finding) finding.Finding {
		f = f.About(other.ID.Name()).With("pod CIDRs: "+inventory.List(p.cluster.PodCIDRs)+" and "+
			inventory.List(other.PodCIDRs), "the other cluster: "+string(other.ID))
		if len(overlap) > 0 && f.Code != finding.PodCIDRsOverlap {
			f.Severity = finding.Error
			f = f.With("their pod CIDRs overlap: each cloud provider deletes the other's routes")
		}
		return f
	}
	theirs, before := p.s.NodeSubnetIDs(other), len(p.findings)
	for _, id := range p.s.NodeSubnetIDs(p.cluster) {
		if slices.ContainsFunc(theirs, id.Equal) {
			p.add(describe(p.found(finding.SubnetShared, id, "the kubenet clusters %s and %s "+
				"share node subnet %s, which can have only one route table", p.cluster.ID.Short(),
				other.ID.Short(), id.Short()).
				WithFix("az aks nodepool add --subscription %s --resource-group %s "+
					"--cluster-name %s --name moved --vnet-subnet-id SUBNET_ID",
					other.ID.Subscription(), other.ID.ResourceGroup(), other.ID.Name())))
		}
	}
	if len(p.findings) > before {
		return // sharing a subnet implies sharing its table
	}
	if p.table != nil && !p.source.Doubtful && usedBy(p, other, p.table) {
		p.add(describe(p.found(finding.TableShared, p.table.ID,
			"the kubenet clusters %s and %s share the route table %s", p.cluster.ID.Short(),
			other.ID.Short(), p.table.ID.Short()).
			WithFix("az network route-table create --subscription %s -g %s -n %s-rt",
				other.ID.Subscription(), other.ID.ResourceGroup(), other.ID.Name())))
		return
	}
	if len(overlap) == 0 || !p.near(other) {
		return
	}
	f := describe(p.found(finding.PodCIDRsOverlap, p.cluster.ID, "the pod CIDRs of the kubenet "+
		"clusters %s and %s overlap, and their networks are connected: %s", p.cluster.ID.Short(),
		other.ID.Short(), inventory.List(overlap)))
	if both, said := leadsToBoth(p, other); both != "" {
		f.Severity = finding.Warning
		f = f.With("route table " + both.Short() + " leads to nodes of both")
	} else if said {
		return
	}
	p.add(f)
}

// usedBy reports whether another cluster uses a table too. Either its config names the table, or
// one of its node subnets has the table and the table leads to its nodes. An association alone may
// be a mistake, which the other cluster's checks report.
func usedBy(p *clusterCase, other *inventory.Cluster, table *inventory.RouteTable) bool {
	for _, c := range p.Configs {
		if other.ID.Equal(arm.ID(c.Spec.ClusterID)) && table.ID.Equal(arm.ID(c.Spec.RouteTableID)) {
			return true
		}
	}
	for _, id := range p.s.NodeSubnetIDs(other) {
		if s := p.s.Subnet(id); s != nil && s.RouteTable.Equal(table.ID) {
			return plan.LeadsToNodes(p.s, configFor(other), table)
		}
	}
	return false
}

// configFor returns a config that has only the cluster's ID.
func configFor(c *inventory.Cluster) *v1alpha1.ClusterRoutes {
	config := &v1alpha1.ClusterRoutes{}
	config.Spec.ClusterID = string(c.ID)
	return config
}

// leadsToBoth finds a target of this cluster that also leads to nodes of the other cluster. If both
// configs name the target, package plan reports it.
func leadsToBoth(p *clusterCase, other *inventory.Cluster) (table arm.ID, said bool) {
	if p.config == nil {
		return "", false
	}
	for _, t := range p.config.Spec.Targets {
		id := arm.ID(t.RouteTableID)
		for _, c := range p.Configs {
			said = said || other.ID.Equal(arm.ID(c.Spec.ClusterID)) &&
				slices.ContainsFunc(c.Spec.Targets, func(t v1alpha1.Target) bool {
					return id.Equal(arm.ID(t.RouteTableID))
				})
		}
		if target := p.s.Table(id); target != nil && !said &&
			plan.LeadsToNodes(p.s, configFor(other), target) {
			return id, false
		}
	}
	return "", said
}

// near reports whether the nodes of two clusters are in one network, or in peered networks.
func (p *clusterCase) near(other *inventory.Cluster) bool {
	for _, a := range p.s.NodeSubnetIDs(p.cluster) {
		for _, b := range p.s.NodeSubnetIDs(other) {
			if a.Parent().Equal(b.Parent()) || p.peered(a.Parent(), b.Parent()) ||
				p.peered(b.Parent(), a.Parent()) {
				return true
			}
		}
	}
	return false
}

func (p *clusterCase) peered(a, b arm.ID) bool {
	vnet := p.s.VNets[a.Key()]
	return vnet != nil && slices.ContainsFunc(vnet.Peers(), b.Equal)
}

// reachedNetwork is a virtual network that nodes reach: their own, or a peered one.
type reachedNetwork struct {
	id       arm.ID
	prefixes []netip.Prefix
	ofNodes  bool
	// subnets are nil if the network was not read. Then only the peering shows its prefixes.
	subnets []*inventory.Subnet
	read    bool
}

// networks returns the networks of the cluster's nodes and those peered with them, by ID.
func networks(p *clusterCase) []reachedNetwork {
	at := map[string]reachedNetwork{}
	for _, subnet := range p.s.NodeSubnetIDs(p.cluster) {
		vnet := p.s.VNets[subnet.Parent().Key()]
		if vnet == nil {
			continue
		}
		at[vnet.ID.Key()] = p.reachedNetwork(vnet, true)
		for _, peering := range vnet.Peerings {
			if _, there := at[peering.Remote.Key()]; there || !peering.Connected {
				continue
			}
			if remote := p.s.VNets[peering.Remote.Key()]; remote != nil {
				at[remote.ID.Key()] = p.reachedNetwork(remote, false)
			} else {
				at[peering.Remote.Key()] = reachedNetwork{id: peering.Remote,
					prefixes: peering.Prefixes}
			}
		}
	}
	var all []reachedNetwork
	for _, key := range slices.Sorted(maps.Keys(at)) {
		all = append(all, at[key])
	}
	return all
}

func (p *clusterCase) reachedNetwork(vnet *inventory.VNet, own bool) reachedNetwork {
	l := reachedNetwork{id: vnet.ID, prefixes: vnet.Prefixes, ofNodes: own, read: true}
	for _, key := range slices.Sorted(maps.Keys(p.s.Subnets)) {
		if s := p.s.Subnets[key]; s.ID.Parent().Equal(vnet.ID) {
			l.subnets = append(l.subnets, s)
		}
	}
	return l
}

func (l reachedNetwork) String() string {
	if l.ofNodes {
		return "network " + l.id.Short() + " of its nodes"
	}
	return "peered network " + l.id.Short()
}

// taken lists the subnets that overlap the prefixes.
func (l reachedNetwork) taken(prefixes []netip.Prefix) (lines []string) {
	for _, s := range l.subnets {
		if hit := overlaps(s.Prefixes, prefixes); len(hit) > 0 {
			lines = append(lines,
				fmt.Sprintf("subnet %s (%s)", s.ID.Short(), inventory.List(s.Prefixes)))
		}
	}
	return lines
}

// podsInNetworks finds pods that have the same addresses as machines. An overlapping address space
// alone does no harm: AKS itself has made networks of 10.0.0.0/8 with pods in 10.244.0.0/16.
func podsInNetworks(p *clusterCase, networks []reachedNetwork) {
	for _, l := range networks {
		hit := overlaps(l.prefixes, p.cluster.PodCIDRs)
		if len(hit) == 0 {
			continue
		}
		f := p.found(finding.PodsInNetwork, l.id, "the pod CIDR %s of cluster %s overlaps %s of %s",
			inventory.List(p.cluster.PodCIDRs), p.cluster.ID.Short(), inventory.List(hit), l)
		taken := l.taken(p.cluster.PodCIDRs)
		switch {
		case l.read && len(taken) == 0:
			f.Severity = finding.Info
			f = f.With("none of its subnets overlaps")
		case l.ofNodes && covered(p, l):
			f.Severity = finding.Error
			f = f.With("pod routes cover addresses in use:")
		}
		p.add(f.With(taken...))
	}
}

// covered reports whether a pod route in the cluster's table covers a subnet with addresses in use.
func covered(p *clusterCase, l reachedNetwork) bool {
	if p.table == nil || p.source.Doubtful || p.config == nil {
		return false
	}
	own := plan.Owner(p.s, p.config, p.table)
	for _, s := range l.subnets {
		for _, r := range p.table.Routes() {
			if s.Used > 0 && own.NodePrefix(r.Prefix) &&
				len(overlaps(s.Prefixes, []netip.Prefix{r.Prefix})) > 0 {
				return true
			}
		}
	}
	return false
}

// servicesOverlap finds services that have the same addresses as machines or pods. kube-proxy takes
// packets to a service before any route applies.
func servicesOverlap(p *clusterCase, networks []reachedNetwork) {
	var lines []string
	severity := finding.Info
	services := p.cluster.ServiceCIDRs
	if hit := overlaps(p.cluster.PodCIDRs, services); len(hit) > 0 {
		lines, severity = append(lines, "pod CIDR "+inventory.List(hit)), finding.Warning
	}
	for _, l := range networks {
		if hit := overlaps(l.prefixes, services); len(hit) > 0 {
			taken := l.taken(services)
			if len(taken) > 0 {
				severity = finding.Warning
			}
			lines = append(append(lines, fmt.Sprintf("%s of %s", inventory.List(hit), l)), taken...)
		}
	}
	if len(lines) == 0 {
		return
	}
	f := p.found(finding.ServicesOverlap, p.cluster.ID,
		"the service CIDR %s of cluster %s overlaps other addresses", inventory.List(services),
		p.cluster.ID.Short()).With(lines...)
	f.Severity = severity
	p.add(f)
}

// forbidden has the ranges that AKS clusters may not use (configure-azure-cni, prerequisites).
var forbidden = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("172.30.0.0/16"),
	netip.MustParsePrefix("172.31.0.0/16"), netip.MustParsePrefix("192.0.2.0/24"),
}

func reserved(p *clusterCase) {
	var lines []string
	severity := finding.Info
	check := func(what string, prefixes []netip.Prefix, worst finding.Severity) {
		if hit := overlaps(prefixes, forbidden); len(hit) > 0 {
			lines, severity = append(lines, what+" "+inventory.List(hit)), max(severity, worst)
		}
	}
	check("pod CIDR", p.cluster.PodCIDRs, finding.Warning)
	check("service CIDR", p.cluster.ServiceCIDRs, finding.Warning)
	for _, s := range p.subnets {
		check("node subnet "+s.ID.Short(), s.Prefixes, finding.Warning)
	}
	for _, l := range networks(p) {
		if l.ofNodes {
			check(l.String(), l.prefixes, finding.Info)
		}
	}
	if len(lines) == 0 {
		return
	}
	f := p.found(finding.ReservedRange,
		p.cluster.ID, "cluster %s uses addresses that AKS reserves: %s", p.cluster.ID.Short(),
		strings.Join(lines, "; ")).With("reserved: " + inventory.List(forbidden))
	f.Severity = severity
	p.add(f)
}

// overlaps returns the prefixes that overlap one of the others.
func overlaps(prefixes, others []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool {
		return !slices.ContainsFunc(others, p.Overlaps)
	})
}

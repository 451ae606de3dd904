// Package diagnose finds what is wrong: from what was read (an inventory.Snapshot) and the configs
// of the clusters it makes Findings. A file holds one family of checks: association, routes,
// targets, sharing, gateway, egress, filters, permissions, retirement, azurecni.
//
// It is pure, and knows nothing of how the snapshot came to be: live, from a bundle, or out of a
// plan that was never applied. What was not read is never taken for wrong: a check that lacks what
// it needs is silent.
package diagnose

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Case is what is looked at.
type Case struct {
	Snapshot *inventory.Snapshot
	// Clusters are the ones to diagnose; the snapshot may hold others, which count as neighbours.
	Clusters []arm.ID
	// Configs are those of the kubenet clusters: as they were given, or as they would be proposed.
	Configs []v1alpha1.ClusterRoutes
	// Proposed is set where nobody has configured anything: what a config alone makes a duty is no
	// finding then.
	Proposed bool
	// File is how the configs are named on a command line: routes.yaml.
	File finding.CommandLine
	// Today is the day of the diagnosis; zero: that on which the snapshot was taken.
	Today time.Time
	// RouteLimit is how many routes a table holds; 0: 400.
	RouteLimit int

	// What checks of every cluster ask about, looked up once: NICs by resource group, and the
	// tables on node subnets.
	nicsOf  map[string][]*inventory.Interface
	onNodes map[string]bool
}

// patient is one cluster under diagnosis, with what the checks ask about first.
type patient struct {
	*Case
	s       plan.Facts // nothing is remembered
	cluster *inventory.Cluster
	config  *v1alpha1.ClusterRoutes // nil for clusters that keep no pod routes in a table
	name    string                  // the config's, or the cluster's own
	// subnets are the node subnets that were read, in the order of their IDs; prefixes are theirs.
	subnets  []*inventory.Subnet
	prefixes []netip.Prefix
	// source is where the cluster's own table was found; table is that table, nil where it is
	// unknown, gone or was not read.
	source plan.Discovery
	table  *inventory.RouteTable
	// kube is what its own API says, nil where it was not asked or did not answer.
	kube *inventory.Kubernetes
	// nics are the NICs of its nodes, in the order of their IDs: those in its node resource group.
	nics []*inventory.Interface
}

// family is one file of checks.
type family struct {
	name string
	// of says which clusters it concerns.
	of    func(*inventory.Cluster) bool
	check func(*patient) []finding.Finding
}

func anyPlugin(*inventory.Cluster) bool { return true }

func kubenet(c *inventory.Cluster) bool { return c.Kubenet() }

// families are all checks beyond those that keeping makes itself (package plan).
var families = []family{
	{"association", kubenet, checkAssociation},
	{"routes", kubenet, checkRoutes},
	{"kubernetes", anyPlugin, checkKubernetes},
	{"sharing", kubenet, checkSharing},
	{"gateway", anyPlugin, checkGateways},
	{"ingress", anyPlugin, checkIngress},
	{"egress", anyPlugin, checkEgress},
	{"targets", kubenet, checkCopies},
	{"filters", anyPlugin, checkFilters},
	{"permissions", anyPlugin, checkPermissions},
	{"retirement", kubenet, checkRetirement},
	{"places", addressed, checkPlaces},
	{"azurecni", azureCNI, checkAzureCNI},
}

// Check makes all findings, worst first; what follows from another finding is left out (mute.go).
func Check(c Case) []finding.Finding {
	if c.RouteLimit == 0 {
		c.RouteLimit = inventory.DefaultRouteLimit
	}
	if c.Today.IsZero() {
		c.Today = c.Snapshot.Taken
	}
	if c.File == (finding.CommandLine{}) {
		c.File = finding.Command("routes.yaml")
	}
	c.nicsOf, c.onNodes = interfacesByGroup(c.Snapshot), tablesOnNodes(c.Snapshot)
	found := append(c.keeping(), plan.New(plan.Facts{Snapshot: c.Snapshot}, c.Configs).Orphans()...)
	for _, id := range inventory.SortIDs(slices.Clone(c.Clusters)) {
		p := c.patient(id)
		if p == nil {
			continue // keeping says so, or whoever listed it
		}
		found = append(found, p.unreadKubernetes()...)
		for _, f := range families {
			if f.of(p.cluster) {
				found = append(found, f.check(p)...)
			}
		}
	}
	found = append(found, unseen(c.Snapshot, found)...)
	return Mute(finding.Sort(found))
}

// keeping finds what is not as the configs want it, and says how it is put right.
func (c *Case) keeping() []finding.Finding {
	found := slices.DeleteFunc(plan.Watch(plan.Facts{Snapshot: c.Snapshot}, c.Configs).Findings,
		// Orphans tells of them
		func(f finding.Finding) bool { return f.Code == finding.RoutesOrphaned })
	for i, f := range found {
		switch kept := plan.Kept(c.Configs, f.Cluster, arm.ID(f.Resource)); {
		case f.Code != finding.TargetDrift:
		case kept && c.Proposed:
			found[i] = f.WithFix("%s", adopt(c.clusterOf(f.Cluster), c.File))
		case kept:
			found[i] = f.WithFix("routekeeper sync -f %s", c.File)
		case !c.Proposed:
			found[i] = f.WithFix("routekeeper promote %s -f %s", f.Cluster, c.File)
		}
	}
	return found
}

// clusterOf is the cluster of a config.
func (c *Case) clusterOf(name string) string {
	for _, config := range c.Configs {
		if config.Metadata.Name == name {
			return config.Spec.ClusterID
		}
	}
	return ""
}

func (c *Case) patient(id arm.ID) *patient {
	cluster := c.Snapshot.Cluster(id)
	if cluster == nil {
		return nil
	}
	p := &patient{Case: c, s: plan.Facts{Snapshot: c.Snapshot}, cluster: cluster,
		name: cluster.ID.Name(), prefixes: c.Snapshot.NodePrefixes(cluster),
		nics: c.nicsOf[cluster.NodeGroup().Key()]}
	for i := range c.Configs {
		if id.Equal(arm.ID(c.Configs[i].Spec.ClusterID)) {
			p.config, p.name = &c.Configs[i], c.Configs[i].Metadata.Name
			p.source = plan.Discover(p.s, p.config, plan.TakenBy(c.Configs))
			p.table = c.Snapshot.Table(p.source.Table)
		}
	}
	for _, subnet := range c.Snapshot.NodeSubnetIDs(cluster) {
		if s := c.Snapshot.Subnet(subnet); s != nil {
			p.subnets = append(p.subnets, s)
		}
	}
	if k := c.Snapshot.Kubernetes[id.Key()]; k != nil && k.Failed == "" {
		p.kube = &inventory.Kubernetes{Nodes: k.Nodes, Pods: k.Pods}
		if len(k.Nodes) == 0 { // a cluster has nodes: whoever asked may not see them
			p.kube.Nodes = nil
		}
	}
	return p
}

// found makes a finding about this cluster.
func (p *patient) found(code finding.Code, resource arm.ID, format string,
	args ...any) finding.Finding {
	return finding.New(code, p.name, string(resource), format, args...)
}

// count says how many there are of what.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// interfaces are the NICs of the cluster's nodes, in the order of their IDs.
func (p *patient) interfaces() []*inventory.Interface { return p.nics }

// interfacesByGroup are all NICs by the key of their resource group, each in the order of their
// IDs.
func interfacesByGroup(s *inventory.Snapshot) map[string][]*inventory.Interface {
	groups := map[string][]*inventory.Interface{}
	for _, key := range slices.Sorted(maps.Keys(s.Interfaces)) {
		nic := s.Interfaces[key]
		group := nic.ID.Group().Key()
		groups[group] = append(groups[group], nic)
	}
	return groups
}

// tablesOnNodes are the tables on node subnets of any cluster, by their keys.
func tablesOnNodes(s *inventory.Snapshot) map[string]bool {
	on := map[string]bool{}
	for _, cluster := range s.Clusters {
		for _, id := range s.NodeSubnetIDs(cluster) {
			if subnet := s.Subnet(id); subnet != nil && subnet.RouteTable != "" {
				on[subnet.RouteTable.Key()] = true
			}
		}
	}
	return on
}

// Package diagnose checks what was read (an inventory.Snapshot) against the configs of the
// clusters, and reports what is wrong as Findings.
//
// How it works. Check runs the checks of package plan, which the keeper runs too, and then each
// family of checks for each cluster (families). A family is one file. Finally it removes findings
// that only follow from others (mute.go).
//
// The package is pure. It must not depend on the origin of the snapshot: a live read, a bundle, or
// a plan that was never applied. It must not report a resource as wrong because it was not read: a
// check reports nothing about a resource that it lacks.
package diagnose

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// Case is the input of a diagnosis.
type Case struct {
	Snapshot *inventory.Snapshot
	// Clusters are the clusters to diagnose. The snapshot may hold others, which count as
	// neighbours.
	Clusters []arm.ID
	// Configs has the configs of the kubenet clusters: the user's, or the ones that init would
	// propose.
	Configs []v1alpha1.ClusterRoutes
	// Proposed is set if the user gave no config. Then a requirement that only a config makes is
	// info, or not reported.
	Proposed bool
	// File is the config file's name on a command line, such as routes.yaml.
	File finding.CommandLine
	// Today is the day of the diagnosis. Zero means the day on which the snapshot was taken.
	Today time.Time
	// Egress also compares firewalls, if they were read, with what AKS requires.
	Egress bool
	// RouteLimit is the number of routes that a table can hold. 0: 400.
	RouteLimit int

	// Indexes for the checks of all clusters: NICs by resource group, and tables on node subnets.
	nicsOf  map[string][]*inventory.Interface
	onNodes map[string]bool
	hops    *trace.Tracer // says whether next hops can be reached
}

// clusterCase is one cluster of a Case, with the values that its checks often use.
type clusterCase struct {
	*Case
	s       plan.Facts // without memory
	cluster *inventory.Cluster
	config  *v1alpha1.ClusterRoutes // nil if the cluster has no pod routes in a table
	name    string                  // of the config or, without one, of the cluster
	// subnets has the node subnets that were read, in the order of their IDs. prefixes has their
	// prefixes.
	subnets  []*inventory.Subnet
	prefixes []netip.Prefix
	// source says which table is the cluster's route table. table is nil if it is unknown, does not
	// exist or was not read.
	source plan.Discovery
	table  *inventory.RouteTable
	// astray has the egress that does not take the way that the config declares.
	astray []verdict.Egress
	// kube is the answer of the cluster's API, or nil if the API was not read or did not answer.
	kube *inventory.Kubernetes
	// nics has the NICs in its node resource group, in the order of their IDs.
	nics []*inventory.Interface

	findings []finding.Finding // of the families
}

// family is a group of checks in one file.
type family struct {
	// of selects the clusters to check.
	of    func(*inventory.Cluster) bool
	check func(*clusterCase) // adds what it finds
}

func anyPlugin(*inventory.Cluster) bool { return true }

func kubenet(c *inventory.Cluster) bool { return c.Kubenet() }

// families has all checks except those of package plan.
var families = []family{
	{kubenet, checkAssociation},
	{kubenet, checkRoutes},
	{anyPlugin, checkKubernetes},
	{kubenet, checkSharing},
	{anyPlugin, checkGateways},
	{anyPlugin, checkIngress},
	{anyPlugin, checkEgress},
	{anyPlugin, checkFirewalls},
	{kubenet, checkCopies},
	{anyPlugin, checkFilters},
	{anyPlugin, checkPermissions},
	{anyPlugin, checkPolicies},
	{kubenet, checkRetirement},
	{addressed, checkPlaces},
	{azureCNI, checkAzureCNI},
	{azureCNI, checkProvisioned},
}

// Check returns all findings, the worst first. It leaves out findings that follow from others
// (mute.go).
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
	undo := c.assumeKubenet()
	found := c.planFindings()
	undo(found)
	c.nicsOf, c.onNodes = interfacesByGroup(c.Snapshot), tablesOnNodes(c.Snapshot)
	c.hops = trace.New(c.Snapshot, trace.Options{})
	found = append(found, plan.New(plan.Facts{Snapshot: c.Snapshot}, c.Configs).Orphans()...)
	for _, id := range inventory.SortIDs(slices.Clone(c.Clusters)) {
		p := c.clusterCase(id)
		if p == nil {
			continue // package plan or the caller reports it
		}
		if p.config == nil && c.Snapshot.Migrates(p.cluster) {
			found = append(found, plan.Migrating(p.name, id, ": its nodes need"))
		}
		found = pastDeclared(p, found)
		p.unreadKubernetes()
		for _, f := range families {
			if f.of(p.cluster) {
				f.check(p)
			}
		}
		found = append(found, p.findings...)
		found = append(found, checkHad(p, found)...)
	}
	found = append(found, unseen(c.Snapshot, found)...)
	return Mute(finding.Sort(found))
}

// assumeKubenet treats the clusters of configs that may be migrating as kubenet, like a keeper that
// starts now. The returned function undoes this for each cluster that has left kubenet, as package
// plan found.
func (c *Case) assumeKubenet() (undo func(found []finding.Finding)) {
	s := *c.Snapshot
	s.Clusters = maps.Clone(s.Clusters)
	c.Snapshot = &s
	var leaving []string
	for _, config := range c.Configs {
		key := arm.ID(config.Spec.ClusterID).Key()
		if cluster := s.Clusters[key]; cluster != nil && cluster.MayLeave() &&
			config.Spec.Source != v1alpha1.SourceNodes {
			s.Clusters[key] = cluster.Leaving(nil)
			leaving = append(leaving, key)
		}
	}
	return func(found []finding.Finding) {
		for _, key := range leaving {
			if !slices.ContainsFunc(found, func(f finding.Finding) bool {
				return f.Code == finding.ClusterMigrating && arm.ID(f.Resource).Key() == key
			}) {
				s.Clusters[key] = s.Clusters[key].Left()
			}
		}
	}
}

// planFindings returns the findings of package plan, with the command that fixes each.
func (c *Case) planFindings() []finding.Finding {
	found := slices.DeleteFunc(plan.Watch(plan.Facts{Snapshot: c.Snapshot}, c.Configs).Findings,
		// Orphans reports them
		func(f finding.Finding) bool { return f.Code == finding.RoutesOrphaned })
	for i, f := range found {
		switch managed := plan.Managed(c.Configs, f.Cluster, arm.ID(f.Resource)); {
		case f.Code == finding.EgressRouteLost && managed && plan.OnlyObserves(f):
			found[i] = f.WithAdvice("sync puts the route back once, run keeps it there").
				WithFix("routekeeper sync -f %s", c.File)
		case f.Code != finding.TargetDrift && !plan.OnlyObserves(f):
		case managed && c.Proposed:
			found[i] = f.WithFix("%s", adopt(c.clusterOf(f.Cluster), c.File))
		case managed:
			found[i] = f.WithAdvice("sync copies the routes once, run keeps them in sync").
				WithFix("routekeeper sync -f %s", c.File)
		case !c.Proposed:
			found[i] = f.WithFix("routekeeper promote %s -f %s", f.Cluster, c.File)
		}
	}
	return found
}

// clusterOf returns the cluster's ID in the config with a name.
func (c *Case) clusterOf(name string) string {
	for _, config := range c.Configs {
		if config.Metadata.Name == name {
			return config.Spec.ClusterID
		}
	}
	return ""
}

func (c *Case) clusterCase(id arm.ID) *clusterCase {
	cluster := c.Snapshot.Cluster(id)
	if cluster == nil {
		return nil
	}
	p := &clusterCase{Case: c, s: plan.Facts{Snapshot: c.Snapshot}, cluster: cluster,
		name: cluster.ID.Name(), prefixes: c.Snapshot.NodePrefixes(cluster),
		nics: c.nicsOf[cluster.NodeGroup().Key()]}
	for i := range c.Configs {
		if id.Equal(arm.ID(c.Configs[i].Spec.ClusterID)) {
			p.config, p.name = &c.Configs[i], c.Configs[i].Metadata.Name
			taken := plan.TakenBy(c.Configs)
			p.source = plan.Discover(p.s, p.config, taken)
			p.table = c.Snapshot.Table(p.source.Table)
			p.astray = verdict.AstrayEgress(p.s, p.config, c.Configs, taken)
		}
	}
	for _, subnet := range c.Snapshot.NodeSubnetIDs(cluster) {
		if s := c.Snapshot.Subnet(subnet); s != nil {
			p.subnets = append(p.subnets, s)
		}
	}
	if k := c.Snapshot.Kubernetes[id.Key()]; k != nil && k.Failed == "" {
		p.kube = &inventory.Kubernetes{Nodes: k.Nodes, Pods: k.Pods}
		// every cluster has nodes, so the identity may not be allowed to list them
		if len(k.Nodes) == 0 {
			p.kube.Nodes = nil
		}
	}
	return p
}

// add reports findings.
func (p *clusterCase) add(found ...finding.Finding) { p.findings = append(p.findings, found...) }

// found returns a finding about this cluster.
func (p *clusterCase) found(code finding.Code, resource arm.ID, format string,
	args ...any) finding.Finding {
	return finding.New(code, p.name, string(resource), format, args...)
}

// interfacesByGroup returns all NICs by the key of their resource group, each in the order of their
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

// tablesOnNodes returns the tables on node subnets of any cluster, by their keys.
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

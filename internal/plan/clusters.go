package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// readClusters reads every configured cluster from the snapshot and reports what prevents managing
// it.
func (p *Planner) readClusters() {
	for i := range p.configs {
		c := &p.configs[i]
		v := newClusterState(p.s, c, p.s.Cluster(arm.ID(c.Spec.ClusterID)))
		// even a cluster's table that is missing from the snapshot is never a target
		v.source = arm.ID(c.Spec.RouteTableID)
		p.clusters = append(p.clusters, v)
		if p.checkCluster(v) {
			p.readSource(v)
			if fromNodes(c) {
				p.readNodes(v)
			}
		}
		p.noteClusterTables(v)
		p.readEgress(v)
		for _, t := range c.Spec.Targets {
			key := arm.ID(t.RouteTableID).Key()
			p.targets[key] = append(p.targets[key], targetConfig{v, t.Policy, t.MaxRoutes})
		}
	}
	for _, parts := range p.targets {
		slices.SortFunc(parts, func(a, b targetConfig) int {
			return strings.Compare(a.name, b.name)
		})
	}
}

func (p *Planner) add(f finding.Finding) { p.findings = append(p.findings, f) }

// checkCluster reports problems of the cluster itself, and whether it can be managed.
func (p *Planner) checkCluster(v *clusterState) bool {
	id := arm.ID(v.config.Spec.ClusterID)
	if p.s.unread(id) && !p.s.vanished(v) { // see planning.reportVanished
		p.reportUnread(p.add, v.config, id, finding.ClusterMissing, "cluster %s", next{})
	}
	if v.cluster == nil {
		return false
	}
	if HasLeft(p.s, v.config, p.taken) {
		v.cluster = v.cluster.Left()
	}
	if !Routed(v.config, v.cluster) {
		if len(v.config.Spec.Targets) == 0 &&
			(len(v.config.Spec.Guard.Subnets) > 0 || v.config.Spec.Egress.RouteTableID != "") {
			p.checkSubnetsRead(v)
			return false
		}
		f := finding.New(finding.ClusterNotKubenet, v.name, string(id),
			"cluster %s uses the network plugin %s instead of kubenet: it has no pod routes in a "+
				"route table", id.Short(), v.cluster.PluginName())
		if left := p.s.leftBehind(v); len(left) > 0 {
			advice := "set spec.onRemoval: Prune, and then remove %s from the config of a " +
				"running keeper, which deletes these routes"
			if v.cluster.Overlay() {
				advice = "set spec.source: Nodes and remove spec.routeTableID, which keeps these " +
					"routes current; or " + advice
			}
			p.add(f.With(left...).WithAdvice(advice, v.name))
		} else {
			if v.cluster.Overlay() {
				f = f.With("with spec.source: Nodes, the routes to its pods come from its nodes")
			}
			p.add(f.WithAdvice("remove %s from the config", v.name))
		}
		return false
	}
	if v.cluster.Migrating {
		p.add(p.migrating(v))
	}
	if len(v.cidrs) == 0 {
		p.add(finding.New(finding.ClusterPodCIDR, v.name, string(id),
			"cluster %s has no usable pod CIDR: its pod CIDRs are %v, and spec.podCIDRs is %v",
			id.Short(), v.cluster.PodCIDRs, v.config.Spec.PodCIDRs))
	}
	v.blind = len(v.nodes) == 0 && !v.anyHop
	for _, subnet := range v.subnets {
		v.blind = v.blind || p.s.Subnet(subnet) == nil
		if p.s.unread(subnet) {
			p.reportUnread(p.add, v.config, subnet, finding.SubnetMissing, "node subnet %s", next{
				words: "check whether the cluster's pool still exists",
				command: finding.Command("az aks nodepool list --subscription %s -g %s "+
					"--cluster-name %s",
					id.Subscription(), id.ResourceGroup(), id.Name())})
		}
	}
	if len(v.subnets) == 0 && len(v.nodes) == 0 && !v.anyHop {
		p.reportUnread(p.add, v.config, v.cluster.NodeGroup(), finding.SubnetMissing,
			"node resource group %s", next{
				command: finding.Command("az aks show --subscription %s -g %s -n %s",
					id.Subscription(), id.ResourceGroup(), id.Name())})
		if !p.s.unread(v.cluster.NodeGroup()) {
			p.add(finding.New(finding.SubnetMissing, v.name, string(id), "cluster %s has no "+
				"known node subnet: its pools name none, and there is none in the node resource "+
				"group %s",
				id.Short(), v.cluster.NodeResourceGroup))
		}
	}
	return true
}

// checkSubnetsRead reports the unread subnets of a cluster that has no pod routes, and whose config
// wants none. Its subnets are guarded, and read for their free addresses.
func (p *Planner) checkSubnetsRead(v *clusterState) {
	for _, subnet := range inventory.SortIDs(slices.Concat(v.cluster.ExistingSubnets(),
		v.cluster.PodSubnets())) {
		if p.s.unread(subnet) && !Guards(v.config, subnet) { // guardSubnet reports these
			p.reportUnread(p.add, v.config, subnet, finding.SubnetMissing, "subnet %s", next{})
		}
	}
}

// leftBehind lists the targets that still hold pod routes of a cluster that left kubenet. If its
// node subnets are unknown, the address of any appliance counts as a node's.
func (f Facts) leftBehind(v *clusterState) []string {
	var lines []string
	for _, t := range v.config.Spec.Targets {
		table := f.Table(arm.ID(t.RouteTableID))
		if table == nil {
			continue
		}
		left := 0
		for _, r := range table.Routes() {
			if v.isNodePrefix(r.Prefix) && r.Hop.IsValid() &&
				(len(v.nodes) == 0 || v.isNodeHop(r)) {
				left++
			}
		}
		if left > 0 {
			lines = append(lines,
				fmt.Sprintf("%s still has routes to its pods: %d", table.ID.Short(), left))
		}
	}
	return lines
}

// readSource finds the cluster's route table and reads the pod routes in it.
func (p *Planner) readSource(v *clusterState) {
	d := Discover(p.s, v.config, p.taken)
	v.source, v.how, v.proven, v.doubtful = d.Table, d.How, d.Proven, d.Doubtful
	v.rivals = d.Rivals
	unread := func(id arm.ID) bool {
		u, tried := p.s.Unread[id.Key()]
		return tried && !u.Absent
	}
	// if a node subnet could not be read, that is the problem, and is reported
	if d.Finding != nil && !slices.ContainsFunc(v.subnets, unread) {
		p.add(*d.Finding)
	}
	if d.Table == "" {
		return
	}
	table := p.s.Table(d.Table)
	if table == nil {
		p.reportUnread(v.addRemake(d.Table, p.add), v.config, d.Table, finding.TableMissing,
			"route table %s of cluster "+v.cluster.ID.Short(),
			next{command: Remake(v.cluster, d.Table,
				finding.Command("az network route-table show --ids %s", d.Table))})
		return
	}
	if fromNodes(v.config) {
		v.opinion, _ = v.rows(table)
		return
	}
	v.from = table
	v.wanted, v.strangers = v.rows(table)
	p.outsideHops(v, table)
	if len(v.wanted) == 0 && v.cluster.Nodes() > 0 && len(v.cidrs) > 0 &&
		(len(v.nodes) > 0 || v.anyHop) {
		by := ""
		if len(v.strangers) > 0 {
			by = " that its cloud provider wrote"
		}
		f := finding.New(finding.SourceEmpty, v.name, string(table.ID), "route table %s of "+
			"cluster %s has no route to any of its nodes%s (routekeeper uses this table because "+
			"%s)", table.ID.Short(), v.cluster.ID.Short(), by, d.How).
			WithFix("az network route-table show --ids %s", table.ID)
		if d.Doubtful {
			f = f.With("routekeeper does not associate the table with a subnet without better " +
				"evidence")
		}
		p.add(f)
	}
}

// madeByAKS reports whether AKS made a table for a cluster: by its resource group and name.
func madeByAKS(cluster *inventory.Cluster, table arm.ID) bool {
	return cluster != nil && table.Group().Equal(cluster.NodeGroup()) &&
		inventory.IsManagedTable(table)
}

// Remake returns the command that restores a missing table. For a table that AKS made it is AKS's
// restore; for any other it is the given command.
func Remake(cluster *inventory.Cluster, table arm.ID,
	other finding.CommandLine) finding.CommandLine {
	if !madeByAKS(cluster, table) {
		return other
	}
	id := cluster.ID
	return finding.Command("az aks update --subscription %s --resource-group %s --name %s --yes",
		id.Subscription(), id.ResourceGroup(), id.Name())
}

// addRemake returns a function that works like add, but adds to the finding about a missing table
// how to make AKS create it again.
func (v *clusterState) addRemake(table arm.ID, add func(finding.Finding)) func(finding.Finding) {
	if !madeByAKS(v.cluster, table) {
		return add
	}
	return func(f finding.Finding) {
		if f.Code == finding.TableMissing {
			f = f.With("AKS made the table, in node resource group "+v.cluster.NodeResourceGroup,
				"az aks update restores the cluster's settings: AKS then associates its table "+
					"with the node subnets (AKS#1500). It is not documented whether AKS "+
					"recreates a deleted table, so check again afterwards")
		}
		add(f)
	}
}

// outsideHops reports routes in the cluster's table that look like pod routes and lead outside its
// node subnets.
func (p *Planner) outsideHops(v *clusterState, table *inventory.RouteTable) {
	if len(v.nodes) == 0 && !v.anyHop {
		return // checkCluster reports that it could read no node subnet
	}
	for _, r := range table.Routes() {
		if v.isNodePrefix(r.Prefix) && r.Hop.IsValid() && !v.isNodeHop(r) {
			if fromNodes(v.config) {
				p.add(finding.New(finding.SourceHop, v.name, string(table.ID),
					"node %s of cluster %s has the address %s, which is in none of the subnets of "+
						"its pools; its route is not written", inventory.RouteNode(r.Name),
					v.cluster.ID.Short(), r.NextHop()).About(r.Name).
					WithFix("kubectl get nodes -o wide"))
				continue
			}
			p.add(finding.New(finding.SourceHop, v.name, string(table.ID),
				"route %s (%s) in the route table of cluster %s leads to %s, which is in none of "+
					"its node subnets; it is not copied",
				r.Name, r.Prefix, v.cluster.ID.Short(), r.NextHop()).About(r.Name).
				With("the cloud provider deletes routes inside the pod CIDR that match no node").
				WithAdvice("delete the route unless it is intended").
				WithFix("%s", deleteCommand(table.ID, r.Name)))
		}
	}
}

// Source returns the table that the pod routes are read from (the cluster's route table, or its
// nodes as a table) and the routes by prefix. It returns nil if the table could not be read.
func (p *Planner) Source(cluster arm.ID) (*inventory.RouteTable, map[netip.Prefix]inventory.Route) {
	for _, v := range p.clusters {
		if v.wanted != nil && cluster.Equal(arm.ID(v.config.Spec.ClusterID)) {
			return v.from, v.wanted.byPrefix()
		}
	}
	return nil, nil
}

// unread reports whether a resource was requested and could not be read.
func (f Facts) unread(id arm.ID) bool {
	_, tried := arm.Lookup(f.Unread, id)
	return tried
}

// next says how to act on a finding: in words, with a command, or both.
type next struct {
	words   string
	command finding.CommandLine
}

func advise(words string) next { return next{words: words} }

// orRemake returns the command that makes AKS create its table again, or the given words for any
// other table.
func orRemake(cluster *inventory.Cluster, table arm.ID, words string) next {
	if !madeByAKS(cluster, table) {
		return advise(words)
	}
	return next{command: Remake(cluster, table, finding.CommandLine{})}
}

// on adds the advice to a finding.
func (n next) on(f finding.Finding) finding.Finding {
	f = f.WithAdvice("%s", n.words)
	return f.WithFix("%s", n.command)
}

// reportUnread reports a resource that is not in the snapshot: with the given code if it does not
// exist, otherwise as a failed read. what is the text that names the resource, with %s for its
// name.
func (p *Planner) reportUnread(add func(finding.Finding), c *v1alpha1.ClusterRoutes, id arm.ID,
	missing finding.Code, what string, do next) {
	u, tried := p.s.Unread[id.Key()]
	what = fmt.Sprintf(what, id.Short())
	switch {
	case !tried:
		// it was read, or another finding says why it was not
	case u.Absent:
		add(do.on(finding.New(missing, c.Metadata.Name, string(id), "%s does not exist", what)))
	case p.s.unanswered():
		add(finding.New(finding.AzureUnreachable, c.Metadata.Name, "",
			"%s was not checked: Azure does not answer", c.Metadata.Name).
			With(u.Reason()))
	default:
		f := finding.New(finding.ReadFailed, c.Metadata.Name, string(id),
			"%s could not be read: %s", what, u.Reason())
		if u.Status == 401 || u.Status == 403 {
			f = f.WithAdvice("give the identity read access to %s", id)
		}
		add(f)
	}
}

// unanswered reports whether Azure answered no call for these clusters: it returned or refused none
// of their resources. Remembered facts do not count as an answer.
func (f Facts) unanswered() bool {
	if len(f.Tables)+len(f.Subnets) > 0 {
		return false
	}
	silent := false
	for _, u := range f.Unread {
		switch {
		case noAnswer(u):
			silent = true
		case !u.ID.Is(arm.TypeCluster):
			return false
		}
	}
	return silent
}

// noAnswer reports whether Azure itself failed to answer for a resource: with no answer, a timeout
// (408), or a server error (5xx).
func noAnswer(u inventory.Unread) bool {
	return !u.Absent && (u.Status == 0 || u.Status == 408 || u.Status >= 500)
}

package diagnose

import (
	"fmt"

	"routekeeper.dev/routekeeper/internal/finding"
)

// unreadKubernetes reports a stopped cluster, or why its API could not be read, or not completely.
func (p *clusterCase) unreadKubernetes() {
	k := p.s.Kubernetes[p.cluster.ID.Key()]
	if p.cluster.Stopped {
		p.add(p.found(finding.ClusterStopped, p.cluster.ID,
			"cluster %s is stopped: it has no nodes until it is started", p.cluster.ID.Short()).
			WithFix("%s", p.azAKS("start", "")))
		return
	}
	if k == nil || k.Failed == "" && k.Note == "" {
		return
	}
	what := "could not be read"
	if k.Failed == "" {
		what = "could only be read in part"
	}
	p.add(p.found(finding.KubernetesUnread, p.cluster.ID,
		"the Kubernetes API of cluster %s %s: %s", p.cluster.ID.Short(), what, k.Failed+k.Note))
}

// checkKubernetes checks what the cluster's API reports about its nodes.
func checkKubernetes(p *clusterCase) {
	if p.kube == nil || p.kube.Nodes == nil || p.cluster.Stopped {
		return
	}
	nodes := p.nodes()
	notReady(p, nodes)
	if p.cluster.Kubenet() { // only kubenet sets this condition
		unavailable(p, nodes)
		disagreement(p, nodes)
	}
}

// notReady reports nodes that have not been Ready for a while.
func notReady(p *clusterCase, nodes nodeSet) {
	var lines []string
	for _, n := range nodes.all {
		c := n.kube.Unready
		if c == nil || p.young(n) || !p.s.Taken.IsZero() && p.s.Taken.Sub(c.Since) < newNodeFor {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %s %s", n, c.Reason, c.Message))
	}
	if len(lines) == 0 {
		return
	}
	p.add(p.found(finding.NodeNotReady, p.cluster.ID, "%s of cluster %s",
		finding.CountOf(len(lines), "node is not Ready", "nodes are not Ready"),
		p.cluster.ID.Short()).With(lines...).WithFix("kubectl describe nodes"))
}

// unavailable reports nodes whose network is marked unavailable although they have their routes, or
// if the table could not be read. If a route is missing, another finding reports the node.
func unavailable(p *clusterCase, nodes nodeSet) {
	var lines []string
	b := p.checkTable()
	severity := finding.Warning
	for _, n := range nodes.all {
		c := n.kube.NetworkUnavailable
		if c == nil || !c.True || p.young(n) {
			continue
		}
		if b != nil {
			if missing, _ := b.lacks(n); len(missing) > 0 {
				continue
			}
		} else if c.Reason == "NoRouteCreated" {
			severity = finding.Error
		}
		lines = append(lines, fmt.Sprintf("%s: %s %s", n, c.Reason, c.Message))
	}
	if len(lines) == 0 {
		return
	}
	what := "although the cluster's route table has their routes"
	if b == nil {
		what = "and the cluster's route table could not be read"
	}
	f := p.found(finding.NetworkUnavailable, p.cluster.ID,
		"the condition NetworkUnavailable is set on %s of cluster %s, %s",
		finding.Count(len(lines), "node"), p.cluster.ID.Short(), what).
		With(lines...).WithFix("kubectl describe nodes")
	f.Severity = severity
	p.add(f)
}

// disagreement reports nodes without a machine, and machines without a node.
func disagreement(p *clusterCase, nodes nodeSet) {
	var lines []string
	severity := finding.Info
	for _, n := range nodes.all {
		if n.nic == nil && nodes.complete && len(n.addrs) > 0 && !p.young(n) {
			lines = append(lines, fmt.Sprintf("node %s is in Kubernetes, but no network "+
				"interface of the cluster has its address", n))
			severity = finding.Warning
		}
	}
	for _, m := range nodes.unjoined {
		lines = append(lines,
			fmt.Sprintf("machine %s exists, but no node in Kubernetes has its address", m))
	}
	if len(lines) == 0 {
		return
	}
	f := p.found(finding.NodesDisagree, p.cluster.ID,
		"Kubernetes and Azure report different nodes for cluster %s: %s", p.cluster.ID.Short(),
		finding.CountOf(len(lines), "differs", "differ")).
		With(lines...).WithFix("kubectl get nodes -o wide")
	f.Severity = severity
	p.add(f)
}

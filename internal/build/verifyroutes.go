package build

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

// associations claims that the node subnets have the cluster's own table, and the guarded subnets theirs.
func (v *verifier) associations() {
	for _, exit := range v.Exits {
		v.association("route table of node subnet "+exit.Subnet.Short(), exit.Subnet, v.Table)
	}
	if len(v.Exits) == 0 {
		v.unchecked(topicAssociation, "route table of the node subnet", v.Cluster.ID, nil, "no node subnet was seen, which can be for want of rights on the node resource group")
	}
	if v.Config == nil {
		return
	}
	for _, g := range v.Config.Spec.Guard.Subnets {
		v.association("route table of guarded subnet "+arm.ID(g.SubnetID).Short(), arm.ID(g.SubnetID), arm.ID(g.RouteTableID))
	}
}

func (v *verifier) association(what string, id, table arm.ID) {
	wrong := v.wrong(id, finding.AssociationLost, finding.AssociationOther, finding.SubnetMissing, finding.PoolWithoutTable,
		finding.NetworkManagerTable, finding.PolicyTable, finding.TableElsewhere, finding.Unsettled)
	if table.Equal(v.Table) {
		wrong = append(wrong, v.wrong("", finding.TableUnknown, finding.TableMissing)...)
	}
	subnet := v.s.Subnet(id)
	switch {
	case subnet == nil:
		v.unchecked(topicAssociation, what, id, wrong, "the subnet was not read: %s", unreadReason(v.s, id))
	case table == "":
		v.unchecked(topicAssociation, what, id, wrong, "it is not known for certain which table is the cluster's")
	case !subnet.RouteTable.Equal(table):
		v.claim(topicAssociation, what, id, ClaimWrong, fmt.Sprintf("it has %s, expected %s", shortOr(subnet.RouteTable, "none"), table.Short()), wrong)
	default:
		v.claim(topicAssociation, what, id, ClaimRight, table.Short()+" is associated", wrong)
	}
}

func shortOr(id arm.ID, none string) string {
	if id == "" {
		return none
	}
	return id.Short()
}

// inTable are the codes of what is wrong with the routes in the cluster's own table.
var inTable = []finding.Code{
	finding.SourceEmpty, finding.SourceHop, finding.NodeWithoutRoute, finding.RouteUnnoticed, finding.RouteHalf, finding.RouteToGoneNode,
	finding.WrongHop, finding.HopNotNode, finding.ClaimedTwice, finding.RouteInPodCIDR, finding.RouteShadows, finding.TableShared,
	finding.PodCIDRsExclude,
}

// routes claims that every node has its route in the cluster's own table.
func (v *verifier) routes() {
	what := "routes in the cluster's table"
	wrong := append(v.wrong("", inTable...), v.wrong("", finding.TableUnknown, finding.TableMissing)...)
	if v.Table != "" {
		what += " " + v.Table.Short()
	}
	without, young, routes := 0, 0, 0
	for _, n := range v.Nodes {
		routes += n.Routes
		if n.Lacks > 0 {
			without++
		}
		if n.Lacks > 0 && n.MayBeJoined {
			young++
		}
	}
	switch {
	case v.Table == "":
		v.unchecked(topicRoutes, what, v.Cluster.ID, wrong, "it is not known for certain which table is the cluster's")
	case v.Own == nil:
		v.unchecked(topicRoutes, what, v.Table, wrong, "the table was not read: %s", unreadReason(v.s, v.Table))
	case v.Cluster.Stopped:
		v.unchecked(topicRoutes, what, v.Table, wrong, "the cluster is stopped")
	case young > 0 && young == without:
		v.unchecked(topicRoutes, what, v.Table, wrong, "%s joined less than three minutes ago and may get the route yet: verify it again", quantity(young, "node"))
	case without > 0:
		v.claim(topicRoutes, what, v.Table, ClaimWrong, fmt.Sprintf("%d of %s have no route", without, quantity(len(v.Nodes), "node")), wrong)
	case !v.Asked && !v.Complete:
		v.unchecked(topicRoutes, what, v.Table, wrong, "%s: not all nodes were seen; expected --kubeconfig, or read rights on the node resource group", quantity(len(v.Own), "pod route"))
	default:
		v.claim(topicRoutes, what, v.Table, ClaimRight, fmt.Sprintf("%s, and each has its route to its own address", quantity(len(v.Nodes), "node")), wrong)
	}
}

// targets claims that the tables of the config hold the pod routes.
func (v *verifier) targets() {
	if v.Config == nil {
		return
	}
	for _, target := range v.Config.Spec.Targets {
		id := arm.ID(target.RouteTableID)
		what := "routes in target " + id.Short()
		if v.proposed {
			what += " (proposed by init)"
		}
		var wrong []finding.Finding
		for _, f := range v.found {
			if id.Equal(arm.ID(f.Resource)) && f.Severity > finding.Info && !slices.Contains(blind, f.Code) && f.Code != finding.CallerLacks && !notHere(f.Code) {
				wrong = append(wrong, f)
			}
		}
		table := v.s.Table(id)
		switch {
		case table == nil:
			v.unchecked(topicTarget, what, id, wrong, "the table was not read: %s", unreadReason(v.s, id))
		case v.Own == nil:
			v.unchecked(topicTarget, what, id, wrong, "the cluster's own table was not read, so there is nothing to compare with")
		default:
			state, detail := v.compare(table, target.Policy)
			v.claim(topicTarget, what, id, state, detail, wrong)
		}
	}
}

// compare holds the pod routes of a target against the cluster's own.
func (v *verifier) compare(table *inventory.RouteTable, policy v1alpha1.Policy) (ClaimState, string) {
	copied := plan.PodRoutes(plan.Facts{Snapshot: v.s}, v.Config, table)
	same, stale := 0, 0
	for prefix, own := range v.Own {
		if there, ok := copied[prefix]; ok && there.SameHop(own) {
			same++
		}
	}
	for prefix := range copied {
		if _, ok := v.Own[prefix]; !ok {
			stale++
		}
	}
	detail := fmt.Sprintf("%d of %s, as the cluster's table has them", same, quantity(len(v.Own), "pod route"))
	switch {
	case same < len(v.Own), stale > 0 && policy != v1alpha1.PolicyUpsertOnly:
		return ClaimWrong, fmt.Sprintf("%s; %d stale", detail, stale)
	case stale > 0:
		return ClaimRight, fmt.Sprintf("%s; %d stale stay, because the policy is UpsertOnly", detail, stale)
	}
	return ClaimRight, detail
}

// paths claims that packets to pods arrive, and their answers.
func (v *verifier) paths(tracer *trace.Tracer) {
	const what = "paths to pods and back"
	wrong := v.wrong("", finding.FilterBlocksPods, finding.ForwardingOff, finding.PeeringMissing, finding.PeeringForwarding,
		finding.SubnetShared, finding.PodsInNetwork)
	m := tracer.All(v.Cluster.ID)
	pairs := quantity(m.Pairs, "pair") + " of nodes, pods and subnets"
	switch {
	case v.Cluster.Stopped:
		v.unchecked(topicPaths, what, v.Cluster.ID, wrong, "the cluster is stopped")
	case m.Dropped > 0:
		b := m.Broken[0]
		direction := ""
		if b.Answer {
			direction = ", the answer"
		}
		v.claim(topicPaths, what, v.Cluster.ID, ClaimWrong, fmt.Sprintf("%d of %s drop packets: %s%s: %s", m.Dropped, pairs, b.Kind, direction, b.Why), wrong)
	case m.Unknown > 0:
		v.unchecked(topicPaths, what, v.Cluster.ID, wrong, "%d of %s cannot be told: %s", m.Unknown, pairs, m.Broken[0].Why)
	case len(m.Unseen) > 0:
		v.unchecked(topicPaths, what, v.Cluster.ID, wrong, "%s", strings.Join(m.Unseen, "; "))
	case m.Pairs == 0 && v.Cluster.Nodes() == 1:
		v.claim(topicPaths, what, v.Cluster.ID, ClaimRight, "there is one node, and no other subnet is to reach its pods", wrong)
	case m.Pairs == 0:
		v.unchecked(topicPaths, what, v.Cluster.ID, wrong, "no node's pods are known: expected --kubeconfig, or --from-nodes and --from-pods")
	default:
		v.claim(topicPaths, what, v.Cluster.ID, ClaimRight, fmt.Sprintf("all %s: packets arrive, and answers come back", pairs), wrong)
	}
}

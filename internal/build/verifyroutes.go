package build

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

// associations claims that the node subnets have the cluster's route table.
func (v *verifier) associations() {
	subnets := v.s.NodeSubnetIDs(v.Cluster)
	for _, id := range subnets {
		v.association("node subnet", id, inventory.PropertyTable, v.Table)
	}
	if len(subnets) == 0 {
		v.about(topicAssociation, "route table of the node subnet", v.Cluster.ID,
			nil).unchecked(noSubnet)
	}
}

// guarded claims that the guarded subnets have what they must have.
func (v *verifier) guarded() {
	if v.Config == nil {
		return
	}
	for _, g := range v.Config.Spec.Guard.Subnets {
		for _, property := range inventory.Properties {
			if value := plan.GuardedValue(g, property); value != "" {
				v.association("guarded subnet", arm.ID(g.SubnetID), property, value)
			}
		}
	}
}

const noSubnet = "no node subnet was found; the login may lack rights on the node resource group"

func (v *verifier) association(kind string, id arm.ID, property inventory.Property, value arm.ID) {
	wrong := v.against(id, finding.AssociationLost, finding.AssociationOther, finding.SubnetMissing,
		finding.PoolWithoutTable, finding.NetworkManagerTable, finding.PolicyTable,
		finding.TableElsewhere, finding.Unsettled)
	if value.Equal(v.Table) {
		wrong = append(wrong, v.against("", finding.TableUnknown, finding.TableMissing)...)
	}
	c := v.about(topicAssociation, property.Name()+" of "+kind+" "+id.Short(), id, wrong)
	subnet := v.s.Subnet(id)
	switch {
	case subnet == nil:
		c.unchecked("the subnet was not read: %s", unreadReason(v.s, id))
	case value == "":
		c.unchecked(tableUnknown)
	case !subnet.Has(property).Equal(value):
		c.wrong("it has %s, expected %s", shortOr(subnet.Has(property), "none"), value.Short())
	default:
		c.right("%s is associated", value.Short())
	}
}

const tableUnknown = "the cluster's route table is not certain"

func shortOr(id arm.ID, none string) string {
	if id == "" {
		return none
	}
	return id.Short()
}

// inTable are the codes of problems with the routes in the cluster's route table.
var inTable = []finding.Code{
	finding.SourceEmpty, finding.SourceHop, finding.NodeWithoutRoute, finding.RouteUnnoticed,
	finding.RouteHalf, finding.RouteToGoneNode, finding.WrongHop, finding.HopNotNode,
	finding.ClaimedTwice, finding.RouteInPodCIDR, finding.RouteShadows, finding.TableShared,
	finding.PodCIDRsExclude, finding.TableUnknown, finding.TableMissing,
}

// routes claims that every node has its route in the cluster's route table.
func (v *verifier) routes() {
	what := "routes in the cluster's table"
	if v.Table != "" {
		what += " " + v.Table.Short()
	}
	c := v.about(topicRoutes, what, v.Table, v.against("", inTable...))
	without, young := 0, 0
	for _, n := range v.Nodes {
		if n.Lacks > 0 {
			without++
		}
		if n.Lacks > 0 && n.Waits {
			young++
		}
	}
	all := finding.Count(len(v.Nodes), "node")
	switch {
	case v.Table == "":
		c.unchecked(tableUnknown)
	case v.PodRoutes == nil:
		c.unchecked("the table was not read: %s", unreadReason(v.s, v.Table))
	case v.Cluster.Stopped:
		c.unchecked("the cluster is stopped")
	case without > 0 && young == without:
		c.unchecked("%s may still get the route: verify it again after three minutes",
			finding.Count(young, "node"))
	case without > 0:
		c.wrong("%d of %s have no route", without, all)
	case !v.Asked && !v.Complete:
		c.unchecked("%s, and not all nodes were seen: expected --get-kubeconfig or --kubeconfig, "+
			"or read rights on the node resource group",
			finding.Count(len(v.PodRoutes), "pod route"))
	default:
		c.right("%s, and each has its route to its own address", all)
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
		c := v.about(topicTarget, what, id, v.againstTarget(id))
		table := v.s.Table(id)
		switch {
		case table == nil:
			c.unchecked("the table was not read: %s", unreadReason(v.s, id))
		case v.PodRoutes == nil:
			c.unchecked("the cluster's route table was not read, so there is nothing to compare " +
				"with")
		default:
			v.compare(c, table)
		}
	}
}

// againstTarget returns the warnings and errors about a target, except for those about rights and
// failed reads, and for what is left to doctor.
func (v *verifier) againstTarget(id arm.ID) (wrong []finding.Finding) {
	for _, f := range v.found {
		other := f.Code == finding.CallerLacks || slices.Contains(unreadCodes, f.Code) ||
			leftToDoctor(f.Code)
		if id.Equal(arm.ID(f.Resource)) && f.Severity > finding.Info && !other {
			wrong = append(wrong, f)
		}
	}
	return wrong
}

// compare compares the pod routes of a target with those of the cluster's table.
func (v *verifier) compare(c draft, table *inventory.RouteTable) {
	copied := plan.PodRoutes(plan.Facts{Snapshot: v.s}, v.Config, table)
	same, stale := 0, 0
	for prefix, own := range v.PodRoutes {
		if there, ok := copied[prefix]; ok && there.SameHop(own) {
			same++
		}
	}
	for prefix := range copied {
		if _, ok := v.PodRoutes[prefix]; !ok {
			stale++
		}
	}
	all := finding.Count(len(v.PodRoutes), "pod route")
	if same < len(v.PodRoutes) || stale > 0 {
		c.wrong("%d of %s, and %d that are stale", same, all, stale)
		return
	}
	c.right("%d of %s, as the cluster's table has them", same, all)
}

// paths claims that packets to pods arrive, and their answers.
func (v *verifier) paths(tracer *trace.Tracer) {
	c := v.about(topicPaths, "paths to pods and back", v.Cluster.ID,
		v.against("", finding.FilterBlocksPods, finding.ForwardingOff, finding.PeeringMissing,
			finding.PeeringForwarding, finding.SubnetShared, finding.PodsInNetwork))
	m := tracer.All(v.Cluster.ID)
	pairs := finding.Count(m.Pairs, "pair") + " of nodes, pods and subnets"
	switch {
	case v.Cluster.Stopped:
		c.unchecked("the cluster is stopped")
	case m.Dropped > 0: // the worst is first
		b, direction := m.Broken[0], ""
		if b.Answer {
			direction = ", the answer"
		}
		c.wrong("%d of %s drop packets: %s%s: %s", m.Dropped, pairs, b.Kind, direction, b.Why)
	case m.Unknown > 0:
		c.unchecked("%d of %s are unknown: %s", m.Unknown, pairs, m.Broken[0].Why)
	case len(m.Unseen) > 0:
		c.unseen("%s", strings.Join(m.Unseen, "; "))
	case m.Pairs == 0 && v.Cluster.Nodes() == 1:
		c.right("there is only one node, and no other subnet must reach its pods")
	case m.Pairs == 0:
		c.unseen("no node's pods are known: expected --get-kubeconfig, --kubeconfig, or " +
			"--from-nodes and --from-pods")
	default:
		c.right("all %s: packets arrive, and answers come back", pairs)
	}
}

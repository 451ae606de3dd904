package diagnose

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/egress"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// Filtering asks the network security groups of a cluster's nodes about its API server, and about
// the other destinations outside that its nodes must reach. If there are no groups, it returns
// nothing.
func Filtering(s *inventory.Snapshot, id arm.ID) (all []trace.Filtered) {
	p := (&Case{Snapshot: s, nicsOf: interfacesByGroup(s)}).clusterCase(id)
	if p == nil {
		return nil
	}
	nodes := eachGroup(nodeEnds(p))
	for _, f := range append(serverFlows(p, nodes), outFlows(p, nodes)...) {
		for _, pair := range f.pairs {
			from, packet := pair[0], f.packets[0]
			if from.subnet == nil {
				continue
			}
			packet.From, packet.To = from.addr, pair[1].addr
			r := trace.FiltersOf(s, from.subnet.ID, nil).Pass(from.nic, packet, false)
			if r.Group != "" {
				all = append(all, trace.Filtered{Cluster: id, Nodes: from.addr, Ruling: r,
					Name: strings.TrimPrefix(f.what, "node to ")})
			}
		}
	}
	return all
}

// checkFirewalls reports what the appliances do not allow, if the caller asks for it.
func checkFirewalls(p *clusterCase) {
	if !p.Egress || p.s.Egress == nil {
		return
	}
	for _, exit := range egress.Of(p.s.Snapshot, p.cluster) {
		lacking := exit.Lacking()
		if len(lacking) == 0 {
			continue
		}
		f := p.found(finding.EgressFirewallUnknown, p.cluster.ID,
			"the egress of cluster %s leads to %s, which is no Azure Firewall that was read: "+
				"check that it allows what AKS requires", p.cluster.ID.Short(), exit.Hop).
			About(exit.Hop.String())
		if exit.Firewall != "" {
			f = p.found(finding.EgressRulesMissing, exit.Firewall,
				"firewall %s has no rule that allows the nodes of cluster %s %s that AKS requires",
				exit.Firewall.Short(), p.cluster.ID.Short(),
				finding.Count(len(lacking), "destination")).WithFix("%s", exit.Next)
		}
		if exit.Partly {
			f.Severity = finding.Info
		}
		for _, n := range lacking {
			line := n.Endpoint()
			switch {
			case n.Verdict == egress.Denied:
				line += fmt.Sprintf(" (rule %s denies it)", n.Rule)
			case n.If != "":
				line += " (needed if " + n.If + ")"
			}
			f = f.With(line)
		}
		p.add(f.With("as of " + exit.AsOf).With(exit.Notes...))
	}
}

package diagnose

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

// How it works: if no config says what a subnet must have, this file looks for evidence. The best
// evidence is what earlier writes gave the subnet (Snapshot.Former: the activity log, the history).
// Next is what the cluster's other node subnets have, then tables that are on no subnet. A single
// candidate completes the command. With several, each gets a command. No command has a placeholder
// to fill in.

// candidate is a resource that may have been lost, with the evidence.
type candidate struct{ value, why string }

// withCandidate adds a candidate, or more evidence for it.
func withCandidate(all []candidate, value, why string) []candidate {
	for i, c := range all {
		if strings.EqualFold(c.value, value) {
			if !strings.Contains(c.why, why) {
				all[i].why += "; " + why
			}
			return all
		}
	}
	return append(all, candidate{value, why})
}

// mostCandidates is how many candidates get a command.
const mostCandidates = 3

// Lost returns the subnets and route tables whose earlier values the diagnosis needs.
func Lost(c Case, findings []finding.Finding) []arm.ID {
	var ids []arm.ID
	for _, f := range findings {
		if subnet := c.Snapshot.Subnet(arm.ID(f.Resource)); subnet != nil && (slices.Contains(
			[]finding.Code{finding.EgressRouteMissing, finding.EgressBypassed,
				finding.EgressDiffers, finding.EgressDropped}, f.Code) ||
			// no config says what else the subnet had
			f.Code == finding.AssociationLost && c.Proposed) {
			if ids = append(ids, subnet.ID); subnet.RouteTable != "" {
				ids = append(ids, subnet.RouteTable)
			}
		}
	}
	return inventory.SortIDs(ids)
}

// mostBare limits the node subnets for which a diagnosis queries the activity log without a sign
// that they lost anything. Most clusters have no NAT gateway, and each subnet takes up to two
// calls.
const mostBare = 100

// Bare returns the node subnets that lack a property and for which no config requires one: the
// activity log or a history may know what they had. If there are more than mostBare, it returns the
// first ones, and a finding that says so.
func Bare(c Case) ([]arm.ID, []finding.Finding) {
	if !c.Proposed {
		return nil, nil
	}
	var ids []arm.ID
	for _, id := range c.Clusters {
		cluster := c.Snapshot.Cluster(id)
		if cluster == nil {
			continue
		}
		for _, id := range c.Snapshot.NodeSubnetIDs(cluster) {
			if subnet := c.Snapshot.Subnet(id); subnet != nil &&
				slices.ContainsFunc(inventory.Properties, func(p inventory.Property) bool {
					return subnet.Has(p) == ""
				}) {
				ids = append(ids, id)
			}
		}
	}
	ids = inventory.SortIDs(ids)
	if len(ids) <= mostBare {
		return ids, nil
	}
	left := finding.New(finding.ReadFailed, "", "", "what node subnets had and lost may be "+
		"missing from this diagnosis: the activity log was asked about %d of %d without a route "+
		"table, a NAT gateway or a network security group", mostBare, len(ids))
	left.Severity = finding.Info
	return ids[:mostBare], []finding.Finding{left.WithAdvice("routekeeper doctor with the name of " +
		"a cluster asks about that cluster's subnets")}
}

// checkHad finds properties that the subnets of nodes had, as evidence shows, and lack now, if no
// other finding names them. Without a config nothing says that they must have them.
func checkHad(p *clusterCase, found []finding.Finding) (more []finding.Finding) {
	if !p.Proposed {
		return nil
	}
	for _, subnet := range p.subnets {
		had := p.s.Former[subnet.ID.Key()]
		for _, property := range inventory.Properties {
			if subnet.Has(property) != "" || !slices.ContainsFunc(had,
				func(h inventory.Former) bool { return h.Property == property }) {
				continue
			}
			all := lostProperty(p, subnet, property)
			if len(all) == 0 || slices.ContainsFunc(found, func(f finding.Finding) bool {
				return subnet.ID.Equal(arm.ID(f.Resource)) && strings.Contains(strings.ToLower(
					f.Fix+strings.Join(f.Evidence, " ")), strings.ToLower(all[0].value))
			}) {
				continue
			}
			f := complete(p.found(finding.AssociationLost, subnet.ID, "node subnet %s had a %s, "+
				"and has none", subnet.ID.Short(), property.Name()).About(string(property)),
				property.Name(), subnet.ID, all, func(c candidate) finding.CommandLine {
					return plan.Attach(subnet.ID, property, arm.ID(c.value))
				})
			f.Severity = finding.Warning
			more = append(more, f)
		}
	}
	return more
}

// lostProperty returns the candidates for a property of a node subnet that has none.
func lostProperty(p *clusterCase, subnet *inventory.Subnet,
	property inventory.Property) (all []candidate) {
	add := func(id arm.ID, why string) {
		if !p.s.Unread[id.Key()].Absent {
			all = withCandidate(all, string(id), why)
		}
	}
	if p.config != nil {
		for _, g := range p.config.Spec.Guard.Subnets {
			if value := plan.GuardedValue(g, property); value != "" &&
				subnet.ID.Equal(arm.ID(g.SubnetID)) {
				return []candidate{{string(value), "the config names it"}}
			}
		}
		if own := expected(p); property == inventory.PropertyTable && own != "" &&
			p.cluster.Kubenet() {
			return []candidate{{string(own), "it is the cluster's route table"}}
		}
	}
	for _, h := range p.s.Former[subnet.ID.Key()] {
		if h.Property == property {
			add(h.Value, "the subnet had it: "+h.How)
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, other := range p.subnets {
		// a NAT gateway can serve only one network (nat-overview)
		if id := other.Has(property); property == inventory.PropertyNAT && id != "" &&
			other.ID.Parent().Equal(subnet.ID.Parent()) ||
			property == inventory.PropertyTable && egressTable(p, id, subnet) {
			add(id, "node subnet "+other.ID.Short()+" of the cluster has it")
		}
	}
	if len(all) > 0 || property != inventory.PropertyTable {
		return all
	}
	for _, key := range slices.Sorted(maps.Keys(p.s.Tables)) {
		if table := p.s.Tables[key]; len(table.Subnets) == 0 && egressTable(p, table.ID, subnet) {
			add(table.ID, fmt.Sprintf("it is on no subnet, and its route %s leads to %s",
				table.Default()[0].Name, table.Default()[0].Hop))
		}
	}
	return all
}

// egressTable reports whether a table can be on a subnet and has a default route to an appliance
// that the subnet reaches.
func egressTable(p *clusterCase, id arm.ID, subnet *inventory.Subnet) bool {
	table := p.s.Table(id)
	return table != nil && len(table.Default()) > 0 && association{id: subnet.ID, subnet: subnet,
		table: table.ID}.fits(p) && reaches(p, subnet, table.Default()[0].Hop)
}

// reaches reports whether an address is in the subnet's network or in one that is peered with it.
func reaches(p *clusterCase, subnet *inventory.Subnet, hop netip.Addr) bool {
	vnet := p.s.VNets[subnet.ID.Parent().Key()]
	return vnet != nil && hop.IsValid() && (inventory.Within(vnet.Prefixes, hop) ||
		slices.ContainsFunc(vnet.Peerings, func(peering inventory.Peering) bool {
			return peering.Connected && inventory.Within(peering.Prefixes, hop)
		}))
}

// withProperty completes a finding about a subnet that lacks a property, with the command that
// gives it back, or with one for each candidate.
func withProperty(p *clusterCase, f finding.Finding, subnet *inventory.Subnet,
	property inventory.Property) finding.Finding {
	return complete(f, property.Name(), subnet.ID, lostProperty(p, subnet, property),
		func(c candidate) finding.CommandLine {
			return plan.Attach(subnet.ID, property, arm.ID(c.value))
		})
}

// withRoute works like withProperty for a route table without a default route.
func withRoute(p *clusterCase, f finding.Finding, subnet *inventory.Subnet,
	table *inventory.RouteTable) finding.Finding {
	var all []candidate
	for _, h := range p.s.Former[table.ID.Key()] {
		if h.Hop.IsValid() {
			all = withCandidate(all, h.Hop.String(), "the table had it: "+h.How)
		}
	}
	if len(all) == 0 {
		for _, key := range slices.Sorted(maps.Keys(p.s.Tables)) {
			for _, r := range p.s.Tables[key].Default() {
				if reaches(p, subnet, r.Hop) {
					all = withCandidate(all, r.Hop.String(), "route "+r.Name+" in "+
						p.s.Tables[key].ID.Short()+" leads to it")
				}
			}
		}
	}
	return complete(f, "next hop", table.ID, all, func(c candidate) finding.CommandLine {
		return finding.Command("az network route-table route create %s --route-table-name %s "+
			"--name egress --address-prefix %s --next-hop-type VirtualAppliance "+
			"--next-hop-ip-address %s", inGroup(table.ID), table.ID.Name(), anywhere, c.value)
	})
}

// complete adds the candidates for a lost value to a finding, with their commands.
func complete(f finding.Finding, what string, resource arm.ID, all []candidate,
	command func(candidate) finding.CommandLine) finding.Finding {
	switch len(all) {
	case 0:
		return f.WithAdvice("nothing shows which %s it had: the activity log may have its writes",
			what).WithFix("az monitor activity-log list --resource-id %s --offset 89d", resource)
	case 1:
		return f.With(fmt.Sprintf("%s: %s (%s)", what, all[0].value, all[0].why)).
			WithFix("%s", command(all[0]))
	}
	for i, c := range all {
		line := fmt.Sprintf("either %s: %s (%s)", what, c.value, c.why)
		if i < mostCandidates {
			line += ": " + command(c).String()
		}
		f = f.With(line)
	}
	return f.WithAdvice("nothing shows which %s it must have: choose one from the evidence, "+
		"and run its command", what)
}

// leaves says what gives a public address to packets that a subnet sends to the internet.
func leaves(subnet *inventory.Subnet, cluster *inventory.Cluster) (by, evidence string) {
	by = trace.Exit(subnet, cluster)
	if by == "" {
		return "", "packets to the internet are dropped: the subnet has neither a NAT gateway " +
			"nor default outbound access, and the nodes have neither public IP addresses nor " +
			"outbound rules of a load balancer"
	}
	return by, "packets to the internet take the system route and leave by " + by
}

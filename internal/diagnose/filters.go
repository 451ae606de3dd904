package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// trials are the packets to try for each flow: any protocol, TCP, and between pods also DNS, which
// everything else needs.
var trials = []trace.Packet{{}, {Protocol: "tcp"}, {Protocol: "udp", Port: 53}}

// blocked is a rule that drops necessary traffic.
type blocked struct {
	group    arm.ID
	rule     inventory.SecurityRule
	what     []string
	from, to []netip.Prefix
	evidence []string
}

// checkFilters finds network security groups on node subnets, nodes' network interfaces and gateway
// subnets that drop necessary pod traffic. It reports nothing that depends on an unknown port or on
// unread resources. Answers need no check: groups are stateful.
func checkFilters(p *clusterCase) []finding.Finding {
	filters := map[string]*trace.Filters{}
	at := func(e end) *trace.Filters {
		key := e.subnet.ID.Key()
		if filters[key] == nil {
			filters[key] = trace.FiltersOf(p.s.Snapshot, e.subnet.ID, nil)
		}
		return filters[key]
	}
	var all []*blocked
	for _, f := range p.flows() {
		for _, pair := range f.pairs {
			for _, inbound := range []bool{false, true} {
				e := pair[0]
				if inbound {
					e = pair[1]
				}
				for _, packet := range trials {
					if packet.Port != 0 && f.what != podToPod {
						continue
					}
					packet.From, packet.To = pair[0].addr, pair[1].addr
					r := at(e).Pass(e.nic, packet, inbound)
					rule := p.rule(r)
					if r.Decision != trace.Denied || rule == nil ||
						f.explicit && rule.Priority > lastOwnPriority {
						continue
					}
					all = note(all, r, *rule, f, fmt.Sprintf("%s: %s to %s %s: %s", f.what,
						packet.From, packet.To, describePacket(packet), r.Why))
					break
				}
			}
		}
	}
	var found []finding.Finding
	for _, b := range all {
		found = append(found, p.reportBlocked(b))
	}
	return found
}

// podToPod is the flow that every workload needs.
const podToPod = "pod to pod"

// firstPriority and lastOwnPriority limit the priorities of rules that users write; Azure's default
// rules come after them.
const firstPriority, lastOwnPriority = 100, 4096

// rule is the rule behind a ruling, or nil.
func (p *clusterCase) rule(r trace.Ruling) *inventory.SecurityRule {
	g := p.s.SecurityGroups[r.Group.Key()]
	if g == nil {
		return nil
	}
	i := slices.IndexFunc(g.Rules, func(rule inventory.SecurityRule) bool {
		return rule.Name == r.Rule && rule.Inbound == r.Inbound
	})
	if i < 0 {
		return nil
	}
	return &g.Rules[i]
}

func describePacket(packet trace.Packet) string {
	switch {
	case packet.Port != 0:
		return fmt.Sprintf("(%s port %d)", packet.Protocol, packet.Port)
	case packet.Protocol != "":
		return "(" + packet.Protocol + ")"
	}
	return "(any protocol)"
}

// note adds a flow to what a rule blocks.
func note(all []*blocked, r trace.Ruling, rule inventory.SecurityRule, f flow,
	line string) []*blocked {
	i := slices.IndexFunc(all, func(b *blocked) bool {
		return b.group.Equal(r.Group) && b.rule.Name == rule.Name && b.rule.Inbound == rule.Inbound
	})
	if i < 0 {
		i, all = len(all), append(all, &blocked{group: r.Group, rule: rule})
	}
	b := all[i]
	if !slices.Contains(b.what, f.what) { // one example of each
		b.what, b.evidence = append(b.what, f.what), append(b.evidence, line)
	}
	b.from, b.to = inventory.SortPrefixes(append(b.from, f.from...)), inventory.SortPrefixes(
		append(b.to, f.to...))
	return all
}

func (p *clusterCase) reportBlocked(b *blocked) finding.Finding {
	direction := "Outbound"
	if b.rule.Inbound {
		direction = "Inbound"
	}
	f := p.found(finding.FilterBlocksPods, b.group, "rule %s of network security group %s (%s, "+
		"priority %d) blocks %s of cluster %s",
		b.rule.Name, b.group.Name(), strings.ToLower(direction), b.rule.Priority, strings.Join(
			b.what, " and "), p.cluster.ID.Name()).
		About(strings.ToLower(direction) + " " + b.rule.Name).With(b.evidence...)
	name, priority := p.before(b)
	if priority == 0 {
		return f.WithAdvice("remove the rule %s, or free a priority before it", b.rule.Name).
			WithFix("az network nsg rule delete --ids %s",
				b.group.Child("securityRules", b.rule.Name))
	}
	return f.WithFix("az network nsg rule create %s --nsg-name %s --name %s --priority %d "+
		"--direction %s --access Allow --protocol '*' --source-address-prefixes %s "+
		"--source-port-ranges '*' --destination-address-prefixes %s --destination-port-ranges '*'",
		inGroup(b.group), b.group.Name(), name, priority, direction, b.from, b.to)
}

// before returns a free name and the highest free priority for a rule ahead of the blocking one.
// The priority is 0 if none is free.
func (p *clusterCase) before(b *blocked) (name string, priority int) {
	taken, names := map[int]bool{}, map[string]bool{}
	for _, rule := range p.s.SecurityGroups[b.group.Key()].Rules {
		names[strings.ToLower(rule.Name)] = true // names are unique across both directions
		if rule.Inbound == b.rule.Inbound {
			taken[rule.Priority] = true
		}
	}
	base := "allow-pods-" + map[bool]string{true: "in", false: "out"}[b.rule.Inbound]
	name = base
	for n := 2; names[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	for priority = min(b.rule.Priority-1, lastOwnPriority); priority >= firstPriority; priority-- {
		if !taken[priority] {
			return name, priority
		}
	}
	return name, 0
}

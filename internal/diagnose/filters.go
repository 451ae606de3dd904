package diagnose

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// blocked is a rule that drops necessary traffic of one kind.
type blocked struct {
	flow
	group    arm.ID
	rule     inventory.SecurityRule
	all      []string // what it drops
	evidence []string
	// protocols and ports are those of the packets that it drops, if only some are necessary.
	protocols, ports []string
}

// checkFilters finds network security groups on node subnets, nodes' network interfaces, API server
// and gateway subnets that drop necessary traffic. It reports nothing that depends on an unknown
// port or on unread resources. Answers need no check, because groups are stateful.
func checkFilters(p *clusterCase) {
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
				if e.subnet == nil {
					continue
				}
				for _, packet := range f.packets {
					packet.From, packet.To = pair[0].addr, pair[1].addr
					r := at(e).Pass(e.nic, packet, inbound)
					rule := p.rule(r)
					if r.Decision != trace.Denied || rule == nil ||
						f.explicit && rule.Priority > lastOwnPriority {
						continue
					}
					all = note(all, r, *rule, f, packet)
					break
				}
			}
		}
	}
	new := map[string][]inventory.SecurityRule{} // by group: rules that the commands add
	for _, b := range all {
		p.add(reportBlocked(p, b, new))
	}
}

// podToPod is the flow that every workload needs.
const podToPod = "pod to pod"

// firstPriority and lastOwnPriority limit the priorities of rules that users write; Azure's default
// rules come after them.
const firstPriority, lastOwnPriority = 100, 4096

// rule returns the rule that decided, or nil.
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
	to := packet.To.String()
	if packet.Name != "" {
		to = packet.Name
	}
	switch {
	case packet.Port != 0 && packet.Protocol != "":
		return fmt.Sprintf("%s to %s (%s port %d)", packet.From, to, packet.Protocol, packet.Port)
	case packet.Port != 0:
		return fmt.Sprintf("%s to %s (port %d)", packet.From, to, packet.Port)
	case packet.Protocol != "":
		return fmt.Sprintf("%s to %s (%s)", packet.From, to, packet.Protocol)
	}
	return fmt.Sprintf("%s to %s (any protocol)", packet.From, to)
}

// note adds a packet to the ones that a rule blocks.
func note(all []*blocked, r trace.Ruling, rule inventory.SecurityRule, f flow,
	packet trace.Packet) []*blocked {
	i := slices.IndexFunc(all, func(b *blocked) bool {
		return b.code == f.code && b.group.Equal(r.Group) && b.rule.Name == rule.Name &&
			b.rule.Inbound == rule.Inbound && b.from.tag == f.from.tag && b.to.tag == f.to.tag
	})
	if i < 0 {
		i, all = len(all), append(all, &blocked{flow: f, group: r.Group, rule: rule})
		all[i].from.prefixes = slices.Clone(f.from.prefixes)
		all[i].to.prefixes = slices.Clone(f.to.prefixes)
	}
	b := all[i]
	if !slices.Contains(b.all, f.what) { // one example for each
		b.all = append(b.all, f.what)
		b.evidence = append(b.evidence,
			fmt.Sprintf("%s: %s: %s", f.what, describePacket(packet), r.Why))
	}
	b.from.prefixes = inventory.SortPrefixes(append(b.from.prefixes, f.from.prefixes...))
	b.to.prefixes = inventory.SortPrefixes(append(b.to.prefixes, f.to.prefixes...))
	if f.needsSomePorts() {
		for _, packet := range f.packets {
			b.ports = append(b.ports, strconv.Itoa(packet.Port))
			b.protocols = append(b.protocols, packet.Protocol)
		}
	}
	return all
}

// needsSomePorts reports whether only certain ports are needed, and not all.
func (f flow) needsSomePorts() bool {
	return !slices.ContainsFunc(f.packets, func(p trace.Packet) bool { return p.Port == 0 })
}

func reportBlocked(p *clusterCase, b *blocked,
	new map[string][]inventory.SecurityRule) finding.Finding {
	direction := "Outbound"
	if b.rule.Inbound {
		direction = "Inbound"
	}
	what := strings.Join(b.all, " and ")
	if b.code == finding.FilterBlocksEgress && len(b.all) > 1 {
		what = fmt.Sprintf("egress to %d required destinations", len(b.all))
	}
	f := p.found(b.code, b.group, "rule %s of network security group %s (%s, priority %d) blocks "+
		"%s of cluster %s", b.rule.Name, b.group.Name(), strings.ToLower(direction),
		b.rule.Priority, what, p.cluster.ID.Name()).
		About(strings.ToLower(direction) + " " + b.rule.Name).With(b.evidence...)
	name, priority := p.before(b, new[b.group.Key()])
	if priority == 0 {
		return f.WithAdvice("remove the rule %s, or free a priority before it", b.rule.Name).
			WithFix("az network nsg rule delete --ids %s",
				b.group.Child("securityRules", b.rule.Name))
	}
	new[b.group.Key()] = append(new[b.group.Key()],
		inventory.SecurityRule{Name: name, Priority: priority, Inbound: b.rule.Inbound})
	protocol, ports := "*", []string{"*"}
	if len(b.ports) > 0 {
		slices.Sort(b.ports)
		slices.Sort(b.protocols)
		ports = slices.Compact(b.ports)
		if all := slices.Compact(b.protocols); len(all) == 1 && all[0] != "" {
			protocol = strings.ToUpper(all[0][:1]) + all[0][1:]
		}
	}
	return f.WithFix("az network nsg rule create %s --nsg-name %s --name %s --priority %d "+
		"--direction %s --access Allow --protocol %s --source-address-prefixes %s "+
		"--source-port-ranges '*' --destination-address-prefixes %s --destination-port-ranges %s",
		inGroup(b.group), b.group.Name(), name, priority, direction, protocol, b.from.words(),
		b.to.words(), ports)
}

// words returns the prefixes or the tag in the form that a command takes.
func (s scope) words() (out []string) {
	if s.tag != "" {
		return []string{s.tag}
	}
	for _, p := range s.prefixes {
		out = append(out, p.String())
	}
	return out
}

// before returns a free name and the highest free priority for a rule ahead of the blocking one. It
// counts the rules that earlier commands add. The priority is 0 if none is free.
func (p *clusterCase) before(b *blocked, added []inventory.SecurityRule) (name string,
	priority int) {
	taken, names := map[int]bool{}, map[string]bool{}
	for _, rule := range slices.Concat(p.s.SecurityGroups[b.group.Key()].Rules, added) {
		names[strings.ToLower(rule.Name)] = true // names are unique across both directions
		if rule.Inbound == b.rule.Inbound {
			taken[rule.Priority] = true
		}
	}
	base := "allow-" + map[finding.Code]string{finding.FilterBlocksPods: "pods",
		finding.FilterBlocksNodes: "nodes", finding.FilterBlocksAPI: "api-server",
		finding.FilterBlocksProbes: "probes", finding.FilterBlocksEgress: "egress"}[b.code] + "-" +
		map[bool]string{true: "in", false: "out"}[b.rule.Inbound]
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

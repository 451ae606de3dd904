package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Packet is what a network security group checks: the addresses on the wire, the protocol and the
// ports.
type Packet struct {
	From, To netip.Addr
	Protocol string // tcp, udp, icmp, esp, ah; "" for any
	// FromPort and Port are the ports of source and destination; 0 for any.
	FromPort, Port int
	// Name is a destination on the internet whose addresses are unknown. To is zero then. Tags has
	// the service tags that contain the destination, if Microsoft's pages say so.
	Name string
	Tags []string
}

// Decision is the decision of network security groups about a packet.
type Decision string

// A packet is allowed or denied. Or the decision depends on a protocol or port that was not given,
// or on an unknown fact, such as the prefixes of a service tag.
const (
	Allowed   Decision = "allowed"
	Denied    Decision = "denied"
	Depends   Decision = "depends"
	Undecided Decision = "unknown"
)

// Ruling is a decision with the rule that made it.
type Ruling struct {
	Decision Decision `json:"decision"`
	Group    arm.ID   `json:"group,omitempty"` // "" if no group checks the packet
	Rule     string   `json:"rule,omitempty"`  // "" if no rule decides
	Inbound  bool     `json:"inbound"`
	// Why explains the decision in one sentence.
	Why string `json:"why"`
}

// Judge returns the decision of one network security group about a packet in one direction. The
// group belongs to the subnet or to a network interface in it. The first matching rule decides, by
// priority. Azure's default rules are in the group's document, after all others
// (network-security-group-how-it-works). Groups are stateful, so they do not check answers.
func (f *Filters) Judge(g *inventory.SecurityGroup, p Packet, inbound bool) Ruling {
	ruling := func(d Decision, rule, format string, args ...any) Ruling {
		return Ruling{Decision: d, Group: g.ID, Rule: rule, Inbound: inbound,
			Why: fmt.Sprintf(format, args...)}
	}
	var unsure []match // earlier rules that may match as well
	for _, rule := range g.Rules {
		if rule.Inbound != inbound {
			continue
		}
		m := f.match(&rule, p)
		switch m.sure {
		case no:
			continue
		case perhaps:
			unsure = append(unsure, m)
			continue
		case yes: // it decides, see below
		}
		decision, verb := Denied, "denies"
		if rule.Allow {
			decision, verb = Allowed, "allows"
		}
		// A rule that may match earlier matters only if it decides differently. An unknown fact
		// weighs more than an option that was not given.
		slices.SortStableFunc(unsure, func(a, b match) int {
			return cmp.Compare(b.unknown, a.unknown)
		})
		for _, before := range unsure {
			if before.rule.Allow == rule.Allow {
				continue
			}
			if before.unknown != "" {
				return ruling(Undecided, before.rule.Name,
					"rule %s of %s may match before %s, which %s it: %s", before.rule.Name,
					g.ID.Name(), rule.Name, verb, before.unknown)
			}
			return ruling(Depends, before.rule.Name, "rule %s of %s concerns %s; everything else "+
				"%s %s", before.rule.Name, g.ID.Name(), before.rule.traffic(), rule.Name, verb)
		}
		return ruling(decision, rule.Name, "rule %s of %s (priority %d) %s it", rule.Name,
			g.ID.Name(), rule.Priority, verb)
	}
	return ruling(Undecided, "", "no rule of %s matches, and its document lacks Azure's default "+
		"rules", g.ID.Name())
}

// Pass says whether a packet passes the network security groups of an interface and of its subnet.
// For outbound packets the interface's group comes first, for inbound ones the subnet's. Both must
// allow the packet, even inside one subnet (network-security-group-how-it-works). The ruling is
// that of the first group that denies, or else of the first that is in doubt, or else of the last.
// If nic was not read, it is nil, and only the subnet's group counts.
func (f *Filters) Pass(nic *inventory.Interface, p Packet, inbound bool) Ruling {
	var ids []arm.ID
	if nic != nil && nic.SecurityGroup != "" {
		ids = append(ids, nic.SecurityGroup)
	}
	if f.subnet != nil && f.subnet.SecurityGroup != "" {
		ids = append(ids, f.subnet.SecurityGroup)
	}
	if inbound {
		slices.Reverse(ids)
	}
	result := Ruling{Decision: Allowed, Inbound: inbound, Why: "no network security group applies"}
	for _, id := range ids {
		g := f.s.SecurityGroups[id.Key()]
		r := Ruling{Decision: Undecided, Group: id, Inbound: inbound,
			Why: "network security group " + id.Name() + " was not read"}
		if g != nil {
			r = f.Judge(g, p, inbound)
		}
		if r.Decision == Denied {
			return r
		}
		if result.Decision == Allowed {
			result = r
		}
	}
	return result
}

// match is how a rule fits a packet.
type match struct {
	rule    *securityRule
	sure    answer
	unknown string // why it is unknown; "" if an option was not given
}

// securityRule describes a rule in words.
type securityRule inventory.SecurityRule

// traffic describes the protocol and ports of a rule.
func (r *securityRule) traffic() string {
	text := cmp.Or(strings.ToLower(strings.Trim(r.Protocol, "*")), "every protocol")
	if ports := strings.Join(r.DestinationPorts, ", "); ports != "*" && ports != "" {
		text += " to port " + ports
	}
	if ports := strings.Join(r.SourcePorts, ", "); ports != "*" && ports != "" {
		text += " from port " + ports
	}
	return text
}

// answer is yes, no or unknown.
type answer int

const (
	no answer = iota
	perhaps
	yes
)

func isTrue(b bool) answer {
	if b {
		return yes
	}
	return no
}

func (f *Filters) match(rule *inventory.SecurityRule, p Packet) match {
	m := match{rule: (*securityRule)(rule), sure: min(matchProtocol(rule.Protocol, p.Protocol),
		matchPorts(rule.SourcePorts, p.FromPort, p.Protocol),
		matchPorts(rule.DestinationPorts, p.Port, p.Protocol))}
	if m.sure == no {
		return m
	}
	for _, end := range []struct {
		addr     netip.Addr
		prefixes []string
		groups   []arm.ID
	}{{p.From, rule.Sources, rule.SourceGroups}, {p.To, rule.Destinations,
		rule.DestinationGroups}} {
		a, why := f.matchEnd(end.addr, end.prefixes, end.groups)
		if p.Name != "" && !end.addr.IsValid() {
			a, why = f.matchName(p, end.prefixes)
		}
		m.sure = min(m.sure, a)
		if a == no {
			return m
		}
		m.unknown = cmp.Or(m.unknown, why)
	}
	return m
}

func matchProtocol(rule, packet string) answer {
	switch {
	case rule == "*" || rule == "" || strings.EqualFold(rule, packet):
		return yes
	case packet == "":
		return perhaps
	}
	return no
}

// matchPorts compares a packet's port (0 for any) with the ports of a rule. Only tcp and udp have
// ports.
func matchPorts(rule []string, port int, protocol string) answer {
	if len(rule) == 0 {
		return yes
	}
	hasPorts := protocol == "" || strings.EqualFold(protocol, "tcp") ||
		strings.EqualFold(protocol, "udp")
	result := no
	for _, text := range rule {
		from, to, isRange := strings.Cut(text, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(strings.TrimSpace(from))
		last, err2 := strconv.Atoi(strings.TrimSpace(to))
		switch {
		case text == "*" || err == nil && err2 == nil && first == 0 && last == 65535:
			return yes
		case err != nil || err2 != nil || !hasPorts:
		case port == 0:
			result = perhaps
		case first <= port && port <= last:
			return yes
		}
	}
	return result
}

// matchEnd says whether a rule covers an address and, if that is unknown, why.
func (f *Filters) matchEnd(a netip.Addr, prefixes []string, groups []arm.ID) (answer, string) {
	result, unknown := no, ""
	take := func(got answer, why string) {
		if got > result {
			result, unknown = got, why
		}
	}
	for _, text := range prefixes {
		take(f.matchPrefix(a, text))
	}
	for _, id := range groups {
		take(f.inGroup(a, id))
	}
	return result, unknown
}

func (f *Filters) matchPrefix(a netip.Addr, text string) (answer, string) {
	if text == "*" || strings.EqualFold(text, "any") {
		return yes, ""
	}
	if p := arm.ParseRange(text); p.IsValid() {
		return isTrue(p.Contains(a)), ""
	}
	// the classic spelling has underscores
	switch strings.ToLower(strings.ReplaceAll(text, "_", "")) {
	case "virtualnetwork":
		return f.inVirtualNetwork(a)
	case "azureloadbalancer":
		return isTrue(a == host), ""
	case "internet":
		return f.onInternet(a)
	}
	return f.inService(a, text)
}

package plan

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Every state, one step. How it works: a small world is every combination of two machines, three
// addresses and two pod CIDRs, of the rows of the cluster's table and of a target, also with the
// name of a third machine that is gone, of what a check reads, and of what it remembers. For each
// the planner plans once, and reads what it needs. It does not matter how the state came about.
// Then the world says which routes deliver.
//
// States that differ only in the names of machines, addresses or pod CIDRs count once.
//
// What must hold:
//
//	delivers  no change ends a route by which packets arrive, but for one case (rewritten)
//	theirs    a route that neither a cloud provider nor a keeper named stays as it is
//	bends     no new or changed route leads to another machine than it names, as far as the
//	          interfaces were read
//	guards    a node subnet gets no table but the cluster's, or what is taken for it
//	twice     no two routes have the same prefix, or the same name
//	room      a table gets no more routes than it may have
//	kept      policy UpsertOnly deletes nothing
//	stable    the plan for what the plan leads to has no changes
//	soon      if the cluster's table is as the cloud provider writes it, and all was read: a copy
//	          that leads to another machine than it names gives way to the row of its prefix, and
//	          one that was right and leads out of the node subnets is right again. No delete or
//	          update waits because an earlier check read the interfaces for other addresses
//	said      a target with a route that can be seen not to deliver has a finding, and so has one
//	          with a person's route to pods that no node's row has
//	true      what a finding says is so (everyclaim_test.go)

// What a check remembers in TestEveryState. Nothing, in the first check.
const (
	hasSettled  = 1 // the rows of the cluster's table are older than steadyAfter
	hasHad      = 2 // the cluster's table once had the routes of the target
	hasInSync   = 4 // the target once had the rows of the cluster's table
	hasWritten  = 8 // the cluster's identity was the last to write its table, after its rows
	numMemories = 16
)

// possible reports whether a check can remember this. A cloud provider that can write leaves no row
// of a node with a pod CIDR that the node does not have: it deletes such a row within the time in
// which rows settle.
func (s smallState) possible() bool {
	if s.memory&hasWritten == 0 {
		return true
	}
	for c, r := range s.own {
		if r.node() {
			if m := s.machine[r.name()]; m.exists() && m.cidr() != c {
				return false
			}
		}
	}
	return s.memory&hasSettled > 0
}

// number orders states, whatever is read and remembered.
func (s smallState) number() int {
	n := int(s.machine[0])*smallRows + int(s.machine[1])
	for _, r := range []smallRow{s.own[0], s.own[1], s.target[0][0], s.target[0][1]} {
		n = n*smallRows + int(r)
	}
	return n
}

// twoNames are all names of two machines, three addresses and two pod CIDRs.
var twoNames = func() (all []smallNames) {
	for _, a := range [][3]int8{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for _, m := range [][3]int8{{0, 1, 2}, {1, 0, 2}} {
			for _, c := range [][3]int8{{0, 1, 2}, {1, 0, 2}} {
				all = append(all, smallNames{m, c, a})
			}
		}
	}
	return all
}()

// first reports whether no renamed state comes before this one.
func (s smallState) first() bool {
	n := s.number()
	return !slices.ContainsFunc(twoNames, func(names smallNames) bool {
		return s.renamed(names).number() < n
	})
}

// smallStates calls do for every state, once for all that differ only in names.
func smallStates(do func(smallState)) {
	machines, rows := []smallMachine{0}, []smallRow{0}
	for a := range smallMost {
		machines = append(machines, aMachine(a, 0), aMachine(a, 1))
		rows = append(rows, aRow(0, a), aRow(1, a), aRow(byPerson, a))
	}
	copies := rows // the target also has those of a machine that is gone
	for a := range smallMost {
		copies = append(copies, aRow(2, a))
	}
	var s smallState
	all := func() {
		for _, s.own[0] = range rows {
			for _, s.own[1] = range rows {
				for _, s.target[0][0] = range copies {
					for _, s.target[0][1] = range copies {
						if s.first() {
							do(s)
						}
					}
				}
			}
		}
	}
	for _, a := range machines {
		for _, b := range machines {
			if a.exists() && b.exists() && (a.address() == b.address() || a.cidr() == b.cidr()) {
				continue
			}
			s.machine[0], s.machine[1] = a, b
			all()
		}
	}
}

// remembering returns the memory of a state.
func (s smallState) remembering() *Remembered {
	m := &Remembered{LastTable: tableA, LastProven: true, hops: map[netip.Addr]ledBy{},
		Had: map[Pair]bool{}, InSync: map[string]map[netip.Prefix]netip.Addr{gateway.Key(): {}}}
	if s.memory > 0 {
		m.Nodes.Hops, m.noted = map[netip.Addr]string{}, smallNow
	}
	for c, r := range s.own {
		if !r.exists() {
			continue
		}
		hop := r.hop(c)
		m.Had[Pair{Prefix: smallCIDR[c], Hop: hop}] = true
		if s.memory&hasSettled > 0 && r.node() {
			m.hops[hop] = ledBy{prefixes: append(m.hops[hop].prefixes, smallCIDR[c]),
				since: smallNow.Add(-steadyAfter), after: smallNow.Add(-steadyAfter - apart)}
		}
		if s.memory&hasInSync > 0 {
			m.InSync[gateway.Key()][smallCIDR[c]] = hop
		}
	}
	for c, r := range s.target[0] {
		if r.exists() && s.memory&hasHad > 0 {
			m.Had[Pair{Prefix: smallCIDR[c], Hop: r.hop(c)}] = true
		}
	}
	return m
}

// judged is a plan for a state, to be judged.
type judged struct {
	w *smallWorld
	s smallState
	f Facts
	p Plan
}

// recalled reports whether a plan was made by interfaces that an earlier check read. They can
// withhold a change for a minute (keeper's evidenceBelieved).
func recalled(f Facts) bool {
	return f.Known(clusterA).NICs == nil && f.Memory.Of(clusterA).NICs != nil
}

// wrong returns the rules that a plan breaks.
func (j judged) wrong() (rules []string) {
	for k := range j.w.targets {
		rules = append(rules, j.wrongTarget(k)...)
	}
	read := j.f.Known(clusterA).NICs
	for _, c := range j.p.Changes {
		switch {
		case c.Verb == Associate && c.New.RouteTable != tableA && !j.mistaken():
			rules = append(rules, "guards: "+c.New.String())
		case c.Verb != Associate && c.New != nil && read != nil && read.Failed == "":
			node := inventory.RouteNode(c.Route)
			holder := read.Nodes[netip.MustParseAddr(c.New.NextHopIPAddress)]
			if holder != "" && !strings.EqualFold(holder, node) {
				rules = append(rules, "bends: "+c.Route+" to "+c.New.String())
			}
		}
	}
	for k, id := range smallTargetIDs[:j.w.targets] {
		had := j.f.Memory.Of(clusterA).InSync[id.Key()]
		for _, c := range j.p.Changes {
			if c.Resource == id && c.New != nil && c.Repair != (had[netip.MustParsePrefix(
				c.New.AddressPrefix)] == netip.MustParseAddr(c.New.NextHopIPAddress)) {
				rules = append(rules, fmt.Sprintf("true: repair of table %d: %t", k, c.Repair))
			}
		}
	}
	if j.mistaken() { // it says what is so of the copy
		return rules
	}
	return append(rules, j.wrongClaims()...)
}

// mistaken reports whether a plan takes the copy for the cluster's table.
func (j judged) mistaken() bool {
	return j.w.mistaken && Discover(j.f, &j.w.base.configs[0], TakenBy(j.w.base.configs)).Table ==
		copyOfA
}

// sourceRead reports whether a check read whose routes the cluster's are.
func (s smallState) sourceRead() bool {
	return s.deleted == 0 && s.reads != readNoTable && s.reads != readNoCluster
}

// wrongTarget returns the rules that a plan breaks in one target.
func (j judged) wrongTarget(k int) (rules []string) {
	s, to := j.s, smallTargetIDs[k]
	known, table := j.f.Memory.Of(clusterA), j.f.Table(to)
	desired := j.p.Desired.Table(to)
	if desired == nil {
		if s.reads != readNoTarget && s.reads != readNoCluster {
			rules = []string{"said: a target was not planned"}
		}
		return rules
	}
	seen, mistaken := s, j.mistaken()
	if mistaken {
		seen.own = j.w.start.own
	}
	after := map[netip.Prefix]inventory.Route{}
	for _, r := range desired.Routes {
		after[r.Prefix] = r
	}
	for _, r := range table.Routes() {
		now, stays := after[r.Prefix]
		c := slices.Index(smallCIDR[:], r.Prefix)
		same := stays && now.Name == r.Name && now.SameHop(r)
		switch {
		case c < 0:
			if !same {
				rules = append(rules, "theirs: "+r.Name)
			}
		case !s.sourceRead() && !same && !mistaken:
			rules = append(rules, "delivers: without a source: "+routeLine(r))
		case s.arrives(j.w, c, r.Hop) && !(stays && s.arrives(j.w, c, now.Hop)) &&
			!seen.rewritten(c, s.target[k][c]):
			rules = append(rules, "delivers: "+routeLine(r))
		case s.target[k][c].person() && !known.Had[Pair{Prefix: r.Prefix, Hop: r.Hop}] && !same:
			rules = append(rules, "theirs: "+routeLine(r))
		}
	}
	said := mentions(j.p)
	unknown := slices.ContainsFunc(j.p.Findings, func(f finding.Finding) bool {
		return f.Code == finding.TableUnknown
	})
	for c, r := range s.target[k] {
		if mistaken || unknown || recalled(j.f) || s.reads != readWhole || s.deleted != 0 ||
			s.off != (smallState{}).off || !r.node() ||
			s.own != s.provided(j.w) || !s.own[c].exists() || s.delivers(c, r.hop(c)) ||
			after[smallCIDR[c]].Hop != r.hop(c) {
			continue
		}
		was := known.InSync[to.Key()][smallCIDR[c]] == s.own[c].hop(c)
		if at := s.holder(r.hop(c)); at >= 0 && at != r.name() || was && j.w.stray(r) {
			rules = append(rules, "soon: "+smallRoute(c, r)+" stays")
		}
	}
	for c, r := range s.target[k] {
		if _, there := after[smallCIDR[c]]; there && !mistaken && r.person() && !s.own[c].node() &&
			s.sourceRead() && s.reads != readNoSubnet && !said.any(c, r.address()) && !unknown {
			rules = append(rules, "said: "+smallRoute(c, r)+", which no node's row has")
		}
	}
	prefixes, names := map[netip.Prefix]bool{}, map[string]bool{}
	for _, r := range desired.Routes {
		if prefixes[r.Prefix] || names[r.Name] {
			rules = append(rules, "twice: "+routeLine(r))
		}
		prefixes[r.Prefix], names[r.Name] = true, true
	}
	if limit := j.w.room; k == 0 && limit > 0 &&
		len(desired.Routes) > max(limit, len(table.Routes())) {
		rules = append(rules, fmt.Sprintf("room: %d routes", len(desired.Routes)))
	}
	if k == 1 && len(desired.Routes) < len(table.Routes()) { // UpsertOnly
		rules = append(rules, "kept: a stale route is deleted")
	}
	nics := j.f.Known(clusterA).NICs
	if s.reads != readWhole || nics == nil || len(j.p.Findings) > 0 || mistaken {
		return rules
	}
	for c, prefix := range smallCIDR {
		r, there := after[prefix]
		if !there || s.target[k][c].person() {
			continue
		}
		node, holder := strings.ToLower(inventory.RouteNode(r.Name)), nics.Nodes[r.Hop]
		if own := s.own[c]; own.node() && own.hop(c) == r.Hop {
			node = smallNode[own.name()] // traffic follows the next hop, not the name
		}
		if holder != "" && holder != node {
			rules = append(rules, "said: "+routeLine(r))
		}
	}
	return rules
}

// smallMentions says which prefixes and addresses the findings of a plan name.
type smallMentions struct {
	prefix  [smallPrefixes]bool
	address [2][smallMost]bool // by family
	dual    bool
	codes   int
}

func mentions(p Plan) (m smallMentions) {
	var text strings.Builder
	for _, f := range p.Findings {
		text.WriteString(f.Message)
		for _, line := range f.Evidence {
			text.WriteString("\n" + line)
		}
		text.WriteString("\n")
		m.codes++
	}
	all := text.String()
	for c, prefix := range smallCIDRText {
		m.prefix[c] = strings.Contains(all, prefix)
	}
	m.dual = strings.Contains(all, "IPv4, IPv6") // such a line names a node by one address
	for a := range smallMost {
		m.address[0][a] = strings.Contains(all, smallAddressText[0][a])
		m.address[1][a] = strings.Contains(all, smallAddressText[1][a])
	}
	return m
}

var smallCIDRText, smallAddressText = func() (cidrs [smallPrefixes]string,
	addresses [2][smallMost]string) {
	for c, p := range smallCIDR {
		cidrs[c] = p.String()
	}
	for a := range smallMost {
		addresses[0][a], addresses[1][a] = smallAddress[a].String(), smallAddress6[a].String()
	}
	return cidrs, addresses
}()

// any reports whether a finding names a prefix, or one of some addresses.
func (m smallMentions) any(c int, addresses ...int) bool {
	return m.prefix[c] || slices.ContainsFunc(addresses, func(a int) bool {
		return m.address[c/smallMost][a] || m.dual && m.address[1-c/smallMost][a]
	})
}

// leadsTo returns the state that a plan leads to, if its writes succeed.
func (s smallState) leadsTo(w *smallWorld, p Plan) smallState {
	for k, id := range smallTargetIDs[:w.targets] {
		desired := p.Desired.Table(id)
		if desired == nil {
			continue
		}
		s.target[k] = smallTable{}
		for _, r := range desired.Routes {
			c := slices.Index(smallCIDR[:], r.Prefix)
			if c < 0 {
				continue
			}
			name := slices.Index(smallNode[:], inventory.RouteNode(r.Name))
			if name < 0 {
				name = byPerson
			}
			for a := range smallMost {
				if hopOf(c, a) == r.Hop {
					s.target[k][c] = aRow(name, a)
				}
			}
		}
	}
	for _, c := range p.Changes {
		if c.Verb == Associate {
			s.on = map[arm.ID]int8{tableA: hasOwn, copyOfA: hasCopy}[c.New.RouteTable]
		}
	}
	return s
}

// TestEveryState plans once in every state. ROUTEKEEPER_STATES=all plans in all of them; otherwise
// one in 48 of what is read and remembered, and one in 16 with ROUTEKEEPER_FULL.
func TestEveryState(t *testing.T) {
	t.Parallel()
	w := (&smallWorld{machines: 2, cidrs: 2, targets: 1, keepers: 1}).made(t)
	all, one := os.Getenv("ROUTEKEEPER_STATES") == "all", 48
	if os.Getenv("ROUTEKEEPER_FULL") != "" {
		one = 16
	}
	n, kinds := 0, map[string]int{}
	smallStates(func(s smallState) {
		for k := range numReads * numMemories {
			if !all && (s.number()*31+k)%one != 0 {
				continue
			}
			if s.reads, s.memory = int8(k/numMemories), int8(k%numMemories); !s.possible() ||
				!all && s.reads == readForOthers && s.number()%4 > 0 {
				continue
			}
			n++
			f := w.facts(s)
			m := s.remembering()
			f.Memory[clusterA.Key()] = m
			if s.reads == readBefore || s.reads == readForOthers {
				m.NICs, m.Asked = w.interfaces(s, true, -1), map[netip.Addr]bool{}
			}
			if s.reads == readBefore {
				for _, a := range smallAddress {
					m.Asked[a] = true
				}
			}
			d, _ := w.decide(s, f, nil)
			rules := judged{w, s, d.Facts, d.Plan}.wrong()
			if s.reads == readForOthers {
				plain := w.facts(s)
				plain.Memory[clusterA.Key()] = s.remembering()
				now, _ := w.decide(s, plain, nil)
				for _, c := range now.Changes {
					if c.Verb != Create && !slices.ContainsFunc(d.Changes, func(made Change) bool {
						return made.Key() == c.Key()
					}) {
						rules = append(rules, "soon: waits: "+c.Route)
					}
				}
			}
			if next := d.Facts.Fork(); len(d.Changes) > 0 {
				next.Tables[gateway.Key()] = w.table(gateway, s.leadsTo(w, d.Plan).target[0])
				if again, _ := w.decide(s, next, nil); len(again.Changes) > 0 {
					rules = append(rules, "stable: "+changes(d.Plan)+"\nthen "+changes(again.Plan))
				}
			}
			for _, rule := range rules {
				broke("state "+rule, "")
				kind, _, _ := strings.Cut(rule, ":")
				if kinds[kind]++; kinds[kind] <= 3 {
					t.Errorf("%s\nthe rule: %s\n%s\n%s", rule, smallRules[kind], s, changes(d.Plan))
				}
			}
		}
	})
	t.Logf("%d states; broken: %v", n, kinds)
}

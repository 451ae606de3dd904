package plan

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// Every state, one step. How it works: a small world is every combination of two machines, three
// addresses and two pod CIDRs, of the rows of the cluster's table and of a target, of what a check
// reads, and of what it remembers. For each the planner plans once, and reads what it needs. It
// does not matter how the state came about. Then the world says which routes deliver.
//
// States that differ only in the names of machines, addresses or pod CIDRs count once.
//
// What must hold:
//
//	delivers  no change ends a route that delivers, but for one case (rewritten)
//	theirs    a route that neither a cloud provider nor a keeper named stays as it is
//	bends     no new route leads to another machine than it names, as far as the
//	          interfaces were read
//	stable    the plan for what the plan leads to has no changes
//	said      a target with a route that can be seen not to deliver has a finding, and so has one
//	          with a person's route to pods that no node's row has
//	true      what a finding says is so (everyclaim_test.go)

// smallState is one state. The rows of both tables are by pod CIDR.
type smallState struct {
	machine     [2]smallMachine
	own, target [2]smallRow // the cluster's table and the target
	reads       int
	memory      int
}

// smallMachine is 0 for a machine that does not exist, and otherwise 1 + address*2 + pod CIDR.
type smallMachine int

func (m smallMachine) exists() bool { return m > 0 }
func (m smallMachine) address() int { return int(m-1) / 2 }
func (m smallMachine) cidr() int    { return int(m-1) % 2 }

// smallRow is 0 for no route, and otherwise 1 + name*3 + address. The name is that of a machine, or
// byPerson.
type smallRow int

func (r smallRow) exists() bool { return r > 0 }
func (r smallRow) name() int    { return int(r-1) / 3 }
func (r smallRow) address() int { return int(r-1) % 3 }

const (
	byPerson      = 2
	smallRows     = 10
	smallMachines = 7
)

// What a check reads.
const (
	readWhole   = iota // all network interfaces
	readPart           // all but those of the first machine
	readRefused        // none
	readBefore         // remembered from when the machines had each other's address
	readNoTable        // all network interfaces, and not the cluster's table
	numReads
)

// What it remembers. Nothing, in the first check.
const (
	hasSettled  = 1 // the rows of the cluster's table are older than steadyAfter
	hasHad      = 2 // the cluster's table once had the routes of the target
	hasInSync   = 4 // the target once had the rows of the cluster's table
	hasWritten  = 8 // the cluster's identity was the last to write its table, after its rows
	numMemories = 16
)

var (
	smallAddress = [3]netip.Addr{netip.MustParseAddr("10.240.0.4"),
		netip.MustParseAddr("10.240.0.5"), netip.MustParseAddr("10.240.0.6")}
	smallCIDR = [2]netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"),
		netip.MustParsePrefix("10.244.1.0/24")}
	smallNode = [2]string{"aks-a-00000000-vmss000000", "aks-a-00000000-vmss000001"}
)

func (s smallState) String() string {
	var b strings.Builder
	for i, m := range s.machine {
		if m.exists() {
			fmt.Fprintf(&b, "machine %d has %s and %s\n", i, smallAddress[m.address()],
				smallCIDR[m.cidr()])
		}
	}
	for cidr := range 2 {
		for _, r := range []smallRow{s.own[cidr], s.target[cidr]} {
			fmt.Fprintf(&b, "%-66s", smallRoute(cidr, r))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "reads %s; settled %v, had %v, in sync %v, written %v",
		[]string{"all", "all but those of the first machine", "none", "others before",
			"not the cluster's table"}[s.reads],
		s.memory&hasSettled > 0, s.memory&hasHad > 0, s.memory&hasInSync > 0,
		s.memory&hasWritten > 0)
	return b.String()
}

// smallRoute writes a row as routeDoc reads it.
func smallRoute(cidr int, r smallRow) string {
	if !r.exists() {
		return "-"
	}
	name := fmt.Sprintf("vip-%d", cidr)
	if r.name() != byPerson {
		name = fmt.Sprintf("%s____10244%d024", smallNode[r.name()], cidr)
	}
	return fmt.Sprintf("%s %s %s", name, smallCIDR[cidr], smallAddress[r.address()])
}

// delivers reports whether a route leads to the machine that has the pod CIDR.
func (s smallState) delivers(cidr int, hop netip.Addr) bool {
	return slices.ContainsFunc(s.machine[:], func(m smallMachine) bool {
		return m.exists() && m.cidr() == cidr && smallAddress[m.address()] == hop
	})
}

// possible reports whether a check can remember this. A cloud provider that can write leaves no row
// of a node with a pod CIDR that the node does not have: it deletes such a row within the time in
// which rows settle.
func (s smallState) possible() bool {
	if s.memory&hasWritten == 0 {
		return true
	}
	for cidr, r := range s.own {
		if !r.exists() || r.name() == byPerson {
			continue
		}
		if m := s.machine[r.name()]; m.exists() && m.cidr() != cidr {
			return false
		}
	}
	return s.memory&hasSettled > 0
}

// rewritten reports whether the cluster's table and the target consistently show another world:
// both name the same machine for a pod CIDR that it does not have, and the row leads to it. The
// target's route looks like one whose machine has a new address. Only Kubernetes knows better.
func (s smallState) rewritten(cidr int) bool {
	r, copied := s.own[cidr], s.target[cidr]
	if !r.exists() || r.name() == byPerson {
		return false
	}
	if copied.name() != r.name() {
		return false
	}
	m := s.machine[r.name()]
	return m.exists() && m.cidr() != cidr && m.address() == r.address()
}

// renamed returns the state with other names for machines, addresses and pod CIDRs.
func (s smallState) renamed(machines, cidrs [2]int, addresses [3]int) (out smallState) {
	for i, m := range s.machine {
		if m.exists() {
			out.machine[machines[i]] = smallMachine(1 + addresses[m.address()]*2 + cidrs[m.cidr()])
		}
	}
	row := func(r smallRow) smallRow {
		if !r.exists() {
			return r
		}
		name := r.name()
		if name != byPerson {
			name = machines[name]
		}
		return smallRow(1 + name*3 + addresses[r.address()])
	}
	for cidr := range 2 {
		out.own[cidrs[cidr]], out.target[cidrs[cidr]] = row(s.own[cidr]), row(s.target[cidr])
	}
	return out
}

// number orders states, whatever is read and remembered.
func (s smallState) number() int {
	n := int(s.machine[0])*smallMachines + int(s.machine[1])
	for _, r := range []smallRow{s.own[0], s.own[1], s.target[0], s.target[1]} {
		n = n*smallRows + int(r)
	}
	return n
}

// first reports whether no renamed state comes before this one.
func (s smallState) first() bool {
	n := s.number()
	for _, a := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for _, m := range [][2]int{{0, 1}, {1, 0}} {
			for _, c := range [][2]int{{0, 1}, {1, 0}} {
				if s.renamed(m, c, a).number() < n {
					return false
				}
			}
		}
	}
	return true
}

// smallStates calls do for every state, once for all that differ only in names.
func smallStates(do func(smallState)) {
	for n := range smallMachines * smallMachines * smallRows * smallRows * smallRows * smallRows {
		var s smallState
		for _, r := range []*smallRow{&s.target[1], &s.target[0], &s.own[1], &s.own[0]} {
			*r, n = smallRow(n%smallRows), n/smallRows
		}
		a, b := smallMachine(n/smallMachines), smallMachine(n%smallMachines)
		s.machine = [2]smallMachine{a, b}
		if a.exists() && b.exists() && (a.address() == b.address() || a.cidr() == b.cidr()) {
			continue
		}
		if s.first() {
			do(s)
		}
	}
}

// smallWorld makes the facts of states.
type smallWorld struct {
	base    *world
	tables  map[string]*inventory.RouteTable
	cluster inventory.Cluster
}

func newSmallWorld(t testing.TB) *smallWorld {
	w := &world{t: t, s: Facts{Snapshot: inventory.NewSnapshot(), Memory: Memory{}}}
	w.cluster(clusterA, "10.244.0.0/16", nodesA).subnet(nodesA, "10.240.0.0/24", tableA)
	w.config("shop", clusterA, gateway).Spec.RouteTableID = string(tableA)
	w.wrote(clusterA, tableA)
	w.s.Taken = smallNow
	return &smallWorld{w, map[string]*inventory.RouteTable{}, *w.s.Cluster(clusterA)}
}

func (w *smallWorld) table(own bool, rows [2]smallRow) *inventory.RouteTable {
	key := fmt.Sprint(own, rows)
	if w.tables[key] == nil {
		routes := []string{"egress 0.0.0.0/0 10.1.0.4"}
		for cidr, r := range rows {
			if r.exists() {
				routes = append(routes, smallRoute(cidr, r))
			}
		}
		id := gateway
		if own {
			id = tableA
		}
		scratch := &world{t: w.base.t, s: Facts{Snapshot: inventory.NewSnapshot()}}
		w.tables[key] = scratch.table(id, routes...).s.Table(id)
	}
	return w.tables[key]
}

// interfaces are the network interfaces that a read shows.
func (s smallState) interfaces(swapped bool, without int) *inventory.NICs {
	n := &inventory.NICs{Holder: map[netip.Addr]string{}, Nodes: map[netip.Addr]string{},
		Read: smallNow}
	if swapped {
		n.Read = smallNow.Add(-apart)
	}
	for i, m := range s.machine {
		if !m.exists() || i == without {
			continue
		}
		at := smallAddress[m.address()]
		if other := s.machine[1-i]; swapped && other.exists() {
			at = smallAddress[other.address()]
		} else if swapped {
			at = smallAddress[(m.address()+1)%3]
		}
		n.Holder[at] = smallHolder(i)
		n.Nodes[at] = smallNode[i]
	}
	return n
}

// facts are what a check knows in a state before it reads network interfaces.
func (w *smallWorld) facts(s smallState) Facts {
	f := w.base.s.Fork()
	f.Tables[tableA.Key()], f.Tables[gateway.Key()] = w.table(true, s.own),
		w.table(false, s.target)
	cluster := w.cluster
	cluster.Pools = slices.Clone(cluster.Pools)
	cluster.Pools[0].Count = 0
	for _, m := range s.machine {
		if m.exists() {
			cluster.Pools[0].Count++
		}
	}
	f.Clusters[clusterA.Key()] = &cluster
	if s.reads == readNoTable {
		delete(f.Tables, tableA.Key())
		f.Unread[tableA.Key()] = inventory.Unread{Status: 403}
	}
	m := &Remembered{LastTable: tableA, LastProven: true, hops: map[netip.Addr]ledBy{},
		Had: map[Pair]bool{}, InSync: map[string]map[netip.Prefix]netip.Addr{gateway.Key(): {}}}
	if s.memory > 0 {
		m.Nodes.Hops, m.noted = map[netip.Addr]string{}, smallNow
	}
	for cidr, r := range s.own {
		if !r.exists() {
			continue
		}
		hop := smallAddress[r.address()]
		m.Had[Pair{Prefix: smallCIDR[cidr], Hop: hop}] = true
		if s.memory&hasSettled > 0 && r.name() != byPerson {
			m.hops[hop] = ledBy{prefixes: append(m.hops[hop].prefixes, smallCIDR[cidr]),
				since: smallNow.Add(-steadyAfter), after: smallNow.Add(-steadyAfter - apart)}
		}
		if s.memory&hasInSync > 0 {
			m.InSync[gateway.Key()][smallCIDR[cidr]] = hop
		}
	}
	for cidr, r := range s.target {
		if r.exists() && s.memory&hasHad > 0 {
			m.Had[Pair{Prefix: smallCIDR[cidr], Hop: smallAddress[r.address()]}] = true
		}
	}
	if s.reads == readBefore {
		m.NICs, m.Asked = s.interfaces(true, -1), map[netip.Addr]bool{}
		for _, a := range smallAddress {
			m.Asked[a] = true
		}
	}
	f.Memory[clusterA.Key()] = m
	return f
}

// decide decides, and reads what the decision needs.
func (w *smallWorld) decide(s smallState, f Facts) (Decision, Memory) {
	taken := TakenBy(w.base.configs)
	for {
		p, next := Decide(Observation{f.Snapshot, w.base.configs, taken, smallNow}, f.Memory)
		known := f.Learn(clusterA)
		if len(p.Need.Writers) > 0 && f.Writers[tableA.Key()].Line == "" {
			f.Writers[tableA.Key()] = []inventory.Writer{{Line: "ann", Names: []string{"ann"}},
				{Line: "the log could not be read", Failed: true},
				{Line: "earlier", Names: w.cluster.Principals, At: smallNow.Add(-time.Hour),
					Asked: smallNow}}[s.number()%3]
			if s.memory&hasWritten > 0 {
				f.Writers[tableA.Key()] = inventory.Writer{Line: "it", Names: w.cluster.Principals,
					At: smallNow}
			}
			continue
		}
		if len(p.Need.NICs) == 0 || known.NICs != nil {
			return p, next
		}
		switch s.reads {
		case readRefused:
			known.NICs = &inventory.NICs{Failed: "403"}
		case readPart:
			first := 0
			if !s.machine[0].exists() {
				first = 1
			}
			known.NICs = s.interfaces(false, first)
		default:
			known.NICs = s.interfaces(false, -1)
		}
	}
}

// wrong returns the rules that a plan breaks.
func (w *smallWorld) wrong(s smallState, f Facts, p Plan) (rules []string) {
	known := f.Memory.Of(clusterA)
	desired := p.Desired.Table(gateway)
	if desired == nil {
		return []string{"said: the target was not planned"}
	}
	after := map[netip.Prefix]inventory.Route{}
	for _, r := range desired.Routes {
		after[r.Prefix] = r
	}
	for _, r := range f.Table(gateway).Routes() {
		now, stays := after[r.Prefix]
		cidr := slices.Index(smallCIDR[:], r.Prefix)
		same := stays && now.Name == r.Name && now.SameHop(r)
		switch {
		case cidr < 0:
			if !same {
				rules = append(rules, "theirs: "+r.Name)
			}
		case s.reads == readNoTable && !same:
			rules = append(rules, "delivers: without the cluster's table: "+routeLine(r))
		case s.delivers(cidr, r.Hop) && !(stays && s.delivers(cidr, now.Hop)) &&
			!s.rewritten(cidr):
			rules = append(rules, "delivers: "+routeLine(r))
		case s.target[cidr].name() == byPerson && s.own[cidr] != s.target[cidr] &&
			!known.Had[Pair{Prefix: r.Prefix, Hop: r.Hop}] && !same:
			rules = append(rules, "theirs: "+routeLine(r))
		}
	}
	for cidr, r := range s.target {
		_, there := after[smallCIDR[cidr]]
		if row := s.own[cidr]; there && r.exists() && r.name() == byPerson &&
			(!row.exists() || row.name() == byPerson) && s.reads != readNoTable &&
			!says(p, smallMachine(1+r.address()*2+cidr), r) {
			rules = append(rules, "said: "+smallRoute(cidr, r)+", which no node's row has")
		}
	}
	for _, c := range p.Changes {
		if read := f.Known(clusterA).NICs; c.Verb == Create && read != nil && read.Failed == "" {
			node, holder := strings.Split(c.Route, "____")[0],
				read.Nodes[netip.MustParseAddr(c.New.NextHopIPAddress)]
			if holder != "" && !strings.EqualFold(holder, node) {
				rules = append(rules, "bends: "+c.Route+" to "+c.New.String())
			}
		}
	}
	if len(p.Changes) > 0 {
		next := f.Fork()
		next.Tables[gateway.Key()] = f.Table(gateway).WithRoutes(desired.Routes)
		if again, _ := w.decide(s, next); len(again.Changes) > 0 {
			rules = append(rules, "stable: "+changes(p)+"\nthen "+changes(again.Plan))
		}
	}
	if seen := f.Known(clusterA).NICs; s.reads == readWhole && seen != nil && len(p.Findings) == 0 {
		for cidr, prefix := range smallCIDR {
			r, there := after[prefix]
			if !there || s.target[cidr].name() == byPerson {
				continue
			}
			node, holder := strings.ToLower(inventory.RouteNode(r.Name)), seen.Nodes[r.Hop]
			if own := s.own[cidr]; own.exists() && own.name() != byPerson &&
				smallAddress[own.address()] == r.Hop {
				node = smallNode[own.name()] // traffic follows the next hop, not the name
			}
			if holder != "" && holder != node {
				rules = append(rules, "said: "+routeLine(r))
			}
		}
	}
	return append(rules, s.wrongClaims(f, p)...)
}

// TestEveryState plans once in every state. ROUTEKEEPER_STATES=all plans in all of them; otherwise
// one in sixteen of what is read and remembered.
func TestEveryState(t *testing.T) {
	t.Parallel()
	w := newSmallWorld(t)
	all := os.Getenv("ROUTEKEEPER_STATES") == "all"
	n, kinds := 0, map[string]int{}
	smallStates(func(s smallState) {
		for k := range numReads * numMemories {
			if !all && (s.number()*31+k)%16 != 0 {
				continue
			}
			if s.reads, s.memory = k/numMemories, k%numMemories; !s.possible() {
				continue
			}
			n++
			d, _ := w.decide(s, w.facts(s))
			p := d.Plan
			for _, rule := range w.wrong(s, d.Facts, p) {
				kind, _, _ := strings.Cut(rule, ":")
				if kinds[kind]++; kinds[kind] <= 3 {
					t.Errorf("%s\n%s\n%s", rule, s, changes(p))
				}
			}
		}
	})
	for code := range smallClaims {
		if _, said := smallSaid.Load(code); !said {
			t.Errorf("no state shows %s", code)
		}
	}
	t.Logf("%d states; broken: %v", n, kinds)
}

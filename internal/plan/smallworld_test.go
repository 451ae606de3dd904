package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// The small world of the tests of all states. How it works: machines, addresses and pod CIDRs have
// numbers, and a route is the number of its name and its address, by the number of its prefix. So a
// state is a few bytes, and can be the key of a map. Documents are decoded once for each content of
// a table.

const (
	smallMost     = 3             // machines, addresses and IPv4 pod CIDRs
	smallPrefixes = smallMost + 2 // the last two are the IPv6 pod CIDRs of the first two machines
	smallTargets  = 2
	byPerson      = smallMost // the name of a row
	smallRows     = 1 + (smallMost+1)*smallMost
)

// smallState is one state. The rows of the tables are by prefix.
type smallState struct {
	machine [smallMost]smallMachine
	off     [smallMost]bool // a deallocated machine is there, and no interface shows its address
	own     smallTable      // the cluster's table
	target  [smallTargets]smallTable
	on      int8 // the table that the node subnet has
	deleted int8
	reads   int8
	memory  int8 // in TestEveryState
	behind  bool // the cluster's table is an old answer, and the log shows a later write
}

type smallTable [smallPrefixes]smallRow

// smallMachine is 0 for a machine that does not exist, and otherwise 1 + address*smallMost + pod
// CIDR.
type smallMachine int8

func (m smallMachine) exists() bool { return m > 0 }
func (m smallMachine) address() int { return int(m-1) / smallMost }
func (m smallMachine) cidr() int    { return int(m-1) % smallMost }

func aMachine(address, cidr int) smallMachine {
	return smallMachine(1 + address*smallMost + cidr)
}

// smallRow is 0 for no route, and otherwise 1 + name*smallMost + address. The name is that of a
// machine, or byPerson.
type smallRow int8

func (r smallRow) exists() bool { return r > 0 }
func (r smallRow) name() int    { return int(r-1) / smallMost }
func (r smallRow) address() int { return int(r-1) % smallMost }
func (r smallRow) person() bool { return r.exists() && r.name() == byPerson }
func (r smallRow) node() bool   { return r.exists() && r.name() != byPerson }

func aRow(name, address int) smallRow { return smallRow(1 + name*smallMost + address) }

// What a check reads.
const (
	readWhole     = iota // all network interfaces
	readPart             // all but those of the first machine
	readRefused          // none
	readBefore           // remembered from when the machines had each other's address
	readForOthers        // as before, and nothing was asked about these addresses
	readNoTable          // all network interfaces, and not the cluster's table
	numReads             // the rest are steps of TestEveryStep only
	readNoCluster = iota - 1
	readNoTarget
	readNoSubnet
)

var readWords = []string{"all", "all but the interfaces of the first machine", "no interface",
	"others before", "others before, about which nothing was asked", "not the cluster's table",
	"not the cluster", "not the targets", "not the node subnet"}

// What the node subnet has, and what was deleted.
const (
	hasOwn = iota
	hasNone
	hasCopy // a copy of the cluster's table as it was at the start

	deletedCluster = iota - 2
	deletedTable
)

var (
	smallAddress = [smallMost]netip.Addr{netip.MustParseAddr("10.240.0.4"),
		netip.MustParseAddr("10.240.0.5"), netip.MustParseAddr("10.240.0.6")}
	smallAddress6 = [smallMost]netip.Addr{netip.MustParseAddr("fd00:10:240::4"),
		netip.MustParseAddr("fd00:10:240::5"), netip.MustParseAddr("fd00:10:240::6")}
	smallCIDR = [smallPrefixes]netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"),
		netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("10.244.2.0/24"),
		netip.MustParsePrefix("fd00:10:244::/64"), netip.MustParsePrefix("fd00:10:244:1::/64")}
	smallNode = [smallMost]string{"aks-a-00000000-vmss000000", "aks-a-00000000-vmss000001",
		"aks-a-00000000-vmss000002"}
	smallTargetIDs = [smallTargets]arm.ID{gateway, hub}
)

const copyOfA = tables + "/shop-rt-copy"

// hopOf is an address in the family of a prefix.
func hopOf(c, address int) netip.Addr {
	if c >= smallMost {
		return smallAddress6[address]
	}
	return smallAddress[address]
}

// hop returns the next hop of a row.
func (r smallRow) hop(c int) netip.Addr { return hopOf(c, r.address()) }

func (s smallState) String() string {
	var b strings.Builder
	for i, m := range s.machine {
		if m.exists() {
			fmt.Fprintf(&b, "machine %d has %s and %s\n", i, smallAddress[m.address()],
				smallCIDR[m.cidr()])
		}
	}
	for c := range smallPrefixes {
		if s.own[c].exists() || s.target[0][c].exists() || s.target[1][c].exists() {
			fmt.Fprintf(&b, "%-66s%-66s%s\n", smallRoute(c, s.own[c]), smallRoute(c, s.target[0][c]),
				smallRoute(c, s.target[1][c]))
		}
	}
	fmt.Fprintf(&b, "off %v, subnet %d, deleted %d, reads %s; settled %v, had %v, in sync %v, "+
		"written %v", s.off, s.on, s.deleted, readWords[s.reads], s.memory&hasSettled > 0,
		s.memory&hasHad > 0, s.memory&hasInSync > 0, s.memory&hasWritten > 0)
	return b.String()
}

// smallRoute writes a row as routeDoc reads it.
func smallRoute(c int, r smallRow) string {
	if !r.exists() {
		return "-"
	}
	name := fmt.Sprintf("vip-%d", c)
	if r.node() {
		name = inventory.PodRouteName(smallNode[r.name()], smallCIDR[c])
	}
	return fmt.Sprintf("%s %s %s", name, smallCIDR[c], r.hop(c))
}

// delivers reports whether a route leads to the machine that has the pod CIDR.
func (s smallState) delivers(c int, hop netip.Addr) bool {
	return slices.ContainsFunc(s.machine[:], func(m smallMachine) bool {
		return m.exists() && m.cidr() == c%smallMost && hopOf(c, m.address()) == hop
	})
}

// nodes is the table that the node subnet has.
func (s smallState) nodes(w *smallWorld) smallTable {
	return [...]smallTable{hasOwn: s.own, hasNone: {}, hasCopy: w.start.own}[s.on]
}

// arrives reports whether packets to a pod CIDR arrive by a route of a target: the machine that it
// leads to forwards those of others by the table that it has (aks/faq).
func (s smallState) arrives(w *smallWorld, c int, hop netip.Addr) bool {
	r := s.nodes(w)[c]
	return s.delivers(c, hop) || r.exists() && s.delivers(c, r.hop(c)) &&
		slices.ContainsFunc(s.machine[:], func(m smallMachine) bool {
			return m.exists() && hopOf(c, m.address()) == hop
		})
}

// rewritten reports whether the cluster's table and the target consistently show another world: the
// row gives a machine a pod CIDR that it does not have, by its own name and address. The copy has
// the same name; or that of a machine that is gone, while another row gives the machine behind the
// copy another pod CIDR. Only Kubernetes knows better.
func (s smallState) rewritten(c int, copied smallRow) bool {
	r := s.own[c]
	if !r.node() || !copied.node() {
		return false
	}
	if m := s.machine[r.name()]; !m.exists() || m.cidr() == c%smallMost ||
		m.address() != r.address() {
		return false
	}
	if copied.name() == r.name() {
		return true
	}
	return !s.machine[copied.name()].exists() &&
		slices.ContainsFunc(s.own[:], func(other smallRow) bool {
			return other.node() && other != r && other.address() == copied.address() &&
				s.machine[other.name()].exists() &&
				s.machine[other.name()].address() == other.address()
		})
}

// smallWorld makes the facts of states. Its fields say what can be in it.
type smallWorld struct {
	machines, cidrs, targets, keepers int
	dual, unnamed                     bool
	mistaken                          bool // the keeper first sees the node subnet with a copy
	outside                           bool // the last address is a firewall's
	runbook                           bool // it filled the target, with names of its own
	room                              int  // the limit of the first target; 0: the usual one

	base    *world
	tables  map[smallTableKey]*inventory.RouteTable
	subnets [3]*inventory.Subnet
	counts  [smallMost + 1]*inventory.Cluster
	start   smallState
	answers map[smallQuestion]*smallAnswer
	again   map[smallAgain]*smallAnswer
}

type smallTableKey struct {
	id   arm.ID
	rows smallTable
}

// made prepares a world.
func (w *smallWorld) made(t testing.TB) *smallWorld {
	b := &world{t: t, s: Facts{Snapshot: inventory.NewSnapshot(), Memory: Memory{}}}
	cidrs, prefixes := "10.244.0.0/16", `"10.240.0.0/24"`
	if w.dual {
		cidrs, prefixes = cidrs+",fd00:10:244::/48", prefixes+`,"fd00:10:240::/64"`
	}
	if w.outside {
		prefixes = `"10.240.0.4/31","10.240.8.0/24"`
	}
	b.cluster(clusterA, cidrs, nodesA)
	c := b.config("shop", clusterA, smallTargetIDs[:w.targets]...)
	if c.Spec.RouteTableID = string(tableA); w.unnamed {
		c.Spec.RouteTableID = ""
	}
	if w.room > 0 {
		c.Spec.Targets[0].MaxRoutes = w.room
	}
	if w.targets > 1 {
		c.Spec.Targets[1].Policy = v1alpha1.PolicyUpsertOnly
	}
	b.wrote(clusterA, tableA)
	b.s.Taken = smallNow
	for on, table := range []arm.ID{tableA, "", copyOfA} {
		link := ""
		if table != "" {
			link = fmt.Sprintf(`,"routeTable":{"id":%q}`, table)
		}
		s, err := inventory.DecodeSubnet([]byte(fmt.Sprintf(
			`{"id":%q,"properties":{"addressPrefixes":[%s]%s}}`, nodesA, prefixes, link)))
		if err != nil {
			t.Fatal(err)
		}
		w.subnets[on] = s
	}
	for n := range w.counts {
		cluster := *b.s.Cluster(clusterA)
		cluster.Pools = slices.Clone(cluster.Pools)
		cluster.Pools[0].Count, w.counts[n] = n, &cluster
	}
	w.base, w.tables = b, map[smallTableKey]*inventory.RouteTable{}
	w.answers, w.again = map[smallQuestion]*smallAnswer{}, map[smallAgain]*smallAnswer{}
	w.start.machine = [smallMost]smallMachine{aMachine(0, 0), aMachine(1, 1)}
	return w
}

// stray reports whether a route leads out of the node subnets.
func (w *smallWorld) stray(r smallRow) bool {
	return w.outside && r.exists() && r.address() == smallMost-1
}

// prefixes are the numbers of the prefixes of a world.
func (w *smallWorld) prefixes() (all []int) {
	for c := range w.cidrs {
		if all = append(all, c); w.dual {
			all = append(all, smallMost+c)
		}
	}
	slices.Sort(all)
	return all
}

func (w *smallWorld) table(id arm.ID, rows smallTable) *inventory.RouteTable {
	key := smallTableKey{id, rows}
	if w.tables[key] == nil {
		routes := []string{"egress 0.0.0.0/0 10.1.0.4"}
		if id == gateway && (!rows[0].node() || rows[0].name() > 0) { // a pod route's name is taken
			routes[0] = smallName(0, aRow(0, 0)) + " 0.0.0.0/0 10.1.0.4"
		}
		for c, r := range rows {
			if r.exists() {
				routes = append(routes, smallRoute(c, r))
			}
		}
		scratch := &world{t: w.base.t, s: Facts{Snapshot: inventory.NewSnapshot()}}
		w.tables[key] = scratch.table(id, routes...).s.Table(id)
	}
	return w.tables[key]
}

// smallNow is when all checks take place; what is settled is older.
var smallNow = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// interfaces are the network interfaces that a read shows.
func (w *smallWorld) interfaces(s smallState, swapped bool, without int) *inventory.NICs {
	n := &inventory.NICs{Holder: map[netip.Addr]string{}, Nodes: map[netip.Addr]string{},
		Read: smallNow}
	if swapped {
		n.Read = smallNow.Add(-apart)
	}
	for i, m := range s.machine {
		if !m.exists() || i == without || s.off[i] {
			continue
		}
		at := m.address()
		if other := s.machine[max(0, 1-i)]; swapped && other.exists() {
			at = other.address()
		} else if swapped {
			at = (m.address() + 1) % smallMost
		}
		n.Holder[smallAddress[at]], n.Nodes[smallAddress[at]] = smallHolder(i), smallNode[i]
		if w.dual {
			n.Holder[smallAddress6[at]], n.Nodes[smallAddress6[at]] = smallHolder(i), smallNode[i]
		}
	}
	return n
}

func smallHolder(i int) string { return fmt.Sprintf("aks-pool0-1-vmss instance %d", i) }

// facts are what a check knows in a state before it reads network interfaces.
func (w *smallWorld) facts(s smallState) Facts {
	f := w.base.s.Fork()
	unread := func(id arm.ID, absent bool) {
		delete(f.Tables, id.Key())
		delete(f.Clusters, id.Key())
		delete(f.Subnets, id.Key())
		f.Unread[id.Key()] = inventory.Unread{ID: id,
			Status: map[bool]int{true: 404, false: 403}[absent], Absent: absent}
	}
	f.Tables[tableA.Key()] = w.table(tableA, s.own)
	for k := range w.targets {
		id := smallTargetIDs[k]
		if f.Tables[id.Key()] = w.table(id, s.target[k]); s.reads == readNoTarget {
			unread(id, false)
		}
	}
	if w.unnamed {
		f.Tables[copyOfA.Key()] = w.table(copyOfA, w.start.own)
	}
	n := 0
	for _, m := range s.machine {
		if m.exists() {
			n++
		}
	}
	f.Clusters[clusterA.Key()], f.Subnets[nodesA.Key()] = w.counts[n], w.subnets[s.on]
	switch {
	case s.deleted == deletedCluster:
		unread(clusterA, true)
		unread(tableA, true)
	case s.deleted == deletedTable:
		unread(tableA, true)
	case s.reads == readNoTable:
		unread(tableA, false)
	case s.reads == readNoCluster:
		unread(clusterA, false)
	case s.reads == readNoSubnet:
		unread(nodesA, false)
	}
	return f
}

// decide decides, and reads what the decision needs. Young are the interfaces that an earlier check
// read a moment ago, or nil.
func (w *smallWorld) decide(s smallState, f Facts, young *inventory.NICs) (Decision, Memory) {
	taken := TakenBy(w.base.configs)
	for {
		p, next := Decide(Observation{f.Snapshot, w.base.configs, taken, smallNow}, f.Memory)
		known := f.Learn(clusterA)
		if len(p.Need.Writers) > 0 && f.Writers[tableA.Key()].Line == "" {
			f.Writers[tableA.Key()] = []inventory.Writer{{Line: "ann", Names: []string{"ann"}},
				{Line: "the log could not be read", Failed: true},
				{Line: "earlier", Names: w.counts[0].Principals, At: smallNow.Add(-time.Hour),
					Asked: smallNow}}[s.number()%3]
			if s.memory&hasWritten > 0 {
				f.Writers[tableA.Key()] = inventory.Writer{Line: "it", At: smallNow,
					Names: w.counts[0].Principals}
			}
			continue
		}
		switch {
		case len(p.Need.NICs) == 0 || known.NICs != nil:
			return p, next
		case young != nil:
			m := f.Memory.Of(clusterA)
			m.NICs, m.Asked, young = young, map[netip.Addr]bool{}, nil
			for a := range smallMost {
				m.Asked[smallAddress[a]], m.Asked[smallAddress6[a]] = true, true
			}
			f.Memory[clusterA.Key()] = &m
		case s.reads == readRefused:
			known.NICs = &inventory.NICs{Failed: "403"}
		case s.reads == readPart:
			known.NICs = w.interfaces(s, false, s.first1())
		default:
			known.NICs = w.interfaces(s, false, -1)
		}
	}
}

// first1 is the machine that a partial read does not show.
func (s smallState) first1() int {
	return slices.IndexFunc(s.machine[:], smallMachine.exists)
}

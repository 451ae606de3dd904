package plan

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Every claim. How it works: a finding says something about the world. For each code that the small
// world can show, smallClaims says what must be so, by the machines and the rows of the tables
// themselves, as they were when they were read; for the lines that say which proof is missing,
// smallReasons does. A code or a line without a claim is a fault, too.

// smallClaim is a finding, and the world in which it was made. Target is the table that it is
// about, or the first one.
type smallClaim struct {
	finding.Finding
	judged
	target smallTable
	to     arm.ID
}

// wrongClaims returns what the findings of a plan say that is not so.
func (j judged) wrongClaims() (rules []string) {
	for _, found := range j.p.Findings {
		smallSaid.Store(found.Code, true)
		claim, known := smallClaims[found.Code]
		if !known {
			rules = append(rules, "true: no claim is stated for "+string(found.Code))
			continue
		}
		k := max(0, slices.Index(smallTargetIDs[:], arm.ID(found.Resource)))
		for _, wrong := range claim(smallClaim{found, j, j.s.target[k], smallTargetIDs[k]}) {
			rules = append(rules,
				fmt.Sprintf("true %s: %q %q: %s", found.Code, found.Message, found.Evidence, wrong))
		}
	}
	return rules
}

// smallSaid are the codes that occurred.
var smallSaid sync.Map

var smallClaims = map[finding.Code]func(smallClaim) []string{
	// The routes are in the target and stay; no row is the same; with all interfaces at hand, a
	// machine has each next hop.
	finding.DeletesWithheld: func(c smallClaim) (wrong []string) {
		for _, line := range c.Evidence {
			route, reason, _ := strings.Cut(line, ": ")
			cidr, r := c.stays(route)
			switch row := c.s.own[max(cidr, 0)]; {
			case cidr < 0:
				wrong = append(wrong, route+" does not stay")
			case row.exists() && row.address() == r.address() && (row.name() != byPerson ||
				!strings.Contains(c.Message, "that its cloud provider does not give")):
				wrong = append(wrong, "the cluster's table has "+route)
			case c.s.reads == readWhole && c.f.Known(clusterA).NICs != nil &&
				c.s.off == smallState{}.off && c.s.holder(r.hop(cidr)) < 0:
				wrong = append(wrong, "no machine has the next hop of "+route)
			}
			wrong = append(wrong, c.wrongReason(reason)...)
		}
		return append(wrong, c.counts(len(c.Evidence))...)
	},
	// The routes are in the target and stay; the row of the same prefix has the other next hop.
	finding.UpdatesWithheld: func(c smallClaim) (wrong []string) {
		for _, line := range c.Evidence {
			both, reason, _ := strings.Cut(line, ": ")
			route, now, _ := strings.Cut(both, ", to ")
			cidr, r := c.stays(route)
			row := c.s.own[max(cidr, 0)]
			if cidr < 0 || !row.exists() || row.address() == r.address() ||
				row.hop(cidr).String() != now {
				wrong = append(wrong, line)
			}
			wrong = append(wrong, c.wrongReason(reason)...)
		}
		return append(wrong, c.counts(len(c.Evidence))...)
	},
	// The rows are there, and the other machine has the address; the copies are there and stay; and
	// what is said of packets is so for each row.
	finding.WrongHop: func(c smallClaim) (wrong []string) {
		rows := 0
		for _, line := range c.Evidence {
			if m := smallBent.FindStringSubmatch(line); m != nil {
				rows++
				cidr, row := c.s.row(c.s.own, m[1])
				at := c.s.holder(row.hop(cidr))
				switch {
				case cidr < 0 || smallNode[row.name()] != m[2] || at < 0 || smallNode[at] != m[3]:
					wrong = append(wrong, line)
				case c.s.machine[at].cidr() == cidr &&
					!strings.HasSuffix(c.Message, "or a name is wrong"):
					wrong = append(wrong, "it delivers: "+line)
				}
			}
			if m := smallStays.FindStringSubmatch(line); m != nil {
				if strings.HasPrefix(line, "hub") {
					c.target, c.to = c.s.target[1], hub
				}
				cidr, r := c.stays(m[1])
				if cidr < 0 || c.s.own[cidr].address() == r.address() {
					wrong = append(wrong, line)
				}
			}
		}
		return append(wrong, c.counts(rows)...)
	},
	// A person's route is in the target and stays, and a row has its prefix and another next hop.
	finding.PrefixTaken: func(c smallClaim) (wrong []string) {
		for cidr, r := range c.target {
			row := c.s.own[cidr]
			if !r.exists() || !row.exists() || r.address() == row.address() {
				continue
			}
			if strings.HasPrefix(c.Message, fmt.Sprintf("%s already goes to %s by the unmanaged "+
				"route %s ", smallCIDR[cidr], r.hop(cidr), smallName(cidr, r))) &&
				(r.name() == byPerson || c.w.stray(r)) &&
				strings.Contains(c.Message, fmt.Sprintf("the pod route %s to %s is not added",
					smallName(cidr, row), row.hop(cidr))) {
				if at, _ := c.stays(smallLine(cidr, r)); at == cidr {
					return nil
				}
			}
		}
		return []string{"no such route"}
	},
	// A person's route is in the target and stays, and no row that the cloud provider wrote has its
	// prefix.
	finding.UnmanagedOverlap: func(c smallClaim) (wrong []string) {
		for cidr, r := range c.target {
			row := c.s.own[cidr]
			if (r.person() || c.w.stray(r)) && !row.node() &&
				strings.HasPrefix(c.Message, fmt.Sprintf("the unmanaged route %s in %s "+
					"sends %s to %s, ", smallName(cidr, r), c.to.Short(), smallCIDR[cidr],
					r.hop(cidr))) {
				if at, _ := c.stays(smallLine(cidr, r)); at == cidr {
					return nil
				}
			}
		}
		return []string{"no such route"}
	},
	// The rows are there, and no cloud provider gave their names; nothing makes such a route.
	finding.RouteInPodCIDR: func(c smallClaim) (wrong []string) {
		rows := 0
		for _, line := range c.Evidence[:len(c.Evidence)-1] {
			rows++
			cidr, row := c.s.row(c.s.own, line)
			if cidr < 0 || row.name() != byPerson {
				wrong = append(wrong, line)
			}
			for _, change := range c.p.Changes {
				if change.New != nil && strings.HasPrefix(line, change.New.String()+" ") {
					wrong = append(wrong, "it is copied: "+line)
				}
			}
		}
		return append(wrong, c.counts(rows)...)
	},
	// The machines are there with these addresses, and no row of a node leads to them; the count
	// is that of the machines that one leads to.
	finding.NodeWithoutRoute: func(c smallClaim) []string { return c.unrouted(false) },
	finding.RouteHalf:        func(c smallClaim) []string { return c.unrouted(true) },
	// No row of the cloud provider's, or none at all, delivers to any machine.
	finding.SourceEmpty: func(c smallClaim) (wrong []string) {
		for cidr, row := range c.s.own {
			all := !strings.Contains(c.Message, "that its cloud provider wrote")
			if row.exists() &&
				(row.name() != byPerson || all && c.s.delivers(cidr, row.hop(cidr))) {
				wrong = append(wrong, "it has "+smallRoute(cidr, row))
			}
		}
		return wrong
	},
	finding.ReadFailed: func(c smallClaim) []string {
		return unless(c.f.Unread[arm.ID(c.Resource).Key()].Status == 403, "it was read")
	},
	finding.ClusterMissing: func(c smallClaim) []string {
		return unless(c.s.deleted == deletedCluster, "it is there")
	},
	finding.TableMissing: func(c smallClaim) []string {
		return unless(c.s.deleted == deletedTable && c.Resource == string(tableA), "it is there")
	},
	// The routes are in the target and stay, and no row is the same.
	finding.StaleKept: func(c smallClaim) (wrong []string) {
		for _, line := range c.Evidence {
			cidr, r := c.stays(line)
			if cidr < 0 || c.s.own[cidr].node() && c.s.own[cidr].address() == r.address() {
				wrong = append(wrong, line)
			}
		}
		return append(wrong, c.counts(len(c.Evidence))...)
	},
	// The target has as many routes as it may, and so many pod CIDRs with a row have none.
	finding.TargetFull: func(c smallClaim) []string {
		table, missing := c.p.Desired.Table(c.to), 0
		for cidr, row := range c.s.own {
			if row.node() && !slices.ContainsFunc(table.Routes, func(r inventory.Route) bool {
				return r.Prefix == smallCIDR[cidr]
			}) {
				missing++
			}
		}
		return unless(len(table.Routes) >= c.w.room && missing > 0 && strings.Contains(c.Message,
			fmt.Sprintf("full: %s for", finding.Count(missing, "route"))), "it has room")
	},
	finding.AssociationLost: func(c smallClaim) []string {
		return unless(c.s.on == hasNone, "the subnet has a table")
	},
	finding.AssociationOther: func(c smallClaim) []string {
		return unless(c.s.on == hasCopy, "the subnet does not have the copy")
	},
	// The node subnet does not have the cluster's table, or nothing shows who wrote it.
	finding.TableUnknown: func(c smallClaim) []string {
		return unless(c.s.on != hasOwn || c.s.deleted == deletedTable ||
			len(c.f.Known(clusterA).Written) == 0, "the cluster wrote it, and the subnet has it")
	},
}

func unless(so bool, wrong string) []string {
	if so {
		return nil
	}
	return []string{wrong}
}

// unrouted returns what is wrong in a finding about nodes without a route: the machines are there
// with these addresses, and no row of a node leads to them; the count is that of the machines that
// one leads to. Half is set if a row of one family leads to them.
func (c smallClaim) unrouted(half bool) (wrong []string) {
	machines, led, without := 0, 0, map[int]bool{}
	for i, m := range c.s.machine {
		if !m.exists() {
			continue
		}
		machines++
		has := map[bool]bool{}
		for p, row := range c.s.own {
			if row.node() && row.address() == m.address() {
				has[p < smallMost] = true
			}
		}
		families := map[bool]int{false: 1, true: 2}[c.w.dual]
		if without[i] = len(has) < families && (len(has) > 0) == half; len(has) == families {
			led++
		}
	}
	named := 0
	for _, line := range c.Evidence {
		m := smallWithout.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		named++
		at := c.s.holder(netip.MustParseAddr(m[2]))
		if at < 0 || !without[at] || smallHolder(at) != m[1] {
			wrong = append(wrong, line)
		}
		if m[3] != "" && at >= 0 {
			for p, row := range c.s.own {
				if row.node() && row.name() == at && row.hop(p).String() == m[3] {
					m[3] = ""
				}
			}
			wrong = append(wrong, unless(m[3] == "", "its route does not lead there: "+line)...)
		}
	}
	var least, nodes, most int
	if m := smallNodes.FindStringSubmatch(c.Message); m != nil {
		nodes, _ = strconv.Atoi(m[1])
		most, _ = strconv.Atoi(m[2])
	}
	if nodes != machines || led > most {
		wrong = append(wrong, fmt.Sprintf("%d of %d have a route", led, machines))
	}
	if _, err := fmt.Sscanf(c.Message, "at least %d", &least); err == nil {
		return append(wrong,
			unless(machines-led >= least, fmt.Sprintf("%d have none", machines-led))...)
	}
	return append(wrong, c.counts(named)...)
}

var (
	smallBent = regexp.MustCompile(`^(.*) is named after node (\S+), but \S+ belongs to node ` +
		`(\S+) \(.*\)$`)
	smallStays   = regexp.MustCompile(`^(?:gw|hub)-rt: (.*) stays$`)
	smallWithout = regexp.MustCompile(`^(.*) \((\S+)\): IPv[46](?:, IPv6)?(?:; its route leads to (\S+))?$`)
	smallNodes   = regexp.MustCompile(`: (\d+) nodes?, but (?:no pod route|pod routes to at most (\d+))$`)
	smallCount   = regexp.MustCompile(`^(\d+) `)
)

// smallReasons are the lines that say which proof is missing, and what must be so.
var smallReasons = []struct {
	text *regexp.Regexp
	so   func(c smallClaim, m []string) bool
}{
	{regexp.MustCompile(`^(\S+) belongs to (.*?)(?:, node (\S+))?$`),
		func(c smallClaim, m []string) bool {
			for at, i := range c.known() {
				if at.String() == m[1] {
					return smallHolder(i) == m[2] && (m[3] == "" || m[3] == smallNode[i])
				}
			}
			return false
		}},
	{regexp.MustCompile(`^no network interface (.*) has (\S+)$`),
		func(c smallClaim, m []string) bool {
			_, there := c.known()[netip.MustParseAddr(m[2])]
			return !there
		}},
	{regexp.MustCompile(`^not all network interfaces of the nodes were seen: pool pool0 has (\d+) ` +
		`nodes?, but (IPv4|IPv6) addresses of only (\d+) were seen$`), func(c smallClaim, m []string) bool {
		n, seen := 0, 0
		for _, machine := range c.s.machine {
			if machine.exists() {
				n++
			}
		}
		for at := range c.known() {
			if at.Is4() == (m[2] == "IPv4") {
				seen++
			}
		}
		return seen < n && m[1] == fmt.Sprint(n) && m[3] == fmt.Sprint(seen)
	}},
	{regexp.MustCompile(`^the network interfaces of the nodes could not be read: 403$`),
		func(c smallClaim, _ []string) bool { return c.s.reads == readRefused }},
	{regexp.MustCompile(`^the node at (\S+) may send its packets on by (.*) in shop-rt(?:-copy)?$`),
		func(c smallClaim, m []string) bool {
			cidr, _ := c.s.row(c.s.nodes(c.w), m[2])
			return cidr >= 0 && c.s.holder(netip.MustParseAddr(m[1])) >= 0
		}},
	{regexp.MustCompile(`^the activity log does not show that the cluster was the last to write ` +
		`(\S+) in the route table of cluster \S+: .*$`), func(c smallClaim, m []string) bool {
		last := c.f.Writers[tableA.Key()]
		return last.Line == "earlier" || !slices.Equal(last.Names, c.f.Cluster(clusterA).Principals)
	}},
	{regexp.MustCompile(`^what was read of the route table of cluster \S+ is older than its last ` +
		`write: .*$`), func(c smallClaim, _ []string) bool { return c.s.behind }},
}

// wrongReason returns a reason for which no proof was found, if it is not so.
func (c smallClaim) wrongReason(reason string) []string {
	if n := c.f.Known(clusterA).NICs; n != nil && n.Failed != "" &&
		strings.Contains(reason, "seen") {
		return []string{"it does not say why: " + reason}
	}
	for _, known := range smallReasons {
		if m := known.text.FindStringSubmatch(reason); m != nil {
			if known.so(c, m) {
				return nil
			}
			return []string{"not so: " + reason}
		}
	}
	return []string{"no claim is stated for: " + reason}
}

// counts returns the number at the head of a message if it is another.
func (c smallClaim) counts(n int) []string {
	if m := smallCount.FindStringSubmatch(c.Message); m != nil && m[1] != fmt.Sprint(n) {
		return []string{fmt.Sprintf("there are %d", n)}
	}
	return nil
}

// known returns the machines by address, as this check or an earlier one read them.
func (c smallClaim) known() map[netip.Addr]int {
	at := map[netip.Addr]int{}
	for address, holder := range c.f.addresses(clusterA).Holder {
		for i := range c.s.machine {
			if holder == smallHolder(i) {
				at[address] = i
			}
		}
	}
	return at
}

// holder returns the machine that has an address, or -1.
func (s smallState) holder(at netip.Addr) int {
	return slices.IndexFunc(s.machine[:], func(m smallMachine) bool {
		return m.exists() && (smallAddress[m.address()] == at || smallAddress6[m.address()] == at)
	})
}

// smallLine writes a row as findings do.
func smallLine(cidr int, r smallRow) string {
	return fmt.Sprintf("%s to %s (%s)", smallCIDR[cidr], r.hop(cidr), smallName(cidr, r))
}

func smallName(cidr int, r smallRow) string {
	name, _, _ := strings.Cut(smallRoute(cidr, r), " ")
	return name
}

// row finds the row that a finding shows; -1 if there is none.
func (s smallState) row(rows smallTable, line string) (cidr int, r smallRow) {
	for cidr, r := range rows {
		if r.exists() && smallLine(cidr, r) == line {
			return cidr, r
		}
	}
	return -1, 1
}

// stays finds the route of the target that a finding shows, if the plan leaves it as it is; -1 if
// not.
func (c smallClaim) stays(line string) (cidr int, r smallRow) {
	cidr, r = c.s.row(c.target, line)
	if cidr < 0 || !slices.ContainsFunc(c.p.Desired.Table(c.to).Routes,
		func(now inventory.Route) bool { return routeLine(now) == line }) {
		return -1, 1
	}
	return cidr, r
}

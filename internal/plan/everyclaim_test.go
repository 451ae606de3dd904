package plan

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Every claim. How it works: a finding says something about the world. For each code that the small
// world can show, smallClaims says what must be so, by the machines and the rows of the tables
// themselves, as they were when they were read; for the lines that say which proof is missing,
// smallReasons does. A code or a line without a claim is a fault, too.

// smallClaim is a finding, and the world in which it was made.
type smallClaim struct {
	finding.Finding
	s smallState // the world that was read
	f Facts
	p Plan
}

// wrongClaims returns what the findings of a plan say that is not so.
func (s smallState) wrongClaims(f Facts, p Plan) (rules []string) {
	for _, found := range p.Findings {
		smallSaid.Store(found.Code, true)
		claim, known := smallClaims[found.Code]
		if !known {
			rules = append(rules, "true: no claim is stated for "+string(found.Code))
			continue
		}
		for _, wrong := range claim(smallClaim{found, s, f, p}) {
			rules = append(rules, fmt.Sprintf("true %s: %q %q: %s", found.Code, found.Message,
				found.Evidence, wrong))
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
			cidr, r := c.s.stays(c.p, route)
			switch row := c.s.own[max(cidr, 0)]; {
			case cidr < 0:
				wrong = append(wrong, route+" does not stay")
			case row.exists() && row.address() == r.address() && (row.name() != byPerson ||
				!strings.Contains(c.Message, "that its cloud provider does not give")):
				wrong = append(wrong, "the cluster's table has "+route)
			case c.s.reads == readWhole && c.s.holder(smallAddress[r.address()]) < 0:
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
			cidr, r := c.s.stays(c.p, route)
			row := c.s.own[max(cidr, 0)]
			if cidr < 0 || !row.exists() || row.address() == r.address() ||
				smallAddress[row.address()].String() != now {
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
				at := c.s.holder(smallAddress[row.address()])
				switch {
				case cidr < 0 || smallNode[row.name()] != m[2] || at < 0 || smallNode[at] != m[3]:
					wrong = append(wrong, line)
				case c.s.machine[at].cidr() == cidr && !strings.HasSuffix(c.Message,
					"or a name is wrong"):
					wrong = append(wrong, "it delivers: "+line)
				}
			}
			if m := smallStays.FindStringSubmatch(line); m != nil {
				cidr, r := c.s.stays(c.p, m[1])
				if cidr < 0 || c.s.own[cidr].address() == r.address() {
					wrong = append(wrong, line)
				}
			}
		}
		return append(wrong, c.counts(rows)...)
	},
	// A person's route is in the target and stays, and a row has its prefix and another next hop.
	finding.PrefixTaken: func(c smallClaim) (wrong []string) {
		for cidr, r := range c.s.target {
			row := c.s.own[cidr]
			if !r.exists() || !row.exists() {
				continue
			}
			if strings.HasPrefix(c.Message, fmt.Sprintf("%s already goes to %s by the unmanaged "+
				"route %s ", smallCIDR[cidr], smallAddress[r.address()], smallName(cidr, r))) &&
				r.name() == byPerson &&
				strings.Contains(c.Message, fmt.Sprintf("the pod route %s to %s is not added",
					smallName(cidr, row), smallAddress[row.address()])) {
				if at, _ := c.s.stays(c.p, smallLine(cidr, r)); at == cidr {
					return nil
				}
			}
		}
		return []string{"no such route"}
	},
	// A person's route is in the target and stays, and no row that the cloud provider wrote has its
	// prefix.
	finding.UnmanagedOverlap: func(c smallClaim) (wrong []string) {
		for cidr, r := range c.s.target {
			row := c.s.own[cidr]
			if r.exists() && r.name() == byPerson && (!row.exists() || row.name() == byPerson) &&
				strings.HasPrefix(c.Message, fmt.Sprintf("the unmanaged route %s in gw-rt "+
					"sends %s to %s, ", smallName(cidr, r), smallCIDR[cidr],
					smallAddress[r.address()])) {
				if at, _ := c.s.stays(c.p, smallLine(cidr, r)); at == cidr {
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
	finding.NodeWithoutRoute: func(c smallClaim) (wrong []string) {
		led, machines, without := 0, 0, map[int]bool{}
		for i, m := range c.s.machine {
			if !m.exists() {
				continue
			}
			machines++
			without[i] = true
			for _, row := range c.s.own {
				if row.exists() && row.name() != byPerson && row.address() == m.address() {
					without[i] = false
				}
			}
			if !without[i] {
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
			i := slices.IndexFunc(smallAddress[:], func(a netip.Addr) bool {
				return a.String() == m[2]
			})
			at := -1
			if i >= 0 {
				at = c.s.holder(smallAddress[i])
			}
			if at < 0 || !without[at] || smallHolder(at) != m[1] {
				wrong = append(wrong, line)
			}
			if m[3] != "" && !slices.ContainsFunc(c.s.own[:], func(row smallRow) bool {
				return row.exists() && at >= 0 && row.name() == at &&
					smallAddress[row.address()].String() == m[3]
			}) {
				wrong = append(wrong, "its route does not lead there: "+line)
			}
		}
		var least, nodes, most int
		if m := smallMost.FindStringSubmatch(c.Message); m != nil {
			nodes, _ = strconv.Atoi(m[1])
			most, _ = strconv.Atoi(m[2])
		}
		if nodes != machines || led > most {
			wrong = append(wrong, fmt.Sprintf("%d of %d have a route", led, machines))
		}
		if _, err := fmt.Sscanf(c.Message, "at least %d", &least); err == nil {
			if machines-led < least {
				wrong = append(wrong, fmt.Sprintf("%d have none", machines-led))
			}
			return wrong
		}
		return append(wrong, c.counts(named)...)
	},
	// No row of the cloud provider's, or none at all, delivers to any machine.
	finding.SourceEmpty: func(c smallClaim) (wrong []string) {
		for cidr, row := range c.s.own {
			all := !strings.Contains(c.Message, "that its cloud provider wrote")
			if row.exists() && (row.name() != byPerson || all &&
				c.s.delivers(cidr, smallAddress[row.address()])) {
				wrong = append(wrong, "it has "+smallRoute(cidr, row))
			}
		}
		return wrong
	},
	finding.ReadFailed: func(c smallClaim) []string {
		if c.s.reads != readNoTable || c.Resource != string(tableA) {
			return []string{"it was read"}
		}
		return nil
	},
}

var (
	smallBent = regexp.MustCompile(`^(.*) is named after node (\S+), but \S+ belongs to node ` +
		`(\S+) \(.*\)$`)
	smallStays   = regexp.MustCompile(`^gw-rt: (.*) stays$`)
	smallWithout = regexp.MustCompile(`^(.*) \((\S+)\): IPv4(?:; its route leads to (\S+))?$`)
	smallMost    = regexp.MustCompile(`: (\d+) nodes?, but pod routes to at most (\d+)$`)
	smallCount   = regexp.MustCompile(`^(\d+) `)
)

// smallReasons are the lines that say which proof is missing, and what must be so.
var smallReasons = []struct {
	text *regexp.Regexp
	so   func(c smallClaim, m []string) bool
}{
	{regexp.MustCompile(`^(\S+) belongs to (.*?)(?:, node (\S+))?$`), func(c smallClaim,
		m []string) bool {
		for at, i := range c.known() {
			if at.String() == m[1] {
				return smallHolder(i) == m[2] && (m[3] == "" || m[3] == smallNode[i])
			}
		}
		return false
	}},
	{regexp.MustCompile(`^no network interface (.*) has (\S+)$`), func(c smallClaim,
		m []string) bool {
		for at, i := range c.known() {
			hidden := m[1] == "that was seen" && c.s.reads == readPart && i == c.s.first1()
			if at.String() == m[2] && !hidden {
				return false
			}
		}
		return true
	}},
	{regexp.MustCompile(`^not all network interfaces of the nodes were seen: pool pool0 has (\d+) ` +
		`nodes?, but IPv4 addresses of only (\d+) were seen$`), func(c smallClaim, m []string) bool {
		n := len(c.s.interfaces(false, -1).Holder)
		return m[1] == fmt.Sprint(n) && (c.s.reads == readPart && m[2] == fmt.Sprint(n-1))
	}},
	{regexp.MustCompile(`^the network interfaces of the nodes could not be read: 403$`),
		func(c smallClaim, _ []string) bool { return c.s.reads == readRefused }},
	{regexp.MustCompile(`^node (\S+) exists, and has (\S+)$`), func(c smallClaim,
		m []string) bool {
		for at, i := range c.known() {
			if at.String() == m[2] {
				return m[1] == smallNode[i]
			}
		}
		return false
	}},
	{regexp.MustCompile(`^(\S+) is new in the route table of cluster \S+$`), func(c smallClaim,
		m []string) bool {
		_, settled := c.f.Memory.Of(clusterA).Settled[netip.MustParsePrefix(m[1])]
		return !settled
	}},
	{regexp.MustCompile(`^the activity log does not show that the cluster was the last to write ` +
		`(\S+) in the route table of cluster \S+: .*$`), func(c smallClaim, m []string) bool {
		last := c.f.Writers[tableA.Key()]
		return last.Line == "earlier" ||
			!slices.Equal(last.Names, c.f.Cluster(clusterA).Principals)
	}},
	{regexp.MustCompile(`^the log could not be read$`), func(c smallClaim, _ []string) bool {
		return c.f.Writers[tableA.Key()].Failed
	}},
}

// wrongReason returns a reason for which no proof was found, if it is not so.
func (c smallClaim) wrongReason(reason string) []string {
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

// known returns the machines by address, as the check knew them: as they are, or as an earlier
// check read them.
func (c smallClaim) known() map[netip.Addr]int {
	at := map[netip.Addr]int{}
	before := c.s.reads == readBefore && c.f.Known(clusterA).NICs == nil
	for address, holder := range c.s.interfaces(before, -1).Holder {
		for i := range c.s.machine {
			if holder == smallHolder(i) {
				at[address] = i
			}
		}
	}
	return at
}

// first1 is the machine that a partial read does not show.
func (s smallState) first1() int {
	if s.machine[0].exists() {
		return 0
	}
	return 1
}

// holder returns the machine that has an address, or -1.
func (s smallState) holder(at netip.Addr) int {
	return slices.IndexFunc(s.machine[:], func(m smallMachine) bool {
		return m.exists() && smallAddress[m.address()] == at
	})
}

func smallHolder(i int) string { return fmt.Sprintf("aks-pool0-1-vmss instance %d", i) }

// smallLine writes a row as findings do.
func smallLine(cidr int, r smallRow) string {
	return fmt.Sprintf("%s to %s (%s)", smallCIDR[cidr], smallAddress[r.address()],
		smallName(cidr, r))
}

func smallName(cidr int, r smallRow) string {
	name, _, _ := strings.Cut(smallRoute(cidr, r), " ")
	return name
}

// row finds the row that a finding shows; -1 if there is none.
func (s smallState) row(rows [2]smallRow, line string) (cidr int, r smallRow) {
	for cidr, r := range rows {
		if r.exists() && smallLine(cidr, r) == line {
			return cidr, r
		}
	}
	return -1, 1
}

// stays finds the route of the target that a finding shows, if the plan leaves it as it is; -1 if
// not.
func (s smallState) stays(p Plan, line string) (cidr int, r smallRow) {
	cidr, r = s.row(s.target, line)
	if cidr < 0 || !slices.ContainsFunc(p.Desired.Table(gateway).Routes,
		func(now inventory.Route) bool { return routeLine(now) == line }) {
		return -1, 1
	}
	return cidr, r
}

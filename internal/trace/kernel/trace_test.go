//go:build linux

package kernel

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// on the internet
var outside = []netip.Addr{netip.MustParseAddr("20.1.2.3"), netip.MustParseAddr("2a00::1")}

// TestTrace sends packets through random networks: trace must say what becomes of each.
// ROUTEKEEPER_PAIRS is how many, ROUTEKEEPER_SEED the first network.
func TestTrace(t *testing.T) {
	need(t)
	pairs, seed := 10000, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("ROUTEKEEPER_PAIRS")); err == nil {
		pairs = n
	}
	if n, err := strconv.ParseUint(os.Getenv("ROUTEKEEPER_SEED"), 10, 64); err == nil {
		seed = n
	}
	const each = 250
	var lock sync.Mutex
	count, kinds := map[string]int{}, map[string]int{}
	var workers sync.WaitGroup
	seeds := make(chan uint64)
	for range runtime.NumCPU() {
		workers.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			for seed := range seeds {
				differ, counted := judge(seed, each)
				lock.Lock()
				for kind, n := range counted {
					count[kind] += n
				}
				for _, d := range differ {
					kind, _, _ := strings.Cut(d, ":")
					if kinds[kind]++; kinds[kind] <= 2 {
						t.Errorf("network %d: %s", seed, d)
					}
				}
				lock.Unlock()
			}
		})
	}
	start := time.Now()
	for i := range (pairs + each - 1) / each {
		seeds <- seed + uint64(i)
	}
	close(seeds)
	workers.Wait()
	t.Logf("%v in %s; differences: %v", count, time.Since(start).Round(time.Second), kinds)
}

// judge sends packets in a network and compares.
func judge(seed uint64, pairs int) (differ []string, count map[string]int) {
	defer func() {
		if err := recover(); err != nil {
			panic(fmt.Sprintf("network %d: %v", seed, err))
		}
	}()
	w := newWorld(seed)
	n := build(w.s)
	defer n.close()
	t := n.traffic()
	defer t.close()
	random := rand.New(rand.NewPCG(seed, 30))
	var packets []packet
	for len(packets) < pairs {
		p := packet{from: n.ends[random.IntN(len(n.ends))], to: n.ends[random.IntN(len(n.ends))],
			protocol: []string{"tcp", "udp"}[random.IntN(2)],
			port:     ports[random.IntN(len(ports))]}
		if random.IntN(6) == 0 {
			p.to = end{space: n.internet, addr: outside[b2i(p.from.addr.Is6())]}
			if random.IntN(4) == 0 && p.to.addr.Is4() {
				p.protocol, p.port = "icmp", 0
			}
		}
		if p.from.addr.Is4() == p.to.addr.Is4() && p.from.addr != p.to.addr &&
			!p.from.machine.firewall && (p.to.machine == nil || !p.to.machine.firewall) {
			packets = append(packets, p)
		}
	}
	count = map[string]int{}
	t.declare(random, packets)
	return t.referee(t.sendAll(packets), count), count
}

// declared is what subnets must have, and by which links packets would leave if these had it, and
// if they had no table at all.
type declared struct {
	must        map[string]trace.Declared
	first, bare map[packet]int
}

// declare makes up what subnets must have, and sends their packets by that.
func (t *traffic) declare(random *rand.Rand, packets []packet) {
	d := &t.declared
	d.must = map[string]trace.Declared{}
	tables := slices.Sorted(maps.Keys(t.n.s.Tables))
	for _, key := range slices.Sorted(maps.Keys(t.n.s.Subnets)) {
		if random.IntN(3) > 0 || len(tables) == 0 {
			continue
		}
		table := t.n.s.Tables[tables[random.IntN(len(tables))]]
		must := trace.Declared{Table: table.ID}
		if random.IntN(2) == 0 {
			must.NATGateway = resource("natGateways", "must")
		}
		for _, r := range table.Routes() {
			if r.HopType == inventory.HopAppliance && random.IntN(4) == 0 {
				must.Table, must.Egress = "", []trace.Route{{Prefix: everything[b2i(r.Hop.Is6())],
					Source: trace.User, HopType: r.HopType, Hop: r.Hop}}
			}
		}
		d.must[key] = must
	}
	packets = slices.DeleteFunc(slices.Clone(packets), func(p packet) bool {
		_, is := d.must[p.from.machine.subnet.ID.Key()]
		return !is
	})
	had := map[string]arm.ID{}
	try := func(with func(subnet *inventory.Subnet, must trace.Declared)) map[packet]int {
		for key, must := range d.must {
			with(t.n.s.Subnets[key], must)
		}
		t.n.rewire()
		links := map[packet]int{}
		for _, r := range t.sendAll(packets) {
			links[r.packet] = r.there.first()
		}
		return links
	}
	d.bare = try(func(subnet *inventory.Subnet, _ trace.Declared) {
		had[subnet.ID.Key()], subnet.RouteTable = subnet.RouteTable, ""
	})
	d.first = try(func(subnet *inventory.Subnet, must trace.Declared) {
		if subnet.RouteTable = must.Table; must.Table != "" {
			return
		}
		var routes []inventory.Route
		if now := t.n.s.Table(had[subnet.ID.Key()]); now != nil {
			routes = slices.DeleteFunc(slices.Clone(now.Routes()), func(r inventory.Route) bool {
				return r.Prefix == must.Egress[0].Prefix
			})
		}
		subnet.RouteTable = resource("routeTables", "must-", subnet.ID.Parent().Name(), "-",
			subnet.ID.Name())
		t.n.s.Tables[subnet.RouteTable.Key()] = (&inventory.RouteTable{Document: arm.Document{
			ID: subnet.RouteTable}}).WithRoutes(append(routes, inventory.Route{Name: "must",
			Prefix: must.Egress[0].Prefix, HopType: inventory.HopAppliance,
			Hop: must.Egress[0].Hop}))
	})
	for key, table := range had {
		t.n.s.Subnets[key].RouteTable = table
	}
	t.n.rewire()
}

// first is the link by which a packet first leaves the fabric, or 0.
func (w *way) first() int {
	for _, e := range w.events {
		if e.out {
			return e.link
		}
	}
	return 0
}

// bypassed compares what a packet is said to bypass with the links that it takes.
func (t *traffic) bypassed(say trace.Way, r *sent) bool {
	must, declared := t.declared.must[r.from.machine.subnet.ID.Key()]
	first, exit := r.there.first(), t.exit(event{link: r.there.first(), out: true})
	should, bare := t.declared.first[r.packet], t.declared.bare[r.packet]
	switch {
	case say.Verdict != trace.Delivered && say.Verdict != trace.Leaves:
		return true
	case strings.HasPrefix(say.Bypasses, "the declared route "):
		return declared && first != should
	case strings.HasPrefix(say.Bypasses, "the declared NAT gateway "):
		return r.from.addr.Is4() && exit != "" && exit != "NAT gateway "+must.NATGateway.Name()
	case say.Bypasses != "": // what the cluster's outboundType calls for
		return exit != "" && (exit != "IPv6" || strings.Contains(say.Bypasses, "firewall"))
	case !declared:
		return true
	}
	if exit != "" && r.from.addr.Is4() && must.NATGateway != "" &&
		exit != "NAT gateway "+must.NATGateway.Name() {
		return false
	}
	// Where the declared routes change nothing, the system's decide; routes to the internet
	// declare no hop.
	return first == should || should == bare || t.names[should] == noexit ||
		t.exit(event{link: should, out: true}) != ""
}

// referee compares the outcome of packets with what trace says, and counts what it says.
func (t *traffic) referee(all []sent, count map[string]int) (differ []string) {
	tracers := map[string]*trace.Tracer{}
	for _, r := range all {
		key := fmt.Sprint(r.protocol, r.port)
		if tracers[key] == nil {
			tracers[key] = trace.New(t.n.s, trace.Options{Protocol: r.protocol, Port: r.port,
				Declared: t.declared.must})
		}
		there, back := tracers[key].Ways(endpoint(r.from), endpoint(r.to))
		if count[string(there.Verdict)]++; there.Bypasses != "" {
			what, _, _ := strings.Cut(strings.TrimPrefix(there.Bypasses, "the "), " that")
			count["bypasses "+strings.Join(strings.Fields(what)[:2], " ")]++
		}
		say := func(kind, format string, args ...any) {
			differ = append(differ, fmt.Sprintf("%s: %s %s %d to %s: %s\ntrace: %+v\nand: %+v\n"+
				"kernel: %s\nand: %s", kind, r.protocol, r.from.addr, r.port, r.to.addr,
				fmt.Sprintf(format, args...), there, back, t.tell(&r.there), t.tell(&r.back)))
		}
		if r.lost {
			say("lost", "the kernel does not show where it is")
			continue
		}
		if kind := t.compare(there, &r.there, r.source); kind != "" {
			say(kind, "it goes")
		} else if !t.bypassed(there, &r) {
			say("bypass", "%s, by declared routes %s, without any %s", t.name(r.there.first()),
				t.name(t.declared.first[r.packet]), t.name(t.declared.bare[r.packet]))
		} else if there.Verdict == trace.Delivered && (t.ends(&r.back) != "peering" ||
			back.Verdict != trace.Dropped) {
			// Whether peerings ask about answers is not documented, so trace doubts, and goes on.
			count["answer "+string(back.Verdict)]++
			if kind := t.compare(back, &r.back, back.Source); kind != "" {
				say("answer "+kind, "it comes back")
			}
		}
	}
	return differ
}

// sendAll sends packets, and sends lost ones again. Linux has short queues. And a node's NAT gives
// packets that loop random ports: if one of them is the port of another packet, that packet gets a
// new port, and find does not know it. Sent again, each has another port.
func (t *traffic) sendAll(packets []packet) []sent {
	results := t.send(packets)
	for range 3 {
		var again []packet
		for _, r := range results {
			if r.lost {
				again = append(again, r.packet)
			}
		}
		if len(again) == 0 {
			break
		}
		results = slices.DeleteFunc(results, func(r sent) bool { return r.lost })
		results = append(results, t.send(again)...)
	}
	return results
}

func endpoint(e end) trace.Endpoint {
	switch {
	case e.machine == nil:
		return trace.Endpoint{Addr: e.addr}
	case e.pod && !e.machine.cluster.PodsInSubnets():
		return trace.Endpoint{Addr: e.addr, Cluster: e.machine.cluster.ID}
	}
	return trace.Endpoint{Addr: e.addr, Subnet: e.machine.subnet.ID}
}

// reasons are words of trace's reasons, and what the kernel must show.
var reasons = map[string][]string{
	"no better route to":            {none},
	"no route of subnet":            {noroute},
	"IP forwarding is off":          {"IP forwarding is off"},
	"does not allow forwarded":      {"peering"},
	"nothing gives it a public":     {noexit},
	"only takes TCP and UDP":        {"no ping"},
	"no subnet of the network has":  {nohost},
	"is in no network that":         {nohost},
	"is unused":                     {nohost},
	"next hop is where it comes":    {returned, loops},
	"the packet loops":              {loops, returned},
	"and the pod is not there":      {astray, noexit},
	", and not in ":                 {astray, nohost},
	"the virtual network gateway d": {vgw},
}

// compare says how trace and kernel differ about a way, in a word; "" if they agree.
func (t *traffic) compare(say trace.Way, w *way, source netip.Addr) string {
	end := t.ends(w)
	if w.arrived {
		end = "delivered"
	}
	var last event
	if len(w.events) > 0 {
		last = w.events[len(w.events)-1]
	}
	switch say.Verdict {
	case trace.Unknown:
		return ""
	case trace.Delivered:
		if !w.arrived {
			return "not delivered"
		}
		if !source.IsValid() && len(w.events) > 0 {
			source = last.from // the connection was not accepted, because its answer got lost
		}
		if source.IsValid() && source != say.Source {
			return "other source"
		}
	case trace.Dropped:
		if w.arrived {
			return "delivered"
		}
		if kind := t.dropped(say, w, end); kind != "" {
			return kind
		}
	case trace.Leaves:
		why := strings.TrimPrefix(say.Why, "bypasses "+say.Bypasses+"; ")
		switch {
		case strings.Contains(why, "goes out to the internet"):
			if t.exit(last) == "" {
				return "not to the internet"
			}
			if say.Exit != "" && t.exit(last) != say.Exit {
				return "other exit"
			}
		case strings.Contains(why, "gateway decides"):
			if end != vgw {
				return "not to the gateway"
			}
		default:
			hop, _, _ := strings.Cut(why, " ")
			if !slices.ContainsFunc(w.events, func(e event) bool {
				m := t.links[e.link]
				return e.out && m != nil && slices.Contains(m.addresses, netip.MustParseAddr(hop))
			}) {
				return "not to the appliance"
			}
		}
	}
	return t.where(say, w)
}

// dropped compares where and why a packet was dropped.
func (t *traffic) dropped(say trace.Way, w *way, end string) string {
	if _, after, is := strings.Cut(say.Why, "network security group "); is {
		var ruling trace.Ruling
		doubt := false
		for _, h := range say.Hops {
			for _, f := range h.Filters {
				ruling = f
				doubt = doubt || f.Decision == trace.Depends || f.Decision == trace.Undecided
			}
		}
		// A group before it may drop it as well, by a rule that is in doubt.
		named, _, _ := strings.Cut(end, ": ")
		for _, g := range t.n.s.SecurityGroups {
			if w.at != nil && g.ID.Name() == named && g.ID.Equal(w.at.subnet.SecurityGroup) {
				doubt = doubt || trace.FiltersOf(t.n.s, w.at.subnet.ID, nil).Judge(g, trace.Packet{
					From: say.Source, To: say.To}, true).Decision == trace.Undecided
			}
		}
		if !doubt && end != fmt.Sprintf("%s: %s, inbound %t", ruling.Group.Name(), ruling.Rule,
			ruling.Inbound) || !strings.HasPrefix(after, ruling.Group.Name()) {
			return "other rule"
		}
		return ""
	}
	if w.dropped != "" && w.at != nil && t.where(say, w) == "" && (len(w.events) == 0 ||
		t.links[w.events[len(w.events)-1].link] == w.at) {
		// The interface that drops it is the one where trace sees another cause first. Which of
		// them comes first is not documented.
		return ""
	}
	for _, words := range slices.Sorted(maps.Keys(reasons)) {
		if strings.Contains(say.Why, words) {
			if !slices.Contains(reasons[words], end) {
				return "other reason"
			}
			return ""
		}
	}
	return "unknown reason"
}

// where compares the interfaces by which the packet left.
func (t *traffic) where(say trace.Way, w *way) string {
	var ours, theirs []string
	for _, h := range say.Hops {
		if a, _, is := strings.Cut(h.At, " in "); is {
			ours = append(ours, a)
		}
	}
	for _, e := range w.events {
		if m := t.links[e.link]; !e.out && m != nil {
			theirs = append(theirs, " "+strings.Trim(fmt.Sprint(m.wires()), "[]")+" ")
		}
	}
	for i := range min(len(ours), len(theirs)) {
		if !strings.Contains(theirs[i], " "+ours[i]+" ") {
			return "other way"
		}
	}
	return ""
}

// tell describes a way.
func (t *traffic) tell(w *way) string {
	text := fmt.Sprintf("arrived %t, ends %q:", w.arrived, t.ends(w))
	for _, e := range w.events[:min(len(w.events), 12)] {
		name := t.name(e.link)
		text += fmt.Sprintf(" %s %s (%s to %s),", map[bool]string{true: "to", false: "from"}[e.out],
			name, e.from, e.to)
	}
	return text
}

// name is the sink or the machine at a link.
func (t *traffic) name(link int) string {
	if m := t.links[link]; m != nil {
		return m.addresses[0].String()
	}
	return t.names[link]
}

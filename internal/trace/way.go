package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// Verdict is how a packet's path ends.
type Verdict string

// A packet is delivered or dropped. Or it leaves the known network: to an appliance that decides
// for itself, to the internet, or through a gateway. Or the verdict is unknown, because something
// on the path was not read, or depends on an option that was not given.
const (
	Delivered Verdict = "delivered"
	Dropped   Verdict = "dropped"
	Leaves    Verdict = "leaves"
	Unknown   Verdict = "unknown"
)

// Way is the path of a packet in one direction.
type Way struct {
	From netip.Addr `json:"from"`
	To   netip.Addr `json:"to"`
	// Hops are the steps, in order, one sentence each.
	Hops    []Hop   `json:"hops"`
	Verdict Verdict `json:"verdict"`
	// Why explains the verdict.
	Why string `json:"why"`
	// Source is the sender's address at arrival. After source NAT this is the node's address.
	Source netip.Addr `json:"source"`
	// Exit is what gives the packet a public address on its way to the internet. It is "" if the
	// packet does not get there, or this is not known.
	Exit string `json:"exit,omitempty"`
	// Bypasses is the declared way that the packet does not take although it is not dropped, or "".
	Bypasses string `json:"bypasses,omitempty"`
	// Unseen says what was not checked because it was not read. The verdict holds without it.
	Unseen []string `json:"unseen,omitempty"`
}

// Hop is one step at one place. Route is the route that the packet takes, or "". Because is the
// reason for it.
type Hop struct {
	At      string `json:"at"`
	What    string `json:"what"`
	Route   string `json:"route,omitempty"`
	Because string `json:"because,omitempty"`
	// Filters has the decisions of network security groups here, in order.
	Filters []Ruling `json:"filters,omitempty"`
}

// Ways follows a packet, and then the answer to the packet's source at arrival. Network security
// groups are stateful, so they check an answer only if they have not passed the packet. The Unseen
// of the first Way covers what Kubernetes did not show for both.
func (t *Tracer) Ways(from, to Endpoint) (there, back Way) {
	there, answer := t.ways(from, to, false)
	there.Unseen = append(there.Unseen, t.unseenKubernetes(func(c *inventory.Cluster) bool {
		return t.concerns(c, there.From) || t.concerns(c, there.To)
	})...)
	return there, answer()
}

// ways works like Ways, and follows the answer only on request. With general, the final reasons do
// not name addresses, so that many pairs have the same reason.
func (t *Tracer) ways(from, to Endpoint, general bool) (there Way, answer func() Way) {
	from.Addr, to.Addr = from.Addr.Unmap(), to.Addr.Unmap()
	j := t.journey(from, to, false)
	j.general = general
	there = j.follow(from)
	return there, func() Way { return j.answered(from, to, there) }
}

// answered follows the answer to a packet that the journey has followed.
func (j *journey) answered(from, to Endpoint, there Way) (back Way) {
	t, answerTo, general := j.Tracer, from, j.general
	if there.Source != from.Addr { // the node undoes its source NAT
		answerTo = Endpoint{Addr: there.Source}
	}
	b := t.journey(to, answerTo, true)
	b.passed, b.general = j.passed, general
	back = b.follow(to)
	// the node sends the answer on
	for i := len(j.masked) - 1; i >= 0 && back.Verdict == Delivered; i-- {
		next := Endpoint{Addr: j.masked[i]}
		if next.Addr == from.Addr {
			next = from
		}
		on := t.journey(answerTo, next, true)
		on.passed, on.general, on.way.Source = b.passed, general, to.Addr
		rest := on.follow(answerTo)
		rest.From, rest.Hops = back.From, append(back.Hops, rest.Hops...)
		rest.Unseen = append(back.Unseen, rest.Unseen...)
		answerTo, back = next, rest
	}
	return back
}

// journey is a packet in transit.
type journey struct {
	*Tracer
	way    Way
	to     Endpoint
	answer bool
	passed map[netip.Addr]bool // by the interface's address: its filters passed the packet
	doubt  string              // what the verdict depends on, or ""
	// bypassed is the declared way that its first route does not take, or "".
	bypassed string
	masked   []netip.Addr // its earlier sources, before nodes on the way replaced them
	veiled   bool         // its source may be the address of a node on the way

	general bool // reasons do not name the addresses of the ends
	last    *Hop
}

// called returns how the final reason of a path names an address.
func (j *journey) called(a netip.Addr) string {
	switch {
	case j.general && a == j.way.To:
		return "the destination"
	case j.general && a == j.way.Source:
		return "the source"
	}
	return a.String()
}

// calledHop works like called for a next hop: nodes with the same dead end have different next
// hops.
func (j *journey) calledHop(a netip.Addr) string {
	if j.general {
		return "the next hop"
	}
	return "the next hop " + a.String()
}

func (t *Tracer) journey(from, to Endpoint, answer bool) *journey {
	return &journey{Tracer: t, way: Way{From: from.Addr, To: to.Addr, Source: from.Addr}, to: to,
		answer: answer, passed: map[netip.Addr]bool{}}
}

// step adds a hop. In general mode hops do not matter, and are left out.
func (j *journey) step(at netip.Addr, place, format string, args ...any) *Hop {
	if j.general {
		j.last = &Hop{}
		return j.last
	}
	j.way.Hops = append(j.way.Hops,
		Hop{At: strings.Replace(place, "*", at.String(), 1), What: fmt.Sprintf(format, args...)})
	j.last = &j.way.Hops[len(j.way.Hops)-1]
	return j.last
}

// end ends the path. If an earlier step was in doubt, a packet that is not dropped is in doubt.
func (j *journey) end(v Verdict, format string, args ...any) Way {
	j.way.Verdict, j.way.Why = v, fmt.Sprintf(format, args...)
	if j.doubt != "" && (v == Delivered || v == Leaves) {
		j.way.Verdict, j.way.Why = Unknown, j.doubt
	}
	switch v = j.way.Verdict; {
	case j.bypassed == "":
	case v == Delivered || v == Leaves:
		j.way.Bypasses = j.bypassed
		j.way.Why = "bypasses " + j.bypassed + "; " + j.way.Why
	case v == Dropped && !j.general:
		j.way.Why += "; it does not take " + j.bypassed
	}
	return j.way
}

// gate asks the network security groups at an interface's address, and checks whether the interface
// may forward packets of others. It records the decisions in the last hop. It returns "" if the
// packet passes, or else why it is dropped. At its ends an answer passes because its connection was
// allowed.
func (j *journey) gate(at netip.Addr, subnet *inventory.Subnet, inbound, isEnd bool) string {
	nic := j.nicAt(at, subnet)
	own := j.way.Source
	if inbound {
		own = j.way.To
	}
	switch {
	case len(j.nics) == 0:
		j.unseen("network interfaces were not read: their own security groups and IP forwarding " +
			"are not checked")
	case nic == nil && len(subnet.Gateways) == 0: // gateways show none
		j.unseen("the network interface of %s was not read: its own security group and IP "+
			"forwarding are not checked", at)
	case nic != nil && !nic.Forwarding && !j.together(own, at, subnet) &&
		!j.overlaid(own, at, subnet):
		who := fmt.Sprintf("%s (%s)", at, nic.Holder())
		if j.general && !inbound && isEnd {
			who = "the sender's node"
		}
		return fmt.Sprintf("IP forwarding is off on the network interface of %s, so Azure "+
			"drops packets from or to %s there", who, j.called(own))
	}
	if j.answer && (isEnd || j.passed[at]) {
		return ""
	}
	p := Packet{From: j.way.Source, To: j.way.To, Protocol: j.o.Protocol, Port: j.o.Port}
	if j.answer {
		p.FromPort, p.Port = p.Port, 0
	}
	var itself *inventory.Interface
	if nic != nil {
		itself = nic.Interface
	}
	r := j.filtersOf(subnet).Pass(itself, p, inbound)
	if j.general && r.Decision != Allowed {
		for _, end := range []netip.Addr{p.From, p.To} {
			r.Why = strings.NewReplacer(" "+end.String()+" ", " "+j.called(end)+" ",
				" "+end.String()+",", " "+j.called(end)+",").Replace(r.Why)
		}
	}
	if r.Group != "" {
		j.last.Filters = append(j.last.Filters, r)
	}
	switch r.Decision {
	case Denied:
		if !j.veiled { // otherwise masquerade has already noted the doubt
			return "network security group " + r.Group.Name() + ": " + r.Why
		}
	case Depends:
		j.doubt = cmp.Or(j.doubt, "it depends on the protocol and the port: "+r.Why)
	case Undecided:
		j.doubt = cmp.Or(j.doubt, r.Why)
	case Allowed:
	}
	if !j.answer {
		j.passed[at] = true
	}
	return ""
}

// together reports whether two addresses are the same or belong to one network interface, as those
// of a node and its pods do with Azure CNI.
func (t *Tracer) together(a, b netip.Addr, subnet *inventory.Subnet) bool {
	one, other := t.nicAt(a, subnet), t.nicAt(b, subnet)
	return a == b || one != nil && other != nil && one.Interface == other.Interface
}

// overlaid reports whether an address belongs to a pod on the node of an overlay. The node's
// interface accepts its pods' addresses.
func (j *journey) overlaid(pod, at netip.Addr, subnet *inventory.Subnet) bool {
	return slices.ContainsFunc(j.nodesAt(at, subnet), func(n Node) bool {
		return j.s.Cluster(n.Cluster).Overlay() && n.Pods.Contains(pod)
	})
}

func (j *journey) unseen(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(j.way.Unseen, text) {
		j.way.Unseen = append(j.way.Unseen, text)
	}
}

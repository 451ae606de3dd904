//go:build linux

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// packet is one packet to send: tcp opens a connection, icmp is a ping.
type packet struct {
	from, to end
	protocol string
	port     int
}

// event is a packet on a link of the fabric: from a machine, or out to a machine or a sink.
type event struct {
	link     int
	out      bool
	from, to netip.Addr
}

// way is what was seen of a packet in one direction.
type way struct {
	events  []event
	dropped string // why, if a rule dropped it
	at      *machine
	arrived bool
}

// sent is the outcome of a packet and of its answer.
type sent struct {
	packet
	there, back way
	source      netip.Addr // where the receiver saw it come from
	lost        bool       // it disappeared, and nothing says where
}

// traffic sends packets in a network. A packet is known by its source port.
type traffic struct {
	n       *network
	epoll   int
	handle  map[int32]func(fd int)
	fds     []int
	base    int // the first packet's port
	results []sent
	changed bool
	links   map[int]*machine
	names   map[int]string

	declared declared
}

// ports are those with a service.
var ports = []int{80, 443}

func (n *network) traffic() *traffic {
	t := &traffic{n: n, epoll: must1(unix.EpollCreate1(0)), handle: map[int32]func(int){},
		base: 10000, links: map[int]*machine{}, names: map[int]string{}}
	for _, m := range n.machines {
		t.links[m.link.Attrs().Index] = m
		t.logs(m.space, m)
	}
	for name, link := range n.sinks {
		t.names[link.Attrs().Index] = name
	}
	t.logs(n.fabric, nil)
	n.fabric.in(func() {
		fd := t.socket(unix.AF_PACKET, unix.SOCK_DGRAM, int(swap(unix.ETH_P_ALL)))
		enlarge(fd)
		t.on(fd, unix.EPOLLIN, t.seen)
	})
	spaces := []*space{n.internet}
	for _, e := range n.ends {
		if !slices.Contains(spaces, e.space) {
			spaces = append(spaces, e.space)
		}
	}
	for _, s := range spaces {
		s.in(func() { t.listen(s) })
	}
	return t
}

func (t *traffic) close() {
	for _, fd := range append(t.fds, t.epoll) {
		unix.Close(fd)
	}
}

func (t *traffic) socket(family, kind, protocol int) int {
	fd := must1(unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, protocol))
	t.fds = append(t.fds, fd)
	return fd
}

func (t *traffic) on(fd int, events uint32, f func(fd int)) {
	t.handle[int32(fd)] = f
	must(unix.EpollCtl(t.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

// enlarge makes room for what is seen: much as root, less in a user namespace.
func enlarge(fd int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20) != nil {
		must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 64<<20))
	}
}

func swap(v uint16) uint16 { return v<<8 | v>>8 }

// listen serves all ports: it answers each packet, and accepts each connection.
func (t *traffic) listen(s *space) {
	for _, port := range ports {
		udp := t.socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
		must(unix.SetsockoptInt(udp, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1))
		must(unix.SetsockoptInt(udp, unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT, 1))
		must(unix.Bind(udp, &unix.SockaddrInet6{Port: port}))
		t.on(udp, unix.EPOLLIN, func(fd int) { t.answer(fd, s) })
		tcp := t.socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
		must(unix.SetsockoptInt(tcp, unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT, 1))
		must(unix.Bind(tcp, &unix.SockaddrInet6{Port: port}))
		must(unix.Listen(tcp, 4096))
		t.on(tcp, unix.EPOLLIN, func(fd int) { t.accept(fd, s) })
	}
}

func (t *traffic) answer(fd int, s *space) {
	for {
		var buf [64]byte
		var info [128]byte
		_, n, _, from, err := unix.Recvmsg(fd, buf[:], info[:], 0)
		if err != nil {
			return
		}
		clear(info[32:36]) // answer by any link
		if r := t.received(from, s); r != nil && r.there.arrived {
			must(unix.Sendmsg(fd, []byte("answer"), info[:n], from, 0))
		}
	}
}

func (t *traffic) accept(fd int, s *space) {
	for {
		connection, from, err := unix.Accept(fd)
		if err != nil {
			return
		}
		t.received(from, s)
		unix.Close(connection)
	}
}

func (t *traffic) received(from unix.Sockaddr, s *space) *sent {
	r := t.result(from.(*unix.SockaddrInet6).Port)
	if r != nil {
		r.source, r.there.arrived = sender(from), r.to.space == s
		if r.to.space != s {
			r.there.dropped = astray
		}
	}
	return r
}

func (t *traffic) result(port int) *sent {
	if i := port - t.base; i >= 0 && i < len(t.results) {
		t.changed = true
		return &t.results[i]
	}
	return nil
}

// seen reads packets on the fabric's links.
func (t *traffic) seen(fd int) {
	for {
		var buf [128]byte
		n, from, err := unix.Recvfrom(fd, buf[:], 0)
		if err != nil {
			return
		}
		at := from.(*unix.SockaddrLinklayer)
		if at.Protocol != swap(unix.ETH_P_IP) && at.Protocol != swap(unix.ETH_P_IPV6) {
			continue
		}
		if w, from, to := t.find(buf[:n]); w != nil {
			out := at.Pkttype == unix.PACKET_OUTGOING
			if e := (event{at.Ifindex, out, from, to}); t.goesOn(w, e) {
				w.events = append(w.events, e)
			}
		}
	}
}

// goesOn reports whether an event can come after the others of a packet. One that has left to the
// internet does not come back, but it can be sent again. Only the machine that it has gone out to
// can have given it another sender: what comes from elsewhere is another packet, to which a node's
// NAT gave the port of this one.
func (t *traffic) goesOn(w *way, e event) bool {
	if len(w.events) == 0 {
		return true
	}
	last := w.events[len(w.events)-1]
	return t.exit(last) == "" &&
		(e.from == last.from || last.out && !e.out && e.link == last.link)
}

// find is the way of a packet, by its bytes: nil unless it opens a connection, asks or answers.
func (t *traffic) find(b []byte) (w *way, from, to netip.Addr) {
	if len(b) < 28 || b[0]>>4 == 6 && len(b) < 48 {
		return nil, from, to
	}
	protocol, body := b[6], b[min(len(b), 40):]
	if b[0]>>4 == 4 {
		protocol, body = b[9], b[min(len(b), int(b[0]&15)*4):]
		from, _ = netip.AddrFromSlice(b[12:16])
		to, _ = netip.AddrFromSlice(b[16:20])
	} else {
		from, _ = netip.AddrFromSlice(b[8:24])
		to, _ = netip.AddrFromSlice(b[24:40])
	}
	if len(body) < 8 {
		return nil, from, to
	}
	source := int(binary.BigEndian.Uint16(body))
	destination := int(binary.BigEndian.Uint16(body[2:]))
	switch protocol {
	case unix.IPPROTO_TCP:
		if len(body) < 14 {
			return nil, from, to
		}
		if flags := body[13] & 0x17; flags != 2 && flags != 0x12 { // SYN, and its answer
			return nil, from, to
		}
	case unix.IPPROTO_UDP:
	case unix.IPPROTO_ICMP:
		id := int(binary.BigEndian.Uint16(body[4:]))
		if source, destination = id, 0; body[0] == 0 {
			source, destination = 0, id
		} else if body[0] != 8 {
			return nil, from, to
		}
	default:
		return nil, from, to
	}
	// Where a packet loops, a node's NAT can give it the port of another.
	if r := t.result(source); r != nil && to == r.to.addr && (destination == r.port ||
		protocol == unix.IPPROTO_ICMP) && (len(r.there.events) > 0 || from == r.from.addr ||
		slices.Contains(r.from.machine.addresses, from)) {
		return &r.there, from, to
	}
	if r := t.result(destination); r != nil && (source == r.port ||
		protocol == unix.IPPROTO_ICMP) {
		return &r.back, from, to
	}
	return nil, from, to
}

// logs reads what a namespace drops.
func (t *traffic) logs(s *space, m *machine) {
	s.in(func() {
		fd := t.socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
		must(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
		enlarge(fd)
		const config = unix.NFNL_SUBSYS_ULOG<<8 | 1
		for _, attribute := range [][]byte{
			{5, 0, 1, 0, 1, 0, 0, 0},               // bind
			{10, 0, 2, 0, 0, 0, 0, 80, 2, 0, 0, 0}, // copy 80 bytes
			{8, 0, 5, 0, 0, 0, 0, 1},               // send each at once
		} {
			message := make([]byte, 20, 40)
			message = append(message, attribute...)
			binary.NativeEndian.PutUint32(message, uint32(len(message)))
			binary.NativeEndian.PutUint16(message[4:], config)
			binary.NativeEndian.PutUint16(message[6:], unix.NLM_F_REQUEST)
			binary.BigEndian.PutUint16(message[18:], logGroup)
			must(unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
		}
		t.on(fd, unix.EPOLLIN, func(fd int) { t.logged(fd, m) })
	})
}

func (t *traffic) logged(fd int, m *machine) {
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			if errors.Is(err, unix.ENOBUFS) {
				panic("drops were not logged")
			}
			return
		}
		for b := buf[:n]; len(b) >= 20; {
			size := min(len(b), int(binary.NativeEndian.Uint32(b)))
			t.drop(b[20:size], m)
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}

func (t *traffic) drop(attributes []byte, m *machine) {
	var why string
	for b := attributes; len(b) >= 4; {
		size := int(binary.NativeEndian.Uint16(b))
		switch binary.NativeEndian.Uint16(b[2:]) & 0x3fff {
		case 10:
			why = strings.TrimRight(string(b[4:size]), "\x00")
		case 9:
			if w, _, _ := t.find(b[4:size]); w != nil && w.dropped == "" {
				w.dropped, w.at = why, m
			}
		}
		b = b[min(len(b), (size+3)&^3):]
	}
}

// send sends packets and waits until each has arrived and was answered, or has ended elsewhere.
func (t *traffic) send(packets []packet) []sent {
	t.base += len(t.results)
	t.results = make([]sent, len(packets))
	bySpace := map[*space][]int{}
	for i, p := range packets {
		t.results[i].packet = p
		bySpace[p.from.space] = append(bySpace[p.from.space], i)
	}
	first := len(t.fds)
	for s, list := range bySpace {
		s.in(func() {
			for _, i := range list {
				t.sendOne(i)
				t.poll(0)
			}
		})
	}
	for quiet := time.Now(); ; {
		if !slices.ContainsFunc(t.results, func(r sent) bool { return !t.over(&r) }) {
			break
		}
		if t.changed = false; t.poll(100) == 0 && time.Since(quiet) > 3*time.Second {
			break
		}
		if t.changed {
			quiet = time.Now()
		}
	}
	for t.poll(0) > 0 { // a drop can be logged after the packet was seen
	}
	for i := range t.results {
		r := &t.results[i] // what arrives at another machine was on a link
		r.lost = !t.over(r) || r.there.arrived && len(r.there.events) == 0 &&
			r.from.machine != r.to.machine
	}
	for _, fd := range t.fds[first:] {
		delete(t.handle, int32(fd))
		unix.Close(fd)
	}
	t.fds = t.fds[:first]
	return t.results
}

func (t *traffic) sendOne(i int) {
	p := t.results[i].packet
	family, kind, protocol := unix.AF_INET, unix.SOCK_DGRAM, 0
	if p.to.addr.Is6() {
		family = unix.AF_INET6
	}
	switch p.protocol {
	case "tcp":
		kind = unix.SOCK_STREAM
	case "icmp":
		protocol = unix.IPPROTO_ICMP
	}
	fd := t.socket(family, kind, protocol)
	must(unix.Bind(fd, sockaddr(p.from.addr, t.base+i)))
	done := func(int) {
		if p.protocol != "tcp" {
			var buf [64]byte
			_, from, err := unix.Recvfrom(fd, buf[:], 0)
			if err != nil {
				return
			}
			if sender(from) != p.to.addr {
				t.results[i].back.dropped, t.changed = stranger, true
				return
			}
		} else if code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil ||
			code != 0 {
			return
		}
		t.results[i].back.arrived, t.changed = true, true
		delete(t.handle, int32(fd))
		must(unix.EpollCtl(t.epoll, unix.EPOLL_CTL_DEL, fd, nil))
	}
	var err error
	if p.protocol == "tcp" {
		must(unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
		err = unix.Connect(fd, sockaddr(p.to.addr, p.port))
		t.on(fd, unix.EPOLLOUT|unix.EPOLLONESHOT, done)
	} else {
		payload := []byte("question")
		if p.protocol == "icmp" {
			payload = []byte{8, 0, 0, 0, 0, 0, 0, 1}
		}
		err = unix.Sendto(fd, payload, 0, sockaddr(p.to.addr, p.port))
		t.on(fd, unix.EPOLLIN, done)
	}
	// A rule that drops it at the sender says so at once.
	if err != nil && !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.EPERM) {
		panic(fmt.Sprintf("%s to %s: %v", p.from.addr, p.to.addr, err))
	}
}

func sockaddr(a netip.Addr, port int) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: a.As16()}
}

func sender(from unix.Sockaddr) netip.Addr {
	if v4, is := from.(*unix.SockaddrInet4); is {
		return netip.AddrFrom4(v4.Addr)
	}
	return netip.AddrFrom16(from.(*unix.SockaddrInet6).Addr).Unmap()
}

func (t *traffic) poll(wait int) int {
	var events [256]unix.EpollEvent
	n, err := unix.EpollWait(t.epoll, events[:], wait)
	if err != nil && !errors.Is(err, unix.EINTR) {
		panic(err)
	}
	for _, e := range events[:max(n, 0)] {
		if f := t.handle[e.Fd]; f != nil {
			f(int(e.Fd))
		}
	}
	return n
}

// over reports whether the outcome of a packet is settled.
func (t *traffic) over(r *sent) bool {
	if (r.back.arrived || len(r.back.events) > 0) && t.ends(&r.there) == "" {
		r.there.arrived = true
	}
	if at := r.back.events; len(at) > 0 && at[len(at)-1].from != r.to.addr {
		if m := t.links[at[len(at)-1].link]; m != nil && slices.Contains(m.addresses,
			at[len(at)-1].to) && at[len(at)-1].out {
			r.back.dropped = stranger
		}
	}
	if at := r.there.events; r.protocol == "icmp" && r.to.machine == nil && len(at) > 0 &&
		t.exit(at[len(at)-1]) != "" { // nothing answers pings there
		r.there.arrived, r.back.arrived = true, true
	}
	if r.there.arrived {
		return r.back.arrived || t.ends(&r.back) != ""
	}
	return t.ends(&r.there) != ""
}

// Ends of a way, in addition to sinks and the reasons of rules.
const (
	loops    = "loops"
	astray   = "astray"   // another machine has the address there
	stranger = "stranger" // the answer comes from another address than the one that was asked
	returned = "returned" // to where it came from
)

// longest is more than any way without a loop has.
const longest = 34

// ends says why a way goes no further, "" if it may.
func (t *traffic) ends(w *way) string {
	if len(w.events) == 0 {
		return w.dropped
	}
	last := w.events[len(w.events)-1]
	m := t.links[last.link]
	switch {
	case m == nil && t.exit(last) == byBalancer && !t.isPrimary(w, last.from):
		return noexit // the load balancer has the nodes' primary addresses in its pool alone
	case w.dropped != "":
		return w.dropped
	case len(w.events) > longest:
		return loops
	case !last.out:
		return ""
	case m == nil && t.exit(last) == "":
		return t.names[last.link] // a sink
	case m == nil && !slices.Contains(outside, last.to):
		return astray
	case m == nil:
		return ""
	case slices.Contains(m.addresses, last.from):
		return returned
	case m.node == nil && !m.firewall && !slices.Contains(m.addresses, last.to):
		return "at " + last.from.String()
	}
	return ""
}

// isPrimary reports whether an address is the primary one of the machine that sent the packet last.
func (t *traffic) isPrimary(w *way, a netip.Addr) bool {
	for _, e := range slices.Backward(w.events) {
		if m := t.links[e.link]; !e.out && m != nil {
			return m.primary(a) == a
		}
	}
	return false
}

// exit is what gave a packet a public address, or "".
func (t *traffic) exit(e event) string {
	if name := t.names[e.link]; e.out && slices.Contains(t.n.exits, name) {
		return name
	}
	return ""
}

//go:build linux

// Package kernel is the referee of trace: it builds a network of Azure from network namespaces, and
// sends packets. It holds tests only, in a module of its own.
//
// How it works. Each machine and each pod is a namespace (machine_test.go). A machine's interface
// leads to the fabric, a namespace that has one routing table for each interface, with the routes
// that Azure's documents give to its subnet (fabric_test.go). Linux chooses among them. Security
// groups are rules of nftables at the machine's interface (group_test.go). The internet is a
// namespace that has all public addresses. Packets are watched in the fabric, and each drop is
// logged (watch_test.go). The documents are the ones that trace reads (internal/inventory); none of
// trace's decisions is used to build the network.
package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/google/nftables"
	mdlayher "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const inside = "ROUTEKEEPER_INSIDE_NAMESPACE"

// TestMain takes a user namespace if it is not root: there it may have network namespaces.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 && os.Getenv(inside) == "" {
		again := exec.Command("/proc/self/exe", os.Args[1:]...)
		again.Stdout, again.Stderr = os.Stdout, os.Stderr
		again.Env = append(os.Environ(), inside+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
		if err := again.Run(); again.ProcessState != nil {
			os.Exit(again.ProcessState.ExitCode())
		} else {
			fmt.Fprintln(os.Stderr, "no user namespace:", err)
		}
	}
	os.Exit(m.Run())
}

// need skips the test without network namespaces and nftables, or fails it if they are asked for.
func need(t *testing.T) {
	t.Helper()
	err := func() error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		s, err := newSpace()
		if err != nil {
			return fmt.Errorf("network namespaces: %w", err)
		}
		defer s.close()
		s.nft().AddTable(&nftables.Table{Name: "t", Family: nftables.TableFamilyINet})
		if err := s.nft().Flush(); err != nil {
			return fmt.Errorf("nftables: %w", err)
		}
		return nil
	}()
	switch {
	case err == nil:
	case os.Getenv("ROUTEKEEPER_NEED_NAMESPACES") != "":
		t.Fatalf("ROUTEKEEPER_NEED_NAMESPACES is set, and this kernel does not give them: %v", err)
	default:
		t.Skipf("NO PACKET WAS SENT, trace has no referee: this kernel does not give %v", err)
	}
}

// space is a network namespace.
type space struct {
	ns      netns.NsHandle
	link    *netlink.Handle
	filters *nftables.Conn
	// settle waits for these links, and for the addresses of these.
	waits []int
	six   []netlink.Link
}

// settings are the ones of every namespace: no source check, no redirects, no discovery.
var settings = map[string]string{"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
	"ipv4/conf/all/send_redirects": "0", "ipv4/conf/default/send_redirects": "0",
	"ipv6/conf/default/addr_gen_mode": "1", "ipv6/conf/default/accept_dad": "0",
	"ipv6/conf/default/router_solicitations": "0",
	"ipv6/conf/default/disable_ipv6":         "0", "ipv4/ping_group_range": "0 0"}

// newSpace needs a goroutine that is locked to its thread.
func newSpace() (*space, error) {
	home, err := netns.Get()
	if err != nil {
		return nil, err
	}
	defer home.Close()
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	defer netns.Set(home)
	for name, value := range settings {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
			return nil, err
		}
	}
	s := &space{ns: ns}
	if s.link, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, err
	}
	lo, err := s.link.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	return s, s.link.LinkSetUp(lo)
}

func (s *space) close() {
	s.link.Close()
	if s.filters != nil {
		s.filters.CloseLasting()
	}
	s.ns.Close()
}

func (s *space) nft() *nftables.Conn {
	if s.filters == nil {
		var err error
		s.filters, err = nftables.New(nftables.WithNetNSFd(int(s.ns)), nftables.AsLasting(),
			nftables.WithSockOptions(func(c *mdlayher.Conn) error {
				return c.SetReadBuffer(4 << 20)
			}))
		must(err)
	}
	return s.filters
}

// in runs f in the namespace.
func (s *space) in(f func()) {
	home, err := netns.Get()
	must(err)
	defer home.Close()
	must(netns.Set(s.ns))
	defer func() { must(netns.Set(home)) }()
	f()
}

// forwards makes it a router.
func (s *space) forwards() {
	s.in(func() {
		must(os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
		must(os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0))
	})
}

// wire connects two namespaces. Both ends have one hardware address and ask for none, so whatever
// one end sends arrives at the other, without layer 2.
func wire(a *space, aName string, b *space, bName string) (here, there netlink.Link) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.HardwareAddr = aName, mac
	must(a.link.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: bName,
		PeerHardwareAddr: mac, PeerNamespace: netlink.NsFd(b.ns)}))
	here, there = a.up(aName, true), b.up(bName, true)
	a.waits = append(a.waits, here.Attrs().Index)
	return here, there
}

// settle waits until the ends that were up first carry packets, and IPv6 addresses are in use.
func (s *space) settle() {
	for _, index := range s.waits {
		for must1(s.link.LinkByIndex(index)).Attrs().OperState != netlink.OperUp {
			runtime.Gosched()
		}
	}
	for _, link := range s.six {
		for slices.ContainsFunc(must1(s.link.AddrList(link, unix.AF_INET6)),
			func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE != 0 }) {
			runtime.Gosched()
		}
	}
}

func (s *space) up(name string, plain bool) netlink.Link {
	link, err := s.link.LinkByName(name)
	must(err)
	if plain {
		must(s.link.LinkSetARPOff(link))
	}
	must(s.link.LinkSetUp(link))
	return link
}

// address gives a link an address. Without IFA_F_NODAD it is tentative until it is in use, so that
// settle can wait for it; nothing looks for duplicates (settings).
func (s *space) address(link netlink.Link, a netip.Addr, bits int) {
	if a.Is6() {
		s.six = append(s.six, link)
	}
	must(s.link.AddrAdd(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, bits)),
		Flags: unix.IFA_F_NOPREFIXROUTE}))
}

// route adds a route to a table. Without a link it throws: the next rule decides. By lo the
// namespace itself has all these addresses.
func (s *space) route(table int, p netip.Prefix, link netlink.Link, metric int) *netlink.Route {
	r := &netlink.Route{Dst: ipNet(p), Table: table, Priority: metric,
		Type: unix.RTN_UNICAST, Scope: netlink.SCOPE_LINK}
	if link == nil {
		r.Type, r.Scope = unix.RTN_THROW, netlink.SCOPE_UNIVERSE
	} else if r.LinkIndex = link.Attrs().Index; link.Attrs().Name == "lo" {
		r.Type, r.Scope = unix.RTN_LOCAL, netlink.SCOPE_HOST
	}
	if err := s.link.RouteAdd(r); err != nil {
		panic(fmt.Sprintf("route %s in table %d: %v", p, table, err))
	}
	return r
}

// rule sends packets from a link, or all, to a table.
func (s *space) rule(priority, table int, from netlink.Link, source, to netip.Prefix) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		r := netlink.NewRule()
		r.Priority, r.Table, r.Family = priority, table, family
		if from != nil {
			r.IifName = from.Attrs().Name
		}
		for to, p := range map[**net.IPNet]netip.Prefix{&r.Src: source, &r.Dst: to} {
			if p.IsValid() {
				*to = ipNet(p)
			}
		}
		if source.IsValid() && source.Addr().Is4() != (family == unix.AF_INET) ||
			to.IsValid() && to.Addr().Is4() != (family == unix.AF_INET) {
			continue
		}
		must(s.link.RuleAdd(r))
	}
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

var everything = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"),
	netip.MustParsePrefix("::/0")}

func whole(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

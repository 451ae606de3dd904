package kubernetes

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// withinKey is the context key for how long a simulated pod's call may take.
type withinKey struct{}

// limit tells a simulated pod's call how long it may take. Only packets that Azure drops use up
// that time. The emulator's own work does not, or a busy machine would look like lost packets.
func limit(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(context.WithValue(ctx, withinKey{}, within))
}

// dialer connects a simulated pod with others. Options.Way is called for each connection. Dropped
// packets are not answered, so the caller waits as long as its call may take.
func (c *cluster) dialer(from *pod) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, fmt.Errorf("simulated pods call addresses only: %w", err)
		}
		why, err := c.way(ctx, from, to)
		if err != nil {
			return nil, err
		}
		if why != "" {
			fmt.Fprintf(from.log, "packets to %s are lost: %s\n", address, why)
			within, _ := ctx.Value(withinKey{}).(time.Duration)
			select {
			case <-time.After(within):
				return nil, os.ErrDeadlineExceeded
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		p := c.podAt(to.Addr())
		// packets arrive at a machine on which nothing listens
		if p == nil || !p.listens(int(to.Port())) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return serveOne(p), nil
	}
}

// way says why packets from a pod do not reach an address, or why the answers do not reach the pod.
// It returns "" if they do.
func (c *cluster) way(ctx context.Context, from *pod, to netip.AddrPort) (lost string, err error) {
	if c.k.o.Way == nil {
		return "", nil
	}
	at := slices.IndexFunc(from.addrs, func(a netip.Addr) bool {
		return a.Is4() == to.Addr().Is4()
	})
	if at < 0 {
		return fmt.Sprintf("the pod has no address of the family of %s", to.Addr()), nil
	}
	return c.k.o.Way(ctx, Packet{
		Cluster: c.id, From: from.addrs[at], To: to.Addr(), Port: int(to.Port()),
		List: func(ctx context.Context, plural string) ([]byte, error) {
			return c.cp.get(ctx, "/api/v1/"+plural)
		},
	})
}

// peersOf finds the addresses of the demo's headless service: the pods of the demo in a pod's
// namespace. DNS is not emulated.
func (c *cluster) peersOf(of *pod) func(context.Context) ([]netip.Addr, error) {
	return func(context.Context) (out []netip.Addr, err error) {
		for _, p := range c.running() {
			if p.Metadata.Namespace == of.Metadata.Namespace &&
				p.Spec.Containers[0].Name == of.Spec.Containers[0].Name && len(p.addrs) > 0 {
				out = append(out, p.addrs[0])
			}
		}
		return out, nil
	}
}

// serveOne returns a connection to a pod.
func serveOne(p *pod) net.Conn {
	ours, theirs := net.Pipe()
	ctx, end := context.WithCancel(context.Background())
	conns := make(chan net.Conn, 1)
	conns <- theirs
	server := &http.Server{Handler: p.handler, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			end()
		}
	}}
	go func() { _ = server.Serve(&listener{conns, ctx}) }() // ends with its one connection
	return addressed{ours, p}
}

// addressed is a connection that reports the pod's address.
type addressed struct {
	net.Conn
	pod *pod
}

// RemoteAddr returns the pod's address.
func (a addressed) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: a.pod.addrs[0].AsSlice()}
}

func portOf(text string) (int, error) {
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return 0, fmt.Errorf("%q is not a port", text)
	}
	return port, nil
}

package serve

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/openfiles"
)

// How it works: the number of connections is limited far below the limit of open files, so that
// checks, writes and the history can always open some. At the limit, a new connection replaces the
// oldest idle one of the address that has the most. So a client with thousands of idle connections
// loses its own connections, and does not lock out other clients.

const (
	// mostConnections is the limit if enough files can be open.
	mostConnections = 4096
	// fewestConnections is the limit even if very few files can be open.
	fewestConnections = 16
)

// connectionLimit returns how many connections fit into a limit of open files: half, so that the
// other half stays for checks, writes and the history.
func connectionLimit(files uint64) int {
	return int(max(min(files/2, mostConnections), fewestConnections))
}

// connections are the open connections of a listener.
type connections struct {
	net.Listener
	most    int    // in all; half of them from one address
	dropped func() // counts a connection that was closed to make room, or refused
	log     *slog.Logger
	files   *openfiles.Watch // receives errors of accepting

	mu      sync.Mutex
	open    map[*connection]bool
	streams map[string]int // by address
	said    time.Time      // when the log last said that there are too many
}

// connection is an open connection.
type connection struct {
	net.Conn
	all     *connections
	address string
	since   time.Time // when it was opened, or its last request ended
	busy    int       // requests in progress
}

func newConnections(l net.Listener, most int, dropped func(), log *slog.Logger) *connections {
	return &connections{Listener: l, most: most, dropped: dropped, log: log,
		open: map[*connection]bool{}, streams: map[string]int{}}
}

// Accept waits for a connection that there is room for.
func (a *connections) Accept() (net.Conn, error) {
	for {
		c, err := a.Listener.Accept()
		if err != nil {
			a.files.Note(err)
			return nil, err
		}
		if admitted := a.admit(c); admitted != nil {
			return admitted, nil
		}
	}
}

// count returns how many connections are open, and how many may be.
func (a *connections) count() (open, most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open), a.most
}

// admit makes room for a connection, or closes it and returns nil.
func (a *connections) admit(c net.Conn) *connection {
	mine := &connection{Conn: c, all: a, address: addressOf(c.RemoteAddr().String()),
		since: time.Now()}
	a.mu.Lock()
	count := map[string]int{mine.address: 0}
	for other := range a.open {
		count[other.address]++
	}
	var victim *connection
	full := len(a.open) >= a.most || count[mine.address] >= a.most/2
	if full {
		from := mine.address
		if count[from] < a.most/2 { // the limit of all is reached, not of this address
			for address, n := range count {
				if n > count[from] {
					from = address
				}
			}
		}
		for other := range a.open {
			if other.address == from && other.busy == 0 &&
				(victim == nil || other.since.Before(victim.since)) {
				victim = other
			}
		}
		if now := time.Now(); now.Sub(a.said) > time.Minute {
			a.said = now
			a.log.Warn("too many connections: the oldest idle ones are closed", "open", len(a.open),
				"limit", a.most, "most from", from)
		}
	}
	if !full || victim != nil {
		a.open[mine] = true
	}
	delete(a.open, victim)
	a.mu.Unlock()
	if full {
		a.dropped()
	}
	switch {
	case victim != nil:
		victim.Conn.Close()
	case full:
		c.Close()
		return nil
	}
	return mine
}

// Close closes the connection, and makes room for another.
func (c *connection) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

type connectionKey struct{}

// remember makes a connection known to the requests on it.
func remember(ctx context.Context, c net.Conn) context.Context {
	if encrypted, is := c.(*tls.Conn); is {
		c = encrypted.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// keepOpen keeps a request's connection open until the returned function is called.
func keepOpen(r *http.Request) (done func()) {
	c, is := r.Context().Value(connectionKey{}).(*connection)
	if !is {
		return func() {}
	}
	change := func(by int) {
		c.all.mu.Lock()
		defer c.all.mu.Unlock()
		c.busy += by
		c.since = time.Now()
	}
	change(1)
	return func() { change(-1) }
}

// limitStreams limits the streams, which stay open as long as a page does: to a quarter of all
// connections, and half of these from one address.
func (a *connections) limitStreams(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := addressOf(r.RemoteAddr)
		a.mu.Lock()
		all := 0
		for _, n := range a.streams {
			all += n
		}
		full := all >= a.most/4 || a.streams[address] >= a.most/8
		if !full {
			a.streams[address]++
		}
		a.mu.Unlock()
		if full {
			a.dropped()
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many pages are open; this one will try again",
				http.StatusServiceUnavailable)
			return
		}
		defer func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.streams[address]--; a.streams[address] == 0 {
				delete(a.streams, address)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// addressOf returns the address of a caller without its port.
func addressOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

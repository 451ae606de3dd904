package serve

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/serve/page"
)

// dial opens a connection from one of this machine's loopback addresses.
func dial(t *testing.T, s *Server, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// get sends a request on a connection, and returns the first line of the answer.
func get(t *testing.T, c net.Conn, path string) string {
	t.Helper()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 12)
	if _, err := io.ReadFull(c, line); err != nil {
		return err.Error()
	}
	return string(line)
}

// TestFlood: connections that hang, without a request or within one, keep no other caller out, and
// never take more than their share. So do streams.
func TestFlood(t *testing.T) {
	const most = 32
	s, _ := start(t, Options{Connections: most, Board: page.NewBoard()})
	open := func() int {
		s.listener.mu.Lock()
		defer s.listener.mu.Unlock()
		return len(s.listener.open)
	}
	for i := range 200 {
		c := dial(t, s, fmt.Sprintf("127.0.0.%d", 1+i%3))
		if i%2 == 0 {
			fmt.Fprint(c, "GET / HTTP/1.1\r\nHost:")
		}
		if n := open(); n > most {
			t.Fatalf("%d connections are open, the limit is %d", n, most)
		}
	}
	for i := range 20 {
		for _, from := range []string{"127.0.0.1", "127.0.0.9"} {
			if got := get(t, dial(t, s, from), "/livez"); got != "HTTP/1.1 200" {
				t.Fatalf("call %d from %s: %s", i, from, got)
			}
		}
	}
	// A quarter are streams, and an eighth from one address.
	var streams []net.Conn
	for range most / 8 {
		c := dial(t, s, "127.0.0.1")
		if got := get(t, c, "/live"); got != "HTTP/1.1 200" {
			t.Fatalf("a stream: %s", got)
		}
		streams = append(streams, c)
	}
	if got := get(t, dial(t, s, "127.0.0.1"), "/live"); got != "HTTP/1.1 503" {
		t.Errorf("one stream more from an address: %s", got)
	}
	if got := get(t, dial(t, s, "127.0.0.2"), "/live"); got != "HTTP/1.1 200" {
		t.Errorf("a stream from another address: %s", got)
	}
	for range 3 * most {
		dial(t, s, "127.0.0.1")
	}
	for _, c := range streams { // they are worked on, so they stay
		if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		for {
			_, err := c.Read(make([]byte, 4096))
			if wait, is := err.(net.Error); is && wait.Timeout() {
				break
			} else if err != nil {
				t.Fatalf("a stream ended: %v", err)
			}
		}
		c.Close()
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got := get(t, dial(t, s, "127.0.0.1"), "/live")
		if got == "HTTP/1.1 200" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a stream after the others ended: %s", got)
		}
	}
	response, err := http.Get("http://" + s.Address() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
}

func TestConnectionLimit(t *testing.T) {
	for files, want := range map[uint64]int{0: 16, 64: 32, 256: 128, 1 << 20: 4096, 1 << 63: 4096} {
		if got := connectionLimit(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
}

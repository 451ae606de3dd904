package hello

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
)

// network has servers in their own network: at each address one answers, refuses, or is silent.
func network(pods map[string]*Server) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		switch s, known := pods[host]; {
		case s != nil:
			ours, theirs := net.Pipe()
			go func() { _ = http.Serve(&once{theirs}, s.Handler()) }()
			return ours, nil
		case known:
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// once is a listener with one connection.
type once struct {
	conn net.Conn
}

func (o *once) Accept() (net.Conn, error) {
	if conn := o.conn; conn != nil {
		o.conn = nil
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.TCPAddr{} }

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// TestCalls calls addresses that answer, refuse or are silent, in a bubble: a lost packet costs
// five seconds.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		pods := map[string]*Server{"10.0.0.9": nil}
		one := &Server{Self: Self{Pod: "one", Node: "n1", Address: "10.0.0.1"}, Dial: network(pods),
			Log: &log}
		pods["10.0.0.1"] = one
		pods["10.0.0.2"] = &Server{Self: Self{Pod: "two", Node: "n2", Address: "10.0.0.2"},
			Log: &syncBuffer{}}
		for to, want := range map[string]Result{"10.0.0.2": Answered, "10.0.0.9": Refused,
			"10.0.0.77": Timeout} {
			status, body := get(t, one, "/call?to="+to)
			var c Call
			if err := json.Unmarshal([]byte(body), &c); err != nil || status != 200 {
				t.Fatal(status, body, err)
			}
			if c.Result != want || c.To != to || (c.Who != nil) != (want == Answered) ||
				c.Arrived() != (want != Timeout) {
				t.Errorf("%+v, want %s", c, want)
			}
			if want == Timeout && c.Millis != 5000 {
				t.Errorf("a lost call takes %v ms", c.Millis)
			}
			if !strings.Contains(log.String(), "called "+to+": "+string(want)) {
				t.Errorf("not in the log: %s", log.String())
			}
		}
	})
}

// TestOnlyAddresses: the page calls only the demo's port of an address, so it gives access to
// nothing else.
func TestOnlyAddresses(t *testing.T) {
	s := &Server{Log: &syncBuffer{}, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("it was called")
		return nil, errors.New("no")
	}}
	for _, to := range []string{"", "example.org", "10.0.0.1:22", "http://10.0.0.1",
		"10.0.0.1/24", "10.0.0.1&within=1h", "10.0.0.1&within=x"} {
		if status, _ := get(t, s, "/call?to="+to); status != http.StatusBadRequest {
			t.Errorf("%q: %d", to, status)
		}
	}
}

// TestPage shows which pod it is and which pods it reaches; a name from outside is text.
func TestPage(t *testing.T) {
	pods := map[string]*Server{}
	one := &Server{Self: Self{Pod: "one", Node: "<n1>", Address: "10.0.0.1"}, Dial: network(pods),
		Log: &syncBuffer{}}
	one.Peers = func(context.Context) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")}, nil
	}
	pods["10.0.0.2"] = &Server{Self: Self{Pod: "<script>two", Node: "n2", Address: "10.0.0.2"},
		Log: &syncBuffer{}}
	status, page := get(t, one, "/")
	if status != 200 || !strings.Contains(page, "Hello from one") ||
		!strings.Contains(page, "&lt;n1&gt;") ||
		!strings.Contains(page, "<td>10.0.0.2<td>&lt;script&gt;two<td>n2") ||
		strings.Contains(page, "<td>10.0.0.1") {
		t.Errorf("%d %s", status, page)
	}
	var calls []Call
	if status, body := get(t, one, "/peers"); status != 200 ||
		json.Unmarshal([]byte(body), &calls) != nil || len(calls) != 1 ||
		calls[0].Who.Node != "n2" {
		t.Errorf("%d %s", status, body)
	}
	one.Peers = func(context.Context) ([]netip.Addr, error) {
		return nil, errors.New("no such host")
	}
	if status, page := get(t, one, "/"); status != 200 ||
		!strings.Contains(page, "looking for the other pods: no such host") {
		t.Errorf("%d %s", status, page)
	}
}

// TestDocuments reads the manifest as it is applied.
func TestDocuments(t *testing.T) {
	all, err := documents("try", "registry.example/rk@sha256:00")
	if err != nil || len(all) != 5 {
		t.Fatal(len(all), err)
	}
	for i, want := range []string{"namespaces/try", "services/hello", "services/hello-peers",
		"daemonsets/hello-node", "deployments/hello-web"} {
		if got := all[i]; got.String() != want || i > 0 && got.Namespace != "try" {
			t.Errorf("%d is %+v, want %s", i, got.Object, want)
		}
	}
	for _, d := range all[3:] { // the same pod, except for its place
		var doc struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers  []struct{ Image string }
						Tolerations []map[string]string
						Affinity    map[string]any
					}
				}
			}
		}
		if err := json.Unmarshal(d.raw, &doc); err != nil {
			t.Fatal(err)
		}
		spec := doc.Spec.Template.Spec
		if len(spec.Containers) != 1 ||
			spec.Containers[0].Image != "registry.example/rk@sha256:00" ||
			len(spec.Tolerations) != 1 || spec.Affinity["nodeAffinity"] == nil {
			t.Errorf("%s: %+v", d, spec)
		}
	}
}

// syncBuffer collects the output of several pods.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

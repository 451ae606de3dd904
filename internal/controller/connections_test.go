package controller

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// link passes the TCP connections to a server on. One passes on no more answers once it has passed
// on so many bytes, or once all that exist have died; none is ever closed.
type link struct {
	net.Listener
	most   int
	deaths atomic.Int64
}

func newLink(t *testing.T, to string, most int) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{Listener: listener, most: most}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			t.Cleanup(func() { in.Close(); out.Close() })
			go io.Copy(out, in)
			go l.answer(in, out, l.deaths.Load())
		}
	}()
	return l
}

// answer passes answers on.
func (l *link) answer(to io.Writer, from io.Reader, born int64) {
	buffer := make([]byte, 32<<10)
	for passed := 0; passed < l.most && l.deaths.Load() == born; {
		n, err := from.Read(buffer)
		if passed += n; err != nil {
			return
		}
		if l.deaths.Load() == born {
			to.Write(buffer[:n])
		}
	}
}

// TestLeaseNeverWaits: neither a list that arrives slowly nor a dead connection delays the lease's
// renewal until it is no longer valid.
func TestLeaseNeverWaits(t *testing.T) {
	const large = 8 << 20
	var renewed atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.Contains(r.URL.Path, "leases") {
			fmt.Fprintf(w, `{"apiVersion":"v1","kind":"List","items":[],"x":"%s"}`,
				strings.Repeat("x", 2*large))
			return
		}
		if r.Method == http.MethodPut {
			renewed.Add(1)
			io.Copy(w, r.Body)
			return
		}
		fmt.Fprint(w, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":`+
			`"routekeeper","resourceVersion":"1"},"spec":{"holderIdentity":"me"}}`)
	}))
	server.EnableHTTP2, server.TLS = true, new(tls.Config)
	server.StartTLS()
	t.Cleanup(server.CloseClientConnections)
	link := newLink(t, server.Listener.Addr().String(), large)
	o := testOptions()
	o.Identity, o.Lease = "me", 3*time.Second
	o.Daemon.Log = slog.New(slog.DiscardHandler)
	to := &rest.Config{Host: "https://" + link.Addr().String(),
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	var apis [2]connection
	for i := range apis {
		var err error
		if apis[i], err = connect(to); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go apis[0].Resource(clusterRoutes).List(ctx, metav1.ListOptions{})
	l := newLease(apis[1], o)
	l.reconnect = apis[1].drop
	go l.elect(ctx)
	valid := func(what string, d time.Duration) {
		t.Helper()
		for began := time.Now(); time.Since(began) < d; time.Sleep(50 * time.Millisecond) {
			if holds, _ := l.holds(); !holds && time.Since(began) > time.Second {
				t.Fatalf("%s: the lease is not valid after %s and %d renewals", what,
					time.Since(began), renewed.Load())
			}
		}
	}
	valid("next to a slow list", 2500*time.Millisecond)
	link.deaths.Add(1)
	valid("on a dead connection", 4*time.Second)
}

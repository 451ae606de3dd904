package kubernetes

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// kubeletPort is where every kubelet listens, at its node's address.
const kubeletPort = 10250

// tunnel connects the API server with nodes and pods, whose addresses no interface of this machine
// has: a proxy on a socket that accepts HTTP CONNECT.
type tunnel struct {
	*cluster
	listener net.Listener
	kubelet  *http.Server
	tls      *tls.Config
	conns    chan net.Conn // to kubelets
}

func (c *cluster) newTunnel(socket string) (*tunnel, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	certificate, err := c.cp.ca.issue("kubelet", "system:node:simulated", "system:nodes")
	if err != nil {
		return nil, err
	}
	return &tunnel{cluster: c, listener: l, conns: make(chan net.Conn),
		tls: &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: c.cp.ca.pool,
			ClientAuth: tls.RequireAndVerifyClientCert}}, nil
}

func (t *tunnel) serve(ctx context.Context) {
	t.kubelet = &http.Server{Handler: t.kubeletHandler(), TLSConfig: t.tls,
		ReadHeaderTimeout: time.Minute}
	proxy := &http.Server{Handler: http.HandlerFunc(t.connect), ReadHeaderTimeout: time.Minute}
	kubelets := &listener{t.conns, ctx}
	stop := context.AfterFunc(ctx, func() {
		proxy.Close()
		t.kubelet.Close()
	})
	defer stop()
	go func() { _ = t.kubelet.ServeTLS(kubelets, "", "") }() // ends with the context
	_ = proxy.Serve(t.listener)                              // as well
}

// connect connects the API server with a kubelet or a pod.
func (t *tunnel) connect(w http.ResponseWriter, r *http.Request) {
	to, err := netip.ParseAddrPort(r.Host)
	if r.Method != http.MethodConnect || err != nil {
		http.Error(w, "expected CONNECT ADDRESS:PORT", http.StatusBadRequest)
		return
	}
	p := t.podAt(to.Addr())
	isKubelet := to.Port() == kubeletPort && t.nodeAt(to.Addr())
	if !isKubelet && (p == nil || !p.listens(int(to.Port()))) {
		http.Error(w, "nothing listens at "+r.Host, http.StatusBadGateway)
		return
	}
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		conn.Close()
		return
	}
	conn = unread{conn, buffered.Reader}
	if isKubelet {
		t.conns <- conn
		return
	}
	join(conn, serveOne(p))
}

func (t *tunnel) nodeAt(a netip.Addr) bool {
	return slices.ContainsFunc(t.state().Nodes, func(n emulator.KubernetesNode) bool {
		return slices.Contains(n.Addrs, a)
	})
}

// unread is a connection whose first bytes may have been read already.
type unread struct {
	net.Conn
	r *bufio.Reader
}

func (u unread) Read(p []byte) (int, error) { return u.r.Read(p) }

// listener accepts connections that are passed to it, until its context ends.
type listener struct {
	conns chan net.Conn
	ctx   context.Context
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close does nothing: the context ends it.
func (l *listener) Close() error { return nil }

// Addr returns an empty address.
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// join copies between two connections until one side has ended, and then closes both. A client that
// has sent everything may still wait for its answer, so it gets a moment longer.
func join(client, server io.ReadWriteCloser) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	_, _ = io.Copy(server, client)
	select {
	case <-answered:
	case <-time.After(2 * time.Second):
	}
	server.Close()
	client.Close()
	<-answered
}

// kubeletHandler answers as a kubelet for the API server: logs, and the streams of port-forward.
func (t *tunnel) kubeletHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", t.logs)
	mux.HandleFunc("/portForward/{namespace}/{pod}", t.portForward)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		what, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		http.Error(w, "this pod is simulated by routekeeper emulator, which does not support "+what,
			http.StatusNotImplemented)
	})
	return mux
}

// logs writes a pod's output, and with follow=true later output, too.
func (t *tunnel) logs(w http.ResponseWriter, r *http.Request) {
	p := t.pod(r.PathValue("namespace") + "/" + r.PathValue("pod"))
	if p == nil {
		http.Error(w, fmt.Sprintf("pod %s/%s does not run", r.PathValue("namespace"),
			r.PathValue("pod")), http.StatusNotFound)
		return
	}
	follow := r.URL.Query().Get("follow") == "true"
	text, at := p.log.from(0)
	if n, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil && n >= 0 {
		text = lastLines(text, n)
	}
	for {
		if _, err := w.Write(text); err != nil || !follow {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(200 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
		text, at = p.log.from(at)
	}
}

func lastLines(text []byte, n int) []byte {
	lines := strings.SplitAfter(string(text), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return []byte(strings.Join(lines[max(0, len(lines)-n):], ""))
}

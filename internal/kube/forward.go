package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// portForwardProtocol is the only version.
const portForwardProtocol = "portforward.k8s.io"

// Dial connects to a port of a pod like kubectl port-forward: through the API server and the
// kubelet on the pod's node. It needs no route to the pod, so it also works when routes are lost.
func (c *Client) Dial(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	u := c.server.JoinPath("/api/v1/namespaces/" + namespace + "/pods/" + pod + "/portforward")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return nil, err
	}
	streams, _, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport}, r,
		portForwardProtocol)
	if err != nil {
		return nil, fmt.Errorf("port-forward to pod %s: %s", pod, oneLine(err))
	}
	conn, err := forward(streams, port)
	if err != nil {
		streams.Close()
		return nil, fmt.Errorf("port-forward to pod %s: %s", pod, oneLine(err))
	}
	conn.pod = pod
	return conn, nil
}

// forward opens the two streams of a connection: one for errors, which only the kubelet writes, and
// one for data.
func forward(streams httpstream.Connection, port int) (*forwarded, error) {
	headers := http.Header{}
	headers.Set("port", strconv.Itoa(port))
	headers.Set("requestID", "0")
	headers.Set("streamType", "error")
	failed, err := streams.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	failed.Close() // this side writes nothing to it
	headers.Set("streamType", "data")
	data, err := streams.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	f := &forwarded{Stream: data, streams: streams, reported: make(chan struct{})}
	go func() {
		defer close(f.reported)
		const most = 4096
		text, err := io.ReadAll(io.LimitReader(failed, most))
		if err == nil && len(text) > 0 {
			f.failed = errors.New(string(text))
			streams.Close()
		}
	}()
	return f, nil
}

// forwarded is a connection to a pod's port.
type forwarded struct {
	httpstream.Stream
	pod      string
	streams  httpstream.Connection
	reported chan struct{} // closed when the kubelet has sent all errors
	failed   error         // after reported
}

// Read reads what the pod sends. If the kubelet could not connect, Read returns the kubelet's
// error.
func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.Stream.Read(p)
	if n == 0 && err != nil {
		select {
		case <-f.reported:
		case <-time.After(time.Second):
			return n, err
		}
		if f.failed != nil {
			return 0, fmt.Errorf("port-forward to pod %s: %s", f.pod, oneLine(f.failed))
		}
	}
	return n, err
}

// Close ends the connection, and with it the connection to the API server.
func (f *forwarded) Close() error {
	return errors.Join(f.Stream.Reset(), f.streams.Close())
}

// LocalAddr returns a placeholder: the connection runs inside another one.
func (f *forwarded) LocalAddr() net.Addr { return podAddr(f.pod) }

// RemoteAddr returns the pod.
func (f *forwarded) RemoteAddr() net.Addr { return podAddr(f.pod) }

// SetDeadline refuses: callers end a slow connection with Close.
func (f *forwarded) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline refuses.
func (f *forwarded) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline refuses.
func (f *forwarded) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// podAddr is a pod's name as an address.
type podAddr string

// Network returns the name of the port-forward network.
func (podAddr) Network() string { return "port-forward" }

// String returns the pod's name.
func (a podAddr) String() string { return string(a) }

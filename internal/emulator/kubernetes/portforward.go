package kubernetes

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// portForwardProtocol is the only version of the protocol.
const portForwardProtocol = "portforward.k8s.io"

// portForward serves kubectl port-forward: for each connection of a client come two streams of the
// same request ID, one for errors and one for data.
func (t *tunnel) portForward(w http.ResponseWriter, r *http.Request) {
	p := t.pod(r.PathValue("namespace") + "/" + r.PathValue("pod"))
	if p == nil {
		http.Error(w, "the pod does not run", http.StatusNotFound)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{portForwardProtocol}); err != nil {
		return // it has answered
	}
	streams := make(chan httpstream.Stream, 1)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r,
		func(s httpstream.Stream, sent <-chan struct{}) error {
			streams <- s
			return nil
		})
	if conn == nil {
		return // it has answered
	}
	defer conn.Close()
	conn.SetIdleTimeout(4 * time.Hour)
	var under sync.WaitGroup
	defer under.Wait()
	// by request ID, streams that wait for the request's other stream
	waiting := map[string]httpstream.Stream{}
	for {
		select {
		case <-conn.CloseChan():
			return
		case s := <-streams:
			id := s.Headers().Get("requestID")
			other := waiting[id]
			if other == nil {
				waiting[id] = s
				continue
			}
			delete(waiting, id)
			data, failed := s, other
			if data.Headers().Get("streamType") == "error" {
				data, failed = failed, data
			}
			under.Go(func() { forward(p, data, failed) })
		}
	}
}

// forward connects a stream with a port of a pod.
func forward(p *pod, data, failed httpstream.Stream) {
	defer failed.Close()
	defer data.Reset()
	port, err := portOf(data.Headers().Get("port"))
	if err == nil && !p.listens(port) {
		err = fmt.Errorf("nothing listens on port %d in pod %s", port, p.key())
	}
	if err != nil {
		fmt.Fprint(failed, err)
		return
	}
	join(data, serveOne(p))
}

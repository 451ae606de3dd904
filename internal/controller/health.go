package controller

import (
	"io"
	"net"
	"net/http"
	"time"
)

// serveHealth serves /healthz and /readyz of this replica until it is closed.
func (c *controller) serveHealth() (io.Closer, error) {
	if c.o.Health == "" {
		return io.NopCloser(nil), nil
	}
	listener, err := net.Listen("tcp", c.o.Health)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: c.health(), ReadTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	go server.Serve(listener) // it ends when it is closed
	return server, nil
}

// health answers /readyz once all objects were read, and the nodes of the cluster that the
// controller runs in, and /healthz as long as the keeper is not stuck.
func (c *controller) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !c.synced.Load() {
			http.Error(w, "the ClusterRoutes objects were not read yet",
				http.StatusServiceUnavailable)
			return
		}
		if why := c.set.whyUnplaced(); why != "" {
			http.Error(w, "it is not known in which cluster the controller runs: "+why,
				http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok") // who asks may be gone
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "ok")
	})
	return mux
}

// healthy says why this replica must be replaced: its keeper is stuck. The lease does not show
// that, because another goroutine renews it.
func (c *controller) healthy() error {
	if live := c.live.Load(); live != nil {
		return (*live)()
	}
	return nil
}

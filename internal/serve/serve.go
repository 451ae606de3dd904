// Package serve is the HTTP listener of a running keeper, behind one authentication. It receives
// events and serves the state as pages (package page) and metrics.
//
// It must not decide or write anything. An event only says which resources to check, so a forged
// one costs a few reads.
package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/openfiles"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

// Waker checks resources that may have changed. It returns how many clusters use them.
type Waker interface {
	Wake(e keeper.Event, resources ...arm.ID) int
}

// Options configure a Server.
type Options struct {
	// Address is where to listen: host:port.
	Address string
	Auth    Auth
	// CertFile and KeyFile are the certificate and its key as PEM. If both are "", the server uses
	// plain HTTP.
	CertFile, KeyFile string
	Metrics           *Metrics
	// Health answers /livez and /readyz. Nil means that they always answer ok.
	Health *Health
	// Wrote reports whether the waker itself made a change, by the correlation ID and the identity.
	// Such changes trigger nothing. Nil: there are none.
	Wrote func(call string, identities []string, resource arm.ID) bool
	// Board is what the pages show. Nil means that there are no pages.
	Board *page.Board
	Page  page.Options
	Log   *slog.Logger
	// Connections limits the open connections. 0: half of the limit of open files.
	Connections int
	// Files receives errors of opening files and connections. Nil: nothing does.
	Files *openfiles.Watch
}

// Server listens until it is closed.
type Server struct {
	opts     Options
	http     http.Server
	listener *connections
	gate     *gate
	refusals *refusals
	waker    Waker
	pages    http.Handler
	ended    chan error
}

// Start listens. Without authentication it accepts loopback addresses only. Without a waker it is a
// replica that waits: it serves only metrics and health, and refuses everything else for now.
func Start(o Options, waker Waker) (*Server, error) {
	if err := o.Auth.check(); err != nil {
		return nil, err
	}
	address, err := net.ResolveTCPAddr("tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("%q is not HOST:PORT, expected one such as 127.0.0.1:8080",
			o.Address)
	}
	if o.Auth.none() && !address.IP.IsLoopback() {
		return nil, fmt.Errorf("%s is not a loopback address: without authentication, anyone "+
			"could call it", o.Address)
	}
	g, err := newGate(o.Auth, o.Log, o.Files)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, gate: g, refusals: newRefusals(o.Log), waker: waker,
		ended: make(chan error, 1)}
	for _, text := range warnings(o, address.IP.IsLoopback()) {
		o.Log.Warn(text)
	}
	ending := make(chan struct{})
	if o.Board != nil {
		o.Page.Caller, o.Page.MayAct, o.Page.Log = nameOf, mayAct, o.Log
		s.pages = page.New(o.Board, ending, o.Page)
	}
	s.http = http.Server{
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 32 << 10,
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	s.http.RegisterOnShutdown(sync.OnceFunc(func() { close(ending) }))
	encrypted := o.CertFile != "" || o.KeyFile != ""
	if encrypted {
		if s.http.TLSConfig, err = encryption(o); err != nil {
			return nil, err
		}
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		if cause, ok := errors.AsType[*os.SyscallError](err); ok {
			err = cause.Err
		}
		return nil, fmt.Errorf("cannot listen on %s: %w", o.Address, err)
	}
	s.listener = newConnections(listener,
		cmp.Or(o.Connections, connectionLimit(openfiles.Limit())), o.Metrics.dropped.Inc, o.Log)
	if s.listener.files = o.Files; o.Files != nil {
		o.Files.Listens(s.listener.count)
	}
	s.http.ConnContext = remember
	s.http.Handler = s.handler()
	go func() {
		var err error
		if encrypted {
			err = s.http.ServeTLS(s.listener, "", "")
		} else {
			err = s.http.Serve(s.listener)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			s.ended <- err
		}
		close(s.ended)
	}()
	return s, nil
}

// Address returns the listening address.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Buttons returns the address of the page with the token that its buttons need, "" if they need
// none.
func (s *Server) Buttons() string {
	if s.gate.Token == "" || !s.gate.none() {
		return ""
	}
	scheme := "http"
	if s.opts.CertFile != "" {
		scheme = "https"
	}
	return scheme + "://" + s.Address() + "/?token=" + s.gate.Token
}

// Ended receives an error if listening ends unexpectedly.
func (s *Server) Ended() <-chan error { return s.ended }

// Close stops listening and waits a while for open requests.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		return s.http.Close()
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.healthy((*Health).Live))
	mux.HandleFunc("GET /readyz", s.healthy((*Health).Ready))
	mux.Handle("GET /metrics", s.guarded(s.opts.Metrics.Handler(), toMeasure))
	if s.waker == nil {
		mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "this replica waits for the lease: another one works",
				http.StatusServiceUnavailable)
		})
		return plain(mux)
	}
	if s.pages != nil {
		mux.Handle("/", s.guarded(s.pages, toLook))
		mux.Handle("/actions/", s.guarded(s.pages, toAct))
		mux.Handle("/actions/look", s.guarded(s.pages, toLook))
		if s.listener != nil {
			mux.Handle("GET /live", s.guarded(s.listener.limitStreams(s.pages), toLook))
		}
	}
	for _, path := range []string{"/events", "/events/{secret}"} {
		mux.HandleFunc("OPTIONS "+path, s.consent)
		mux.Handle("POST "+path, s.guarded(http.HandlerFunc(s.events), toSend))
	}
	return plain(mux)
}

// plain adds the headers of all answers.
func plain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// healthy answers 200, or 503 with one line.
func (s *Server) healthy(check func(*Health) error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if s.opts.Health != nil {
			if err := check(s.opts.Health); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	}
}

// guarded admits only callers with a right.
func (s *Server) guarded(next http.Handler, what right) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.gate.none() && !local(r.Host) {
			// With DNS rebinding, another site's page could make a browser send requests here and
			// read everything.
			http.Error(w, "without authentication, only calls to localhost are answered, not to "+
				strconv.Quote(r.Host), http.StatusMisdirectedRequest)
			return
		}
		if s.gate.none() && s.gate.takeToken(w, r) {
			return
		}
		who, err := s.gate.admits(r, r.PathValue("secret"))
		if err == nil && who.may[what] {
			if what != toSend {
				defer keepOpen(r)()
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
			return
		}
		s.refuse(w, r, what, who, err)
	})
}

// refuse answers a call that is not admitted, or has no right to what it asks for.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, what right, who caller, err error) {
	status, result := http.StatusUnauthorized, "unauthorized"
	switch {
	case err == nil && who.bySecret: // it may be a person who forgot to log in
		err = errNobody
	case err == nil && s.gate.none():
		status, result, err = http.StatusForbidden, "forbidden", errNoToken
	case err == nil:
		status, result = http.StatusForbidden, "forbidden"
		err = fmt.Errorf("%s has no right to do this; see --may-send, --may-look and --may-act",
			cmp.Or(who.name, "this caller"))
	case errors.Is(err, errBusy), errors.Is(err, errKeys):
		status, result = http.StatusServiceUnavailable, "not-compared"
		w.Header().Set("Retry-After", "1")
		if errors.Is(err, errKeys) {
			err = errKeys // only the log should have the details
		}
	case errors.Is(err, errSlow):
		status, result = http.StatusTooManyRequests, "slowed"
		w.Header().Set("Retry-After", strconv.Itoa(int(longestDelay.Seconds())))
	}
	if what == toSend {
		s.opts.Metrics.event("unauthorized")
	}
	if !errors.Is(err, errNobody) || errors.Is(err, errWrong) || what == toSend {
		// a browser's first request for a page has no password
		s.opts.Metrics.turnedAway(result)
		s.refusals.note(addressOf(r.RemoteAddr), who.name, result)
	}
	if status == http.StatusUnauthorized {
		s.gate.challenge(w.Header())
	}
	http.Error(w, err.Error(), status)
}

type callerKey struct{}

// nameOf returns the caller's name.
func nameOf(r *http.Request) string {
	who, _ := r.Context().Value(callerKey{}).(caller)
	return cmp.Or(who.name, "the page")
}

// mayAct reports whether the caller may use the buttons that change something.
func mayAct(r *http.Request) bool {
	who, _ := r.Context().Value(callerKey{}).(caller)
	return who.may[toAct]
}

// local reports whether a host is this machine's loopback name.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}

// consent answers the CloudEvents handshake: events may be sent here, but each still needs
// authorization.
func (s *Server) consent(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("WebHook-Request-Origin")
	secret := r.PathValue("secret")
	switch {
	case s.gate.secret != nil && secret != "" && !s.gate.isSecret(secret):
		s.refuse(w, r, toSend, caller{}, errWrong)
	case origin == "":
		s.opts.Metrics.event("malformed")
		http.Error(w, "the handshake lacks WebHook-Request-Origin", http.StatusBadRequest)
	default:
		w.Header().Set("WebHook-Allowed-Origin", origin)
		w.Header().Set("WebHook-Allowed-Rate", "*")
		w.Header().Set("Allow", "POST, OPTIONS")
		w.WriteHeader(http.StatusOK)
	}
}

// largestBody is the largest request that Event Grid sends.
const largestBody = 1 << 20

// events receives events.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, why, text string) {
		s.opts.Metrics.event(why)
		http.Error(w, text, status)
	}
	if !readable(r.Header.Get("Content-Type")) {
		refuse(http.StatusUnsupportedMediaType, "malformed",
			"events come as application/json or application/cloudevents+json")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refuse(http.StatusRequestEntityTooLarge, "large", "the body is larger than 1 MiB")
		return
	case err != nil:
		refuse(http.StatusBadRequest, "malformed", "the body could not be read")
		return
	}
	defer keepOpen(r)() // not before, because a body may arrive slowly
	events, err := parse(r.Header, body)
	if err != nil {
		refuse(http.StatusBadRequest, "malformed", oneLine(err.Error()))
		return
	}
	clusters, own := 0, 0
	for _, e := range events {
		if e.validation != "" {
			s.opts.Log.Info("the handshake with Event Grid succeeded")
			s.opts.Metrics.event("handshake")
			w.Header().Set("Content-Type", "application/json")
			// strings always encode
			_ = json.NewEncoder(w).Encode(map[string]string{"validationResponse": e.validation})
			return
		}
		named := len(e.Resources)
		e.Resources = slices.DeleteFunc(e.Resources, func(id arm.ID) bool {
			return s.opts.Wrote != nil && s.opts.Wrote(e.Correlation, e.identities, id)
		})
		own += named - len(e.Resources)
		clusters += s.waker.Wake(e.Event, e.Resources...)
	}
	s.opts.Log.Debug("events", "number", len(events), "clusters", clusters)
	switch {
	case clusters > 0:
		s.opts.Metrics.event("woke")
	case own > 0:
		s.opts.Metrics.event("own")
	default:
		s.opts.Metrics.event("unknown")
	}
	w.WriteHeader(http.StatusOK)
}

package hello

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	_ "embed"

	"golang.org/x/sync/errgroup"
)

// Port is the port of every pod of the demo.
const Port = 8080

// callTime is how long a call between pods may take. Dropped packets get no answer at all. A lost
// packet is sent again after one second and after three.
const callTime = 5 * time.Second

// Self identifies a pod.
type Self struct {
	Pod       string `json:"pod"`
	Namespace string `json:"namespace"`
	Node      string `json:"node"`
	Address   string `json:"address"`
}

// Result is the result of a call.
type Result string

const (
	Answered Result = "answered" // by a pod of the demo, or by something else
	Refused  Result = "refused"  // by the machine with the address: packets arrive and come back
	Timeout  Result = "timeout"  // there was no answer in time
	Failed   Result = "failed"   // in any other way
)

// Call is a call from one pod to an address.
type Call struct {
	To     string `json:"to"`
	Result Result `json:"result"`
	// Millis is the time from connecting to the whole answer.
	Millis float64 `json:"millis"`
	Error  string  `json:"error,omitempty"`
	// Who is the pod that answered, if it belongs to the demo.
	Who *Self `json:"who,omitempty"`
}

// Arrived reports whether packets arrived there and came back.
func (c Call) Arrived() bool { return c.Result == Answered || c.Result == Refused }

// Server is the program in the demo's pods.
type Server struct {
	Self Self
	// Dial connects to another pod.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Peers are the addresses of the demo's pods.
	Peers func(ctx context.Context) ([]netip.Addr, error)
	// Limit ends a call after a time; nil is context.WithTimeout.
	Limit func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	// Log receives a line for each call.
	Log io.Writer
}

// Handler serves the page (/), who this pod is (/self), calls to an address
// (/call?to=ADDRESS&within=DURATION) and to all other pods (/peers), and /healthz.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /self", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.Self) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /call", func(w http.ResponseWriter, r *http.Request) {
		to, err := netip.ParseAddr(r.URL.Query().Get("to"))
		if err != nil {
			http.Error(w, "to: expected an IP address: "+err.Error(), http.StatusBadRequest)
			return
		}
		within := callTime
		if text := r.URL.Query().Get("within"); text != "" {
			if within, err = time.ParseDuration(text); err != nil || within <= 0 ||
				within > callTime {
				http.Error(w, fmt.Sprintf("within: expected a duration up to %s", callTime),
					http.StatusBadRequest)
				return
			}
		}
		answer(w, s.call(r.Context(), to, within))
	})
	mux.HandleFunc("GET /peers", func(w http.ResponseWriter, r *http.Request) {
		calls, err := s.callPeers(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		answer(w, calls)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(s.Log, "%s %s %s from %s\n", time.Now().UTC().Format(time.RFC3339), r.Method,
			r.URL, r.RemoteAddr)
		mux.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that went away needs no answer
}

// call calls an address. It only calls the demo's own port, so that the page gives access to
// nothing else.
func (s *Server) call(ctx context.Context, to netip.Addr, within time.Duration) (c Call) {
	c.To = to.String()
	limit := s.Limit
	if limit == nil {
		limit = context.WithTimeout
	}
	ctx, cancel := limit(ctx, within)
	defer cancel()
	start := time.Now()
	defer func() {
		c.Millis = float64(time.Since(start).Microseconds()) / 1000
		fmt.Fprintf(s.Log, "%s called %s: %s %.1f ms\n", time.Now().UTC().Format(time.RFC3339), to,
			c.Result, c.Millis)
	}()
	dial := func(_ context.Context, network, address string) (net.Conn, error) {
		return s.Dial(ctx, network, address) // the transport's own context outlives the call
	}
	client := http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	url := "http://" + net.JoinHostPort(to.String(), strconv.Itoa(Port)) + "/self"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		c.Result, c.Error = Failed, err.Error()
		return c
	}
	response, err := client.Do(request)
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		c.Result, c.Error = Refused, "connection refused"
		return c
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		c.Result, c.Error = Timeout, fmt.Sprintf("no answer within %s", within)
		return c
	case err != nil:
		c.Result, c.Error = Failed, err.Error()
		return c
	}
	defer response.Body.Close()
	c.Result = Answered
	var who Self
	if json.NewDecoder(io.LimitReader(response.Body, 1<<16)).Decode(&who) == nil && who.Pod != "" {
		c.Who = &who
	}
	return c
}

// callPeers calls all other pods of the demo, several at a time.
func (s *Server) callPeers(ctx context.Context) ([]Call, error) {
	peers, err := s.Peers(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for the other pods: %w", err)
	}
	slices.SortFunc(peers, netip.Addr.Compare)
	peers = slices.DeleteFunc(peers, func(a netip.Addr) bool {
		return a.String() == s.Self.Address
	})
	calls := make([]Call, len(peers))
	var all errgroup.Group
	all.SetLimit(16)
	for i, to := range peers {
		all.Go(func() error {
			calls[i] = s.call(ctx, to, callTime)
			return nil
		})
	}
	return calls, all.Wait()
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	calls, err := s.callPeers(r.Context())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	shown := struct {
		Self
		Calls []Call
		Error error
	}{s.Self, calls, err}
	_ = pageTemplate.Execute(w, shown) // a client that went away needs no page
}

// Lookup finds the demo's pods by the name of its headless service.
func Lookup(name string) func(context.Context) ([]netip.Addr, error) {
	return func(ctx context.Context) ([]netip.Addr, error) {
		all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		for i := range all {
			all[i] = all[i].Unmap()
		}
		return all, err
	}
}

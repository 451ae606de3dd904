package kernel

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Object is a JSON object. Documents are stored as they were sent, not as typed models, which would
// drop fields they do not know.
type Object = map[string]any

// Call is one request while it is handled.
type Call struct {
	Method  string
	Path    []string // segments, as sent
	Query   map[string][]string
	Header  http.Header
	Body    []byte
	Base    string    // scheme://host, for absolute links
	Version string    // api-version
	IDs     [2]string // request and correlation ID

	// The caller, or the reason why it is unknown.
	Who     Principal
	Unknown *Failure
	Secret  bool // bodies are not logged
	// Filtered is set for a list that the caller may read only in part.
	Filtered bool
	// AsOf is the date as of which the call is answered, zero for today.
	asOf time.Time
	// LocationOnly is set for an operation that clients follow only by its Location.
	LocationOnly bool
	// Found is what a service found out for the call before the kernel took the lock.
	Found any
	// Fault is the fault of a call that takes effect.
	Fault *Fault
}

// CallBy returns a call that a service makes in the name of a principal.
func CallBy(who Principal, method string, id arm.ID, version string, body []byte) *Call {
	return &Call{Method: method, Path: strings.Split(strings.Trim(string(id), "/"), "/"),
		Query:  map[string][]string{"api-version": {version}},
		Header: http.Header{}, Body: body, Base: "https://localhost",
		Version: strings.ToLower(version), Who: who,
		IDs: [2]string{uuid.NewString(), uuid.NewString()}}
}

// ID returns the ID of the first n words of the path.
func (c *Call) ID(n int) arm.ID { return arm.ID("/" + strings.Join(c.Path[:n], "/")) }

// Key returns the path as the store keys it.
func (c *Call) Key() string { return "/" + strings.ToLower(strings.Join(c.Path, "/")) }

func (c *Call) Param(name string) string {
	return url.Values(c.Query).Get(KeyIn(c.Query, name))
}

// nextLink returns the absolute link to the next page of a list.
func (c *Call) nextLink(token string) string {
	q := url.Values{"api-version": {c.Version}, "$skiptoken": {token}}
	for _, kept := range []string{"$filter", "$expand", "$top", "$select"} {
		if value := c.Param(kept); value != "" {
			q.Set(kept, value)
		}
	}
	return c.Base + (&url.URL{Path: string(c.ID(len(c.Path))), RawQuery: q.Encode()}).String()
}

// PageEnding answers with the given part of a list; a token means that there is more.
func (c *Call) PageEnding(values any, token string) Reply {
	doc := Object{"value": values}
	if token != "" {
		doc["nextLink"] = c.nextLink(token)
	}
	return OK(doc)
}

// Reply is an answer: a status, additional headers, and a JSON body.
type Reply struct {
	Status int
	Header map[string]string
	Body   []byte
}

// Set sets a header.
func (r *Reply) Set(name, value string) {
	if r.Header == nil {
		r.Header = map[string]string{}
	}
	r.Header[name] = value
}

// Failure is an error answer with ARM's code.
type Failure struct {
	Status     int    `json:"status"`
	Code       string `json:"code"`
	Message    string `json:"message"`
	RetryAfter int    `json:"-"`                 // seconds
	Details    []any  `json:"details,omitempty"` // of the parts that failed
	More       Object `json:"more,omitempty"`    // further fields of the error
}

func Fail(status int, code, format string, args ...any) *Failure {
	return &Failure{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Bad returns the refusal of a request that is wrong in itself.
func Bad(code, format string, args ...any) *Failure {
	return Fail(http.StatusBadRequest, code, format, args...)
}

// Unparsable returns the refusal of a request that is not of the form of its type.
func Unparsable(format string, args ...any) *Failure {
	return Bad("InvalidRequestFormat", "Cannot parse the request: "+format, args...)
}

func (f *Failure) Reply() Reply {
	r := Reply{Status: f.Status, Body: Encode(Object{"error": f.Document()})}
	if f.RetryAfter > 0 {
		r.Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	return r
}

func (f *Failure) Document() Object {
	doc := Object{"code": f.Code, "message": f.Message}
	if f.Details != nil {
		doc["details"] = f.Details
	}
	maps.Copy(doc, f.More)
	return doc
}

// request is a call that the kernel answers.
type request struct {
	*Kernel
	c *Call
}

func (k *Kernel) on(c *Call) request { return request{k, c} }

// MaxBody is how much of a body is read: ARM takes 4 MB.
const MaxBody = 4 << 20

func (k *Kernel) Serve(w http.ResponseWriter, r *http.Request, control bool) {
	start := time.Now()
	if r.Body == nil { // a request that was not received by a server
		r.Body = http.NoBody
	}
	if k.Host.TakesOver(w, r) {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	c := k.NewCall(r, body)
	c.asOf = k.Opts.asOfDate(r.Header)
	if len(c.Path) > 0 && c.Path[0] == "_emulator" && control {
		k.Control(w, c)
		return
	}

	hosted := k.Host.Hosts(c)
	if hosted {
		c.Who, c.Unknown = k.Host.User(c)
	} else {
		c.Who, c.Unknown = k.Directory.Authenticate(c.Header.Get("Authorization"), c.Base)
	}
	fault := k.Faults.Take(c, false)
	var answer Reply
	switch {
	case fault != nil && fault.Before():
		if fault.Hold == "before" {
			k.Faults.hold(r.Context(), fault)
		}
		if fault.Status == 0 {
			k.Requests.Add(c, start, Reply{}, "cut before")
			Cut(w)
			return
		}
		if answer = fault.Failure().Reply(); hosted {
			answer = k.Host.Refusal(fault.Failure())
		}
	case hosted && k.Host.Silent(c):
		k.Requests.Add(c, start, Reply{}, "no API server")
		Cut(w)
		return
	default:
		c.Fault = fault
		answer = k.on(c).answer()
	}
	note := ""
	if fault != nil && fault.After() {
		note = "cut after"
		if fault.Hold == "after" {
			k.Faults.hold(r.Context(), fault)
		}
	}
	k.Requests.Add(c, start, answer, note)
	if note != "" {
		Cut(w)
		return
	}
	Write(w, c, answer)
}

func (k *Kernel) NewCall(r *http.Request, body []byte) *Call {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	c := &Call{
		Method: r.Method, Query: r.URL.Query(), Header: r.Header, Body: body,
		Base: scheme + "://" + r.Host,
		// ARM tolerates doubled and trailing slashes.
		Path: strings.FieldsFunc(r.URL.Path, func(r rune) bool { return r == '/' }),
		IDs:  [2]string{uuid.NewString(), r.Header.Get("x-ms-correlation-request-id")},
	}
	if c.IDs[1] == "" {
		c.IDs[1] = uuid.NewString()
	}
	for _, s := range k.services {
		if s.Spell != nil {
			c.Path = s.Spell(c.Path)
		}
	}
	c.Version = strings.ToLower(c.Param("api-version"))
	return c
}

// answer returns the answer to a call, without faults.
func (q request) answer() (answer Reply) {
	defer func() { // ARM has already recovered from a panic of its own, and undone the call
		if reason := recover(); reason != nil {
			answer = q.panicked(reason).Reply()
		}
	}()
	if q.Host.Hosts(q.c) {
		return q.Host.Answer(q.c)
	}
	if login, ok := q.Directory.Login(q.c); ok {
		q.c.Secret = true
		return login
	}
	if q.c.Unknown != nil {
		return q.challenge(q.c.Unknown.Reply())
	}
	if graph, f, asked := q.Directory.Graph(q.c); asked {
		if f != nil {
			graph = f.Reply()
		}
		return graph
	}
	remaining, f := q.Buckets.take(q.c, q.KindOf(arm.ID(q.c.Key())).Gets)
	if f == nil {
		answer, f = q.arm()
	}
	if f != nil {
		answer = f.Reply()
	}
	for name, v := range remaining {
		answer.Set(name, v)
	}
	return q.challenge(answer)
}

// challenge adds the login endpoint to a 401: that of the subscription's tenant.
func (q request) challenge(answer Reply) Reply {
	if answer.Status == http.StatusUnauthorized {
		tenant := q.Opts.TenantID
		if len(q.c.Path) > 1 && strings.EqualFold(q.c.Path[0], "subscriptions") {
			tenant = q.Opts.TenantOf(q.c.Path[1])
		}
		answer.Set("WWW-Authenticate", `Bearer authorization_uri="`+q.c.Base+"/"+tenant+
			`", error="invalid_token", error_description="The access token is missing or invalid."`)
	}
	return answer
}

func Write(w http.ResponseWriter, c *Call, r Reply) {
	h := w.Header()
	h.Set("x-ms-request-id", c.IDs[0])
	h.Set("x-ms-correlation-request-id", c.IDs[1])
	h.Set("Cache-Control", "no-cache")
	for k, v := range r.Header {
		h.Set(k, v)
	}
	if r.Body != nil {
		h.Set("Content-Type", "application/json; charset=utf-8")
		h.Set("Content-Length", strconv.Itoa(len(r.Body)))
	}
	w.WriteHeader(r.Status)
	if c.Method != http.MethodHead {
		_, _ = w.Write(r.Body) // a client that closed the connection needs no answer
	}
}

// Cut ends the connection without an answer.
func Cut(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			conn.Close()
			return
		}
	}
	// HTTP/2 cannot be hijacked; the server resets the stream on this value
	panic(http.ErrAbortHandler)
}

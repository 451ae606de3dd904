package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// object is a JSON object. Documents are stored as what was sent, not as typed models, which would
// drop the fields they do not know.
type object = map[string]any

// call is one request on its way through.
type call struct {
	method  string
	path    []string // segments, as sent
	query   map[string][]string
	header  http.Header
	body    []byte
	base    string    // scheme://host, for absolute links
	version string    // api-version
	ids     [2]string // request and correlation ID

	// who calls, and why that cannot be told.
	who     Principal
	unknown *failure
	secret  bool // what is sent and answered is not for the log
	// filtered is for a list of which the caller may read only a part.
	filtered bool
	// asOf is the date as of which Azure is to answer, zero for today.
	asOf time.Time
	// unlinked is why a linked template of a deployment could not be downloaded.
	unlinked *failure
	// health is what the probes of a gateway found that the call asks for.
	health map[Probe][2]string
	// fault is what goes wrong with a call that takes effect.
	fault *Fault
}

// key returns the path as the store keys it.
func (c *call) key() string { return "/" + strings.ToLower(strings.Join(c.path, "/")) }

func (c *call) param(name string) string {
	for k, v := range c.query {
		if strings.EqualFold(k, name) && len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

// link returns an absolute link to the same path with other query parameters.
func (c *call) link(query map[string]string) string {
	q := url.Values{"api-version": {c.version}}
	for k, v := range query {
		q.Set(k, v)
	}
	return c.base + (&url.URL{Path: "/" + strings.Join(c.path, "/"), RawQuery: q.Encode()}).String()
}

// reply is an answer: a status, headers beside the usual ones, and a JSON body.
type reply struct {
	status int
	header map[string]string
	body   []byte
}

// failure is an error answer with ARM's code.
type failure struct {
	status     int
	code       string
	message    string
	retryAfter int   // seconds
	details    []any // of the parts that failed
}

func fail(status int, code, format string, args ...any) *failure {
	return &failure{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

func (f *failure) reply() reply {
	r := reply{status: f.status, header: map[string]string{},
		body: encode(object{"error": f.document()})}
	if f.retryAfter > 0 {
		r.header["Retry-After"] = strconv.Itoa(f.retryAfter)
	}
	return r
}

func (f *failure) document() object {
	doc := object{"code": f.code, "message": f.message}
	if f.details != nil {
		doc["details"] = f.details
	}
	return doc
}

// encode writes JSON as Azure does: no HTML escapes.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only decoded JSON and plain values get here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decodeObject reads a request body; numbers stay as they were written.
func decodeObject(body []byte) (object, *failure) {
	var o object
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&o); err != nil || o == nil {
		return nil, fail(http.StatusBadRequest, "InvalidRequestContent",
			"The request content was invalid and could not be deserialized: '%v'.", err)
	}
	return o, nil
}

// maxBody is how much of a request is read: ARM takes 4 MB.
const maxBody = 4 << 20

func (k *kernel) serve(w http.ResponseWriter, r *http.Request, control bool) {
	start := time.Now()
	if r.Body == nil { // a request that no server made
		r.Body = http.NoBody
	}
	if k.aks.kubernetesBy != nil && newCall(r, nil).toAPIServer() {
		k.aks.serveKubernetes(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	c := newCall(r, body)
	c.asOf = k.asOfDate(r.Header)
	if len(c.path) > 0 && c.path[0] == "_emulator" && control {
		k.control.answer(w, c)
		return
	}

	if c.toAPIServer() {
		c.who, c.unknown = k.aks.kubernetesUser(c)
	} else {
		c.who, c.unknown = k.entra.identity.authenticate(c.header.Get("Authorization"), c.base)
	}
	fault := k.faults.take(c, false)
	var answer reply
	switch {
	case fault != nil && fault.before():
		if fault.Hold == "before" {
			fault.wait(r.Context())
		}
		if fault.Status == 0 {
			k.requests.add(c, start, reply{}, "cut before")
			cut(w)
			return
		}
		answer = c.refusal(fault.failure())
	case c.toAPIServer() && k.aks.silent(c):
		k.requests.add(c, start, reply{}, "no API server")
		cut(w)
		return
	default:
		c.fault = fault
		answer = k.answer(c)
	}
	note := ""
	if fault != nil && fault.after() {
		note = "cut after"
		if fault.Hold == "after" {
			fault.wait(r.Context())
		}
	}
	k.requests.add(c, start, answer, note)
	if note != "" {
		cut(w)
		return
	}
	write(w, c, answer)
}

func newCall(r *http.Request, body []byte) *call {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	c := &call{
		method: r.Method, query: r.URL.Query(), header: r.Header, body: body,
		base: scheme + "://" + r.Host,
		// ARM tolerates doubled and trailing slashes.
		path: strings.FieldsFunc(r.URL.Path, func(r rune) bool { return r == '/' }),
		ids:  [2]string{uuid.NewString(), r.Header.Get("x-ms-correlation-request-id")},
	}
	if c.ids[1] == "" {
		c.ids[1] = uuid.NewString()
	}
	c.path = deploymentPath(c.path)
	c.version = strings.ToLower(c.param("api-version"))
	return c
}

// answer is what the world behind the wire says, faults aside.
func (k *kernel) answer(c *call) (answer reply) {
	defer func() { // what ARM does has been recovered, and undone, already
		if reason := recover(); reason != nil {
			k.panicked(c, reason)
			answer = fail(http.StatusInternalServerError, "InternalServerError",
				"The local Azure failed at %s %s: %v. This is a bug in it; its log has more.",
				c.method, c.key(), reason).reply()
		}
	}()
	if c.toAPIServer() {
		return k.aks.kubernetes(c)
	}
	if login, ok := k.entra.login(c); ok {
		c.secret = true
		return login
	}
	if c.unknown != nil {
		return k.challenge(c, c.unknown.reply())
	}
	if graph, f, asked := k.entra.graph(c); asked {
		if f != nil {
			graph = f.reply()
		}
		return graph
	}
	remaining, f := k.buckets.take(c)
	if f == nil {
		answer, f = k.arm(c)
	}
	if f != nil {
		answer = f.reply()
	}
	if answer.header == nil {
		answer.header = map[string]string{}
	}
	for name, v := range remaining {
		answer.header[name] = v
	}
	return k.challenge(c, answer)
}

// challenge adds to a 401 where to log in: at the subscription's tenant.
func (k *kernel) challenge(c *call, answer reply) reply {
	if answer.status == http.StatusUnauthorized {
		tenant := k.opts.TenantID
		if len(c.path) > 1 && strings.EqualFold(c.path[0], "subscriptions") {
			tenant = k.tenantOf(c.path[1])
		}
		answer.header["WWW-Authenticate"] = `Bearer authorization_uri="` + c.base + "/" + tenant +
			`", error="invalid_token", error_description="The access token is missing or invalid."`
	}
	return answer
}

func write(w http.ResponseWriter, c *call, r reply) {
	h := w.Header()
	h.Set("x-ms-request-id", c.ids[0])
	h.Set("x-ms-correlation-request-id", c.ids[1])
	h.Set("Cache-Control", "no-cache")
	for k, v := range r.header {
		h.Set(k, v)
	}
	if r.body != nil {
		h.Set("Content-Type", "application/json; charset=utf-8")
		h.Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	w.WriteHeader(r.status)
	if c.method != http.MethodHead {
		_, _ = w.Write(r.body) // a client that went away is its own problem
	}
}

// cut ends the connection without an answer.
func cut(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			conn.Close()
			return
		}
	}
	// HTTP/2 cannot be hijacked; the server knows this value and resets the stream
	panic(http.ErrAbortHandler)
}

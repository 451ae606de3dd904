// Package azure is the only access to Azure Resource Manager. It reads what a snapshot needs with
// the fewest calls, and changes one resource at a time: it reads the resource, puts the document
// back whole with one thing changed, and reads it again.
//
// It must not decide anything about routes. The caller passes a function that edits the document.
// The results are raw bytes and types of inventory.
package azure

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azarm "github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	armruntime "github.com/Azure/azure-sdk-for-go/sdk/azcore/arm/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"routekeeper.dev/routekeeper/internal/arm"
)

// The api-versions of all calls. A GET at an older version hides newer fields, and a PUT at that
// version drops them. So reads and writes of one resource use the same version.
const (
	networkVersion  = "2025-05-01"
	clusterVersion  = "2025-10-01"
	scaleSetVersion = "2025-04-01"
	// the newest at which this list exists (cloud-provider-azure uses it)
	scaleSetNICsVersion = "2018-10-01"
	activityVersion     = "2015-04-01"
	lockVersion         = "2020-05-01"
	subscriptionVersion = "2022-12-01"
)

// apiVersion returns the api-version for a resource type.
func apiVersion(id arm.ID) string {
	if version, err := buildVersion(id); err == nil {
		return version
	}
	return networkVersion
}

// Options configure how to reach ARM.
type Options struct {
	// Cloud is the Azure cloud; the zero value is the public one.
	Cloud cloud.Configuration
	// Transport sends the requests. Nil: the SDK's own.
	Transport policy.Transporter
	// AllowHTTP allows tokens over plain HTTP, for a local Azure emulator.
	AllowHTTP bool
	// Version is this program's version, for the User-Agent.
	Version string
	// Log receives waits and retries. Nil: nothing.
	Log *slog.Logger
	// Called is called for each call, including retries, from several goroutines at once. Nil: not
	// called.
	Called func(Call)
	// Begins is called when a call begins. The function that it returns is called when the call
	// ends. Nil: not called.
	Begins func(method, path string) (ends func())
	// Progress is called with a kind, such as clusters, how many of it were read, and how many
	// there are. Nil: not called.
	Progress func(done, of int, kind string)
}

// Call is one call and its answer.
type Call struct {
	Method       string
	Status       int // 0: there was no answer
	Subscription string
	// Remaining is the number of tokens that remain for calls of this Kind (reads, writes, deletes)
	// to the subscription, as Azure reports it, or -1 if it does not.
	Remaining int
	Kind      string
	Err       error // why there was no answer
}

// Client calls ARM. It is safe for concurrent use.
type Client struct {
	*caller
	*lister
	*documents
	surveyor
	rightsReader
	monitor
	builder
}

// caller makes single calls.
type caller struct {
	endpoint string
	origin   *url.URL
	pipeline runtime.Pipeline
	// credential logs in for audience. The pipeline has its own copy. This one identifies the
	// caller.
	credential azcore.TokenCredential
	audience   string
	log        *slog.Logger
	called     func(Call)
	begins     func(method, path string) func()
	progress   func(done, of int, kind string)
	throttle   *throttle

	unanswered, throttled, failed rare // what every call of an outage logs

	mu sync.Mutex
	// silentUntil is set when all tries of a call got no answer.
	silentUntil time.Time
	me          identity // of the last login
}

// New returns a client that logs in with the given credential.
func New(credential azcore.TokenCredential, o Options) (*Client, error) {
	if o.Cloud.ActiveDirectoryAuthorityHost == "" {
		o.Cloud = cloud.AzurePublic
	}
	endpoint := strings.TrimSuffix(o.Cloud.Services[cloud.ResourceManager].Endpoint, "/")
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Called == nil {
		o.Called = func(Call) {}
	}
	if o.Begins == nil {
		o.Begins = func(string, string) func() { return func() {} }
	}
	if o.Progress == nil {
		o.Progress = func(int, int, string) {}
	}
	call := &caller{
		called: o.Called, begins: o.Begins, progress: o.Progress,
		endpoint: endpoint, origin: u, log: o.Log, throttle: newThrottle(),
		credential: credential, audience: o.Cloud.Services[cloud.ResourceManager].Audience +
			"/.default",
	}
	lists := &lister{caller: call, lists: map[string]listCost{}}
	docs := &documents{guards: guardTags{of: map[string]*string{}}, activityLog: &activityLog{
		lister: lists, ownWrites: ownWrites{writes: map[string]ownWrite{}},
		networkLog: networkLog{pages: map[string]*logPage{}}}}
	docs.reader = newReader(docs)
	c := &Client{caller: call, lister: lists, documents: docs,
		surveyor: surveyor{docs}, rightsReader: rightsReader{call}, monitor: monitor{builder{call}},
		builder: builder{call}}
	options := azarm.ClientOptions{DisableRPRegistration: true}
	options.Cloud = o.Cloud
	options.Transport = o.Transport
	options.InsecureAllowCredentialWithHTTP = o.AllowHTTP
	options.Retry = readRetries
	options.PerCallPolicies = []policy.Policy{c.throttle}
	options.PerRetryPolicies = []policy.Policy{policyFunc(c.count)}
	if c.pipeline, err = armruntime.NewPipeline("routekeeper", o.Version, credential,
		runtime.PipelineOptions{}, &options); err != nil {
		return nil, err
	}
	return c, nil
}

// readRetries are for GETs: 408, 5xx and lost connections are retried, after the Retry-After if
// there is one. The throttle retries after a 429.
var readRetries = policy.RetryOptions{MaxRetries: 3, RetryDelay: time.Second,
	MaxRetryDelay: 2 * time.Minute, TryTimeout: tryTimeout,
	StatusCodes: []int{http.StatusRequestTimeout, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}}

// writeRetries are for writes that are safe to repeat: they are also retried after a 429.
var writeRetries = policy.RetryOptions{MaxRetries: 3, RetryDelay: time.Second,
	MaxRetryDelay: 2 * time.Minute, TryTimeout: tryTimeout}

// once is for other writes: only a fresh read of the resource shows what to do after a failure.
var once = policy.RetryOptions{MaxRetries: -1, TryTimeout: tryTimeout}

// tryTimeout is how long one call may take.
const tryTimeout = time.Minute

type policyFunc func(*policy.Request) (*http.Response, error)

func (f policyFunc) Do(r *policy.Request) (*http.Response, error) { return f(r) }

func (c *caller) count(r *policy.Request) (*http.Response, error) {
	m := mannerOf(r.Raw().Context())
	m.calls.add(r.Raw(), m.polling)
	defer c.begins(r.Raw().Method, r.Raw().URL.Path)()
	response, err := r.Next()
	if err == nil {
		noteTry(r.Raw().Context(), response.StatusCode)
	}
	c.called(callOf(r.Raw(), response, err))
	switch path := r.Raw().URL.Path; {
	case err != nil && r.Raw().Context().Err() == nil:
		c.unanswered.log(r.Raw().Context(), c.log, slog.LevelWarn, "no answer from Azure",
			"method", r.Raw().Method, "path", path, "error", gist(err))
	case err != nil:
	case response.StatusCode == http.StatusTooManyRequests:
		wait := retryAfter(response)
		c.throttled.log(r.Raw().Context(), c.log, waitLevel(wait), "Azure asks to wait",
			"method", r.Raw().Method, "path", path, "retryAfter", wait.String())
	case response.StatusCode >= 500:
		c.failed.log(r.Raw().Context(), c.log, slog.LevelWarn,
			"Azure answers with a server error", "method", r.Raw().Method, "path", path,
			"status", response.StatusCode)
	}
	return response, err
}

func callOf(r *http.Request, response *http.Response, err error) Call {
	kind := callKind(r.Method)
	call := Call{Method: r.Method, Subscription: subscriptionOf(r.URL.Path), Kind: kind,
		Remaining: -1, Err: err}
	if err == nil {
		call.Status = response.StatusCode
		if left, told := remaining(response, kind); told {
			call.Remaining = left
		}
	}
	return call
}

// get reads a URL below the endpoint, once the throttle allows it.
func (c *caller) get(ctx context.Context, address string) (Reply, error) {
	if u, err := url.Parse(address); err == nil {
		if err := c.throttle.wait(ctx, http.MethodGet, u.Path); err != nil {
			return Reply{}, err
		}
	}
	if sending := mannerOf(ctx).sending; sending != nil {
		sending(idOf(address))
	}
	if c.isSilent() {
		ctx = policy.WithRetryOptions(ctx, once)
	}
	limited, cancel, late := limit(ctx)
	defer cancel()
	a, err := c.send(limited, http.MethodGet, address, nil, "")
	if err != nil {
		if fault := late(idOf(address)); fault != nil {
			return Reply{}, fault
		}
	}
	var fault *Error
	c.noteSilence(errors.As(err, &fault) && fault.Status == 0 && !fault.login())
	return a, err
}

// silence is how long calls are tried only once after all tries of a call got no answer: retrying
// the other calls of a check would only cost time.
const silence = 10 * time.Second

func (c *caller) isSilent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.silentUntil)
}

func (c *caller) noteSilence(silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silentUntil = time.Time{}
	if silent {
		c.silentUntil = time.Now().Add(silence)
	}
}

// getResource reads a resource at its api-version.
func (c *caller) getResource(ctx context.Context, id arm.ID) (arm.Document, error) {
	a, err := c.get(ctx, c.address(id, "", apiVersion(id)))
	if err != nil {
		return arm.Document{}, err
	}
	return a.Document(id)
}

// address returns the URL of a resource or of something below it.
func (c *caller) address(id arm.ID, below, version string) string {
	u := url.URL{Path: string(id) + below}
	return c.endpoint + u.EscapedPath() + "?api-version=" + version
}

// send makes one call and turns every answer but a success into an *Error.
func (c *caller) send(ctx context.Context, method, address string, body []byte,
	ifMatch string) (Reply, error) {
	a, err := c.transmit(ctx, Request{method, address, body, ifMatch})
	if err != nil {
		return Reply{}, err
	}
	if fault := a.Fault(); fault != nil {
		return Reply{}, fault
	}
	return a, nil
}

// transmit makes one call and returns any answer. A call without an answer returns an *Error.
func (c *caller) transmit(ctx context.Context, r Request) (a Reply, err error) {
	a.Request, a.Sent = r, time.Now()
	fault := &Error{Method: r.Method, ID: idOf(r.Address)}
	// Follow a link from an answer only to the origin that our token is for.
	if u, err := url.Parse(r.Address); err != nil || !sameOrigin(u, c.origin) {
		fault.Status, fault.Message = http.StatusOK, "a link in an answer leads to another host: "+
			r.Address
		return a, fault
	}
	request, err := runtime.NewRequest(ctx, r.Method, r.Address)
	if err != nil {
		return a, err
	}
	request.Raw().Header.Set("Accept", "application/json")
	if r.Body != nil {
		if err := request.SetBody(streaming.NopCloser(bytes.NewReader(r.Body)),
			"application/json"); err != nil {
			return a, err
		}
	}
	if r.IfMatch != "" {
		request.Raw().Header.Set("If-Match", r.IfMatch)
	}
	response, err := c.pipeline.Do(request)
	if err == nil {
		a.Status, a.Header = response.StatusCode, response.Header
		a.Body, err = runtime.Payload(response) // already in memory: no copy
	}
	if err != nil && ctx.Err() != nil {
		return a, ctx.Err()
	}
	if err != nil {
		fault.Err, fault.Message = err, gist(err)
		return a, fault
	}
	return a, nil
}

// sameOrigin compares scheme, host (ignoring case) and port (explicit or not).
func sameOrigin(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		switch {
		case u.Port() != "":
			return u.Port()
		case u.Scheme == "http":
			return "80"
		}
		return "443"
	}
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) &&
		port(a) == port(b)
}

// idOf returns the resource that an address names, for messages.
func idOf(address string) arm.ID {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	if id, err := arm.ParseID(u.Path); err == nil {
		return id
	}
	return arm.ID(u.Path)
}

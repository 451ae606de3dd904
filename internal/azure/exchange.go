package azure

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Request is one call as it is sent. Address is a path below the endpoint, or a link from an
// answer.
type Request struct {
	Method, Address string
	Body            []byte
	IfMatch         string
}

// Reply is the answer, whatever its status.
type Reply struct {
	Request
	Sent   time.Time
	Status int
	Header http.Header
	Body   []byte
}

// Exchange sends one call once and returns any answer: no status is an error, and nothing is
// retried. Like every call, it waits while Azure throttles.
func (c *caller) Exchange(ctx context.Context, r Request) (Reply, error) {
	if strings.HasPrefix(r.Address, "/") {
		r.Address = c.endpoint + r.Address
	}
	reply := Reply{Request: r, Sent: time.Now()}
	fault := &Error{Method: r.Method, ID: idOf(r.Address)}
	u, err := url.Parse(r.Address)
	if err != nil || !sameOrigin(u, c.origin) {
		fault.Status, fault.Message = http.StatusOK, "a link in an answer leads to another host"
		return reply, fault
	}
	if err := c.throttle.wait(ctx, r.Method, u.Path); err != nil {
		return reply, err
	}
	// A limit on the answer prevents a throttled GET from being sent again.
	ctx = withCall(policy.WithRetryOptions(ctx, once), func(m *manner) { m.answer = tryTimeout })
	request, err := runtime.NewRequest(ctx, r.Method, r.Address)
	if err != nil {
		return reply, err
	}
	request.Raw().Header.Set("Accept", "application/json")
	if r.Body != nil {
		body := streaming.NopCloser(bytes.NewReader(r.Body))
		if err := request.SetBody(body, "application/json"); err != nil {
			return reply, err
		}
	}
	if r.IfMatch != "" {
		request.Raw().Header.Set("If-Match", r.IfMatch)
	}
	reply.Sent = time.Now()
	response, err := c.pipeline.Do(request)
	if err == nil {
		reply.Status, reply.Header = response.StatusCode, response.Header
		reply.Body, err = runtime.Payload(response)
	}
	if err != nil {
		if ctx.Err() != nil {
			return reply, ctx.Err()
		}
		fault.Err, fault.Message = err, gist(err)
		return reply, fault
	}
	return reply, nil
}

// Fault returns the error in an answer, nil for a success.
func (r Reply) Fault() *Error {
	if r.Status < 300 {
		return nil
	}
	fault := &Error{Method: r.Method, ID: idOf(r.Address)}
	return fault.read(&http.Response{StatusCode: r.Status, Header: r.Header}, r.Body)
}

// OperationFault returns how an operation failed, read from the answer to a poll.
func (r Reply) OperationFault() *Error { return operationFault(idOf(r.Address), r.Body) }

// RetryAfter returns how long the answer asks to wait, or 0.
func (r Reply) RetryAfter() time.Duration { return retryAfter(&http.Response{Header: r.Header}) }

// Document reads an answer as a resource.
func (r Reply) Document(id arm.ID) (arm.Document, error) {
	return document(id, answer{status: r.Status, header: r.Header, body: r.Body})
}

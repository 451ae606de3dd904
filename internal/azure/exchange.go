package azure

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/tidwall/gjson"

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
// retried. Like every call, it waits while Azure throttles it.
func (c *caller) Exchange(ctx context.Context, r Request) (Reply, error) {
	if strings.HasPrefix(r.Address, "/") {
		r.Address = c.endpoint + r.Address
	}
	if u, err := url.Parse(r.Address); err == nil {
		if err := c.throttle.wait(ctx, r.Method, u.Path); err != nil {
			return Reply{Request: r, Sent: time.Now()}, err
		}
	}
	// A limit on the wait for the answer keeps the client from sending a throttled GET again.
	ctx = withCall(policy.WithRetryOptions(ctx, once), func(m *manner) { m.answer = tryTimeout })
	return c.transmit(ctx, r)
}

// Fault returns the error in an answer, nil for a success.
func (r Reply) Fault() *Error {
	if r.Status < 300 {
		return nil
	}
	fault := &Error{Method: r.Method, ID: idOf(r.Address)}
	return fault.setAnswer(&http.Response{StatusCode: r.Status, Header: r.Header}, r.Body)
}

// OperationFault returns how an operation failed, read from the answer to a poll.
func (r Reply) OperationFault() *Error { return operationFault(idOf(r.Address), r.Body) }

// RetryAfter returns how long the answer asks to wait, or 0.
func (r Reply) RetryAfter() time.Duration { return retryAfter(&http.Response{Header: r.Header}) }

// Document reads an answer as a resource. The ETag is in the body or in the header.
func (r Reply) Document(id arm.ID) (arm.Document, error) {
	head := gjson.GetManyBytes(r.Body, "id", "etag", "location")
	if !gjson.ValidBytes(r.Body) || head[0].Type != gjson.String || head[0].String() == "" {
		return arm.Document{}, &Error{Method: http.MethodGet, ID: id, Status: r.Status,
			Message: "the answer is not a resource"}
	}
	return arm.Document{ID: arm.ID(head[0].String()), Location: head[2].String(), Raw: r.Body,
		ETag: cmp.Or(head[1].String(), r.Header.Get("ETag"))}, nil
}

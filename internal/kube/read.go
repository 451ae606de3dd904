package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	pageSize = "500" // like kubectl
	maxPages = 1000
	maxPage  = 256 << 20 // bytes: 500 pods of half a megabyte
	maxTries = 3
	maxPause = 30 * time.Second
)

// Read reads the nodes and pods of the cluster. If the caller may read only one of them, the note
// says so; if neither, that is an error. Errors are one line and name the next step.
func (c *Client) Read(ctx context.Context) (*inventory.Kubernetes, error) {
	nodes, _, nodesErr := list(ctx, c, "nodes", inventory.DecodeNodes, inventory.Node.Compare)
	if nodesErr != nil && !refused(nodesErr) {
		return nil, nodesErr
	}
	if err := c.prove(nodes, nodesErr); err != nil {
		return nil, err
	}
	pods, _, podsErr := list(ctx, c, "pods", inventory.DecodePods, inventory.Pod.Compare)
	switch {
	case podsErr != nil && ctx.Err() != nil:
		return nil, podsErr
	case nodesErr != nil && podsErr != nil:
		return nil, nodesErr
	}
	k := &inventory.Kubernetes{Nodes: nodes, Pods: pods}
	if err := cmp.Or(nodesErr, podsErr); err != nil {
		k.Note = err.Error()
	}
	return k, nil
}

// prove makes sure that the nodes belong to the expected cluster.
func (c *Client) prove(nodes []inventory.Node, failed error) error {
	if c.cluster == nil {
		return nil
	}
	name := c.cluster.ID.Name()
	ours, told := c.cluster.Holds(nodes)
	switch {
	case told && !ours:
		return fmt.Errorf("context %s is for another cluster than %s: its nodes' machines are "+
			"not in %s: %s", c.context, name, c.cluster.NodeResourceGroup, getCredentials(
			c.cluster))
	case ours || c.proven:
		return nil
	case failed != nil:
		return failed
	}
	return fmt.Errorf("context %s may be for another cluster than %s: its server %s is not one "+
		"of the cluster's, and its nodes name no machines: %s", c.context, name, c.server,
		getCredentials(c.cluster))
}

// list reads all objects of a resource, page by page, and returns them with the version of the
// list. It starts over if the list took so long that its snapshot has expired (410).
func list[T any](ctx context.Context, c *Client, resource string, decode func([]byte) ([]T, error),
	compare func(T, T) int) ([]T, string, error) {
	for try := 1; ; try++ {
		all, version, err := pages(ctx, c, "/api/v1/"+resource, decode)
		var f *failure
		if errors.As(err, &f) && f.status == http.StatusGone && try < maxTries {
			continue
		}
		if err != nil {
			return nil, "", c.explain(resource, err)
		}
		slices.SortFunc(all, compare)
		return all, version, nil
	}
}

func pages[T any](ctx context.Context, c *Client, path string,
	decode func([]byte) ([]T, error)) (_ []T, version string, _ error) {
	all := []T{}
	next := ""
	for range maxPages {
		query := url.Values{"limit": {pageSize}}
		if next != "" {
			query.Set("continue", next)
		}
		body, err := c.get(ctx, path, query)
		if err != nil {
			return nil, "", err
		}
		page, err := decode(body)
		if err != nil {
			return nil, "", &failure{garbage: err}
		}
		all = append(all, page...)
		before := next
		version = gjson.GetBytes(body, "metadata.resourceVersion").String()
		if next = gjson.GetBytes(body, "metadata.continue").String(); next == "" {
			return all, version, nil
		} else if next == before {
			break
		}
	}
	return nil, "", &failure{garbage: errors.New("the list does not end")}
}

// get sends a GET and returns the body of the answer.
func (c *Client) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return c.send(ctx, request{method: http.MethodGet, path: path, query: query})
}

// request is a call to the API server.
type request struct {
	method, path string
	query        url.Values
	contentType  string
	body         []byte
}

// send makes a call, and repeats it if the server is too busy.
func (c *Client) send(ctx context.Context, r request) ([]byte, error) {
	for try := 1; ; try++ {
		body, err := c.call(ctx, r)
		var f *failure
		if !errors.As(err, &f) || !f.busy() || try == maxTries {
			return body, err
		}
		select {
		case <-time.After(min(max(f.retryAfter, c.pause), maxPause)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// call makes one call. It ends with the context, but a login plugin may continue, because client-go
// starts plugins without a context.
func (c *Client) call(ctx context.Context, r request) ([]byte, error) {
	type result struct {
		body []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		body, err := c.do(ctx, c.http, r)
		done <- result{body, err}
	}()
	select {
	case r := <-done:
		return r.body, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// open sends a request, and returns the answer before its body is read.
func (c *Client) open(ctx context.Context, client *http.Client, r request) (*http.Response, error) {
	u := c.server.JoinPath(r.path)
	u.RawQuery = r.query.Encode()
	request, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if r.contentType != "" {
		request.Header.Set("Content-Type", r.contentType)
	}
	return client.Do(request)
}

// do sends a request, and returns the body of its answer.
func (c *Client) do(ctx context.Context, client *http.Client, r request) ([]byte, error) {
	response, err := c.open(ctx, client, r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if n, err := body.ReadFrom(io.LimitReader(response.Body, maxPage+1)); err != nil {
		return nil, fmt.Errorf("the answer was cut off: %w", err)
	} else if n > maxPage {
		return nil, &failure{garbage: fmt.Errorf("the answer is larger than %d MB", maxPage>>20)}
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusCreated {
		return nil, failed(response, body.Bytes())
	}
	return body.Bytes(), nil
}

// failed returns the failure of an answer.
func failed(response *http.Response, body []byte) *failure {
	f := &failure{status: response.StatusCode, location: response.Header.Get("Location")}
	var status struct {
		Message string `json:"message"`
	}
	// a Status, unless something in front of the API server answered
	if json.Unmarshal(body, &status) == nil {
		f.message = status.Message
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		f.retryAfter = time.Duration(min(seconds, 3600)) * time.Second
	}
	return f
}

// timed limits the time for each answer, up to its last byte.
type timed struct {
	http.RoundTripper
	limit time.Duration
}

// RoundTrip makes the call under the limit.
func (t timed) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), t.limit,
		fmt.Errorf("no answer within %s", t.limit))
	response, err := t.RoundTripper.RoundTrip(r.WithContext(ctx))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel()
		return nil, err
	}
	response.Body = limited{response.Body, ctx, cancel}
	return response, nil
}

type limited struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelFunc
}

func (l limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if cause := context.Cause(l.ctx); err != nil && cause != nil {
		err = cause // even for EOF, which can follow from the end of the context
	}
	return n, err
}

func (l limited) Close() error {
	defer l.cancel()
	return l.ReadCloser.Close()
}

package azure_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// relinking changes the host of nextLink in every answer. A request that goes there fails, and the
// test with it: it has a token.
type relinking struct {
	t    testing.TB
	next http.RoundTripper
}

func (r relinking) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != "local" {
		r.t.Errorf("a request with a token went to %s", request.URL.Host)
		return nil, errors.New("that is not the emulator")
	}
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	body = bytes.ReplaceAll(body, []byte(`"nextLink":"http://local/`),
		[]byte(`"nextLink":"http://elsewhere.example/`))
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	return response, nil
}

// answering answers for one path itself.
type answering struct {
	suffix, body string
	next         http.RoundTripper
}

func (a answering) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(request.URL.Path, a.suffix) {
		return a.next.RoundTrip(request)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Request: request,
		Header:  http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(
			strings.NewReader(a.body)),
	}, nil
}

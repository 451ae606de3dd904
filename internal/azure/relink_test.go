package azure_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// relinking changes the host of nextLink in every answer, and fails what is sent there.
type relinking struct{ next http.RoundTripper }

func (r relinking) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != "local" {
		panic("a request with a token went to " + request.URL.Host)
	}
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	body = bytes.ReplaceAll(body, []byte(`"nextLink":"http://local/`), []byte(`"nextLink":"http://elsewhere.example/`))
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
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(a.body)),
	}, nil
}

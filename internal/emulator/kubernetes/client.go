package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// object is a JSON object.
type object = map[string]any

// fieldManager owns the fields that the emulator writes.
const fieldManager = "routekeeper-emulator"

var (
	errNotFound = errors.New("not found")
	errConflict = errors.New("conflict")
)

// send makes a call to the API server as an administrator. An answer that is not a success is an
// error.
func (cp *controlPlane) send(ctx context.Context, method, path, contentType string,
	body any) (*http.Response, error) {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, cp.server.String()+path, sent)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := cp.admin.Do(request)
	if err != nil || response.StatusCode < 300 {
		return response, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusNotFound:
		return nil, fmt.Errorf("%s %s: %w", method, path, errNotFound)
	case http.StatusConflict:
		return nil, fmt.Errorf("%s %s: %w", method, path, errConflict)
	}
	raw, _ := io.ReadAll(response.Body) // the status says enough
	return nil, fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, raw)
}

// call makes a call and returns the body of the answer.
func (cp *controlPlane) call(ctx context.Context, method, path, contentType string,
	body any) ([]byte, error) {
	response, err := cp.send(ctx, method, path, contentType, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

func (cp *controlPlane) get(ctx context.Context, path string) ([]byte, error) {
	return cp.call(ctx, http.MethodGet, path, "", nil)
}

// apply writes an object with server-side apply.
func (cp *controlPlane) apply(ctx context.Context, path string, doc object) error {
	_, err := cp.call(ctx, http.MethodPatch, path+"?force=true&fieldManager="+fieldManager,
		"application/apply-patch+yaml", doc)
	return err
}

// merge writes some fields of an object.
func (cp *controlPlane) merge(ctx context.Context, path string, fields object) error {
	_, err := cp.call(ctx, http.MethodPatch, path+"?fieldManager="+fieldManager,
		"application/merge-patch+json", fields)
	return err
}

// remove deletes an object at once. A missing object is not an error.
func (cp *controlPlane) remove(ctx context.Context, path, uid string) error {
	options := object{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
	if uid != "" {
		options["preconditions"] = object{"uid": uid}
	}
	_, err := cp.call(ctx, http.MethodDelete, path, "application/json", options)
	return unlessGone(err)
}

// unlessGone drops the error of a call for an object that is deleted, or replaced by another.
func unlessGone(err error) error {
	if errors.Is(err, errNotFound) || errors.Is(err, errConflict) {
		return nil
	}
	return err
}

// event is one line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// watch calls do with each event after a version of a list, until the server ends it.
func (cp *controlPlane) watch(ctx context.Context, path, since string, do func(event)) error {
	response, err := cp.send(ctx, http.MethodGet, path+"?watch=true&resourceVersion="+since, "",
		nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for d := json.NewDecoder(response.Body); ; {
		var e event
		if err := d.Decode(&e); err != nil {
			return err
		}
		if e.Type == "ERROR" {
			return fmt.Errorf("watching %s: %s", path, e.Object)
		}
		do(e)
	}
}

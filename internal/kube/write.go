package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// fieldManager owns the fields that Apply writes.
const fieldManager = "routekeeper"

// Object names an object of the Kubernetes API. Plural is its kind as in paths.
type Object struct {
	APIVersion, Plural, Namespace, Name string
}

// String returns kubectl's name for it, as in daemonsets/hello.
func (o Object) String() string { return o.Plural + "/" + o.Name }

// path returns the object's path or, without a name, the path of the list.
func (o Object) path() string {
	path := "/apis/" + o.APIVersion
	if !strings.Contains(o.APIVersion, "/") {
		path = "/api/" + o.APIVersion
	}
	if o.Namespace != "" {
		path += "/namespaces/" + o.Namespace
	}
	path += "/" + o.Plural
	if o.Name != "" {
		path += "/" + o.Name
	}
	return path
}

// ErrNotFound is in the errors of Get if the object does not exist.
var ErrNotFound = errors.New("the object does not exist")

// Get reads an object, or a list if it has no name.
func (c *Client) Get(ctx context.Context, o Object) ([]byte, error) {
	raw, err := c.get(ctx, o.path(), nil)
	return raw, c.failed("get", o, err)
}

// Apply writes an object with server-side apply. It overwrites other writers' values in fields of
// the document; other fields stay.
func (c *Client) Apply(ctx context.Context, o Object, document []byte) ([]byte, error) {
	raw, err := c.send(ctx, request{
		method: http.MethodPatch, path: o.path(), contentType: "application/apply-patch+yaml",
		body:  document,
		query: url.Values{"fieldManager": {fieldManager}, "force": {"true"}},
	})
	return raw, c.failed("patch", o, err)
}

// Delete deletes an object and its dependents, if it still has that UID. A missing object is not an
// error.
func (c *Client) Delete(ctx context.Context, o Object, uid string) error {
	body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "DeleteOptions",
		"propagationPolicy": "Background", "preconditions": map[string]string{"uid": uid}})
	if err != nil {
		return err
	}
	_, err = c.send(ctx, request{method: http.MethodDelete, path: o.path(),
		contentType: "application/json", body: body})
	if err = c.failed("delete", o, err); errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// failed says in one line what failed for one object.
func (c *Client) failed(verb string, o Object, err error) error {
	var f *failure
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case !errors.As(err, &f):
		return &explained{fmt.Sprintf("the Kubernetes API of context %s does not answer at %s (%s)",
			c.context, c.server, oneLine(err)), err}
	case f.status == http.StatusNotFound && o.Name != "":
		return fmt.Errorf("%s: %w (%s)", o, ErrNotFound, oneLine(f))
	case f.status == http.StatusForbidden:
		where := ""
		if o.Namespace != "" {
			where = " -n " + o.Namespace
		}
		line := fmt.Sprintf("the Kubernetes API of context %s refuses to %s %s (%s): kubectl "+
			"auth can-i %s %s%s shows whether this login may", c.context, verb, o, oneLine(f), verb,
			o.Plural, where)
		return &explained{line, err}
	case f.status >= 400 && f.status < 500 &&
		f.status != http.StatusUnauthorized && f.status != http.StatusGone:
		return &explained{fmt.Sprintf("the Kubernetes API of context %s refuses to %s %s: %s",
			c.context, verb, o, oneLine(f)), err}
	}
	return c.explain(o.Plural, err)
}

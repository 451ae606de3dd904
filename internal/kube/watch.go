package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// watchFor is how long one watch lasts.
const watchFor = 5 * time.Minute

// ListNodes reads the nodes of the cluster and proves that they are its own. The version is where a
// watch continues.
func (c *Client) ListNodes(ctx context.Context) (nodes []inventory.Node, version string, _ error) {
	nodes, version, err := list(ctx, c, "nodes", inventory.DecodeNodes, inventory.Node.Compare)
	if err != nil {
		return nil, "", err
	}
	return nodes, version, c.prove(nodes, nil)
}

// errExpired says that the API server no longer has the changes since a version: the nodes must be
// listed again.
var errExpired = errors.New("the version has expired")

// watchNodes calls tell for each change of a node since a version, until the API server ends the
// watch, which is not an error. It returns the version where the next watch continues.
func (c *Client) watchNodes(ctx context.Context, version string,
	tell func(node inventory.Node, deleted bool)) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := c.open(ctx, c.watch, request{path: "/api/v1/nodes", query: url.Values{
		"watch": {"1"}, "allowWatchBookmarks": {"1"}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(int(watchFor.Seconds()))}}})
	if err != nil {
		return version, c.explain("nodes", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
		return version, c.refusedWatch(failed(response, body))
	}
	changes := json.NewDecoder(response.Body)
	for {
		var change struct {
			Type   string
			Object json.RawMessage
		}
		if err := changes.Decode(&change); err != nil {
			return version, ended(ctx, err)
		}
		if change.Type == "ERROR" {
			status := gjson.GetBytes(change.Object, "code").Int()
			return version, c.refusedWatch(&failure{status: int(status),
				message: gjson.GetBytes(change.Object, "message").String()})
		}
		if at := gjson.GetBytes(change.Object, "metadata.resourceVersion"); at.Exists() {
			version = at.String()
		}
		if change.Type == "BOOKMARK" {
			continue
		}
		nodes, err := inventory.DecodeNodes(change.Object)
		if err != nil || len(nodes) != 1 {
			return version, c.explain("nodes",
				&failure{garbage: fmt.Errorf("a change in the watch is not a node: %w", err)})
		}
		tell(nodes[0], change.Type == "DELETED")
	}
}

// ended returns the error of a watch whose answer ends. The API server ends it after a while, and
// load balancers cut it: both are no error, because the next watch continues there.
func ended(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("the watch of nodes is not JSON: %w", err)
	}
	return context.Cause(ctx)
}

// refusedWatch says why a watch is refused.
func (c *Client) refusedWatch(f *failure) error {
	switch f.status {
	case http.StatusGone:
		return errExpired
	case http.StatusForbidden:
		return &explained{"the Kubernetes API of context " + c.context + " does not let nodes be " +
			"watched (" + oneLine(f) + "): ask a cluster administrator to add the verb watch on " +
			"nodes to the role of routekeeper", f}
	}
	return c.explain("nodes", f)
}

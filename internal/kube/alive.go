package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/tidwall/gjson"
)

// This file finds out whether a watch shows the truth. How it works: a watch of nodes is silent
// while nothing changes, and just as silent when the API server hangs. TCP and HTTP/2 pings prove
// little: a proxy in between answers them. Bookmarks come about once a minute, and no API server
// promises them (kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks). So the
// follower asks for a list of one node. This list needs the same permissions as the list of all
// nodes, and only the API server can answer it. The answer also counts the nodes: if the count
// differs from the watch's twice, the watch is behind.

const (
	// askEvery and askFor bound how long a hanging API server goes unnoticed.
	askEvery, askFor = 10 * time.Second, 15 * time.Second
	unknownCount     = -1
)

// awaitSilence waits until the API server no longer answers, or no longer passes on changes, and
// returns why. shown returns the number of nodes that the watch shows. When the context ends,
// awaitSilence returns nil.
func (c *Client) awaitSilence(ctx context.Context, shown func() int) error {
	tick := time.NewTicker(c.askEvery)
	defer tick.Stop()
	behind := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		count, err := c.countNodes(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		watched := shown()
		if count == unknownCount || count == watched {
			behind = false
			continue
		}
		if behind {
			return c.explain("nodes", &failure{garbage: fmt.Errorf("it has %d nodes, and the "+
				"watch shows %d", count, watched)})
		}
		behind = true
	}
}

// countNodes asks for one node and the number of all, over the connections of the watch. An API
// server that is too busy to answer is not silent.
func (c *Client) countNodes(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.askFor,
		fmt.Errorf("no answer within %s", c.askFor))
	defer cancel()
	body, err := c.do(ctx, c.watch,
		request{path: "/api/v1/nodes", query: url.Values{"limit": {"1"}}})
	if f, is := errors.AsType[*failure](err); is && f.status == http.StatusTooManyRequests {
		return unknownCount, nil
	}
	if err != nil {
		return 0, c.explain("nodes", causeOf(ctx, err))
	}
	rest := gjson.GetBytes(body, "metadata.remainingItemCount")
	if !rest.Exists() && gjson.GetBytes(body, "metadata.continue").String() != "" {
		return unknownCount, nil
	}
	return int(gjson.GetBytes(body, "items.#").Int() + rest.Int()), nil
}

// causeOf returns why a call has failed: the cause of its context, if that has ended.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

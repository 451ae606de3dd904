package azure

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// ownWrites are the writes that this client has made, by the correlation ID that Azure answered them with: the activity log and events have
// it, too. Another program with the same identity has others.
type ownWrites struct {
	mu         sync.Mutex
	identities []string // object ID and client ID of who is logged in
	writes     map[string]ownWrite
}

type ownWrite struct {
	id arm.ID
	at time.Time
}

// eventsUntil is how long after a write there can be events of it: alerts come minutes late.
const eventsUntil = time.Hour

// note keeps a write that Azure has accepted.
func (o *ownWrites) note(ctx context.Context, c *Client, correlation string, id arm.ID) {
	object, application, err := c.loggedIn(ctx)
	if err != nil || correlation == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.identities = slices.DeleteFunc([]string{object, application}, func(id string) bool { return id == "" })
	for key, w := range o.writes {
		if time.Since(w.at) > eventsUntil {
			delete(o.writes, key)
		}
	}
	if o.writes == nil {
		o.writes = map[string]ownWrite{}
	}
	o.writes[strings.ToLower(correlation)] = ownWrite{id, time.Now()}
}

// Own reports whether a change is one that this client has made: of the same resource, by the same identity (object or client ID) and in
// the same call. Every write of its own was read back, so that nothing is to be learnt from hearing of it. In doubt it is somebody else's.
func (c *Client) Own(correlation string, identities []string, id arm.ID) bool {
	c.own.mu.Lock()
	defer c.own.mu.Unlock()
	w, known := c.own.writes[strings.ToLower(correlation)]
	return known && w.id.Equal(id) && slices.ContainsFunc(identities, func(who string) bool {
		return slices.ContainsFunc(c.own.identities, func(own string) bool { return strings.EqualFold(own, who) })
	})
}

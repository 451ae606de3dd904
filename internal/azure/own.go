package azure

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// ownWrites has the writes that this client made, by the correlation ID of Azure's answer. The
// activity log and events have the same ID. Other programs with the same identity have other
// correlation IDs.
type ownWrites struct {
	mu         sync.Mutex
	identities []string // the caller's object ID and client ID
	writes     map[string]ownWrite
}

type ownWrite struct {
	id arm.ID
	at time.Time
}

// eventsUntil is how long after a write its events can arrive: alerts come minutes late.
const eventsUntil = time.Hour

// note stores a write that Azure has accepted.
func (o *ownWrites) note(ctx context.Context, c *caller, correlation string, id arm.ID) {
	object, application, err := c.Who(ctx)
	if err != nil || correlation == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.identities = slices.DeleteFunc([]string{object, application}, func(id string) bool {
		return id == ""
	})
	for key, w := range o.writes {
		if time.Since(w.at) > eventsUntil {
			delete(o.writes, key)
		}
	}
	o.writes[strings.ToLower(correlation)] = ownWrite{id, time.Now()}
}

// Wrote reports whether this client made a change of a resource, given the change's correlation ID
// and the object and client IDs of its writer. The client read all its writes back, so their
// events bring no news. If in doubt, Wrote counts the change as another writer's.
func (c *activityLog) Wrote(correlation string, identities []string, id arm.ID) bool {
	c.ownWrites.mu.Lock()
	defer c.ownWrites.mu.Unlock()
	w, known := c.ownWrites.writes[strings.ToLower(correlation)]
	return known && w.id.Equal(id) && slices.ContainsFunc(identities, func(who string) bool {
		return slices.ContainsFunc(c.ownWrites.identities, func(own string) bool {
			return strings.EqualFold(own, who)
		})
	})
}

package keeper

import (
	"context"
	"time"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// How it works: a default or declared route can lead to an address that nothing has, in the
// cluster's network or in a hub. The networks, and what has an address in the next hop's subnet,
// are read for the verdict alone, for all groups together: a list of networks, one of interfaces
// and one of firewalls for each subscription in aroundBelieved. No check waits long for them.
//
// A next hop is lost only by what was read after its route: a machine that was made a minute ago
// may be missing from what was read before. So what looks lost for the first time is read again.
// What cannot be read, or not completely, is believed. But a lost one that can only not be read for
// a moment stays lost.

const (
	// aroundBelieved is how long what is around the clusters is not read again, and aroundLost how
	// long while a next hop is lost.
	aroundBelieved, aroundLost = 5 * time.Minute, time.Minute
	// aroundWithin is how long a check waits for it. The next check uses what arrives later. A
	// command has no next check, and waits for aroundPatient.
	aroundWithin, aroundPatient = time.Second, 30 * time.Second
)

// readAround finds out which next hops are lost.
func (c *check) readAround(ctx context.Context) error {
	hops := verdict.Hops(c.s.Snapshot, c.configs)
	if len(hops) == 0 {
		c.mem.lost = plan.Hops{}
		return nil
	}
	now := time.Now()
	notBefore := now.Truncate(aroundBelieved)
	switch {
	case c.patient:
		notBefore = now.Add(-sharedFor)
	case len(c.mem.lost) > 0:
		notBefore = now.Truncate(aroundLost)
	}
	near, lost, unknown, err := c.around(ctx, hops, notBefore)
	if err == nil && near.Taken.Before(now) && c.newlyLost(lost) {
		near, lost, unknown, err = c.around(ctx, hops, now)
	}
	if err != nil {
		return ctx.Err() // without a login, say, what was known stays
	}
	for _, hop := range hops {
		switch was := c.mem.lost.Has(hop); {
		case !was && near.Taken.Before(now):
			lost.Remove(hop)
		case was && unknown.Has(hop) && interrupted(near):
			lost.Add(hop)
		}
	}
	c.mem.lost = lost
	return nil
}

// around reads what decides which next hops are lost.
func (c *check) around(ctx context.Context, hops []plan.Hop, notBefore time.Time) (
	near *inventory.Snapshot, lost, unknown plan.Hops, err error) {
	near = inventory.NewSnapshot()
	options := azure.ReadOptions{NotBefore: notBefore, Poll: true, Calls: c.calls, Life: c.life,
		Wait: aroundWithin}
	if c.patient {
		options.Wait = aroundPatient
	}
	lost, unknown, want := verdict.Lost(near, hops)
	for range 3 { // the subnets' networks, hubs, and what is in the next hops' subnets
		if want.Empty() {
			break
		}
		if err := c.k.azure.Read(ctx, near, want, options); err != nil {
			return nil, nil, nil, err
		}
		lost, unknown, want = verdict.Lost(near, hops)
	}
	return near, lost, unknown, nil
}

func (c *check) newlyLost(lost plan.Hops) bool {
	for hop := range lost {
		if !c.mem.lost[hop] {
			return true
		}
	}
	return false
}

// interrupted reports whether a read failed that may succeed soon.
func interrupted(s *inventory.Snapshot) bool {
	for _, u := range s.Unread {
		if u.Transient() {
			return true
		}
	}
	return false
}

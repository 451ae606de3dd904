package keeper

import (
	"context"
	"time"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// How it works: a default or declared route can lead to an address that no resource has, in the
// cluster's network or in a hub. Only the verdict needs the networks, and the resources with
// addresses in the next hop's subnet. They are read for all groups together: once in aroundBelieved
// a list of networks, one of interfaces, one of firewalls and one of load balancers for each
// subscription. No check waits long for them.
//
// Only a read that began after the read of its route proves a next hop lost: an older read may lack
// a machine that was made a minute ago. So a next hop that looks lost for the first time is a
// suspect, and is read again. If the answers take longer than a check waits, a later check uses
// them. Then the route that leads to the suspect is read again, because it may have been changed
// together with the machines.
// A next hop that cannot be read, or not completely, counts as present. But a lost next hop stays
// lost while reads fail only for a moment, even over a restart.

const (
	// aroundBelieved is how long the surroundings of the clusters are not read again, and
	// aroundLost how long while a next hop is lost.
	aroundBelieved, aroundLost = 5 * time.Minute, time.Minute
	// aroundWithin is how long a check waits for these reads. The next check uses answers that
	// arrive later. A command has no next check, so it waits for aroundPatient.
	aroundWithin, aroundPatient = time.Second, 30 * time.Second
)

// readAround finds out which next hops are lost.
func (c *check) readAround(ctx context.Context) error {
	hops := verdict.Hops(c.s.Snapshot, c.configs)
	if len(hops) == 0 {
		c.mem.lost, c.mem.suspects = plan.Hops{}, map[plan.Hop]time.Time{}
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
	near, lost, unclear, err := c.around(ctx, hops, notBefore)
	if err != nil {
		return ctx.Err() // for example without a login: keep what was known
	}
	if since := c.suspect(hops, lost, now); near.Taken.Before(since) {
		again, gone, doubtful, err := c.around(ctx, hops, since)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil { // otherwise the first reading holds, and proves no new loss
			for _, hop := range hops { // a moment ago a read showed that this one is back
				if !lost.Has(hop) && !unclear.Has(hop) {
					doubtful.Remove(hop)
				}
			}
			near, lost, unclear = again, gone, doubtful
			c.suspect(hops, lost, now)
		}
	}
	suspects := map[plan.Hop]time.Time{}
	var fresh []plan.Hop // newly lost
	for _, hop := range hops {
		more, was := c.mem.lost.Lookup(hop)
		since := c.mem.suspects[hop]
		switch {
		case was && unclear.Has(hop):
			lost.Explain(hop, more)
		case !was && lost.Has(hop) && near.Taken.Before(since):
			lost.Remove(hop)
			suspects[hop] = since
		case !was && lost.Has(hop):
			fresh = append(fresh, hop)
		case !was && unclear.Has(hop) && !since.IsZero():
			suspects[hop] = since
		}
	}
	used, failed, err := stillUsed(ctx, c, fresh)
	if err != nil {
		return ctx.Err()
	}
	for _, hop := range fresh {
		if !used.Has(hop) {
			lost.Remove(hop)
		}
		if failed.Has(hop) {
			suspects[hop] = c.mem.suspects[hop]
		}
	}
	c.mem.lost, c.mem.suspects = lost, suspects
	return nil
}

// stillUsed reads the routes again after the surroundings. It returns which of the newly lost next
// hops they still lead to, and for which this could not be read.
func stillUsed(ctx context.Context, c *check, hops []plan.Hop) (used, failed plan.Hops, err error) {
	used, failed = plan.Hops{}, plan.Hops{}
	var want inventory.Wanted
	for _, hop := range hops {
		want.Subnets = append(want.Subnets, hop.Subnet)
		want.Tables = append(want.Tables, c.s.Subnet(hop.Subnet).RouteTable)
	}
	if want.Empty() {
		return used, failed, nil
	}
	want.Subnets, want.Tables = inventory.SortIDs(want.Subnets), inventory.SortIDs(want.Tables)
	options := azure.ReadOptions{NotBefore: time.Now(), Poll: true, Calls: c.calls, Life: c.life}
	if !c.patient { // as long as the check waits at its beginning
		options.Wait = max(time.Until(c.until), aroundWithin).Round(100 * time.Millisecond)
		options.Queue = options.Wait
	}
	again := inventory.NewSnapshot()
	if err := c.k.azure.Read(ctx, again, want, options); err != nil {
		return nil, nil, err
	}
	for _, hop := range verdict.Hops(again, c.configs) {
		used.Add(hop)
	}
	for _, hop := range hops {
		subnet := again.Subnet(hop.Subnet)
		if subnet == nil || subnet.RouteTable != "" && again.Table(subnet.RouteTable) == nil {
			failed.Add(hop)
		}
	}
	return used, failed, nil
}

// suspect notes, for each next hop that was not lost before and now looks lost, since when it does.
// It returns the latest of these times.
func (c *check) suspect(hops []plan.Hop, lost plan.Hops, now time.Time) (latest time.Time) {
	for _, hop := range hops {
		if !lost.Has(hop) || c.mem.lost.Has(hop) {
			continue
		}
		if c.mem.suspects[hop].IsZero() {
			c.mem.suspects[hop] = now
		}
		if since := c.mem.suspects[hop]; since.After(latest) {
			latest = since
		}
	}
	return latest
}

// around reads the resources that decide which next hops are lost.
func (c *check) around(ctx context.Context, hops []plan.Hop, notBefore time.Time) (
	near *inventory.Snapshot, lost, unclear plan.Hops, err error) {
	near = inventory.NewSnapshot()
	options := azure.ReadOptions{NotBefore: notBefore, Poll: true, Calls: c.calls, Life: c.life,
		Wait: aroundWithin}
	if c.patient {
		options.Wait = aroundPatient
	} else {
		options.Queue = aroundWithin
	}
	lost, unclear, want := verdict.Lost(near, hops)
	for range 3 { // the subnets' networks, hubs, and what is in the next hops' subnets
		if want.Empty() {
			break
		}
		if err := c.k.azure.Read(ctx, near, want, options); err != nil {
			return nil, nil, nil, err
		}
		lost, unclear, want = verdict.Lost(near, hops)
	}
	return near, lost, unclear, nil
}

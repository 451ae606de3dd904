package keeper

import (
	"context"
	"maps"
	"time"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// How it works: a default route can lead to an address that nothing has, in the cluster's network
// or in a hub. The cluster's network was read with its subnets. A hub, and the network interfaces
// in the next hop's subnet, are read for the verdict alone, and what all groups want of them is
// read together: a list of networks and one of interfaces for each subscription in aroundBelieved.
// No check waits long for them. What could not be read is believed to work, as the routes say.

// aroundBelieved is how long what is around the clusters is not read again.
const aroundBelieved = 5 * time.Minute

// aroundWithin is how long a check waits for it. The next check uses what arrives later.
const aroundWithin = time.Second

// readAround reads what decides whether next hops can be reached.
func (c *check) readAround(ctx context.Context) error {
	if c.mem.basis.clusters != nil && c.mem.alone && c.basis(c.s).same(c.mem.basis) {
		return nil // what was read decides, and is as it was
	}
	near := inventory.NewSnapshot()
	want := verdict.Around(c.s.Snapshot, c.configs, near)
	c.mem.alone = want.Empty()
	for range 2 { // networks, and network interfaces in them
		if want.Empty() {
			break
		}
		options := azure.ReadOptions{NotBefore: time.Now().Truncate(aroundBelieved), Poll: true,
			Calls: c.calls, Life: c.life}
		if !c.patient {
			options.Wait = aroundWithin
		}
		if err := c.k.azure.Read(ctx, near, want, options); err != nil {
			return err
		}
		want = verdict.Around(c.s.Snapshot, c.configs, near)
	}
	if was := c.mem.near; was == nil || !maps.Equal(was.VNets, near.VNets) ||
		!maps.Equal(was.Interfaces, near.Interfaces) {
		c.mem.near = near
	}
	return nil
}

package keeper

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// question is what to ask the fabric after a write.
type question struct {
	written arm.Document
	changes []plan.Change  // the changes made
	cluster string         // ID.Key()
	nodes   arm.ID         // the resource group that must contain the machine, or ""
	hops    []netip.Prefix // prefixes for the next hop, if no change names the route
	table   arm.ID
	region  string
	routes  []inventory.Route
	subnets []*inventory.Subnet
}

// question returns the question about a write, or nil.
func (x *write) question() *question {
	c := x.check
	q := &question{written: x.now, cluster: x.cluster}
	for _, o := range x.outcomes {
		if o.State == plan.Done && o.Verb != plan.Delete &&
			(o.Verb != plan.Associate || c.isNodeSubnet(x.ID)) {
			q.changes = append(q.changes, o.Change)
		}
	}
	if len(q.changes) == 0 {
		return nil
	}
	q.table = x.ID
	if q.changes[0].Verb != plan.Associate {
		return q
	}
	q.table = q.changes[0].New.RouteTable
	for _, config := range c.configs {
		if cluster := c.s.Cluster(idOf(config)); cluster != nil && keyOf(config) == x.cluster {
			q.nodes, q.hops = cluster.NodeGroup(), c.s.NodePrefixesEver(cluster)
		}
	}
	return q
}

// readFabric adds to a question the table that a subnet got, or the subnets of a table.
func (k *Keeper) readFabric(ctx context.Context, q *question) error {
	s := inventory.NewSnapshot()
	if err := s.Add(q.written.Raw); err != nil {
		return err
	}
	want := inventory.Wanted{}
	if table := s.Table(q.written.ID); table != nil {
		want.Subnets = table.Subnets
	} else {
		want.Tables = []arm.ID{q.table}
	}
	if err := k.azure.Read(ctx, s, want, azure.ReadOptions{NotBefore: time.Now(),
		Wait: readMost}); err != nil {
		return err
	}
	table := s.Table(q.table)
	if table == nil {
		return errors.New("the table could not be read: " + s.Unread[q.table.Key()].Reason())
	}
	q.region, q.routes, q.subnets = table.Location, table.Routes(), nil
	for _, subnet := range s.Subnets {
		q.subnets = append(q.subnets, subnet)
	}
	slices.SortFunc(q.subnets, func(a, b *inventory.Subnet) int {
		return cmp.Compare(a.ID.Key(), b.ID.Key())
	})
	return nil
}

// choose finds a machine to ask about, and a route that leads to another machine, or nil.
func (q *question) choose(
	ctx context.Context, asked Fabric,
) (*inventory.Interface, inventory.Route, error) {
	tried := 0
	for _, subnet := range q.subnets {
		for _, configuration := range subnet.Configurations() {
			id := configuration.Parent()
			if !id.Is(arm.TypeInterface) && !id.Is(arm.TypeScaleSetInterface) ||
				q.nodes != "" && !id.Group().Equal(q.nodes) {
				continue
			}
			if tried++; tried > mostMachines {
				return nil, inventory.Route{}, nil
			}
			nic, err := asked.Interface(ctx, id)
			if err != nil {
				return nil, inventory.Route{}, err
			}
			if nic.Machine == "" { // such as a private endpoint's
				continue
			}
			for _, route := range q.routes {
				if q.means(route) && !holds(nic, route.Hop) {
					return nic, route, nil
				}
			}
		}
	}
	return nil, inventory.Route{}, nil
}

// means reports whether a route can be the one to ask about.
func (q *question) means(route inventory.Route) bool {
	if !route.Hop.IsValid() || !route.Prefix.IsValid() {
		return false
	}
	led := slices.ContainsFunc(q.hops, func(p netip.Prefix) bool { return p.Contains(route.Hop) })
	return led || slices.ContainsFunc(q.changes, func(change plan.Change) bool {
		return change.Route == route.Name
	})
}

func holds(nic *inventory.Interface, address netip.Addr) bool {
	return slices.ContainsFunc(nic.Configs, func(c inventory.IPConfig) bool {
		return c.Address == address
	})
}

// standsAsWritten reports whether ARM still shows what was written, as far as the question is
// concerned.
func (k *Keeper) standsAsWritten(ctx context.Context, q *question, route inventory.Route) bool {
	s := inventory.NewSnapshot()
	want := inventory.Wanted{Tables: []arm.ID{q.table}}
	if q.written.ID.Is(arm.TypeSubnet) {
		want.Subnets = []arm.ID{q.written.ID}
	}
	o := azure.ReadOptions{NotBefore: time.Now(), Wait: readMost, Poll: true}
	if err := k.azure.Read(ctx, s, want, o); err != nil || s.Table(q.table) == nil {
		return false
	}
	if len(want.Subnets) > 0 {
		subnet := s.Subnet(q.written.ID)
		if subnet == nil || !subnet.RouteTable.Equal(q.table) {
			return false
		}
	}
	return slices.ContainsFunc(s.Table(q.table).Routes(), func(r inventory.Route) bool {
		return r.Prefix == route.Prefix && r.Hop == route.Hop
	})
}

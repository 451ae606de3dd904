package iac

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Overlay applies the changes of a file to the real network. It takes only what the file changes,
// because the real network shows more.
func (r *Reading) Overlay(real *inventory.Snapshot) *inventory.Snapshot {
	o := overlay{reading: r, real: real, before: r.Before, after: r.After, out: real.Fork()}
	if o.after == nil {
		o.after = inventory.NewSnapshot()
	}
	if o.before == nil { // a template does not show what exists; the real network does
		o.before = o.touched()
	}
	o.out.VNets, o.out.Gateways = maps.Clone(real.VNets), maps.Clone(real.Gateways)
	addNew(o.out.VNets, o.before.VNets, o.after.VNets)
	addNew(o.out.Subnets, o.before.Subnets, o.after.Subnets)
	addNew(o.out.Tables, o.before.Tables, o.after.Tables)
	addNew(o.out.Gateways, o.before.Gateways, o.after.Gateways)
	o.subnets()
	o.tables()
	o.clusters()
	o.gateways()
	o.links()
	return o.out
}

// overlay is a copy of the real network with changes.
type overlay struct {
	reading                  *Reading
	real, before, after, out *inventory.Snapshot
}

// touched returns the part of the real network that the file writes.
func (o *overlay) touched() *inventory.Snapshot {
	s := inventory.NewSnapshot()
	for key, subnet := range o.real.Subnets {
		_, unread := o.after.Unread[key]
		if unread || o.after.Subnets[key] != nil {
			s.Subnets[key] = subnet
		}
	}
	both(s.VNets, o.real.VNets, o.after.VNets)
	both(s.Tables, o.real.Tables, o.after.Tables)
	both(s.Clusters, o.real.Clusters, o.after.Clusters)
	both(s.Gateways, o.real.Gateways, o.after.Gateways)
	return s
}

// both adds resources that are real and also in a file.
func both[T any](to, real, after map[string]*T) {
	for key, value := range real {
		if after[key] != nil {
			to[key] = value
		}
	}
}

// addNew adds resources that a file makes. If it expects a resource to exist, but none does,
// nothing is made.
func addNew[T any](to, before, after map[string]*T) {
	for key, value := range after {
		if before[key] == nil && to[key] == nil {
			to[key] = value
		}
	}
}

func (o *overlay) subnets() {
	for key, before := range o.before.Subnets {
		here, after := o.real.Subnets[key], o.after.Subnets[key]
		why, unread := o.after.Unread[key]
		switch {
		case here == nil:
		case after == nil && unread:
			delete(o.out.Subnets, key)
			o.out.Unread[key] = why
		case after == nil:
			delete(o.out.Subnets, key)
		default:
			changed := *here
			if !after.RouteTable.Equal(before.RouteTable) {
				changed.RouteTable = after.RouteTable
			}
			for _, field := range []struct{ to, before, after *arm.ID }{
				{&changed.NATGateway, &before.NATGateway, &after.NATGateway},
				{&changed.SecurityGroup, &before.SecurityGroup, &after.SecurityGroup},
			} {
				if !field.after.Equal(*field.before) && *field.after != unknownID &&
					!strings.HasPrefix(string(*field.after), "[") { // an expression
					*field.to = *field.after
				}
			}
			o.out.Subnets[key] = &changed
		}
	}
}

func (o *overlay) tables() {
	for key, before := range o.before.Tables {
		here, after := o.real.Tables[key], o.after.Tables[key]
		if here == nil || after == nil ||
			o.reading.rewritten != nil && !o.reading.rewritten[key] ||
			slices.EqualFunc(before.Routes(), after.Routes(), sameRoute) {
			continue
		}
		o.out.Tables[key] = here.WithRoutes(after.Routes())
	}
	for key, table := range o.real.Tables {
		if routes, changed := o.reading.own.change(table); changed && !o.reading.rewritten[key] {
			o.out.Tables[key] = table.WithRoutes(routes)
		}
	}
}

func sameRoute(a, b inventory.Route) bool {
	return a.Name == b.Name && a.Destination() == b.Destination() && a.SameHop(b)
}

func (o *overlay) clusters() {
	for key, before := range o.before.Clusters {
		here, after := o.real.Clusters[key], o.after.Clusters[key]
		if here == nil || after == nil {
			continue
		}
		changed := *here
		for _, field := range []struct{ to, before, after *string }{
			{&changed.Plugin, &before.Plugin, &after.Plugin},
			{&changed.PluginMode, &before.PluginMode, &after.PluginMode},
			{&changed.Outbound, &before.Outbound, &after.Outbound},
		} {
			if *field.after != "" && !strings.EqualFold(*field.before, *field.after) {
				*field.to = *field.after
			}
		}
		changed.Pools = o.pools(here.Pools, before.Pools, after.Pools)
		o.out.Clusters[key] = &changed
	}
}

// pools returns the pools of a cluster after the changes. A template need not name all of them.
func (o *overlay) pools(here, before, after []inventory.Pool) []inventory.Pool {
	of := func(pools []inventory.Pool, name string) *inventory.Pool {
		at := slices.IndexFunc(pools, func(p inventory.Pool) bool {
			return strings.EqualFold(p.Name, name)
		})
		if at < 0 {
			return nil
		}
		return &pools[at]
	}
	var out []inventory.Pool
	for _, pool := range here {
		was, will := of(before, pool.Name), of(after, pool.Name)
		switch {
		case will == nil && was != nil && o.reading.Before != nil:
			continue
		case will != nil && was != nil:
			if will.Subnet != "" && !will.Subnet.Equal(was.Subnet) {
				pool.Subnet = will.Subnet
			}
			if will.Count != was.Count {
				pool.Count = cmp.Or(will.Count, pool.Count)
			}
		}
		out = append(out, pool)
	}
	for _, pool := range after {
		if of(before, pool.Name) == nil && of(here, pool.Name) == nil {
			out = append(out, pool)
		}
	}
	return out
}

func (o *overlay) gateways() {
	for key, before := range o.before.Gateways {
		here, after := o.real.Gateways[key], o.after.Gateways[key]
		switch {
		case here == nil:
		case after == nil:
			delete(o.out.Gateways, key)
		case !slices.EqualFunc(before.Subnets, after.Subnets, arm.ID.Equal):
			changed := *here
			changed.Subnets = after.Subnets
			o.out.Gateways[key] = &changed
		}
	}
}

// links updates what subnets and tables show of each other and of gateways, so that it fits the
// changes.
func (o *overlay) links() {
	for key := range merged(o.real.Subnets, o.out.Subnets) {
		var was, is arm.ID
		id := arm.ID("")
		if s := o.real.Subnets[key]; s != nil {
			id, was = s.ID, s.RouteTable
		}
		if s := o.out.Subnets[key]; s != nil {
			id, is = s.ID, s.RouteTable
		}
		if !was.Equal(is) {
			o.associate(was, id, false)
			o.associate(is, id, true)
		}
	}
	for key := range merged(o.real.Gateways, o.out.Gateways) {
		was, is := o.real.Gateways[key], o.out.Gateways[key]
		if was == is {
			continue
		}
		if was != nil {
			for _, id := range was.Subnets {
				o.place(was.ID, id, false)
			}
		}
		if is != nil {
			for _, id := range is.Subnets {
				o.place(is.ID, id, true)
			}
		}
	}
}

// merged returns what is in one of two maps, or both.
func merged[T any](a, b map[string]*T) map[string]*T {
	out := map[string]*T{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// associate makes a table show a subnet, or stop showing it.
func (o *overlay) associate(table, subnet arm.ID, on bool) {
	if here := o.out.Table(table); here != nil {
		changed := *here
		changed.Subnets = with(here.Subnets, subnet, on)
		o.out.Tables[table.Key()] = &changed
	}
}

// place makes a subnet show a gateway, or stop showing it.
func (o *overlay) place(gateway, subnet arm.ID, on bool) {
	if here := o.out.Subnet(subnet); here != nil {
		changed := *here
		changed.Gateways = with(here.Gateways, gateway, on)
		o.out.Subnets[subnet.Key()] = &changed
	}
}

func with(ids []arm.ID, id arm.ID, on bool) []arm.ID {
	out := slices.DeleteFunc(slices.Clone(ids), id.Equal)
	if on {
		out = append(out, id)
	}
	return inventory.SortIDs(out)
}

package iac

import (
	"maps"
	"slices"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// Overlay applies the changes of a file to the real network. It takes only what the file changes,
// because the real network shows more.
func (r *Reading) Overlay(real *inventory.Snapshot) *inventory.Snapshot {
	out := *real
	out.Subnets, out.Tables = maps.Clone(real.Subnets), maps.Clone(real.Tables)
	before := r.Before
	switch {
	case r.After == nil:
		return &out
	case before == nil: // a template does not say what is there: the real network does
		before = r.touched(real)
	}
	for key, before := range before.Subnets {
		here, after := real.Subnets[key], r.After.Subnets[key]
		_, unread := r.After.Unread[key]
		switch {
		case here == nil:
		case after == nil && unread:
			delete(out.Subnets, key)
			out.Unread = maps.Clone(out.Unread)
			out.Unread[key] = r.After.Unread[key]
		case after == nil:
			delete(out.Subnets, key)
		case !after.RouteTable.Equal(before.RouteTable):
			changed := *here
			changed.RouteTable = after.RouteTable
			out.Subnets[key] = &changed
		}
	}
	for key, before := range before.Tables {
		here, after := real.Tables[key], r.After.Tables[key]
		if here == nil || after == nil ||
			slices.EqualFunc(before.Routes(), after.Routes(), sameRoute) {
			continue
		}
		out.Tables[key] = here.WithRoutes(after.Routes())
	}
	return &out
}

// touched is the part of the real network that the file writes.
func (r *Reading) touched(real *inventory.Snapshot) *inventory.Snapshot {
	s := inventory.NewSnapshot()
	for key, subnet := range real.Subnets {
		_, unread := r.After.Unread[key]
		if unread || r.After.Subnets[key] != nil {
			s.Subnets[key] = subnet
		}
	}
	for key, table := range real.Tables {
		if r.After.Tables[key] != nil {
			s.Tables[key] = table
		}
	}
	return s
}

func sameRoute(a, b inventory.Route) bool {
	return a.Name == b.Name && a.Destination() == b.Destination() && a.SameHop(b)
}

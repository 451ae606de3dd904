package clients

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"routekeeper.dev/routekeeper/internal/emulator"
)

func route(name, prefix, hop string) *armnetwork.Route {
	p := &armnetwork.RoutePropertiesFormat{AddressPrefix: to.Ptr(prefix),
		NextHopType: to.Ptr(armnetwork.RouteNextHopTypeNone)}
	if hop != "" {
		p.NextHopType, p.NextHopIPAddress = to.Ptr(armnetwork.RouteNextHopTypeVirtualAppliance),
			to.Ptr(hop)
	}
	return &armnetwork.Route{Name: to.Ptr(name), Properties: p}
}

func table(routes ...*armnetwork.Route) armnetwork.RouteTable {
	return armnetwork.RouteTable{Location: to.Ptr(region),
		Properties: &armnetwork.RouteTablePropertiesFormat{Routes: routes}}
}

func TestRouteTables(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	tables := client(a, armnetwork.NewRouteTablesClient)

	call(tables.Get(a.ctx, "net", "rt", nil)).refused(t, 404, "ResourceNotFound")
	rt := poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt",
		table(route("egress", "0.0.0.0/0", "10.0.0.4")), nil)).ok(t).RouteTable
	a.wire(
		"GET Microsoft.Network/routeTables/rt 2025-05-01 404",
		"PUT Microsoft.Network/routeTables/rt 2025-05-01 201",
		"GET operations 2025-05-01 200",
		"GET Microsoft.Network/routeTables/rt 2025-05-01 200",
	)
	is(t, "id", rt.ID, id("net", "Microsoft.Network/routeTables/rt"))
	is(t, "type", rt.Type, "Microsoft.Network/routeTables")
	is(t, "provisioningState", rt.Properties.ProvisioningState,
		armnetwork.ProvisioningStateSucceeded)
	is(t, "disableBgpRoutePropagation", rt.Properties.DisableBgpRoutePropagation, false)
	egress := rt.Properties.Routes[0]
	is(t, "route id", egress.ID, id("net", "Microsoft.Network/routeTables/rt/routes/egress"))
	is(t, "route etag", egress.Etag, *rt.Etag)
	is(t, "route provisioningState", egress.Properties.ProvisioningState,
		armnetwork.ProvisioningStateSucceeded)
	is(t, "next hop", egress.Properties.NextHopIPAddress, "10.0.0.4")

	// A table that is written as it was read keeps everything, and a stale ETag is refused.
	rt.Properties.DisableBgpRoutePropagation = to.Ptr(true)
	rt.Properties.Routes = append(rt.Properties.Routes, route("pods", "10.244.0.0/24", "10.0.1.4"))
	again := poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt", rt, nil)).ok(t).RouteTable
	is(t, "resourceGuid", again.Properties.ResourceGUID, *rt.Properties.ResourceGUID)
	is(t, "disableBgpRoutePropagation", again.Properties.DisableBgpRoutePropagation, true)
	if *again.Etag == *rt.Etag || len(again.Properties.Routes) != 2 {
		t.Errorf("after the second PUT: etag %s (was %s), %d routes", *again.Etag, *rt.Etag,
			len(again.Properties.Routes))
	}
	poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt", table(route("a", "10.1.0.0/16", ""),
		route("b", "10.1.0.0/16", "")), nil)).refused(t, 409, "RouteConflict")

	tagged := call(tables.UpdateTags(a.ctx, "net", "rt",
		armnetwork.TagsObject{Tags: map[string]*string{"team": to.Ptr("net")}}, nil)).ok(t)
	is(t, "tag", tagged.Tags["team"], "net")
	if len(tagged.Properties.Routes) != 2 {
		t.Errorf("tagging left %d routes", len(tagged.Properties.Routes))
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	tables, routes := client(a, armnetwork.NewRouteTablesClient), client(a,
		armnetwork.NewRoutesClient)
	before := poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt",
		table(route("a", "10.1.0.0/16", ""), route("b", "10.2.0.0/16", "")), nil)).ok(t).RouteTable
	a.requests()

	c := poll(routes.BeginCreateOrUpdate(a.ctx, "net", "rt", "c",
		*route("", "10.3.0.0/16", "10.0.0.4"), nil)).ok(t)
	is(t, "name", c.Name, "c")
	is(t, "prefix", c.Properties.AddressPrefix, "10.3.0.0/16")
	if *c.Etag == *before.Etag {
		t.Error("a new route left the table's ETag as it was")
	}
	poll(routes.BeginCreateOrUpdate(a.ctx, "net", "rt", "d", *route("", "10.3.0.0/16", ""), nil)).
		refused(t, 409, "RouteConflict")
	all(a, routes.NewListPager("net", "rt", nil),
		func(p armnetwork.RoutesClientListResponse) []*armnetwork.Route { return p.Value }, 3)
	poll(routes.BeginDelete(a.ctx, "net", "rt", "a", nil)).ok(t)
	call(routes.Get(a.ctx, "net", "rt", "a", nil)).refused(t, 404, "NotFound")
	a.wire(
		"PUT Microsoft.Network/routeTables/rt/routes/c 2025-05-01 201",
		"GET operations 2025-05-01 200",
		"GET Microsoft.Network/routeTables/rt/routes/c 2025-05-01 200",
		"PUT Microsoft.Network/routeTables/rt/routes/d 2025-05-01 409",
		"GET Microsoft.Network/routeTables/rt/routes 2025-05-01 200",
		"GET Microsoft.Network/routeTables/rt/routes 2025-05-01 200 next",
		"DELETE Microsoft.Network/routeTables/rt/routes/a 2025-05-01 202",
		"GET operations 2025-05-01 200",
		"GET Microsoft.Network/routeTables/rt/routes/a 2025-05-01 404",
	)
	rt := call(tables.Get(a.ctx, "net", "rt", nil)).ok(t).RouteTable
	if got := rt.Properties.Routes; len(got) != 2 || *got[0].Name != "b" || *got[1].Name != "c" {
		t.Errorf("%d routes left", len(got))
	}
}

func TestRouteTableLists(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	a.group("other")
	tables := client(a, armnetwork.NewRouteTablesClient)
	for _, in := range [][2]string{{"net", "a"}, {"net", "b"}, {"net", "c"}, {"other", "d"}} {
		poll(tables.BeginCreateOrUpdate(a.ctx, in[0], in[1], table(), nil)).ok(t)
	}
	a.requests()
	all(a, tables.NewListPager("net", nil),
		func(p armnetwork.RouteTablesClientListResponse) []*armnetwork.RouteTable {
			return p.Value
		}, 3)
	a.wire("GET Microsoft.Network/routeTables 2025-05-01 200",
		"GET Microsoft.Network/routeTables 2025-05-01 200 next")
	list := all(a, tables.NewListAllPager(nil),
		func(p armnetwork.RouteTablesClientListAllResponse) []*armnetwork.RouteTable {
			return p.Value
		}, 4)
	is(t, "the last of the subscription", list[3].ID,
		id("other", "Microsoft.Network/routeTables/d"))
	a.requests()

	poll(tables.BeginDelete(a.ctx, "net", "a", nil)).ok(t)
	// deleting a missing resource is not an error
	poll(tables.BeginDelete(a.ctx, "net", "a", nil)).ok(t)
	call(tables.Get(a.ctx, "net", "a", nil)).refused(t, 404, "ResourceNotFound")
	a.wire(
		"DELETE Microsoft.Network/routeTables/a 2025-05-01 202",
		"GET operations 2025-05-01 200",
		"DELETE Microsoft.Network/routeTables/a 2025-05-01 204",
		"GET Microsoft.Network/routeTables/a 2025-05-01 404",
	)
	all(a, tables.NewListPager("net", nil),
		func(p armnetwork.RouteTablesClientListResponse) []*armnetwork.RouteTable {
			return p.Value
		}, 2)
}

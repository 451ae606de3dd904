package trace_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

const api = "2025-05-01"

type object = map[string]any

// TestAgreesWithEmulator: on random networks, trace and emulator agree about the routes of each
// network interface, with and without a table and on both sides of a peering, and about where
// packets go.
func TestAgreesWithEmulator(t *testing.T) {
	e, err := emulator.New(emulator.Options{Buckets: emulatortest.NoLimits})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c, err := e.Client(emulator.DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	groups := 0
	rapid.Check(t, func(t *rapid.T) {
		groups++
		group := arm.GroupID(emulator.DefaultSubscription, fmt.Sprint("net", groups))
		of := func(kind, name string) arm.ID {
			return group + arm.ID("/providers/Microsoft.Network/"+kind+"/"+name)
		}
		own, hub, rt, watcher := of("virtualNetworks", "own"), of("virtualNetworks",
			"hub"), of("routeTables", "rt"), of("networkWatchers", "watcher")
		put := func(id arm.ID, properties object) {
			t.Helper()
			if err := c.Put(id, api,
				object{"location": "westeurope", "properties": properties}); err != nil {
				t.Fatal(err)
			}
		}
		space := rapid.SampledFrom([][]any{{"10.42.0.0/16"}, {"10.0.0.0/8"},
			{"192.168.0.0/16", "10.42.0.0/16"}, {"172.20.0.0/16"}}).Draw(t, "space")
		first := netip.MustParsePrefix(space[0].(string)).Addr()
		put(group, object{})
		put(hub, object{"addressSpace": object{"addressPrefixes": []any{"100.64.0.0/16",
			"198.51.100.0/24"}},
			"subnets": []any{object{"name": "s",
				"properties": object{"addressPrefix": "100.64.0.0/24"}}}})
		var routes []any
		seen := map[netip.Prefix]bool{}
		for i := range rapid.IntRange(0, 12).Draw(t, "routes") {
			p := drawPrefix(t)
			if seen[p] {
				continue
			}
			seen[p] = true
			properties := object{"addressPrefix": p.String(),
				"nextHopType": rapid.SampledFrom([]string{"VirtualAppliance", "None", "Internet",
					"VnetLocal", "VirtualNetworkGateway"}).Draw(t, "hop")}
			if properties["nextHopType"] == "VirtualAppliance" {
				properties["nextHopIpAddress"] = fmt.Sprintf("10.42.0.%d", 4+i)
			}
			routes = append(routes, object{"name": fmt.Sprint("r", i), "properties": properties})
		}
		put(rt, object{"routes": routes})
		tabled := netip.PrefixFrom(first, 24)
		for tabled.Contains(first) {
			first = first.Next()
		}
		put(own, object{"addressSpace": object{"addressPrefixes": space}, "subnets": []any{
			object{"name": "s", "properties": object{"addressPrefix": tabled.String(),
				"routeTable": object{"id": string(rt)}}},
			object{"name": "bare",
				"properties": object{"addressPrefix": netip.PrefixFrom(first, 24).String()}},
		}})
		if rapid.Bool().Draw(t, "peered") {
			access := rapid.Bool().Draw(t, "access")
			put(own.Child("virtualNetworkPeerings", "to-hub"),
				object{"remoteVirtualNetwork": object{"id": string(hub)},
					"allowVirtualNetworkAccess": access})
			if rapid.Bool().Draw(t, "connected") {
				put(hub.Child("virtualNetworkPeerings", "to-own"),
					object{"remoteVirtualNetwork": object{"id": string(own)},
						"allowVirtualNetworkAccess": true})
			}
		}
		put(watcher, object{})

		// Trace knows only what ARM shows.
		s := inventory.NewSnapshot()
		for _, id := range []arm.ID{own, hub, rt} {
			if _, raw := c.Do(http.MethodGet, id, api, nil); s.Add(raw) != nil {
				t.Fatalf("%s", raw)
			}
		}
		for i, subnet := range []arm.ID{own.Child("subnets", "s"), own.Child("subnets", "bare"),
			hub.Child("subnets", "s")} {
			nic := of("networkInterfaces", fmt.Sprint("nic", i))
			put(nic, object{"ipConfigurations": []any{
				object{"name": "c", "properties": object{"subnet": object{"id": string(subnet)}}}}})
			effective, err := trace.Effective(s, subnet, nil)
			if err != nil {
				t.Fatal(err)
			}
			agree(t, c, nic, watcher, effective)
		}
	})
}

// agree compares our routes of an interface with the emulator's, and where it
// sends packets.
func agree(t *rapid.T, c *emulator.Client, nic, watcher arm.ID, effective *trace.Routes) {
	t.Helper()
	status, raw := c.Do(http.MethodPost, nic+"/effectiveRouteTable", api, nil)
	var answer struct {
		Value []struct {
			Source, State, NextHopType string
			AddressPrefix              []string
			NextHopIPAddress           []string `json:"nextHopIpAddress"`
		}
	}
	if err := json.Unmarshal(raw, &answer); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, raw)
	}
	var theirs, ours []string
	for _, r := range answer.Value {
		theirs = append(theirs, fmt.Sprint(r.Source, r.AddressPrefix, r.NextHopType,
			r.NextHopIPAddress, r.State == "Active"))
	}
	for _, r := range effective.All {
		hop := []string{}
		if r.Hop.IsValid() {
			hop = append(hop, r.Hop.String())
		}
		ours = append(ours,
			fmt.Sprint(r.Source, []string{r.Prefix.String()}, r.HopType, hop, r.Active))
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	if !slices.Equal(ours, theirs) {
		t.Fatalf("ours\n%q\ntheirs\n%q", ours, theirs)
	}
	_, raw = c.Do(http.MethodGet, nic, api, nil)
	made, err := inventory.DecodeInterface(raw)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		to := drawPrefix(t).Addr()
		body, err := json.Marshal(object{"targetResourceId": string(nic),
			"sourceIPAddress":      made.Configs[0].Address.String(),
			"destinationIPAddress": to.String()})
		if err != nil {
			t.Fatal(err)
		}
		status, raw := c.Do(http.MethodPost, watcher+"/nextHop", api, body)
		var next struct{ NextHopType, NextHopIPAddress, RouteTableID string }
		if err := json.Unmarshal(raw, &next); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, raw)
		}
		route, found := effective.Lookup(to)
		hop := ""
		if route.Hop.IsValid() {
			hop = route.Hop.String()
		}
		if !found || route.HopType != next.NextHopType || hop != next.NextHopIPAddress ||
			(route.Table != "") != (next.RouteTableID != "System Route") {
			t.Fatalf("%s: ours %s, theirs %s", to, route, raw)
		}
	}
}

func drawPrefix(t *rapid.T) netip.Prefix {
	first := rapid.SampledFrom([]byte{10, 10, 100, 172, 192, 198, 20}).Draw(t, "first")
	addr := netip.AddrFrom4([4]byte{first, rapid.SampledFrom([]byte{0, 20, 42, 51, 64, 168}).Draw(t,
		"second"), byte(rapid.IntRange(0, 3).Draw(t, "third")),
		byte(rapid.IntRange(0, 255).Draw(t, "fourth"))})
	return netip.PrefixFrom(addr, rapid.IntRange(0, 32).Draw(t, "bits")).Masked()
}

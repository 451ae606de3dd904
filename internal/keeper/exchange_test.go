package keeper

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// exchange answers reads of a table as before an exchange of its appliance, until a read of what is
// around has gone out.
type exchange struct {
	next  http.RoundTripper
	table arm.ID

	mu    sync.Mutex
	began bool
	ended int
	old   []byte
}

func (e *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	path := strings.ToLower(r.URL.Path)
	if e.began && (strings.HasSuffix(path, "/virtualnetworks") ||
		strings.HasSuffix(path, "/virtualnetworks/hub")) {
		e.began = false
		e.ended++
	}
	res, err := e.next.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet || path != strings.ToLower(string(e.table)) {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if e.began {
		body = e.old
	}
	e.old = body
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res.Header.Del("Content-Length")
	return res, nil
}

// TestApplianceExchanged: an appliance and its route are exchanged after a check has read the route
// and before it reads what is around. No packet is lost, and no check says so.
func TestApplianceExchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, config := guardedWorld(t)
		table := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeRouteTable,
			"egress")
		hub := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeVNet, "hub")
		blue := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeInterface,
			"appliance")
		w.put(blue+"-green", object{"properties": object{"enableIPForwarding": true,
			"ipConfigurations": []any{object{"name": "ip", "properties": object{
				"subnet": object{"id": string(hub.Child("subnets", "appliances"))}}}}}})
		w.bend(table, "out", hubAt)
		swap := &exchange{next: emulatortest.Transport(t, w.e), table: table}
		k := w.runOver(emulatortest.ClientOver(t, swap, w.e, emulatortest.Keeper), Options{},
			10*time.Second, config)
		k.since(time.Minute)
		swap.mu.Lock()
		swap.began = true
		swap.mu.Unlock()
		w.bend(table, "out", "10.71.1.5")
		if status, body := w.op.Do("DELETE", blue, networkAPI, nil); status >= 300 {
			t.Fatalf("%d %s", status, body)
		}
		for _, r := range k.since(2 * aroundBelieved) {
			if v := r.Verdicts[0]; v.State != verdict.InSync {
				t.Errorf("%s %s", v.State, v.Sentence)
			}
		}
		if swap.ended != 1 {
			t.Error("nothing was exchanged")
		}
	})
}

// TestLostUnrelated: a next hop is lost until a load balancer is in its subnet that may not be
// read, and so may have it. That another next hop's network cannot be read for a moment says
// nothing.
func TestLostUnrelated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table, _, config := egressWorld(t)
		config.Spec.Egress.Mode, config.Spec.Egress.FirewallID = "Observe", ""
		config.Spec.Egress.Routes[0].NextHopIPAddress = "10.71.1.77"
		other := config.Spec.Egress.Routes[0]
		other.Name, other.AddressPrefix, other.NextHopIPAddress = "partner", "10.99.0.0/16",
			"10.72.1.4"
		config.Spec.Egress.Routes = append(config.Spec.Egress.Routes, other)
		id := func(kind, name string) arm.ID {
			return arm.ResourceID(emulator.DefaultSubscription, "over-rg", kind, name)
		}
		own, far := id(arm.TypeVNet, "over-vnet"), id(arm.TypeVNet, "far")
		w.hub(own)
		w.put(far, object{"properties": object{"addressSpace": object{
			"addressPrefixes": []any{"10.72.0.0/16"}}, "subnets": []any{object{"name": "a",
			"properties": object{"addressPrefix": "10.72.1.0/24"}}}}})
		for _, p := range [][2]arm.ID{{own, far}, {far, own}} {
			w.put(p[0].Child("virtualNetworkPeerings", "to-"+p[1].Name()), object{
				"properties": object{"remoteVirtualNetwork": object{"id": string(p[1])},
					"allowVirtualNetworkAccess": true, "allowForwardedTraffic": true}})
		}
		w.bend(table, "out", "10.71.1.77")
		w.bend(table, "partner", "10.72.1.4")
		for _, path := range []string{"virtualNetworks/far$", "virtualNetworks$"} {
			w.inject(emulator.Fault{Method: "GET", Path: path, Count: -1,
				Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"})
		}
		w.inject(emulator.Fault{Method: "GET", Path: "loadBalancers", Count: -1,
			Status: http.StatusForbidden, Code: "AuthorizationFailed"})
		k := w.run(10*time.Second, config)
		rounds := k.since(2 * time.Minute)
		if v := rounds[len(rounds)-1].Verdicts[0]; v.State != verdict.Broken {
			t.Fatalf("%s %s", v.State, v.Sentence)
		}
		w.put(id("Microsoft.Network/loadBalancers", "lb"), object{"sku": object{
			"name": "Standard"}, "properties": object{"frontendIPConfigurations": []any{object{
			"name": "ip", "properties": object{"subnet": object{
				"id": string(id(arm.TypeVNet, "hub").Child("subnets", "appliances"))}}}}}})
		rounds = k.since(aroundBelieved + time.Minute)
		if v := rounds[len(rounds)-1].Verdicts[0]; v.State == verdict.Broken {
			t.Errorf("%s %s", v.State, v.Sentence)
		}
	})
}

// TestHalvesLost: the two halves of a default route, which no config declares, lead to an address
// that nothing has.
func TestHalvesLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, config := guardedWorld(t)
		table := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeRouteTable,
			"egress")
		w.edit(table, func(p object) {
			p["routes"] = []any{}
			for name, half := range map[string]string{"low": "0.0.0.0/1", "high": "128.0.0.0/1"} {
				p["routes"] = append(p["routes"].([]any), object{"name": name,
					"properties": object{"addressPrefix": half, "nextHopType": "VirtualAppliance",
						"nextHopIpAddress": "10.71.1.77"}})
			}
		})
		k := w.run(10*time.Second, config)
		rounds := k.since(2 * time.Minute)
		if v := rounds[len(rounds)-1].Verdicts[0]; v.State != verdict.Broken {
			t.Errorf("%s %s", v.State, v.Sentence)
		}
	})
}

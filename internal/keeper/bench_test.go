package keeper

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// BenchmarkSync brings 400 pod routes into an empty target over HTTP on loopback, in three ways: by
// a check of a keeper, like the runbooks (read both tables, and PUT every missing route), and with
// the minimum of calls (GET, PUT of the whole table, GET). The emulator counts the ARM calls.
func BenchmarkSync(b *testing.B) {
	const nodes = 400
	w := emptyWorld(b, emulator.Options{LogBodies: 1, Buckets: emulatortest.NoLimits})
	sub := emulator.DefaultSubscription
	cluster := arm.ResourceID(sub, "rg", arm.TypeCluster, "big")
	source, target := arm.ResourceID(sub, "rg", arm.TypeRouteTable, "big-rt"), arm.ResourceID(sub,
		"rg", arm.TypeRouteTable, "gw-rt")
	vnet := arm.ResourceID(sub, "rg", arm.TypeVNet, "vnet")
	w.put(cluster.Group(), object{})
	w.putTable(source)
	w.put(vnet, object{
		"properties": object{"addressSpace": object{"addressPrefixes": []any{"10.0.0.0/8"}},
			"subnets": []any{
				object{"name": "nodes", "properties": object{"addressPrefix": "10.1.0.0/20",
					"routeTable": object{"id": string(source)}}},
			}}})
	w.put(cluster, object{"properties": object{
		"networkProfile": object{"networkPlugin": "kubenet", "podCidr": "10.128.0.0/9"},
		"agentPoolProfiles": []any{
			object{"name": "np", "count": nodes,
				"vnetSubnetID": string(vnet.Child("subnets", "nodes"))}},
	}})
	transport := loopback(b, w)
	client := emulatortest.ClientOver(b, transport, w.e, emulatortest.Keeper)
	config := configure("big", cluster, target)
	config.Spec.RouteTableID = string(source)
	token, _, err := w.e.Token(emulatortest.Keeper, "https://management.core.windows.net/")
	if err != nil {
		b.Fatal(err)
	}
	raw := plainClient{b, &http.Client{Transport: transport}, token}

	for _, way := range []struct {
		name string
		sync func(b *testing.B)
	}{
		{"keeper", func(b *testing.B) {
			k := New(client, []v1alpha1.ClusterRoutes{config}, Options{})
			r, err := k.Reconcile(context.Background())
			if err != nil || len(r.Changes) != nodes || !doneAll(r) {
				b.Fatalf("%v, %d changes, %+v", err, len(r.Changes), r.Findings)
			}
		}},
		{"put-per-route", func(b *testing.B) { raw.putEach(source, target) }},
		{"bare-calls", func(b *testing.B) { raw.putWhole(source, target) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			calls := 0
			for b.Loop() {
				b.StopTimer()
				w.putTable(target)
				since := w.mark()
				b.StartTimer()
				way.sync(b)
				b.StopTimer()
				calls += len(since())
				if n := len(w.routes(target)); n != nodes {
					b.Fatalf("%d routes in the target", n)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(calls)/float64(b.N), "ARM-calls/op")
		})
	}
}

// plainClient has what a script has: GET and PUT.
type plainClient struct {
	b     *testing.B
	http  *http.Client
	token string
}

func (c plainClient) do(method string, id arm.ID, body []byte) []byte {
	r, err := http.NewRequest(method, "http://local"+string(id)+"?api-version="+networkAPI,
		bytes.NewReader(body))
	if err != nil {
		c.b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.http.Do(r)
	if err != nil {
		c.b.Fatal(err)
	}
	defer response.Body.Close()
	out, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		c.b.Fatalf("%v %s %s", err, response.Status, out)
	}
	return out
}

func (c plainClient) table(id arm.ID) *inventory.RouteTable {
	t, err := inventory.DecodeRouteTable(c.do(http.MethodGet, id, nil))
	if err != nil {
		c.b.Fatal(err)
	}
	return t
}

func (c plainClient) putEach(source, target arm.ID) {
	have := map[string]bool{}
	for _, r := range c.table(target).Routes() {
		have[r.Name] = true
	}
	for _, r := range c.table(source).Routes() {
		if !have[r.Name] {
			c.do(http.MethodPut, target.Child("routes", r.Name), []byte(fmt.Sprintf(
				`{"properties":{"addressPrefix":%q,"nextHopType":"VirtualAppliance","nextHopIpAddress":%q}}`, r.Destination(), r.NextHop())))
		}
	}
}

func (c plainClient) putWhole(source, target arm.ID) {
	from, to := c.table(source), c.table(target)
	body, err := inventory.SetRoutes(to.Raw, append(to.Routes(), from.Routes()...))
	if err != nil {
		c.b.Fatal(err)
	}
	c.do(http.MethodPut, target, body)
	c.table(target)
}

// BenchmarkRest checks a fleet in which nothing has to be done: 1,000 clusters of 20 nodes in 10
// subscriptions. The calls are those of one check. The allocations are those of keeper and emulator
// together.
func BenchmarkRest(b *testing.B) {
	subscriptions := emulatortest.Subscriptions(10)
	w := emptyWorld(b, emulator.Options{Subscriptions: subscriptions, LogBodies: 1,
		Buckets: emulatortest.NoLimits})
	var configs []v1alpha1.ClusterRoutes
	for _, m := range emulatortest.BuildFleet(b, w.e, subscriptions, 1000, 20) {
		c := configure(m.Cluster.Name(), m.Cluster)
		if m.Target != "" {
			c = configure(m.Cluster.Name(), m.Cluster, m.Target)
			c.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
				{SubnetID: string(m.Gateway), RouteTableID: string(m.Target)}}
		}
		configs = append(configs, c)
	}
	k := w.keep(configs...)
	if r := w.reconcile(k); !doneAll(r) || len(r.Changes) != 750*20 {
		b.Fatalf("%d changes, %+v", len(r.Changes), r.Findings)
	}
	w.reconcile(k)
	reads := 0
	for b.Loop() {
		r := w.reconcile(k)
		if len(r.Changes)+len(r.Findings) > 0 {
			b.Fatalf("%d changes, %+v", len(r.Changes), r.Findings)
		}
		reads += r.Reads
	}
	b.ReportMetric(float64(reads)/float64(b.N), "ARM-calls/op")
}

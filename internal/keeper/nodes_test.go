package keeper

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// playedNodes is a Kubernetes API whose nodes a test plays.
type playedNodes struct {
	mu      sync.Mutex
	nodes   []inventory.Node
	lost    time.Time
	changed func()
	kept    map[string]bool
}

func (p *playedNodes) Nodes(_ context.Context, _ *inventory.Cluster, _ time.Duration,
	changed func()) *inventory.Kubernetes {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = changed
	if !p.lost.IsZero() {
		return &inventory.Kubernetes{Failed: "no route to host", Since: p.lost}
	}
	nodes := slices.Clone(p.nodes)
	slices.SortFunc(nodes, inventory.Node.Compare)
	return &inventory.Kubernetes{Nodes: nodes}
}

func (p *playedNodes) Retain(clusters map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = clusters
}

// play changes the nodes, and tells it.
func (p *playedNodes) play(change func([]inventory.Node) []inventory.Node) {
	p.mu.Lock()
	p.nodes = change(p.nodes)
	changed := p.changed
	p.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (p *playedNodes) lose(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = since
}

// made is the nth node, in a pool whose machines Azure does not count (node auto-provisioning).
func made(n int) inventory.Node {
	return inventory.Node{Name: fmt.Sprintf("aks-nap-00000000-vmss%06d", n),
		PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 170, byte(n >> 8),
			byte(n)}), 24)},
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 70, byte(8 + n>>8), byte(n)})},
		Ready:     true, ReadySince: time.Now()}
}

func cidrOf(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(170 + n>>8), byte(n), 0}), 24)
}

// overlayWorld is an emulator with an overlay cluster of one node, and a target.
func overlayWorld(t testing.TB, o emulator.Options) (w *world, cluster, target arm.ID,
	config v1alpha1.ClusterRoutes) {
	w = emptyWorld(t, o)
	id := func(kind, name string) arm.ID {
		return arm.ResourceID(emulator.DefaultSubscription, "over-rg", kind, name)
	}
	cluster, target = id(arm.TypeCluster, "over"), id(arm.TypeRouteTable, "over-target")
	vnet := id(arm.TypeVNet, "over-vnet")
	w.put(cluster.Group(), object{})
	w.putTable(target, "theirs 10.99.0.0/16 10.98.0.4")
	w.put(vnet, object{"properties": object{
		"addressSpace": object{"addressPrefixes": []any{"10.70.0.0/16"}}, "subnets": []any{
			object{"name": "nodes", "properties": object{"addressPrefix": "10.70.0.0/20"}},
			object{"name": "others", "properties": object{"addressPrefix": "10.70.16.0/24",
				"routeTable": object{"id": string(target)}}},
		}}})
	w.put(cluster, object{"properties": object{
		"networkProfile": object{"networkPlugin": "azure", "networkPluginMode": "overlay",
			"podCidr": "10.160.0.0/12"},
		"agentPoolProfiles": []any{object{"name": "np", "count": 1,
			"vnetSubnetID": string(vnet.Child("subnets", "nodes"))}},
	}})
	config = configure("over", cluster, target)
	config.Spec.Source = v1alpha1.SourceNodes
	config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
		{SubnetID: string(vnet.Child("subnets", "others")), RouteTableID: string(target)}}
	return w, cluster, target, config
}

// putsOf are the PUTs of a table, and how many routes each has.
func putsOf(requests []emulator.Request, table arm.ID) (at []time.Time, routes []int) {
	for _, r := range requests {
		if r.Method != "PUT" || !strings.EqualFold(r.Path, string(table)) {
			continue
		}
		var body struct{ Properties struct{ Routes []any } }
		_ = json.Unmarshal(r.Body, &body)
		at, routes = append(at, r.Time), append(routes, len(body.Properties.Routes))
	}
	return at, routes
}

// TestNodesInASecond: 399 nodes get their pod CIDRs within a second. The first has its route in a
// PUT within a second, and the target is complete after at most three. Nodes that flap then write
// nothing.
func TestNodesInASecond(t *testing.T) {
	for name, o := range map[string]emulator.Options{"slow": slow, "instant": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _, target, config := overlayWorld(t, o)
				time.Sleep(5 * time.Minute) // AKS takes that long
				api := &playedNodes{}
				k := w.runWith(Options{Nodes: api}, 10*time.Minute, config)
				k.since(time.Minute)
				since, began := w.mark(), time.Now()
				const nodes = 399
				for n := range nodes {
					api.play(func(all []inventory.Node) []inventory.Node {
						node := made(n)
						node.PodCIDRs = []netip.Prefix{cidrOf(n)}
						return append(all, node)
					})
					time.Sleep(time.Second / nodes)
				}
				k.since(time.Minute)
				at, routes := putsOf(since(), target)
				if len(at) == 0 || at[0].Sub(began) > time.Second || len(at) > 3 ||
					routes[len(routes)-1] != nodes+1 {
					t.Errorf("PUTs of %v routes at %v after %s", routes, at, began)
				}
				since = w.mark()
				api.play(func(all []inventory.Node) []inventory.Node {
					for i := range all {
						all[i].Ready = i%2 == 0
					}
					return all
				})
				k.since(20 * time.Minute)
				w.expectNoWrites("after flaps", since())
			})
		})
	}
}

// TestNodesChurn: node auto-provisioning makes 500 nodes in a minute and removes most of them. One
// PUT of the target is in flight at a time, and in the end the target has the routes of the nodes
// that are there.
func TestNodesChurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, target, config := overlayWorld(t, slow)
		time.Sleep(5 * time.Minute)
		api := &playedNodes{}
		k := w.runWith(Options{Nodes: api}, 10*time.Second, config)
		k.since(time.Minute)
		since := w.mark()
		const nodes, alive = 500, 90
		for n := range nodes {
			api.play(func(all []inventory.Node) []inventory.Node {
				node := made(n)
				node.PodCIDRs = []netip.Prefix{cidrOf(n)}
				if all = append(all, node); len(all) > alive {
					all = all[1:]
				}
				return all
			})
			time.Sleep(time.Minute / nodes)
		}
		rounds := k.since(time.Minute)
		var want []string
		for n := nodes - alive; n < nodes; n++ {
			want = append(want, fmt.Sprintf("%s>%s", cidrOf(n), made(n).Addresses[0]))
		}
		w.expectRoutes(target, append(want, "10.99.0.0/16>10.98.0.4")...)
		at, routes := putsOf(since(), target)
		for i, put := range at {
			if i > 0 && put.Sub(at[i-1]) < 4*time.Second { // Azure takes that long
				t.Errorf("PUTs at %s and %s: one was still in flight", at[i-1], put)
			}
		}
		if len(at) == 0 || len(at) > 25 {
			t.Errorf("%d PUTs of %v routes", len(at), routes)
		}
		for _, r := range since() {
			if r.Method == "PUT" && r.Status >= 400 {
				t.Errorf("PUT %s: %d", r.Path, r.Status)
			}
		}
		if last := rounds[len(rounds)-1]; !slices.Equal(codes(last),
			[]finding.Code{finding.OverlayRoutes}) {
			t.Errorf("findings %+v", last.Findings)
		}
	})
}

// TestNodesLost: the Kubernetes API is lost. No route changes, the finding says since when, and a
// lost association is repaired nevertheless. Once it is back, the routes follow at once.
func TestNodesLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cluster, target, config := overlayWorld(t, slow)
		time.Sleep(5 * time.Minute)
		api := &playedNodes{nodes: []inventory.Node{made(1 << 8), made(2 << 8)}}
		for i := range api.nodes {
			api.nodes[i].PodCIDRs = []netip.Prefix{cidrOf(i)}
		}
		k := w.runWith(Options{Nodes: api}, 10*time.Second, config)
		k.since(time.Minute)
		both := append(w.routes(target), []string{}...)
		if len(both) != 3 {
			t.Fatalf("the target holds %v", both)
		}
		api.lose(time.Now())
		since := time.Now().UTC().Format("2006-01-02 15:04:05 UTC")
		api.play(func(all []inventory.Node) []inventory.Node { return all[1:] })
		others := arm.ID(config.Spec.Guard.Subnets[0].SubnetID)
		w.strip(others)
		rounds := k.since(10 * time.Minute)
		w.expectRoutes(target, both...)
		if w.tableOf(others) == "" {
			t.Error("the association is not repaired")
		}
		f := of(rounds[len(rounds)-1], finding.NodesUnread)
		if f == nil || !strings.Contains(f.Message, since) || f.Severity != finding.Error {
			t.Errorf("findings %+v, want one that says since %s",
				rounds[len(rounds)-1].Findings, since)
		}
		api.lose(time.Time{})
		api.play(func(all []inventory.Node) []inventory.Node { return all })
		k.since(2 * operation)
		if got := w.routes(target); len(got) != 2 {
			t.Errorf("the target holds %v", got)
		}
		k.Reload(nil)
		if api.kept[cluster.Key()] {
			t.Error("a cluster that no config names is still followed")
		}
	})
}

// BenchmarkNode measures the time from a change in the watch to the route in the target, over HTTP
// on loopback, and the floor in the same run: one GET, one PUT and one GET of the target. The
// keeper also reads what it needs to decide, and writes in the background.
func BenchmarkNode(b *testing.B) {
	w, _, target, config := overlayWorld(b,
		emulator.Options{LogBodies: 1, Buckets: emulatortest.NoLimits})
	for w.get(arm.ID(config.Spec.ClusterID))["properties"].(object)["provisioningState"] !=
		"Succeeded" {
		time.Sleep(10 * time.Millisecond)
	}
	transport := loopback(b, w)
	api := &playedNodes{}
	done := make(chan Result, 1)
	k := New(emulatortest.ClientOver(b, transport, w.e, emulatortest.Keeper),
		[]v1alpha1.ClusterRoutes{config}, Options{Nodes: api})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx, time.Hour, func(r Result) { done <- r }) }()
	b.Cleanup(func() {
		cancel()
		<-ended
	})
	<-done
	token, _, err := w.e.Token(emulatortest.Keeper, "https://management.core.windows.net/")
	if err != nil {
		b.Fatal(err)
	}
	raw := plainClient{b, &http.Client{Transport: transport}, token}
	source := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeRouteTable, "one")
	w.putTable(source, "one 10.175.0.0/24 10.70.0.9")
	for _, way := range []struct {
		name string
		add  func(n int)
	}{
		{"keeper", func(n int) {
			api.play(func([]inventory.Node) []inventory.Node {
				node := made(256)
				node.PodCIDRs = []netip.Prefix{cidrOf(n % 1000)}
				return []inventory.Node{node}
			})
			if r := <-done; len(r.Changes) == 0 || !doneAll(r) {
				b.Fatalf("%+v", r)
			}
		}},
		{"floor", func(int) {
			to := raw.table(target)
			body, err := inventory.SetRoutes(to.Raw, append(to.Routes(),
				inventory.NewRoute("one", cidrOf(1000), made(1000).Addresses[0])))
			if err != nil {
				b.Fatal(err)
			}
			raw.do(http.MethodPut, target, body)
			raw.table(target)
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				b.StopTimer()
				w.putTable(target, "theirs 10.99.0.0/16 10.98.0.4")
				time.Sleep(eventSpacing) // the first of several events is not delayed
				n++
				b.StartTimer()
				way.add(n)
			}
		})
	}
}

// loopback serves the emulator over HTTP on loopback.
func loopback(b *testing.B, w *world) *http.Transport {
	server := httptest.NewServer(w.e)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", server.Listener.Addr().String())
	}}
	b.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return transport
}

// TestNodesBehindTable: the node subnet of an overlay cluster has a table that the config does not
// name, as after a migration off kubenet. It decides about answers from pods, so it is read, and
// the state does not become unknown when its memory is all that is left.
func TestNodesBehindTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cluster, _, config := overlayWorld(t, slow)
		left := arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeRouteTable, "left")
		w.putTable(left, "firewall 0.0.0.0/0 "+firewallAt)
		w.firewallSubnet()
		w.firewall(arm.ResourceID(emulator.DefaultSubscription, "over-rg", arm.TypeFirewall, "fw"))
		nodes := arm.ResourceID(emulator.DefaultSubscription, cluster.ResourceGroup(), arm.TypeVNet,
			"over-vnet").Child("subnets", "nodes")
		w.edit(nodes, func(p object) { p["routeTable"] = object{"id": string(left)} })
		time.Sleep(5 * time.Minute)
		api := &playedNodes{nodes: []inventory.Node{made(1 << 8)}}
		api.nodes[0].PodCIDRs = []netip.Prefix{cidrOf(0)}
		k := w.runWith(Options{Nodes: api}, 10*time.Second, config)
		rounds := k.since(5 * time.Minute)
		for _, r := range rounds[1:] {
			for _, v := range r.Verdicts {
				if v.State != verdict.InSync {
					t.Fatalf("%s: %s", v.State, v.Sentence)
				}
			}
		}
	})
}

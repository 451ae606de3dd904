//go:build linux

package kernel

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// How it works. A story is one damage to the demo's network, and one way in which people repair it,
// on the emulator and in a synctest bubble, whose clock costs nothing. The story keeps a snapshot
// whenever a table has changed, or a subnet has another table. Then the kernel sends a packet
// through each snapshot. If it is lost, so are all packets until the next snapshot.

var update = flag.Bool("update", false, "rewrite the table of lost packets in docs/performance.md")

// perSecond is how many packets each story sends on its way; horizon ends a story that nothing
// repairs; look is how long a change can stay unseen.
const perSecond, horizon, look = 10, 15 * time.Minute, 200 * time.Millisecond

// lab is the demo's network in the emulator, with Azure's own times.
type lab struct {
	*testing.T
	emulator.Demo
	e     *emulator.Emulator
	op    *emulator.Client
	right map[arm.ID][]any // the routes of the tables before the damage
}

const networkAPI = "2025-05-01"

func (a *lab) get(id arm.ID) map[string]any {
	doc, err := a.op.Get(id, networkAPI)
	if err != nil {
		a.Fatal(err)
	}
	return doc
}

// edit changes the properties of a resource and reports whether it had to write.
func (a *lab) edit(id arm.ID, change func(properties map[string]any) bool) {
	doc := a.get(id)
	if change(doc["properties"].(map[string]any)) {
		if err := a.op.Put(id, networkAPI, doc); err != nil {
			a.Fatal(err)
		}
	}
}

func (a *lab) routes(table arm.ID) []any {
	return a.get(table)["properties"].(map[string]any)["routes"].([]any)
}

func (a *lab) hasTable(subnet arm.ID) bool {
	return a.get(subnet)["properties"].(map[string]any)["routeTable"] != nil
}

// associate puts a table back on a subnet that has none.
func (a *lab) associate(subnet, table arm.ID) {
	a.edit(subnet, func(p map[string]any) bool {
		had := p["routeTable"] != nil
		p["routeTable"] = map[string]any{"id": string(table)}
		return !had
	})
}

func field(route any, name string) string {
	r := route.(map[string]any)
	if name == "name" {
		return r[name].(string)
	}
	text, _ := r["properties"].(map[string]any)[name].(string)
	return text
}

// sum is what decides about packets in a list of routes.
func sum(routes []any) string {
	var all []string
	for _, r := range routes {
		all = append(all, field(r, "addressPrefix")+field(r, "nextHopIpAddress"))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// pods are the routes to pods.
func pods(routes []any) (all []any) {
	for _, r := range routes {
		if strings.HasPrefix(field(r, "addressPrefix"), "10.244.") {
			all = append(all, r)
		}
	}
	return all
}

// gone is an address of the node subnet that no machine has.
const gone = "10.224.0.200"

// damages are what happens, which way it concerns, and whether it is repaired.
var damages = []struct {
	name     string
	do       func(a *lab)
	nodes    bool // from a pod to a pod on another node; otherwise from the gateway to a pod
	repaired func(a *lab) bool
}{
	{"the node subnet loses its table", func(a *lab) {
		a.edit(a.NodeSubnet, func(p map[string]any) bool { delete(p, "routeTable"); return true })
	}, true, func(a *lab) bool { return a.hasTable(a.NodeSubnet) }},
	{"a target's route is bent to a machine that is gone", func(a *lab) {
		a.edit(a.GatewayTable, func(p map[string]any) bool {
			all := pods(p["routes"].([]any))
			last := all[len(all)-1].(map[string]any)["properties"].(map[string]any)
			last["nextHopIpAddress"] = gone
			return true
		})
	}, false, (*lab).copied},
	{"a target loses a route", func(a *lab) {
		a.edit(a.GatewayTable, func(p map[string]any) bool {
			routes := p["routes"].([]any)
			all := pods(routes)
			last := slices.IndexFunc(routes, func(r any) bool {
				return field(r, "name") == field(all[len(all)-1], "name")
			})
			p["routes"] = slices.Delete(routes, last, last+1)
			return true
		})
	}, false, (*lab).copied},
	{"a node joins", func(a *lab) {
		if err := a.e.Scale(a.Cluster, a.Pool, 4); err != nil {
			a.Fatal(err)
		}
	}, false, func(a *lab) bool { return len(pods(a.routes(a.ClusterTable))) == 4 && a.copied() }},
}

// copied reports whether the target has the pod routes of the cluster's table.
func (a *lab) copied() bool {
	return sum(pods(a.routes(a.GatewayTable))) == sum(pods(a.routes(a.ClusterTable)))
}

// repairs are the ways in which people repair. Every is the time between two looks; with events the
// keeper hears of each write at once.
var repairs = []struct {
	name   string
	every  time.Duration
	events bool
	do     func(a *lab) // nil: the keeper
}{
	{"keeper, events", 30 * time.Second, true, nil},
	{"keeper, 1 s", time.Second, false, nil},
	{"keeper, 5 s", 5 * time.Second, false, nil},
	{"keeper, 30 s", 30 * time.Second, false, nil},
	{"runbook, 3 min", 3 * time.Minute, false, (*lab).runbook},
	{"Terraform, 10 min", 10 * time.Minute, false, (*lab).terraform},
	{"nothing", 0, false, func(*lab) {}},
}

// runbook does what runbooks do: it puts lost tables back, and copies the pod routes whose name the
// target lacks.
func (a *lab) runbook() {
	a.associate(a.NodeSubnet, a.ClusterTable)
	a.associate(a.GatewaySubnet, a.GatewayTable)
	source := pods(a.routes(a.ClusterTable))
	a.edit(a.GatewayTable, func(p map[string]any) bool {
		routes := p["routes"].([]any)
		before := len(routes)
		for _, r := range source {
			if !slices.ContainsFunc(routes, func(have any) bool {
				return field(have, "name") == field(r, "name")
			}) {
				routes = append(routes, map[string]any{"name": field(r, "name"),
					"properties": map[string]any{"nextHopType": "VirtualAppliance",
						"addressPrefix":    field(r, "addressPrefix"),
						"nextHopIpAddress": field(r, "nextHopIpAddress")}})
			}
		}
		p["routes"] = routes
		return len(routes) > before
	})
}

// terraform applies a configuration that lists the target's routes, as they were when it was
// written.
func (a *lab) terraform() {
	a.associate(a.NodeSubnet, a.ClusterTable)
	a.associate(a.GatewaySubnet, a.GatewayTable)
	a.edit(a.GatewayTable, func(p map[string]any) bool {
		drifted := sum(p["routes"].([]any)) != sum(a.right[a.GatewayTable])
		p["routes"] = a.right[a.GatewayTable]
		return drifted
	})
}

// moment is the network from a time on.
type moment struct {
	since time.Duration // the damage
	what  string        // the state, so that the kernel builds each network once
	s     *inventory.Snapshot
}

// tell plays story i of n: the damage is done at another part of the time between two looks, and
// these begin at another part of the time between two writes of the cloud provider. It returns the
// moments, and when the damage was repaired; 0 if it was not.
func tell(t *testing.T, damage, repair, i, n int) (all []moment, over time.Duration) {
	d, r := damages[damage], repairs[repair]
	part := (float64(i) + 0.5) / float64(n)
	_, other := math.Modf(part * math.Phi * float64(n))
	synctest.Test(t, func(t *testing.T) {
		a := &lab{T: t, right: map[arm.ID][]any{}, e: emulatortest.New(t, emulator.Options{
			OperationTime: 4 * time.Second, RouteBatch: 30 * time.Second,
			RouteCache: 2 * time.Minute, Buckets: emulatortest.NoLimits})}
		var err error
		if a.Demo, err = emulator.BuildDemo(a.e, emulatortest.Operator); err != nil {
			t.Fatal(err)
		}
		if a.op, err = a.e.Client(emulatortest.Operator); err != nil {
			t.Fatal(err)
		}
		a.runbook() // the demo begins without the copies
		time.Sleep(time.Minute + time.Duration(other*float64(30*time.Second)))
		a.right[a.GatewayTable] = a.routes(a.GatewayTable)
		ctx, end := context.WithCancel(t.Context())
		var doing sync.WaitGroup
		defer doing.Wait()
		defer end()
		woken := func(...arm.ID) {}
		if r.do == nil {
			c := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind,
				Metadata: v1alpha1.Metadata{Name: "shop"}}
			c.Spec.ClusterID = string(a.Cluster)
			c.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(a.GatewayTable)}}
			c.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{SubnetID: string(a.GatewaySubnet),
				RouteTableID: string(a.GatewayTable)}}
			c.SetDefaults()
			k := keeper.New(emulatortest.Client(t, a.e, emulatortest.Keeper),
				[]v1alpha1.ClusterRoutes{c}, keeper.Options{})
			doing.Go(func() {
				if err := k.Run(ctx, r.every, func(keeper.Result) {}); err != nil {
					t.Error(err)
				}
			})
			if r.events {
				woken = func(ids ...arm.ID) { k.Wake(keeper.Event{}, ids...) }
			}
		} else if r.every > 0 {
			doing.Go(func() {
				for azure.Pause(ctx, r.every) == nil {
					r.do(a)
				}
			})
		}
		time.Sleep(max(2*r.every, time.Minute) + time.Duration(part*float64(r.every)))
		d.do(a)
		for began, before := time.Now(), ""; time.Since(began) < horizon; time.Sleep(look) {
			now := fmt.Sprint(a.hasTable(a.NodeSubnet), a.hasTable(a.GatewaySubnet), " ",
				sum(a.routes(a.ClusterTable)), ";", sum(a.routes(a.GatewayTable)))
			if now == before {
				continue
			}
			before = now
			woken(a.NodeSubnet, a.GatewayTable, a.ClusterTable)
			all = append(all, moment{time.Since(began), now, a.snapshot()})
			if d.repaired(a) {
				over = time.Since(began)
				break
			}
		}
	})
	return all, over
}

// snapshot reads the network. Its nodes are the ones that the cluster's table routes to, each with
// one pod.
func (a *lab) snapshot() *inventory.Snapshot {
	client := emulatortest.Client(a.T, a.e, emulatortest.Operator)
	s, err := client.Survey(a.Context(), arm.SubscriptionID(emulator.DefaultSubscription))
	if err != nil {
		a.Fatal(err)
	}
	if err := client.Examine(a.Context(), s); err != nil {
		a.Fatal(err)
	}
	kube := &inventory.Kubernetes{}
	for _, r := range pods(a.routes(a.ClusterTable)) {
		name, _, _ := strings.Cut(field(r, "name"), "____")
		hop, p := netip.MustParseAddr(field(r, "nextHopIpAddress")),
			netip.MustParsePrefix(field(r, "addressPrefix"))
		node := inventory.Node{Name: name, Ready: true, PodCIDRs: []netip.Prefix{p},
			Addresses: []netip.Addr{hop}}
		for _, nic := range s.Interfaces {
			if nic.Configs[0].Address == hop {
				node.ProviderID = "azure://" + string(nic.Machine)
			}
		}
		kube.Nodes = append(kube.Nodes, node)
		kube.Pods = append(kube.Pods, inventory.Pod{Namespace: "x", Name: "p-" + name, Node: name,
			Addresses: []netip.Addr{nth(p, 4)}})
	}
	s.Kubernetes[a.Cluster.Key()] = kube
	return s
}

// carries sends a packet to the pod with the highest address, from the first pod or from the
// gateway, and reports whether it arrives and is answered.
func carries(s *inventory.Snapshot, fromPod bool) bool {
	n := build(s)
	defer n.close()
	t := n.traffic()
	defer t.close()
	var from, to *end
	for i, e := range n.ends {
		if e.pod && (to == nil || to.addr.Less(e.addr)) {
			to = &n.ends[i]
		}
		if e.pod == fromPod && e.machine != nil && (e.pod || len(e.machine.subnet.Gateways) > 0) &&
			(from == nil || e.addr.Less(from.addr)) {
			from = &n.ends[i]
		}
	}
	r := t.sendAll([]packet{{from: *from, to: *to, protocol: "tcp", port: ports[0]}})[0]
	return r.there.arrived && r.back.arrived
}

// TestLost counts the packets that each way of repairing loses. CI plays one story of each, and of
// the keeper two; with -update it is ten of each, with the damage at different times between two
// looks, and docs/performance.md gets their mean.
func TestLost(t *testing.T) {
	need(t)
	runtime.LockOSThread() // the thread changes its namespace: it ends with the goroutine
	stories := 1
	if *update {
		stories = 10
	}
	var table strings.Builder
	table.WriteString("|")
	for _, r := range repairs {
		table.WriteString(" | " + r.name)
	}
	table.WriteString(" |\n" + strings.Repeat("| --- ", len(repairs)+1) + "|\n")
	delivers := map[string]bool{}
	for damage, d := range damages {
		fmt.Fprintf(&table, "| %s", d.name)
		var keepers []int
		for repair, r := range repairs {
			if !*update && (r.every < 30*time.Second || r.every > 3*time.Minute) {
				table.WriteString(" | ")
				continue
			}
			lost, repaired := 0, true
			for i := range stories {
				n, over := lostIn(t, delivers, damage, repair, i, stories)
				lost, repaired = lost+n, repaired && over
			}
			lost /= stories
			if r.do == nil {
				keepers = append(keepers, lost)
			} else if most := slices.Max(keepers); lost <= most || !slices.IsSorted(keepers) ||
				keepers[0] == 0 {
				t.Errorf("%s: %s loses %d, and the keeper %v", d.name, r.name, lost, keepers)
			}
			if repaired {
				fmt.Fprintf(&table, " | %d", lost)
			} else {
				table.WriteString(" | all")
			}
		}
		table.WriteString(" |\n")
	}
	t.Log("\n" + table.String())
	if *update && !t.Failed() {
		const page = "../../../docs/performance.md"
		text := string(must1(os.ReadFile(page)))
		before, after, _ := strings.Cut(text, "| | keeper, events")
		_, after, _ = strings.Cut(after, "\n\n")
		must(os.WriteFile(page, []byte(before+table.String()+"\n"+after), 0o644))
	}
}

// lostIn returns how many packets a story loses, and whether all was repaired. delivers remembers
// what the kernel said of a network.
func lostIn(t *testing.T, delivers map[string]bool, damage, repair, i, n int) (lost int,
	over bool) {
	d := damages[damage]
	all, end := tell(t, damage, repair, i, n)
	total := 0.0
	for j, m := range all {
		key := fmt.Sprint(d.nodes, m.what)
		if _, known := delivers[key]; !known {
			delivers[key] = carries(m.s, d.nodes)
		}
		until := cmp.Or(end, horizon)
		if j+1 < len(all) {
			until = all[j+1].since
		}
		if !delivers[key] {
			total += (until - m.since).Seconds() * perSecond
		}
	}
	return int(total), end > 0
}

package keeper

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

type object = map[string]any

// slow has Azure's own times, for tests in a bubble.
var slow = emulator.Options{OperationTime: 4 * time.Second, RouteBatch: 30 * time.Second,
	RouteCache: 2 * time.Minute}

// world is an emulator with the calls of an operator.
type world struct {
	t    testing.TB
	e    *emulator.Emulator
	op   *emulator.Client
	demo emulator.Demo
}

// newWorld starts an emulator with the demo's network.
func newWorld(t testing.TB, opts emulator.Options) *world {
	w := emptyWorld(t, opts)
	d, err := emulator.BuildDemo(w.e, emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	w.demo = d
	return w
}

// provider is the identity of the demo's cluster, in whose name its cloud provider writes.
var provider = emulator.Principal{Name: "shop's identity",
	ClientID: "0a0a0000-0000-4000-8000-000000000003", Secret: "s",
	ObjectID: "0b0b0000-0000-4000-8000-000000000003",
	Resource: string(arm.ResourceID(emulator.DefaultSubscription, "shop-rg", arm.TypeCluster, "shop"))}

func emptyWorld(t testing.TB, opts emulator.Options) *world {
	opts.Principals = []emulator.Principal{emulatortest.Keeper, emulatortest.Operator, provider}
	e := emulatortest.New(t, opts)
	op, err := e.Client(emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, e: e, op: op}
}

const (
	networkAPI = "2025-05-01"
	aksAPI     = "2025-10-01"
)

func api(id arm.ID) string {
	if strings.Contains(id.Key(), "containerservice") {
		return aksAPI
	}
	if id.Is(arm.TypeVM) {
		return "2025-04-01"
	}
	return networkAPI
}

func (w *world) get(id arm.ID) object {
	w.t.Helper()
	doc, err := w.op.Get(id, api(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return doc
}

func (w *world) put(id arm.ID, doc object) {
	w.t.Helper()
	if doc["location"] == nil && !id.Is(arm.TypeSubnet) {
		doc["location"] = "westeurope"
	}
	if err := w.op.Put(id, api(id), doc); err != nil {
		w.t.Fatal(err)
	}
}

// edit changes a resource's properties.
func (w *world) edit(id arm.ID, change func(properties object)) {
	w.t.Helper()
	doc := w.get(id)
	change(doc["properties"].(object))
	w.put(id, doc)
}

// provide edits the demo cluster's table as its cloud provider does.
func (w *world) provide(change func(properties object)) {
	w.t.Helper()
	operator := w.op
	defer func() { w.op = operator }()
	var err error
	if w.op, err = w.e.Client(provider); err != nil {
		w.t.Fatal(err)
	}
	w.edit(w.demo.ClusterTable, change)
}

func (w *world) strip(subnets ...arm.ID) {
	for _, id := range subnets {
		w.edit(id, func(p object) { delete(p, "routeTable") })
	}
}

func route(name, prefix, hop string) object {
	return object{"name": name, "properties": object{"addressPrefix": prefix,
		"nextHopType": "VirtualAppliance", "nextHopIpAddress": hop}}
}

// demoNode is the name of a node of the demo cluster.
func demoNode(i int) string { return fmt.Sprintf("aks-nodepool1-92750320-vmss%06d", i) }

// podRoute is a route to a node of the demo cluster, as its cloud provider names it.
func podRoute(node int, prefix, hop string) object {
	return route(inventory.PodRouteName(demoNode(node), netip.MustParsePrefix(prefix)), prefix, hop)
}

// emptied takes all routes but the first from a table.
func (w *world) emptied(id arm.ID) {
	w.t.Helper()
	w.edit(id, func(p object) { p["routes"] = p["routes"].([]any)[:1] })
}

// putTable writes a table with routes "name prefix hop".
func (w *world) putTable(id arm.ID, routes ...string) {
	w.t.Helper()
	list := []any{}
	for _, text := range routes {
		f := strings.Fields(text)
		list = append(list, route(f[0], f[1], f[2]))
	}
	w.put(id, object{"properties": object{"routes": list}})
}

// routes reads a table's routes as "prefix>hop", sorted.
func (w *world) routes(id arm.ID) []string {
	w.t.Helper()
	var out []string
	for _, r := range w.get(id)["properties"].(object)["routes"].([]any) {
		p := r.(object)["properties"].(object)
		hop, isAddress := p["nextHopIpAddress"].(string)
		if !isAddress {
			hop = p["nextHopType"].(string)
		}
		out = append(out, p["addressPrefix"].(string)+">"+hop)
	}
	slices.Sort(out)
	return out
}

func (w *world) expectRoutes(id arm.ID, want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if got := w.routes(id); !slices.Equal(got, want) {
		w.t.Errorf("%s holds\n  %s\nwant\n  %s", id.Short(), strings.Join(got, "\n  "),
			strings.Join(want, "\n  "))
	}
}

// tableOf returns the table of a subnet, or "".
func (w *world) tableOf(subnet arm.ID) arm.ID {
	w.t.Helper()
	link, _ := w.get(subnet)["properties"].(object)["routeTable"].(object)
	id, _ := link["id"].(string)
	return arm.ID(id)
}

// configure returns the config of a cluster.
func configure(name string, cluster arm.ID, targets ...arm.ID) v1alpha1.ClusterRoutes {
	c := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind,
		Metadata: v1alpha1.Metadata{Name: name}}
	c.Spec.ClusterID = string(cluster)
	for _, id := range targets {
		c.Spec.Targets = append(c.Spec.Targets, v1alpha1.Target{RouteTableID: string(id)})
	}
	c.SetDefaults()
	return c
}

// demoConfig is the config for the demo's network, including the gateway subnet's association.
func (w *world) demoConfig() v1alpha1.ClusterRoutes {
	c := configure("shop", w.demo.Cluster, w.demo.GatewayTable)
	c.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
		{SubnetID: string(w.demo.GatewaySubnet), RouteTableID: string(w.demo.GatewayTable)}}
	return c
}

// keep creates a keeper that reaches the emulator over a connection in memory.
func (w *world) keep(configs ...v1alpha1.ClusterRoutes) *Keeper {
	return New(emulatortest.Client(w.t, w.e, emulatortest.Keeper), configs, Options{})
}

// keepOver is keep with a transport that may interfere.
func (w *world) keepOver(change func(http.RoundTripper) http.RoundTripper,
	configs ...v1alpha1.ClusterRoutes) *Keeper {
	return New(emulatortest.ClientOver(w.t, change(emulatortest.Transport(w.t, w.e)), w.e,
		emulatortest.Keeper), configs, Options{})
}

// reconcile makes a check that must succeed.
func (w *world) reconcile(k *Keeper) Result {
	w.t.Helper()
	r, err := k.Reconcile(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// inject makes calls of the keeper fail.
func (w *world) inject(f emulator.Fault) func() {
	w.t.Helper()
	f.Principal = emulatortest.Keeper.Name
	remove, err := w.e.Inject(f)
	if err != nil {
		w.t.Fatal(err)
	}
	return remove
}

// mark returns a function that returns the keeper's requests since now.
func (w *world) mark() func() []emulator.Request {
	since := w.e.LastRequest()
	return func() []emulator.Request {
		var out []emulator.Request
		for _, r := range w.e.Requests(since) {
			if r.Principal == emulatortest.Keeper.Name {
				out = append(out, r)
			}
		}
		return out
	}
}

// calls formats requests as "GET name".
func calls(requests []emulator.Request) []string {
	var out []string
	for _, r := range requests {
		name := r.Path[strings.LastIndexByte(r.Path, '/')+1:]
		if strings.Contains(r.Path, "/operations/") {
			name = "(operation)"
		}
		out = append(out, r.Method+" "+name)
	}
	return out
}

// did formats the outcomes of a check, one per line.
func did(r Result) string {
	counts := map[string]int{}
	for _, c := range r.Changes {
		counts[fmt.Sprintf("%s %s %s", c.State, c.Verb, c.Resource.Short())]++
	}
	var lines []string
	for what, n := range counts {
		lines = append(lines, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// codes returns the codes of a check's findings.
func codes(r Result) []finding.Code {
	var out []finding.Code
	for _, f := range r.Findings {
		out = append(out, f.Code)
	}
	return out
}

func (w *world) expect(r Result, wantDid string, wantCodes ...finding.Code) {
	w.t.Helper()
	if got := did(r); got != wantDid {
		w.t.Errorf("did\n%s\nwant\n%s", got, wantDid)
	}
	if got := codes(r); !slices.Equal(got, wantCodes) {
		w.t.Errorf("findings %v, want %v: %+v", got, wantCodes, r.Findings)
	}
}

// doneAll reports whether all changes of a check were made.
func doneAll(r Result) bool {
	return !slices.ContainsFunc(r.Changes, func(c plan.Outcome) bool {
		return c.State != plan.Done
	})
}

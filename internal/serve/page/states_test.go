package page_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/serve/page"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// seen is a snapshot of invented clusters.
type seen struct {
	testing.TB
	s       plan.Facts
	configs []v1alpha1.ClusterRoutes
}

const providers = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg/providers/"

func clusterID(name string) arm.ID {
	return arm.ID(providers + "Microsoft.ContainerService/managedClusters/" + name)
}
func tableID(name string) arm.ID {
	return arm.ID(providers + "Microsoft.Network/routeTables/" + name)
}
func subnetID(vnet, name string) arm.ID {
	return arm.ID(providers + "Microsoft.Network/virtualNetworks/" + vnet + "/subnets/" + name)
}

func (w *seen) add(format string, args ...any) {
	w.Helper()
	if err := w.s.Add([]byte(fmt.Sprintf(format, args...))); err != nil {
		w.Fatal(err)
	}
}

func (w *seen) subnet(id arm.ID, prefix string, table arm.ID) {
	w.Helper()
	w.add(`{"id":%q,"properties":{"addressPrefix":%q,"routeTable":{"id":%q}}}`, id, prefix, table)
}

// table adds a table. A route is "name prefix hop".
func (w *seen) table(id arm.ID, on []arm.ID, routes ...string) {
	w.Helper()
	var docs, subnets []string
	for _, r := range routes {
		f := strings.Fields(r)
		docs = append(docs,
			fmt.Sprintf(`{"name":%q,"properties":{"addressPrefix":%q,"nextHopType":"VirtualAppliance","nextHopIpAddress":%q}}`, f[0], f[1], f[2]))
	}
	for _, s := range on {
		subnets = append(subnets, fmt.Sprintf(`{"id":%q}`, s))
	}
	w.add(`{"id":%q,"properties":{"routes":[%s],"subnets":[%s]}}`, id, strings.Join(docs, ","),
		strings.Join(subnets, ","))
}

// cluster invents the n-th cluster, with everything correct: nodes in one subnet with the cluster's
// route table, and a gateway in a subnet with a target. It returns the pod routes.
func (w *seen) cluster(n int, name, plugin string, nodes int) (routes []string) {
	w.Helper()
	own, target, subnet, gateway := tableID(name+"-rt"), tableID(name+"-gw-rt"), subnetID("vnet",
		name+"-nodes"), subnetID("vnet", name+"-gw")
	w.add(`{"id":%q,"properties":{"networkProfile":{"networkPlugin":%q,"podCidr":"10.%d.0.0/15"},"agentPoolProfiles":[{"name":"pool","count":%d,"vnetSubnetID":%q}]}}`,
		clusterID(name), plugin, 100+2*n, nodes, subnet)
	w.subnet(subnet, fmt.Sprintf("10.%d.0.0/16", n), own)
	w.subnet(gateway, fmt.Sprintf("10.200.%d.0/24", n), target)
	for i := range nodes {
		routes = append(routes, fmt.Sprintf("aks-pool-%08d-vmss%06d 10.%d.%d.0/24 10.%d.%d.4",
			n, i, 100+2*n+i/256, i%256, n, i%256))
	}
	w.table(own, []arm.ID{subnet}, routes...)
	w.table(target, []arm.ID{gateway}, routes...)
	var c v1alpha1.ClusterRoutes
	c.Metadata.Name, c.Spec.ClusterID = name, string(clusterID(name))
	c.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
		{SubnetID: string(gateway), RouteTableID: string(target)}}
	c.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(target)}}
	c.SetDefaults()
	w.s.Memory[clusterID(name).Key()] = &plan.Remembered{LastTable: own, LastProven: true}
	w.configs = append(w.configs, c)
	return routes
}

// unread marks a resource as unread.
func (w *seen) unread(id arm.ID, status int) {
	delete(w.s.Tables, id.Key())
	delete(w.s.Subnets, id.Key())
	delete(w.s.Clusters, id.Key())
	w.s.Unread[id.Key()] = inventory.Unread{ID: id, Status: status, Code: "ServiceUnavailable"}
}

// result is the report of a keeper that changes nothing.
func (w *seen) result(at time.Time) keeper.Result {
	p := plan.Make(w.s, w.configs)
	r := keeper.Result{Started: at, Configs: w.configs, Seen: w.s, Findings: p.Findings}
	for _, c := range p.Changes {
		r.Changes = append(r.Changes, plan.Outcome{Change: c, State: plan.Planned})
	}
	for _, c := range p.OnlyObserved {
		r.OnlyObserved = append(r.OnlyObserved, plan.Outcome{Change: c, State: plan.Observed})
	}
	r.Verdicts = verdict.Of(w.s, w.configs, w.configs, plan.TakenBy(w.configs), r.Findings)
	return r
}

func newSeen(t testing.TB) *seen {
	return &seen{TB: t, s: plan.Facts{Snapshot: inventory.NewSnapshot(), Memory: plan.Memory{}}}
}

// pages are the pages of a board, without a listener.
func pages(board *page.Board) http.Handler {
	return page.New(board, nil, page.Options{Log: slog.New(slog.DiscardHandler)})
}

func get(h http.Handler, path string) answer {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return answer{w.Code, w.Header(), w.Body.String()}
}

// TestSentence: the sentence is true, and the page is green only if everything is correct.
func TestSentence(t *testing.T) {
	gw, own, nodes, gateway := tableID("shop-gw-rt"), tableID("shop-rt"), subnetID("vnet",
		"shop-nodes"), subnetID("vnet", "shop-gw")
	for _, test := range []struct {
		name, state, want string
		change            func(w *seen, routes []string)
	}{
		{"all right", page.Good, "All 6 pod routes are correct on 1 cluster",
			func(*seen, []string) {}},
		{"stripped", page.Bad, "shop: subnet shop-nodes has lost its route table; packets " +
			"from nodes and pods to pods on 3 nodes are dropped; 1 change planned, not made",
			func(w *seen, _ []string) { w.subnet(nodes, "10.0.0.0/16", "") }},
		{"a guarded subnet without pod routes", page.Noted, "shop: subnet firewall has lost its " +
			"route table; all packets to pods are delivered nevertheless; 1 change planned, not " +
			"made",
			func(w *seen, _ []string) {
				w.table(tableID("firewall-rt"), nil)
				w.subnet(subnetID("vnet", "firewall"), "10.201.0.0/24", "")
				w.configs[0].Spec.Guard.Subnets = append(w.configs[0].Spec.Guard.Subnets,
					v1alpha1.GuardedSubnet{SubnetID: string(subnetID("vnet", "firewall")),
						RouteTableID: string(tableID("firewall-rt"))})
			}},
		{"stripped, and not all seen", page.Bad, "shop: subnet shop-nodes has lost its route " +
			"table; route table shop-gw-rt could not be read; packets from nodes and pods to " +
			"pods on 3 nodes are dropped; 1 change planned, not made",
			func(w *seen, _ []string) { w.subnet(nodes, "10.0.0.0/16", ""); w.unread(gw, 503) }},
		{"a missing route that is only to be reported", page.Bad,
			"shop: 1 pod route missing; packets from subnet shop-gw to pods on 1 node are " +
				"dropped; the config says Observe: it would add 1 route",
			func(w *seen, routes []string) {
				w.configs[0].Spec.Targets[0].Policy = v1alpha1.PolicyObserve
				w.table(gw, []arm.ID{gateway}, routes[1:]...)
			}},
		{"all is only to be reported", page.Bad,
			"shop: subnet shop-nodes has lost its route table; packets from nodes, pods and " +
				"subnet shop-gw to pods on 3 nodes are dropped; the config says Observe: it " +
				"would repair 1 association and add 2 routes",
			func(w *seen, routes []string) {
				w.configs = plan.Observing(w.configs)
				w.table(gw, []arm.ID{gateway}, routes[2:]...)
				w.subnet(nodes, "10.0.0.0/16", "")
			}},
		{"a route that stays by the config", page.Good, "All 4 pod routes are correct on 1 cluster",
			func(w *seen, routes []string) {
				w.configs[0].Spec.Targets[0].Policy = v1alpha1.PolicyUpsertOnly
				w.table(own, []arm.ID{nodes}, routes[1:]...)
				w.table(gw, []arm.ID{gateway}, routes...)
			}},
		{"the cluster's table is not read", page.Unseen,
			"shop: route table shop-rt could not be read; it is not known whether 3 pod routes " +
				"work",
			func(w *seen, _ []string) { w.unread(own, 503) }},
		{"the target is not read", page.Unseen, "shop: route table shop-gw-rt could not be read; " +
			"3 of the 3 pod routes that were read are correct", func(w *seen, _ []string) {
			w.unread(gw, 503)
		}},
		{"two things are not read", page.Unseen, "shop: route table shop-gw-rt and 1 more could " +
			"not be read; it is not known whether 3 pod routes work",
			func(w *seen, _ []string) {
				w.unread(gw, 503)
				w.unread(nodes, 503)
				w.s.AnyHop = true
			}},
		{"the cluster is not read", page.Unseen, "shop: cannot be read: ServiceUnavailable",
			func(w *seen, _ []string) { w.unread(clusterID("shop"), 503) }},
		{"the cluster's table is not known", page.Bad,
			"shop: the cluster's route table is not known; it is not known whether 3 pod routes " +
				"work; packets from nodes and pods to pods on 3 nodes are dropped",
			func(w *seen, _ []string) {
				w.s.Memory[clusterID("shop").Key()].LastTable = ""
				w.s.Learn(clusterID("shop")).LogRead, w.s.Learn(clusterID("shop")).ManagedRead =
					true, true
				w.subnet(nodes, "10.0.0.0/16", "")
			}},
		{"the node subnet is not read, so the table is not known", page.Unseen,
			"shop: subnet shop-nodes could not be read",
			func(w *seen, _ []string) {
				w.s.Memory[clusterID("shop").Key()].LastTable = ""
				known := w.s.Learn(clusterID("shop"))
				known.LogRead, known.ManagedRead, known.Written = true, true, []arm.ID{own}
				w.unread(nodes, 403)
				w.unread(own, 403)
			}},
		{"no node has a route", page.Bad, "shop: its route table has no pod routes to its 3 nodes",
			func(w *seen, _ []string) {
				w.table(own, []arm.ID{nodes})
				w.table(gw, []arm.ID{gateway})
			}},
		{"another plugin", page.Noted, "shop: cluster shop uses the network plugin node-subnet " +
			"instead of kubenet: it has no pod routes in a route table", func(w *seen, _ []string) {
			w.configs = nil
			w.cluster(0, "shop", "azure", 3)
		}},
		{"a target on no subnet", page.Noted, "shop: all 6 pod routes are correct; route " +
			"table shop-gw-rt is on no subnet", func(w *seen, routes []string) {
			w.configs[0].Spec.Guard.Subnets = nil
			w.table(gw, nil, routes...)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newSeen(t)
			test.change(w, w.cluster(0, "shop", "kubenet", 3))
			board := page.NewBoard()
			board.Record(w.result(time.Now()))
			var o page.Overview
			decode(t, get(pages(board), "/index.json"), &o)
			if o.Sentence != test.want || o.State != test.state {
				t.Errorf("%s: %q\nwant %s: %q\n%+v", o.State, o.Sentence, test.state, test.want,
					o.Findings)
			}
		})
	}
}

// TestUnreadTable: no route of an unread table is called missing, and no cluster with one is said
// to have no pod routes.
func TestUnreadTable(t *testing.T) {
	for what, id := range map[string]arm.ID{"not read</span>": tableID("shop-rt"),
		"pod routes not known": clusterID("shop")} {
		w := newSeen(t)
		w.cluster(0, "shop", "kubenet", 3)
		w.unread(id, 503)
		board := page.NewBoard()
		board.Record(w.result(time.Now()))
		text := get(pages(board), "/").body
		if !strings.Contains(text, what) || strings.Contains(text, "no route<") ||
			strings.Contains(text, "unmanaged route") ||
			strings.Contains(text, "· 0 routes") || strings.Contains(text, ">no pod routes") {
			t.Errorf("without %s: %s", id.Short(), text)
		}
	}
}

// TestObserved: the page shows what the config only observes, or a part of a long list. It is news
// only once.
func TestObserved(t *testing.T) {
	w := newSeen(t)
	w.cluster(0, "shop", "kubenet", 100)
	w.configs = plan.Observing(w.configs)
	w.table(tableID("shop-gw-rt"), []arm.ID{subnetID("vnet", "shop-gw")})
	board := page.NewBoard()
	version := func() (o page.Overview) {
		board.Record(w.result(time.Now()))
		decode(t, get(pages(board), "/index.json"), &o)
		return o
	}
	first := version()
	if n := len(first.Clusters[0].OnlyObserved); n != 100 || len(first.Clusters[0].Changes) > 0 {
		t.Errorf("%d changes are observed, want 100: %+v", n, first.Clusters[0].Changes)
	}
	if again := version(); again.Version != first.Version {
		t.Error("what stands as it was is news")
	}
	text := get(pages(board), "/clusters/shop").body
	for _, want := range []string{"Not made because the config says Observe: would add 100 routes",
		"create route aks-pool-", "<li>and 90 more</li>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestManyPlanned: of many changes that are planned and not made, some are shown.
func TestManyPlanned(t *testing.T) {
	w := newSeen(t)
	w.cluster(0, "shop", "kubenet", 100)
	w.table(tableID("shop-gw-rt"), []arm.ID{subnetID("vnet", "shop-gw")})
	board := page.NewBoard()
	board.Record(w.result(time.Now()))
	text := get(pages(board), "/clusters/shop").body
	for _, want := range []string{"100 changes planned, not made", "<li>and 90 more</li>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(text, "create route aks-pool-"); n != 10 {
		t.Errorf("%d changes are shown", n)
	}
}

// TestManyBroken: of very many broken routes some are shown, and no broken one is said to work.
func TestManyBroken(t *testing.T) {
	w := newSeen(t)
	w.cluster(0, "shop", "kubenet", 400)
	w.subnet(subnetID("vnet", "shop-nodes"), "10.0.0.0/16", "")
	board := page.NewBoard()
	board.Record(w.result(time.Now()))
	for path, want := range map[string][]string{
		"/":              {">0 of 400 work<", "and 376 more, none working: "},
		"/clusters/shop": {">0 of 400 work<"}} {
		text := get(pages(board), path).body
		for _, want := range want {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", path, want)
			}
		}
		if strings.Contains(text, "more, all working") {
			t.Errorf("%s says that some carry", path)
		}
		if len(text) > 600_000 {
			t.Errorf("%s takes %d bytes", path, len(text))
		}
	}
}

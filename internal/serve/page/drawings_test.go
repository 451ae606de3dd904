//go:build chromium

package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/serve/page"
)

// shownStates are clusters to draw, all with the name shop.
var shownStates = map[string]func(w *seen){
	"good":    func(w *seen) { w.cluster(0, "shop", "kubenet", 3) },
	"alone":   func(w *seen) { w.alone(3) },
	"alone 1": func(w *seen) { w.alone(1) },
	"alone and stripped": func(w *seen) {
		w.alone(3)
		w.subnet(subnetID("vnet", "shop-nodes"), "10.0.0.0/16", "")
	},
	"alone 390": func(w *seen) { w.alone(390) },
	"stripped": func(w *seen) {
		w.cluster(0, "shop", "kubenet", 3)
		w.subnet(subnetID("vnet", "shop-nodes"), "10.0.0.0/16", "")
	},
	"another table": func(w *seen) {
		w.cluster(0, "shop", "kubenet", 3)
		w.subnet(subnetID("vnet", "shop-nodes"), "10.0.0.0/16", tableID("hub-rt"))
	},
	"emptied": func(w *seen) {
		w.cluster(0, "shop", "kubenet", 3)
		w.table(tableID("shop-rt"), []arm.ID{subnetID("vnet", "shop-nodes")})
	},
	"50 nodes":  func(w *seen) { w.cluster(0, "shop", "kubenet", 50) },
	"390 nodes": func(w *seen) { w.cluster(0, "shop", "kubenet", 390) },
	"390 nodes, some broken": func(w *seen) {
		routes := w.cluster(0, "shop", "kubenet", 390)
		w.table(tableID("shop-gw-rt"), []arm.ID{subnetID("vnet", "shop-gw")}, routes[20:]...)
	},
	"stopped": func(w *seen) {
		w.cluster(0, "shop", "kubenet", 0)
		w.s.Clusters[clusterID("shop").Key()].Stopped = true
	},
	"unread": func(w *seen) {
		w.cluster(0, "shop", "kubenet", 3)
		w.unread(clusterID("shop"), 503)
	},
	"forbidden": func(w *seen) {
		w.cluster(0, "shop", "kubenet", 3)
		w.unread(clusterID("shop"), 403)
	},
	"table unread": func(w *seen) {
		w.cluster(0, "shop", "kubenet", 3)
		w.unread(tableID("shop-rt"), 503)
	},
	"dual stack": func(w *seen) {
		routes := w.cluster(0, "shop", "kubenet", 3)
		for i := range 3 {
			routes = append(routes, fmt.Sprintf(
				"aks-pool-%08d-vmss%06d____6 fd12:3456:789a:%d::/64 fd00:1234:5678:1::%d",
				0, i, i, i+4))
		}
		w.add(`{"id":%q,"properties":{"networkProfile":{"networkPlugin":"kubenet","ipFamilies":["IPv4","IPv6"],"podCidrs":["10.100.0.0/15","fd12:3456:789a::/56"]},"agentPoolProfiles":[{"name":"pool","count":3,"vnetSubnetID":%q}]}}`,
			clusterID("shop"), subnetID("vnet", "shop-nodes"))
		w.add(`{"id":%q,"properties":{"addressPrefixes":["10.0.0.0/16","fd00:1234:5678:1::/64"],"routeTable":{"id":%q}}}`,
			subnetID("vnet", "shop-nodes"), tableID("shop-rt"))
		w.table(tableID("shop-rt"), []arm.ID{subnetID("vnet", "shop-nodes")}, routes...)
		w.table(tableID("shop-gw-rt"), []arm.ID{subnetID("vnet", "shop-gw")}, routes...)
	},
	"source Nodes": func(w *seen) {
		routes := w.cluster(0, "shop", "azure", 3)
		c := w.s.Clusters[clusterID("shop").Key()]
		c.PluginMode = "overlay"
		w.configs[0].Spec.Source = v1alpha1.SourceNodes
		w.subnet(subnetID("vnet", "shop-nodes"), "10.0.0.0/16", "")
		delete(w.s.Tables, tableID("shop-rt").Key())
		w.s.Memory[clusterID("shop").Key()].LastTable = ""
		k := &inventory.Kubernetes{Nodes: []inventory.Node{}}
		for _, r := range routes {
			k.Nodes = append(k.Nodes, nodeOf(r))
		}
		w.s.Kubernetes[clusterID("shop").Key()] = k
	},
	"pod subnet": func(w *seen) {
		w.cluster(0, "shop", "azure", 3)
		w.add(`{"id":%q,"properties":{"networkProfile":{"networkPlugin":"azure"},"agentPoolProfiles":[{"name":"pool","count":3,"vnetSubnetID":%q,"podSubnetID":%q}]}}`,
			clusterID("shop"), subnetID("vnet", "shop-nodes"), subnetID("vnet", "shop-pods"))
		w.subnet(subnetID("vnet", "shop-nodes"), "10.0.0.0/16", "")
		w.subnet(subnetID("vnet", "shop-pods"), "10.1.0.0/16", "")
		delete(w.s.Tables, tableID("shop-rt").Key())
		w.s.Memory[clusterID("shop").Key()].LastTable = ""
		w.configs[0].Spec.Guard.Subnets, w.configs[0].Spec.Targets = nil, nil
	},
	"long addresses": func(w *seen) {
		w.cluster(0, "shop", "kubenet", 3)
		w.subnet(subnetID("vnet", "shop-nodes"), "10.240.0.0/16", tableID("shop-rt"))
		route := "aks-nodepool1-12345678-vmss00000b____x 10.100.110.0/24 10.240.110.104"
		w.table(tableID("shop-rt"), []arm.ID{subnetID("vnet", "shop-nodes")}, route)
		w.table(tableID("shop-gw-rt"), []arm.ID{subnetID("vnet", "shop-gw")}, route)
	},
	"two node subnets": func(w *seen) {
		more := subnetID("hub-vnet", "shop-more-nodes-in-another-network-with-a-long-name")
		w.cluster(0, "shop", "kubenet", 3)
		w.add(`{"id":%q,"properties":{"networkProfile":{"networkPlugin":"kubenet","podCidr":"10.100.0.0/15"},"agentPoolProfiles":[{"name":"pool","count":3,"vnetSubnetID":%q},{"name":"more","count":3,"vnetSubnetID":%q}]}}`,
			clusterID("shop"), subnetID("vnet", "shop-nodes"), more)
		w.subnet(more, "10.9.0.0/16", "")
	},
	"many targets": func(w *seen) {
		routes := w.cluster(0, "shop", "kubenet", 3)
		for i := range 5 {
			id, on := tableID(fmt.Sprintf("hub-firewall-%d-rt", i)), subnetID("hub",
				fmt.Sprintf("AzureFirewallSubnet-%d", i))
			w.table(id, []arm.ID{on}, routes...)
			w.subnet(on, fmt.Sprintf("10.210.%d.0/26", i), id)
			w.configs[0].Spec.Targets = append(w.configs[0].Spec.Targets,
				v1alpha1.Target{RouteTableID: string(id)})
		}
		w.configs[0].SetDefaults()
	},
}

// alone is a cluster with node subnets only: nothing else needs its pod routes.
func (w *seen) alone(nodes int) {
	w.cluster(0, "shop", "kubenet", nodes)
	w.configs[0].Spec.Guard.Subnets, w.configs[0].Spec.Targets = nil, nil
}

// nodeOf is the Node object of a pod route of seen.cluster.
func nodeOf(route string) inventory.Node {
	f := strings.Fields(route)
	return inventory.Node{Name: f[0][:len(f[0])-5], Ready: true, Overlay: true,
		PodCIDRs:  []netip.Prefix{netip.MustParsePrefix(f[1])},
		Addresses: []netip.Addr{netip.MustParseAddr(f[2])}}
}

// badlyDrawn says what looks wrong in the drawing that is visible: letters of another size than
// everywhere, space for columns that are not there, text that leaves its box or lies on other text,
// boxes that overlap, and, on a phone, lines through text.
const badlyDrawn = `(() => {
	const svg = [...document.querySelectorAll(".drawing svg")].find(s => s.checkVisibility());
	const wrong = [], view = svg.viewBox.baseVal, whole = 984, edge = 30, off = 1.5;
	const scale = svg.getScreenCTM().a, narrow = svg.matches(".narrow");
	const room = svg.parentElement.clientWidth;
	if (!narrow && Math.abs(scale - room / whole) > .01 || scale > 1.4 || scale < .8)
		wrong.push("scale " + scale + " of " + room);
	const parts = (selector) => [...svg.querySelectorAll(selector)].map(e => {
		const b = e.getBBox();
		return { b: { l: b.x, t: b.y, r: b.x + b.width, b: b.y + b.height }, e,
			name: e.className.baseVal + " " + (e.firstChild?.data || e.textContent) };
	});
	const inside = (a, b) => a.l >= b.l - off && a.t >= b.t - off && a.r <= b.r + off &&
		a.b <= b.b + off;
	const apart = (a, b) => a.r <= b.l + off || b.r <= a.l + off || a.b <= b.t + off ||
		b.b <= a.t + off;
	const boxes = parts("rect"), texts = parts("text"), lines = parts("path.association");
	const shown = boxes.filter(x => !x.e.matches(".vnet"));
	const left = Math.min(...shown.map(x => x.b.l)) - view.x;
	const right = view.x + view.width - Math.max(...shown.map(x => x.b.r));
	const below = view.height - Math.max(...shown.map(x => x.b.b));
	if (left > edge || right > edge || below > edge || left < 0 || right < 0 || below < 0)
		wrong.push("empty: " + [left, right, below]);
	boxes.forEach((x, i) => boxes.slice(i + 1).forEach(y => {
		if (!inside(x.b, y.b) && !inside(y.b, x.b) && !apart(x.b, y.b))
			wrong.push(x.name + " overlaps " + y.name);
	}));
	texts.forEach((x, i) => {
		const start = x.e.matches(".end") ? x.b.r - 1 : x.b.l + 1;
		const at = (b) => start > b.l && start < b.r;
		const around = boxes.filter(y => at(y.b) && x.b.t >= y.b.t - off && x.b.b <= y.b.b + off);
		if (around.length === 0 || !around.every(y => inside(x.b, y.b)))
			wrong.push(x.name + " leaves its box");
		if (x.e.matches(".pods, .address") && x.name.includes("…")) wrong.push(x.name + " is cut");
		texts.slice(i + 1).forEach(y => {
			if (!apart(x.b, y.b)) wrong.push(x.name + " lies on " + y.name);
		});
		if (narrow) lines.forEach(y => {
			if (!apart(x.b, { ...y.b, l: y.b.l - 3, r: y.b.r + 3 }))
				wrong.push(y.name + " goes through " + x.name);
		});
	});
	return wrong; })()`

// TestDrawings: the drawing of each state has the size that its content needs, and everything in it
// can be read.
func TestDrawings(t *testing.T) {
	if testing.Short() {
		t.Skip("it checks finished pages, for most of a minute")
	}
	t.Parallel()
	b := open(t)
	var current atomic.Pointer[http.Handler]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*current.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // before Close, which waits for open pages
	widths := []int64{1280, 390}
	if os.Getenv("ROUTEKEEPER_FULL") != "" {
		widths = append(widths, 1440) // a page is 80 pixels wider than at 1280
	}
	for name, change := range shownStates {
		w := newSeen(t)
		change(w)
		board := page.NewBoard()
		board.Record(w.result(time.Now()))
		h := pages(board)
		current.Store(&h)
		for _, width := range widths {
			b.do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(server.URL))
			b.until(`document.querySelector(".hero") !== null`)
			if cut := eval[int](b, `(s => s ? s.scrollWidth - s.clientWidth : 0)(
				document.querySelector(".tables > .scroll"))`); cut > 0 && name == "good" {
				t.Errorf("at %d pixels the table is cut off by %d pixels", width, cut)
			}
			for _, wrong := range eval[[]string](b, badlyDrawn) {
				t.Errorf("%s at %d pixels: %s", name, width, wrong)
			}
		}
		b.shoot("drawing " + name)
	}
	b.quiet()
}

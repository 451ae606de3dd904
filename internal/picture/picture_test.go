package picture

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

const (
	group   = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg/providers/"
	cluster = arm.ID(group + "Microsoft.ContainerService/managedClusters/shop")
	own     = arm.ID(group + "Microsoft.Network/routeTables/shop-rt")
	target  = arm.ID(group + "Microsoft.Network/routeTables/gw-rt")
	nodes   = arm.ID(group + "Microsoft.Network/virtualNetworks/vnet/subnets/nodes")
	gateway = arm.ID(group + "Microsoft.Network/virtualNetworks/vnet/subnets/gw")
)

// world is a snapshot and a config that go together: a cluster with three nodes, and a gateway's
// table with one further route.
type world struct {
	s      plan.Facts
	config v1alpha1.ClusterRoutes
	others []v1alpha1.ClusterRoutes
}

func newWorld() *world {
	w := &world{s: plan.Facts{Snapshot: inventory.NewSnapshot(), Memory: plan.Memory{}}}
	w.add(`{"id":%q,"properties":{"nodeResourceGroup":"MC","networkProfile":{"networkPlugin":"kubenet","podCidr":"10.244.0.0/16"},"agentPoolProfiles":[{"name":"pool","count":3,"vnetSubnetID":%q}]}}`, cluster, nodes)
	w.subnet(nodes, "10.240.0.0/24", own)
	w.subnet(gateway, "10.240.9.0/24", target)
	w.table(own, "egress 0.0.0.0/0 10.1.0.4",
		"aks-n-00000000-vmss000000____102440024 10.244.0.0/24 10.240.0.4",
		"aks-n-00000000-vmss000001____102441024 10.244.1.0/24 10.240.0.5",
		"aks-n-00000000-vmss000002____102442024 10.244.2.0/24 10.240.0.6")
	w.table(target, "own 192.168.0.0/16 10.1.0.4",
		"aks-n-00000000-vmss000000____102440024 10.244.0.0/24 10.240.0.4",
		"aks-n-00000000-vmss000001____102441024 10.244.1.0/24 10.240.0.5",
		"aks-n-00000000-vmss000002____102442024 10.244.2.0/24 10.240.0.6")
	w.config.Metadata.Name = "shop"
	w.config.Spec.ClusterID = string(cluster)
	w.config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
		{SubnetID: string(gateway), RouteTableID: string(target)}}
	w.config.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(target)}}
	w.config.SetDefaults()
	w.s.Memory[cluster.Key()] = &plan.Remembered{LastTable: own, LastProven: true}
	return w
}

func (w *world) add(format string, args ...any) {
	if err := w.s.Add([]byte(fmt.Sprintf(format, args...))); err != nil {
		panic(err)
	}
}

func (w *world) subnet(id arm.ID, prefix string, table arm.ID) {
	link := ""
	if table != "" {
		link = fmt.Sprintf(`,"routeTable":{"id":%q}`, table)
	}
	w.add(`{"id":%q,"properties":{"addressPrefix":%q%s}}`, id, prefix, link)
}

// table puts a table in place. A route is "name prefix hop".
func (w *world) table(id arm.ID, routes ...string) {
	var docs []string
	for _, r := range routes {
		f := strings.Fields(r)
		docs = append(docs,
			fmt.Sprintf(`{"name":%q,"properties":{"addressPrefix":%q,"nextHopType":"VirtualAppliance","nextHopIpAddress":%q}}`, f[0], f[1], f[2]))
	}
	w.add(`{"id":%q,"properties":{"routes":[%s]}}`, id, strings.Join(docs, ","))
}

func (w *world) picture() Cluster {
	all := append([]v1alpha1.ClusterRoutes{w.config}, w.others...)
	return Of(w.s, &w.config, all, plan.TakenBy(all))
}

// text writes a picture: subnets with their states, tables with theirs.
func (c Cluster) text() string {
	var b strings.Builder
	for _, s := range c.Subnets {
		fmt.Fprintf(&b, "%s %s %s\n", s.ID.Name(), s.Role, s.State)
	}
	for _, t := range c.Tables {
		fmt.Fprintf(&b, "%s %s", t.ID.Name(), t.Role)
		if t.Idle {
			b.WriteString(" idle")
		}
		b.WriteString(":")
		for _, r := range t.Routes {
			fmt.Fprintf(&b, " %s", r.State)
			if r.Wanted != "" {
				fmt.Fprintf(&b, ">%s", r.Wanted)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestPicture(t *testing.T) {
	const right = "nodes nodes right\ngw guarded right\nshop-rt cluster: works works works " +
		"unmanaged\ngw-rt target: works works works unmanaged\n"
	for _, test := range []struct {
		name   string
		change func(*world)
		want   string
		all    int
		carry  int
		broken int
	}{
		{"everything right", func(*world) {}, right, 6, 6, 0},
		{"the node subnet has lost its table", func(w *world) {
			w.subnet(nodes, "10.240.0.0/24", "")
		},
			"nodes nodes lost\ngw guarded right\nshop-rt cluster: idle idle idle " +
				"unmanaged\ngw-rt " +
				"target: works works works unmanaged\n", 6, 3, 1},
		{"the gateway has another table", func(w *world) {
			w.subnet(gateway, "10.240.9.0/24", own)
		},
			"nodes nodes right\ngw guarded other\nshop-rt cluster: works works works " +
				"unmanaged\ngw-rt target: idle idle idle unmanaged\n", 6, 3, 1},
		{"a route is missing, one is wrong, one is stale", func(w *world) {
			w.table(target, "own 192.168.0.0/16 10.1.0.4",
				"aks-n-00000000-vmss000000____102440024 10.244.0.0/24 10.240.0.4",
				"aks-n-00000000-vmss000001____102441024 10.244.1.0/24 10.240.0.9",
				"aks-n-00000000-vmss000007____102447024 10.244.7.0/24 10.240.0.7")
		}, "nodes nodes right\ngw guarded right\nshop-rt cluster: works works works " +
			"unmanaged\ngw-rt target: works wrong>10.240.0.5 missing>10.240.0.6 stale " +
			"unmanaged\n", 7,
			4, 0},
		{"another owner's route is where a pod route has to be", func(w *world) {
			w.table(target, "theirs 10.244.0.0/24 10.1.0.4",
				"aks-n-00000000-vmss000001____102441024 10.244.1.0/24 10.240.0.5",
				"aks-n-00000000-vmss000002____102442024 10.244.2.0/24 10.240.0.6")
		}, "nodes nodes right\ngw guarded right\nshop-rt cluster: works works works " +
			"unmanaged\ngw-rt target: wrong>10.240.0.4 works works\n", 6, 5, 0},
		{"another cluster's pod routes", func(w *world) {
			w.table(target, "aks-n-00000000-vmss000000____102440024 10.244.0.0/24 10.240.0.4",
				"aks-n-00000000-vmss000001____102441024 10.244.1.0/24 10.240.0.5",
				"aks-n-00000000-vmss000002____102442024 10.244.2.0/24 10.240.0.6",
				"m 10.244.3.0/24 10.250.0.4")
		}, "nodes nodes right\ngw guarded right\nshop-rt cluster: works works works " +
			"unmanaged\ngw-rt target: works works works unmanaged\n", 6, 6, 0},
		{"another cluster's pod routes, with nodes where this one's once were", func(w *world) {
			const play, table, subnet = cluster + "2", own + "2", nodes + "2"
			w.add(`{"id":%q,"properties":{"nodeResourceGroup":"MC2","networkProfile":{"networkPlugin":"kubenet","podCidr":"10.244.0.0/16"},"agentPoolProfiles":[{"name":"pool","count":1,"vnetSubnetID":%q}]}}`, play, subnet)
			w.subnet(subnet, "10.241.0.0/24", table)
			w.table(table, "m 10.244.9.0/24 10.241.0.4")
			w.s.Memory[play.Key()] = &plan.Remembered{LastTable: table, LastProven: true}
			w.s.Memory[cluster.Key()].Subnets = []netip.Prefix{
				netip.MustParsePrefix("10.241.0.0/24")}
			other := w.config
			other.Metadata.Name, other.Spec.ClusterID, other.Spec.Guard.Subnets =
				"play", string(play), nil
			w.others = append(w.others, other)
			w.table(target, "aks-n-00000000-vmss000000____102440024 10.244.0.0/24 10.240.0.4",
				"aks-n-00000000-vmss000001____102441024 10.244.1.0/24 10.240.0.5",
				"aks-n-00000000-vmss000002____102442024 10.244.2.0/24 10.240.0.6",
				"m 10.244.9.0/24 10.241.0.4", "aks-n-00000000-vmss000008 10.244.8.0/24 10.241.0.5")
		}, "nodes nodes right\ngw guarded right\nshop-rt cluster: works works works " +
			"unmanaged\ngw-rt target: works works works stale unmanaged\n", 7, 6, 0},
		{"the cluster's table cannot be read", func(w *world) {
			delete(w.s.Tables, own.Key())
			w.s.Unread[own.Key()] = inventory.Unread{ID: own, Status: 403,
				Code: "AuthorizationFailed"}
		}, "nodes nodes right\ngw guarded right\nshop-rt cluster:\ngw-rt target: unknown unknown " +
			"unknown unmanaged\n", 3, 0, 0},
		{"it cannot be told which table is the cluster's own", func(w *world) {
			w.s.Memory[cluster.Key()].LastTable, w.s.Learn(cluster).LogRead, w.s.Learn(cluster).
				ManagedRead = "", true, true
			w.subnet(nodes, "10.240.0.0/24", "")
		}, "nodes nodes unknown\ngw guarded right\ngw-rt target: unknown unknown unknown " +
			"unmanaged\n",
			3, 0, 0},
		{"a route that no node needs stays by the config", func(w *world) {
			w.config.Spec.Targets[0].Policy = v1alpha1.PolicyUpsertOnly
			w.table(own, "aks-n-00000000-vmss000000____102440024 10.244.0.0/24 10.240.0.4",
				"aks-n-00000000-vmss000001____102441024 10.244.1.0/24 10.240.0.5")
		}, "nodes nodes right\ngw guarded right\nshop-rt cluster: works works\ngw-rt target: " +
			"works works leftover unmanaged\n", 4, 4, 0},
		{"the target is on no subnet", func(w *world) {
			w.config.Spec.Guard.Subnets = nil
		}, "nodes nodes right\nshop-rt cluster: works works works unmanaged\ngw-rt target idle: " +
			"works works works unmanaged\n", 6, 6, 0},
		{"the target is on a subnet that is not guarded", func(w *world) {
			w.config.Spec.Guard.Subnets = nil
			w.s.Table(target).Subnets = []arm.ID{gateway}
		}, "nodes nodes right\ngw target unknown\nshop-rt cluster: works works works " +
			"unmanaged\ngw-rt target: works works works unmanaged\n", 6, 6, 0},
		{"the node subnet cannot be read", func(w *world) {
			delete(w.s.Subnets, nodes.Key())
			w.s.Unread[nodes.Key()] = inventory.Unread{ID: nodes, Status: 503}
			w.s.Memory[cluster.Key()].Subnets = []netip.Prefix{
				netip.MustParsePrefix("10.240.0.0/24")}
		}, "nodes nodes unknown\ngw guarded right\nshop-rt cluster: unknown unknown unknown " +
			"unmanaged\ngw-rt target: works works works unmanaged\n", 6, 3, 0},
		{"the cluster cannot be read", func(w *world) {
			delete(w.s.Clusters, cluster.Key())
			w.s.Unread[cluster.Key()] = inventory.Unread{ID: cluster, Status: 404, Absent: true}
		}, "gw guarded right\ngw-rt target: unmanaged unmanaged unmanaged unmanaged\n", 0, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			test.change(w)
			c := w.picture()
			if n := c.Routes(); n.All != test.all || n.Correct != test.carry ||
				c.Broken() != test.broken {
				t.Errorf("%+v, %d associations broken; want %d of %d, %d", n, c.Broken(),
					test.carry, test.all, test.broken)
			}
			if got := c.text(); got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
		})
	}
}

// TestPictureAndPlan: what is planned shows, and where everything is shown as right nothing is
// planned.
func TestPictureAndPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		var routes []string
		seen := map[int]bool{}
		for range rapid.IntRange(0, 6).Draw(t, "routes") {
			i := rapid.IntRange(0, 5).Draw(t, "node")
			if !seen[i] {
				seen[i] = true
				hop := rapid.SampledFrom([]string{fmt.Sprintf("10.240.0.%d", i+4), "10.240.0.77",
					"10.1.0.4", "10.250.0.4"}).Draw(t, "hop")
				routes = append(routes,
					fmt.Sprintf("aks-n-00000000-vmss00000%d____10244%d024 10.244.%d.0/24 %s", i, i,
						i, hop))
			}
		}
		w.table(target, routes...)
		w.subnet(nodes, "10.240.0.0/24",
			rapid.SampledFrom([]arm.ID{own, own, "", target}).Draw(t, "on the nodes"))
		w.subnet(gateway, "10.240.9.0/24",
			rapid.SampledFrom([]arm.ID{target, target, "", own}).Draw(t, "on the gateway"))
		w.s.Learn(cluster).NICs = &inventory.NICs{Holder: map[netip.Addr]string{}}
		c := w.picture()
		states := map[string]string{}
		for _, table := range c.Tables {
			for _, r := range table.Routes {
				states[table.ID.Key()+" "+r.Destination] = r.State
			}
		}
		p := plan.Make(w.s, []v1alpha1.ClusterRoutes{w.config})
		for _, change := range p.Changes {
			at := change.Resource.Key() + " "
			switch change.Verb {
			case plan.Associate:
				if s := c.subnet(change.Resource); s == nil || s.State != Lost && s.State != Other {
					t.Errorf("%+v, and the picture shows %+v", change, s)
				}
			case plan.Create:
				if got := states[at+change.New.AddressPrefix]; got != Missing {
					t.Errorf("%+v, and the picture shows %q", change, got)
				}
			case plan.Update:
				if got := states[at+change.New.AddressPrefix]; got != Wrong {
					t.Errorf("%+v, and the picture shows %q", change, got)
				}
			case plan.Delete:
				if got := states[at+change.Old.AddressPrefix]; got != Stale && got != Wrong {
					t.Errorf("%+v, and the picture shows %q", change, got)
				}
			}
		}
		if n := c.Routes(); n.All == n.Correct && c.Broken() == 0 && len(p.Changes) > 0 {
			t.Errorf("everything is shown as right, and planned is %+v", p.Changes)
		}
	})
}

// TestRouted: a node that has no route yet is missed.
func TestRouted(t *testing.T) {
	w := newWorld()
	if c := w.picture(); c.Routed() != c.Nodes {
		t.Errorf("%d of %d nodes", c.Routed(), c.Nodes)
	}
	w.table(own, "egress 0.0.0.0/0 10.1.0.4",
		"aks-n-00000000-vmss000000____102440024 10.244.0.0/24 10.240.0.4",
		"aks-n-00000000-vmss000002____102442024 10.244.2.0/24 10.240.0.6")
	if c := w.picture(); c.Routed() != 2 || c.Nodes != 3 {
		t.Errorf("%d of %d nodes", c.Routed(), c.Nodes)
	}
}

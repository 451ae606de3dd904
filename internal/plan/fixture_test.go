package plan

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	sub      = "11111111-1111-1111-1111-111111111111"
	clusterA = arm.ID("/subscriptions/" + sub +
		"/resourceGroups/shop-rg/providers/Microsoft.ContainerService/managedClusters/shop")
	clusterB = arm.ID("/subscriptions/" + sub +
		"/resourceGroups/play-rg/providers/Microsoft.ContainerService/managedClusters/play")
	tables = arm.ID("/subscriptions/" + sub +
		"/resourceGroups/net-rg/providers/Microsoft.Network/routeTables")
	vnet = arm.ID("/subscriptions/" + sub +
		"/resourceGroups/net-rg/providers/Microsoft.Network/virtualNetworks/vnet")
	tableA    = tables + "/shop-rt"
	tableB    = tables + "/play-rt"
	gateway   = tables + "/gw-rt"
	hub       = tables + "/hub-rt"
	nodesA    = vnet + "/subnets/shop-nodes"
	nodesB    = vnet + "/subnets/play-nodes"
	gatewayIn = vnet + "/subnets/gw"
)

// world is a snapshot under construction, with its config.
type world struct {
	t       testing.TB
	s       Facts
	configs []v1alpha1.ClusterRoutes
	named   map[netip.Addr]bool // addresses whose node a test names
}

var longNode = regexp.MustCompile(`(?i)aks-([a-z])-00000000-vmss00000(\d)`)

// full turns n3, the short name in these tests, into the name that AKS gives a node; short is the
// inverse.
func full(name string) string {
	if len(name) > 1 && name[0] >= 'a' && name[0] <= 'z' && name[1] >= '0' && name[1] <= '9' &&
		(len(name) == 2 || name[2] == '_') {
		return fmt.Sprintf("aks-%c-00000000-vmss00000%c%s", name[0], name[1], name[2:])
	}
	return name
}

func short(text string) string { return longNode.ReplaceAllString(text, "$1$2") }

// remembered is what is remembered of a cluster, to add to.
func (w *world) remembered(cluster arm.ID) *Remembered {
	if w.s.Memory[cluster.Key()] == nil {
		w.s.Memory[cluster.Key()] = &Remembered{}
	}
	return w.s.Memory[cluster.Key()]
}

// remembersNICs makes the NICs of clusterA remembered instead of read, with the addresses that were
// looked up.
func (w *world) remembersNICs(asked map[netip.Addr]bool) {
	if read := w.s.Learn(clusterA); read.NICs != nil {
		w.remembered(clusterA).NICs, read.NICs = read.NICs, nil
	}
	w.remembered(clusterA).Asked = asked
}

// route is "name prefix hop", the hop an address or a type.
func routeDoc(text string) string {
	f := strings.Fields(text)
	f[0] = full(f[0])
	hop := `"nextHopType":"` + f[2] + `"`
	if _, err := netip.ParseAddr(f[2]); err == nil {
		hop = `"nextHopType":"VirtualAppliance","nextHopIpAddress":"` + f[2] + `"`
	}
	return fmt.Sprintf(
		`{"name":%q,"x-unknown":{"n":1.50},"properties":{"addressPrefix":%q, %s,"hasBgpOverride":false}}`, f[0], f[1], hop)
}

func (w *world) table(id arm.ID, routes ...string) *world {
	docs := make([]string, len(routes))
	for i, r := range routes {
		docs[i] = routeDoc(r)
	}
	raw := fmt.Sprintf(
		`{"id":%q,"etag":"W/\"1\"","tags":{"a":"b"},"properties":{"routes":[%s],"future":[1, 2]}}`,
		id, strings.Join(docs, ","))
	return w.rawTable(raw)
}

func (w *world) rawTable(raw string) *world {
	t, err := inventory.DecodeRouteTable([]byte(raw))
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Tables[t.ID.Key()] = t
	if t.ID.Equal(tableA) || t.ID.Equal(tableB) {
		for _, r := range t.Routes() {
			w.claim(r)
		}
	}
	return w
}

func (w *world) subnet(id arm.ID, prefix string, table arm.ID) *world {
	link := ""
	if table != "" {
		link = fmt.Sprintf(`,"routeTable":{"id":%q}`, table)
	}
	s, err := inventory.DecodeSubnet(
		[]byte(fmt.Sprintf(`{"id":%q,"properties":{"addressPrefix":%q%s}}`, id, prefix, link)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Subnets[s.ID.Key()] = s
	return w
}

// cluster adds a kubenet cluster with one pool in each of the subnets.
func (w *world) cluster(id arm.ID, podCIDRs string, subnets ...arm.ID) *world {
	var pools []string
	for i, s := range subnets {
		pools = append(pools, fmt.Sprintf(`{"name":"pool%d","count":3,"vnetSubnetID":%q}`, i, s))
	}
	if len(subnets) == 0 {
		pools = []string{`{"name":"pool0","count":3}`}
	}
	cidrs, err := json.Marshal(strings.Split(podCIDRs, ","))
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := inventory.DecodeCluster([]byte(fmt.Sprintf(
		`{"id":%q,"properties":{"nodeResourceGroup":"MC_%s","networkProfile":{"networkPlugin":"kubenet","podCidrs":%s},"agentPoolProfiles":[%s]}}`,
		id, id.Name(), cidrs, strings.Join(pools, ","))))
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Clusters[c.ID.Key()] = c
	// Most tests are not about nodes: the check before this one saw none.
	w.remembered(id).Nodes.Hops = map[netip.Addr]string{}
	return w
}

// config adds a ClusterRoutes with the given targets.
func (w *world) config(name string, cluster arm.ID, targets ...arm.ID) *v1alpha1.ClusterRoutes {
	c := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind}
	c.Metadata.Name = name
	c.Spec.ClusterID = string(cluster)
	for _, id := range targets {
		c.Spec.Targets = append(c.Spec.Targets, v1alpha1.Target{RouteTableID: string(id)})
	}
	c.SetDefaults()
	w.configs = append(w.configs, c)
	return &w.configs[len(w.configs)-1]
}

// claim makes an address that of the node that a route of a cluster's own table names, unless the
// test says whose it is.
func (w *world) claim(r inventory.Route) {
	for _, cluster := range []arm.ID{clusterA, clusterB} {
		known, remembered := w.s.Known(cluster).NICs, w.s.Memory.Of(cluster).NICs
		for _, nics := range []*inventory.NICs{known, remembered} {
			if nics != nil && nics.Holder[r.Hop] != "" && nodeNamed(r) && !w.named[r.Hop] {
				nics.Nodes[r.Hop] = strings.ToLower(inventory.RouteNode(r.Name))
			}
		}
	}
}

// nics sets the addresses that the nodes of a cluster have. They are the nodes that the clusters'
// own tables name; n7@10.240.0.4 is one of n7.
func (w *world) nics(cluster arm.ID, addresses ...string) *world {
	n := &inventory.NICs{Holder: map[netip.Addr]string{}, Nodes: map[netip.Addr]string{}}
	if w.named == nil {
		w.named = map[netip.Addr]bool{}
	}
	pools := max(1, len(w.s.Cluster(cluster).Pools))
	for i, a := range addresses {
		node, rest, named := strings.Cut(a, "@")
		if !named {
			node, rest = fmt.Sprintf("n%d", i), a
		}
		a = rest
		w.named[netip.MustParseAddr(a)] = named
		n.Holder[netip.MustParseAddr(a)] = fmt.Sprintf("aks-pool%d-1-vmss instance %s", i%pools, a)
		n.Nodes[netip.MustParseAddr(a)] = full(node)
	}
	w.s.Learn(cluster).NICs = n
	for _, own := range []arm.ID{tableA, tableB} {
		if table := w.s.Table(own); table != nil {
			for _, r := range table.Routes() {
				w.claim(r)
			}
		}
	}
	return w
}

// wrote sets the tables that the activity log shows as written by a cluster's identity.
func (w *world) wrote(cluster arm.ID, tables ...arm.ID) *world {
	known := w.s.Learn(cluster)
	known.LogRead, known.Written = true, tables
	return w
}

// lastWriter makes the activity log show the last writer of a resource.
func (w *world) lastWriter(id arm.ID, names ...string) {
	w.s.Writers[id.Key()] = inventory.Writer{Line: "last written by " + strings.Join(names, ", "),
		At: time.Now(), Names: names}
}

// shop is the simple case: one cluster with three nodes, whose NICs were read, its table on its
// node subnet, and a gateway's table with one unmanaged route.
func shop(t testing.TB) *world {
	w := &world{t: t, s: Facts{Snapshot: inventory.NewSnapshot(), Memory: Memory{}}}
	w.cluster(clusterA, "10.244.0.0/16", nodesA).
		subnet(nodesA, "10.240.0.0/24", tableA).
		subnet(gatewayIn, "10.240.9.0/24", gateway).
		table(tableA, "egress 0.0.0.0/0 10.1.0.4", "n0____102440024 10.244.0.0/24 10.240.0.4",
			"n1____102441024 10.244.1.0/24 10.240.0.5", "n2____102442024 10.244.2.0/24 10.240.0.6").
		table(gateway, "own 192.168.0.0/16 10.1.0.4")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	w.config("shop", clusterA, gateway)
	return w
}

// changes writes a plan's changes one a line: verb table what.
func changes(p Plan) string {
	var lines []string
	for _, c := range p.Changes {
		line := string(c.Verb) + " " + c.Resource.Short()
		if c.Route != "" {
			line += " " + short(c.Route)
		}
		for _, v := range []*Value{c.Old, c.New} {
			switch _, id := v.Associated(); {
			case v == nil:
				line += " -"
			case id != "":
				line += " " + id.Short()
			default:
				line += " " + v.AddressPrefix + ">" + v.NextHopIPAddress
			}
		}
		if c.Why == "" || c.Cluster == "" {
			line += " (without a reason or cluster)"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// codes writes a plan's findings, one a line: the code, and the severity if it differs from the
// code's.
func codes(p Plan) string {
	var lines []string
	for _, f := range p.Findings {
		line := string(f.Code)
		if f.Severity != finding.Describe(f.Code).Severity {
			line += " " + f.Severity.String()
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// expect compares a plan with the expected one.
func (w *world) expect(wantChanges, wantCodes string) Plan {
	w.t.Helper()
	for cluster, own := range map[arm.ID]arm.ID{clusterA: tableA, clusterB: tableB} {
		if w.s.Cluster(cluster) != nil && !w.s.Known(cluster).LogRead {
			w.wrote(cluster, own) // unless the test says what the log shows
		}
	}
	p := Make(w.s, w.configs)
	w.hostile()
	clean := func(s string) string {
		var lines []string
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n")
	}
	if got, want := changes(p), clean(wantChanges); got != want {
		w.t.Errorf("changes:\n%s\nwant:\n%s", got, want)
	}
	if got, want := codes(p), clean(wantCodes); got != want {
		w.t.Errorf("findings:\n%s\nwant:\n%s", got, want)
		for _, f := range p.Findings {
			w.t.Log(f.Message, f.Evidence)
		}
	}
	return p
}

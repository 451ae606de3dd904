package build

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/finding"
)

// How existing networks work. The node subnet's ID names the network. The subnets for pods and for
// the gateway are named too, or made in that network. Nothing is changed without --adopt: a subnet
// keeps its route table, and the cluster uses that table. If a subnet needs a table and has none,
// the cluster's route table is made and associated. Tags on the identity name the used subnets
// (anchor.go), so that a removal finds them without any file.

// Existing are existing subnets, all in one network.
type Existing struct {
	// Nodes is the node subnet. Pods and Gateway are "" if they are made in the same network, or
	// not needed.
	Nodes   arm.ID `json:"nodes"`
	Pods    arm.ID `json:"pods,omitempty"`
	Gateway arm.ID `json:"gateway,omitempty"`
	// NodeTable, PodTable and GatewayTable are the route tables that Use found on them, "" for none
	// or the cluster's own.
	NodeTable    arm.ID `json:"nodeTable,omitempty"`
	PodTable     arm.ID `json:"podTable,omitempty"`
	GatewayTable arm.ID `json:"gatewayTable,omitempty"`

	nodesUsed, podsUsed, gatewayUsed int      // addresses that other resources use
	routes                           int      // of others in NodeTable
	links                            []arm.ID // what the subnets above link to
}

// checkExisting checks the IDs, before anything is read.
func checkExisting(c *Cluster) error {
	e := c.Existing
	given := []struct {
		field Field
		set   bool
	}{
		{fieldSpace, len(c.Space) > 0}, {fieldNodes, c.Nodes.IsValid()},
		{fieldPods, c.Pods.IsValid() && e.Pods != ""},
		{fieldGateway, c.Gateway.IsValid() && e.Gateway != ""},
	}
	for _, g := range given {
		if g.set {
			return wrong(g.field, "it comes from the existing network of %s, expected none",
				fieldVNetSubnet)
		}
	}
	for _, s := range []struct {
		field  Field
		id     arm.ID
		wanted bool
	}{
		{fieldVNetSubnet, e.Nodes, true}, {fieldPodSubnetID, e.Pods, c.HasPodSubnet()},
		{fieldGatewayID, e.Gateway, c.ApplicationGateway != nil},
	} {
		switch {
		case s.id == "":
		case !s.id.Is(arm.TypeSubnet):
			return wrong(s.field, "%q is not the ID of a subnet", s.id)
		case !s.wanted && s.field == fieldGatewayID:
			return wrong(s.field, "the cluster has no Application Gateway, expected %s",
				fieldAppGateway)
		case !s.wanted:
			return wrong(s.field, "the blueprint %s has no such subnet", c.Blueprint)
		case !s.id.Parent().Equal(c.VNetID()):
			return wrong(s.field, "%s is in another network than %s, expected both in %s",
				s.id.Short(), fieldVNetSubnet, c.VNetID().Name())
		}
	}
	switch {
	case e.Pods.Equal(e.Nodes):
		return wrong(fieldPodSubnetID, "it is the node subnet, expected a separate subnet for pods")
	case e.Gateway != "" && (e.Gateway.Equal(e.Nodes) || e.Gateway.Equal(e.Pods)):
		return wrong(fieldGatewayID, "it is a subnet of the cluster, expected a separate subnet "+
			"for the gateway")
	}
	return nil
}

// Network is an existing network as read.
type Network struct {
	// VNet is nil if the network does not exist.
	VNet *arm.Document
	// Tables are the route tables on its subnets, by ID.Key().
	Tables map[string]arm.Document
	// ClusterBuilt reports whether the cluster exists already. ClusterIdentity is its identity, nil
	// for none.
	ClusterBuilt    bool
	ClusterIdentity *arm.Document
}

// Moved returns the same subnets and tables after one resource group got another ID. Nil stays nil.
func (e *Existing) Moved(from, to arm.ID) *Existing {
	if e == nil {
		return nil
	}
	moved := *e
	for _, id := range []*arm.ID{&moved.Nodes, &moved.Pods, &moved.Gateway, &moved.NodeTable,
		&moved.PodTable, &moved.GatewayTable} {
		if *id != "" && id.Group().Equal(from) {
			*id = to + (*id)[len(from):]
		}
	}
	return &moved
}

// LinkedGroups returns the resource groups, other than the cluster's own, of an existing network
// and of what its used subnets link to.
func (e *Existing) LinkedGroups(own arm.ID) (groups []arm.ID) {
	if e == nil {
		return nil
	}
	for _, id := range append([]arm.ID{e.Nodes}, e.links...) {
		group := id.Group()
		if !group.Equal(own) && !slices.ContainsFunc(groups, group.Equal) {
			groups = append(groups, group)
		}
	}
	return groups
}

// TablesOn returns the route tables of the subnets that a cluster uses in an existing network.
func (c Cluster) TablesOn(vnet arm.Document) []arm.ID {
	var tables []arm.ID
	for _, id := range []arm.ID{c.NodeSubnetID(), c.PodSubnetID(), c.GatewaySubnetID()} {
		table := tableOf(subnetIn(vnet, id))
		if table != "" && !slices.ContainsFunc(tables, table.Equal) {
			tables = append(tables, table)
		}
	}
	return tables
}

func subnetIn(vnet arm.Document, id arm.ID) (found gjson.Result) {
	gjson.GetBytes(vnet.Raw, "properties.subnets").ForEach(func(_, s gjson.Result) bool {
		if strings.EqualFold(s.Get("name").String(), id.Name()) {
			found = s
		}
		return !found.Exists()
	})
	return found
}

func tableOf(subnet gjson.Result) arm.ID {
	return arm.ID(subnet.Get("properties.routeTable.id").String())
}

// prefixesOf returns the IPv4 prefixes of a subnet.
func prefixesOf(subnet gjson.Result) []netip.Prefix {
	return ipv4(subnet.Get("properties.addressPrefixes"), subnet.Get("properties.addressPrefix"))
}

// ipv4 returns the IPv4 prefixes of lists, each once.
func ipv4(lists ...gjson.Result) (found []netip.Prefix) {
	for _, list := range lists {
		for _, text := range list.Array() {
			p, err := netip.ParsePrefix(text.String())
			if err == nil && p.Addr().Is4() && !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	return found
}

// Use fills in the facts of the network about the cluster's subnets, and refuses unsuitable
// subnets. The error is an *Error.
func (c Cluster) Use(n Network) (Cluster, error) {
	if c.Existing == nil {
		return c, nil
	}
	c.Existing = &Existing{Nodes: c.Existing.Nodes, Pods: c.Existing.Pods,
		Gateway: c.Existing.Gateway}
	if n.VNet == nil {
		return c, wrong(fieldVNetSubnet, "there is no network %s", c.VNetID())
	}
	if at := gjson.GetBytes(n.VNet.Raw, "location").String(); !strings.EqualFold(at, c.Location) {
		return c, wrong(fieldLocation, "the network %s is in %s, expected the cluster there",
			c.VNetID().Name(), at)
	}
	c.Space = ipv4(gjson.GetBytes(n.VNet.Raw, "properties.addressSpace.addressPrefixes"))
	if err := useSubnets(&c, n); err != nil {
		return c, err
	}
	if err := useTables(&c, n); err != nil {
		return c, err
	}
	if err := choosePrefixes(&c, othersIn(&c, *n.VNet), peersOf(*n.VNet)); err != nil {
		return c, err
	}
	return c, fits(&c)
}

// place is a subnet that a cluster uses.
type place struct {
	field   Field
	id      arm.ID
	there   bool // it exists before the cluster
	prefix  *netip.Prefix
	used    *int
	allowed string // what it may be delegated to
}

// places returns the subnets in an existing network.
func places(c *Cluster) []place {
	e := c.Existing
	all := []place{{fieldVNetSubnet, e.Nodes, true, &c.Nodes, &e.nodesUsed, ""}}
	if c.HasPodSubnet() {
		all = append(all, place{fieldPodSubnetID, c.PodSubnetID(), e.Pods != "", &c.Pods,
			&e.podsUsed, arm.TypeCluster})
	}
	if c.ApplicationGateway != nil {
		all = append(all, place{fieldGatewayID, c.GatewaySubnetID(), e.Gateway != "", &c.Gateway,
			&e.gatewayUsed, arm.TypeGateway})
	}
	return all
}

func useSubnets(c *Cluster, n Network) error {
	for _, p := range places(c) {
		subnet := subnetIn(*n.VNet, p.id)
		prefixes := prefixesOf(subnet)
		switch {
		case !p.there && !subnet.Exists():
			continue // it will be made
		case !p.there && p.prefix.IsValid(): // given: its step compares the prefix
			continue
		case !subnet.Exists():
			return wrong(p.field, "there is no subnet %s in the network %s", p.id.Name(),
				c.VNetID().Name())
		case len(prefixes) == 0:
			return wrong(p.field, "the subnet %s has no IPv4 prefix", p.id.Short())
		}
		*p.prefix = prefixes[0]
		if !p.there {
			continue
		}
		for _, path := range subnetLinks {
			for _, id := range subnet.Get("properties." + path).Array() {
				c.Existing.links = append(c.Existing.links, arm.ID(id.String()))
			}
		}
		for _, d := range subnet.Get("properties.delegations").Array() {
			if to := d.Get("properties.serviceName").String(); !strings.EqualFold(to, p.allowed) {
				return wrong(p.field, "the subnet %s is delegated to %s, and cannot be used for "+
					"anything else", p.id.Short(), to)
			}
		}
		if err := countUsed(c, p, subnet); err != nil {
			return err
		}
	}
	return nil
}

// countUsed counts the addresses in a subnet that others use. The cluster's own machines and
// gateway do not count: a second run finds them.
func countUsed(c *Cluster, p place, subnet gjson.Result) error {
	node := p.field != fieldGatewayID
	if node && len(subnet.Get("properties.applicationGatewayIPConfigurations").Array()) > 0 {
		return wrong(p.field,
			"the subnet %s holds an Application Gateway, which needs it for itself", p.id.Short())
	}
	for _, one := range subnet.Get("properties.ipConfigurations").Array() {
		id := arm.ID(one.Get("id").String())
		switch {
		case strings.EqualFold(id.ResourceGroup(), c.nodeGroup()):
		case strings.HasPrefix(id.Key(), c.GatewayID().Key()+"/"):
		case !node && !strings.Contains(id.Key(), strings.ToLower("/"+arm.TypeGateway+"/")):
			return wrong(p.field, "the subnet %s holds %s, and an Application Gateway needs one "+
				"for itself", p.id.Short(), id.Short())
		default:
			*p.used++
		}
	}
	return nil
}

// nodeGroup returns the resource group that AKS makes for the cluster's machines, by AKS's own
// rule.
func (c Cluster) nodeGroup() string {
	name := "MC_" + c.Group + "_" + c.Name + "_" + c.Location
	return name[:min(len(name), 80)]
}

// othersIn returns the subnets of a network that do not belong to the cluster.
func othersIn(c *Cluster, vnet arm.Document) (others []netip.Prefix) {
	gjson.GetBytes(vnet.Raw, "properties.subnets").ForEach(func(_, s gjson.Result) bool {
		name := s.Get("name").String()
		its := func(p place) bool { return strings.EqualFold(p.id.Name(), name) }
		if !slices.ContainsFunc(places(c), its) {
			others = append(others, prefixesOf(s)...)
		}
		return true
	})
	return others
}

// peersOf returns the address spaces of the peered networks.
func peersOf(vnet arm.Document) []netip.Prefix {
	var spaces []gjson.Result
	for _, peering := range gjson.GetBytes(vnet.Raw, "properties.virtualNetworkPeerings").Array() {
		spaces = append(spaces, peering.Get("properties.remoteAddressSpace.addressPrefixes"),
			peering.Get("properties.remoteVirtualNetworkAddressSpace.addressPrefixes"))
	}
	return ipv4(spaces...)
}

// useTables uses the route tables of the subnets, and refuses tables that cannot work.
func useTables(c *Cluster, n Network) error {
	e := c.Existing
	on := func(id arm.ID) arm.ID { return tableOf(subnetIn(*n.VNet, id)) }
	if err := checkBuiltTable(c, n, on(e.Nodes)); err != nil {
		return err
	}
	if table := on(e.Nodes); table != "" && !table.Equal(c.ownNodeTable()) {
		if err := checkEgress(c, n, fieldVNetSubnet, table); err != nil {
			return err
		}
		if c.HasTable() {
			e.NodeTable = table
		}
		if c.Blueprint == capacity.Kubenet {
			if err := checkRoutes(c, n, table); err != nil {
				return err
			}
		}
	}
	table := on(e.Pods)
	if e.Pods != "" && table != "" && c.Egress.IsValid() && !table.Equal(c.ownNodeTable()) {
		if err := checkEgress(c, n, fieldPodSubnetID, table); err != nil {
			return err
		}
		e.PodTable = table
	}
	table = on(e.Gateway)
	if e.Gateway != "" && table != "" && c.HasGatewayTable() && !table.Equal(c.ownGatewayTable()) {
		doc, read := n.Tables[table.Key()]
		delegated := len(subnetIn(*n.VNet, e.Gateway).Get("properties.delegations").Array()) > 0
		route := routeFor(doc, everywhere)
		hop := route.Get("properties.nextHopType").String()
		switch {
		case !read:
			return wrong(fieldGatewayID, "its route table %s could not be read", table.Short())
		case route.Exists() && !strings.EqualFold(hop, "Internet") && !delegated:
			return wrong(fieldGatewayID, "its route table %s sends 0.0.0.0/0 to %s; Azure "+
				"accepts no gateway there, expected Internet or no such route", table.Short(), hop)
		}
		e.GatewayTable = table
	}
	return nil
}

// checkBuiltTable refuses any table other than the one that the cluster was built with: its routes
// are in that one. If the subnet has lost the cluster's own table, the subnet's step associates it
// again.
func checkBuiltTable(c *Cluster, n Network, on arm.ID) error {
	before := c.Placed(n.ClusterIdentity).Existing
	if !n.ClusterBuilt || before == nil || !c.HasTable() {
		return nil
	}
	kept := cmp.Or(before.NodeTable, c.ownNodeTable())
	if on.Equal(kept) || on == "" && kept.Equal(c.ownNodeTable()) {
		return nil
	}
	what := "lost its route table"
	if on != "" {
		what = "the route table " + on.Short() + " in place of"
	}
	command := finding.Command("az network vnet subnet update --ids %s --route-table %s",
		c.Existing.Nodes, kept)
	return wrong(fieldVNetSubnet, "the subnet has %s %s, which has the cluster's routes: "+
		"associate it again first: %s", what, kept.Short(), command)
}

var everywhere = netip.MustParsePrefix("0.0.0.0/0")

// routeFor returns the route of a table for a prefix.
func routeFor(table arm.Document, prefix netip.Prefix) (found gjson.Result) {
	for _, r := range gjson.GetBytes(table.Raw, "properties.routes").Array() {
		p, err := netip.ParsePrefix(r.Get("properties.addressPrefix").String())
		if err == nil && p == prefix {
			return r
		}
	}
	return found
}

// checkEgress refuses a table whose egress differs from the cluster's: outboundType follows from
// egress, and an existing table is not changed.
func checkEgress(c *Cluster, n Network, field Field, table arm.ID) error {
	doc, read := n.Tables[table.Key()]
	route := routeFor(doc, everywhere)
	hop := route.Get("properties.nextHopIpAddress").String()
	kind := route.Get("properties.nextHopType").String()
	switch {
	case !read:
		return wrong(field, "its route table %s could not be read", table.Short())
	case c.Egress.IsValid() && hop != c.Egress.String():
		return wrong(fieldEgress, "the existing route table %s has no route for 0.0.0.0/0 to %s: "+
			"add it there first", table.Short(), c.Egress)
	case !c.Egress.IsValid() && hop != "":
		return wrong(fieldEgress, "the existing route table %s sends 0.0.0.0/0 to %s, expected "+
			"%s %s", table.Short(), hop, fieldEgress, hop)
	case !c.Egress.IsValid() && route.Exists() && !strings.EqualFold(kind, "Internet"):
		return wrong(field, "its route table %s sends 0.0.0.0/0 to %s: clusters have no egress "+
			"there", table.Short(), kind)
	}
	return nil
}

// checkRoutes counts the routes of an existing table that are not the cluster's. A new cluster's
// pod CIDR must contain none, because two clusters cannot share a table.
func checkRoutes(c *Cluster, n Network, table arm.ID) error {
	pods := c.PodCIDR
	if !pods.IsValid() {
		pods = usualPodCIDR
	}
	for _, r := range gjson.GetBytes(n.Tables[table.Key()].Raw, "properties.routes").Array() {
		p, err := netip.ParsePrefix(r.Get("properties.addressPrefix").String())
		inPods := err == nil && p.Bits() >= pods.Bits() && p.Overlaps(pods)
		if inPods && !n.ClusterBuilt {
			return wrong(fieldPodCIDR, "%s: the route table %s of the node subnet has the route "+
				"%s for %s; two clusters cannot share a table, expected another pod CIDR if "+
				"no cluster uses the route", pods, table.Short(), r.Get("name"), p)
		}
		if !inPods {
			c.Existing.routes++
		}
	}
	return nil
}

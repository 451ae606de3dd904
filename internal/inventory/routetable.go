package inventory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// The next hop types of a route, as ARM spells them (virtual-networks-udr-overview).
const (
	HopAppliance = "VirtualAppliance"
	HopGateway   = "VirtualNetworkGateway"
	HopVNet      = "VnetLocal"
	HopInternet  = "Internet"
	HopNone      = "None"
)

// hopType returns a next hop type as written. For Azure's spelling it returns one string that all
// routes share.
func hopType(written string) string {
	for _, known := range []string{HopAppliance, HopGateway, HopVNet, HopInternet, HopNone} {
		if written == known {
			return known
		}
	}
	return written
}

// managerTable matches the tables of Azure Virtual Network Manager: AVNM_Managed_<32 hex digits> in
// the group AVNM_Managed_ResourceGroup_<subscription> (common-issues of Azure Virtual Network
// Manager, which names the group).
var managerTable = lazy.Regexp(`(?i)/resourceGroups/AVNM_Managed_ResourceGroup_[^/]+/|/routeTables/AVNM_Managed_[0-9a-f]{32}$`)

// IsManagerTable reports whether a route table belongs to Azure Virtual Network Manager.
func IsManagerTable(id arm.ID) bool { return managerTable().MatchString(string(id)) }

// DefaultRouteLimit is the number of routes that a table can have unless Azure Virtual Network
// Manager manages it.
const DefaultRouteLimit = 400

// RouteTable is an Azure route table. Routes returns its routes, and only WithRoutes makes a table
// with others: an index over changed routes would be wrong.
type RouteTable struct {
	arm.Document
	Subnets []arm.ID // the subnets it is associated with
	// NoLearned is set if learned routes of gateways do not reach its subnets
	// (disableBgpRoutePropagation).
	NoLearned bool
	// Failed is set if the last operation on the table failed: then the document may not be in
	// effect.
	Failed bool

	routes   []Route
	byPrefix []int // of ByPrefix
}

// Routes returns the routes. Do not change them: the slice is not a copy.
func (t *RouteTable) Routes() []Route { return t.routes }

// WithRoutes returns a copy of the table with other routes.
func (t *RouteTable) WithRoutes(routes []Route) *RouteTable {
	other := *t
	other.routes, other.byPrefix = routes, sortRoutes(routes)
	return &other
}

// Default returns the routes that make up the table's default route; none if it is incomplete. Two
// routes for the halves of 0.0.0.0/0 have the same effect, and win over a learned default route.
func (t *RouteTable) Default() []Route {
	if r, ok := t.to("0.0.0.0/0"); ok {
		return []Route{r}
	}
	low, isLow := t.to("0.0.0.0/1")
	high, isHigh := t.to("128.0.0.0/1")
	if isLow && isHigh {
		return []Route{low, high}
	}
	return nil
}

func (t *RouteTable) to(prefix string) (Route, bool) {
	at, ok := slices.BinarySearchFunc(t.byPrefix, netip.MustParsePrefix(prefix),
		func(i int, want netip.Prefix) int { return t.routes[i].Prefix.Compare(want) })
	if !ok {
		return Route{}, false
	}
	return t.routes[t.byPrefix[at]], true
}

// ByPrefix returns the indexes in Routes of the routes with prefixes, in the order of their
// prefixes. They are computed once, when the table gets its routes, because tables are read often
// and rarely change.
func (t *RouteTable) ByPrefix() []int { return t.byPrefix }

func sortRoutes(routes []Route) []int {
	order := make([]int, 0, len(routes))
	for i, r := range routes {
		if r.Prefix.IsValid() {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return routes[i].Prefix.Compare(routes[j].Prefix)
	})
	return order
}

// Route is one user-defined route. Raw has all fields, including fields that are not decoded; it is
// nil for a route that no table has yet.
type Route struct {
	Name    string
	Prefix  netip.Prefix // zero for a service tag or anything else that is not a prefix
	Tag     string       // the address prefix as written when Prefix is zero
	HopType string
	Hop     netip.Addr // zero unless HopType is VirtualAppliance
	Raw     json.RawMessage
}

// Destination returns the prefix or service tag as text.
func (r Route) Destination() string {
	if r.Prefix.IsValid() {
		return r.Prefix.String()
	}
	return r.Tag
}

// NextHop returns the next hop for people: the address, or the type.
func (r Route) NextHop() string {
	if r.Hop.IsValid() {
		return r.Hop.String()
	}
	return r.HopType
}

// SameHop reports whether both routes have the same next hop.
func (r Route) SameHop(other Route) bool {
	return r.Hop == other.Hop && strings.EqualFold(r.HopType, other.HopType)
}

// DecodeRouteTable reads a route table as ARM returns it, or in the flattened shape of `az network
// route-table show`.
func DecodeRouteTable(raw []byte) (*RouteTable, error) {
	var p struct {
		Routes  []json.RawMessage `json:"routes"`
		Subnets []arm.Ref         `json:"subnets"`
		NoBGP   bool              `json:"disableBgpRoutePropagation"`
		State   string            `json:"provisioningState"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeRouteTable)
	if err != nil {
		return nil, err
	}
	t := &RouteTable{
		Document:  document,
		NoLearned: p.NoBGP,
		Failed:    strings.EqualFold(p.State, "Failed"),
		routes:    make([]Route, len(p.Routes)),
	}
	names := make(map[string]bool, len(p.Routes))
	rest := raw
	for i, rawRoute := range p.Routes {
		rawRoute, rest = partOf(rest, rawRoute)
		if t.routes[i], err = DecodeRoute(rawRoute); err != nil {
			return nil, fmt.Errorf("routes[%d]: %w", i, err)
		}
		name := strings.ToLower(t.routes[i].Name)
		if names[name] {
			return nil, fmt.Errorf("routes[%d]: another route is also named %s", i,
				t.routes[i].Name)
		}
		names[name] = true
	}
	for _, s := range p.Subnets {
		t.Subnets = append(t.Subnets, s.Target())
	}
	t.byPrefix = sortRoutes(t.routes)
	return t, nil
}

// partOf finds a copied part in its document, so that the copy can be freed. It returns this part
// of the document and the rest after it, or the copy if it is not found.
func partOf(document, part []byte) (same, rest []byte) {
	at := bytes.Index(document, part)
	if at < 0 {
		return part, document
	}
	end := at + len(part)
	return document[at:end:end], document[end:]
}

// DecodeRoute reads one route in either shape. A route without a name or a destination is an error.
// A next hop that is not an address counts as none, because an unmanaged route must never stop the
// program.
func DecodeRoute(raw []byte) (Route, error) {
	type properties struct {
		AddressPrefix    string `json:"addressPrefix"`
		NextHopType      string `json:"nextHopType"`
		NextHopIPAddress string `json:"nextHopIpAddress"`
	}
	var doc struct {
		Name       string      `json:"name"`
		Properties *properties `json:"properties"`
		properties
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return Route{}, arm.DescribeJSON(raw, err)
	}
	p := doc.properties
	if doc.Properties != nil {
		p = *doc.Properties
	}
	if doc.Name == "" || p.AddressPrefix == "" {
		return Route{}, fmt.Errorf("a route needs a name and an addressPrefix")
	}
	r := Route{Name: doc.Name, Prefix: arm.ParsePrefix(p.AddressPrefix),
		HopType: hopType(p.NextHopType), Raw: raw}
	if !r.Prefix.IsValid() {
		r.Tag = p.AddressPrefix
	}
	if strings.EqualFold(p.NextHopType, HopAppliance) {
		r.Hop, _ = netip.ParseAddr(p.NextHopIPAddress)
	}
	return r, nil
}

// NodeMask returns the prefix length of a node's pod CIDR. For IPv4 it is 24 (AKS kubenet and
// overlay concepts). For IPv6 it is 16 more than the cluster's pod CIDR: /80 in the default
// fd12:3456:789a::/64 (configure-kubenet-dual-stack). Kubernetes allows a difference of at most 16
// bits.
func NodeMask(podCIDR netip.Prefix) int {
	if podCIDR.Addr().Is4() {
		return max(24, podCIDR.Bits())
	}
	return min(128, podCIDR.Bits()+16)
}

// PodRouteName returns the name that the cloud provider gives a route: the node, four underscores,
// and the prefix without punctuation (cloud-provider-azure, mapNodeNameToRouteName). Older clusters
// use only the node name.
func PodRouteName(node string, prefix netip.Prefix) string {
	return node + "____" + punctuation.Replace(prefix.String())
}

var punctuation = strings.NewReplacer(".", "", ":", "", "/", "")

// RouteNode returns the node in a pod route's name, in either style.
func RouteNode(routeName string) string {
	node, _, _ := strings.Cut(routeName, "____")
	return node
}

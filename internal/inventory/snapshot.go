package inventory

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Snapshot is what was read, and nothing else. plan.Memory is what is remembered. Maps are keyed by
// ID.Key().
type Snapshot struct {
	Clusters map[string]*Cluster
	Subnets  map[string]*Subnet
	Tables   map[string]*RouteTable
	VNets    map[string]*VNet // only if a whole scope, or the network itself, was read

	// Firewalls are the ones that configs name. In a diagnosis they include the ones to which a
	// default route leads.
	Firewalls map[string]*Firewall
	// Balancers are the load balancers with a front end at a next hop.
	Balancers map[string]*Balancer

	// Read only by a diagnosis:
	SecurityGroups map[string]*SecurityGroup
	Gateways       map[string]*Gateway
	Interfaces     map[string]*Interface
	Locks          map[string]*Lock
	Policies       []AssignedPolicy
	// Egress is what a comparison of firewalls needs; nil if it was not read.
	Egress *Egress
	// Caller is the reader's object ID, or "". CallerRights are its rights, by the scope's key.
	// Rights are the rights of a principal, by its object ID and the scope's key.
	Caller       string
	CallerRights map[string]Rights
	Rights       map[string]map[string]Rights
	// Kubernetes is what a cluster's API returned, by the cluster's key.
	Kubernetes map[string]*Kubernetes
	// Writers are lines from the activity log that say who last wrote a resource, by its key.
	Writers map[string]Writer
	// Former is what subnets and route tables once had, by the resource's key. For a key without
	// values, the activity log and the history were searched and showed nothing.
	Former map[string][]Former
	// Listed are the scopes (subscriptions or resource groups) that were read completely, within
	// the identity's permissions.
	Listed []arm.ID
	// InterfacesOf are the scopes whose network interfaces were all read, including those of scale
	// sets.
	InterfacesOf []arm.ID
	// Taken is the time at which the snapshot was read.
	Taken time.Time

	// Unread says why a requested resource is not in the maps above.
	Unread map[string]Unread

	known map[string]*Known
}

// Unread is a resource that could not be read. Absent is set only if a GET of the resource itself
// answered 404. Absence from a list proves nothing, because a list shows only what the identity may
// see.
type Unread struct {
	ID      arm.ID
	Absent  bool
	Status  int    // HTTP status, 0 without an answer
	Code    string // ARM's error code
	Message string
	Late    bool `json:",omitempty"` // the caller stopped waiting
}

// Reason says briefly why it could not be read.
func (u Unread) Reason() string {
	switch {
	case u.Absent:
		return "it does not exist"
	case u.Code != "" && u.Message != "":
		return u.Code + ": " + u.Message
	case u.Code != "":
		return u.Code
	}
	return u.Message
}

// Undecoded reports whether Azure answered with the resource, but its document makes no sense.
func (u Unread) Undecoded() bool { return u.Status == 200 }

// Transient reports whether the same read may succeed soon without any change.
func (u Unread) Transient() bool {
	return u.Late || u.Status == 0 || u.Status == 408 || u.Status == 429 || u.Status >= 500
}

// Writer says who last wrote a resource.
type Writer struct {
	Line   string `json:"line"` // one sentence, even if the writer is unknown
	Failed bool   `json:"failed,omitempty"`
	// At is the time of the write. Names are what the log calls the writer, as in
	// Cluster.Principals. Asked is when the log was read.
	At    time.Time `json:"-"`
	Names []string  `json:"-"`
	Asked time.Time `json:"-"`
}

// Known is what was read about a cluster apart from its document.
type Known struct {
	// AKSSubnets are the node subnets of the virtual network that AKS made, once they were read.
	AKSSubnets []arm.ID `json:"ownSubnets,omitempty"`

	// Written are the tables that the cluster's identity wrote, as far as the activity log was
	// read. LogNext has the links to the next pages. LogCut is set if the log was too long to read
	// to its end.
	LogRead bool     `json:"logRead,omitempty"`
	LogNext []string `json:"logNext,omitempty"`
	LogCut  bool     `json:"logCut,omitempty"`
	Written []arm.ID `json:"written,omitempty"`
	// Managed are the aks-agentpool-*-routetable tables in the node resource group.
	ManagedRead bool     `json:"managedRead,omitempty"`
	Managed     []arm.ID `json:"managed,omitempty"`

	// NICs has the addresses of the cluster's nodes. They prove deletes. Nil if not read.
	NICs *NICs `json:"nics,omitempty"`
}

// NICs has the addresses of the network interfaces of a cluster's nodes, with their holders. Failed
// says why they could not be read. Read is the time at which the read began.
type NICs struct {
	Holder map[netip.Addr]string
	// Nodes has the names of the nodes whose machines have the addresses, in lower case, if the
	// interface names its machine. Each list is of one node resource group, where an instance of a
	// scale set, or a virtual machine, is one node.
	Nodes map[netip.Addr]string
	// Drops has the addresses of interfaces without IP forwarding: Azure drops what they forward.
	Drops  map[netip.Addr]bool
	Failed string
	Read   time.Time
}

// Of returns how many nodes of a pool have an address in the family of another address.
func (n *NICs) Of(pool string, like netip.Addr) int {
	seen := map[string]bool{}
	for address, holder := range n.Holder {
		if address.Is4() == like.Is4() && (Pool{Name: pool}).Holds(holder) {
			seen[strings.ToLower(holder)] = true
		}
	}
	return len(seen)
}

// NewSnapshot returns an empty snapshot.
func NewSnapshot() *Snapshot {
	return &Snapshot{
		Clusters:  map[string]*Cluster{},
		Subnets:   map[string]*Subnet{},
		Tables:    map[string]*RouteTable{},
		VNets:     map[string]*VNet{},
		Unread:    map[string]Unread{},
		Firewalls: map[string]*Firewall{},
		Balancers: map[string]*Balancer{},
		known:     map[string]*Known{},

		SecurityGroups: map[string]*SecurityGroup{},
		Gateways:       map[string]*Gateway{},
		Interfaces:     map[string]*Interface{},
		Locks:          map[string]*Lock{},
		CallerRights:   map[string]Rights{},
		Rights:         map[string]map[string]Rights{},
		Kubernetes:     map[string]*Kubernetes{},
		Writers:        map[string]Writer{},
		Former:         map[string][]Former{},
	}
}

// Table returns a table, or nil.
func (s *Snapshot) Table(id arm.ID) *RouteTable {
	table, _ := arm.Lookup(s.Tables, id)
	return table
}

// Subnet returns a subnet, or nil.
func (s *Snapshot) Subnet(id arm.ID) *Subnet {
	subnet, _ := arm.Lookup(s.Subnets, id)
	return subnet
}

// NoCluster is the network plugin of the empty cluster that stands for a document without a
// cluster.
const NoCluster = "no cluster"

// Clusterless reports whether an ID is that of a document without a cluster (v1alpha1.NoCluster).
// No resource in Azure has this ID.
func Clusterless(id arm.ID) bool { return strings.HasPrefix(string(id), "/documents/") }

// Cluster returns a cluster, or nil. For a document without a cluster it returns an empty one,
// without nodes, pods and subnets, which is never unread or gone.
func (s *Snapshot) Cluster(id arm.ID) *Cluster {
	cluster, _ := arm.Lookup(s.Clusters, id)
	if cluster == nil && Clusterless(id) {
		return &Cluster{Document: arm.Document{ID: id}, Plugin: NoCluster}
	}
	return cluster
}

// Known returns what was read about a cluster apart from its document.
func (s *Snapshot) Known(cluster arm.ID) Known {
	if k, _ := arm.Lookup(s.known, cluster); k != nil {
		return *k
	}
	return Known{}
}

// Learn works like Known, for callers that add to it.
func (s *Snapshot) Learn(cluster arm.ID) *Known {
	k := s.known[cluster.Key()]
	if k == nil {
		k = &Known{}
		s.known[cluster.Key()] = k
	}
	return k
}

// Fork returns a copy. Reading clusters, tables and subnets into it does not change the original.
func (s *Snapshot) Fork() *Snapshot {
	c := *s
	c.Clusters, c.Tables, c.Subnets, c.Unread = maps.Clone(s.Clusters), maps.Clone(s.Tables),
		maps.Clone(s.Subnets), maps.Clone(s.Unread)
	c.Firewalls, c.Balancers = maps.Clone(s.Firewalls), maps.Clone(s.Balancers)
	c.Kubernetes, c.Writers = maps.Clone(s.Kubernetes), maps.Clone(s.Writers)
	c.Former = maps.Clone(s.Former)
	c.known = make(map[string]*Known, len(s.known))
	for key, k := range s.known {
		same := *k
		c.known[key] = &same
	}
	return &c
}

// decoders are how documents of the types that snapshots store are decoded.
var decoders = []struct {
	resourceType string
	decode       func([]byte) (any, error)
}{
	{arm.TypeCluster, decoder(DecodeCluster)},
	{arm.TypeVNet, decoder(DecodeVNet)},
	{arm.TypeSubnet, decoder(DecodeSubnet)},
	{arm.TypeRouteTable, decoder(DecodeRouteTable)},
	{arm.TypeSecurityGroup, decoder(DecodeSecurityGroup)},
	{arm.TypeGateway, decoder(DecodeGateway)},
	{arm.TypeFirewall, decoder(DecodeFirewall)},
	{arm.TypeLoadBalancer, decoder(DecodeBalancer)},
	{arm.TypeFirewallPolicy, decoder(DecodeFirewallPolicy)},
	{arm.TypeRuleGroup, decoder(DecodeRuleGroup)},
	{arm.TypeIPGroup, decoder(DecodeIPGroup)},
	{arm.TypeExtension, decoder(DecodeExtension)},
	{arm.TypeInterface, decoder(DecodeInterface)},
	{arm.TypeScaleSetInterface, decoder(DecodeInterface)},
	{arm.TypeLock, decoder(DecodeLock)},
}

func decoder[T any](decode func([]byte) (T, error)) func([]byte) (any, error) {
	return func(raw []byte) (any, error) { return decode(raw) }
}

// Decode decodes the document of a resource. A type that snapshots do not store is an error.
func Decode(id arm.ID, raw []byte) (any, error) {
	for _, d := range decoders {
		if id.Is(d.resourceType) {
			return d.decode(raw)
		}
	}
	return nil, fmt.Errorf("id: %q is a %s, a resource type that routekeeper does not read", id,
		id.Type())
}

// Kind returns the type of a resource in Azure's spelling. Network interfaces of scale sets are of
// the same kind as others: a reader that wants either wants both.
func Kind(id arm.ID) string {
	if id.Is(arm.TypeScaleSetInterface) {
		return arm.TypeInterface
	}
	for _, d := range decoders {
		if id.Is(d.resourceType) {
			return d.resourceType
		}
	}
	return id.Type()
}

// Add adds a document by its type; a virtual network with its subnets.
func (s *Snapshot) Add(raw []byte) error {
	var h struct{ ID arm.ID }
	if err := json.Unmarshal(raw, &h); err != nil {
		return arm.DescribeJSON(raw, err)
	}
	doc, err := Decode(arm.Clean(h.ID), raw)
	if err == nil {
		s.Put(doc)
	}
	return err
}

// Put adds a document that Decode has decoded.
func (s *Snapshot) Put(doc any) {
	switch doc := doc.(type) {
	case *Cluster:
		s.Clusters[doc.ID.Key()] = doc
	case *VNet:
		s.VNets[doc.ID.Key()] = doc
		for _, subnet := range doc.Subnets {
			s.Subnets[subnet.ID.Key()] = subnet
		}
	case *Subnet:
		s.Subnets[doc.ID.Key()] = doc
	case *RouteTable:
		s.Tables[doc.ID.Key()] = doc
	case *SecurityGroup:
		s.SecurityGroups[doc.ID.Key()] = doc
	case *Gateway:
		s.Gateways[doc.ID.Key()] = doc
	case *Firewall:
		s.Firewalls[doc.ID.Key()] = doc
	case *Balancer:
		s.Balancers[doc.ID.Key()] = doc
	case *FirewallPolicy:
		s.WithEgress().Policies[doc.ID.Key()] = doc
	case *RuleGroup:
		s.WithEgress().Groups[doc.ID.Key()] = doc
	case *IPGroup:
		s.WithEgress().IPGroups[doc.ID.Key()] = doc
	case *Extension:
		s.WithEgress().Extensions[doc.ID.Key()] = doc
	case *Interface:
		s.Interfaces[doc.ID.Key()] = doc
	case *Lock:
		s.Locks[doc.ID.Key()] = doc
	}
}

// NodeSubnetIDs returns the IDs of the cluster's node subnets, sorted: the ones that its pools
// name, and the one that AKS created if a pool names none. The latter must have been read.
func (s *Snapshot) NodeSubnetIDs(c *Cluster) []arm.ID {
	ids := c.ExistingSubnets()
	if c.UsesAKSVNet() {
		ids = append(ids, s.Known(c.ID).AKSSubnets...)
	}
	return SortIDs(ids)
}

// NodePrefixes returns the address prefixes of the cluster's node subnets, sorted.
func (s *Snapshot) NodePrefixes(c *Cluster) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, id := range s.NodeSubnetIDs(c) {
		if subnet := s.Subnet(id); subnet != nil {
			prefixes = append(prefixes, subnet.Prefixes...)
		}
	}
	return SortPrefixes(prefixes)
}

// LeadsElsewhere reports whether a cluster's node addresses, as next hops in a route table, are the
// addresses of other machines. They are if each subnet of the table is in a network that has these
// addresses itself, or reaches them in another network than the nodes'.
func (s *Snapshot) LeadsElsewhere(t *RouteTable, c *Cluster) bool {
	var networks []arm.ID
	for _, id := range s.NodeSubnetIDs(c) {
		networks = append(networks, id.Parent())
	}
	nodes := s.NodePrefixes(c)
	holds := func(prefixes []netip.Prefix) bool {
		return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool {
			return slices.ContainsFunc(nodes, p.Overlaps)
		})
	}
	return len(networks) > 0 && len(t.Subnets) > 0 &&
		!slices.ContainsFunc(t.Subnets, func(id arm.ID) bool {
			at := s.VNets[id.Parent().Key()]
			switch {
			case at == nil || slices.ContainsFunc(networks, at.ID.Equal):
				return true
			case holds(at.Prefixes):
				return false
			}
			other := false
			for _, peering := range at.Peerings {
				if slices.ContainsFunc(networks, peering.Remote.Equal) {
					return true
				}
				other = other || holds(peering.Prefixes)
			}
			return !other // an address in no network may still be the cluster's
		})
}

// SortPrefixes returns the prefixes in order, each once.
func SortPrefixes(prefixes []netip.Prefix) []netip.Prefix {
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	return slices.Compact(prefixes)
}

// Argument returns how a command line names a cluster: by its name, or by its ID where names
// repeat.
func (s *Snapshot) Argument(id arm.ID) string {
	for _, other := range s.Clusters {
		if strings.EqualFold(other.ID.Name(), id.Name()) && !other.ID.Equal(id) {
			return string(id)
		}
	}
	return id.Name()
}

// Within reports whether one of the prefixes holds an address.
func Within(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// List returns prefixes in one line.
func List(prefixes []netip.Prefix) string {
	words := make([]string, len(prefixes))
	for i, p := range prefixes {
		words[i] = p.String()
	}
	return strings.Join(words, ", ")
}

// Migrates reports whether a cluster is leaving kubenet. Its document names overlay from the start
// of the operation, but a table of its node subnets still has routes to its pods.
func (s *Snapshot) Migrates(c *Cluster) bool {
	if !c.MayLeave() {
		return false
	}
	nodes := s.NodePrefixes(c)
	return slices.ContainsFunc(s.NodeSubnetIDs(c), func(id arm.ID) bool {
		subnet := s.Subnet(id)
		return subnet != nil && s.Table(subnet.RouteTable) != nil &&
			slices.ContainsFunc(s.Table(subnet.RouteTable).Routes(), func(r Route) bool {
				return Within(c.PodCIDRs, r.Prefix.Addr()) && Within(nodes, r.Hop)
			})
	})
}

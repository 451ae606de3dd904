// Package v1alpha1 is the configuration API. The kind ClusterRoutes says which associations to
// guard for one AKS cluster, and which route tables get copies of its pod routes. The kind Cluster
// describes a cluster to create. The structs are read from YAML files and are suitable for the
// Kubernetes API.
//
// It has plain structs, defaults and schemas only: it must not read files or know what exists in
// Azure.
package v1alpha1

import (
	"net/netip"
	"strings"
)

// APIVersion and Kind identify a ClusterRoutes document.
const (
	APIVersion = "routekeeper.dev/v1alpha1"
	Kind       = "ClusterRoutes"
)

// ClusterRoutes keeps the subnets and the pod routes of one cluster in sync.
type ClusterRoutes struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
}

// Metadata names the object. Commands select by labels, such as ring=1.
type Metadata struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Spec is the desired state.
type Spec struct {
	// ClusterID is the resource ID of the managed cluster. A document without it guards subnets
	// that belong to no cluster, such as a hub's; SetDefaults then fills in a key that identifies
	// the document.
	ClusterID string `json:"clusterID,omitempty"`
	// Source says where the pod routes are read.
	Source Source `json:"source,omitempty"`
	// RouteTableID is the cluster's route table. Empty: discovered.
	RouteTableID string `json:"routeTableID,omitempty"`
	// PodCIDRs narrows the cluster's pod CIDRs: only routes inside both are changed. Empty: the
	// cluster's pod CIDRs.
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	Guard    Guard    `json:"guard,omitzero"`
	Targets  []Target `json:"targets,omitempty"`
	Egress   Egress   `json:"egress,omitzero"`
	// OnRemoval says what happens to the cluster's routes in the targets once the cluster is gone
	// from Azure, or a person removes this document from the config of a running keeper.
	OnRemoval OnRemoval `json:"onRemoval,omitempty"`
	// Pause stops all changes for the cluster until a time. Nil: none.
	Pause *Pause `json:"pause,omitempty"`
}

// Pause says until when nothing is changed for a cluster, why, and who wants it.
type Pause struct {
	Until  string `json:"until"` // RFC 3339
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
}

// OnRemoval is what happens to routes whose cluster or config is gone.
type OnRemoval string

// RemovalKeep leaves them, with a finding; RemovalPrune deletes them from targets of policy Sync.
const (
	RemovalKeep  OnRemoval = "Keep"
	RemovalPrune OnRemoval = "Prune"
)

// Source is where the pod routes are read.
type Source string

// RouteTable reads them from the cluster's table, Nodes from the nodes in its Kubernetes API.
const (
	SourceRouteTable Source = "RouteTable"
	SourceNodes      Source = "Nodes"
)

// Guard says what to do if a subnet loses what it must have. The node subnets of a kubenet cluster
// must have its route table.
type Guard struct {
	Mode GuardMode `json:"mode,omitempty"`
	// OnOtherTable says what to do if a subnet has another table, NAT gateway or network security
	// group than it should have.
	OnOtherTable OnOtherTable `json:"onOtherTable,omitempty"`
	// SecurityGroups says whether a lost network security group is put back, unless Mode says less.
	// Its rules may have changed meanwhile, so it is Observe until the config says Enforce.
	SecurityGroups GuardMode `json:"securityGroups,omitempty"`
	// Subnets are more subnets to guard: a redeploy strips them together with the node subnets.
	Subnets []GuardedSubnet `json:"subnets,omitempty"`
}

// OfGroups returns what the guard does about network security groups.
func (g Guard) OfGroups() GuardMode {
	if g.Mode == GuardEnforce && g.SecurityGroups != GuardEnforce {
		return GuardObserve
	}
	return g.Mode
}

// GuardMode is what the guard does.
type GuardMode string

// Enforce puts back what is lost, Observe reports it, Off does not check.
const (
	GuardEnforce GuardMode = "Enforce"
	GuardObserve GuardMode = "Observe"
	GuardOff     GuardMode = "Off"
)

// OnOtherTable is what the guard does about another table, NAT gateway or group on a subnet.
type OnOtherTable string

// Report adds a finding, Replace puts the required one in its place.
const (
	OtherTableReport  OnOtherTable = "Report"
	OtherTableReplace OnOtherTable = "Replace"
)

// GuardedSubnet is a subnet with what it must have: at least one of the three.
type GuardedSubnet struct {
	SubnetID               string `json:"subnetID"`
	RouteTableID           string `json:"routeTableID,omitempty"`
	NATGatewayID           string `json:"natGatewayID,omitempty"`
	NetworkSecurityGroupID string `json:"networkSecurityGroupID,omitempty"`
}

// Target is a route table to copy the pod routes into.
type Target struct {
	RouteTableID string `json:"routeTableID"`
	Policy       Policy `json:"policy,omitempty"`
	// MaxRoutes is the largest number of routes in the table, 1 to 1000. 0: 400, Azure's limit if
	// Azure Virtual Network Manager does not manage the routes.
	MaxRoutes int `json:"maxRoutes,omitempty"`
}

// Policy is what may be done to a target.
type Policy string

// Sync adds, changes and deletes the cluster's routes, UpsertOnly never deletes, Observe only
// reports.
const (
	PolicySync       Policy = "Sync"
	PolicyUpsertOnly Policy = "UpsertOnly"
	PolicyObserve    Policy = "Observe"
)

// Egress is the routes by which the cluster's packets leave its network, such as 0.0.0.0/0 to a
// firewall, in a table that no cloud provider writes. It is zero if the config declares none.
type Egress struct {
	RouteTableID string `json:"routeTableID"`
	// Mode is Enforce or Observe.
	Mode GuardMode `json:"mode,omitempty"`
	// FirewallID is the Azure Firewall, or the load balancer in front of the appliances, or one of
	// its front ends, to which the routes lead. Empty: another appliance.
	FirewallID string        `json:"firewallID,omitempty"`
	Routes     []EgressRoute `json:"routes"`
}

// EgressRoute is a route that packets must take.
type EgressRoute struct {
	// Name is the name that the route gets if the table lacks the route. Empty: egress-PREFIX.
	Name          string  `json:"name,omitempty"`
	AddressPrefix string  `json:"addressPrefix"`
	NextHopType   HopType `json:"nextHopType,omitempty"`
	// NextHopIPAddress is the address of the appliance, and empty for every other type.
	NextHopIPAddress string `json:"nextHopIPAddress,omitempty"`
}

// HopType is a kind of next hop, as Azure spells it.
type HopType string

// The kinds of next hop that an egress route can have.
const (
	HopAppliance HopType = "VirtualAppliance"
	HopGateway   HopType = "VirtualNetworkGateway"
	HopInternet  HopType = "Internet"
	HopNone      HopType = "None"
)

// Leads returns the route's destination and next hop; each is invalid if its text is.
func (r EgressRoute) Leads() (to netip.Prefix, hop netip.Addr) {
	to, _ = netip.ParsePrefix(r.AddressPrefix)
	hop, _ = netip.ParseAddr(r.NextHopIPAddress)
	return to, hop
}

// NoCluster begins the ClusterID of a document without a cluster; its name follows. No resource ID
// begins like this.
const NoCluster = "/documents/"

// Clusterless reports whether the document has no cluster.
func (c *ClusterRoutes) Clusterless() bool {
	return c.Spec.ClusterID == "" || strings.HasPrefix(c.Spec.ClusterID, NoCluster)
}

// SetDefaults sets fields that the config leaves out.
func (c *ClusterRoutes) SetDefaults() {
	s := &c.Spec
	fill(&s.ClusterID, NoCluster+c.Metadata.Name)
	fill(&s.Source, SourceRouteTable)
	fill(&s.OnRemoval, RemovalKeep)
	fill(&s.Guard.Mode, GuardEnforce)
	fill(&s.Guard.OnOtherTable, OtherTableReport)
	fill(&s.Guard.SecurityGroups, GuardObserve)
	if s.Egress.RouteTableID != "" {
		fill(&s.Egress.Mode, GuardObserve)
	}
	for i := range s.Egress.Routes {
		fill(&s.Egress.Routes[i].NextHopType, HopAppliance)
	}
	for i := range s.Targets {
		fill(&s.Targets[i].Policy, PolicySync)
		fill(&s.Targets[i].MaxRoutes, 400)
	}
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

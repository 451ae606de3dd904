// Package v1alpha1 is the configuration: one kind, ClusterRoutes, that says for one AKS cluster which associations to
// guard and into which route tables to copy its pod routes. The same structs are read from a YAML file and, later, from
// the Kubernetes API.
//
// Plain structs, defaults and rules only: it must not read files or know what is in Azure.
package v1alpha1

// APIVersion and Kind are what a document must say at its head.
const (
	APIVersion = "routekeeper.dev/v1alpha1"
	Kind       = "ClusterRoutes"
)

// ClusterRoutes keeps the pod routes of one cluster true.
type ClusterRoutes struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
}

// Metadata names the object.
type Metadata struct {
	Name string `json:"name"`
}

// Spec is what is to be true.
type Spec struct {
	// ClusterID is the resource ID of the managed cluster.
	ClusterID string `json:"clusterID"`
	// Source says where the pod routes are read.
	Source Source `json:"source,omitempty"`
	// RouteTableID is the cluster's own route table. Empty: discovered.
	RouteTableID string `json:"routeTableID,omitempty"`
	// PodCIDRs narrows the cluster's pod CIDRs: only routes inside both are touched. Empty: what the cluster says.
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	Guard    Guard    `json:"guard,omitzero"`
	Targets  []Target `json:"targets,omitempty"`
	// OnRemoval says what becomes of the cluster's routes in the targets once the cluster is gone from
	// Azure, or a person removes this document from the config of a running keeper.
	OnRemoval OnRemoval `json:"onRemoval,omitempty"`
}

// OnRemoval is what becomes of routes whose cluster or config is gone.
type OnRemoval string

// RemovalKeep leaves them, with a finding; RemovalPrune deletes them from targets of policy Sync.
const (
	RemovalKeep  OnRemoval = "Keep"
	RemovalPrune OnRemoval = "Prune"
)

// Source is where the pod routes are read.
type Source string

// RouteTable reads them from the cluster's table, Nodes from the Kubernetes API.
const (
	SourceRouteTable Source = "RouteTable"
	SourceNodes      Source = "Nodes"
)

// Guard says what to do about the node subnets' association with the cluster's table.
type Guard struct {
	Mode GuardMode `json:"mode,omitempty"`
	// OnOtherTable says what to do when a subnet has a table that is not the one it should have.
	OnOtherTable OnOtherTable `json:"onOtherTable,omitempty"`
	// Subnets are further associations to keep: the same redeploy strips them too.
	Subnets []GuardedSubnet `json:"subnets,omitempty"`
}

// GuardMode is what the guard does.
type GuardMode string

// Enforce puts a lost association back, Observe reports it, Off does not look.
const (
	GuardEnforce GuardMode = "Enforce"
	GuardObserve GuardMode = "Observe"
	GuardOff     GuardMode = "Off"
)

// OnOtherTable is what the guard does about a foreign table.
type OnOtherTable string

// Report makes a finding, Replace puts the right table in its place.
const (
	OtherTableReport  OnOtherTable = "Report"
	OtherTableReplace OnOtherTable = "Replace"
)

// GuardedSubnet is an association to keep.
type GuardedSubnet struct {
	SubnetID     string `json:"subnetID"`
	RouteTableID string `json:"routeTableID"`
}

// Target is a route table to copy the pod routes into.
type Target struct {
	RouteTableID string `json:"routeTableID"`
	Policy       Policy `json:"policy,omitempty"`
	// MaxRoutes is how many routes the table may hold, 1 to 1000. 0: 400, Azure's limit where Azure Virtual Network
	// Manager does not manage the routes.
	MaxRoutes int `json:"maxRoutes,omitempty"`
}

// Policy is what may be done to a target.
type Policy string

// Sync adds, changes and deletes the cluster's routes, UpsertOnly never deletes, Observe only reports.
const (
	PolicySync       Policy = "Sync"
	PolicyUpsertOnly Policy = "UpsertOnly"
	PolicyObserve    Policy = "Observe"
)

// SetDefaults fills in what the config leaves out.
func (c *ClusterRoutes) SetDefaults() {
	s := &c.Spec
	fill(&s.Source, SourceRouteTable)
	fill(&s.OnRemoval, RemovalKeep)
	fill(&s.Guard.Mode, GuardEnforce)
	fill(&s.Guard.OnOtherTable, OtherTableReport)
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

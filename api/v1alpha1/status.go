package v1alpha1

import _ "embed"

// CRD is the CustomResourceDefinition of ClusterRoutes, for kubectl apply. It is generated from
// Schema and StatusSchema: go test ./api/v1alpha1 -update.
//
//go:embed clusterroutes.crd.yaml
var CRD []byte

// StatusSchema is the JSON Schema of Status.
//
//go:embed clusterroutes.status.json
var StatusSchema []byte

// Finalizer holds a deleted ClusterRoutes object until its routes are deleted (onRemoval: Prune).
const Finalizer = "routekeeper.dev/removal"

// Status is what the controller last saw of a cluster and did for it.
type Status struct {
	ObservedGeneration int64          `json:"observedGeneration,omitempty"`
	Conditions         []Condition    `json:"conditions,omitempty"`
	Targets            []TargetStatus `json:"targets,omitempty"`
	// Routes are the counts of all targets: correct/expected.
	Routes     string  `json:"routes,omitempty"`
	LastChange *Change `json:"lastChange,omitempty"`
	LastError  string  `json:"lastError,omitempty"`
	// Controller is the controller that manages the cluster, or else the one that first saw the
	// object: NAMESPACE/LEASE. Others leave the object alone.
	Controller string `json:"controller,omitempty"`
}

// Condition is a condition as Kubernetes objects have it (metav1.Condition).
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"` // True, False or Unknown
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
}

// LeaseName is the name of the Lease of a namespace's controllers.
const LeaseName = "routekeeper"

// The types of conditions.
const (
	ConditionReady   = "Ready"   // packets arrive, as declared; the reason is the state
	ConditionSynced  = "Synced"  // the targets have the cluster's pod routes
	ConditionGuarded = "Guarded" // the subnets have their tables, and the controller defends that
)

// TargetStatus counts the cluster's pod routes in one target.
type TargetStatus struct {
	RouteTableID string `json:"routeTableID"`
	Expected     int    `json:"expected"`
	Correct      int    `json:"correct"`
	// Stale is how many routes lead to nodes that the cluster's route table no longer has.
	Stale int `json:"stale"`
}

// Change is something that the controller changed in Azure.
type Change struct {
	Time    string `json:"time"`
	Message string `json:"message"`
}

package v1alpha1

// KindCluster is the kind of a document that describes a cluster.
const KindCluster = "Cluster"

// Defaults of a Cluster.
const (
	DefaultVMSize          = "Standard_D4s_v5"
	DefaultNodes           = 3
	DefaultGatewayCapacity = 10
)

// Cluster describes an AKS cluster to create, with its own network or in an existing one.
type Cluster struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   Metadata    `json:"metadata"`
	Spec       ClusterSpec `json:"spec"`
}

// ClusterSpec is the desired cluster. Addresses are texts, as in the flags; package build parses
// them.
type ClusterSpec struct {
	// Subscription is a GUID. ResourceGroup defaults to the cluster's name with -rg.
	Subscription  string `json:"subscription"`
	ResourceGroup string `json:"resourceGroup,omitempty"`
	Location      string `json:"location"`
	// Blueprint is how pods get addresses.
	Blueprint string `json:"blueprint"`
	// KubernetesVersion defaults to AKS's.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// AddressSpace is the network's. Missing subnets are allocated from it.
	AddressSpace  []string `json:"addressSpace,omitempty"`
	NodeSubnet    string   `json:"nodeSubnet,omitempty"`
	PodSubnet     string   `json:"podSubnet,omitempty"`
	GatewaySubnet string   `json:"gatewaySubnet,omitempty"`
	// VNetSubnetID is the node subnet in an existing network. PodSubnetID and AppGwSubnetID are
	// subnets in the same network; if missing, they are created there.
	VNetSubnetID  string `json:"vnetSubnetID,omitempty"`
	PodSubnetID   string `json:"podSubnetID,omitempty"`
	AppGwSubnetID string `json:"appgwSubnetID,omitempty"`
	// PodCIDR is where pods of kubenet and overlay get addresses.
	PodCIDR     string `json:"podCIDR,omitempty"`
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
	// Pools are the node pools. The first is the system pool.
	Pools []Pool `json:"pools,omitempty"`
	// NetworkPolicy is azure, calico or cilium.
	NetworkPolicy string `json:"networkPolicy,omitempty"`
	// Egress is the address of a firewall as the next hop of 0.0.0.0/0.
	Egress string `json:"egress,omitempty"`
	// Private keeps the API server off the internet.
	Private            bool                `json:"private,omitempty"`
	ApplicationGateway *ApplicationGateway `json:"applicationGateway,omitempty"`
	// BuiltInRoles assigns Network Contributor instead of a custom role.
	BuiltInRoles bool `json:"builtInRoles,omitempty"`
}

// Pool is a node pool.
type Pool struct {
	Name   string `json:"name"`
	VMSize string `json:"vmSize,omitempty"`
	// Count is the number of nodes; the initial number if the autoscaler has limits.
	Count    int `json:"count,omitempty"`
	MinCount int `json:"minCount,omitempty"`
	MaxCount int `json:"maxCount,omitempty"`
	// MaxPods defaults to the blueprint's.
	MaxPods int      `json:"maxPods,omitempty"`
	Zones   []string `json:"zones,omitempty"`
}

// ApplicationGateway is an Application Gateway with AKS's add-on for it, and its autoscale limits.
type ApplicationGateway struct {
	MinCapacity *int `json:"minCapacity,omitempty"` // can be 0
	MaxCapacity int  `json:"maxCapacity,omitempty"`
}

// SetDefaults sets fields that the document leaves out.
func (c *Cluster) SetDefaults() {
	s := &c.Spec
	if len(s.Pools) == 0 {
		s.Pools = []Pool{{Name: "system"}}
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		fill(&p.VMSize, DefaultVMSize)
		fill(&p.Count, p.MinCount) // the autoscaler starts there
		fill(&p.Count, DefaultNodes)
	}
	if g := s.ApplicationGateway; g != nil {
		fill(&g.MinCapacity, new(int))
		fill(&g.MaxCapacity, DefaultGatewayCapacity)
	}
}

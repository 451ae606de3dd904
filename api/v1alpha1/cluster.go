package v1alpha1

// KindCluster is what a document that describes a cluster says.
const KindCluster = "Cluster"

// What a Cluster has where nothing else is said.
const (
	DefaultVMSize          = "Standard_D4s_v5"
	DefaultNodes           = 3
	DefaultGatewayCapacity = 10
)

// Cluster describes an AKS cluster to be built, with a network of its own or in an existing one.
type Cluster struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Metadata   Metadata    `json:"metadata"`
	Spec       ClusterSpec `json:"spec"`
}

// ClusterSpec is what the cluster should be. Addresses are texts, as in the flags; package build
// reads them.
type ClusterSpec struct {
	// Subscription is a GUID, ResourceGroup by default the cluster's name with -rg.
	Subscription  string `json:"subscription"`
	ResourceGroup string `json:"resourceGroup,omitempty"`
	Location      string `json:"location"`
	// Blueprint is how pods get addresses.
	Blueprint string `json:"blueprint"`
	// KubernetesVersion is AKS's default where it is left out.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// AddressSpace is the network's. Subnets in it that are left out are laid out.
	AddressSpace  []string `json:"addressSpace,omitempty"`
	NodeSubnet    string   `json:"nodeSubnet,omitempty"`
	PodSubnet     string   `json:"podSubnet,omitempty"`
	GatewaySubnet string   `json:"gatewaySubnet,omitempty"`
	// VNetSubnetID is the node subnet in an existing network. PodSubnetID and AppGwSubnetID are
	// subnets in the same network; left out, they are made there.
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
	// Egress is the address of a firewall that 0.0.0.0/0 leads to.
	Egress string `json:"egress,omitempty"`
	// Private keeps the API server off the internet.
	Private            bool                `json:"private,omitempty"`
	ApplicationGateway *ApplicationGateway `json:"applicationGateway,omitempty"`
	// BuiltInRoles takes Network Contributor in place of a custom role.
	BuiltInRoles bool `json:"builtInRoles,omitempty"`
}

// Pool is a node pool.
type Pool struct {
	Name   string `json:"name"`
	VMSize string `json:"vmSize,omitempty"`
	// Count is how many nodes there are, or at first are where the autoscaler has limits.
	Count    int `json:"count,omitempty"`
	MinCount int `json:"minCount,omitempty"`
	MaxCount int `json:"maxCount,omitempty"`
	// MaxPods is the blueprint's default where it is left out.
	MaxPods int      `json:"maxPods,omitempty"`
	Zones   []string `json:"zones,omitempty"`
}

// ApplicationGateway is an Application Gateway with AKS's add-on for it, and its autoscale limits.
type ApplicationGateway struct {
	MinCapacity *int `json:"minCapacity,omitempty"` // can be 0
	MaxCapacity int  `json:"maxCapacity,omitempty"`
}

// SetDefaults fills in what the document leaves out.
func (c *Cluster) SetDefaults() {
	s := &c.Spec
	if len(s.Pools) == 0 {
		s.Pools = []Pool{{Name: "system"}}
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		fill(&p.VMSize, DefaultVMSize)
		fill(&p.Count, p.MinCount) // where the autoscaler begins
		fill(&p.Count, DefaultNodes)
	}
	if g := s.ApplicationGateway; g != nil {
		fill(&g.MinCapacity, new(int))
		fill(&g.MaxCapacity, DefaultGatewayCapacity)
	}
}

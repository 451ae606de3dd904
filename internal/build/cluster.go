package build

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Cluster describes an AKS cluster to build in a new or in an existing network.
type Cluster struct {
	// Name is the cluster's name, and the prefix of all other names. Group is the resource group,
	// by default Name-rg; Subscription is a GUID.
	Name         string `json:"name"`
	Subscription string `json:"subscription"`
	Group        string `json:"resourceGroup"`
	Location     string `json:"location"`
	// Blueprint is how pods get addresses.
	Blueprint capacity.Plugin `json:"blueprint"`
	// Version is the Kubernetes version, "" for AKS's default.
	Version string `json:"kubernetesVersion,omitempty"`
	// Space is the network's address space. Nodes, Pods (of pod-subnet and pod-subnet-static) and
	// Gateway are subnets in it; missing ones are chosen.
	Space   []netip.Prefix `json:"addressSpace"`
	Nodes   netip.Prefix   `json:"nodeSubnet"`
	Pods    netip.Prefix   `json:"podSubnet,omitzero"`
	Gateway netip.Prefix   `json:"gatewaySubnet,omitzero"`
	// PodCIDR is the range for pods of kubenet and overlay, Services the range for services.
	PodCIDR  netip.Prefix `json:"podCIDR,omitzero"`
	Services netip.Prefix `json:"serviceCIDR"`
	// Existing is nil if the network is made. Otherwise Use takes Space and the prefixes of the
	// subnets from that network.
	Existing *Existing `json:"existing,omitempty"`
	Pools    []Pool    `json:"pools"`
	// NetworkPolicy is azure, calico, cilium or "" for none.
	NetworkPolicy string `json:"networkPolicy,omitempty"`
	// Egress is the firewall that gets 0.0.0.0/0; zero: the cluster's load balancer.
	Egress netip.Addr `json:"egress,omitzero"`
	// Private keeps the API server off the internet.
	Private bool `json:"private,omitempty"`
	// ApplicationGateway is nil for none.
	ApplicationGateway *Gateway `json:"applicationGateway,omitempty"`
	// BuiltInRoles gives the cluster's identity Network Contributor instead of a custom role,
	// because not every login may define roles.
	BuiltInRoles bool `json:"builtInRoles,omitempty"`
}

// Pool is a node pool. The first is the system pool.
type Pool struct {
	Name   string `json:"name"`
	VMSize string `json:"vmSize"`
	// Count is the number of nodes. If Most is more than 0, Least and Most are the autoscaler's
	// limits, and Count is the initial number.
	Count int `json:"count"`
	Least int `json:"minCount,omitempty"`
	Most  int `json:"maxCount,omitempty"`
	// MaxPods is the number of pods per node, 0 for the blueprint's default.
	MaxPods int      `json:"maxPods,omitempty"`
	Zones   []string `json:"zones,omitempty"`
}

// most returns the largest number of nodes of a pool.
func (p Pool) most() int { return max(p.Count, p.Most) }

// Gateway is an Application Gateway v2 with AKS's add-on for it. Least and Most are its autoscale
// limits.
type Gateway struct {
	Least int `json:"minCapacity"`
	Most  int `json:"maxCapacity"`
}

var (
	nameShape     = lazy.Regexp(`^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$`)
	groupShape    = lazy.Regexp(`^[\pL\pN_().-]{0,89}[\pL\pN_()-]$`)
	locationShape = lazy.Regexp(`^[a-z][a-z0-9]{2,29}$`)
	poolShape     = lazy.Regexp(`^[a-z][a-z0-9]{0,11}$`) // of Linux pools (AKS)
	sizeShape     = lazy.Regexp(`^[A-Za-z][A-Za-z0-9_-]{1,60}$`)
	versionShape  = lazy.Regexp(`^1\.[0-9]{1,3}(\.[0-9]{1,3})?$`)
)

// mostGateway is the largest number of instances of an Application Gateway v2
// (application-gateway-autoscaling).
const mostGateway = 125

// Complete fills in defaults, and refuses what cannot be built. For an existing network, Use does
// the rest. The error is an *Error.
func (c Cluster) Complete() (Cluster, error) {
	if c.Group == "" {
		c.Group = c.Name + "-rg"
	}
	for _, check := range []func(*Cluster) error{checkNames, checkPlace, checkPools, checkOptions} {
		if err := check(&c); err != nil {
			return c, err
		}
	}
	if c.Existing != nil {
		return c, checkExisting(&c)
	}
	if err := choosePrefixes(&c, nil, nil); err != nil {
		return c, err
	}
	return c, fits(&c)
}

func checkNames(c *Cluster) error {
	switch {
	case !nameShape().MatchString(c.Name):
		return wrong("name", "%q is not a cluster name, expected up to 30 lower-case letters, "+
			"digits and hyphens", c.Name)
	case c.Subscription == "":
		return wrong("subscription", "missing, expected a subscription ID")
	// no braces, no urn:uuid:
	case len(c.Subscription) != 36 || uuid.Validate(c.Subscription) != nil:
		return wrong("subscription", "%q is not a subscription ID, expected one such as "+
			"11111111-1111-1111-1111-111111111111", c.Subscription)
	case !groupShape().MatchString(c.Group):
		return wrong("resourceGroup", "%q is not a resource group name", c.Group)
	}
	return nil
}

func checkPlace(c *Cluster) error {
	switch {
	case !locationShape().MatchString(c.Location):
		return wrong(fieldLocation, "%q is not a location, expected one such as westeurope",
			c.Location)
	case c.Version != "" && !versionShape().MatchString(c.Version):
		return wrong("kubernetesVersion", "%q is not a version, expected one such as 1.33",
			c.Version)
	}
	if _, err := capacity.ParsePlugin(string(c.Blueprint)); err != nil {
		return wrong("blueprint", "%v", err)
	}
	return nil
}

func checkPools(c *Cluster) error {
	if len(c.Pools) == 0 {
		return wrong("pools", "no pool, expected at least one")
	}
	for i := range c.Pools {
		p := &c.Pools[i]
		if p.MaxPods == 0 {
			p.MaxPods = c.Blueprint.DefaultMaxPods()
		}
		if field, fault := p.check(c.Pools[:i]); fault != "" {
			return wrong(poolField(i, field), "pool %q: %s", p.Name, fault)
		}
	}
	return nil
}

// check says which field of a pool is wrong; before are the earlier pools.
func (p Pool) check(before []Pool) (field, fault string) {
	same := func(o Pool) bool { return o.Name == p.Name }
	unknown := func(z string) bool { return z != "1" && z != "2" && z != "3" }
	switch {
	case !poolShape().MatchString(p.Name):
		return "name", "a pool's name has up to 12 lower-case letters and digits"
	case slices.ContainsFunc(before, same):
		return "name", "two pools have this name"
	case !sizeShape().MatchString(p.VMSize):
		return "vmSize", fmt.Sprintf("%q is not a VM size, expected one such as Standard_D4s_v5",
			p.VMSize)
	case p.Count < 1 || p.Count > 1000:
		return "count", fmt.Sprintf("%d nodes, expected 1 to 1000", p.Count)
	case p.Most == 0 && p.Least != 0:
		return "minCount", "a minimum without a maximum, expected both"
	case p.Most != 0 && (p.Least < 1 || p.Least > p.Count || p.Most < p.Count || p.Most > 1000):
		return "maxCount", fmt.Sprintf("autoscaling from %d to %d with %d nodes, expected "+
			"1 <= min <= count <= max <= 1000", p.Least, p.Most, p.Count)
	case p.MaxPods < capacity.LeastMaxPods || p.MaxPods > capacity.MostMaxPods:
		return "maxPods", fmt.Sprintf("maxPods %d, expected %d to %d", p.MaxPods,
			capacity.LeastMaxPods, capacity.MostMaxPods)
	case slices.ContainsFunc(p.Zones, unknown):
		return "zones", fmt.Sprintf("zones %s, expected some of 1, 2 and 3",
			strings.Join(p.Zones, " "))
	}
	return "", ""
}

func checkOptions(c *Cluster) error {
	const policy Field = "networkPolicy"
	cilium, g := c.NetworkPolicy == "cilium", c.ApplicationGateway
	switch {
	case !slices.Contains([]string{"", "azure", "calico", "cilium"}, c.NetworkPolicy):
		return wrong(policy, "unknown engine %q, expected azure, calico or cilium", c.NetworkPolicy)
	case c.Blueprint == capacity.Kubenet && (c.NetworkPolicy == "azure" || cilium):
		return wrong(policy, "kubenet has no %s, expected calico", c.NetworkPolicy)
	case cilium && c.Blueprint == capacity.NodeSubnet:
		return wrong(policy, "cilium needs overlay or a pod subnet")
	case g != nil && (g.Least < 0 || g.Most < max(1, g.Least) || g.Most > mostGateway):
		return wrong("applicationGateway.maxCapacity", "%d to %d, expected 0 <= min <= max <= %d",
			g.Least, g.Most, mostGateway)
	}
	return nil
}

// HasTable reports whether the node subnet has a route table: kubenet's, or one for the firewall.
func (c Cluster) HasTable() bool { return c.Blueprint == capacity.Kubenet || c.Egress.IsValid() }

// HasPodSubnet reports whether pods have their own subnet.
func (c Cluster) HasPodSubnet() bool {
	return c.Blueprint == capacity.PodSubnet || c.Blueprint == capacity.PodSubnetStatic
}

// hasPodCIDR reports whether pods have addresses outside of the network.
func (c Cluster) hasPodCIDR() bool {
	return c.Blueprint == capacity.Kubenet || c.Blueprint == capacity.Overlay
}

// HasGatewayTable reports whether the gateway's subnet has its own route table, because it needs
// pod routes.
func (c Cluster) HasGatewayTable() bool {
	return c.ApplicationGateway != nil && c.Blueprint == capacity.Kubenet
}

// The IDs of a cluster's resources.

func (c Cluster) id(resourceType, suffix string) arm.ID {
	return arm.ResourceID(c.Subscription, c.Group, resourceType, c.Name+suffix)
}

// ClusterID returns the managed cluster.
func (c Cluster) ClusterID() arm.ID { return c.id(arm.TypeCluster, "") }

// GroupID returns the resource group of everything except what AKS makes itself.
func (c Cluster) GroupID() arm.ID { return arm.GroupID(c.Subscription, c.Group) }

// NodeTableID and GatewayTableID are the route tables.
func (c Cluster) NodeTableID() arm.ID { return cmp.Or(c.existing().NodeTable, c.ownNodeTable()) }

func (c Cluster) GatewayTableID() arm.ID {
	return cmp.Or(c.existing().GatewayTable, c.ownGatewayTable())
}

// ownNodeTable and ownGatewayTable are the tables that are made if there is no existing one.
func (c Cluster) ownNodeTable() arm.ID    { return c.id(arm.TypeRouteTable, "-nodes-rt") }
func (c Cluster) ownGatewayTable() arm.ID { return c.id(arm.TypeRouteTable, "-gateway-rt") }

// VNetID returns the virtual network.
func (c Cluster) VNetID() arm.ID {
	if c.Existing != nil {
		return c.Existing.Nodes.Parent()
	}
	return c.id(arm.TypeVNet, "-vnet")
}

// NodeSubnetID, PodSubnetID and GatewaySubnetID are its subnets.
func (c Cluster) NodeSubnetID() arm.ID { return cmp.Or(c.existing().Nodes, c.madeSubnet("nodes")) }
func (c Cluster) PodSubnetID() arm.ID  { return cmp.Or(c.existing().Pods, c.madeSubnet("pods")) }
func (c Cluster) GatewaySubnetID() arm.ID {
	return cmp.Or(c.existing().Gateway, c.madeSubnet("gateway"))
}

// existing returns the existing subnets and tables, none if the network is made.
func (c Cluster) existing() Existing {
	if c.Existing == nil {
		return Existing{}
	}
	return *c.Existing
}

// madeSubnet returns a new subnet. Subnets have no tags: in an existing network the name shows the
// owner, and no other program gives such names.
func (c Cluster) madeSubnet(name string) arm.ID {
	if c.Existing != nil {
		name = c.Name + "-" + name + "-" + c.GUID("subnet " + name)[:8]
	}
	return c.VNetID().Child("subnets", name)
}

// IdentityID returns the cluster's user-assigned identity.
func (c Cluster) IdentityID() arm.ID { return c.id(arm.TypeIdentity, "-cluster") }

// GatewayID returns the Application Gateway, AddressID its public address.
func (c Cluster) GatewayID() arm.ID { return c.id(arm.TypeGateway, "-gateway") }
func (c Cluster) AddressID() arm.ID { return c.id(arm.TypePublicIP, "-gateway-ip") }

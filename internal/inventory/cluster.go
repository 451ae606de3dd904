package inventory

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Cluster is an AKS cluster as ARM describes it.
type Cluster struct {
	arm.Document
	NodeResourceGroup string // the group's name; its subscription is the cluster's
	Plugin            string // networkPlugin in ARM: kubenet, azure, none
	PluginMode        string // overlay, or ""
	PodCIDRs          []netip.Prefix
	ServiceCIDRs      []netip.Prefix
	// Policy is the network policy engine (calico, azure, cilium) or none. Dataplane is cilium or
	// azure. Outbound is how nodes reach the internet: loadBalancer, userDefinedRouting,
	// managedNATGateway, userAssignedNATGateway, none. Each is "" if the document does not say.
	Policy, Dataplane, Outbound string
	// Locked is set if the node resource group is locked down
	// (nodeResourceGroupProfile.restrictionLevel ReadOnly).
	Locked bool
	// Stopped is set if the cluster is stopped. It then has no nodes, even if its pools count some.
	Stopped bool
	// Deleting is set if the cluster is being deleted, Updating if another operation changes it.
	Deleting, Updating bool
	// Migrating is set while the cluster moves from kubenet to overlay: see Leaving.
	Migrating bool
	// Addons are the add-ons that are on, in lower case, sorted.
	Addons []string
	// Defender, Metrics and CostAnalysis are set if Microsoft Defender for Containers, the managed
	// service for Prometheus and the cost analysis add-on are on.
	Defender, Metrics, CostAnalysis bool
	// IngressAddon is set if the ingress add-on (AGIC) is on. Ingress is the Application Gateway
	// that it manages, or "". IngressAsked is the gateway that its settings name. IngressPrincipal
	// is the object ID of its identity, in lower case.
	IngressAddon          bool
	Ingress, IngressAsked arm.ID
	IngressPrincipal      string
	// Version is the version of Kubernetes.
	Version string
	// PrivateZone is the private DNS zone of a private cluster's API server: the zone's ID, system
	// or none; "" if the document does not say.
	PrivateZone string
	// APISubnet is the subnet of the API server with API server VNet integration, or "".
	APISubnet arm.ID
	// AutoProvisioned is set if node auto-provisioning creates nodes.
	AutoProvisioned bool
	// Hosts are the names of its API server, in lower case: the public one, the private one, or
	// both.
	Hosts []string
	Pools []Pool
	// Principals are the names that the activity log may use for the cluster's identity: object,
	// client and resource IDs, in lower case.
	Principals []string
	// PrincipalIDs are the object IDs of the identity that acts on the network, in lower case. Role
	// assignments name these IDs.
	PrincipalIDs []string
	// Identity is the type of its identity: SystemAssigned, UserAssigned, or "" for a service
	// principal.
	Identity string
}

// PodSubnets returns the pod subnets of the pools, each once, sorted.
func (c *Cluster) PodSubnets() []arm.ID {
	var ids []arm.ID
	for _, pool := range c.Pools {
		if pool.PodSubnet != "" {
			ids = append(ids, pool.PodSubnet)
		}
	}
	return SortIDs(ids)
}

// Kubenet reports whether the cluster's pods are reached through a route table.
func (c *Cluster) Kubenet() bool { return strings.EqualFold(c.Plugin, "kubenet") }

// Leaving returns the cluster as it works while it leaves kubenet. before is its document from
// before the operation. The new document names overlay from the start of the operation, but nodes
// need their routes until each has moved. Without before, Leaving assumes that a cluster which may
// be leaving kubenet does; its route table shows whether this is true. Any other cluster is
// returned unchanged.
func (c *Cluster) Leaving(before *Cluster) *Cluster {
	if before != nil && !before.Kubenet() || !c.MayLeave() {
		return c
	}
	return c.withPlugin("kubenet", "", true)
}

// withPlugin returns the cluster with another network plugin.
func (c *Cluster) withPlugin(plugin, mode string, migrating bool) *Cluster {
	other := *c
	other.Plugin, other.PluginMode, other.Migrating = plugin, mode, migrating
	return &other
}

// MayLeave reports whether the document looks like that of a cluster that is moving from kubenet to
// overlay. Other operations on an overlay cluster look the same.
func (c *Cluster) MayLeave() bool { return c.Migrating || c.Overlay() && c.Updating }

// Left returns a migrating cluster as it works once it has left kubenet.
func (c *Cluster) Left() *Cluster { return c.withPlugin("azure", "overlay", false) }

// Mixed returns the cluster as it works while only some of its nodes have moved to overlay: all
// pods still need the routes. Any other cluster is returned unchanged.
func (c *Cluster) Mixed(nodes []Node) *Cluster {
	stays := func(n Node) bool { return !n.Overlay }
	if !c.MayLeave() || !slices.ContainsFunc(nodes, stays) {
		return c
	}
	return c.withPlugin("kubenet", "", true)
}

// Overlay reports whether the cluster uses Azure CNI Overlay.
func (c *Cluster) Overlay() bool {
	return strings.EqualFold(c.Plugin, "azure") && strings.EqualFold(c.PluginMode, "overlay")
}

// PodsInSubnets reports whether pods get addresses of node subnets or pod subnets: Azure CNI
// without overlay.
func (c *Cluster) PodsInSubnets() bool {
	return strings.EqualFold(c.Plugin, "azure") && !c.Overlay()
}

// PluginName returns the network plugin as the command line names it. With Azure CNI, pools with
// and without a pod subnet have different names; if pools differ, it returns all names.
func (c *Cluster) PluginName() string {
	if len(c.Pools) == 0 {
		return c.PluginOf(Pool{})
	}
	var names []string
	for _, pool := range c.Pools {
		names = append(names, c.PluginOf(pool))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " and ")
}

// PluginOf returns the network plugin of a pool as the command line names it.
func (c *Cluster) PluginOf(pool Pool) string {
	switch {
	case c.Overlay():
		return "overlay"
	case c.PodsInSubnets() && pool.PodSubnet != "" && pool.StaticBlocks:
		return "pod-subnet-static"
	case c.PodsInSubnets() && pool.PodSubnet != "":
		return "pod-subnet"
	case c.PodsInSubnets():
		return "node-subnet"
	case c.Plugin == "":
		return "none"
	}
	return strings.ToLower(c.Plugin)
}

// Serves reports whether a host is the cluster's API server.
func (c *Cluster) Serves(host string) bool {
	return slices.Contains(c.Hosts, strings.ToLower(host))
}

// Holds searches nodes for the cluster's machines. told is set if any node names its machine, and
// ours if such a machine is in the cluster's node resource group. So nodes of another cluster are
// recognized, wherever they were read.
func (c *Cluster) Holds(nodes []Node) (ours, told bool) {
	for _, n := range nodes {
		group := n.Machine().Group()
		told = told || group != ""
		if group != "" && c.NodeResourceGroup != "" && group.Equal(c.NodeGroup()) {
			return true, true
		}
	}
	return false, told
}

// Nodes returns the number of nodes in the pools.
func (c *Cluster) Nodes() int {
	n := 0
	for _, p := range c.Pools {
		n += p.Count
	}
	return n
}

// NodeGroup returns the ID of the node resource group.
func (c *Cluster) NodeGroup() arm.ID {
	return arm.GroupID(c.ID.Subscription(), c.NodeResourceGroup)
}

// IsNodeGroup reports whether a resource group is the node resource group.
func (c *Cluster) IsNodeGroup(group arm.ID) bool {
	return strings.EqualFold(group.ResourceGroup(), c.NodeResourceGroup) &&
		strings.EqualFold(group.Subscription(), c.ID.Subscription())
}

// UsesAKSVNet reports whether a pool is in the virtual network that AKS creates in the node
// resource group.
func (c *Cluster) UsesAKSVNet() bool {
	return slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.Subnet == "" })
}

// ExistingSubnets returns the bring-your-own subnets that the pools name, each once, sorted.
func (c *Cluster) ExistingSubnets() []arm.ID {
	var out []arm.ID
	for _, p := range c.Pools {
		if p.Subnet != "" {
			out = append(out, p.Subnet)
		}
	}
	return SortIDs(out)
}

// SortIDs returns the IDs in order, each once.
func SortIDs(ids []arm.ID) []arm.ID {
	if len(ids) < 2 {
		return ids
	}
	type keyed struct {
		key string
		id  arm.ID
	}
	sorted := make([]keyed, len(ids))
	for i, id := range ids {
		sorted[i] = keyed{id.Key(), id}
	}
	slices.SortStableFunc(sorted, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	sorted = slices.CompactFunc(sorted, func(a, b keyed) bool { return a.key == b.key })
	for i, k := range sorted {
		ids[i] = k.id
	}
	clear(ids[len(sorted):])
	return ids[:len(sorted)]
}

var (
	managedTable  = lazy.Regexp(`(?i)^aks-agentpool-\d{8}-routetable$`)
	managedVNet   = lazy.Regexp(`(?i)^aks-vnet-\d{8}$`)
	managedSubnet = "aks-subnet"
)

// IsManagedTable reports whether a table has the name that AKS gives the table of a kubenet cluster
// (aks-agentpool-<8 digits>-routetable).
func IsManagedTable(id arm.ID) bool {
	return id.Is(arm.TypeRouteTable) && managedTable().MatchString(id.Name())
}

// IsManagedSubnet reports whether a subnet is the node subnet in the virtual network that AKS
// creates in the node resource group (aks-vnet-<8 digits>/aks-subnet). Add-ons create more subnets
// there, which have no nodes.
func (c *Cluster) IsManagedSubnet(id arm.ID) bool {
	return id.Is(arm.TypeSubnet) && id.Group().Equal(c.NodeGroup()) &&
		managedVNet().MatchString(id.Parent().Name()) && strings.EqualFold(id.Name(), managedSubnet)
}

// toggle is a feature in a cluster's document.
type toggle struct {
	Enabled bool `json:"enabled"`
}

// DecodeCluster reads a managed cluster.
func DecodeCluster(raw []byte) (*Cluster, error) {
	var p struct {
		NodeResourceGroup string `json:"nodeResourceGroup"`
		NetworkProfile    struct {
			NetworkPlugin     string   `json:"networkPlugin"`
			NetworkPluginMode string   `json:"networkPluginMode"`
			PodCIDR           string   `json:"podCidr"`
			PodCIDRs          []string `json:"podCidrs"`
			ServiceCIDR       string   `json:"serviceCidr"`
			ServiceCIDRs      []string `json:"serviceCidrs"`
			NetworkPolicy     string   `json:"networkPolicy"`
			NetworkDataplane  string   `json:"networkDataplane"`
			OutboundType      string   `json:"outboundType"`
		} `json:"networkProfile"`
		KubernetesVersion string `json:"kubernetesVersion"`
		FQDN              string `json:"fqdn"`
		PrivateFQDN       string `json:"privateFQDN"`
		State             string `json:"provisioningState"`
		PowerState        struct {
			Code string `json:"code"`
		} `json:"powerState"`
		APIServer struct {
			PrivateZone string `json:"privateDNSZone"`
			Subnet      arm.ID `json:"subnetId"`
		} `json:"apiServerAccessProfile"`
		NodeProvisioning struct {
			Mode string `json:"mode"`
		} `json:"nodeProvisioningProfile"`
		NodeResourceGroupProfile struct {
			RestrictionLevel string `json:"restrictionLevel"`
		} `json:"nodeResourceGroupProfile"`
		Security struct {
			Defender struct {
				Monitoring toggle `json:"securityMonitoring"`
			} `json:"defender"`
		} `json:"securityProfile"`
		Monitor struct {
			Metrics toggle `json:"metrics"`
		} `json:"azureMonitorProfile"`
		MetricsProfile struct {
			CostAnalysis toggle `json:"costAnalysis"`
		} `json:"metricsProfile"`
		AddonProfiles map[string]struct {
			Enabled bool              `json:"enabled"`
			Config  map[string]string `json:"config"`
			Who     struct {
				ObjectID string `json:"objectId"`
			} `json:"identity"`
		} `json:"addonProfiles"`
		AgentPoolProfiles []struct {
			Name         string `json:"name"`
			Count        int    `json:"count"`
			VnetSubnetID arm.ID `json:"vnetSubnetID"`
			MaxPods      int    `json:"maxPods"`
			MaxCount     int    `json:"maxCount"`
			Autoscaling  bool   `json:"enableAutoScaling"`
			PodSubnetID  arm.ID `json:"podSubnetID"`
			Allocation   string `json:"podIPAllocationMode"`
			OSType       string `json:"osType"`
			Type         string `json:"type"`
			PublicIPs    bool   `json:"enableNodePublicIP"`
			machineCounts
			Size    string `json:"vmSize"`
			Upgrade struct {
				MaxSurge string `json:"maxSurge"`
				Drain    int    `json:"drainTimeoutInMinutes"`
				Soak     int    `json:"nodeSoakDurationInMinutes"`
			} `json:"upgradeSettings"`
		} `json:"agentPoolProfiles"`
		ServicePrincipalProfile struct {
			ClientID string `json:"clientId"`
		} `json:"servicePrincipalProfile"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeCluster)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Document:          document,
		NodeResourceGroup: p.NodeResourceGroup,
		Plugin:            p.NetworkProfile.NetworkPlugin,
		PluginMode:        p.NetworkProfile.NetworkPluginMode,
		PodCIDRs: arm.ParsePrefixes(p.NetworkProfile.PodCIDRs,
			[]string{p.NetworkProfile.PodCIDR}),
		ServiceCIDRs: arm.ParsePrefixes(p.NetworkProfile.ServiceCIDRs,
			[]string{p.NetworkProfile.ServiceCIDR}),
		Policy:    p.NetworkProfile.NetworkPolicy,
		Dataplane: p.NetworkProfile.NetworkDataplane,
		Outbound:  p.NetworkProfile.OutboundType,
		Locked:    strings.EqualFold(p.NodeResourceGroupProfile.RestrictionLevel, "ReadOnly"),
		Stopped:   strings.EqualFold(p.PowerState.Code, "Stopped"),
		Deleting:  strings.EqualFold(p.State, "Deleting"),
		Updating: strings.EqualFold(p.State, "Updating") ||
			strings.EqualFold(p.State, "Upgrading"),
		Version: p.KubernetesVersion,

		Defender:        p.Security.Defender.Monitoring.Enabled,
		Metrics:         p.Monitor.Metrics.Enabled,
		CostAnalysis:    p.MetricsProfile.CostAnalysis.Enabled,
		PrivateZone:     p.APIServer.PrivateZone,
		APISubnet:       arm.Clean(p.APIServer.Subnet),
		AutoProvisioned: strings.EqualFold(p.NodeProvisioning.Mode, "Auto"),
	}
	for _, host := range []string{p.FQDN, p.PrivateFQDN} {
		if host != "" {
			c.Hosts = append(c.Hosts, strings.ToLower(host))
		}
	}
	for name, addon := range p.AddonProfiles {
		if addon.Enabled {
			c.Addons = append(c.Addons, strings.ToLower(name))
		}
		if strings.EqualFold(name, "ingressApplicationGateway") && addon.Enabled {
			c.IngressAddon = true
			c.IngressAsked = arm.Clean(arm.ID(addon.Config["applicationGatewayId"]))
			c.Ingress = cmp.Or(arm.Clean(arm.ID(addon.Config["effectiveApplicationGatewayId"])),
				c.IngressAsked)
			c.IngressPrincipal = strings.ToLower(addon.Who.ObjectID)
		}
	}
	slices.Sort(c.Addons)
	for _, pool := range p.AgentPoolProfiles {
		p := Pool{
			Name: pool.Name, Subnet: arm.Clean(pool.VnetSubnetID),
			Count:     max(pool.Count, pool.machineCounts.count()),
			MaxPods:   pool.MaxPods,
			PodSubnet: arm.Clean(pool.PodSubnetID), StaticBlocks: strings.EqualFold(pool.Allocation,
				"StaticBlock"), MaxSurge: pool.Upgrade.MaxSurge,
			Windows: strings.EqualFold(pool.OSType, "Windows"), Kind: pool.Type,
			DrainMinutes: pool.Upgrade.Drain, SoakMinutes: pool.Upgrade.Soak, Size: pool.Size,
			PublicIPs: pool.PublicIPs,
		}
		if pool.Autoscaling {
			p.MaxCount = pool.MaxCount
		}
		p.MaxCount = max(p.MaxCount, pool.Machines.Scale.Autoscale.MaxCount)
		c.Pools = append(c.Pools, p)
	}
	return c, c.decodeIdentity(p.ServicePrincipalProfile.ClientID)
}

// decodeIdentity collects the names that the activity log uses for the cluster's identity. A
// record's caller is the client or object ID; its claim xms_mirid is the ID of the cluster
// (system-assigned) or of the identity (user-assigned).
func (c *Cluster) decodeIdentity(clientID string) error {
	type identity struct {
		PrincipalID string `json:"principalId"`
		ClientID    string `json:"clientId"`
	}
	var doc struct {
		Identity struct {
			Type string `json:"type"`
			identity
			UserAssigned map[string]identity `json:"userAssignedIdentities"`
		} `json:"identity"`
	}
	if err := json.Unmarshal(c.Raw, &doc); err != nil {
		return arm.DescribeJSON(c.Raw, err)
	}
	c.Identity = doc.Identity.Type
	c.Principals = []string{c.ID.Key()}
	note := func(list *[]string, names ...string) {
		for _, name := range names {
			// a cluster with a managed identity has the client ID "msi"
			if name != "" && name != "msi" {
				*list = append(*list, strings.ToLower(name))
			}
		}
	}
	note(&c.Principals, clientID, doc.Identity.PrincipalID, doc.Identity.ClientID)
	note(&c.PrincipalIDs, doc.Identity.PrincipalID)
	for resource, i := range doc.Identity.UserAssigned {
		note(&c.Principals, resource, i.PrincipalID, i.ClientID)
		note(&c.PrincipalIDs, i.PrincipalID)
	}
	slices.Sort(c.Principals)
	slices.Sort(c.PrincipalIDs)
	return nil
}

package aks

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// networkMode is how a cluster's pods get their addresses.
type networkMode int

const (
	modeKubenet networkMode = iota // a part of the pod CIDR for each node, and a route to it
	modeOverlay                    // a part of the pod CIDR for each node, and no route
	// the node's subnet, with addresses taken in advance, or a subnet for pods (per pool)
	modeVNet
	modeNone // another plugin: AKS gives pods no addresses
)

func modeOf(profile kernel.Object) networkMode {
	switch plugin := kernel.Text(profile, "networkPlugin"); {
	case plugin == "none":
		return modeNone
	case plugin == "kubenet":
		return modeKubenet
	case kernel.Text(profile, "networkPluginMode") == "overlay":
		return modeOverlay
	}
	return modeVNet
}

func (m networkMode) hasPodCIDR() bool { return m == modeKubenet || m == modeOverlay }

// managedIPs names the fields with the number of addresses that AKS makes for egress, and the
// greatest number (ManagedClusterLoadBalancerProfileManagedOutboundIPs and
// ManagedClusterManagedOutboundIPProfile in the API's reference).
var managedIPs = []struct {
	profile, ips string
	most         int
}{{"loadBalancerProfile", "managedOutboundIPs", 100},
	{"natGatewayProfile", "managedOutboundIPProfile", 16}}

// outboundTypes are the ways of the nodes' egress.
var outboundTypes = []string{"loadBalancer", "userDefinedRouting", "managedNATGateway",
	"userAssignedNATGateway", "none", "block"}

// settleNetworkProfile fills in a cluster's network profile, and takes missing fields from the old
// one. It refuses invalid values and changes that AKS does not allow. before has the old
// properties, or nil for a new cluster. overlay is true if a new cluster without a plugin gets
// overlay.
func settleNetworkProfile(properties, before kernel.Object, overlay bool) *kernel.Failure {
	profile := kernel.ObjectAt(properties, "networkProfile")
	if profile == nil {
		profile = kernel.Object{}
		properties["networkProfile"] = profile
	}
	had := kernel.ObjectAt(before, "networkProfile")
	changesMode := kernel.Text(profile, "networkPluginMode") != "" &&
		kernel.Text(profile, "networkPluginMode") != kernel.Text(had, "networkPluginMode")
	for _, field := range []string{"networkPlugin", "networkPluginMode", "loadBalancerSku",
		"outboundType", "podCidr", "podCidrs", "serviceCidr", "serviceCidrs", "dnsServiceIP",
		"ipFamilies"} {
		// the loop has filled in networkPlugin before it comes to networkPluginMode
		samePlugin := kernel.Text(profile, "networkPlugin") == kernel.Text(had, "networkPlugin")
		if had[field] != nil && (field != "networkPluginMode" || samePlugin) {
			kernel.SetDefault(profile, field, kernel.CloneValue(had[field]))
		}
	}
	if overlay && kernel.Text(profile, "networkPlugin") == "" {
		profile["networkPlugin"] = "azure"
		kernel.SetDefault(profile, "networkPluginMode", "overlay")
	}
	kernel.SetDefault(profile, "networkPlugin", "kubenet")
	if cidr := kernel.Text(profile, "podCidr"); cidr != "" &&
		!slices.Contains(kernel.List(profile, "podCidrs"), cidr) {
		delete(profile, "podCidrs") // only podCidr was sent, so it counts
	}
	kernel.SetDefault(profile, "loadBalancerSku", "standard")
	kernel.SetDefault(profile, "outboundType", "loadBalancer")
	kernel.SetDefault(profile, "serviceCidr", "10.0.0.0/16")
	kernel.SetDefault(profile, "dnsServiceIP", "10.0.0.10")
	kernel.SetDefault(profile, "ipFamilies", []any{"IPv4"})
	plugin, mode := kernel.Text(profile, "networkPlugin"), kernel.Text(profile, "networkPluginMode")
	switch {
	case !slices.Contains([]string{"kubenet", "azure", "none"}, plugin):
		return invalid("networkProfile.networkPlugin", plugin)
	case mode != "" && mode != "overlay":
		return invalid("networkProfile.networkPluginMode", mode)
	case mode == "overlay" && plugin != "azure": // AKS#5662
		return kernel.Bad("UnsupportedNetworkPluginModeWithNetworkPlugin",
			"NetworkPluginMode overlay is not supported with NetworkPlugin %s.", plugin)
	case !slices.Contains(outboundTypes, kernel.Text(profile, "outboundType")):
		return kernel.Bad("UnsupportedOutboundType",
			"The outbound type %s is not supported.", kernel.Text(profile, "outboundType"))
	}
	for _, managed := range managedIPs {
		asked := kernel.ObjectAt(profile, managed.profile, managed.ips)
		n := kernel.NumberOf(asked, "count")
		if asked["count"] != nil && (n < 1 || n > managed.most) {
			return invalid("networkProfile."+managed.profile+"."+managed.ips+".count",
				fmt.Sprint(asked["count"]))
		}
	}
	if had != nil {
		if f := checkModeChange(profile, had, changesMode); f != nil {
			return f
		}
	}
	if modeOf(profile).hasPodCIDR() {
		if f := settlePodCIDRs(profile); f != nil {
			return f
		}
	} else if before == nil {
		delete(profile, "podCidr")
		delete(profile, "podCidrs")
	}
	return checkServiceCIDR(profile)
}

func invalid(parameter string, value any) *kernel.Failure {
	return kernel.Bad("InvalidParameter",
		"The value of parameter %s is invalid: %v.", parameter, value)
}

func unchangeable(property string) *kernel.Failure {
	return kernel.Bad("PropertyChangeNotAllowed",
		"Changing property '%s' is not allowed.", property)
}

// checkModeChange refuses every change of the network plugin except to overlay, which cannot be
// reverted. The pod CIDR of kubenet stays (azure-aks-docs#172).
func checkModeChange(profile, had kernel.Object, asked bool) *kernel.Failure {
	from, to := modeOf(had), modeOf(profile)
	toOverlay := asked && to == modeOverlay && (from == modeKubenet || from == modeVNet)
	switch {
	case from == to, toOverlay:
	case kernel.Text(profile, "networkPlugin") != kernel.Text(had, "networkPlugin"):
		return unchangeable("networkProfile.networkPlugin")
	default:
		return unchangeable("networkProfile.networkPluginMode")
	}
	for _, field := range []string{"podCidr", "serviceCidr", "dnsServiceIP"} {
		if kernel.Text(had, field) != kernel.Text(profile, field) &&
			!(toOverlay && from == modeVNet && field == "podCidr") {
			return unchangeable("networkProfile." + field)
		}
	}
	return nil
}

// settlePodCIDRs fills in podCidr and podCidrs from each other, and the defaults of each family.
func settlePodCIDRs(profile kernel.Object) *kernel.Failure {
	cidrs := kernel.List(profile, "podCidrs")
	if one := kernel.Text(profile, "podCidr"); one != "" && len(cidrs) == 0 {
		cidrs = []string{one}
	}
	if len(cidrs) == 0 {
		cidrs = []string{defaultPodCIDR}
		if len(kernel.List(profile, "ipFamilies")) == 2 {
			cidrs = append(cidrs, defaultPodCIDR6)
		}
	}
	all := make([]any, len(cidrs))
	for i, text := range cidrs {
		if f := network.CheckPrefix(text, "networkProfile.podCidr"); f != nil {
			return f
		}
		all[i] = text
	}
	profile["podCidr"], profile["podCidrs"] = cidrs[0], all
	return nil
}

// checkServiceCIDR refuses a service CIDR that is invalid or overlaps the pods' addresses.
func checkServiceCIDR(profile kernel.Object) *kernel.Failure {
	service, err := netip.ParsePrefix(kernel.Text(profile, "serviceCidr"))
	if err != nil {
		return invalid("networkProfile.serviceCidr", profile["serviceCidr"])
	}
	for _, pods := range arm.ParsePrefixes(kernel.List(profile, "podCidrs")) {
		if pods.Overlaps(service) {
			return kernel.Bad("PodCidrOverlapServiceCidr",
				"The specified pod CIDR %s overlaps with the service CIDR %s.", pods, service)
		}
	}
	return nil
}

// networkChecks refuses cluster networks that AKS does not accept.
type networkChecks struct{ *AKS }

// subnets refuses subnets of pools that the cluster cannot use.
func (s networkChecks) subnets(id arm.ID, properties kernel.Object, isNew bool) *kernel.Failure {
	profile := kernel.ObjectAt(properties, "networkProfile")
	mode := modeOf(profile)
	var vnet, table arm.ID
	withSubnet, pools := 0, kernel.ListAt(properties, "agentPoolProfiles")
	for _, p := range pools {
		for _, field := range []string{"vnetSubnetID", "podSubnetID"} {
			subnetID := arm.ID(kernel.Text(p, field))
			if subnetID == "" {
				continue
			}
			subnet := s.kernel.Store.Get(subnetID)
			if subnet == nil || !subnetID.Is(arm.TypeSubnet) {
				return kernel.Bad("LinkedInvalidPropertyId", "The subnet %s of pool %s of "+
					"cluster %s was not found.", subnetID, kernel.Text(p, "name"), id)
			}
			if vnet != "" && !subnetID.Parent().Equal(vnet) {
				// code [U]
				return kernel.Bad("InvalidParameter", "All subnets assigned to agent pools of "+
					"cluster %s must belong to the same virtual network: %s is not in %s.",
					id.Name(), subnetID, vnet.Name())
			}
			vnet = subnetID.Parent()
		}
		subnet := s.kernel.Store.Get(arm.ID(kernel.Text(p, "vnetSubnetID")))
		if subnet == nil {
			continue
		}
		withSubnet++
		has := kernel.LinkOf(subnet.Body, "routeTable")
		if mode == modeKubenet && has != "" {
			if table != "" && !has.Equal(table) {
				return kernel.Bad("TooManyCustomRouteTables",
					"Cluster %s uses more than one route table: %s and %s.", id.Name(), table, has)
			}
			table = has
		}
		if f := s.egress(kernel.Text(profile, "outboundType"), subnet, has); isNew && f != nil {
			return f
		}
	}
	if withSubnet > 0 && withSubnet < len(pools) {
		return kernel.Bad("AgentPoolsWithEmptySubnetError", "Cluster %s cannot have agent pools "+
			"without a subnet together with ones that have one.", id.Name())
	}
	if vnet != "" && isNew {
		if f := s.overlaps(profile, vnet); f != nil {
			return f
		}
	}
	return nil
}

// egress refuses userDefinedRouting if the subnet's table leads nowhere (the first message is AKS's
// own as reported by many; the other two are from azurerm#8609 and azure-docs#108240).
func (s networkChecks) egress(outbound string, subnet *kernel.Resource,
	table arm.ID) *kernel.Failure {
	if outbound != "userDefinedRouting" {
		return nil
	}
	r := s.kernel.Store.Get(table)
	if r == nil {
		return kernel.Bad("ExistingRouteTableNotAssociatedWithSubnet",
			"An existing route table has not been associated with subnet %s. Please update the "+
				"route table association", subnet.ID)
	}
	for _, route := range kernel.ListAt(r.Properties(), "routes") {
		p := kernel.ObjectAt(route, "properties")
		if kernel.Text(p, "addressPrefix") != "0.0.0.0/0" {
			continue
		}
		if hop := kernel.Text(p, "nextHopType"); hop != inventory.HopAppliance &&
			hop != inventory.HopGateway {
			return kernel.Bad("RouteTableInvalidNextHop", "Default route 0.0.0.0/0 has a next "+
				"hop of %s but only next hops of VirtualAppliance or VirtualNetworkGateway "+
				"are allowed. Please see http://aka.ms/aks/outboundtype for more details", hop)
		}
		return nil
	}
	return kernel.Bad("RouteTableMissingDefaultRouteError",
		"Default route 0.0.0.0/0 missing from route table %s", table)
}

// overlaps refuses pod and service CIDRs that overlap subnets of the virtual network.
func (s networkChecks) overlaps(profile kernel.Object, vnet arm.ID) *kernel.Failure {
	for _, subnet := range s.kernel.Store.List(arm.TypeSubnet, vnet) {
		for _, p := range network.PrefixesOf(subnet.Body) {
			for _, pods := range arm.ParsePrefixes(kernel.List(profile, "podCidrs")) {
				if pods.Overlaps(p) {
					return kernel.Bad("PodCidrOverlapExistingSubnetsCidr", "The specified pod "+
						"CIDR %s is conflicted with an existing subnet CIDR %s", pods, p)
				}
			}
			if service, err := netip.ParsePrefix(kernel.Text(profile, "serviceCidr")); err == nil &&
				service.Overlaps(p) {
				return kernel.Bad("ServiceCidrOverlapExistingSubnetsCidr", "The specified "+
					"service CIDR %s is conflicted with an existing subnet CIDR %s", service, p)
			}
		}
	}
	return nil
}

// sizes that AKS allows, as its messages state them.
const maxPoolNodes, maxClusterNodes, maxPools = 1000, 5000, 100

// sizes refuses more nodes than the cluster, its table, its pod CIDR or its subnets can hold. With
// the autoscaler, a pool counts with its greatest number of nodes.
func (s networkChecks) sizes(id arm.ID, properties kernel.Object) *kernel.Failure {
	profile, pools := kernel.ObjectAt(properties, "networkProfile"), kernel.ListAt(properties,
		"agentPoolProfiles")
	mode := modeOf(profile)
	total := 0
	inSubnet := map[string]int{}
	for _, p := range pools {
		n := mostNodes(p)
		total += n
		each := 1
		if mode == modeVNet && kernel.Text(p, "podSubnetID") == "" {
			each += kernel.NumberOf(p, "maxPods")
		}
		inSubnet[arm.ID(kernel.Text(p, "vnetSubnetID")).Key()] += n * each
	}
	limit := maxClusterNodes
	if cidrs := kernel.List(profile, "podCidrs"); mode == modeKubenet {
		limit = s.network.Opts.RouteLimit / max(1, len(cidrs)) // a route for each node and family
	}
	if total > limit {
		// wording [U]
		return kernel.Bad("AgentPoolMaxCountExceeded", "Cluster %s would have %d nodes, more "+
			"than the %d that are supported with network plugin %s.", id.Name(), total, limit,
			kernel.Text(profile, "networkPlugin"))
	}
	for _, cidr := range arm.ParsePrefixes(kernel.List(profile, "podCidrs")) {
		if bits := inventory.NodeMask(cidr); mode.hasPodCIDR() && cidr.Addr().Is4() &&
			total > 1<<(bits-cidr.Bits()) {
			return tooSmall(total<<(32-bits), 1<<(32-cidr.Bits()), cidr, "networkProfile.podCIDR")
		}
	}
	for key, wanted := range inSubnet {
		subnet := s.kernel.Store.Get(arm.ID(key))
		if subnet == nil {
			continue
		}
		if p := network.PrefixesOf(subnet.Body); len(p) > 0 && p[0].Addr().Is4() {
			if have := 1<<(32-p[0].Bits()) - network.Reserved - 1; wanted > have {
				return tooSmall(wanted, have, p[0], subnet.ID.Name())
			}
		}
	}
	return nil
}

func tooSmall(wanted, have int, prefix netip.Prefix, name string) *kernel.Failure {
	return kernel.Bad("InsufficientSubnetSize",
		"Pre-allocated IPs %d exceeds IPs available %d in Subnet Cidr %s, Subnet Name %s. If "+
			"Autoscaler is enabled, the max-count from each nodepool is counted towards this "+
			"total (which means that pre-allocated IPs count represents a theoretical max value, "+
			"not the actual number of IPs requested). http://aka.ms/aks/insufficientsubnetsize",
		wanted, have, prefix, strings.TrimSpace(name))
}

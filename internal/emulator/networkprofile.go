package emulator

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// networkMode is where a cluster's pods have their addresses from.
type networkMode int

const (
	modeKubenet networkMode = iota // a part of the pod CIDR for each node, and a route to it
	modeOverlay                    // a part of the pod CIDR for each node, and no route
	// the node's subnet, taken up front, or a subnet for pods (per pool)
	modeVNet
	modeNone // somebody else's plugin: AKS gives pods nothing
)

func modeOf(profile object) networkMode {
	switch plugin := text(profile, "networkPlugin"); {
	case plugin == "none":
		return modeNone
	case plugin == "kubenet":
		return modeKubenet
	case text(profile, "networkPluginMode") == "overlay":
		return modeOverlay
	}
	return modeVNet
}

func (m networkMode) hasPodCIDR() bool { return m == modeKubenet || m == modeOverlay }

// outboundTypes are how a cluster's nodes reach the Internet.
var outboundTypes = []string{"loadBalancer", "userDefinedRouting", "managedNATGateway",
	"userAssignedNATGateway", "none", "block"}

// settleNetworkProfile fills in a cluster's network profile, from the one it had where something is
// left out, and refuses what cannot be or cannot be changed. before are the properties it had, nil
// for a new cluster; overlay says which plugin a new one gets that names none.
func settleNetworkProfile(properties, before object, overlay bool) *failure {
	profile := objectAt(properties, "networkProfile")
	if profile == nil {
		profile = object{}
		properties["networkProfile"] = profile
	}
	had := objectAt(before, "networkProfile")
	changesMode := text(profile, "networkPluginMode") != "" &&
		text(profile, "networkPluginMode") != text(had, "networkPluginMode")
	for _, field := range []string{"networkPlugin", "networkPluginMode", "loadBalancerSku",
		"outboundType", "podCidr", "podCidrs", "serviceCidr", "serviceCidrs", "dnsServiceIP",
		"ipFamilies"} {
		samePlugin := text(profile, "networkPlugin") == text(had, "networkPlugin") // it comes first
		if had[field] != nil && (field != "networkPluginMode" || samePlugin) {
			setDefault(profile, field, cloneValue(had[field]))
		}
	}
	if overlay && text(profile, "networkPlugin") == "" {
		profile["networkPlugin"] = "azure"
		setDefault(profile, "networkPluginMode", "overlay")
	}
	setDefault(profile, "networkPlugin", "kubenet")
	if cidr := text(profile, "podCidr"); cidr != "" &&
		!slices.Contains(list(profile, "podCidrs"), cidr) {
		delete(profile, "podCidrs") // the one that was sent without the other counts
	}
	setDefault(profile, "loadBalancerSku", "standard")
	setDefault(profile, "outboundType", "loadBalancer")
	setDefault(profile, "serviceCidr", "10.0.0.0/16")
	setDefault(profile, "dnsServiceIP", "10.0.0.10")
	setDefault(profile, "ipFamilies", []any{"IPv4"})
	plugin, mode := text(profile, "networkPlugin"), text(profile, "networkPluginMode")
	switch {
	case !slices.Contains([]string{"kubenet", "azure", "none"}, plugin):
		return invalid("networkProfile.networkPlugin", plugin)
	case mode != "" && mode != "overlay":
		return invalid("networkProfile.networkPluginMode", mode)
	case mode == "overlay" && plugin != "azure": // AKS#5662
		return fail(http.StatusBadRequest, "UnsupportedNetworkPluginModeWithNetworkPlugin",
			"NetworkPluginMode overlay is not supported with NetworkPlugin %s.", plugin)
	case !slices.Contains(outboundTypes, text(profile, "outboundType")):
		return fail(http.StatusBadRequest, "UnsupportedOutboundType",
			"The outbound type %s is not supported.", text(profile, "outboundType"))
	}
	if had != nil {
		if f := modeChange(profile, had, changesMode); f != nil {
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

func invalid(parameter string, value any) *failure {
	return fail(http.StatusBadRequest, "InvalidParameter",
		"The value of parameter %s is invalid: %v.", parameter, value)
}

func unchangeable(property string) *failure {
	return fail(http.StatusBadRequest, "PropertyChangeNotAllowed",
		"Changing property '%s' is not allowed.", property)
}

// modeChange refuses every change of the network plugin but the one to overlay, which there is no
// way back from. Its pod CIDR stays the one of kubenet (azure-aks-docs#172).
func modeChange(profile, had object, asked bool) *failure {
	from, to := modeOf(had), modeOf(profile)
	toOverlay := asked && to == modeOverlay && (from == modeKubenet || from == modeVNet)
	switch {
	case from == to, toOverlay:
	case text(profile, "networkPlugin") != text(had, "networkPlugin"):
		return unchangeable("networkProfile.networkPlugin")
	default:
		return unchangeable("networkProfile.networkPluginMode")
	}
	for _, field := range []string{"podCidr", "serviceCidr", "dnsServiceIP"} {
		if text(had, field) != text(profile, field) &&
			!(toOverlay && from == modeVNet && field == "podCidr") {
			return unchangeable("networkProfile." + field)
		}
	}
	return nil
}

// settlePodCIDRs fills in podCidr and podCidrs from each other, and the defaults of each family.
func settlePodCIDRs(profile object) *failure {
	cidrs := list(profile, "podCidrs")
	if one := text(profile, "podCidr"); one != "" && len(cidrs) == 0 {
		cidrs = []string{one}
	}
	if len(cidrs) == 0 {
		cidrs = []string{defaultPodCIDR}
		if len(list(profile, "ipFamilies")) == 2 {
			cidrs = append(cidrs, defaultPodCIDR6)
		}
	}
	all := make([]any, len(cidrs))
	for i, text := range cidrs {
		if f := checkPrefix(text); f != nil {
			return f
		}
		all[i] = text
	}
	profile["podCidr"], profile["podCidrs"] = cidrs[0], all
	return nil
}

// checkServiceCIDR refuses a service CIDR that is none, or in which pods have their addresses.
func checkServiceCIDR(profile object) *failure {
	service, err := netip.ParsePrefix(text(profile, "serviceCidr"))
	if err != nil {
		return invalid("networkProfile.serviceCidr", profile["serviceCidr"])
	}
	for _, pods := range validPrefixes(list(profile, "podCidrs")) {
		if pods.Overlaps(service) {
			return fail(http.StatusBadRequest, "PodCidrOverlapServiceCidr",
				"The specified pod CIDR %s overlaps with the service CIDR %s.", pods, service)
		}
	}
	return nil
}

// checkSubnets refuses what a cluster cannot do with the subnets that its pools bring.
func (s *aks) checkSubnets(id arm.ID, properties object, isNew bool) *failure {
	profile := objectAt(properties, "networkProfile")
	mode := modeOf(profile)
	var vnet, table arm.ID
	brought, pools := 0, listAt(properties, "agentPoolProfiles")
	for _, p := range pools {
		for _, field := range []string{"vnetSubnetID", "podSubnetID"} {
			subnetID := arm.ID(text(p, field))
			if subnetID == "" {
				continue
			}
			subnet := s.kernel.store.get(subnetID)
			if subnet == nil || !subnetID.Is(arm.TypeSubnet) {
				return fail(http.StatusBadRequest, "LinkedInvalidPropertyId",
					"The subnet %s of pool %s of cluster %s was not found.", subnetID, text(p,
						"name"), id)
			}
			if vnet != "" && !subnetID.Parent().Equal(vnet) {
				// code [U]
				return fail(http.StatusBadRequest, "InvalidParameter", "All subnets assigned to "+
					"agent pools of cluster %s must belong to the same virtual network: %s is "+
					"not in %s.", id.Name(), subnetID, vnet.Name())
			}
			vnet = subnetID.Parent()
		}
		subnet := s.kernel.store.get(arm.ID(text(p, "vnetSubnetID")))
		if subnet == nil {
			continue
		}
		brought++
		has := linkOf(subnet.body, "routeTable")
		if mode == modeKubenet && has != "" {
			if table != "" && !has.Equal(table) {
				return fail(http.StatusBadRequest, "TooManyCustomRouteTables",
					"Cluster %s uses more than one route table: %s and %s.", id.Name(), table, has)
			}
			table = has
		}
		if f := s.checkEgress(text(profile, "outboundType"), subnet, has); isNew && f != nil {
			return f
		}
	}
	if brought > 0 && brought < len(pools) {
		return fail(http.StatusBadRequest, "AgentPoolsWithEmptySubnetError",
			"Agent pools of cluster %s without a subnet cannot be beside ones that bring theirs.",
			id.Name())
	}
	if vnet != "" && isNew {
		if f := s.checkOverlaps(profile, vnet); f != nil {
			return f
		}
	}
	return nil
}

// checkEgress refuses userDefinedRouting where the subnet's table leads nowhere (the first message
// is AKS's own as reported by many; the other two are from azurerm#8609 and azure-docs#108240).
func (s *aks) checkEgress(outbound string, subnet *resource, table arm.ID) *failure {
	if outbound != "userDefinedRouting" {
		return nil
	}
	r := s.kernel.store.get(table)
	if r == nil {
		return fail(http.StatusBadRequest, "ExistingRouteTableNotAssociatedWithSubnet",
			"An existing route table has not been associated with subnet %s. Please update the "+
				"route table association", subnet.id)
	}
	for _, route := range listAt(objectAt(r.body, "properties"), "routes") {
		p := objectAt(route, "properties")
		if text(p, "addressPrefix") != "0.0.0.0/0" {
			continue
		}
		if hop := text(p, "nextHopType"); hop != inventory.HopAppliance &&
			hop != inventory.HopGateway {
			return fail(http.StatusBadRequest, "RouteTableInvalidNextHop",
				"Default route 0.0.0.0/0 has a next hop of %s but only next hops of "+
					"VirtualAppliance or VirtualNetworkGateway are allowed. Please see "+
					"http://aka.ms/aks/outboundtype for more details", hop)
		}
		return nil
	}
	return fail(http.StatusBadRequest, "RouteTableMissingDefaultRouteError",
		"Default route 0.0.0.0/0 missing from route table %s", table)
}

// checkOverlaps refuses pod and service CIDRs in which subnets of the virtual network lie.
func (s *aks) checkOverlaps(profile object, vnet arm.ID) *failure {
	for _, subnet := range s.kernel.store.list(arm.TypeSubnet, vnet) {
		for _, p := range prefixesOf(subnet.body) {
			for _, pods := range validPrefixes(list(profile, "podCidrs")) {
				if pods.Overlaps(p) {
					return fail(http.StatusBadRequest, "PodCidrOverlapExistingSubnetsCidr",
						"The specified pod CIDR %s is conflicted with an existing subnet CIDR %s",
						pods, p)
				}
			}
			if service, err := netip.ParsePrefix(text(profile, "serviceCidr")); err == nil &&
				service.Overlaps(p) {
				return fail(http.StatusBadRequest, "ServiceCidrOverlapExistingSubnetsCidr",
					"The specified service CIDR %s is conflicted with an existing subnet CIDR %s",
					service, p)
			}
		}
	}
	return nil
}

// sizes of what AKS takes, as its messages count them.
const maxPoolNodes, maxClusterNodes, maxPools = 1000, 5000, 100

// checkSizes refuses more nodes than the cluster, its table, its pod CIDR or its subnets can hold.
// With the autoscaler a pool counts with its most nodes.
func (s *aks) checkSizes(id arm.ID, properties object) *failure {
	profile, pools := objectAt(properties, "networkProfile"), listAt(properties,
		"agentPoolProfiles")
	mode := modeOf(profile)
	total := 0
	inSubnet := map[string]int{}
	for _, p := range pools {
		n := mostNodes(p)
		total += n
		each := 1
		if mode == modeVNet && text(p, "podSubnetID") == "" {
			each += numberOf(p, "maxPods")
		}
		inSubnet[arm.ID(text(p, "vnetSubnetID")).Key()] += n * each
	}
	limit := maxClusterNodes
	if cidrs := list(profile, "podCidrs"); mode == modeKubenet {
		limit = s.network.opts.RouteLimit / max(1, len(cidrs)) // a route for each node and family
	}
	if total > limit {
		// wording [U]
		return fail(http.StatusBadRequest, "AgentPoolMaxCountExceeded", "Cluster %s would have "+
			"%d nodes, more than the %d that are supported with network plugin %s.", id.Name(),
			total, limit, text(profile, "networkPlugin"))
	}
	for _, cidr := range validPrefixes(list(profile, "podCidrs")) {
		if bits := inventory.NodeMask(cidr); mode.hasPodCIDR() && cidr.Addr().Is4() &&
			total > 1<<(bits-cidr.Bits()) {
			return tooSmall(total<<(32-bits), 1<<(32-cidr.Bits()), cidr, "networkProfile.podCIDR")
		}
	}
	for key, wanted := range inSubnet {
		subnet := s.kernel.store.get(arm.ID(key))
		if subnet == nil {
			continue
		}
		if p := prefixesOf(subnet.body); len(p) > 0 && p[0].Addr().Is4() {
			if have := 1<<(32-p[0].Bits()) - reserved - 1; wanted > have {
				return tooSmall(wanted, have, p[0], subnet.id.Name())
			}
		}
	}
	return nil
}

func tooSmall(wanted, have int, prefix netip.Prefix, name string) *failure {
	return fail(http.StatusBadRequest, "InsufficientSubnetSize",
		"Pre-allocated IPs %d exceeds IPs available %d in Subnet Cidr %s, Subnet Name %s. If "+
			"Autoscaler is enabled, the max-count from each nodepool is counted towards this "+
			"total (which means that pre-allocated IPs count represents a theoretical max value, "+
			"not the actual number of IPs requested). http://aka.ms/aks/insufficientsubnetsize",
		wanted, have, prefix, strings.TrimSpace(name))
}

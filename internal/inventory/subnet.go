package inventory

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Subnet is a subnet of a virtual network.
type Subnet struct {
	arm.Document
	Prefixes   []netip.Prefix
	RouteTable arm.ID // the associated table, or ""
	// SecurityGroup and NATGateway are the associated resources, or "".
	SecurityGroup, NATGateway arm.ID
	EndpointPolicies          []arm.ID // its service endpoint policies
	// Delegations are the services it is delegated to, such as
	// Microsoft.Network/applicationGateways.
	Delegations []string
	// Services is set if the document links to services in the subnet other than IP configurations.
	Services bool
	// Private is set if the subnet has no default outbound access: its machines have no egress
	// unless you configure it (default-outbound-access).
	Private bool
	Used    int // the number of addresses in use that the document shows
	// GuardPausedUntil is the value of its network's GuardPauseTag; nil if the network has none, or
	// was never read.
	GuardPausedUntil *string
	// Failed is set if the last operation on the subnet failed: then the document may not be in
	// effect.
	Failed bool
	// Gateways are the Application Gateways in it.
	Gateways []arm.ID

	configurations []arm.ID
	sets           []MachineSet // of MachineSets
}

// Configurations returns the IP configurations in the subnet, of network interfaces and other
// resources, but not of Application Gateways. Do not change them: the slice is not a copy.
func (s *Subnet) Configurations() []arm.ID { return s.configurations }

// WithConfigurations returns a copy of the subnet with other IP configurations.
func (s *Subnet) WithConfigurations(ids []arm.ID) *Subnet {
	other := *s
	other.configurations, other.sets = ids, machineSets(ids)
	return &other
}

// MachineSet is a scale set with machines in a subnet, or a single machine.
type MachineSet struct {
	Group string // the ID.Key() of its resource group
	Name  string
	Count int // the number of its machines in the subnet
}

// MachineSets returns the owners of the Configurations in the subnet. They are computed once, when
// the subnet gets its configurations, because every check counts the machines of its clusters.
func (s *Subnet) MachineSets() []MachineSet { return s.sets }

func machineSets(configurations []arm.ID) []MachineSet {
	type key struct{ group, name string }
	var sets []MachineSet
	index, seen := map[key]int{}, make(map[key]bool, len(configurations))
	for _, c := range configurations {
		machine := key{c.Group().Key(), HolderName(c.Parent())}
		if seen[machine] { // counted by its address of the other family
			continue
		}
		seen[machine] = true
		set := machine
		set.name, _, _ = strings.Cut(machine.name, instanceOf)
		i, known := index[set]
		if !known {
			i, index[set] = len(sets), len(sets)
			sets = append(sets, MachineSet{Group: set.group, Name: set.name})
		}
		sets[i].Count++
	}
	return sets
}

type subnetProperties struct {
	AddressPrefix   string    `json:"addressPrefix"`
	AddressPrefixes []string  `json:"addressPrefixes"`
	RouteTable      *arm.Ref  `json:"routeTable"`
	SecurityGroup   *arm.Ref  `json:"networkSecurityGroup"`
	NATGateway      *arm.Ref  `json:"natGateway"`
	DefaultOutbound *bool     `json:"defaultOutboundAccess"`
	EndpointPolicy  []arm.Ref `json:"serviceEndpointPolicies"`
	Delegations     []struct {
		Properties struct {
			ServiceName string `json:"serviceName"`
		} `json:"properties"`
	} `json:"delegations"`
	GatewayConfigurations []arm.Ref `json:"applicationGatewayIPConfigurations"`
	IPConfigurations      []arm.Ref `json:"ipConfigurations"`
	ServiceLinks          []arm.Ref `json:"serviceAssociationLinks"`
	NavigationLinks       []arm.Ref `json:"resourceNavigationLinks"`
	State                 string    `json:"provisioningState"`
}

// DecodeSubnet reads a subnet as ARM returns it, alone or inside its virtual network.
func DecodeSubnet(raw []byte) (*Subnet, error) {
	var p subnetProperties
	document, err := arm.Decode(raw, &p, arm.TypeSubnet)
	if err != nil {
		return nil, err
	}
	s := &Subnet{
		Document:   document,
		Prefixes:   arm.ParsePrefixes([]string{p.AddressPrefix}, p.AddressPrefixes),
		RouteTable: p.RouteTable.Target(), SecurityGroup: p.SecurityGroup.Target(),
		NATGateway:       p.NATGateway.Target(),
		Private:          p.DefaultOutbound != nil && !*p.DefaultOutbound,
		EndpointPolicies: refIDs(p.EndpointPolicy),
		Services:         len(p.ServiceLinks)+len(p.NavigationLinks) > 0,
		Used:             len(p.IPConfigurations),
		Failed:           strings.EqualFold(p.State, "Failed"),
	}
	for _, c := range p.IPConfigurations {
		s.configurations = append(s.configurations, arm.Clean(c.ID))
	}
	s.sets = machineSets(s.configurations)
	for _, d := range p.Delegations {
		s.Delegations = append(s.Delegations, d.Properties.ServiceName)
	}
	// A gateway appears in the subnet's applicationGatewayIPConfigurations or, with some API
	// versions, in its ipConfigurations.
	seen := map[string]bool{}
	for _, list := range [][]arm.Ref{p.GatewayConfigurations, p.IPConfigurations} {
		for _, c := range list {
			if gateway := gatewayOf(c.ID); gateway != "" && !seen[gateway.Key()] {
				seen[gateway.Key()] = true
				s.Gateways = append(s.Gateways, gateway)
			}
		}
	}
	return s, nil
}

// UsedIPv4 returns a lower bound of the IPv4 addresses in use. In a dual-stack subnet a
// configuration can be of either family, but the first one of every interface has an IPv4 address
// (virtual-network-network-interface-addresses).
func (s *Subnet) UsedIPv4() int {
	if slices.ContainsFunc(s.Prefixes, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		return (s.Used + 1) / 2
	}
	return s.Used
}

// DelegatedTo reports whether the subnet is delegated to a service.
func (s *Subnet) DelegatedTo(service string) bool {
	return slices.ContainsFunc(s.Delegations, func(d string) bool {
		return strings.EqualFold(d, service)
	})
}

// FirstUsable returns the first address of a subnet that Azure assigns. It comes after the reserved
// ones.
func FirstUsable(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr()
	for range 4 {
		a = a.Next()
	}
	return a
}

// Last returns the last address of a prefix.
func Last(p netip.Prefix) netip.Addr {
	raw := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(raw)
	return last
}

// gatewayOf returns the Application Gateway that an IP configuration belongs to, or "".
func gatewayOf(configuration arm.ID) arm.ID {
	if !strings.Contains(configuration.Key(), "/applicationgateways/") {
		return "" // a fast path: a subnet can have thousands, and nearly all belong to machines
	}
	for id := configuration; id != ""; id = id.Parent() {
		if id.Is(arm.TypeGateway) {
			return id
		}
	}
	return ""
}

// ProvisioningState returns the state of the last operation in a document: Succeeded, Updating,
// Failed, Deleting; "" if there is none.
func ProvisioningState(raw []byte) string {
	// The state is near the start of a long document; if it is not there, ProvisioningState returns
	// "".
	return gjson.GetBytes(raw, "properties.provisioningState").String()
}

// Settled reports whether no operation is running on the document's resource.
func Settled(raw []byte) bool {
	state := ProvisioningState(raw)
	return !strings.EqualFold(state, "Updating") && !strings.EqualFold(state, "Deleting") &&
		!strings.EqualFold(state, "Creating")
}

// Provisioned returns the subnets of machines that node auto-provisioning made and no pool names,
// sorted. Only an AKSNodeClass names these subnets (vnetSubnetID;
// node-auto-provisioning-networking), so the interfaces in the node resource group must show them.
func (s *Snapshot) Provisioned(c *Cluster, interfaces []*Interface) []arm.ID {
	if !c.AutoProvisioned {
		return nil
	}
	named := slices.Concat(s.NodeSubnetIDs(c), c.PodSubnets())
	var found []arm.ID
	for _, nic := range interfaces {
		if nic.Machine == "" { // a private endpoint's interface
			continue
		}
		for _, config := range nic.Configs {
			if config.Subnet != "" && !slices.ContainsFunc(named, config.Subnet.Equal) {
				found = append(found, config.Subnet)
			}
		}
	}
	return SortIDs(found)
}

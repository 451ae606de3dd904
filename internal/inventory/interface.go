package inventory

import (
	"net/netip"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Interface is a network interface (NIC), of a machine or of an instance of a scale set.
type Interface struct {
	arm.Document
	// Forwarding is enableIPForwarding: without it, Azure drops what the machine forwards for
	// others, such as its pods.
	Forwarding    bool
	SecurityGroup arm.ID // its own group, or ""
	// the virtual machine or instance that it belongs to; "" if the document does not say
	Machine arm.ID
	Configs []IPConfig
	// Unreadable is set if an address cannot be parsed. Then not all addresses of the NIC are
	// known.
	Unreadable bool
}

// IPConfig is one address of a NIC.
type IPConfig struct {
	Name    string
	Address netip.Addr // zero if it has none at the moment
	Subnet  arm.ID
	// Groups are its application security groups.
	Groups []arm.ID
	// Exit is set if it has a public IP address, or is in a load balancer's backend pool, which may
	// have outbound rules.
	Exit bool
}

// DecodeInterface reads a NIC. The ID of a scale set's NIC is below the ID of its instance.
func DecodeInterface(raw []byte) (*Interface, error) {
	var p struct {
		Forwarding       bool     `json:"enableIPForwarding"`
		SecurityGroup    *arm.Ref `json:"networkSecurityGroup"`
		Machine          *arm.Ref `json:"virtualMachine"`
		IPConfigurations []struct {
			Name       string `json:"name"`
			Properties struct {
				Address string    `json:"privateIPAddress"`
				Subnet  *arm.Ref  `json:"subnet"`
				Groups  []arm.Ref `json:"applicationSecurityGroups"`
				Public  *arm.Ref  `json:"publicIPAddress"`
				Pools   []arm.Ref `json:"loadBalancerBackendAddressPools"`
			} `json:"properties"`
		} `json:"ipConfigurations"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeInterface, arm.TypeScaleSetInterface,
		arm.TypeScaleSet+"/networkInterfaces")
	if err != nil {
		return nil, err
	}
	nic := &Interface{Document: document,
		Forwarding: p.Forwarding, SecurityGroup: p.SecurityGroup.Target(),
		Machine: p.Machine.Target()}
	for _, c := range p.IPConfigurations {
		config := IPConfig{Name: c.Name, Subnet: c.Properties.Subnet.Target(),
			Groups: refIDs(c.Properties.Groups),
			Exit:   c.Properties.Public.Target() != "" || len(c.Properties.Pools) > 0}
		if c.Properties.Address != "" { // a dual-stack NIC may lack one address for a moment
			if config.Address, err = netip.ParseAddr(c.Properties.Address); err != nil {
				nic.Unreadable = true
			}
		}
		nic.Configs = append(nic.Configs, config)
	}
	return nic, nil
}

// Holder returns the name of the machine that a NIC belongs to, as its ID shows it: the instance of
// a scale set, or else the NIC's own name.
func (n *Interface) Holder() string { return HolderName(n.ID) }

// instanceOf separates a scale set's name from an instance's number.
const instanceOf = " instance "

// HolderName works like Holder for the ID of a NIC.
func HolderName(id arm.ID) string {
	segments := id.Segments()
	const first = 6 // the resource's own type: /subscriptions/S/resourceGroups/G/providers/N/type
	if len(segments) > first+3 && strings.EqualFold(segments[first-1]+"/"+segments[first],
		arm.TypeScaleSet) &&
		strings.EqualFold(segments[first+2], "virtualMachines") {
		return segments[first+1] + instanceOf + segments[first+3]
	}
	return id.Name()
}

// Node returns the name of the node that a NIC belongs to, in lower case: that of a virtual machine
// in the NIC's own resource group, or of the instance of a scale set. It returns "" if the NIC does
// not say.
func (n *Interface) Node() string {
	if n.Machine.Is(arm.TypeVM) && n.Machine.Group().Equal(n.ID.Group()) {
		return strings.ToLower(n.Machine.Name())
	}
	return NodeName(n.Holder())
}

// NodeName returns the name of the node that is an instance of a scale set, given the name of the
// NIC's holder. It is the scale set's name and the instance's number with six digits in base 36
// (cloud-provider-azure, getScaleSetVMInstanceID).
func NodeName(holder string) string {
	set, instance, ok := strings.Cut(holder, instanceOf)
	number, err := strconv.ParseUint(instance, 10, 64)
	if !ok || err != nil {
		return ""
	}
	digits := strconv.FormatUint(number, 36)
	return strings.ToLower(set) + strings.Repeat("0", max(0, 6-len(digits))) + digits
}

package network

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Resource types that only the emulator knows; package arm has the others.
const (
	TypePeering        = "Microsoft.Network/virtualNetworks/virtualNetworkPeerings"
	TypeEndpointPolicy = "Microsoft.Network/serviceEndpointPolicies"
	TypeVPNGateway     = "Microsoft.Network/virtualNetworkGateways"
	TypeBastion        = "Microsoft.Network/bastionHosts"
	TypeWatcher        = "Microsoft.Network/networkWatchers"
)

// link is a field in the documents of one type with the ID of a resource of another.
type link struct {
	from string
	// path is the field below properties. A name with [] goes through a list: of references if the
	// path ends there, of parts with a name and properties if it continues.
	path string
	To   string
	// Back is the field of the target that shows the link: a list with [], or a single one. Subnets
	// show the IP configurations instead.
	Back string
}

// Takes reports whether the link takes an address from its target subnet. A link of a scale set
// takes one for each instance.
func (l link) Takes() bool { return l.To == arm.TypeSubnet }

// Links are all links. The target must exist, in the same region, and cannot be deleted.
var Links = []link{
	{arm.TypeSubnet, "routeTable", arm.TypeRouteTable, "subnets[]"},
	{arm.TypeSubnet, "networkSecurityGroup", arm.TypeSecurityGroup, "subnets[]"},
	{arm.TypeSubnet, "natGateway", arm.TypeNATGateway, "subnets[]"},
	{arm.TypeSubnet, "serviceEndpointPolicies[]", TypeEndpointPolicy, "subnets[]"},
	{arm.TypeInterface, "networkSecurityGroup", arm.TypeSecurityGroup, "networkInterfaces[]"},
	{arm.TypeInterface, "ipConfigurations[].subnet", arm.TypeSubnet, ""},
	{arm.TypeInterface, "ipConfigurations[].publicIPAddress", arm.TypePublicIP, "ipConfiguration"},
	{arm.TypeNATGateway, "publicIpAddresses[]", arm.TypePublicIP, "natGateway"},
	{arm.TypeVM, "networkProfile.networkInterfaces[]", arm.TypeInterface, "virtualMachine"},
	{arm.TypeScaleSet,
		"virtualMachineProfile.networkProfile.networkInterfaceConfigurations[].ipConfigurations[].subnet",
		arm.TypeSubnet, ""},
	{arm.TypeScaleSet,
		"virtualMachineProfile.networkProfile.networkInterfaceConfigurations[].networkSecurityGroup",
		arm.TypeSecurityGroup, ""},
	{arm.TypeGateway, "gatewayIPConfigurations[].subnet", arm.TypeSubnet,
		"applicationGatewayIPConfigurations[]"},
	{arm.TypeGateway, "frontendIPConfigurations[].subnet", arm.TypeSubnet, ""},
	{arm.TypeGateway, "privateLinkConfigurations[].ipConfigurations[].subnet", arm.TypeSubnet,
		"privateLinkIpConfigurations[]"},
	{arm.TypeGateway, "frontendIPConfigurations[].publicIPAddress", arm.TypePublicIP,
		"ipConfiguration"},
	{arm.TypeLoadBalancer, "frontendIPConfigurations[].subnet", arm.TypeSubnet, ""},
	{arm.TypeLoadBalancer, "frontendIPConfigurations[].publicIPAddress", arm.TypePublicIP,
		"ipConfiguration"},
	{arm.TypeFirewall, "ipConfigurations[].subnet", arm.TypeSubnet, ""},
	{arm.TypeFirewall, "ipConfigurations[].publicIPAddress", arm.TypePublicIP, "ipConfiguration"},
	{TypeVPNGateway, "ipConfigurations[].subnet", arm.TypeSubnet, ""},
	{TypeVPNGateway, "ipConfigurations[].publicIPAddress", arm.TypePublicIP, "ipConfiguration"},
	{TypeBastion, "ipConfigurations[].subnet", arm.TypeSubnet, ""},
	{TypeBastion, "ipConfigurations[].publicIPAddress", arm.TypePublicIP, "ipConfiguration"},
}

// inUse is Azure's refusal to delete a linked resource: the code, and the message with the
// resource, its users, and their number.
var inUse = map[string][2]string{
	arm.TypeRouteTable: {"InUseRouteTableCannotBeDeleted",
		"Route table %[1]s is in use and cannot be deleted. It is associated with subnet %[2]s."},
	arm.TypeSecurityGroup: {"InUseNetworkSecurityGroupCannotBeDeleted",
		"Network security group %[1]s cannot be deleted because it is in use by the following " +
			"resources: %[2]s. In order to delete the Network security group, remove the " +
			"association with the resource(s). To learn how to do this, see aka.ms/deletensg."},
	arm.TypeNATGateway: {"CannotDeleteNatGatewayAssociatedToSubnet",
		"NAT Gateway %[1]s is still configured on %[3]d subnets. Remove NAT Gateway from all " +
			"referenced subnets and then delete NAT Gateway."},
	arm.TypePublicIP: {"PublicIPAddressCannotBeDeleted",
		"Public IP address %[1]s can not be deleted since it is still allocated to resource " +
			"%[2]s. In order to delete the public IP, disassociate/detach the Public IP address " +
			"from the resource. To learn how to do this, see aka.ms/deletepublicip."},
	arm.TypeInterface: {"NicInUse", "Network Interface %[1]s is used by existing resource " +
		"%[2]s. In order to delete the network interface, it must be dissociated from the " +
		"resource. To learn more, see aka.ms/deletenic."},
	// [U] the code
	TypeEndpointPolicy: {"InUseServiceEndpointPolicyCannotBeDeleted",
		"Service endpoint policy %[1]s is in use by %[2]s and cannot be deleted."},
}

// reference is one link in a document.
type reference struct {
	Link   link
	Holder arm.ID        // the resource, or its named part, that has the link
	Part   kernel.Object // the properties of that part, or of the resource
	at     kernel.Object // the object whose id is the target's
}

func (r reference) Target() arm.ID { return arm.ID(kernel.Text(r.at, "id")) }

// ReferencesIn finds the links in a document.
func ReferencesIn(id arm.ID, body kernel.Object) []reference {
	var out []reference
	kind := id.Type()
	for _, l := range Links {
		if strings.EqualFold(kind, l.from) {
			properties := kernel.ObjectAt(body, "properties")
			out = append(out, follow(l, strings.Split(l.path, "."), id, properties, properties)...)
		}
	}
	return out
}

func follow(l link, path []string, holder arm.ID, part, at kernel.Object) []reference {
	name, isList := strings.CutSuffix(path[0], "[]")
	last := len(path) == 1
	var out []reference
	switch {
	case last && isList:
		for _, item := range kernel.ListAt(at, name) {
			out = append(out, reference{l, holder, part, item})
		}
	case last:
		if o, present := at[name].(kernel.Object); present {
			out = append(out, reference{l, holder, part, o})
		}
	case isList:
		for _, item := range kernel.ListAt(at, name) {
			if p := kernel.ObjectAt(item, "properties"); p != nil {
				out = append(out,
					follow(l, path[1:], holder.Child(name, kernel.Text(item, "name")), p, p)...)
			}
		}
	default:
		out = follow(l, path[1:], holder, part, kernel.ObjectAt(at, name))
	}
	return out
}

// SettleLinks checks the links of a document, and changes the IDs to the spelling of the linked
// resources.
func (s *Network) SettleLinks(r *kernel.Resource, location string) *kernel.Failure {
	kind := r.ID.Type()
	for _, l := range Links { // null means the same as an absent field
		if properties := r.Properties(); strings.EqualFold(kind, l.from) &&
			!strings.ContainsAny(l.path, ".[") {
			if properties[l.path] == nil {
				delete(properties, l.path)
			} else if _, isObject := properties[l.path].(kernel.Object); !isObject {
				return kernel.Unparsable("%s of %s has no id.", l.path, r.ID.Name())
			}
		}
	}
	for _, ref := range ReferencesIn(r.ID, r.Body) {
		if ref.Target() == "" {
			return kernel.Unparsable("a reference of %s has no id.", ref.Holder)
		}
		target := s.kernel.Store.Get(ref.Target())
		if target == nil || !target.ID.Is(ref.Link.To) || s.locationOf(target) != location {
			if target == nil && (r.ID.Is(arm.TypeNATGateway) || r.ID.Is(arm.TypePublicIP)) {
				return referenceMissing(ref.Target())
			}
			return invalidReference(ref.Target(), r.ID)
		}
		for _, other := range s.Linked[target.ID.Key()] {
			if code := exclusive[ref.Link.To]; code != "" && !other.Equal(ref.Holder) {
				return kernel.Bad(code, "Resource %s is referencing %s that is already allocated "+
					"to resource %s.", r.ID, target.ID, other)
			}
		}
		if ref.Link.from != arm.TypeVM { // a VM marks its primary interface in its links
			clear(ref.at)
		}
		ref.at["id"] = string(target.ID)
	}
	return nil
}

// invalidReference refuses a document with an ID that does not exist.
func invalidReference(target, from arm.ID) *kernel.Failure {
	f := kernel.Bad("InvalidResourceReference", "Resource %s referenced by resource %s was not "+
		"found. Please make sure that the referenced resource exists, and that both "+
		"resources are in the same region.", target, from)
	f.Details = []any{
		kernel.Object{"code": "NotFound", "message": fmt.Sprintf("Resource %s not found.", target)}}
	return f
}

// referenceMissing returns the same refusal by NAT gateways and public IP addresses, in upper case.
func referenceMissing(target arm.ID) *kernel.Failure {
	return kernel.Fail(http.StatusNotFound, "NotFound", "Resource %s not found.",
		ShownConfiguration(target, true))
}

// exclusive is the code of a second link to a resource that allows only one.
var exclusive = map[string]string{arm.TypePublicIP: "PublicIPAddressInUse",
	arm.TypeInterface: "NicInUse"}

// locationOf returns a resource's region; a child has its parent's.
func (s *Network) locationOf(r *kernel.Resource) string {
	for r != nil && kernel.Text(r.Body, "location") == "" && strings.Count(r.ID.Type(), "/") > 1 {
		r = s.kernel.Store.Get(r.ID.Parent())
	}
	if r == nil {
		return ""
	}
	return kernel.Text(r.Body, "location")
}

// users returns the resources that link to a resource, or their parts that do, sorted.
func (s *Network) users(of arm.ID) []arm.ID {
	linked := s.Linked[of.Key()]
	var all []arm.ID
	for _, key := range slices.Sorted(maps.Keys(linked)) {
		all = append(all, linked[key])
	}
	return all
}

// backNames returns the fields in which resources of a type show who links to them. Only Azure
// writes these fields.
func backNames(resourceType string) []string {
	var names []string
	for _, l := range Links {
		if strings.EqualFold(l.To, resourceType) && l.Back != "" {
			names = append(names, strings.TrimSuffix(l.Back, "[]"))
		}
	}
	return names
}

// ShowBack adds the back links to a document.
func (s *Network) ShowBack(r *kernel.Resource, doc kernel.Object) {
	properties := kernel.ObjectAt(doc, "properties")
	for _, holder := range s.users(r.ID) {
		for _, l := range Links {
			if !r.ID.Is(l.To) || !holder.Is(l.holderType()) {
				continue
			}
			name, isList := strings.CutSuffix(l.Back, "[]")
			if name == "" {
				continue
			}
			if isList {
				shown, _ := properties[name].([]any)
				properties[name] = append(shown, arm.Link(holder))
			} else {
				properties[name] = arm.Link(holder)
			}
			break
		}
	}
}

// holderType returns the type of the link's holder.
func (l link) holderType() string {
	out := l.from
	for _, name := range strings.Split(l.path, ".") {
		list, isList := strings.CutSuffix(name, "[]")
		if isList && !strings.HasSuffix(l.path, name) {
			out += "/" + list
		}
	}
	return out
}

// Unlinked refuses to delete a linked resource.
func (s *Network) Unlinked(r *kernel.Resource) *kernel.Failure {
	refusal, known := inUse[s.kernel.KindName(r.ID)]
	if len(s.Linked[r.ID.Key()]) == 0 || !known {
		return nil
	}
	var by []string
	for _, holder := range s.users(r.ID) {
		by = append(by, string(holder))
	}
	return kernel.Bad(refusal[0], "%s",
		fmt.Sprintf(refusal[1], r.ID, strings.Join(by, ", "), len(by)))
}

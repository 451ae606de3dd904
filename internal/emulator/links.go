package emulator

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// The types of the network that only this package handles.
const (
	typeNSG            = "Microsoft.Network/networkSecurityGroups"
	typeNAT            = "Microsoft.Network/natGateways"
	typePublicIP       = "Microsoft.Network/publicIPAddresses"
	typeNIC            = "Microsoft.Network/networkInterfaces"
	typePeering        = "Microsoft.Network/virtualNetworks/virtualNetworkPeerings"
	typeEndpointPolicy = "Microsoft.Network/serviceEndpointPolicies"
	typeFirewall       = "Microsoft.Network/azureFirewalls"
	typeVPNGateway     = "Microsoft.Network/virtualNetworkGateways"
	typeBastion        = "Microsoft.Network/bastionHosts"
	typeLoadBalancer   = "Microsoft.Network/loadBalancers"
	typeWatcher        = "Microsoft.Network/networkWatchers"
	typeVM             = "Microsoft.Compute/virtualMachines"
)

// link is a place in the documents of one type that names a resource of another.
type link struct {
	from string
	// path leads there from properties. A name with [] is a list: of references where the path
	// ends, of parts with a name and properties of their own where it goes on.
	path string
	to   string
	// back is where the other one shows who names it: in a list with [], or as the only one.
	// Subnets show who holds their addresses instead.
	back string
}

// takes reports whether the link takes an address from the subnet it leads to; in a scale set's,
// one for each instance.
func (l link) takes() bool { return l.to == arm.TypeSubnet }

// links are all there are. What is linked must exist, in the same region, and cannot be deleted.
var links = []link{
	{arm.TypeSubnet, "routeTable", arm.TypeRouteTable, "subnets[]"},
	{arm.TypeSubnet, "networkSecurityGroup", typeNSG, "subnets[]"},
	{arm.TypeSubnet, "natGateway", typeNAT, "subnets[]"},
	{arm.TypeSubnet, "serviceEndpointPolicies[]", typeEndpointPolicy, "subnets[]"},
	{typeNIC, "networkSecurityGroup", typeNSG, "networkInterfaces[]"},
	{typeNIC, "ipConfigurations[].subnet", arm.TypeSubnet, ""},
	{typeNIC, "ipConfigurations[].publicIPAddress", typePublicIP, "ipConfiguration"},
	{typeNAT, "publicIpAddresses[]", typePublicIP, "natGateway"},
	{typeVM, "networkProfile.networkInterfaces[]", typeNIC, "virtualMachine"},
	{arm.TypeScaleSet,
		"virtualMachineProfile.networkProfile.networkInterfaceConfigurations[].ipConfigurations[].subnet", arm.TypeSubnet, ""},
	{arm.TypeScaleSet,
		"virtualMachineProfile.networkProfile.networkInterfaceConfigurations[].networkSecurityGroup", typeNSG, ""},
	{arm.TypeGateway, "gatewayIPConfigurations[].subnet", arm.TypeSubnet,
		"applicationGatewayIPConfigurations[]"},
	{arm.TypeGateway, "frontendIPConfigurations[].subnet", arm.TypeSubnet, ""},
	{arm.TypeGateway, "frontendIPConfigurations[].publicIPAddress", typePublicIP,
		"ipConfiguration"},
	{typeLoadBalancer, "frontendIPConfigurations[].subnet", arm.TypeSubnet, ""},
	{typeLoadBalancer, "frontendIPConfigurations[].publicIPAddress", typePublicIP,
		"ipConfiguration"},
	{typeFirewall, "ipConfigurations[].subnet", arm.TypeSubnet, ""},
	{typeFirewall, "ipConfigurations[].publicIPAddress", typePublicIP, "ipConfiguration"},
	{typeVPNGateway, "ipConfigurations[].subnet", arm.TypeSubnet, ""},
	{typeVPNGateway, "ipConfigurations[].publicIPAddress", typePublicIP, "ipConfiguration"},
	{typeBastion, "ipConfigurations[].subnet", arm.TypeSubnet, ""},
	{typeBastion, "ipConfigurations[].publicIPAddress", typePublicIP, "ipConfiguration"},
}

// inUse is how Azure refuses to delete what is linked: the code, and the message with the resource,
// who uses it, and how many they are.
var inUse = map[string][2]string{
	arm.TypeRouteTable: {"InUseRouteTableCannotBeDeleted",
		"Route table %[1]s is in use and cannot be deleted. It is associated with subnet %[2]s."},
	typeNSG: {"InUseNetworkSecurityGroupCannotBeDeleted", "Network security group %[1]s cannot " +
		"be deleted because it is in use by the following resources: %[2]s. " +
		"In order to delete the Network security group, remove the association with the " +
		"resource(s). To learn how to do this, see aka.ms/deletensg."},
	typeNAT: {"CannotDeleteNatGatewayAssociatedToSubnet", "NAT Gateway %[1]s is still configured " +
		"on %[3]d subnets. Remove NAT Gateway from all referenced subnets and then delete NAT " +
		"Gateway."},
	typePublicIP: {"PublicIPAddressCannotBeDeleted", "Public IP address %[1]s can not be deleted " +
		"since it is still allocated to resource %[2]s. " +
		"In order to delete the public IP, disassociate/detach the Public IP address from the " +
		"resource. To learn how to do this, see aka.ms/deletepublicip."},
	typeNIC: {"NicInUse", "Network Interface %[1]s is used by existing resource %[2]s. In order " +
		"to delete the network interface, it must be dissociated from the resource. To learn " +
		"more, see aka.ms/deletenic."},
	// [U] the code
	typeEndpointPolicy: {"InUseServiceEndpointPolicyCannotBeDeleted",
		"Service endpoint policy %[1]s is in use by %[2]s and cannot be deleted."},
}

// reference is one link in a document.
type reference struct {
	link   link
	holder arm.ID // the resource, or the named part of it, that holds the link
	part   object // the properties of that part, or of the resource
	at     object // the object whose id is the target's
}

func (r reference) target() arm.ID { return arm.ID(text(r.at, "id")) }

// referencesIn finds the links in a document.
func referencesIn(id arm.ID, body object) []reference {
	var out []reference
	for _, l := range links {
		if id.Is(l.from) {
			properties := objectAt(body, "properties")
			out = append(out, follow(l, strings.Split(l.path, "."), id, properties, properties)...)
		}
	}
	return out
}

func follow(l link, path []string, holder arm.ID, part, at object) []reference {
	name, isList := strings.CutSuffix(path[0], "[]")
	last := len(path) == 1
	var out []reference
	switch {
	case last && isList:
		for _, item := range listAt(at, name) {
			out = append(out, reference{l, holder, part, item})
		}
	case last:
		if o, present := at[name].(object); present {
			out = append(out, reference{l, holder, part, o})
		}
	case isList:
		for _, item := range listAt(at, name) {
			if p := objectAt(item, "properties"); p != nil {
				out = append(out, follow(l, path[1:], holder.Child(name, text(item, "name")), p,
					p)...)
			}
		}
	default:
		out = follow(l, path[1:], holder, part, objectAt(at, name))
	}
	return out
}

// settleLinks checks what a document links to, and spells the IDs as the linked resources do.
func (s *network) settleLinks(r *resource, location string) *failure {
	for _, l := range links { // null is the same as nothing
		if properties := objectAt(r.body, "properties"); r.id.Is(l.from) &&
			!strings.ContainsAny(l.path, ".[") {
			if properties[l.path] == nil {
				delete(properties, l.path)
			} else if _, isObject := properties[l.path].(object); !isObject {
				return fail(http.StatusBadRequest, "InvalidRequestFormat",
					"Cannot parse the request: %s of %s has no id.", l.path, r.id.Name())
			}
		}
	}
	for _, ref := range referencesIn(r.id, r.body) {
		if ref.target() == "" {
			return fail(http.StatusBadRequest, "InvalidRequestFormat",
				"Cannot parse the request: a reference of %s has no id.", ref.holder)
		}
		target := s.kernel.store.get(ref.target())
		if target == nil || !target.id.Is(ref.link.to) || s.locationOf(target) != location {
			if target == nil && (r.id.Is(typeNAT) || r.id.Is(typePublicIP)) {
				return referenceMissing(ref.target())
			}
			return invalidReference(ref.target(), r.id)
		}
		for _, other := range s.linked[target.id.Key()] {
			if code := exclusive[ref.link.to]; code != "" && !other.Equal(ref.holder) {
				return fail(http.StatusBadRequest, code,
					"Resource %s is referencing %s that is already allocated to resource %s.", r.id,
					target.id, other)
			}
		}
		if ref.link.from != typeVM { // which says there which of its interfaces is the primary one
			clear(ref.at)
		}
		ref.at["id"] = string(target.id)
	}
	return nil
}

// invalidReference refuses a document that names what is not there.
func invalidReference(target, from arm.ID) *failure {
	f := fail(http.StatusBadRequest, "InvalidResourceReference",
		"Resource %s referenced by resource %s was not found. Please make sure that the "+
			"referenced resource exists, and that both resources are in the same region.", target,
		from)
	f.details = []any{
		object{"code": "NotFound", "message": fmt.Sprintf("Resource %s not found.", target)}}
	return f
}

// referenceMissing is the same refusal by NAT gateways and public IP addresses, which shout.
func referenceMissing(target arm.ID) *failure {
	return fail(http.StatusNotFound, "NotFound", "Resource %s not found.",
		shownConfiguration(target, true))
}

// exclusive is the code of a second link to what only one may link to.
var exclusive = map[string]string{typePublicIP: "PublicIPAddressInUse", typeNIC: "NicInUse"}

// locationOf is a resource's region; a child has its parent's.
func (s *network) locationOf(r *resource) string {
	for r != nil && text(r.body, "location") == "" && strings.Count(r.id.Type(), "/") > 1 {
		r = s.kernel.store.get(r.id.Parent())
	}
	if r == nil {
		return ""
	}
	return text(r.body, "location")
}

// dropBack removes what only Azure may say: who links to the resource.
func (s *network) dropBack(r *resource) {
	for _, l := range links {
		if r.id.Is(l.to) {
			delete(objectAt(r.body, "properties"), strings.TrimSuffix(l.back, "[]"))
		}
	}
}

// showBack adds to a document who links to it.
func (s *network) showBack(r *resource, doc object) {
	users := s.linked[r.id.Key()]
	if len(users) == 0 {
		return
	}
	properties := objectAt(doc, "properties")
	for _, key := range slices.Sorted(maps.Keys(users)) {
		holder := users[key]
		for _, l := range links {
			if !r.id.Is(l.to) || !holder.Is(l.holderType()) {
				continue
			}
			name, isList := strings.CutSuffix(l.back, "[]")
			if name == "" {
				continue
			}
			if isList {
				shown, _ := properties[name].([]any)
				properties[name] = append(shown, object{"id": string(holder)})
			} else {
				properties[name] = object{"id": string(holder)}
			}
			break
		}
	}
}

// holderType is the type of what holds the link.
func (l link) holderType() string {
	before, _, found := strings.Cut(l.path, "[].")
	if !found {
		return l.from
	}
	return l.from + "/" + before
}

// unlinked refuses to delete what is linked.
func (s *network) unlinked(r *resource) *failure {
	users := s.linked[r.id.Key()]
	refusal, known := inUse[s.kernel.kindName(r.id)]
	if len(users) == 0 || !known {
		return nil
	}
	var by []string
	for _, key := range slices.Sorted(maps.Keys(users)) {
		by = append(by, string(users[key]))
	}
	return fail(http.StatusBadRequest, refusal[0], "%s",
		fmt.Sprintf(refusal[1], r.id, strings.Join(by, ", "), len(by)))
}

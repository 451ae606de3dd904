package emulator

import (
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

const (
	typePrivateZone     = "Microsoft.Network/privateDnsZones"
	typePrivateZoneLink = typePrivateZone + "/virtualNetworkLinks"
	typePrivateRecord   = typePrivateZone + "/A"
	typePrivateEndpoint = "Microsoft.Network/privateEndpoints"
)

// settlePrivateZoneLink notes that a link is there at once.
func (s *network) settlePrivateZoneLink(c *call, r, old *resource) *failure {
	p := objectAt(r.body, "properties")
	network := arm.ID(text(objectAt(p, "virtualNetwork"), "id"))
	if found := s.kernel.store.get(network); found == nil || !network.Is(arm.TypeVNet) {
		return referenceMissing(network)
	}
	setDefault(p, "registrationEnabled", false)
	p["virtualNetworkLinkState"] = "Completed"
	return nil
}

// settlePrivateRecord gives a record set its full name.
func (s *network) settlePrivateRecord(c *call, r, old *resource) *failure {
	p := objectAt(r.body, "properties")
	setDefault(p, "ttl", 3600)
	p["fqdn"], p["isAutoRegistered"] = r.id.Name()+"."+r.id.Parent().Name()+".", false
	return nil
}

// settlePrivateEndpoint refuses an endpoint without a subnet.
func (s *network) settlePrivateEndpoint(c *call, r, old *resource) *failure {
	subnet := linkOf(r.body, "subnet")
	if s.kernel.store.get(subnet) == nil {
		return referenceMissing(subnet)
	}
	return nil
}

// storedPrivateEndpoint makes the network interface with which an endpoint has its address
// (recorded).
func (s *network) storedPrivateEndpoint(c *call, r, old *resource) *failure {
	properties := objectAt(r.body, "properties")
	nic := endpointInterface(r)
	properties["networkInterfaces"] = []any{object{"id": string(nic)}}
	if s.kernel.store.get(nic) != nil {
		return nil
	}
	group := ""
	for _, connection := range listAt(properties, "privateLinkServiceConnections") {
		for _, id := range list(objectAt(connection, "properties"), "groupIds") {
			group = id
		}
	}
	configuration := object{
		"subnet": object{"id": string(linkOf(r.body, "subnet"))},
		"privateLinkConnectionProperties": object{"groupId": group, "requiredMemberName": group,
			"fqdns": []any{}},
	}
	_, f := s.kernel.putResource(c, nic, object{
		"location": r.body["location"], "managedBy": string(r.id), "properties": object{
			"privateEndpoint": object{"id": string(r.id)}, "macAddress": "",
			"auxiliaryMode": "None", "ipConfigurations": []any{object{
				"name":       "privateEndpointIpConfig." + guidOf("configuration", r.id),
				"properties": configuration}},
		},
	})
	return f
}

// privateEndpointRemoved takes an endpoint's interface away with it.
func (s *network) privateEndpointRemoved(r *resource) {
	if nic := s.kernel.store.get(endpointInterface(r)); nic != nil {
		s.leaveSeats(nic)
		s.kernel.store.remove(nic.id)
	}
}

// showEndpoints adds to a subnet its private endpoints.
func (s *network) showEndpoints(subnet *resource, properties object) {
	var all []any
	for _, endpoint := range s.kernel.store.list(typePrivateEndpoint, "") {
		if linkOf(endpoint.body, "subnet").Equal(subnet.id) {
			all = append(all, object{"id": shownConfiguration(endpoint.id,
				sinceDate(subnet.asOf, shoutedSince))})
		}
	}
	if all != nil {
		properties["privateEndpoints"] = all
	}
}

// endpointInterface is the interface of a private endpoint.
func endpointInterface(endpoint *resource) arm.ID {
	name := text(objectAt(endpoint.body, "properties"), "customNetworkInterfaceName")
	if name == "" {
		name = endpoint.id.Name() + ".nic." + guidOf("interface", endpoint.id)
	}
	return arm.ResourceID(endpoint.id.Subscription(), endpoint.id.ResourceGroup(), typeNIC, name)
}

// privateEndpointFacts are of private endpoints.
var privateEndpointFacts = append(emptyLists(nil, "properties.ipConfigurations",
	"properties.customDnsConfigs", "properties.manualPrivateLinkServiceConnections"),
	fact{path: "properties.customNetworkInterfaceName", value: ""},
	fact{
		path: "properties.privateLinkServiceConnections[].properties." +
			"privateLinkServiceConnectionState",
		value: object{"status": "Approved", "description": "Auto-Approved",
			"actionsRequired": "None"},
	})

// endpointAddress is where a private endpoint answers.
func (s *network) endpointAddress(endpoint arm.ID) string {
	of := s.kernel.store.get(endpoint)
	if of == nil {
		return ""
	}
	nic := s.kernel.store.get(endpointInterface(of))
	if nic == nil {
		return ""
	}
	for _, c := range listAt(objectAt(nic.body, "properties"), "ipConfigurations") {
		return text(objectAt(c, "properties"), "privateIPAddress")
	}
	return ""
}

// resolve is what Azure's DNS says of a name to who asks in a virtual network: the records of the
// private zones that are linked to that network. found is false for a name that it does not know.
func (s *network) resolve(name string, vnet arm.ID) (zone arm.ID, addresses []netip.Addr,
	found bool) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for _, link := range s.kernel.store.list(typePrivateZoneLink, "") {
		z := link.id.Parent()
		at := arm.ID(text(objectAt(link.body, "properties", "virtualNetwork"), "id"))
		host, within := strings.CutSuffix(name, "."+strings.ToLower(z.Name()))
		if !at.Equal(vnet) || !within || len(z.Name()) < len(zone.Name()) {
			continue
		}
		zone, addresses, found = z, nil, false // the longest zone decides, also that there is none
		if record := s.kernel.store.get(z.Child("A", host)); record != nil {
			found = true
			for _, a := range listAt(objectAt(record.body, "properties"), "aRecords") {
				if addr, err := netip.ParseAddr(text(a, "ipv4Address")); err == nil {
					addresses = append(addresses, addr)
				}
			}
		}
	}
	return zone, addresses, found
}

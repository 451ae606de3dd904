package network

import (
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const (
	TypePrivateZone     = "Microsoft.Network/privateDnsZones"
	TypePrivateZoneLink = TypePrivateZone + "/virtualNetworkLinks"
	TypePrivateEndpoint = "Microsoft.Network/privateEndpoints"
)

// zones are the private DNS zones.
type zones struct{ *Network }

// privateZoneNames are the properties of private DNS zones.
const privateZoneNames = " virtualNetwork registrationEnabled resolutionPolicy ttl metadata*" +
	" aRecords ipv4Address aaaaRecords ipv6Address cnameRecord cname mxRecords preference" +
	" exchange ptrRecords ptrdname soaRecord host email serialNumber refreshTime retryTime" +
	" expireTime minimumTtl srvRecords weight txtRecords numberOfRecordSets!" +
	" numberOfVirtualNetworkLinks! numberOfVirtualNetworkLinksWithRegistration!"

// settlePrivateZoneLink marks a link as complete at once.
func (s zones) settlePrivateZoneLink(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	p := r.Properties()
	network := kernel.LinkOf(r.Body, "virtualNetwork")
	if found := s.kernel.Store.Get(network); found == nil || !network.Is(arm.TypeVNet) {
		return referenceMissing(network)
	}
	kernel.SetDefault(p, "registrationEnabled", false)
	p["virtualNetworkLinkState"] = "Completed"
	return nil
}

// settlePrivateRecord gives a record set its full name.
func settlePrivateRecord(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	p := r.Properties()
	kernel.SetDefault(p, "ttl", 3600)
	name, zone := r.ID.Name()+".", r.ID.Parent().Name()+"."
	if name == "@." { // the zone itself
		name = ""
	}
	p["fqdn"], p["isAutoRegistered"] = name+zone, false
	return nil
}

// storedPrivateZone gives a new zone its start of authority, as Azure does: azurerm reads it with
// the zone.
func (s zones) storedPrivateZone(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	authority := r.ID.Child("SOA", "@")
	if s.kernel.Store.Get(authority) != nil {
		return nil
	}
	_, f := s.kernel.PutResource(c, authority, kernel.Object{"properties": kernel.Object{
		"soaRecord": kernel.Object{"host": "azureprivatedns.net",
			"email": "azureprivatedns-host.microsoft.com", "serialNumber": 1, "refreshTime": 3600,
			"retryTime": 300, "expireTime": 2419200, "minimumTtl": 10},
	}})
	return f
}

// showPrivateZone counts a zone's records and links (recorded).
func (s zones) showPrivateZone(r *kernel.Resource, doc kernel.Object, version string) {
	links, registering, all := 0, 0, s.kernel.Store.Below(r.ID)
	for _, child := range all {
		if child.ID.Is(TypePrivateZoneLink) {
			links++
			if child.Properties()["registrationEnabled"] == true {
				registering++
			}
		}
	}
	p := kernel.ObjectAt(doc, "properties")
	p["numberOfRecordSets"], p["numberOfVirtualNetworkLinks"] = len(all)-links, links
	p["numberOfVirtualNetworkLinksWithRegistration"] = registering
}

// authorityStays refuses to delete a zone's start of authority; code [U].
func authorityStays(r *kernel.Resource) *kernel.Failure {
	if !strings.HasSuffix(strings.ToUpper(r.ID.Type()), "/SOA") {
		return nil
	}
	return kernel.Bad("BadRequest",
		"The record set of type SOA of zone %s cannot be deleted.", r.ID.Parent().Name())
}

// linksFirst refuses to delete a zone with links; code and wording [U].
func (s zones) linksFirst(r *kernel.Resource) *kernel.Failure {
	if len(s.kernel.Store.List(TypePrivateZoneLink, r.ID)) == 0 {
		return nil
	}
	return kernel.Fail(http.StatusConflict, "CannotDeleteResource",
		"Can not delete resource before nested resources are deleted.")
}

// privateZoneFacts are of private DNS zones (recorded).
var privateZoneFacts = []kernel.Fact{
	{Path: "properties.maxNumberOfRecordSets", Value: 25000},
	{Path: "properties.maxNumberOfVirtualNetworkLinks", Value: 1000},
	{Path: "properties.maxNumberOfVirtualNetworkLinksWithRegistration", Value: 100},
}

// PrivateRecords are the types of record sets.
var PrivateRecords = []string{TypePrivateZone + "/A", TypePrivateZone + "/AAAA",
	TypePrivateZone + "/CNAME", TypePrivateZone + "/MX", TypePrivateZone + "/PTR",
	TypePrivateZone + "/SOA", TypePrivateZone + "/SRV", TypePrivateZone + "/TXT"}

func privateRecords() []kernel.Kind {
	var kinds []kernel.Kind
	for _, name := range PrivateRecords {
		kinds = append(kinds, kernel.Kind{Name: name, Immediate: true,
			Settle: settlePrivateRecord, Removable: authorityStays,
			ReadOnly: []string{"fqdn", "isAutoRegistered"}})
	}
	return kinds
}

// endpoints are the private endpoints.
type endpoints struct{ *Network }

// settlePrivateEndpoint refuses an endpoint without a subnet.
func (s endpoints) settlePrivateEndpoint(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	subnet := kernel.LinkOf(r.Body, "subnet")
	if s.kernel.Store.Get(subnet) == nil {
		return referenceMissing(subnet)
	}
	keepGUID(r, old)
	return nil
}

// storedPrivateEndpoint makes the network interface with which an endpoint has its address
// (recorded).
func (s endpoints) storedPrivateEndpoint(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	nic := endpointInterface(r)
	properties["networkInterfaces"] = []any{arm.Link(nic)}
	s.touchLinked(r)
	if s.kernel.Store.Get(nic) != nil {
		return nil
	}
	group, names := "", []any{}
	for _, connection := range kernel.ListAt(properties, "privateLinkServiceConnections") {
		p := kernel.ObjectAt(connection, "properties")
		for _, id := range kernel.List(p, "groupIds") {
			group, names = id, hostNames(arm.ID(kernel.Text(p, "privateLinkServiceId")), id)
		}
	}
	configuration := kernel.Object{
		"subnet": arm.Link(kernel.LinkOf(r.Body, "subnet")),
		"privateLinkConnectionProperties": kernel.Object{"groupId": group,
			"requiredMemberName": group,
			"fqdns":              names},
	}
	_, f := s.kernel.PutResource(c, nic, kernel.Object{
		"location": r.Body["location"], "managedBy": string(r.ID), "properties": kernel.Object{
			"privateEndpoint": arm.Link(r.ID), "macAddress": "",
			"auxiliaryMode": "None", "ipConfigurations": []any{kernel.Object{
				"name":       "privateEndpointIpConfig." + kernel.GuidOf("configuration", r.ID),
				"properties": configuration}},
		},
	})
	return f
}

// storageGroups are the parts of a storage account that have names below core.windows.net.
var storageGroups = []string{"blob", "table", "queue", "file", "dfs"}

// hostNames returns the host names that resolve to an endpoint's address
// (private-link/private-endpoint-dns).
func hostNames(target arm.ID, group string) []any {
	group = strings.ToLower(group)
	switch {
	case target.Is("Microsoft.Storage/storageAccounts") && slices.Contains(storageGroups, group):
		return []any{strings.ToLower(target.Name()) + "." + group + ".core.windows.net"}
	case target.Is("Microsoft.KeyVault/vaults") && group == "vault":
		return []any{strings.ToLower(target.Name()) + ".vault.azure.net"}
	}
	return []any{}
}

// privateEndpointRemoved deletes an endpoint's interface together with it.
func (s endpoints) privateEndpointRemoved(r *kernel.Resource) {
	s.touchLinked(r)
	if nic := s.kernel.Store.Get(endpointInterface(r)); nic != nil {
		s.Addresses.Leave(nic)
		s.kernel.Store.Remove(nic.ID)
	}
}

// touchLinked renders the resources again that show a private endpoint.
func (s endpoints) touchLinked(endpoint *kernel.Resource) {
	for _, connection := range kernel.ListAt(endpoint.Properties(),
		"privateLinkServiceConnections") {
		s.kernel.Store.Touch(arm.ID(kernel.Text(connection, "properties", "privateLinkServiceId")))
	}
}

// showEndpoints adds to a subnet its private endpoints.
func showEndpoints(s *Network, subnet *kernel.Resource, properties kernel.Object) {
	var all []any
	for _, endpoint := range s.kernel.Store.List(TypePrivateEndpoint, "") {
		if kernel.LinkOf(endpoint.Body, "subnet").Equal(subnet.ID) {
			all = append(all, kernel.Object{"id": ShownConfiguration(endpoint.ID,
				kernel.SinceDate(subnet.AsOf, upperCaseSince))})
		}
	}
	if all != nil {
		properties["privateEndpoints"] = all
	}
}

// endpointInterface returns the interface of a private endpoint.
func endpointInterface(endpoint *kernel.Resource) arm.ID {
	name := kernel.Text(endpoint.Properties(), "customNetworkInterfaceName")
	if name == "" {
		name = endpoint.ID.Name() + ".nic." + kernel.GuidOf("interface", endpoint.ID)
	}
	return arm.ResourceID(endpoint.ID.Subscription(), endpoint.ID.ResourceGroup(),
		arm.TypeInterface, name)
}

// privateEndpointFacts are of private endpoints.
var privateEndpointFacts = append(kernel.EmptyLists(nil, "properties.ipConfigurations",
	"properties.customDnsConfigs", "properties.manualPrivateLinkServiceConnections"),
	kernel.Fact{Path: "properties.customNetworkInterfaceName", Value: ""},
	kernel.Fact{
		Path: "properties.privateLinkServiceConnections[].properties." +
			"privateLinkServiceConnectionState",
		Value: func(s kernel.Sight) any {
			return approvedState(arm.ID(kernel.Text(s.At, "privateLinkServiceId")))
		},
	})

// EndpointAddress returns where a private endpoint answers.
func (s *Network) EndpointAddress(endpoint arm.ID) string {
	of := s.kernel.Store.Get(endpoint)
	if of == nil {
		return ""
	}
	nic := s.kernel.Store.Get(endpointInterface(of))
	if nic == nil {
		return ""
	}
	for _, c := range kernel.ListAt(nic.Properties(), "ipConfigurations") {
		return kernel.Text(c, "properties", "privateIPAddress")
	}
	return ""
}

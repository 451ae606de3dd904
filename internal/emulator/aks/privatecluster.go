package aks

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// This file has the parts by which a private cluster is found in its network (private-clusters): a
// private endpoint named kube-apiserver in a node subnet, a private DNS zone with its record, and a
// link of the zone to the network of the nodes. All of this is in the node resource group. A
// bring-your-own zone gets the record and the link. With the zone "none" there is only a public
// name.

// privateZone returns the zone with a private cluster's name, or "".
func privateZone(cluster arm.ID, properties kernel.Object) arm.ID {
	switch zone := kernel.Text(properties, "apiServerAccessProfile", "privateDNSZone"); {
	case strings.EqualFold(zone, "none"):
		return ""
	case strings.HasPrefix(zone, "/"):
		return arm.ID(zone)
	}
	return arm.ResourceID(cluster.Subscription(), kernel.Text(properties, "nodeResourceGroup"),
		network.TypePrivateZone, kernel.GuidOf("zone", cluster)+".privatelink."+apiServerDomain)
}

// privateName returns the name of a private cluster's API server in its network, or "".
func privateName(cluster arm.ID, properties kernel.Object) string {
	zone := privateZone(cluster, properties)
	if zone == "" {
		return ""
	}
	return privateHost(cluster, properties) + "." + zone.Name()
}

// privateHost returns the name of the API server within its zone.
func privateHost(cluster arm.ID, properties kernel.Object) string {
	if sub := kernel.Text(properties, "fqdnSubdomain"); sub != "" {
		return sub
	}
	return kernel.Text(properties, "dnsPrefix") + "-" + DigitsOf(cluster)
}

// makePrivate makes the endpoint, the record and the zone's link of a private cluster.
func makePrivate(s *AKS, cl *cluster, r *kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	if !isPrivate(properties) || len(cl.Pools) == 0 {
		return nil
	}
	subnet := cl.Pools[0].Subnet
	endpoint := cl.inNodeGroup(network.TypePrivateEndpoint, "kube-apiserver")
	if f := s.createMissing(cl, endpoint, kernel.Object{"properties": kernel.Object{
		"subnet": arm.Link(subnet),
		"privateLinkServiceConnections": []any{kernel.Object{"name": "kube-apiserver",
			"properties": kernel.Object{"groupIds": []any{"management"},
				"privateLinkServiceId": string(cl.ID)}}},
	}}); f != nil {
		return f
	}
	zone := privateZone(cl.ID, properties)
	if zone == "" {
		return nil
	}
	own := zone.Group().Equal(cl.NodeGroup)
	if s.kernel.Store.Get(zone) == nil && !own {
		return kernel.Fail(400, "PrivateDNSZoneNotFound",
			"The private DNS zone %s of cluster %s was not found.", zone, cl.ID.Name()) // code [U]
	}
	if own {
		if f := s.createMissing(cl, zone, kernel.Object{"location": "global"}); f != nil {
			return f
		}
	}
	if f := s.createMissing(cl, zone.Child("A", privateHost(cl.ID, properties)), kernel.Object{
		"properties": kernel.Object{"ttl": 300, "aRecords": []any{
			kernel.Object{"ipv4Address": s.network.EndpointAddress(endpoint)}}}}); f != nil {
		return f
	}
	return s.createMissing(cl, cl.zoneLink(zone), kernel.Object{"location": "global",
		"properties": kernel.Object{"registrationEnabled": false,
			"virtualNetwork": arm.Link(subnet.Parent())}})
}

// zoneLink returns the link of a zone to the nodes' network.
func (cl *cluster) zoneLink(zone arm.ID) arm.ID {
	return zone.Child("virtualNetworkLinks", cl.ID.Name()+"-"+cl.Digits)
}

// leaveZone removes a cluster's record and link from a zone that AKS did not make for it.
func leaveZone(s *AKS, cl *cluster, r *kernel.Resource) {
	properties := r.Properties()
	zone := privateZone(cl.ID, properties)
	if !isPrivate(properties) || zone == "" || zone.Group().Equal(cl.NodeGroup) {
		return
	}
	for _, id := range []arm.ID{cl.zoneLink(zone),
		zone.Child("A", privateHost(cl.ID, properties))} {
		if own := s.kernel.Store.Get(id); own != nil {
			_ = s.kernel.RemoveResource(own) // nothing needs it
		}
	}
}

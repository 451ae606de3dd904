package emulator

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// How a private cluster is found in its network (private-clusters): a private endpoint named
// kube-apiserver in a node subnet, a private DNS zone with its record, and a link of the zone to
// the network of the nodes. All of it lies in the node resource group; a zone that is brought gets
// the record and the link, and with the zone "none" there is only a public name.

// privateZone is where a private cluster's name is: "" for none.
func (cl *cluster) privateZone(properties object) arm.ID {
	switch zone := text(objectAt(properties, "apiServerAccessProfile"), "privateDNSZone"); {
	case strings.EqualFold(zone, "none"):
		return ""
	case strings.HasPrefix(zone, "/"):
		return arm.ID(zone)
	}
	return arm.ResourceID(cl.id.Subscription(), cl.nodeGroup.Name(), typePrivateZone,
		privateZoneName(cl.id))
}

// privateZoneName is the zone that AKS makes for a cluster.
func privateZoneName(cluster arm.ID) string {
	return guidOf("zone", cluster) + ".privatelink." + apiServerDomain
}

// privateName is the name of a private cluster's API server in its network, "" where it has none.
func privateName(cluster arm.ID, properties object) string {
	zone := privateZoneName(cluster)
	switch asked := text(objectAt(properties, "apiServerAccessProfile"), "privateDNSZone"); {
	case strings.EqualFold(asked, "none"):
		return ""
	case strings.HasPrefix(asked, "/"):
		zone = arm.ID(asked).Name()
	}
	return privateHost(cluster, properties) + "." + zone
}

// privateHost is the name of the API server within its zone.
func privateHost(cluster arm.ID, properties object) string {
	if sub := text(properties, "fqdnSubdomain"); sub != "" {
		return sub
	}
	return text(properties, "dnsPrefix") + "-" + digitsOf(cluster)
}

// makePrivate makes what a private cluster is found by.
func (s *aks) makePrivate(cl *cluster, r *resource) *failure {
	properties := objectAt(r.body, "properties")
	if !isPrivate(properties) || len(cl.pools) == 0 {
		return nil
	}
	subnet := cl.pools[0].subnet
	endpoint := cl.apiEndpoint()
	if s.kernel.store.get(endpoint) == nil {
		if f := s.aksPut(cl, endpoint, object{"properties": object{
			"subnet": object{"id": string(subnet)},
			"privateLinkServiceConnections": []any{object{"name": "kube-apiserver",
				"properties": object{"groupIds": []any{"management"},
					"privateLinkServiceId": string(cl.id)}}},
		}}); f != nil {
			return f
		}
	}
	zone := cl.privateZone(properties)
	if zone == "" {
		return nil
	}
	own := zone.Group().Equal(cl.nodeGroup)
	if s.kernel.store.get(zone) == nil && !own {
		return fail(400, "PrivateDNSZoneNotFound", "The private DNS zone %s of cluster %s was "+
			"not found.", zone, cl.id.Name()) // code [U]
	}
	type write struct {
		id   arm.ID
		body object
	}
	writes := []write{
		{zone.Child("A", privateHost(cl.id, properties)), object{"properties": object{"ttl": 300,
			"aRecords": []any{object{"ipv4Address": s.kernel.network.endpointAddress(endpoint)}}}}},
		{cl.zoneLink(zone), object{"location": "global", "properties": object{
			"registrationEnabled": false,
			"virtualNetwork":      object{"id": string(subnet.Parent())}}}},
	}
	if own {
		writes = append([]write{{zone, object{"location": "global"}}}, writes...)
	}
	for _, w := range writes {
		if s.kernel.store.get(w.id) != nil {
			continue
		}
		if f := s.aksPut(cl, w.id, w.body); f != nil {
			return f
		}
	}
	return nil
}

// apiEndpoint is the private endpoint of a cluster's API server.
func (cl *cluster) apiEndpoint() arm.ID {
	return arm.ResourceID(cl.id.Subscription(), cl.nodeGroup.Name(), typePrivateEndpoint,
		"kube-apiserver")
}

// zoneLink is the link of a zone to the nodes' network.
func (cl *cluster) zoneLink(zone arm.ID) arm.ID {
	return zone.Child("virtualNetworkLinks", cl.id.Name()+"-"+cl.digits)
}

// leaveZone takes a cluster's record and link out of a zone that it has not made.
func (s *aks) leaveZone(cl *cluster, r *resource) {
	properties := objectAt(r.body, "properties")
	zone := cl.privateZone(properties)
	if !isPrivate(properties) || zone == "" || zone.Group().Equal(cl.nodeGroup) {
		return
	}
	for _, id := range []arm.ID{cl.zoneLink(zone),
		zone.Child("A", privateHost(cl.id, properties))} {
		if own := s.kernel.store.get(id); own != nil {
			_ = s.kernel.removeResource(own) // nothing needs it
		}
	}
}

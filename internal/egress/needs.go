package egress

import (
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// tags has the service tags of services that have a required name (service-tags-overview). No page
// says which tags contain the other names.
var tags = map[string]string{
	"mcr.microsoft.com":            "MicrosoftContainerRegistry",
	"management.azure.com":         "AzureResourceManager",
	"management.usgovcloudapi.net": "AzureResourceManager",
	"login.microsoftonline.com":    "AzureActiveDirectory",
	"login.microsoftonline.us":     "AzureActiveDirectory",
}

// Tags returns the service tags that contain the destination, according to Microsoft's pages.
func (n Name) Tags() (all []string) {
	if tag := tags[n.Name]; tag != "" {
		all = append(all, tag)
	}
	if n.service != "" {
		all = append(all, n.service, n.service+"."+n.region)
	}
	return all
}

// Needs returns the destinations outside the virtual network that a cluster's nodes must reach in
// any case: the DNS servers of their networks and the names of the table, apart from the API
// server. Clusters with outboundType none or block need no names (concepts-network-isolated).
func Needs(s *inventory.Snapshot, c *inventory.Cluster) (needs []Name) {
	read := s.Egress
	if read == nil {
		read = &inventory.Egress{}
	}
	about := subjectOf(s, read, c, netip.Addr{}, nil)
	for _, id := range s.NodeSubnetIDs(c) {
		if vnet := s.VNets[id.Parent().Key()]; vnet != nil {
			about.dns = append(about.dns, vnet.DNS...)
		}
	}
	slices.SortFunc(about.dns, netip.Addr.Compare)
	about.dns = slices.Compact(about.dns)
	isolated := strings.EqualFold(c.Outbound, "none") || strings.EqualFold(c.Outbound, "block")
	for _, n := range about.names() {
		_, notName := netip.ParseAddr(n.Name)
		server := strings.HasPrefix(n.Name, "*.hcp.") || strings.HasPrefix(n.Name, "*.tun.")
		if n.If == "" && !server && (notName == nil || !isolated) {
			needs = append(needs, n)
		}
	}
	return needs
}

// APIServer returns the public API server of a cluster as a destination of its nodes. ok is false
// if they reach the API server inside their network.
func APIServer(s *inventory.Snapshot, c *inventory.Cluster) (n Name, addresses []netip.Addr,
	ok bool) {
	if c.PrivateZone != "" || c.APISubnet != "" || len(c.Hosts) == 0 {
		return Name{}, nil, false
	}
	if s.Egress != nil {
		addresses = s.Egress.Addresses[c.Hosts[0]]
	}
	return Name{Name: c.Hosts[0], Port: "443", Protocol: "TCP", service: azureCloud,
		region: region(c.Location)}, addresses, true
}

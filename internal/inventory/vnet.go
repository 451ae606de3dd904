package inventory

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
)

// VNet is a virtual network.
type VNet struct {
	arm.Document
	Prefixes []netip.Prefix // its address space
	Peerings []Peering
	DNS      []netip.Addr // its own DNS servers; with none it uses Azure's
	// Subnets are those in its document. A snapshot can have newer ones.
	Subnets []*Subnet
}

// GuardPauseTag is the tag of a virtual network that pauses the guard of its subnets until the time
// in its value.
const GuardPauseTag = "routekeeper-guard-paused-until"

// Peering is a virtual network's side of a peering.
type Peering struct {
	Name   string
	Remote arm.ID
	// Prefixes are the address space of the other network as this side knows it.
	Prefixes []netip.Prefix
	// Connected is set if both sides exist. Access is set if this side allows traffic between the
	// networks. Forwarded is set if it accepts traffic that the other network only forwards.
	// RemoteGateways is set if this network uses the other's gateways and the routes they learn.
	Connected, Access, Forwarded, RemoteGateways bool
}

// Peers returns the networks that are peered with it, sorted.
func (v *VNet) Peers() []arm.ID {
	var ids []arm.ID
	for _, p := range v.Peerings {
		if p.Remote != "" {
			ids = append(ids, p.Remote)
		}
	}
	return SortIDs(ids)
}

// DecodeVNet reads a virtual network and its subnets.
func DecodeVNet(raw []byte) (*VNet, error) {
	type space struct {
		AddressPrefixes []string `json:"addressPrefixes"`
	}
	var p struct {
		AddressSpace space `json:"addressSpace"`
		DHCP         struct {
			Servers []string `json:"dnsServers"`
		} `json:"dhcpOptions"`
		Subnets  []json.RawMessage `json:"subnets"`
		Peerings []struct {
			Name       string `json:"name"`
			Properties struct {
				Remote      *arm.Ref `json:"remoteVirtualNetwork"`
				RemoteSpace space    `json:"remoteAddressSpace"`
				State       string   `json:"peeringState"`
				// the default is true
				AllowAccess     *bool `json:"allowVirtualNetworkAccess"`
				AllowForwarding bool  `json:"allowForwardedTraffic"`
				RemoteGateways  bool  `json:"useRemoteGateways"`
			} `json:"properties"`
		} `json:"virtualNetworkPeerings"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeVNet)
	if err != nil {
		return nil, err
	}
	v := &VNet{Document: document,
		Prefixes: arm.ParsePrefixes(p.AddressSpace.AddressPrefixes)}
	for _, text := range p.DHCP.Servers {
		if server, err := netip.ParseAddr(text); err == nil {
			v.DNS = append(v.DNS, server)
		}
	}
	for _, peering := range p.Peerings {
		q := peering.Properties
		v.Peerings = append(v.Peerings, Peering{
			Name: peering.Name, Remote: q.Remote.Target(), Prefixes: arm.ParsePrefixes(
				q.RemoteSpace.AddressPrefixes),
			Connected: strings.EqualFold(q.State, "Connected"), Access: q.AllowAccess == nil ||
				*q.AllowAccess, Forwarded: q.AllowForwarding, RemoteGateways: q.RemoteGateways,
		})
	}
	tag := GuardPauseIn(raw)
	for i, rawSubnet := range p.Subnets {
		subnet, err := DecodeSubnet(rawSubnet)
		if err != nil {
			return nil, fmt.Errorf("subnets[%d]: %w", i, err)
		}
		subnet.GuardPausedUntil = tag
		v.Subnets = append(v.Subnets, subnet)
	}
	return v, nil
}

// GuardPauseIn returns the value of the GuardPauseTag in the document of a network; nil if it has
// none.
func GuardPauseIn(raw []byte) (tag *string) {
	// the names of tags are case-insensitive (tag-resources)
	gjson.GetBytes(raw, "tags").ForEach(func(name, value gjson.Result) bool {
		if text := value.String(); strings.EqualFold(name.String(), GuardPauseTag) {
			tag = &text
		}
		return true
	})
	return tag
}

package iac

import (
	"encoding/json"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// armUser is the body of a cluster, a pool or a gateway, as far as it names subnets.
type armUser struct {
	Properties struct {
		NetworkProfile struct {
			Plugin   string `json:"networkPlugin"`
			Outbound string `json:"outboundType"`
			PodCIDR  string `json:"podCidr"`
		} `json:"networkProfile"`
		Pools []struct {
			SubnetID arm.ID `json:"vnetSubnetID"`
		} `json:"agentPoolProfiles"`
		SubnetID arm.ID `json:"vnetSubnetID"`
		Gateways []struct {
			Properties struct {
				Subnet struct {
					ID arm.ID `json:"id"`
				} `json:"subnet"`
			} `json:"properties"`
		} `json:"gatewayIPConfigurations"`
	} `json:"properties"`
}

// ofAzapi returns an azapi_resource as the azurerm resource of the same kind; nil for kinds without
// a subnet.
func (r *tfResource) ofAzapi() *tfResource {
	kind, _, _ := strings.Cut(r.Values.AzapiType, "@")
	var body armUser
	if json.Unmarshal(r.Values.bodyText(), &body) != nil {
		return nil
	}
	p, v := body.Properties, &tfValues{ID: r.Values.ID, Name: r.Values.Name,
		ClusterID: r.Values.ParentID}
	r.Values = v
	switch {
	case strings.EqualFold(kind, arm.TypeCluster):
		r.Type = tfCluster
		v.Profile = append(v.Profile, tfProfile{Plugin: p.NetworkProfile.Plugin,
			Outbound: p.NetworkProfile.Outbound, PodCIDR: p.NetworkProfile.PodCIDR})
		for _, pool := range p.Pools {
			v.DefaultPool = append(v.DefaultPool, tfDefaultPool{SubnetID: pool.SubnetID})
		}
	case strings.EqualFold(kind, arm.TypeCluster+"/agentPools"):
		r.Type, v.PoolSubnet = tfPool, p.SubnetID
	case strings.EqualFold(kind, arm.TypeGateway):
		r.Type = tfGateway
		for _, g := range p.Gateways {
			v.GatewayIPs = append(v.GatewayIPs, tfGatewayIP{SubnetID: g.Properties.Subnet.ID})
		}
	default:
		return nil
	}
	return r
}

package azure

import (
	"context"
	"encoding/json"

	"routekeeper.dev/routekeeper/internal/network"
)

// Survey reads all clusters, subnets and route tables of the scopes (subscriptions or resource groups) that the identity
// may see. Scopes that may not be listed are in the snapshot's Unread, by the scope's ID and the type.
func (c *Client) Survey(ctx context.Context, scopes ...network.ID) (*network.Snapshot, error) {
	s := network.NewSnapshot()
	for _, scope := range network.SortIDs(scopes) {
		for _, list := range []struct {
			resourceType, version string
			add                   func(raw json.RawMessage) error
		}{
			{network.TypeCluster, clusterVersion, func(raw json.RawMessage) error {
				cluster, err := network.DecodeCluster(raw)
				if err == nil {
					s.Clusters[cluster.ID.Key()] = cluster
				}
				return err
			}},
			{network.TypeVNet, networkVersion, func(raw json.RawMessage) error {
				vnet, subnets, err := network.DecodeVNet(raw)
				if err == nil {
					s.VNets[vnet.ID.Key()] = vnet
				}
				for _, subnet := range subnets {
					s.Subnets[subnet.ID.Key()] = subnet
				}
				return err
			}},
			{network.TypeRouteTable, networkVersion, func(raw json.RawMessage) error {
				table, err := network.DecodeRouteTable(raw)
				if err == nil {
					s.Tables[table.ID.Key()] = table
				}
				return err
			}},
		} {
			where := scope + network.ID("/providers/"+list.resourceType)
			var garbage error
			err := c.listAll(ctx, c.address(scope, "/providers/"+list.resourceType, list.version), func(raw json.RawMessage) bool {
				if err := list.add(raw); err != nil {
					garbage = err
				}
				return true
			})
			if garbage != nil {
				garbled(s, where, garbage)
			}
			if err := noted(s, where, err); err != nil {
				return nil, err
			}
		}
	}
	for _, cluster := range s.Clusters {
		if !cluster.MakesOwnVNet() {
			continue
		}
		known := s.Learn(cluster.ID)
		for _, subnet := range s.Subnets {
			if cluster.IsManagedSubnet(subnet.ID) {
				known.OwnSubnets = append(known.OwnSubnets, subnet.ID)
			}
		}
	}
	return s, nil
}

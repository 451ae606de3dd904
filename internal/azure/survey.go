package azure

import (
	"context"
	"encoding/json"
	"time"

	"routekeeper.dev/routekeeper/internal/network"
)

// Survey reads all clusters, subnets and route tables of the scopes (subscriptions or resource groups) that the identity
// may see. Scopes that may not be listed are in the snapshot's Unread, by the scope's ID and the type.
func (c *Client) Survey(ctx context.Context, scopes ...network.ID) (*network.Snapshot, error) {
	s := network.NewSnapshot()
	s.Taken = time.Now().UTC().Truncate(time.Second)
	for _, scope := range network.SortIDs(scopes) {
		s.Listed = append(s.Listed, scope)
		for _, list := range []struct{ resourceType, version string }{
			{network.TypeCluster, clusterVersion}, {network.TypeVNet, networkVersion}, {network.TypeRouteTable, networkVersion},
		} {
			if err := c.listInto(ctx, s, scope, list.resourceType, list.version); err != nil {
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

// Subscriptions lists those that the identity sees.
func (c *Client) Subscriptions(ctx context.Context) ([]network.ID, error) {
	return c.listIDs(ctx, c.endpoint+"/subscriptions?api-version="+subscriptionVersion)
}

// Clusters lists the clusters of a subscription that the identity sees.
func (c *Client) Clusters(ctx context.Context, subscription network.ID) ([]network.ID, error) {
	return c.listIDs(ctx, c.address(subscription, "/providers/"+network.TypeCluster, clusterVersion))
}

// listIDs reads the IDs of a list, sorted.
func (c *Client) listIDs(ctx context.Context, address string) ([]network.ID, error) {
	var ids []network.ID
	err := c.listAll(ctx, address, func(raw json.RawMessage) bool {
		var head struct {
			ID network.ID `json:"id"`
		}
		if json.Unmarshal(raw, &head) == nil && head.ID != "" {
			ids = append(ids, head.ID)
		}
		return true
	})
	return network.SortIDs(ids), err
}

package azure

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// surveyor reads everything in whole scopes, for doctor and init.
type surveyor struct{ *documents }

// Survey reads all clusters, subnets and route tables of the scopes (subscriptions or resource
// groups) that the identity may see. Scopes that may not be listed are in the snapshot's Unread, by
// the scope's ID and the type.
func (c *surveyor) Survey(ctx context.Context, scopes ...arm.ID) (*inventory.Snapshot, error) {
	s := inventory.NewSnapshot()
	s.Taken = time.Now().UTC().Truncate(time.Second)
	for _, scope := range inventory.SortIDs(scopes) {
		s.Listed = append(s.Listed, scope)
		for _, list := range []struct{ resourceType, version string }{
			{arm.TypeCluster, clusterVersion}, {arm.TypeVNet, networkVersion}, {arm.TypeRouteTable,
				networkVersion},
		} {
			if err := c.listInto(ctx, s, scope, list.resourceType, list.version); err != nil {
				return nil, err
			}
		}
	}
	for _, cluster := range s.Clusters {
		if !cluster.UsesAKSVNet() {
			continue
		}
		known := s.Learn(cluster.ID)
		for _, subnet := range s.Subnets {
			if cluster.IsManagedSubnet(subnet.ID) {
				known.AKSSubnets = append(known.AKSSubnets, subnet.ID)
			}
		}
	}
	return s, nil
}

// Subscriptions lists the subscriptions that the identity sees.
func (c *surveyor) Subscriptions(ctx context.Context) ([]arm.ID, error) {
	return c.listIDs(ctx, c.endpoint+"/subscriptions?api-version="+subscriptionVersion)
}

// Clusters lists the clusters of a subscription that the identity sees.
func (c *surveyor) Clusters(ctx context.Context, subscription arm.ID) ([]arm.ID, error) {
	return c.listIDs(ctx, c.address(subscription, "/providers/"+arm.TypeCluster, clusterVersion))
}

// listIDs reads the IDs of a list, sorted.
func (c *caller) listIDs(ctx context.Context, address string) ([]arm.ID, error) {
	var ids []arm.ID
	err := c.listAll(ctx, address, func(raw json.RawMessage) bool {
		if id := gjson.GetBytes(raw, "id").String(); id != "" {
			ids = append(ids, arm.ID(id))
		}
		return true
	})
	return inventory.SortIDs(ids), err
}

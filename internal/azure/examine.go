package azure

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Examine adds to a surveyed snapshot what a diagnosis reads apart from clusters, networks and
// tables: peered networks elsewhere, security groups, gateways, locks, network interfaces, and
// resources that may have the next hops of routes. It reads network interfaces in the given
// resource groups, or in all surveyed scopes if none are given. What cannot be read becomes Unread,
// except resources that may have next hops.
func (c *surveyor) Examine(ctx context.Context, s *inventory.Snapshot, groups ...arm.ID) error {
	if err := c.readPeers(ctx, s); err != nil {
		return err
	}
	if err := c.readLocks(ctx, s); err != nil {
		return err
	}
	if len(groups) == 0 {
		groups = s.Listed
	}
	groups = inventory.SortIDs(slices.Clone(groups))
	for i, scope := range groups {
		c.progress(i, len(groups), "clusters")
		if err := c.readInterfaces(ctx, s, scope); err != nil {
			return err
		}
	}
	c.progress(len(groups), len(groups), "clusters")
	var gateways, filters, tables []arm.ID
	for _, cluster := range s.Clusters {
		gateways = append(gateways, cluster.Ingress)
	}
	for _, subnet := range s.Subnets {
		gateways = append(gateways, subnet.Gateways...)
		filters = append(filters, subnet.SecurityGroup)
		tables = append(tables, subnet.RouteTable)
	}
	for _, nic := range s.Interfaces {
		filters = append(filters, nic.SecurityGroup)
	}
	// The lists have read what is in the scopes; this reads what is elsewhere.
	tables = slices.DeleteFunc(tables, func(id arm.ID) bool {
		return id == "" || s.Table(id) != nil
	})
	if err := c.Read(ctx, s, inventory.Wanted{Tables: inventory.SortIDs(tables)},
		ReadOptions{}); err != nil {
		return err
	}
	if err := c.readHolders(ctx, s); err != nil {
		return err
	}
	if err := c.readInto(ctx, s, arm.TypeGateway, gateways); err != nil {
		return err
	}
	return c.readInto(ctx, s, arm.TypeSecurityGroup, filters)
}

// readInto reads documents of a type that snapshots store.
func (c *surveyor) readInto(ctx context.Context, s *inventory.Snapshot, resourceType string,
	ids []arm.ID) error {
	ids = slices.DeleteFunc(inventory.SortIDs(ids), func(id arm.ID) bool {
		return !id.Is(resourceType)
	})
	return c.read(ctx, resourceType, networkVersion, asWanted(ids), addRead(s))
}

// readPeers reads the peers of the snapshot's networks that are outside the surveyed scopes.
func (c *surveyor) readPeers(ctx context.Context, s *inventory.Snapshot) error {
	var peers []arm.ID
	for _, vnet := range s.VNets {
		for _, id := range vnet.Peers() {
			if s.VNets[id.Key()] == nil {
				peers = append(peers, id)
			}
		}
	}
	return c.readInto(ctx, s, arm.TypeVNet, peers)
}

// readHolders reads the resources that may have the next hops of default routes and of routes that
// do not lead to pods, if they are outside the scopes whose network interfaces were read. An
// appliance is often in a hub, and behind a load balancer often in another subnet than the front
// end.
func (c *surveyor) readHolders(ctx context.Context, s *inventory.Snapshot) error {
	hops := map[netip.Addr]bool{}
	for _, table := range s.Tables {
		for _, r := range table.Routes() {
			if r.Hop.IsValid() && (r.Prefix.Bits() == 0 || !toPods(s, r.Prefix)) {
				hops[r.Hop] = true
			}
		}
	}
	var want inventory.Wanted
	for _, subnet := range s.Subnets {
		for hop := range hops {
			if inventory.Within(subnet.Prefixes, hop) {
				more, _ := s.Holders(subnet)
				want.Add(more)
				break
			}
		}
	}
	read := inventory.NewSnapshot() // an error here is no finding: the address is then unknown
	if err := c.Read(ctx, read, want, ReadOptions{}); err != nil {
		return err
	}
	maps.Copy(s.Interfaces, read.Interfaces)
	maps.Copy(s.Firewalls, read.Firewalls)
	maps.Copy(s.Balancers, read.Balancers)
	want = inventory.Wanted{}
	for _, b := range read.Balancers {
		for _, f := range b.Frontends {
			for _, id := range f.Backends {
				if nic := id.Parent(); hops[f.Address] && s.Interfaces[nic.Key()] == nil {
					want.Interfaces = append(want.Interfaces, nic)
				}
			}
		}
	}
	if err := c.Read(ctx, read, want, ReadOptions{}); err != nil {
		return err
	}
	maps.Copy(s.Interfaces, read.Interfaces)
	return nil
}

func toPods(s *inventory.Snapshot, prefix netip.Prefix) bool {
	for _, cluster := range s.Clusters {
		if slices.ContainsFunc(cluster.PodCIDRs, prefix.Overlaps) {
			return true
		}
	}
	return false
}

func (c *surveyor) readLocks(ctx context.Context, s *inventory.Snapshot) error {
	var subscriptions []arm.ID
	for _, id := range s.Listed {
		subscriptions = append(subscriptions, id.SubscriptionID())
	}
	for _, subscription := range inventory.SortIDs(subscriptions) {
		if err := c.listInto(ctx, s, subscription, arm.TypeLock, lockVersion); err != nil {
			return err
		}
	}
	return nil
}

// listInto lists a type in a scope into the snapshot.
func (c *surveyor) listInto(ctx context.Context, s *inventory.Snapshot, scope arm.ID, resourceType,
	version string) error {
	var documents []json.RawMessage
	below := "/providers/" + resourceType
	err := c.listAll(ctx, c.address(scope, below, version), func(raw json.RawMessage) bool {
		documents = append(documents, raw)
		return true
	})
	return addList(s, scope+arm.ID(below), documents, err)
}

// addList adds the documents of a list, and notes why it is incomplete.
func addList(s *inventory.Snapshot, list arm.ID, documents []json.RawMessage, err error) error {
	for _, raw := range documents {
		addListed(s, list, raw)
	}
	return noted(s, list, err)
}

// readInterfaces reads all network interfaces in a scope, including those of scale sets. The scope
// counts as read only if all of it was.
func (c *surveyor) readInterfaces(ctx context.Context, s *inventory.Snapshot, scope arm.ID) error {
	before := len(s.Unread)
	err := c.listInterfaces(ctx, scope,
		func(list arm.ID, documents []json.RawMessage, err error) error {
			return addList(s, list, documents, err)
		})
	if err == nil && len(s.Unread) == before {
		s.InterfacesOf = append(s.InterfacesOf, scope)
	}
	return err
}

// ReadWriters notes who wrote resources last. If the activity log does not show who it was, the
// note says so: a guess would accuse the wrong person.
func (c *activityLog) ReadWriters(ctx context.Context, s *inventory.Snapshot, ids []arm.ID) error {
	for _, id := range inventory.SortIDs(slices.Clone(ids)) {
		if _, known := s.Writers[id.Key()]; known || id == "" {
			continue
		}
		asked := []arm.ID{id}
		if id.Is(arm.TypeSubnet) {
			asked = append(asked, id.Parent()) // a write of the network writes its subnets
		}
		asking := time.Now()
		last, found, err := c.LastWrite(ctx, asked...)
		fault, fatal := asFault(err)
		switch {
		case fatal != nil:
			return fatal
		case fault != nil:
			s.Writers[id.Key()] = inventory.Writer{Line: "who changed it is unknown: " +
				fault.Error(), Failed: true}
		case !found:
			s.Writers[id.Key()] = inventory.Writer{Line: "who changed it is unknown: the " +
				"activity log, which is minutes late, shows no write of it", Failed: true}
		default:
			s.Writers[id.Key()] = inventory.Writer{Line: last.String(), At: last.At,
				Names: last.names(), Asked: asking}
		}
	}
	return nil
}

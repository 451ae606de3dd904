package azure

import (
	"context"
	"encoding/json"
	"net/http"

	"routekeeper.dev/routekeeper/internal/network"
)

// Read reads what is wanted into the snapshot. What cannot be read becomes Unread there; an error comes back only when
// nothing can be said at all, because the context ended or nobody can be logged in.
func (c *Client) Read(ctx context.Context, s *network.Snapshot, w network.Wanted) error {
	steps := []func() error{
		func() error { return c.readClusters(ctx, s, w.Clusters) },
		func() error { return c.readVNets(ctx, s, w.VNets) },
		func() error { return c.readSubnets(ctx, s, w.Subnets) },
		func() error { return c.readTables(ctx, s, w.Tables) },
	}
	for _, id := range w.OwnSubnets {
		steps = append(steps, func() error { return c.readOwnSubnets(ctx, s, s.Cluster(id)) })
	}
	for _, id := range w.Managed {
		steps = append(steps, func() error { return c.readManaged(ctx, s, s.Cluster(id)) })
	}
	for _, id := range w.Written {
		steps = append(steps, func() error { return c.readWritten(ctx, s, s.Cluster(id)) })
	}
	for _, id := range w.NICs {
		steps = append(steps, func() error { return c.readNICs(ctx, s, s.Cluster(id)) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	// Whatever was asked for is in the snapshot, or said to be missing from it.
	for _, id := range w.Clusters {
		missing(s, id, s.Cluster(id) != nil)
	}
	for _, id := range w.VNets {
		missing(s, id, s.VNets[id.Key()] != nil)
	}
	for _, id := range w.Subnets {
		missing(s, id, s.Subnet(id) != nil)
	}
	for _, id := range w.Tables {
		missing(s, id, s.Table(id) != nil)
	}
	return nil
}

func missing(s *network.Snapshot, id network.ID, there bool) {
	if _, said := s.Unread[id.Key()]; !there && !said {
		s.Unread[id.Key()] = network.Unread{ID: id, Status: http.StatusOK, Message: "Azure answered with another resource"}
	}
}

// unread notes why a resource is not in the snapshot.
func unread(s *network.Snapshot, id network.ID, fault *Error) {
	s.Unread[id.Key()] = network.Unread{ID: id, Absent: fault.Status == http.StatusNotFound, Status: fault.Status, Code: fault.Code, Message: fault.Message, Late: fault.late}
}

// garbled notes a document that is not understood.
func garbled(s *network.Snapshot, id network.ID, err error) {
	s.Unread[id.Key()] = network.Unread{ID: id, Status: http.StatusOK, Message: "the document is not understood: " + err.Error()}
}

func (c *Client) readClusters(ctx context.Context, s *network.Snapshot, ids []network.ID) error {
	return c.read(ctx, network.TypeCluster, clusterVersion, asWanted(ids), func(w wanted, id network.ID, body []byte, fault *Error) {
		if fault != nil {
			unread(s, id, fault)
			return
		}
		cluster, err := network.DecodeCluster(body)
		if err != nil {
			garbled(s, id, err)
			return
		}
		s.Clusters[cluster.ID.Key()] = cluster
	})
}

func (c *Client) readTables(ctx context.Context, s *network.Snapshot, ids []network.ID) error {
	return c.read(ctx, network.TypeRouteTable, networkVersion, asWanted(ids), func(w wanted, id network.ID, body []byte, fault *Error) {
		if fault != nil {
			unread(s, id, fault)
			return
		}
		c.addTable(s, id, body)
	})
}

func (c *Client) addTable(s *network.Snapshot, id network.ID, body []byte) {
	table, err := c.tables.decode(id, body, network.DecodeRouteTable)
	if err != nil {
		garbled(s, id, err)
		return
	}
	s.Tables[table.ID.Key()] = table
}

func asWanted(ids []network.ID) []wanted {
	out := make([]wanted, 0, len(ids))
	for _, id := range network.SortIDs(append([]network.ID(nil), ids...)) {
		out = append(out, wanted{id: id})
	}
	return out
}

// readVNets reads virtual networks with their address space, peerings and all their subnets.
func (c *Client) readVNets(ctx context.Context, s *network.Snapshot, ids []network.ID) error {
	return c.readEach(ctx, asWanted(ids), func(w wanted, id network.ID, body []byte, fault *Error) {
		if fault != nil {
			unread(s, id, fault)
		} else if err := s.Add(body); err != nil {
			garbled(s, id, err)
		}
	})
}

// itself stands for the GET of a virtual network in what is learnt of costs: it may be refused where its subnets are not.
const itself = "itself"

// readSubnets reads subnets by way of their virtual networks: one GET for all of one's subnets, unless only one is wanted,
// or the network itself may not be read.
func (c *Client) readSubnets(ctx context.Context, s *network.Snapshot, ids []network.ID) error {
	of := map[string][]network.ID{}
	for _, id := range network.SortIDs(append([]network.ID(nil), ids...)) {
		of[id.Parent().Key()] = append(of[id.Parent().Key()], id)
	}
	var vnets []wanted
	for _, subnets := range of {
		w := wanted{id: subnets[0].Parent()}
		if len(subnets) == 1 || c.costOf(w.id, itself) == never {
			w.gets = subnets
		}
		vnets = append(vnets, w)
	}
	var again []wanted
	err := c.read(ctx, network.TypeVNet, networkVersion, vnets, func(w wanted, id network.ID, body []byte, fault *Error) {
		switch subnets := of[w.id.Key()]; {
		case id.Is(network.TypeSubnet):
			addSubnet(s, id, body, fault)
		case fault != nil && (fault.Status == http.StatusNotFound || fault.Status == 0 || fault.late):
			for _, subnet := range subnets {
				unread(s, subnet, fault)
			}
		case fault != nil:
			if fault.Refused() {
				c.learn(w.id, itself, never)
			}
			again = append(again, wanted{id: w.id, gets: subnets})
		default:
			if missing := c.addVNet(s, w.id, body, subnets); len(missing) > 0 {
				again = append(again, wanted{id: w.id, gets: missing})
			}
		}
	})
	if err != nil || len(again) == 0 {
		return err
	}
	return c.readEach(ctx, again, func(w wanted, id network.ID, body []byte, fault *Error) { addSubnet(s, id, body, fault) })
}

func addSubnet(s *network.Snapshot, id network.ID, body []byte, fault *Error) {
	if fault != nil {
		unread(s, id, fault)
		return
	}
	subnet, err := network.DecodeSubnet(body)
	if err != nil {
		garbled(s, id, err)
		return
	}
	s.Subnets[subnet.ID.Key()] = subnet
}

// addVNet adds the subnets of a network that are wanted, and returns the ones it does not show.
func (c *Client) addVNet(s *network.Snapshot, id network.ID, body []byte, want []network.ID) []network.ID {
	shown, err := c.subnets.decode(id, body, func(raw []byte) (map[string]*network.Subnet, error) {
		_, subnets, err := network.DecodeVNet(raw)
		shown := map[string]*network.Subnet{}
		for _, subnet := range subnets {
			shown[subnet.ID.Key()] = subnet
		}
		return shown, err
	})
	if err != nil {
		return want // each on its own: one that is not understood is no reason to miss the others
	}
	var missing []network.ID
	for _, id := range want {
		if subnet := shown[id.Key()]; subnet != nil {
			s.Subnets[id.Key()] = subnet
		} else {
			missing = append(missing, id)
		}
	}
	return missing
}

// readOwnSubnets finds the node subnet of a virtual network that AKS made in the node resource group.
func (c *Client) readOwnSubnets(ctx context.Context, s *network.Snapshot, cluster *network.Cluster) error {
	var found []network.ID
	err := c.listAll(ctx, c.address(cluster.NodeGroup(), "/providers/"+network.TypeVNet, networkVersion), func(raw json.RawMessage) bool {
		_, subnets, err := network.DecodeVNet(raw)
		if err != nil {
			garbled(s, cluster.NodeGroup(), err)
			return true
		}
		for _, subnet := range subnets {
			if cluster.IsManagedSubnet(subnet.ID) {
				s.Subnets[subnet.ID.Key()] = subnet
				found = append(found, subnet.ID)
			}
		}
		return true
	})
	if err == nil {
		s.Learn(cluster.ID).OwnSubnets = found
	}
	return noted(s, cluster.NodeGroup(), err)
}

// noted turns a failed list into something unread; the end of the context stays an error.
func noted(s *network.Snapshot, scope network.ID, err error) error {
	fault, fatal := asFault(err)
	if fault != nil {
		unread(s, scope, fault)
	}
	return fatal
}

// readManaged finds the managed tables of the node resource group, and reads them by the way.
func (c *Client) readManaged(ctx context.Context, s *network.Snapshot, cluster *network.Cluster) error {
	known := s.Learn(cluster.ID)
	known.ManagedRead = true
	err := c.listAll(ctx, c.address(cluster.NodeGroup(), "/providers/"+network.TypeRouteTable, networkVersion), func(raw json.RawMessage) bool {
		table, err := network.DecodeRouteTable(raw)
		if err == nil && network.IsManagedTable(table.ID) {
			s.Tables[table.ID.Key()] = table
			known.Managed = append(known.Managed, table.ID)
		}
		return true
	})
	known.Managed = network.SortIDs(known.Managed)
	return noted(s, cluster.NodeGroup(), err)
}

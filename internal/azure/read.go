package azure

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// documents reads resources into snapshots.
type documents struct {
	*activityLog
	reader *reader
	seen   seen // tables and networks, with their subnets
	guards guardTags
}

// ReadOptions configure Read.
type ReadOptions struct {
	// Wait is how long to wait for answers. What has not arrived by then is Unread, and Late. Zero:
	// wait as long as it takes, with all retries, and do not share the read.
	Wait time.Duration
	// Queue is how long to wait in total for calls that are queued because few tokens remain. What
	// did not go out by then is Unread, and Late. Later polls use its answer. Zero: long.
	Queue time.Duration
	// NotBefore is the earliest time of a call whose answer may be used. Zero: now.
	NotBefore time.Time
	// Poll makes reads wait for all others while few tokens remain. A poll uses what other polls
	// have read since NotBefore, and calls that are under way.
	Poll bool
	// Calls counts the calls. Nil: not counted.
	Calls *Calls
	// Life ends calls that continue after Wait. Nil: they continue until they are answered or given
	// up.
	Life context.Context
}

// Read reads what is wanted into the snapshot. What cannot be read becomes Unread there. It returns
// an error only if nothing can be read at all, because the context ended or the login failed.
func (c *documents) Read(ctx context.Context, s *inventory.Snapshot, w inventory.Wanted,
	o ReadOptions) error {
	if slices.ContainsFunc(w.Clusters, inventory.Clusterless) {
		w.Clusters = slices.DeleteFunc(slices.Clone(w.Clusters), inventory.Clusterless)
	}
	ids, strays := w.Documents()
	for _, id := range strays {
		s.Unread[id.Key()] = *otherResource(id)
	}
	if o.Wait > 0 {
		return c.reader.read(ctx, s, w, o)
	}
	ctx = withCall(ctx, func(m *manner) { m.yield, m.calls = o.Poll, o.Calls })
	ofKind := map[string][]arm.ID{}
	for _, id := range ids {
		ofKind[inventory.Kind(id)] = append(ofKind[inventory.Kind(id)], id)
	}
	for _, kind := range slices.Sorted(maps.Keys(ofKind)) {
		if err := c.readKind(ctx, kind, ofKind[kind], intoSnapshot(s)); err != nil {
			return err
		}
	}
	return c.readAround(ctx, s, w)
}

// readAround reads what is rarely needed: whole virtual networks, lists of a cluster's node
// resource group, and the activity log.
func (c *documents) readAround(ctx context.Context, s *inventory.Snapshot,
	w inventory.Wanted) error {
	if err := c.readEach(ctx, asWanted(w.VNets), addRead(s)); err != nil {
		return err
	}
	for _, step := range []struct {
		ids  []arm.ID
		read func(context.Context, *inventory.Snapshot, *inventory.Cluster) error
	}{{w.AKSSubnets, c.readAKSSubnets}, {w.Managed, c.readManaged}, {w.Written, c.readWritten}, {
		w.NICs, c.readNICs}} {
		for _, id := range step.ids {
			if err := step.read(ctx, s, s.Cluster(id)); err != nil {
				return err
			}
		}
	}
	return c.ReadWriters(ctx, s, w.Writers)
}

// sink receives a decoded document, or why there is none. Calls to it do not overlap.
type sink func(id arm.ID, doc any, miss *inventory.Unread)

func intoSnapshot(s *inventory.Snapshot) sink {
	return func(id arm.ID, doc any, miss *inventory.Unread) {
		if miss != nil {
			s.Unread[id.Key()] = *miss
		} else {
			s.Put(doc)
		}
	}
}

// readKind reads documents of one inventory.Kind. It passes on each, or why it was not read.
func (c *documents) readKind(ctx context.Context, kind string, ids []arm.ID, out sink) error {
	told := map[string]bool{}
	each := func(id arm.ID, doc any, miss *inventory.Unread) {
		told[id.Key()] = true
		out(id, doc, miss)
	}
	var err error
	switch kind {
	case arm.TypeSubnet:
		err = c.readSubnets(ctx, ids, each)
	case arm.TypeInterface:
		err = c.readSomeInterfaces(ctx, ids, each)
	default:
		err = c.readPlain(ctx, kind, ids, each)
	}
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !told[id.Key()] {
			out(id, nil, otherResource(id))
		}
	}
	return nil
}

// readPlain reads documents of a type as their lists and GETs show them.
func (c *documents) readPlain(ctx context.Context, resourceType string, ids []arm.ID,
	out sink) error {
	if len(ids) == 0 {
		return nil
	}
	return c.read(ctx, resourceType, apiVersion(ids[0]), asWanted(ids),
		func(_ wanted, id arm.ID, body []byte, fault *Error) { c.give(out, id, body, fault) })
}

// decode decodes a document, unless it is the same as when it was last read.
func (c *documents) decode(id arm.ID, raw []byte) (any, error) {
	switch {
	case id.Is(arm.TypeSubnet):
		return c.guards.decode(raw)
	case id.Is(arm.TypeVNet):
		return c.seen.decode(id, raw, func(raw []byte) (any, error) {
			c.guards.note(id, raw)
			network, err := inventory.DecodeVNet(raw)
			if err == nil {
				network.Raw = nil // its subnets have their own
			}
			return network, err
		})
	case id.Is(arm.TypeRouteTable):
		return c.seen.decode(id, raw, func(raw []byte) (any, error) {
			return inventory.DecodeRouteTable(raw)
		})
	}
	return inventory.Decode(id, raw)
}

// readSomeInterfaces reads network interfaces. It reads those of a scale set by the set's own list,
// the only one that shows them.
func (c *documents) readSomeInterfaces(ctx context.Context, ids []arm.ID, out sink) error {
	sets := map[string][]arm.ID{}
	var single []arm.ID
	for _, id := range ids {
		if set := id.Parent().Parent(); set.Is(arm.TypeScaleSet) {
			sets[set.Key()] = append(sets[set.Key()], id)
		} else {
			single = append(single, id)
		}
	}
	var mu sync.Mutex
	one := func(id arm.ID, doc any, miss *inventory.Unread) {
		mu.Lock()
		defer mu.Unlock()
		out(id, doc, miss)
	}
	g, ctx := errgroup.WithContext(ctx) // at once: one that hangs must not delay the others
	g.Go(func() error {
		return c.readPlain(ctx, arm.TypeInterface, single, one)
	})
	for _, of := range sets {
		g.Go(func() error { return c.readSetInterfaces(ctx, of, one) })
	}
	return g.Wait()
}

// readSetInterfaces reads network interfaces of one scale set.
func (c *documents) readSetInterfaces(ctx context.Context, ids []arm.ID, out sink) error {
	missing := map[string]arm.ID{}
	for _, id := range ids {
		missing[id.Key()] = id
	}
	err := c.listAll(ctx, c.address(ids[0].Parent().Parent(), "/networkInterfaces",
		scaleSetNICsVersion), func(raw json.RawMessage) bool {
		if id, wanted := missing[idIn(raw).Key()]; wanted {
			delete(missing, id.Key())
			c.give(out, id, raw, nil)
		}
		return true
	})
	fault, fatal := asFault(err)
	if fatal != nil {
		return fatal
	}
	for _, id := range missing {
		if fault != nil {
			out(id, nil, unreadFor(id, fault))
		}
	}
	return nil
}

func otherResource(id arm.ID) *inventory.Unread {
	return &inventory.Unread{ID: id, Status: http.StatusOK,
		Message: "Azure answered with another resource"}
}

// unreadFor says why a resource is missing from a snapshot.
func unreadFor(id arm.ID, fault *Error) *inventory.Unread {
	return &inventory.Unread{ID: id, Absent: fault.Status == http.StatusNotFound,
		Status: fault.Status, Code: fault.Code, Message: fault.Message, Late: fault.late}
}

// notUnderstood returns the text about a document that cannot be decoded.
func notUnderstood(id arm.ID, err error) *inventory.Unread {
	return &inventory.Unread{ID: id, Status: http.StatusOK,
		Message: "the document cannot be decoded: " + err.Error()}
}

func unread(s *inventory.Snapshot, id arm.ID, fault *Error) {
	s.Unread[id.Key()] = *unreadFor(id, fault)
}

func garbled(s *inventory.Snapshot, id arm.ID, err error) {
	s.Unread[id.Key()] = *notUnderstood(id, err)
}

// give decodes a document for a sink.
func (c *documents) give(out sink, id arm.ID, body []byte, fault *Error) {
	if fault != nil {
		out(id, nil, unreadFor(id, fault))
		return
	}
	switch doc, err := c.decode(id, body); {
	case err != nil:
		out(id, nil, notUnderstood(id, err))
	case !doc.(interface{ Received() arm.Document }).Received().ID.Equal(id):
		out(id, nil, otherResource(id))
	default:
		out(id, doc, nil)
	}
}

func asWanted(ids []arm.ID) []wanted {
	out := make([]wanted, 0, len(ids))
	for _, id := range inventory.SortIDs(append([]arm.ID(nil), ids...)) {
		out = append(out, wanted{id: id})
	}
	return out
}

// networkGET is the key under which list costs have the GET of a virtual network: that GET may be
// refused, or hang, while the GETs of its subnets work.
const networkGET = "itself"

// readSubnets reads subnets through their virtual networks: one GET shows all subnets of a network,
// and the tags that can pause their guard. If the network itself may not be read, or its GET hangs,
// it reads the subnets one by one.
func (c *documents) readSubnets(ctx context.Context, ids []arm.ID, out sink) error {
	of := map[string][]arm.ID{}
	for _, id := range inventory.SortIDs(append([]arm.ID(nil), ids...)) {
		of[id.Parent().Key()] = append(of[id.Parent().Key()], id)
	}
	var vnets []wanted
	for _, subnets := range of {
		w := wanted{id: subnets[0].Parent(), parts: subnets}
		if c.costOf(w.id, networkGET) == refusedCost {
			w.gets = subnets
		}
		vnets = append(vnets, w)
	}
	var again []wanted
	err := c.read(ctx, arm.TypeVNet, networkVersion, vnets,
		func(w wanted, id arm.ID, body []byte, fault *Error) {
			switch subnets := of[w.id.Key()]; {
			case id.Is(arm.TypeSubnet):
				c.give(out, id, body, fault)
			case fault != nil && fault.Status == 0 && !fault.login() && mannerOf(ctx).answer > 0:
				c.learnFor(w.id, networkGET, refusedCost, hungMemory)
				again = append(again, wanted{id: w.id, gets: subnets})
			case fault != nil &&
				(fault.Status == http.StatusNotFound || fault.Status == 0 || fault.late):
				for _, subnet := range subnets {
					out(subnet, nil, unreadFor(subnet, fault))
				}
			case fault != nil:
				if fault.Refused() {
					c.learnFor(w.id, networkGET, refusedCost, c.guards.patience(w.id))
				}
				again = append(again, wanted{id: w.id, gets: subnets})
			default:
				if missing := c.addVNet(out, w.id, body, subnets); len(missing) > 0 {
					again = append(again, wanted{id: w.id, gets: missing})
				}
			}
		})
	if err != nil || len(again) == 0 {
		return err
	}
	return c.readEach(ctx, again, func(_ wanted, id arm.ID, body []byte, fault *Error) {
		c.give(out, id, body, fault)
	})
}

// addVNet passes on the wanted subnets of a network, and returns the ones that are missing from it.
func (c *documents) addVNet(out sink, id arm.ID, body []byte, want []arm.ID) []arm.ID {
	network, err := c.decode(id, body)
	if err != nil {
		return want // one by one: a subnet that cannot be decoded must not hide the others
	}
	shown := map[string]*inventory.Subnet{}
	for _, subnet := range network.(*inventory.VNet).Subnets {
		shown[subnet.ID.Key()] = subnet
	}
	var missing []arm.ID
	for _, id := range want {
		if subnet := shown[id.Key()]; subnet != nil {
			out(subnet.ID, subnet, nil)
		} else {
			missing = append(missing, id)
		}
	}
	return missing
}

// readAKSSubnets finds the node subnet of a virtual network that AKS created in the node resource
// group.
func (c *documents) readAKSSubnets(ctx context.Context, s *inventory.Snapshot,
	cluster *inventory.Cluster) error {
	var found []arm.ID
	err := c.listAll(ctx, c.address(cluster.NodeGroup(), "/providers/"+arm.TypeVNet,
		networkVersion), func(raw json.RawMessage) bool {
		_, unreadable := inventory.DecodeVNet(raw)
		for _, one := range subnetsIn(idIn(raw), raw) {
			if one.err == nil && cluster.IsManagedSubnet(one.id) {
				s.Subnets[one.id.Key()] = one.subnet
				found = append(found, one.id)
				unreadable = nil // that was another subnet, not a wanted one
			}
		}
		if unreadable != nil {
			garbled(s, cluster.NodeGroup(), named(raw, unreadable))
		}
		return true
	})
	if err == nil {
		s.Learn(cluster.ID).AKSSubnets = found
	}
	return noted(s, cluster.NodeGroup(), err)
}

// noted turns a failed list into an Unread; the end of the context stays an error.
func noted(s *inventory.Snapshot, scope arm.ID, err error) error {
	fault, fatal := asFault(err)
	if fault != nil {
		unread(s, scope, fault)
	}
	return fatal
}

// readManaged finds the managed tables of the node resource group, and reads them as well.
func (c *documents) readManaged(ctx context.Context, s *inventory.Snapshot,
	cluster *inventory.Cluster) error {
	known := s.Learn(cluster.ID)
	known.ManagedRead = true
	err := c.listAll(ctx, c.address(cluster.NodeGroup(), "/providers/"+arm.TypeRouteTable,
		networkVersion), func(raw json.RawMessage) bool {
		id := idIn(raw)
		switch table, err := inventory.DecodeRouteTable(raw); {
		case err != nil && id == "":
			garbled(s, cluster.NodeGroup(), err)
		case !inventory.IsManagedTable(id):
		case err != nil: // it exists, and may be the cluster's
			garbled(s, id, err)
			known.Managed = append(known.Managed, id)
		default:
			s.Tables[id.Key()] = table
			known.Managed = append(known.Managed, id)
		}
		return true
	})
	known.Managed = inventory.SortIDs(known.Managed)
	return noted(s, cluster.NodeGroup(), err)
}

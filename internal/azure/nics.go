package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// readNICs reads the addresses of the cluster's nodes: of the NICs in its scale sets, and of single
// machines in the node resource group. If one part fails, the whole read fails, because the answer
// proves absence.
func (c *documents) readNICs(ctx context.Context, s *inventory.Snapshot,
	cluster *inventory.Cluster) error {
	nics := &inventory.NICs{Holder: map[netip.Addr]string{}, Nodes: map[netip.Addr]string{},
		Drops: map[netip.Addr]bool{}, Read: time.Now()}
	s.Learn(cluster.ID).NICs = nics
	err := c.listInterfaces(ctx, cluster.NodeGroup(),
		func(list arm.ID, documents []json.RawMessage, err error) error {
			var garbled arm.ID
			for _, raw := range documents {
				if !addNIC(nics, raw) {
					garbled = cmp.Or(idIn(raw), "a network interface")
				}
			}
			if err == nil && garbled != "" {
				return &Error{Method: http.MethodGet, ID: list, Status: http.StatusOK,
					Message: string(garbled) + " cannot be decoded"}
			}
			return err
		})
	fault, fatal := asFault(err)
	if fault != nil {
		nics.Failed = fault.Error()
		if fault.late {
			unread(s, cluster.NodeGroup(), fault)
		}
	}
	return fatal
}

// listInterfaces lists the network interfaces in a scope: in one list those of single machines, and
// in a list for each scale set those of its instances. It passes on each list, one at a time, with
// the error that ended it, and stops at the first error that use returns.
func (c *lister) listInterfaces(ctx context.Context, scope arm.ID,
	use func(list arm.ID, documents []json.RawMessage, err error) error) error {
	const ofSets = "/providers/" + arm.TypeScaleSet
	sets, err := c.listIDs(ctx, c.address(scope, ofSets, scaleSetVersion))
	if err != nil {
		if err := use(scope+ofSets, nil, err); err != nil {
			return err
		}
	}
	serial := make(chan struct{}, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	read := func(list arm.ID, version string) {
		g.Go(func() error {
			var documents []json.RawMessage
			err := c.listAll(ctx, c.address(list, "", version), func(raw json.RawMessage) bool {
				documents = append(documents, raw)
				return true
			})
			serial <- struct{}{}
			defer func() { <-serial }()
			return use(list, documents, err)
		})
	}
	read(scope+"/providers/"+arm.TypeInterface, networkVersion)
	for _, set := range sets {
		read(set+"/networkInterfaces", scaleSetNICsVersion)
	}
	return g.Wait()
}

// addNIC notes a NIC's addresses, and reports whether it could be decoded.
func addNIC(nics *inventory.NICs, raw []byte) bool {
	nic, err := inventory.DecodeInterface(raw)
	if err != nil || nic.Unreadable {
		return false
	}
	for _, c := range nic.Configs {
		if c.Address.IsValid() {
			nics.Holder[c.Address] = nic.Holder()
			if node := nic.Node(); node != "" {
				nics.Nodes[c.Address] = node
			}
			if !nic.Forwarding {
				nics.Drops[c.Address] = true
			}
		}
	}
	return true
}

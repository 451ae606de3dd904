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
	sets, err := c.listIDs(ctx,
		c.address(cluster.NodeGroup(), "/providers/"+arm.TypeScaleSet, scaleSetVersion))
	if err == nil {
		lists := []string{
			c.address(cluster.NodeGroup(), "/providers/Microsoft.Network/networkInterfaces",
				networkVersion)}
		for _, set := range sets {
			lists = append(lists, c.address(set, "/networkInterfaces", scaleSetNICsVersion))
		}
		err = c.readNICLists(ctx, lists, nics)
	}
	fault, fatal := asFault(err)
	if fault != nil {
		nics.Failed = fault.Error()
		if fault.late {
			unread(s, cluster.NodeGroup(), fault)
		}
	}
	return fatal
}

func (c *documents) readNICLists(ctx context.Context, lists []string, nics *inventory.NICs) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	serial := make(chan struct{}, 1)
	for _, list := range lists {
		g.Go(func() error {
			var garbled arm.ID
			err := c.listAll(ctx, list, func(raw json.RawMessage) bool {
				serial <- struct{}{}
				defer func() { <-serial }()
				if !addNIC(nics, raw) {
					garbled = cmp.Or(idIn(raw), "a network interface")
				}
				return true
			})
			if err == nil && garbled != "" {
				return &Error{Method: http.MethodGet, ID: idOf(list), Status: http.StatusOK,
					Message: string(garbled) + " cannot be decoded"}
			}
			return err
		})
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

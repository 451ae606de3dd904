package azure

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"

	"golang.org/x/sync/errgroup"

	"routekeeper.dev/routekeeper/internal/network"
)

// readNICs reads the addresses of the cluster's nodes: of the NICs in its scale sets, and of any others in the node
// resource group (pools of single machines). One part that fails fails all: the answer proves what is not there.
func (c *Client) readNICs(ctx context.Context, s *network.Snapshot, cluster *network.Cluster) error {
	nics := &network.NICs{Holder: map[netip.Addr]string{}}
	s.Learn(cluster.ID).NICs = nics
	var sets []network.ID
	err := c.listAll(ctx, c.address(cluster.NodeGroup(), "/providers/"+network.TypeScaleSet, scaleSetVersion), func(raw json.RawMessage) bool {
		var head struct {
			ID network.ID `json:"id"`
		}
		if json.Unmarshal(raw, &head) == nil && head.ID.Is(network.TypeScaleSet) {
			sets = append(sets, head.ID)
		}
		return true
	})
	if err == nil {
		lists := []string{c.address(cluster.NodeGroup(), "/providers/Microsoft.Network/networkInterfaces", networkVersion)}
		for _, set := range sets {
			lists = append(lists, c.address(set, "/networkInterfaces", scaleSetNICsVersion))
		}
		err = c.readNICLists(ctx, lists, nics)
	}
	fault, fatal := asFault(err)
	if fault != nil {
		nics.Failed = fault.Error()
	}
	return fatal
}

func (c *Client) readNICLists(ctx context.Context, lists []string, nics *network.NICs) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	serial := make(chan struct{}, 1)
	for _, list := range lists {
		g.Go(func() error {
			garbled := false
			err := c.listAll(ctx, list, func(raw json.RawMessage) bool {
				serial <- struct{}{}
				defer func() { <-serial }()
				garbled = garbled || !addNIC(nics, raw)
				return true
			})
			if err == nil && garbled {
				return &Error{Method: http.MethodGet, ID: idOf(list), Status: http.StatusOK, Message: "a network interface is not understood"}
			}
			return err
		})
	}
	return g.Wait()
}

// addNIC notes a NIC's addresses, and reports whether it was understood.
func addNIC(nics *network.NICs, raw []byte) bool {
	var nic struct {
		ID         network.ID `json:"id"`
		Properties struct {
			IPConfigurations []struct {
				Properties struct {
					PrivateIPAddress string `json:"privateIPAddress"`
				} `json:"properties"`
			} `json:"ipConfigurations"`
		} `json:"properties"`
	}
	if json.Unmarshal(raw, &nic) != nil {
		return false
	}
	for _, configuration := range nic.Properties.IPConfigurations {
		text := configuration.Properties.PrivateIPAddress
		if text == "" {
			continue // a dual-stack NIC may be short of one for a moment
		}
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return false
		}
		nics.Holder[addr] = holderName(nic.ID)
	}
	return true
}

// holderName is the instance of a scale set that a NIC belongs to, or the NIC's own name.
func holderName(id network.ID) string {
	for at := id; at != ""; at = at.Parent() {
		if at.Is(network.TypeScaleSet + "/virtualMachines") {
			return at.Parent().Name() + " instance " + at.Name()
		}
	}
	return id.Name()
}

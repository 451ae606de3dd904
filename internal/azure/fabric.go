package azure

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Hop is where Azure's network sends packets of a network interface.
type Hop struct {
	Type    string     // a next hop type of a route
	Address netip.Addr // zero if the type has none
}

// String returns the hop in the notation of a route's next hop.
func (h Hop) String() string {
	if h.Address.IsValid() {
		return h.Address.String()
	}
	return h.Type
}

// Interface reads a network interface of a machine or of a scale set instance. It finds the latter
// in the scale set's list, which needs no additional right.
func (c *Client) Interface(ctx context.Context, id arm.ID) (*inventory.Interface, error) {
	if !id.Is(arm.TypeScaleSetInterface) {
		doc, err := c.getResource(ctx, id)
		if err != nil {
			return nil, err
		}
		return inventory.DecodeInterface(doc.Raw)
	}
	set := id.Parent().Parent()
	var found *inventory.Interface
	var wrong error
	each := func(raw json.RawMessage) (more bool) {
		var nic *inventory.Interface
		nic, wrong = inventory.DecodeInterface(raw)
		if wrong == nil && nic.ID.Equal(id) {
			found = nic
		}
		return wrong == nil && found == nil
	}
	err := c.listAll(ctx, c.address(set, "/networkInterfaces", scaleSetNICsVersion), each)
	switch {
	case err != nil:
		return nil, err
	case wrong != nil:
		return nil, wrong
	case found == nil:
		return nil, &Error{Method: http.MethodGet, ID: id, Status: http.StatusNotFound,
			Message: "the scale set does not list it"}
	}
	return found, nil
}

// NextHop asks where Azure's network sends packets from a network interface to an address. It takes
// some seconds and needs a running machine.
//
// For a virtual machine's interface it reads the effective routes ("Network Interfaces - Get
// Effective Route Table"). Azure's reference has no such call for interfaces of scale sets: for
// these it asks the Network Watcher of the region ("Network Watchers - Get Next Hop"), with the
// instance as the machine. The reference mentions only virtual machines, so expect refusals.
func (c *Client) NextHop(
	ctx context.Context, nic *inventory.Interface, region string, to netip.Addr,
) (Hop, error) {
	ctx = withCall(ctx, func(m *manner) { m.yield = true })
	if !nic.ID.Is(arm.TypeScaleSetInterface) {
		body, err := c.ask(ctx, nic.ID, "/effectiveRouteTable", nil)
		if err != nil {
			return Hop{}, err
		}
		return effectiveHop(nic.ID, body, to)
	}
	watcher, err := c.watcher(ctx, nic.ID.Subscription(), region)
	if err != nil {
		return Hop{}, err
	}
	question := map[string]string{
		"targetResourceId": string(nic.ID.Parent()), "targetNicResourceId": string(nic.ID),
		"sourceIPAddress": sourceOf(nic, to), "destinationIPAddress": to.String(),
	}
	sent, err := json.Marshal(question)
	if err != nil {
		return Hop{}, err
	}
	body, err := c.ask(ctx, watcher, "/nextHop", sent)
	if err != nil {
		return Hop{}, err
	}
	var said struct {
		Type    string `json:"nextHopType"`
		Address string `json:"nextHopIpAddress"`
	}
	if err := json.Unmarshal(body, &said); err != nil || said.Type == "" {
		return Hop{}, misunderstood(watcher, "/nextHop")
	}
	address, _ := netip.ParseAddr(said.Address) // only some types have one
	return Hop{said.Type, address}, nil
}

// sourceOf is an address of the interface in the family of another address.
func sourceOf(nic *inventory.Interface, like netip.Addr) string {
	for _, config := range nic.Configs {
		if config.Address.IsValid() && config.Address.Is4() == like.Is4() {
			return config.Address.String()
		}
	}
	return ""
}

// effectiveHop finds the route that packets to an address take: the longest active prefix.
func effectiveHop(nic arm.ID, body []byte, to netip.Addr) (Hop, error) {
	var said struct {
		Value []struct {
			State    string   `json:"state"`
			Prefixes []string `json:"addressPrefix"`
			Type     string   `json:"nextHopType"`
			Hops     []string `json:"nextHopIpAddress"`
		} `json:"value"`
	}
	if err := json.Unmarshal(body, &said); err != nil || len(said.Value) == 0 {
		return Hop{}, misunderstood(nic, "/effectiveRouteTable")
	}
	best, longest := Hop{Type: inventory.HopNone}, -1
	for _, route := range said.Value {
		for _, text := range route.Prefixes {
			prefix, err := netip.ParsePrefix(text)
			if err != nil || !strings.EqualFold(route.State, "Active") ||
				!prefix.Contains(to) || prefix.Bits() <= longest {
				continue // a service tag leads to no pod
			}
			best, longest = Hop{Type: route.Type}, prefix.Bits()
			if len(route.Hops) > 0 {
				best.Address, _ = netip.ParseAddr(route.Hops[0])
			}
		}
	}
	return best, nil
}

func misunderstood(id arm.ID, action string) *Error {
	return &Error{Method: http.MethodPost, ID: id + arm.ID(action), Status: http.StatusOK,
		Message: "the answer cannot be decoded"}
}

// watcher finds the Network Watcher of a region: each region of a subscription has one.
func (c *Client) watcher(ctx context.Context, subscription, region string) (arm.ID, error) {
	const watchers = "/providers/Microsoft.Network/networkWatchers"
	scope := arm.ID("/subscriptions/" + subscription)
	var found arm.ID
	err := c.listAll(ctx, c.address(scope, watchers, networkVersion),
		func(raw json.RawMessage) bool {
			var doc struct {
				ID       arm.ID `json:"id"`
				Location string `json:"location"`
			}
			if err := json.Unmarshal(raw, &doc); err == nil && sameRegion(doc.Location, region) {
				found = doc.ID
			}
			return found == ""
		})
	if err == nil && found == "" {
		err = errors.New("there is no Network Watcher in " + region)
	}
	return found, err
}

// sameRegion compares names of regions, which Azure writes both as westeurope and as West Europe.
func sameRegion(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, " ", ""), strings.ReplaceAll(b, " ", ""))
}

// ask posts to a resource and follows the operation to its result. It changes nothing.
func (c *Client) ask(
	ctx context.Context, id arm.ID, action string, body []byte,
) ([]byte, error) {
	address := c.address(id, action, networkVersion)
	if err := c.throttle.wait(ctx, http.MethodPost, string(id)+action); err != nil {
		return nil, err
	}
	a, err := c.send(policy.WithRetryOptions(ctx, once), http.MethodPost, address, body, "")
	for err == nil && a.status == http.StatusAccepted {
		if next := a.header.Get("Location"); next != "" {
			address = next
		}
		wait := retryAfter(&http.Response{Header: a.header})
		if wait == 0 {
			wait = pollInterval
		}
		if err := Pause(ctx, wait); err != nil {
			return nil, err
		}
		a, err = c.get(withCall(ctx, func(m *manner) { m.polling = true }), address)
	}
	return a.body, err
}

package inventory

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Former is what a subnet or a route table had once, and how that is known.
type Former struct {
	// Property and Value are what a subnet had.
	Property Property `json:"property,omitempty"`
	Value    arm.ID   `json:"value,omitempty"`
	// Route and Hop are the name and the next hop of a table's route for 0.0.0.0/0.
	Route string     `json:"route,omitempty"`
	Hop   netip.Addr `json:"hop,omitzero"`
	// How names the evidence: who wrote it, and when.
	How string `json:"how"`
}

// NoteFormer adds what a subnet or a table had once.
func (s *Snapshot) NoteFormer(id arm.ID, all ...Former) {
	s.Former[id.Key()] = append(slices.Clip(s.Former[id.Key()]), all...)
}

// NoteBefore adds what a subnet and its table had in an earlier snapshot.
func (s *Snapshot) NoteBefore(before *Snapshot, id arm.ID, how string) {
	subnet := before.Subnet(id)
	if subnet == nil {
		return
	}
	for _, property := range Properties {
		if value := subnet.Has(property); value != "" {
			s.NoteFormer(id, Former{Property: property, Value: value, How: how})
		}
	}
	if table := before.Table(subnet.RouteTable); table != nil && len(table.Default()) > 0 {
		r := table.Default()[0]
		s.NoteFormer(table.ID, Former{Route: r.Name, Hop: r.Hop, How: how})
	}
}

// FormerIn returns what a write gave the resource id, according to the write's body in the activity
// log. The written resource is the subnet id or its network, or the table id or one of its routes.
func FormerIn(body string, written, id arm.ID) (all []Former) {
	type subnet struct {
		Name       string
		Properties map[string]json.RawMessage
	}
	type route struct {
		Name       string
		Properties struct{ AddressPrefix, NextHopIPAddress string }
	}
	of := func(s subnet) {
		for _, property := range Properties {
			var ref arm.Ref
			if json.Unmarshal(s.Properties[string(property)], &ref) != nil {
				continue
			}
			if value, err := arm.ParseID(string(ref.ID)); err == nil && value.Is(property.Type()) {
				all = append(all, Former{Property: property, Value: value})
			}
		}
	}
	leads := func(r route) {
		hop, err := netip.ParseAddr(r.Properties.NextHopIPAddress)
		if r.Properties.AddressPrefix == "0.0.0.0/0" && err == nil {
			all = append(all, Former{Route: r.Name, Hop: hop})
		}
	}
	raw := []byte(body)
	switch {
	case id.Is(arm.TypeSubnet) && written.Equal(id):
		var s subnet
		if json.Unmarshal(raw, &s) == nil {
			of(s)
		}
	case id.Is(arm.TypeSubnet) && written.Equal(id.Parent()):
		var vnet struct{ Properties struct{ Subnets []subnet } }
		if json.Unmarshal(raw, &vnet) != nil {
			return nil
		}
		for _, s := range vnet.Properties.Subnets {
			if strings.EqualFold(s.Name, id.Name()) {
				of(s)
			}
		}
	case id.Is(arm.TypeRouteTable) && written.Equal(id):
		var table struct{ Properties struct{ Routes []route } }
		if json.Unmarshal(raw, &table) != nil {
			return nil
		}
		for _, r := range table.Properties.Routes {
			leads(r)
		}
	case id.Is(arm.TypeRouteTable) && written.Parent().Equal(id):
		var r route
		if json.Unmarshal(raw, &r) == nil {
			r.Name = written.Name()
			leads(r)
		}
	}
	return all
}
